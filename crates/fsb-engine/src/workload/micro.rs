//! The 2023 micro-benchmarks (Pokorný 2023, §4.4.3 and §5.5 to §5.7): the common part of create,
//! read and write.
//!
//! An iteration sets its files up, does the work and removes the files again; only the work is
//! timed. A cycle is a number of iterations that the threads share, each thread in its own
//! directory. The sample of a cycle is the mean time of one iteration. A cycle also has a duration,
//! from the first start of a thread to the last end, which includes making and removing files. Some
//! cycles warm up, the others are the samples. All cycles together are one trial.
//!
//! With a time limit, a measurement has no warm-up cycles and ends with the cycle in which the
//! limit passes. The runner limits the warm-up block, which only finds out how long a cycle takes.
//! An interrupted measurement ends with an iteration, and has the samples of the cycles that ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fsb_model::metric::ITERATION_TIME;
use fsb_model::{Access, CacheState, Params};
use rustix::fs::OFlags;

use super::job::{Job, Workload};
use super::label;
use super::measure::{Subject, measure_set};
use super::parameter::{self, Parameter, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use crate::backend::{self, Backend, Demands, Purpose, Verb};
use crate::clock::OperationKind;
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, Content, Interest, Layout};
use crate::io_loop::{ByteRange, Files, IoLoop, IoOptions, OpenFileSet};
use crate::order::{self, Visits};
use crate::profile::{Profile, Renewal};
use crate::rendezvous::RoundBarrier;
use crate::task::{Context, Gate, Measurement, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// The timed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bench {
    /// Creating empty files.
    Create,
    /// Reading files that were just written.
    Read,
    /// Writing new files.
    Write,
}

impl Bench {
    fn name(self) -> &'static str {
        match self {
            Bench::Create => "micro-create",
            Bench::Read => "micro-read",
            Bench::Write => "micro-write",
        }
    }

    fn parameters(self) -> Vec<Parameter> {
        use ParameterKind::{Number, Size};
        let files = if self == Bench::Create { "1000" } else { "1" };
        let mut all = group(
            ParameterGroup::Work,
            [
                Parameter::new(
                    "iterations",
                    Number(1..=1_000_000),
                    "10",
                    "iterations of a cycle",
                ),
                Parameter::new(
                    "cycles",
                    Number(1..=100_000),
                    "30",
                    "measured cycles; each is a sample",
                ),
                Parameter::new(
                    "warmup_cycles",
                    Number(0..=100_000),
                    "3",
                    "cycles before the measured ones",
                ),
            ],
        );
        all.extend(group(
            ParameterGroup::Files,
            [Parameter::new(
                "file_count",
                Number(1..=1_000_000),
                files,
                "files of an iteration",
            )],
        ));
        if self != Bench::Create {
            all.extend(group(
                ParameterGroup::Files,
                [
                    Parameter::new("block_size", Size(1..=1 << 30), "512K", "size of a record"),
                    Parameter::new(
                        "block_count",
                        Number(1..=1 << 30),
                        "16",
                        "records of a file",
                    ),
                    parameter::data(),
                ],
            ));
            all.extend(group(
                ParameterGroup::Calls,
                [Parameter::flag("random", "visit records in random order")],
            ));
        }
        all.extend(group(
            ParameterGroup::Calls,
            [parameter::backend(&[]), parameter::threads()],
        ));
        all.extend(group(ParameterGroup::Results, [parameter::label()]));
        all
    }

    fn operation(self) -> &'static str {
        match self {
            Bench::Create => "create",
            Bench::Read => "read",
            Bench::Write => "write",
        }
    }
}

/// A member of the registry.
pub(super) struct MicroWorkload {
    bench: Bench,
    pub(super) about: &'static str,
    pub(super) example: fn() -> Params,
}

impl Workload for MicroWorkload {
    fn name(&self) -> &'static str {
        self.bench.name()
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn example(&self) -> Params {
        (self.example)()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.bench.parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(MicroJob::parse(self.bench, params, sizing)?))
    }
}

/// A micro-benchmark with its parameters.
struct MicroJob {
    bench: Bench,
    file_count: u64,
    block_size: u64,
    block_count: u64,
    access: Access,
    iterations: u64,
    cycles: u64,
    warmup_cycles: u64,
    threads: u32,
    backend: &'static dyn Backend,
    label: Option<String>,
}

impl MicroJob {
    fn parse(bench: Bench, params: &Params, sizing: &Sizing) -> Result<MicroJob, ParamError> {
        let mut reader = Reader::new(bench.name(), bench.parameters(), params, sizing)?;
        let file_count = reader.number("file_count")?;
        let (mut block_size, mut block_count, mut random) = (0, 0, false);
        if bench != Bench::Create {
            block_size = reader.number("block_size")?;
            block_count = reader.number("block_count")?;
            random = reader.flag("random")?;
        }
        let backend = reader.backend()?;
        let demands = Demands {
            depth: 1,
            cache: CacheState::Any,
            appends: false,
            record_size: block_size,
            whole_file: None,
        };
        backend::check(backend, demands).map_err(|(key, message)| reader.error(key, message))?;
        let job = MicroJob {
            bench,
            file_count,
            block_size,
            block_count,
            access: if random {
                Access::Random
            } else {
                Access::Sequential
            },
            iterations: reader.number("iterations")?,
            cycles: reader.number("cycles")?,
            warmup_cycles: reader.number("warmup_cycles")?,
            threads: reader.threads()?,
            backend,
            label: reader.text("label")?,
        };
        let (files, bytes) = (
            job.layout().files,
            u128::from(block_size) * u128::from(block_count),
        );
        if u128::from(files) * bytes > 1 << 60 {
            return Err(reader.error(
                "block_count",
                format!(
                    "{files} files of {bytes} bytes are too large for any file \
                system"
                ),
            ));
        }
        if files > fileset::MOST_FILES {
            return Err(reader.error("file_count", format!("{files} files in all are too many")));
        }
        reader.finish();
        Ok(job)
    }

    /// Each thread has a directory of its own.
    fn layout(&self) -> Layout {
        Layout {
            files: self.file_count * u64::from(self.threads),
            file_size: self.block_size.saturating_mul(self.block_count),
            files_per_directory: self.file_count,
        }
    }

    fn label(&self) -> String {
        let operation = self.bench.operation();
        let random = if self.access == Access::Random {
            "random "
        } else {
            ""
        };
        let size = label::size(self.layout().file_size);
        let block = label::size(self.block_size);
        let files = if self.file_count == 1 {
            String::new()
        } else {
            format!("{} files of ", self.file_count)
        };
        let what = match self.bench {
            Bench::Create => format!("micro create {} files", self.file_count),
            Bench::Read | Bench::Write => {
                format!("micro {random}{operation} {files}{size} in {block} blocks")
            }
        };
        what + &label::workers(self.threads, 1)
    }

    fn io_options(&self, purpose: Purpose) -> IoOptions {
        let (verb, kind) = match purpose {
            Purpose::Read => (Verb::Read, OperationKind::Read),
            _ => (Verb::Write, OperationKind::Write),
        };
        IoOptions {
            purpose,
            verb,
            kind,
            record_size: self.block_size,
            largest_record: self.block_size,
            range: ByteRange {
                first: 0,
                length: self.layout().file_size,
            },
            access: self.access,
            files: Files {
                first: 0,
                count: self.layout().files,
            },
            hold: false,
            flush_each: false,
            depth: 1,
            batch: 1,
            verify: false,
            lock: None,
            open_flags: OFlags::empty(),
            evict_passes: false,
            advice: None,
            prefetch: 0,
        }
    }
}

impl Job for MicroJob {
    fn profile(&self) -> Profile {
        let layout = self.layout();
        let inodes = layout.files + layout.directories() + 1;
        Profile {
            files: layout.files,
            file_size: layout.file_size,
            record_size: self.block_size,
            threads: self.threads,
            backend: self.backend.name().to_owned(),
            renewal: Renewal::Never,
            operations: self.iterations * self.cycles,
            metadata_only: self.bench == Bench::Create,
            space: layout.files * layout.file_size.next_multiple_of(4096) + inodes * 2048,
            inodes,
            ..Profile::base(
                self.bench.operation(),
                &ITERATION_TIME,
                self.label.clone().unwrap_or_else(|| self.label()),
            )
        }
    }

    fn params(&self) -> Params {
        let mut params = params::from_pairs([
            ("backend", self.backend.name().into()),
            ("cycles", self.cycles.into()),
            ("file_count", self.file_count.into()),
            ("iterations", self.iterations.into()),
            ("threads", self.threads.into()),
            ("warmup_cycles", self.warmup_cycles.into()),
        ]);
        if self.bench != Bench::Create {
            params.insert("block_count".to_owned(), self.block_count.into());
            params.insert("block_size".to_owned(), self.block_size.into());
            params.insert("random".to_owned(), (self.access == Access::Random).into());
        }
        if let Some(label) = &self.label {
            params.insert("label".to_owned(), label.as_str().into());
        }
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    fn one_client(&self) -> Option<&'static str> {
        None
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        fileset::build(
            &context.set(),
            &self.layout(),
            Content::Directories,
            false,
            context.data(),
        )
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let set = OpenFileSet::open(context.backend(self.backend), context, self.layout())?;
        let threads = MicroThreads {
            job: self,
            set: &set,
            context,
            barrier: RoundBarrier::default(),
            failed: AtomicBool::new(false),
            warmup_cycles: if context.until_seconds.is_some() {
                0
            } else {
                self.warmup_cycles
            },
            end: AtomicU64::new(u64::MAX),
            interrupted: gate.interrupted().unwrap_or_default(),
        };
        let verb = (self.bench != Bench::Create).then_some(Verb::Write);
        let subject = Subject {
            interest: Interest::Names,
            content: Content::Directories,
            verb,
        };
        let (mut measurement, reports) =
            measure_set(&threads, &set, subject, &self.profile(), context, gate)?;
        let cycles = all_cycles(&reports);
        let warm_up = cycles.len().min(threads.warmup_cycles as usize);
        let measured = &cycles[warm_up..];
        if measured.is_empty() && threads.interrupted.load(Ordering::Relaxed) {
            return Err(EngineError::new(
                "interrupted before the first measured cycle",
            ));
        }
        // Without the cycle that an interruption cut.
        measurement.operations = measured.len() as u64 * self.iterations;
        measurement.bytes = measurement.operations * self.layout().file_size * self.file_count;
        measurement.timed_ns = measured.iter().map(|cycle| cycle.timed_ns).sum();
        measurement.samples = measured
            .iter()
            .map(|cycle| cycle.timed_ns as f64 * 1e-9 / self.iterations as f64)
            .collect();
        measurement.cycle_spans_ns = cycles.iter().map(|cycle| cycle.span_ns).collect();
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

/// One cycle of one thread, or of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cycle {
    /// Nanoseconds of the timed parts of its iterations.
    timed_ns: u64,
    /// Start and end of the cycle, in nanoseconds of the clock.
    span_ns: [u64; 2],
}

/// Returns the cycles, each the sum of those of all threads.
fn all_cycles(threads: &[Vec<Cycle>]) -> Vec<Cycle> {
    let count = threads.iter().map(Vec::len).min().unwrap_or(0);
    (0..count)
        .filter_map(|cycle| {
            threads
                .iter()
                .map(|thread| thread[cycle])
                .reduce(|a: Cycle, b: Cycle| Cycle {
                    timed_ns: a.timed_ns + b.timed_ns,
                    span_ns: [
                        a.span_ns[0].min(b.span_ns[0]),
                        a.span_ns[1].max(b.span_ns[1]),
                    ],
                })
        })
        .collect()
}

struct MicroThreads<'s> {
    job: &'s MicroJob,
    set: &'s OpenFileSet,
    context: &'s Context,
    /// All threads begin a cycle together.
    barrier: RoundBarrier,
    failed: AtomicBool,
    /// Cycles before the measured ones.
    warmup_cycles: u64,
    /// The cycle before which all threads end, because the time is up.
    end: AtomicU64,
    /// Set when the measurement shall end. The cycle that runs ends with an iteration, and does not
    /// count.
    interrupted: Arc<AtomicBool>,
}

/// The state of one thread.
struct ThreadState<'s> {
    writer: IoLoop<'s>,
    reader: Option<IoLoop<'s>>,
    /// Iterations of each cycle.
    iterations: u64,
    cycles: Vec<Cycle>,
    /// Iterations so far: each has an order of its own.
    turn: u32,
}

impl<'s> ThreadJob for MicroThreads<'s> {
    type ThreadState = ThreadState<'s>;
    type Report = Vec<Cycle>;

    fn set(&self) -> Option<&OpenFileSet> {
        Some(self.set)
    }

    fn init(&self, rank: u32) -> Result<ThreadState<'s>, EngineError> {
        let reads = self.job.bench == Bench::Read;
        let reader = reads
            .then(|| IoLoop::new(self.set, self.job.io_options(Purpose::Read)))
            .transpose()?;
        Ok(ThreadState {
            writer: IoLoop::new(self.set, self.job.io_options(Purpose::Create))?,
            reader,
            iterations: order::share(
                self.job.iterations,
                self.job.iterations,
                rank,
                self.job.threads,
            )
            .length,
            cycles: Vec::with_capacity((self.job.warmup_cycles + self.job.cycles) as usize),
            turn: 0,
        })
    }

    fn run(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let limit_ns = self
            .context
            .until_seconds
            .map(|seconds| (seconds.max(0.0) * 1e9) as u64);
        let began = recorder.now();
        let mut result = Ok(());
        for cycle in 0..self.warmup_cycles + self.job.cycles {
            // One thread decides for all before they meet. A number, because a thread that is late
            // must not read the decision on the next cycle.
            if recorder.rank == 0
                && cycle > 0
                && (limit_ns.is_some_and(|limit| recorder.now() - began >= limit)
                    || self.interrupted.load(Ordering::Relaxed))
            {
                self.end.store(cycle, Ordering::Relaxed);
            }
            self.barrier.wait(self.job.threads, || {});
            if cycle >= self.end.load(Ordering::Relaxed) {
                break;
            }
            // A thread that has failed still comes to the barrier, or the others would wait for
            // ever.
            if result.is_ok() && !self.failed.load(Ordering::Relaxed) {
                if cycle == self.warmup_cycles {
                    recorder.forget();
                }
                result = self.cycle(state, recorder);
                self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
            }
        }
        result
    }

    fn report(&self, state: ThreadState<'s>) -> Vec<Cycle> {
        state.cycles
    }
}

impl MicroThreads<'_> {
    /// Makes the iterations of a cycle. An interrupted cycle leaves no sample.
    fn cycle(
        &self,
        state: &mut ThreadState<'_>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let files = self.set.layout.files_in(u64::from(recorder.rank));
        let begun = recorder.now();
        let mut timed_ns = 0;
        for _ in 0..state.iterations {
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            state.turn = state.turn.wrapping_add(1);
            if self.job.bench == Bench::Read {
                for file in files.clone() {
                    self.pass(&mut state.writer, file, state.turn, Access::Sequential)?;
                }
            }
            let io = state.reader.as_mut().unwrap_or(&mut state.writer);
            recorder.start();
            let started = recorder.last();
            for file in files.clone() {
                self.pass(io, file, state.turn, self.job.access)?;
                recorder.tick(self.kind(), self.set.layout.file_size);
            }
            recorder.complete(started, self.set.layout.file_size * self.job.file_count);
            timed_ns += recorder.last() - started;
            for file in files.clone() {
                self.unlink(file)?;
            }
        }
        state.cycles.push(Cycle {
            timed_ns,
            span_ns: [begun, recorder.now()],
        });
        Ok(())
    }

    /// Opens a file, moves all its blocks, closes it.
    fn pass(
        &self,
        io: &mut IoLoop<'_>,
        file: u64,
        turn: u32,
        access: Access,
    ) -> Result<(), EngineError> {
        let slot = io.open(file)?;
        let blocks = self.job.block_count;
        for block in Visits::new(
            blocks,
            order::share(blocks, blocks, 0, 1),
            access,
            self.context.seed,
            turn,
        ) {
            io.transfer(slot, file, block * self.job.block_size, self.job.block_size)?;
        }
        io.close(slot, file)
    }

    fn unlink(&self, file: u64) -> Result<(), EngineError> {
        let OpenFileSet {
            backend,
            root,
            names,
            ..
        } = self.set;
        let removed = backend.namespace().unlink(root, names.path(file));
        removed.map_err(|errno| self.set.refused("delete", file, errno))
    }

    fn kind(&self) -> OperationKind {
        match self.job.bench {
            Bench::Create => OperationKind::Create,
            Bench::Read => OperationKind::Read,
            Bench::Write => OperationKind::Write,
        }
    }
}

/// Creates empty files, as the 2023 tool does it.
pub(super) static MICRO_CREATE: MicroWorkload = MicroWorkload {
    bench: Bench::Create,
    about: "the 2023 micro-benchmark: create empty files; microseconds per iteration, one sample per cycle",
    example: || {
        params::from_pairs([
            ("file_count", 5.into()),
            ("iterations", 3.into()),
            ("cycles", 2.into()),
            ("warmup_cycles", 1.into()),
        ])
    },
};

/// Returns a tiny job on blocks, for the conformance tests.
fn blocks() -> Params {
    params::from_pairs([
        ("block_size", "4K".into()),
        ("block_count", 4.into()),
        ("random", true.into()),
        ("iterations", 3.into()),
        ("cycles", 2.into()),
        ("warmup_cycles", 1.into()),
        ("threads", 2.into()),
    ])
}

/// Reads files that were just written, as the 2023 tool does it.
pub(super) static MICRO_READ: MicroWorkload = MicroWorkload {
    bench: Bench::Read,
    about: "the 2023 micro-benchmark: read files that were just written, block by block; microseconds per iteration, one sample per cycle",
    example: blocks,
};

/// Writes files, as the 2023 tool does it.
pub(super) static MICRO_WRITE: MicroWorkload = MicroWorkload {
    bench: Bench::Write,
    about: "the 2023 micro-benchmark: write new files, block by block; microseconds per iteration, one sample per cycle",
    example: blocks,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Step;
    use crate::worker;
    use crate::workload::testing::{Open, task, with};

    #[test]
    fn a_time_limit_leaves_out_the_warm_up_and_ends_with_a_cycle() {
        let root = tempfile::tempdir().unwrap();
        let measure = |workload: &str, threads: u32, until_seconds| {
            let pairs = [
                ("iterations", 4),
                ("cycles", 6),
                ("warmup_cycles", 3),
                ("threads", threads),
                ("file_count", 2),
            ];
            let mut spec = with(workload, &pairs.map(|(key, value)| (key, value.into())));
            if workload == "micro-read" {
                spec.params.insert("block_size".to_owned(), 4096.into());
            }
            worker::perform(
                &task(Step::Prepare, &spec, root.path(), 24),
                &mut Open::default(),
            )
            .unwrap();
            let mut task = task(Step::Measure, &spec, root.path(), 24);
            task.until_seconds = until_seconds;
            let measured = worker::perform(&task, &mut Open::default())
                .unwrap()
                .whole()
                .unwrap();
            (
                measured.operations,
                measured.samples.len(),
                measured.cycle_spans_ns.len(),
            )
        };
        for (workload, threads) in [("micro-create", 1), ("micro-read", 2)] {
            assert_eq!(
                measure(workload, threads, Some(0.0)),
                (4, 1, 1),
                "{workload}"
            );
            assert_eq!(
                measure(workload, threads, Some(3600.0)),
                (24, 6, 6),
                "{workload}"
            );
            assert_eq!(measure(workload, threads, None), (24, 6, 9), "{workload}");
        }
    }

    #[test]
    fn a_cycle_lasts_from_the_first_start_to_the_last_end_of_its_threads() {
        let cycle = |timed_ns, span_ns| Cycle { timed_ns, span_ns };
        let threads = [
            vec![cycle(3, [10, 20]), cycle(4, [31, 40])],
            vec![cycle(5, [12, 26]), cycle(6, [30, 37])],
        ];
        assert_eq!(
            all_cycles(&threads),
            [cycle(8, [10, 26]), cycle(10, [30, 40])]
        );
    }
}

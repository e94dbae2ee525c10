//! PostMark's transactions as a workload: a mail server's small files, created, read, appended to
//! and deleted.
//!
//! One repetition is a whole run of PostMark, with the stages of its report: fill the pool, make
//! the transactions, delete the remaining files. A transaction is the operation by which the report
//! compares targets. The measurement also contains the rates that PostMark prints (bytes read and
//! written, files created and deleted, each over all stages). The seed of the run determines the
//! files of each operation, so each block has another pool and all targets of a block have the
//! same.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::metric::{
    CREATE_ALONE_RATE, CREATE_RATE, DELETE_ALONE_RATE, DELETE_RATE, MetricKind, OPERATION_RATE,
    READ_RATE, WRITE_RATE,
};
use fsb_model::postmark::{
    Act, Draw, LARGEST_FILE, MOST_BIAS, MOST_FILES, OFF, Operation, Pool, Shape, Tally,
};
use fsb_model::trial::NO_FILES;
use fsb_model::{Durability, Params};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::job::{Job, Workload};
use super::label::{self, ending};
use super::measure::{PhaseTimes, check_operations};
use super::parameter::{self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use crate::backend::{self, Backend, Directory};
use crate::clock::OperationKind;
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, BLOCK, NOTE};
use crate::hash::{Stream, hash};
use crate::postmark::{FileContent, FileOps, FileOpsOptions, PoolNames};
use crate::profile::Profile;
use crate::rendezvous::Rendezvous;
use crate::task::{ClockSpec, Context, Gate, Measurement, Rate, Ready, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};
use crate::{latency, processes};

/// The operation that is counted.
const TRANSACTION: &str = "transaction";

/// The member.
pub(super) struct Postmark;

impl Workload for Postmark {
    fn name(&self) -> &'static str {
        "postmark"
    }

    fn about(&self) -> &'static str {
        "PostMark's mail server: a pool of small files; each transaction reads or appends, and creates or deletes"
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("number", 20.into()),
            ("transactions", 50.into()),
            ("subdirectories", 2.into()),
            ("threads", 2.into()),
            ("verify", true.into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(PostmarkJob(PostmarkOptions::parse(
            self.name(),
            params,
            sizing,
        )?)))
    }
}

struct PostmarkJob(PostmarkOptions);

impl PostmarkJob {
    /// Checks that no deleted file is left: the directories are as they were before.
    fn look_for_rest(&self, context: &Context) -> Result<(), EngineError> {
        let subdirectories = if self.0.shape.subdirectories > 1 {
            self.0.shape.subdirectories
        } else {
            0
        };
        for location in (0..self.0.workers()).map(|rank| PostmarkOptions::directory(context, rank))
        {
            let inner = (0..subdirectories).map(|number| (location.join(format!("s{number}")), 0));
            for (directory, expected) in inner.chain([(location.clone(), subdirectories as usize)])
            {
                let entries = fs::read_dir(&directory)
                    .map_err(|error| EngineError::io("list", &directory, &error))?;
                let found = entries.count();
                if found != expected {
                    let shown = directory.display();
                    let message = format!(
                        "{shown} holds {found} entries instead of {expected} after all were deleted"
                    );
                    return Err(EngineError {
                        path: Some(directory),
                        ..EngineError::new(message)
                    });
                }
            }
        }
        Ok(())
    }
}

impl Job for PostmarkJob {
    fn profile(&self) -> Profile {
        let PostmarkOptions {
            shape,
            durability,
            buffering,
            threads,
            processes,
            ..
        } = &self.0;
        let workers = u64::from(self.0.workers());
        let files = shape.most_files();
        let directories = 1 + u64::from(if shape.subdirectories > 1 {
            shape.subdirectories
        } else {
            0
        });
        let inodes = (files + directories) * workers + 1;
        Profile {
            files: u64::from(shape.number) * workers,
            file_size: u64::from(shape.size_high),
            threads: *threads,
            processes: *processes,
            backend: if *buffering { "stdio" } else { "psync" }.to_owned(),
            durability: *durability,
            operations: u64::from(shape.transactions) * workers,
            reaches_device: *durability != Durability::None,
            space: files * workers * u64::from(shape.size_high).next_multiple_of(BLOCK)
                + inodes * NOTE,
            inodes,
            ..Profile::base(TRANSACTION, &OPERATION_RATE, self.0.label())
        }
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        if self.0.buffering {
            backend::STREAMS
        } else {
            backend::CALLS
        }
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        let set = context.set();
        fileset::make_anew(&set)?;
        for rank in 0..self.0.workers() {
            fileset::make_directory(&PostmarkOptions::directory(context, rank))?;
            self.0.names(context, rank).make_directories()?;
        }
        fileset::sync(&set)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        check_operations(&profile, context.operations)?;
        let backend = context.backend(self.backend());
        let set = context.set();
        let root = backend
            .namespace()
            .open_root(&set)
            .map_err(|errno| EngineError::call("open", &set, errno))?;
        let fake = matches!(context.clock, ClockSpec::Fake { .. });
        let rendezvous = Rendezvous::new(self.0.workers(), fake)?;
        let threads = PostmarkThreads::new(&self.0, context, backend, &rendezvous, root);
        let outcome = if self.0.processes > 1 {
            processes::run(&threads, context, &profile, Ready::default(), gate)?
        } else {
            threads::run(&threads, context, &profile, Ready::default(), false, gate)?
        };
        if backend.capabilities().real {
            self.look_for_rest(context)?;
        }
        let mut measurement = outcome.measurement(TRANSACTION);
        Report::sum(&outcome.reports).add_to(&mut measurement);
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

/// Numbers that belong to one worker in one repetition.
#[derive(Debug)]
struct Numbers {
    seed: u64,
    drawn: u64,
}

impl Draw for Numbers {
    #[inline]
    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        (hash(self.seed, Stream::Pool, self.drawn) >> 32) as u32
    }
}

/// The threads of one measurement.
struct PostmarkThreads<'s> {
    options: &'s PostmarkOptions,
    context: &'s Context,
    backend: &'static dyn Backend,
    rendezvous: &'s Rendezvous,
    /// The file system that is synced at the end.
    root: Directory,
    /// A thread has failed; processes are ended by their parent.
    failed: AtomicBool,
}

/// The state of one worker.
struct ThreadState {
    ops: FileOps<'static>,
    pool: Pool<Numbers>,
    report: Report,
}

impl<'s> PostmarkThreads<'s> {
    fn new(
        options: &'s PostmarkOptions,
        context: &'s Context,
        backend: &'static dyn Backend,
        rendezvous: &'s Rendezvous,
        root: Directory,
    ) -> PostmarkThreads<'s> {
        PostmarkThreads {
            options,
            context,
            backend,
            rendezvous,
            root,
            failed: AtomicBool::new(false),
        }
    }

    fn stage(
        &self,
        stage: PoolStage,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        match stage {
            PoolStage::Create => {
                while !self.over()
                    && state.pool.tally().created < u64::from(state.pool.shape().number)
                {
                    let operation = state.pool.create();
                    self.perform(operation, state, recorder)?;
                }
                state.report.alone[0] = state.pool.tally().created;
            }
            PoolStage::Transact => self.transact(state, recorder)?,
            PoolStage::Delete => {
                state.report.alone[1] = state.pool.tally().left();
                while let (false, Some(operation)) = (self.over(), state.pool.remove_next()) {
                    self.perform(Some(operation), state, recorder)?;
                }
            }
        }
        Ok(())
    }

    fn transact(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let transactions = state.pool.shape().transactions;
        for transaction in 0..transactions {
            if self.over() {
                break;
            }
            if state.pool.is_exhausted() {
                let message = format!(
                    "the pool ran out of files after {transaction} of {transactions} transactions: take more files \
                     (number), fewer transactions, or a higher bias_create"
                );
                return Err(EngineError::new(message).coded(&NO_FILES));
            }
            let begun = recorder.last();
            let operation = state.pool.use_one();
            let mut bytes = self.perform(operation, state, recorder)?;
            let operation = state.pool.exchange();
            bytes += self.perform(operation, state, recorder)?;
            recorder.complete(begun, bytes);
        }
        Ok(())
    }

    /// Returns whether another thread has failed. Then this one ends too, and the other one reports
    /// the error.
    #[inline]
    fn over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Performs an operation, if there is one, and reads the clock. Returns the bytes that the
    /// operation moved.
    #[inline]
    fn perform(
        &self,
        operation: Option<Operation>,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<u64, EngineError> {
        let Some(operation) = operation else {
            return Ok(0);
        };
        let begun = recorder.last();
        state.ops.perform(&operation)?;
        let kind = kind(operation.act);
        recorder.tick(kind, u64::from(operation.bytes));
        state.report.record(operation.act, recorder.last() - begun);
        Ok(if kind == OperationKind::Delete {
            0
        } else {
            u64::from(operation.bytes)
        })
    }

    /// Syncs the file system to the device.
    fn sync(&self, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let set = self.context.set();
        let synced = recorder.sync(0, || self.backend.namespace().sync_file_system(&self.root));
        synced.map_err(|errno| EngineError::call("syncfs of", set, errno))
    }
}

impl ThreadJob for PostmarkThreads<'_> {
    type ThreadState = ThreadState;
    type Report = Report;

    fn init(&self, rank: u32) -> Result<ThreadState, EngineError> {
        let options = self.options;
        let shape = &options.shape;
        let io_options = FileOpsOptions {
            backend: self.backend,
            read_block: options.read,
            write_block: options.write,
            sync: options.durability == Durability::Each,
            verify: options.verify && self.backend.capabilities().real,
        };
        let seed = self.context.seed;
        let content = FileContent::addressed(
            self.context.data(),
            shape.size_high,
            options.read.max(options.write),
            rank,
        );
        let own = u64::from(self.context.repetition) << 32 | u64::from(rank);
        let numbers = Numbers {
            seed: hash(seed, Stream::Pool, own),
            drawn: 0,
        };
        Ok(ThreadState {
            ops: FileOps::new(
                self.options.names(self.context, rank),
                io_options,
                content,
                shape.size_high,
            )?,
            pool: Pool::new(shape.clone(), numbers),
            report: Report::new(),
        })
    }

    fn run(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let options = self.options;
        let mut result = Ok(());
        for stage in PoolStage::ALL {
            // A failed thread still comes to the rendezvous, or the others would wait for it. If a
            // process fails, the parent ends all.
            self.rendezvous.wait();
            if stage == PoolStage::Transact {
                recorder.forget();
            }
            if result.is_ok() && !self.over() {
                recorder.start();
                state.report.begun(stage, recorder.last());
                result = self.stage(stage, state, recorder);
            }
            if result.is_err() && options.processes > 1 {
                return result;
            }
            self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if options.durability == Durability::End {
                self.rendezvous.wait();
                if recorder.rank == 0 && !self.over() {
                    result = self.sync(recorder);
                    self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
                }
            }
            state.report.ended(stage, recorder.last());
            if stage == PoolStage::Transact {
                recorder.pause();
            }
        }
        state.report.tally = *state.pool.tally();
        result
    }

    fn report(&self, state: ThreadState) -> Report {
        state.report
    }

    fn encode_report(&self, report: Report) -> Option<String> {
        Some(report.to_text())
    }

    fn decode_report(&self, encoded: &str) -> Result<Option<Report>, EngineError> {
        Report::from_text(encoded).map(Some)
    }
}

/// The stages, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PoolStage {
    Create,
    Transact,
    Delete,
}

impl PoolStage {
    const ALL: [PoolStage; 3] = [PoolStage::Create, PoolStage::Transact, PoolStage::Delete];
}

/// Operations with separate latencies.
const OPERATIONS: [(&str, OperationKind); 4] = [
    ("create", OperationKind::Create),
    ("read", OperationKind::Read),
    ("append", OperationKind::Write),
    ("delete", OperationKind::Delete),
];

/// Returns the index in [`OPERATIONS`].
fn place(act: Act) -> usize {
    match act {
        Act::Create => 0,
        Act::Read => 1,
        Act::Append { .. } => 2,
        Act::Delete => 3,
    }
}

/// Returns the clock's kind of this operation.
fn kind(act: Act) -> OperationKind {
    OPERATIONS[place(act)].1
}

/// The report of one worker, or of all.
#[derive(Debug, Clone)]
struct Report {
    stages: PhaseTimes<3>,
    tally: Tally,
    /// Files that were created before and deleted after the transactions.
    alone: [u64; 2],
    histograms: [Histogram<u64>; 4],
}

/// The encoding of a report in a pipe.
#[derive(Serialize, Deserialize)]
struct EncodedReport {
    stages: [(u64, u64); 3],
    counts: [u64; 6],
    alone: [u64; 2],
    histograms: [String; 4],
}

impl Report {
    /// Returns an empty report whose memory was touched.
    fn new() -> Report {
        Report {
            stages: PhaseTimes::new(),
            tally: Tally::default(),
            alone: [0; 2],
            histograms: std::array::from_fn(|_| latency::touched()),
        }
    }

    /// Records the nanoseconds of an operation.
    #[inline]
    fn record(&mut self, act: Act, ns: u64) {
        self.histograms[place(act)].saturating_record(ns);
    }

    fn begun(&mut self, stage: PoolStage, ns: u64) {
        self.stages.begun(stage as usize, ns);
    }

    fn ended(&mut self, stage: PoolStage, ns: u64) {
        self.stages.ended(stage as usize, ns);
    }

    /// Returns the sum of all reports: each stage lasts from the first start to the last end.
    fn sum(reports: &[Report]) -> Report {
        let stages = PhaseTimes::of_all(reports.iter().map(|report| report.stages));
        let mut sum = Report {
            stages,
            ..Report::new()
        };
        for report in reports {
            let (all, one) = (&mut sum.tally, &report.tally);
            all.created += one.created;
            all.read += one.read;
            all.appended += one.appended;
            all.deleted += one.deleted;
            all.bytes_read += one.bytes_read;
            all.bytes_written += one.bytes_written;
            for index in [0, 1] {
                sum.alone[index] += report.alone[index];
            }
            for (all, one) in sum.histograms.iter_mut().zip(&report.histograms) {
                all.add(one).expect("histograms of one size add up");
            }
        }
        sum
    }

    /// Adds to a measurement: the time of the transactions, by which the report compares targets,
    /// the figures that PostMark prints, and the latencies.
    fn add_to(&self, measurement: &mut Measurement) {
        let [creation, transactions, deletion] = self.stages.durations();
        let total = creation + transactions + deletion;
        let tally = &self.tally;
        measurement.timed_ns = transactions;
        let rates: [(&MetricKind, u64, u64); 6] = [
            (&READ_RATE, tally.bytes_read, total),
            (&WRITE_RATE, tally.bytes_written, total),
            (&CREATE_RATE, tally.created, total),
            (&DELETE_RATE, tally.deleted, total),
            (&CREATE_ALONE_RATE, self.alone[0], creation),
            (&DELETE_ALONE_RATE, self.alone[1], deletion),
        ];
        for (kind, amount, timed_ns) in rates {
            measurement
                .rates
                .insert(kind.name.to_owned(), Rate { amount, timed_ns });
        }
        let counts = [
            ("files_created", tally.created),
            ("files_read", tally.read),
            ("files_appended", tally.appended),
            ("files_deleted", tally.deleted),
            ("bytes_read", tally.bytes_read),
            ("bytes_written", tally.bytes_written),
        ];
        measurement
            .counts
            .extend(counts.map(|(name, count)| (name.to_owned(), count)));
        for ((operation, _), histogram) in OPERATIONS.iter().zip(&self.histograms) {
            if !histogram.is_empty() {
                measurement
                    .latency
                    .insert((*operation).to_owned(), latency::encode(histogram));
            }
        }
    }

    /// Encodes the report for the parent of a process.
    fn to_text(&self) -> String {
        let Tally {
            created,
            read,
            appended,
            deleted,
            bytes_read,
            bytes_written,
            ..
        } = self.tally;
        let encoded = EncodedReport {
            stages: self.stages.0,
            counts: [created, read, appended, deleted, bytes_read, bytes_written],
            alone: self.alone,
            histograms: self.histograms.each_ref().map(latency::encode),
        };
        serde_json::to_string(&encoded).expect("numbers and texts are JSON")
    }

    /// Decodes the report that a process sent.
    fn from_text(text: &str) -> Result<Report, EngineError> {
        fn garbled(why: String) -> EngineError {
            EngineError::new(format!("a process sent an unreadable report: {why}"))
        }
        let encoded: EncodedReport =
            serde_json::from_str(text).map_err(|error| garbled(error.to_string()))?;
        let [created, read, appended, deleted, bytes_read, bytes_written] = encoded.counts;
        let tally = Tally {
            created,
            read,
            appended,
            deleted,
            bytes_read,
            bytes_written,
            ..Tally::default()
        };
        let mut report = Report {
            stages: PhaseTimes(encoded.stages),
            tally,
            alone: encoded.alone,
            ..Report::new()
        };
        for (histogram, text) in report.histograms.iter_mut().zip(&encoded.histograms) {
            *histogram = latency::decode(text).map_err(|error| garbled(error.to_string()))?;
        }
        Ok(report)
    }
}

/// Resolved parameters.
#[derive(Debug, Clone)]
struct PostmarkOptions {
    shape: Shape,
    read: u32,
    write: u32,
    /// Through streams of the C library.
    buffering: bool,
    threads: u32,
    /// Each has one thread.
    processes: u32,
    durability: Durability,
    verify: bool,
    label: Option<String>,
}

/// Returns the table of parameters, with PostMark's defaults.
fn parameters() -> Vec<Parameter> {
    use ParameterKind::{Integer, Number, Size};
    let Shape {
        size_low,
        size_high: _,
        number,
        transactions,
        bias_read,
        bias_create,
        ..
    } = Shape::default();
    let size = || Size(1..=u64::from(LARGEST_FILE));
    let bias = || Integer(i64::from(OFF)..=i64::from(MOST_BIAS));
    let high = ParameterDefault::Derived("10000 bytes, at least size_low");
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new(
                "transactions",
                Number(1..=1 << 31),
                transactions.to_string(),
                "transactions",
            ),
            Parameter::new(
                "bias_read",
                bias(),
                bias_read.to_string(),
                "of ten reads and appends, the number of reads; -1: none",
            ),
            Parameter::new(
                "bias_create",
                bias(),
                bias_create.to_string(),
                "of ten creations and deletions, the number of creations; -1: none",
            ),
        ],
    );
    all.extend(group(
        ParameterGroup::Files,
        [
            Parameter::new(
                "number",
                Number(1..=u64::from(MOST_FILES)),
                number.to_string(),
                "files of the pool",
            ),
            Parameter::new(
                "size_low",
                size(),
                size_low.to_string(),
                "size of the smallest file",
            ),
            Parameter::new("size_high", size(), high, "size of the largest file"),
            Parameter::new(
                "subdirectories",
                Number(0..=1_000_000),
                "0",
                "directories of the pool; 0: all files in one",
            ),
            parameter::data(),
        ],
    ));
    all.extend(group(
        ParameterGroup::Calls,
        [
            Parameter::new("read", size(), "512", "size of each read"),
            Parameter::new("write", size(), "512", "size of each write"),
            Parameter::flag(
                "buffering",
                "use the buffers of the C library, as PostMark's 'set buffering true'",
            )
            .default("true"),
            parameter::threads(),
            parameter::processes(),
        ],
    ));
    all.extend(group(
        ParameterGroup::State,
        [parameter::durability(Durability::ALL)],
    ));
    all.extend(group(
        ParameterGroup::Results,
        [parameter::verify(), parameter::label()],
    ));
    all
}

impl PostmarkOptions {
    fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<PostmarkOptions, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let usual = Shape::default();
        let low = reader.number("size_low")?;
        let high = reader.number_or("size_high", low.max(u64::from(usual.size_high)))?;
        if high < low {
            return Err(reader.error("size_high", format!("{high} is below size_low, {low}")));
        }
        let shape = Shape {
            size_low: low as u32,
            size_high: high as u32,
            number: reader.number("number")? as u32,
            transactions: reader.number("transactions")? as u32,
            subdirectories: reader.number("subdirectories")? as u32,
            weights: Vec::new(),
            bias_read: reader.integer("bias_read")? as i32,
            bias_create: reader.integer("bias_create")? as i32,
        };
        let options = PostmarkOptions {
            shape,
            read: reader.number("read")? as u32,
            write: reader.number("write")? as u32,
            buffering: reader.flag("buffering")?,
            threads: reader.threads()?,
            processes: reader.number("processes")? as u32,
            durability: reader.word("durability", Durability::ALL, Durability::name)?,
            verify: reader.flag("verify")?,
            label: reader.text("label")?,
        };
        if options.threads > 1 && options.processes > 1 {
            return Err(reader.error(
                "processes",
                "each has one thread: give threads or processes",
            ));
        }
        if u64::from(options.shape.number) * u64::from(options.workers()) > u64::from(MOST_FILES) {
            let message = format!(
                "{} pools of {} files are too many",
                options.workers(),
                options.shape.number
            );
            return Err(reader.error("number", message));
        }
        reader.finish();
        Ok(options)
    }

    /// Returns the directory of a worker's pool.
    fn directory(context: &Context, rank: u32) -> PathBuf {
        context.set().join(format!("p{rank}"))
    }

    /// Returns the names of the files in a worker's pool.
    fn names(&self, context: &Context, rank: u32) -> PoolNames {
        PoolNames::new(&[Self::directory(context, rank)], self.shape.subdirectories)
    }

    /// Returns the number of threads, or of processes.
    fn workers(&self) -> u32 {
        self.threads * self.processes
    }

    /// Returns the complete parameters: parsing them gives the same job.
    fn params(&self) -> Params {
        let mut params = params::from_pairs([
            ("read", self.read.into()),
            ("write", self.write.into()),
            ("buffering", self.buffering.into()),
            ("threads", self.threads.into()),
            ("processes", self.processes.into()),
            ("durability", self.durability.name().into()),
            ("verify", self.verify.into()),
        ]);
        params.extend(self.shape.params());
        if let Some(label) = &self.label {
            params.insert("label".to_owned(), Value::from(label.as_str()));
        }
        params
    }

    /// Returns the label: `postmark, 2000 files of 1000 B to 100000 B`, and everything else that
    /// distinguishes the case.
    fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let usual = Shape::default();
        let Shape {
            size_low,
            size_high,
            number,
            transactions,
            subdirectories,
            bias_read,
            bias_create,
            ..
        } = &self.shape;
        let low = label::size(u64::from(*size_low));
        let high = label::size(u64::from(*size_high));
        let sizes = if size_low == size_high {
            low
        } else {
            format!("{low} to {high}")
        };
        let mut label = format!("postmark, {transactions} on {number} files of {sizes}");
        if *subdirectories > 1 {
            label = format!("{label}, {subdirectories} subdirectories");
        }
        if (*bias_read, *bias_create) != (usual.bias_read, usual.bias_create) {
            label = format!("{label}, biases {bias_read} and {bias_create}");
        }
        if !self.buffering {
            label += ", unbuffered";
        }
        if (self.read, self.write) != (512, 512) {
            label = format!(
                "{label}, blocks {} and {}",
                label::size(u64::from(self.read)),
                label::size(u64::from(self.write))
            );
        }
        label + &ending(self.durability, self.verify, self.threads, self.processes)
    }
}

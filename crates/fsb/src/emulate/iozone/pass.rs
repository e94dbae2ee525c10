//! Passes over files, done by a worker: one for all passes of a run.

use std::path::Path;
use std::sync::Arc;

use fsb_compat::iozone::Options;
use fsb_compat::iozone::options::{self, OutputUnit};
use fsb_compat::iozone::sequence::{self, MatrixRow};
use fsb_engine::EngineError;
use fsb_engine::classic::{
    self, Check, GroupResult, IoMethod, Msync, Operation, Phase, PhaseError, PhaseResult, Purge,
    Rest,
};
use fsb_runner::worker::{Requester, Work, Worker, WorkerError, WorkerLimits};
use serde::{Deserialize, Serialize};

use fsb_store::owner::Rights;

use crate::exit::Signals;

/// Passes of IOzone's, as work that a worker does.
#[derive(Debug)]
pub enum Passes {}

/// One pass, or several that start together.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    phases: Vec<Phase>,
    together: Option<Means>,
}

/// The unit of execution of passes that start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Means {
    Threads,
    Processes,
}

impl Work for Passes {
    const NAME: &'static str = "iozone";
    type Task = Asked;
    type Progress = ();
    type Answer = Result<GroupResult, PhaseError>;
    // A pass checks the flag before each record. The process that requested the pass removes its
    // files.
    const HEEDS_INTERRUPTION: bool = true;

    fn perform(
        task: Asked,
        requester: &mut Requester<'_, ()>,
    ) -> Result<Self::Answer, EngineError> {
        let interrupted = requester.interrupted();
        Ok(match (task.together, task.phases.as_slice()) {
            (None, [phase]) => classic::perform(phase, &interrupted).map(|result| GroupResult {
                nanoseconds: result.nanoseconds,
                results: vec![result],
            }),
            (None, _) => {
                return Err(EngineError::new(
                    "several passes were not asked to start together",
                ));
            }
            (Some(Means::Threads), phases) => classic::perform_together(phases, None, &interrupted),
            (Some(Means::Processes), phases) => classic::perform_together(
                phases,
                Some(
                    &std::env::current_exe()
                        .map_err(|error| EngineError::io("find", "this program", &error))?,
                ),
                &interrupted,
            ),
        })
    }
}

/// The worker of a run.
pub struct PassWorker(Worker);

impl PassWorker {
    /// Starts it.
    pub fn open(signals: &Signals, rights: Rights) -> Result<PassWorker, WorkerError> {
        let interrupted = Some(Arc::clone(signals.flag()));
        Worker::open(&WorkerLimits {
            interrupted,
            as_invoking_user: rights == Rights::InvokingUser,
            ..WorkerLimits::default()
        })
        .map(PassWorker)
    }

    /// Makes one pass.
    pub fn pass(&mut self, phase: &Phase) -> Result<PhaseResult, PhaseError> {
        let result = self.ask(Asked {
            phases: vec![phase.clone()],
            together: None,
        })?;
        result
            .results
            .into_iter()
            .next()
            .ok_or_else(|| EngineError::new("the worker answered nothing").into())
    }

    /// Makes passes that start together, each in a thread or in a process.
    pub fn passes_together(
        &mut self,
        phases: &[Phase],
        threads: bool,
    ) -> Result<GroupResult, PhaseError> {
        let means = if threads {
            Means::Threads
        } else {
            Means::Processes
        };
        self.ask(Asked {
            phases: phases.to_vec(),
            together: Some(means),
        })
    }

    fn ask(&mut self, asked: Asked) -> Result<GroupResult, PhaseError> {
        self.0
            .perform::<Passes>(&asked, &mut |()| {})
            .map_err(|error| match error {
                WorkerError::Engine(error) => PhaseError::Engine(error),
                WorkerError::Interrupted => PhaseError::Interrupted,
                error => PhaseError::Engine(EngineError::new(error.to_string())),
            })?
    }
}

// Converts IOzone's operations and options to the engine's.

/// Returns the pass of an operation of IOzone, or `None` for the mix, which consists of two.
pub fn operation(operation: sequence::Operation) -> Option<Operation> {
    use sequence::Operation as Theirs;
    Some(match operation {
        Theirs::Write => Operation::Write,
        Theirs::Rewrite => Operation::Rewrite,
        Theirs::Read | Theirs::Reread => Operation::Read,
        Theirs::RandomRead => Operation::RandomRead,
        Theirs::RandomWrite => Operation::RandomWrite,
        Theirs::BackwardRead => Operation::BackwardRead,
        Theirs::RecordRewrite => Operation::RecordRewrite,
        Theirs::StrideRead => Operation::StrideRead,
        Theirs::Fwrite => Operation::Fwrite,
        Theirs::Frewrite => Operation::Frewrite,
        Theirs::Fread | Theirs::Freread => Operation::Fread,
        Theirs::Pwrite | Theirs::Repwrite => Operation::Pwrite,
        Theirs::Pread | Theirs::Repread => Operation::Pread,
        Theirs::Mix => return None,
    })
}

/// Returns the operations of `count` processes: in the mix, the first ones read (`-+p`), or every
/// other one does.
pub fn operations(options: &Options, operation: sequence::Operation, count: u32) -> Vec<Operation> {
    let readers = options.read_percent.map(|percent| percent * count / 100);
    let of_rank = |rank: u32| match self::operation(operation) {
        Some(operation) => operation,
        None if readers.map_or(rank.is_multiple_of(2), |readers| rank < readers) => {
            Operation::RandomRead
        }
        None => Operation::RandomWrite,
    };
    (0..count).map(of_rank).collect()
}

/// A pass over one file.
pub fn phase(
    options: &Options,
    operation: Operation,
    path: &Path,
    sizes: MatrixRow,
    rank: u32,
    cpu: Option<u32>,
) -> Phase {
    Phase {
        operation,
        path: path.to_owned(),
        // IOzone counts whole records and does not touch the rest of the file.
        file_size: (sizes.file / sizes.record * sizes.record) << 10,
        record_size: sizes.record << 10,
        stride: options.stride,
        method: method(options.means),
        mix: options.mix,
        direct: options.direct,
        sync: options.sync,
        data_sync: options.data_sync,
        include_flush: options.include_flush,
        include_close: options.include_close,
        lock: options.lock,
        check: check(options.check),
        purge: options.purge.then_some(Purge {
            cache: (options.cache_size << 10) as usize,
            line: options.cache_line as usize,
        }),
        latencies: options.latency_files,
        rank,
        cpu,
        stonewall: options.stonewall,
        rest: Rest::ALWAYS,
    }
}

fn method(means: options::Means) -> IoMethod {
    match means {
        options::Means::Calls => IoMethod::Calls,
        options::Means::Mapping(options::Msync::Never) => IoMethod::Mapping(Msync::Never),
        options::Means::Mapping(options::Msync::Async) => IoMethod::Mapping(Msync::Async),
        options::Means::Mapping(options::Msync::Sync) => IoMethod::Mapping(Msync::Sync),
        options::Means::Async { depth, copy } => IoMethod::Asynchronous { depth, copy },
    }
}

fn check(check: options::Check) -> Check {
    match check {
        options::Check::Sample => Check::Sample,
        options::Check::Pattern(byte) => Check::Pattern(byte),
        options::Check::Diagnose => Check::Diagnose,
    }
}

/// Returns the number that a table shows, rounded down as IOzone does.
pub fn value(unit: OutputUnit, nanoseconds: u64, records: u64, record_size: u64) -> u64 {
    let seconds = nanoseconds as f64 * 1e-9;
    match unit {
        OutputUnit::Kilobytes => ((records * record_size) as f64 / seconds) as u64 >> 10,
        OutputUnit::Operations => (records as f64 / seconds) as u64,
        OutputUnit::Microseconds => (1e6 * seconds / records as f64) as u64,
    }
}

/// Returns the share of the elapsed time that the processor worked, in percent.
pub fn cpu_percent(result: &PhaseResult) -> f64 {
    let cpu = (result.user_nanoseconds + result.system_nanoseconds) as f64;
    100.0 * cpu / (result.wall_nanoseconds as f64).max(cpu).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_down_twice_as_iozone_does() {
        // 64 kB in 3 µs: 21,845,333,333 bytes a second, 21,333,333 kB.
        assert_eq!(value(OutputUnit::Kilobytes, 3000, 1, 65_536), 21_333_333);
        assert_eq!(value(OutputUnit::Operations, 3000, 16, 4096), 5_333_333);
        assert_eq!(value(OutputUnit::Microseconds, 47_999, 16, 4096), 2);
    }

    #[test]
    fn a_mix_has_its_share_of_readers() {
        use Operation::{RandomRead, RandomWrite};
        let mut options = Options::default();
        let mix = |options: &Options, count| operations(options, sequence::Operation::Mix, count);
        assert_eq!(mix(&options, 3), [RandomRead, RandomWrite, RandomRead]);
        options.read_percent = Some(50);
        assert_eq!(
            mix(&options, 4),
            [RandomRead, RandomRead, RandomWrite, RandomWrite]
        );
        options.read_percent = Some(100);
        assert_eq!(mix(&options, 2), [RandomRead, RandomRead]);
        assert_eq!(
            operations(&options, sequence::Operation::Reread, 2),
            [Operation::Read; 2]
        );
    }
}

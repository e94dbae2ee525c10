//! The events of a run, and the observers that receive them.

use std::time::Duration;

use fsb_model::error::Tried;
use fsb_model::trial::Reason;
use fsb_model::{RunRecord, StoppingRule, Trial, Warning};
use fsb_testbed::Progress;

/// An event of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// The testbed is being made.
    Opening(&'a Progress),
    /// The agent begins to make a target ready.
    Provisioning {
        /// 0 for warm-up.
        block: u32,
        /// The target's name.
        target: &'a str,
    },
    /// The expected duration of a matrix of sizes, or of a run that its budget will not hold. It
    /// comes from a model that knows nothing of the machine, before anything is changed.
    Estimated {
        /// Cells on each target.
        cells: usize,
        /// Blocks that the estimate is for.
        blocks: u32,
        /// Expected duration of them all, warm-up included.
        expected: Duration,
        /// The time that the run may take.
        budget: Option<Duration>,
        /// Whether a part of a matrix is chosen if the budget does not hold all of it.
        chooses: bool,
    },
    /// The amounts and the number of blocks are fixed.
    Planned {
        /// Measured blocks.
        blocks: u32,
        /// The rule that ends the run.
        rule: &'a StoppingRule,
        /// Expected duration of them all.
        expected: Duration,
    },
    /// A target cannot be made, for the whole run if it is a candidate of a race, otherwise in this
    /// block: all its trials have this reason.
    Refused {
        /// The target's name.
        target: &'a str,
        /// The error of mkfs or of the kernel.
        reason: &'a Reason,
    },
    /// Warm-up of a race ended, and its rule is fixed.
    RacePlanned {
        /// The rule that ends it.
        rule: &'a StoppingRule,
    },
    /// A race round begins.
    RaceRound {
        /// The number, from 1.
        round: u32,
        /// The standing before it, in words.
        standing: &'a str,
    },
    /// A trial begins.
    Trial {
        /// The target.
        target: &'a str,
        /// The cell.
        workload: &'a str,
    },
    /// A cell begins on all targets that are ready, in rounds.
    Case {
        /// 0 for warm-up.
        block: u32,
        /// The cell.
        workload: &'a str,
        /// Rounds that count.
        rounds: u32,
    },
    /// A measured block ended.
    Block {
        /// The record of the run.
        record: &'a RunRecord,
        /// All its trials so far.
        trials: &'a [Trial],
    },
    /// The trial goes on: files are made, operations done, or files removed.
    Working(&'a Progress),
    /// A trial ended and is on disk.
    Ended {
        /// The trial.
        trial: &'a Trial,
        /// Trials that ended, of `of`.
        done: u32,
        /// Trials that the run makes, as far as is known.
        of: u32,
        /// Expected time until the end, once it is known.
        left: Option<Duration>,
    },
    /// The processors of the virtual machine are emulated.
    Emulates {
        /// The reason: `no /dev/kvm`.
        why: &'a str,
    },
    /// A condition that the reader of the run must know.
    Warning(&'a Warning),
}

/// An observer of a run. It may lag or fail without an effect on the run.
pub trait Observer {
    /// Receives all events, in order.
    fn event(&mut self, event: &Event<'_>);
}

/// The journal. A trial is written here before observers receive it, and a run that cannot write
/// stops.
pub trait Journal {
    /// Replaces the record of the run.
    fn record(&mut self, record: &RunRecord) -> Result<(), Tried>;
    /// Appends a trial; it is on disk when this returns.
    fn trial(&mut self, trial: &Trial) -> Result<(), Tried>;
    /// Replaces all trials of the run, because some of them are superseded now.
    fn rewrite(&mut self, trials: &[Trial]) -> Result<(), Tried>;
}

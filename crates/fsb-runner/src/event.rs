//! What happens in a run, told to whoever listens.

use std::time::Duration;

use fsb_model::{RunRecord, StoppingRule, Trial, Warning};
use fsb_testbed::Progress;

/// Something happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The testbed is being made.
    Opening(&'a Progress),
    /// A visit to a target begins.
    Visit {
        /// 0 for warm-up.
        block: u32,
        /// The target's name.
        target: &'a str,
    },
    /// How long a matrix of sizes will take, or a run that its budget will not hold, by a model that knows nothing of the
    /// machine: before anything is touched.
    Estimated {
        /// Cells on each target.
        cells: usize,
        /// Blocks that the estimate is for.
        blocks: u32,
        /// Expected duration of them all, warm-up included.
        expected: Duration,
        /// What the run may take.
        budget: Option<Duration>,
        /// Where the budget does not hold all of a matrix, a part is chosen.
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
    /// A candidate of a race cannot be made.
    Refused {
        /// Which one.
        target: &'a str,
        /// What mkfs, or the kernel, said.
        why: &'a str,
    },
    /// Warm-up of a race ended, and its rule is fixed.
    RacePlanned {
        /// The rule that ends it.
        rule: &'a StoppingRule,
    },
    /// A race round begins.
    RaceRound {
        /// Its number, from 1.
        round: u32,
        /// The standing before it, in words.
        standing: &'a str,
    },
    /// A trial begins.
    Trial {
        /// Its target.
        target: &'a str,
        /// Its cell.
        workload: &'a str,
    },
    /// A cell begins on all targets that are ready, in rounds.
    Row {
        /// 0 for warm-up.
        block: u32,
        /// The cell.
        workload: &'a str,
        /// Rounds that count.
        rounds: u32,
    },
    /// A measured block ended.
    Block {
        /// What is known of the run.
        record: &'a RunRecord,
        /// All its trials so far.
        trials: &'a [Trial],
    },
    /// The trial goes on: files are made, operations done (`fsb_runner::agent::OPERATIONS`), or files removed.
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
    /// A condition that the reader of the run must know.
    Warning(&'a Warning),
}

/// Who listens. An observer may lag or fail; the run does not notice.
pub trait Observer {
    /// Is told of everything, in order.
    fn event(&mut self, event: &Event<'_>);
}

/// The journal: a trial is written here before anybody is told of it, and a run that cannot write stops.
pub trait Journal {
    /// Replaces the record of the run.
    fn record(&mut self, record: &RunRecord) -> Result<(), String>;
    /// Appends a trial; it is on disk when this returns.
    fn trial(&mut self, trial: &Trial) -> Result<(), String>;
}

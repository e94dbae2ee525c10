//! The interface to the judges, which decide by the results so far how a run continues. The runner knows no statistics.

use fsb_model::stop::{Shortfall, StopReason};
use fsb_model::{RunRecord, Trial};

/// The decision of a judge between two blocks.
#[derive(Debug, Default)]
pub struct Judgment {
    /// Labels of cells that need no more blocks, in addition to those that were named before.
    pub settled: Vec<String>,
    /// The targets of the next block, and the slice of the medium that each gets; `None` for all targets.
    pub targets: Option<Vec<(String, u32)>>,
    /// A description of the intermediate result.
    pub standing: Option<String>,
    /// The reason to stop.
    pub stop: Option<StopReason>,
    /// The shortfall from the precision that the plan asks for.
    pub shortfall: Option<Shortfall>,
}

/// The reason why the runner makes no further block.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// No cell needs another block.
    Settled,
    /// All planned blocks are made; `open` of the `workloads` are not settled.
    Planned {
        /// Cells that are not settled.
        open: usize,
        /// All cells.
        workloads: usize,
    },
    /// The budget ended within a block.
    Cut,
    /// Another block would pass the budget.
    WouldBePassed,
    /// Every trial failed, or none is applicable to these targets.
    Hopeless {
        /// Whether any trial failed.
        failed: bool,
    },
}

/// Decides, by the results so far, with which cells and targets a run continues.
pub trait Judge {
    /// Returns whether each block holds some of the targets only, which [`Judgment::targets`] names.
    fn draws_targets(&self) -> bool {
        false
    }

    /// Decides after `made` measured blocks. `trials` are those of these blocks and of the warm-up.
    fn judge(&mut self, record: &RunRecord, trials: &[Trial], made: u32) -> Judgment;

    /// Returns the reason that is recorded if the runner ends the run after `made` blocks. `judgment` is the last one.
    fn reason(&self, record: &RunRecord, ending: Ending, made: u32, judgment: Judgment) -> StopReason;
}

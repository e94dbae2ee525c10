//! The state of a run, and the callbacks that it asks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use fsb_engine::{Profile, Sizing};
use fsb_model::stop::WidestInterval;
use fsb_model::{Cell, RaceEnd, RunRecord, Trial};
use fsb_testbed::Setup;
use jiff::Timestamp;

use crate::agent::Agent;
use crate::calibrate::Sample;
use crate::event::{Journal, Observer};
use crate::rounds::UnitSample;
use crate::work::{CellUnit, Work};
use crate::{placement, setup};

/// Finds the widest interval of a ratio, or of the only target, in the trials so far. Returns `None` if no cell has a value.
pub type FindWidest<'a> = dyn FnMut(&[Trial]) -> Option<WidestInterval> + 'a;

/// Names at a look the cells that need no more blocks, by the trials of the blocks so far: they are decided, or as precise
/// as was asked for.
pub type Look<'a> = dyn FnMut(&RunRecord, &[Trial]) -> Vec<String> + 'a;

/// The next step of a race.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// One more heat.
    Heat {
        /// The names of its targets, and the part of the medium that each gets.
        targets: Vec<(String, u32)>,
        /// A description of the intermediate result.
        standing: String,
    },
    /// The race is over, for this reason.
    End(RaceEnd),
}

/// Says who is in the next heat, by the trials so far.
pub type Heats<'a> = dyn FnMut(&RunRecord, &[Trial]) -> Next + 'a;

/// Cells that a budget left out so far.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Their labels, in the plan's order.
    pub(super) labels: Vec<String>,
    /// Seconds of a budget that would hold them.
    pub(super) needed: f64,
}

/// The inputs of a run beside its plan.
pub struct Run<'a> {
    /// The agent, which owns the testbed.
    pub agent: Agent,
    /// The journal to which trials are written before they are reported.
    pub journal: &'a mut dyn Journal,
    /// The receiver of events.
    pub observer: &'a mut dyn Observer,
    /// Asked after each block from the fifth on, where a precision is to be reached.
    pub widest: &'a mut FindWidest<'a>,
    /// Asked at each planned look.
    pub look: &'a mut Look<'a>,
    /// Asked before each heat of a race.
    pub heats: &'a mut Heats<'a>,
    /// The most retries of a trial that is affected by interference: [`REPEATS`](super::REPEATS), or 0.
    pub repeats: u32,
    /// The record; filled in as things become known.
    pub record: RunRecord,
    /// Trials so far: of earlier segments, when resuming.
    pub trials: Vec<Trial>,
    /// The workloads that it measures.
    pub work: Work,
    /// Whether block 0 is made. The 2023 tool's front end warms up inside its trial.
    pub warmup: bool,
    /// When the budget began.
    pub started: Instant,
}

/// The state of a run under way.
pub(super) struct Schedule<'a> {
    pub(super) run: Run<'a>,
    pub(super) cells: Vec<Cell>,
    /// The number of cells before a budget left some out.
    pub(super) asked: usize,
    pub(super) left_out: LeftOut,
    pub(super) profiles: BTreeMap<String, Profile>,
    /// The base of relative sizes.
    pub(super) sizing: Sizing,
    /// The budget ended within a block.
    pub(super) cut: bool,
    /// Seconds of removing what a cell made, by cell, as warm-up saw them.
    pub(super) removing: BTreeMap<String, f64>,
    /// Seconds of taking the targets of a block down, the longest so far.
    pub(super) releasing: f64,
    /// Cells whose warm-up took longer than the budget allows.
    pub(super) too_long: BTreeSet<String>,
    /// Anything is done to a file system; nothing is where targets are fakes.
    pub(super) touches: bool,
    /// All targets of a block are ready at once.
    pub(super) side_by_side: bool,
    /// Cells that need no more blocks.
    pub(super) settled: BTreeSet<String>,
    /// Seconds of a timed stretch, by cell, of those that do not go by the plan.
    pub(super) stretches: BTreeMap<String, f64>,
    /// The units that samples consist of, by cell; empty for sequential trials.
    pub(super) units: BTreeMap<String, CellUnit>,
    pub(super) unit_samples: Vec<UnitSample>,
    /// Expected seconds of a row in a block, once the rounds are fixed.
    pub(super) row_seconds: BTreeMap<String, f64>,
    /// Bytes and files that the fullest target had room for, side by side.
    pub(super) free: (u64, u64),
    /// No target has caches that the kernel cannot empty.
    pub(super) kernel_caches_only: bool,
    /// Seconds of making all targets ready and taking them down, side by side.
    pub(super) block_base: f64,
    pub(super) samples: Vec<Sample>,
    /// Seconds that trials should take, by target and cell, once the amounts are fixed.
    pub(super) expected: BTreeMap<(String, String), f64>,
    pub(super) visit_seconds: BTreeMap<String, f64>,
    pub(super) done: u32,
    /// When the trial that is being made began.
    pub(super) trial_started: Timestamp,
}

/// Everything that may be wrong with targets, devices and privileges, asked before anything is touched.
pub fn setup(record: &RunRecord) -> Setup {
    let large_disk = if record.plan.mkfs_defaults { Default::default() } else { record.large_disk.clone() };
    Setup { large_disk, ..setup::setup_of(&record.plan, &record.devices, placement::parts(record)) }
}

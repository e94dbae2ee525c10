//! The inputs of a run, and its state.

use std::time::Instant;

use fsb_engine::Sizing;
use fsb_model::run::Placement;
use fsb_model::{RunRecord, Trial, Warning};
use fsb_testbed::{LocalTestbed, Setup};
use jiff::Timestamp;

use super::error::RunError;
use super::judge::Judge;
use super::model::{CellState, LeftOut, Room};
use crate::agent::Agent;
use crate::event::{Event, Journal, Observer};
use crate::work::{ParsedCell, Work};
use crate::{placement, wall_clock};

/// The inputs of a run besides its plan.
pub struct Run<'a> {
    /// The agent, which owns the testbed.
    pub agent: Agent,
    /// The journal to which trials are written before they are reported.
    pub journal: &'a mut dyn Journal,
    /// The receiver of events.
    pub observer: &'a mut dyn Observer,
    /// Decides between blocks how the run continues.
    pub judge: &'a mut dyn Judge,
    /// The most retries of a trial that is affected by interference: [`REPEATS`](super::REPEATS), or 0.
    pub repeats: u32,
    /// The record, which the run fills in.
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

/// The state of a run under way. Cells and targets are known by their index in the plan.
pub(super) struct Schedule<'a> {
    pub(super) run: Run<'a>,
    pub(super) cells: Vec<CellState>,
    /// The base of relative sizes.
    pub(super) sizing: Sizing,
    /// Whether the run works on file systems; false if all targets are fakes.
    pub(super) touches: bool,
    /// Whether all targets of a block are ready at once. Otherwise each is alone while it is measured.
    pub(super) side_by_side: bool,
    pub(super) room: Room,
    /// Seconds of making a group of targets ready and tearing it down, most recently; see [`Schedule::slot`].
    pub(super) making: Vec<f64>,
    /// The longest time so far of tearing down a group of targets, in seconds.
    pub(super) releasing: f64,
    /// Seconds of a budget that would hold the cells that were left out.
    pub(super) needed: f64,
    /// The budget ended within a block.
    pub(super) cut: bool,
    /// Trials of this run so far, warm-up and attempts included.
    pub(super) done: u32,
    /// The start of the current trial.
    pub(super) trial_started: Timestamp,
}

/// Returns the setup, with which the testbed checks targets, devices and privileges before anything is changed.
pub fn setup(record: &RunRecord) -> Setup {
    let large_disk = if record.plan.mkfs_defaults { Default::default() } else { record.large_disk.clone() };
    Setup { large_disk, ..crate::setup::setup_of(&record.plan, &record.devices, placement::parts(record)) }
}

impl<'a> Schedule<'a> {
    pub(super) fn new(run: Run<'a>) -> Self {
        let cell = |parsed: &ParsedCell| {
            let in_rounds = placement::in_rounds(&run.record, &parsed.cell);
            CellState::new(parsed.clone(), in_rounds, &run.record.plan)
        };
        Schedule {
            cells: run.work.cells.iter().map(cell).collect(),
            sizing: run.work.sizing,
            touches: LocalTestbed::may_leave(&setup(&run.record)),
            side_by_side: matches!(run.record.placement, Some(Placement::SideBySide { .. })),
            room: Room { bytes: u64::MAX, inodes: u64::MAX, kernel_caches_only: true },
            making: vec![0.0; run.record.plan.targets.len()],
            releasing: 0.0,
            needed: 0.0,
            cut: false,
            done: run.trials.len() as u32,
            trial_started: wall_clock::now(),
            run,
        }
    }

    /// Indexes of the cells that are not left out.
    pub(super) fn held_cells(&self) -> Vec<usize> {
        (0..self.cells.len()).filter(|cell| self.cells[*cell].is_held()).collect()
    }

    /// Indexes of the cells that need more blocks.
    pub(super) fn open_cells(&self) -> Vec<usize> {
        self.held_cells().into_iter().filter(|cell| !self.cells[*cell].settled).collect()
    }

    /// Marks cells as left out, with the reason.
    pub(super) fn leave_out(&mut self, cells: &[usize], why: LeftOut) {
        cells.iter().for_each(|cell| self.cells[*cell].left_out = Some(why));
    }

    /// Records the cells that are not left out.
    pub(super) fn record_held_cells(&mut self) {
        self.run.record.cells = self.cells.iter().filter(|cell| cell.is_held()).map(|cell| cell.cell.clone()).collect();
    }

    /// Labels of cells, in their order.
    pub(super) fn labels(&self, cells: &[usize]) -> Vec<String> {
        cells.iter().map(|cell| self.cells[*cell].label().to_owned()).collect()
    }

    pub(super) fn cell_of(&self, label: &str) -> Option<usize> {
        self.cells.iter().position(|cell| cell.label() == label)
    }

    pub(super) fn target_of(&self, name: &str) -> Option<usize> {
        self.run.record.plan.targets.iter().position(|target| target.name == name)
    }

    pub(super) fn warn(&mut self, warning: Warning) {
        self.run.observer.event(&Event::Warning(&warning));
        self.run.record.warnings.push(warning);
    }

    /// Adds a warning unless an earlier block added the same.
    pub(super) fn warn_once(&mut self, warning: &Warning) {
        if !self.run.record.warnings.contains(warning) {
            self.warn(warning.clone());
        }
    }

    pub(super) fn save(&mut self) -> Result<(), RunError> {
        self.run.journal.record(&self.run.record).map_err(RunError::Journal)
    }
}

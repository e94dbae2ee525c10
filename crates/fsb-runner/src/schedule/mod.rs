//! A run: warm-up, planning, then block after block until a judge or the budget ends it.

mod budget;
mod compose;
mod error;
mod judge;
mod model;
mod plan;
pub(crate) mod planner;
mod run;

use std::time::Instant;

use fsb_engine::Sizing;
use fsb_model::run::Placement;
use fsb_model::{RunRecord, Trial, Warning};
use fsb_testbed::{LocalTestbed, Setup};
use jiff::Timestamp;

use crate::agent::Agent;
use crate::event::{Event, Journal, Observer};
use crate::work::Work;
use crate::{injected, memory, placement, resume, wall_clock};

pub use budget::check_budget;
pub use error::{CODES, INTERRUPTED, OTHER_KERNEL, RunError};
pub use judge::{Ending, Judge, Judgment};
use model::{CellState, LeftOut, Room};
pub use plan::{Expected, expected};
pub use run::REPEATS;

/// The inputs of a run beside its plan.
pub struct Run<'a> {
    /// The agent, which owns the testbed.
    pub agent: Agent,
    /// The journal to which trials are written before they are reported.
    pub journal: &'a mut dyn Journal,
    /// The receiver of events.
    pub observer: &'a mut dyn Observer,
    /// Decides between blocks how the run continues.
    pub judge: &'a mut dyn Judge,
    /// The most retries of a trial that is affected by interference: [`REPEATS`], or 0.
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

/// The state of a run under way. Cells and targets are known by their index in the plan.
struct Schedule<'a> {
    run: Run<'a>,
    cells: Vec<CellState>,
    /// The base of relative sizes.
    sizing: Sizing,
    /// Anything is done to a file system; nothing is where targets are fakes.
    touches: bool,
    /// All targets of a block are ready at once. Otherwise each is alone while it is measured.
    side_by_side: bool,
    room: Room,
    /// Seconds of making targets ready and taking them down in the last block, by group of targets that are ready at once.
    making: Vec<f64>,
    /// The longest time so far of taking a group of targets down, in seconds.
    releasing: f64,
    /// Seconds of a budget that would hold the cells that were left out.
    needed: f64,
    /// The budget ended within a block.
    cut: bool,
    /// Trials of this run so far, warm-up and attempts included.
    done: u32,
    /// When the trial that is being made began.
    trial_started: Timestamp,
}

/// Makes the run. Returns the record and all trials, those of earlier segments included.
pub fn measure(mut run: Run<'_>) -> Result<(RunRecord, Vec<Trial>), RunError> {
    if run.record.amounts.is_empty() {
        plan::say_estimate(&mut run);
    }
    resume::same_named(&run.record).map_err(RunError::OtherDevice)?;
    let request = Setup {
        memory_needed: Some(memory::needed(&run.record.plan, run.record.placement.as_ref(), &run.work)),
        ..setup(&run.record)
    };
    let opened = {
        let observer = &mut *run.observer;
        run.agent.open(&request, &mut |progress| observer.event(&Event::Opening(&progress)))?
    };
    resume::same_media(&run.record.media, &opened.media).map_err(RunError::OtherDevice)?;
    resume::same_files(run.record.vm.as_ref(), opened.vm.as_ref()).map_err(RunError::OtherKernel)?;
    run.record.media = opened.media;
    run.record.controls = opened.controls;
    // What an earlier segment lacked stays lacking.
    run.record.memory = run.record.memory.filter(|memory| !memory.is_complete()).or(opened.memory);
    run.record.memory_cells = run.record.memory.map(|_| memory::cells(&run.work)).unwrap_or_default();
    run.record.host = opened.host;
    run.record.vm = opened.vm.or(run.record.vm);
    run.record.emulated |= opened.emulated;
    for warning in opened.warnings.into_iter().chain(injected::warning()) {
        run.observer.event(&Event::Warning(&warning));
        if !run.record.warnings.contains(&warning) {
            run.record.warnings.push(warning);
        }
    }
    Schedule::new(run).run_to_end()
}

/// Everything that may be wrong with targets, devices and privileges, asked before anything is touched.
pub fn setup(record: &RunRecord) -> Setup {
    let large_disk = if record.plan.mkfs_defaults { Default::default() } else { record.large_disk.clone() };
    Setup { large_disk, ..crate::setup::setup_of(&record.plan, &record.devices, placement::parts(record)) }
}

impl<'a> Schedule<'a> {
    fn new(run: Run<'a>) -> Self {
        let cell = |parsed: &crate::work::ParsedCell| {
            let in_rounds = placement::in_rounds(&run.record, &parsed.cell);
            CellState::new(parsed.clone(), in_rounds, &run.record.plan)
        };
        Schedule {
            cells: run.work.cells.iter().map(cell).collect(),
            sizing: run.work.sizing,
            touches: LocalTestbed::may_leave(&setup(&run.record)),
            side_by_side: matches!(run.record.placement, Some(Placement::SideBySide { .. })),
            room: Room { bytes: u64::MAX, inodes: u64::MAX, kernel_caches_only: true },
            making: Vec::new(),
            releasing: 0.0,
            needed: 0.0,
            cut: false,
            done: run.trials.len() as u32,
            trial_started: wall_clock::now(),
            run,
        }
    }

    fn run_to_end(mut self) -> Result<(RunRecord, Vec<Trial>), RunError> {
        self.save()?;
        if self.run.record.amounts.is_empty() {
            self.warm_up()?;
            self.plan();
            self.save()?;
        }
        self.run.record.stop_reason = Some(self.run_blocks()?);
        self.save()?;
        // Everything is measured and saved: an agent that fails to say goodbye leaves nothing that the kernel and
        // the undo ledger do not take away.
        let farewell = self.run.agent.close();
        if let Err(error) = farewell {
            let warning = Warning::NotTakenDown { target: None, error: error.to_string() };
            self.run.observer.event(&Event::Warning(&warning));
        }
        Ok((self.run.record, self.run.trials))
    }

    /// Indexes of the cells that are not left out.
    fn held_cells(&self) -> Vec<usize> {
        (0..self.cells.len()).filter(|cell| self.cells[*cell].is_held()).collect()
    }

    /// Leaves out cells, and takes them out of the record.
    fn leave_out(&mut self, cells: &[usize], why: LeftOut) {
        cells.iter().for_each(|cell| self.cells[*cell].left_out = Some(why));
    }

    /// Records the cells that are not left out.
    fn record_held_cells(&mut self) {
        self.run.record.cells = self.cells.iter().filter(|cell| cell.is_held()).map(|cell| cell.cell.clone()).collect();
    }

    /// Labels of cells, in their order.
    fn labels(&self, cells: &[usize]) -> Vec<String> {
        cells.iter().map(|cell| self.cells[*cell].label().to_owned()).collect()
    }

    fn cell_of(&self, label: &str) -> Option<usize> {
        self.cells.iter().position(|cell| cell.label() == label)
    }

    fn target_of(&self, name: &str) -> Option<usize> {
        self.run.record.plan.targets.iter().position(|target| target.name == name)
    }

    fn warn(&mut self, warning: Warning) {
        self.run.observer.event(&Event::Warning(&warning));
        self.run.record.warnings.push(warning);
    }

    /// Adds a warning unless an earlier block added the same.
    fn warn_once(&mut self, warning: &Warning) {
        if !self.run.record.warnings.contains(warning) {
            self.warn(warning.clone());
        }
    }

    fn save(&mut self) -> Result<(), RunError> {
        self.run.journal.record(&self.run.record).map_err(RunError::Journal)
    }
}

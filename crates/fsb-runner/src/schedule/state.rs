//! The inputs of a run and its state: the cells with their costs, the judge, and the errors that
//! end a run early.

use std::time::Instant;

use fsb_engine::{Profile, Sizing};
use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error::Tried;
use fsb_model::run::Placement;
use fsb_model::stop::{Shortfall, StopReason};
use fsb_model::{Cell, Outcome, Plan, RunRecord, Trial, Warning, errno, error_codes};
use fsb_testbed::{LocalTestbed, Setup};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::agent::{Agent, AgentError, TrialReply};
use crate::event::{Event, Journal, Observer};
use crate::planner::{
    self, AROUND, Case, InRounds, SAMPLE_SECONDS, SequentialCost, SequentialTrial, UnitCost,
    WARM_UP, sequential_seconds, sets,
};
use crate::wall_clock;
use crate::work::{self, CellUnit, ParsedCell, Work};

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
    /// The maximum number of retries of a trial that is affected by interference:
    /// [`REPEATS`](super::REPEATS), or 0.
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
    /// Whether all targets of a block are ready at once. Otherwise each is alone while it is
    /// measured.
    pub(super) side_by_side: bool,
    pub(super) free: FreeSpace,
    /// Seconds of making a group of targets ready and tearing it down, most recently; see
    /// [`Schedule::slot`].
    pub(super) making: Vec<f64>,
    /// The longest time so far of tearing down a group of targets, in seconds.
    pub(super) releasing: f64,
    /// Seconds of a budget that would hold the cells that were left out.
    pub(super) needed: f64,
    /// The budget ended within a block.
    pub(super) cut: bool,
    /// Blocks are traced.
    pub(super) tracing: bool,
    /// Seconds of the last measured block of this segment.
    pub(super) last_block_seconds: f64,
    /// Trials of this run so far, warm-up and attempts included.
    pub(super) done: u32,
    /// The start of the current trial.
    pub(super) trial_started: Timestamp,
}

/// Returns the setup, with which the testbed checks targets, devices and privileges before anything
/// is changed.
pub fn setup(record: &RunRecord) -> Setup {
    let large_disk = if record.plan.mkfs_defaults {
        Default::default()
    } else {
        record.large_disk.clone()
    };
    Setup {
        large_disk,
        ..work::setup_of(&record.plan, &record.devices, work::slices(record))
    }
}

impl<'a> Schedule<'a> {
    pub(super) fn new(run: Run<'a>) -> Self {
        Schedule {
            cells: run
                .work
                .cells
                .iter()
                .map(|parsed| {
                    let in_rounds = work::in_rounds(&run.record, &parsed.cell);
                    CellState::new(parsed.clone(), in_rounds, &run.record.plan)
                })
                .collect(),
            sizing: run.work.sizing,
            touches: LocalTestbed::may_leave(&setup(&run.record)),
            side_by_side: matches!(run.record.placement, Some(Placement::SideBySide { .. })),
            free: FreeSpace {
                bytes: u64::MAX,
                inodes: u64::MAX,
                kernel_caches_only: true,
            },
            making: vec![0.0; run.record.plan.targets.len()],
            releasing: 0.0,
            needed: 0.0,
            cut: false,
            tracing: false,
            last_block_seconds: 0.0,
            done: run.trials.len() as u32,
            trial_started: wall_clock::now(),
            run,
        }
    }

    /// Indexes of the cells that are not left out.
    pub(super) fn held_cells(&self) -> Vec<usize> {
        (0..self.cells.len())
            .filter(|cell| self.cells[*cell].is_held())
            .collect()
    }

    /// Indexes of the cells that need more blocks.
    pub(super) fn open_cells(&self) -> Vec<usize> {
        self.held_cells()
            .into_iter()
            .filter(|cell| !self.cells[*cell].settled)
            .collect()
    }

    /// Returns whether every trial of a cell failed or was not applicable. `false` without a trial.
    pub(super) fn never_succeeded(&self, cell: usize) -> bool {
        let label = self.cells[cell].label();
        let mut is_tried = false;
        for trial in &self.run.trials {
            if trial.workload == label {
                is_tried = true;
                if !matches!(trial.outcome, Outcome::Failed | Outcome::NotApplicable) {
                    return false;
                }
            }
        }
        is_tried
    }

    /// Marks cells as left out, with the reason.
    pub(super) fn leave_out(&mut self, cells: &[usize], why: LeftOut) {
        cells
            .iter()
            .for_each(|cell| self.cells[*cell].left_out = Some(why));
    }

    /// Records the cells that are not left out.
    pub(super) fn record_held_cells(&mut self) {
        self.run.record.cells = self
            .cells
            .iter()
            .filter(|cell| cell.is_held())
            .map(|cell| cell.cell.clone())
            .collect();
    }

    /// Labels of cells, in their order.
    pub(super) fn labels(&self, cells: &[usize]) -> Vec<String> {
        cells
            .iter()
            .map(|cell| self.cells[*cell].label().to_owned())
            .collect()
    }

    pub(super) fn cell_of(&self, label: &str) -> Option<usize> {
        self.cells.iter().position(|cell| cell.label() == label)
    }

    pub(super) fn target_of(&self, name: &str) -> Option<usize> {
        self.run
            .record
            .plan
            .targets
            .iter()
            .position(|target| target.name == name)
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
        self.run
            .journal
            .record(&self.run.record)
            .map_err(RunError::Journal)
    }
}

/// The reason why a cell is not measured any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// The cell does not fit into the budget.
    Budget,
    /// The warm-up of the cell alone took longer than the budget allows.
    TooLong,
    /// The sizes of the cell are not in the design that fits into the budget.
    Design,
}

/// The free space on the targets of a block: the smallest values of all targets. Also whether
/// emptying the kernel's caches makes all targets cold.
#[derive(Debug, Clone, Copy)]
pub(super) struct FreeSpace {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
    pub(super) kernel_caches_only: bool,
}

/// A cell of the plan. Its index in the plan never changes: one that is left out stays where it is.
#[derive(Debug)]
pub(super) struct CellState {
    pub(super) cell: Cell,
    pub(super) profile: Profile,
    /// The unit that its samples consist of; `None` if it is measured as a whole.
    pub(super) unit: Option<CellUnit>,
    /// Seconds that the plan asks its samples to last.
    pub(super) sample_seconds: Option<f64>,
    pub(super) left_out: Option<LeftOut>,
    /// Whether the time of warm-up ended before the cell. Its costs follow from other cells.
    pub(super) is_skipped: bool,
    /// Whether the warm-up took longer than the budget allows.
    pub(super) too_long: bool,
    /// Whether no target had a value of the cell in warm-up. Such a cell gets no share of the
    /// budget.
    pub(super) is_hopeless: bool,
    /// Whether the cell needs no more blocks.
    pub(super) settled: bool,
    /// Seconds of removing its files, as warm-up measured them.
    pub(super) removing: f64,
    /// Seconds of all its trials in the last block.
    pub(super) block_seconds: f64,
    /// The costs that warm-up measured on each target, as a whole.
    pub(super) sequential_costs: Vec<SequentialCost>,
    /// The costs that warm-up measured on each target, in rounds.
    unit_costs: Vec<UnitCost>,
    /// Bytes that the files of a run of a command took in warm-up: the most of all targets.
    space_of_run: u64,
    /// Expected seconds of all targets in a block, where it is measured in rounds and that is
    /// planned.
    pub(super) case_seconds: Option<f64>,
    /// Expected seconds of a trial by target, where it is measured as a whole and that is planned.
    pub(super) expected: Vec<Option<f64>>,
}

impl CellState {
    pub(super) fn new(parsed: ParsedCell, in_rounds: bool, plan: &Plan) -> CellState {
        let ParsedCell {
            cell,
            profile,
            unit,
            background: _,
        } = parsed;
        CellState {
            sample_seconds: plan.sample_time_of(&cell.workload),
            unit: unit.filter(|_| in_rounds),
            cell,
            profile,
            left_out: None,
            is_skipped: false,
            too_long: false,
            is_hopeless: false,
            settled: false,
            removing: 0.0,
            block_seconds: 0.0,
            sequential_costs: Vec::new(),
            unit_costs: Vec::new(),
            space_of_run: 0,
            case_seconds: None,
            expected: vec![None; plan.targets.len()],
        }
    }

    pub(super) fn label(&self) -> &str {
        &self.cell.label
    }

    pub(super) fn is_held(&self) -> bool {
        self.left_out.is_none()
    }

    /// Returns whether the cell runs a command of the user.
    pub(super) fn is_command(&self) -> bool {
        self.profile.program.is_some()
    }

    /// Returns whether it is a command whose runs begin in new directories.
    pub(super) fn makes_new_directories(&self) -> bool {
        self.profile
            .program
            .as_ref()
            .is_some_and(|program| !program.reuse)
    }

    /// Returns whether rounds use the same units again, because emptying the caches of all targets
    /// makes them cold again.
    pub(super) fn reuses_files(&self, free: FreeSpace) -> bool {
        free.kernel_caches_only && self.unit.as_ref().is_some_and(|unit| unit.only_warmed)
    }

    /// Returns whether each unit begins cold on files of its own.
    pub(super) fn is_cold(&self, free: FreeSpace) -> bool {
        let own = self.unit.as_ref().is_some_and(|unit| unit.own_files);
        own && self.profile.cache.begins_cold() && !self.reuses_files(free)
    }

    /// Returns whether it is a command that runs `long` seconds or more on every target, so that
    /// one run per block is enough.
    fn is_long_command(&self, long: f64) -> bool {
        let fastest = self
            .unit_costs
            .iter()
            .map(|cost| cost.timed)
            .fold(f64::INFINITY, f64::min);
        self.is_command() && fastest.is_finite() && fastest >= long
    }

    /// Returns the cell as the planner sees it. A command that takes `long` seconds is long.
    pub(super) fn case(&self, free: FreeSpace, long: f64) -> Case {
        let Some(unit) = &self.unit else {
            return Case::SequentialTrial(Box::new(SequentialTrial {
                profile: self.profile.clone(),
                sample_seconds: sequential_seconds(&self.profile, self.sample_seconds),
                sustain: self.cell.workload.sustain,
                costs: self.sequential_costs.clone(),
            }));
        };
        let sample_seconds = self.sample_seconds.unwrap_or(SAMPLE_SECONDS);
        fn units(room: u64, unit: u64) -> u32 {
            (room / unit.max(1)).clamp(1, 1_000_000) as u32
        }
        let space = unit.space.max(self.space_of_run);
        let bytes = planner::filled(free.bytes, space, sample_seconds);
        Case::Rounds(InRounds {
            own_files: unit.own_files,
            reuse_files: self.reuses_files(free),
            is_cold: self.is_cold(free),
            new_directories: self.makes_new_directories(),
            room: units(bytes, space).min(units(planner::filled_inodes(free.inodes), unit.inodes)),
            sample_seconds,
            single: self.is_long_command(long),
            costs: self.unit_costs.clone(),
        })
    }

    /// Returns the seconds of making a directory of a command and those of the command, as means of
    /// all targets, if the first is longer and noticeable.
    pub(super) fn preparation(&self) -> Option<[f64; 2]> {
        /// A command of milliseconds waits as long for its directory to be on the device.
        const NOTICEABLE: f64 = 0.05;
        if !self.makes_new_directories() {
            return None;
        }
        let in_rounds = self
            .unit_costs
            .iter()
            .map(|cost| [cost.prepare, cost.timed]);
        let sequential = self
            .sequential_costs
            .iter()
            .map(|cost| [cost.spent.prepare, cost.seconds]);
        let costs: Vec<[f64; 2]> = in_rounds.chain(sequential).collect();
        let mean =
            |which: usize| costs.iter().map(|cost| cost[which]).sum::<f64>() / costs.len() as f64;
        let means = [mean(0), mean(1)];
        (means[0] > NOTICEABLE && means[0] > means[1]).then_some(means)
    }

    /// Learns from a reply of the warm-up block.
    pub(super) fn learn(&mut self, target: usize, reply: &TrialReply, free: FreeSpace) {
        if self.unit.is_some() {
            let space = reply.measured.as_ref().and_then(|measured| measured.space);
            self.space_of_run = self.space_of_run.max(space.unwrap_or(0));
            self.learn_unit(reply, free);
        } else if let Some(measured) = &reply.measured {
            self.sequential_costs.push(SequentialCost {
                target,
                operations: measured.work.operations,
                seconds: measured.work.timed_ns as f64 * 1e-9,
                spent: reply.spent,
                journal_turns: measured.sustained.and_then(|sustained| sustained.turns),
                between: false,
            });
        }
    }

    fn learn_unit(&mut self, reply: &TrialReply, free: FreeSpace) {
        let (timed, spent) = (&reply.samples.timed_ns, &reply.spent);
        if timed.is_empty() {
            return;
        }
        let mean = timed.iter().sum::<u64>() as f64 * 1e-9 / timed.len() as f64;
        let (timed_seconds, wall) = if self.is_command() {
            // The first run may have read the program itself from disk.
            let last = timed.last().map_or(mean, |last| *last as f64 * 1e-9);
            (last, spent.measure / timed.len() as f64 - mean + last)
        } else {
            // The sample that led in was measured, too.
            (mean, spent.measure / (timed.len() as f64 + 1.0))
        };
        let made = sets(
            self.reuses_files(free),
            timed.len() as u32,
            0,
            WARM_UP.units,
        );
        let (prepare, files) = match &self.unit {
            // Each run had a directory.
            Some(_) if self.makes_new_directories() => {
                (spent.prepare / timed.len() as f64, spent.cleanup)
            }
            Some(unit) if unit.own_files => {
                ((spent.prepare + spent.cleanup) / f64::from(made), 0.0)
            }
            _ => (0.0, spent.prepare + spent.cleanup),
        };
        self.unit_costs.push(UnitCost {
            timed: timed_seconds,
            wall,
            prepare,
            // The planner adds the steps around each sample.
            fixed: (spent.set_up - AROUND * (timed.len() as f64 + 1.0)).max(0.0) + files,
        });
    }

    /// Returns the expected seconds in a block on these targets.
    pub(super) fn seconds_on(&self, targets: &[usize]) -> f64 {
        self.case_seconds.unwrap_or_else(|| {
            targets
                .iter()
                .filter_map(|target| self.expected[*target])
                .sum()
        })
    }
}

// The interface to the judges, which decide by the results so far how a run continues. The runner
// knows no statistics.

/// The decision of a judge between two blocks.
#[derive(Debug, Default)]
pub struct Judgment {
    /// Labels of cells that need no more blocks, in addition to those that were named before.
    pub settled: Vec<String>,
    /// The targets of the next block, and the slice of the medium that each gets; `None` for all
    /// targets.
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
    /// Returns whether each block holds some of the targets only, which [`Judgment::targets`]
    /// names.
    fn draws_targets(&self) -> bool {
        false
    }

    /// Decides after `made` measured blocks. `trials` are those of these blocks and of the warm-up.
    fn judge(&mut self, record: &RunRecord, trials: &[Trial], made: u32) -> Judgment;

    /// Returns the reason that is recorded if the runner ends the run after `made` blocks.
    /// `judgment` is the last one.
    fn reason(
        &self,
        record: &RunRecord,
        trials: &[Trial],
        ending: Ending,
        made: u32,
        judgment: Judgment,
    ) -> StopReason;
}

/// The error that ended a run early. Trials that ended before are on disk.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The agent refused, is gone, or the user interrupted.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A run is resumed on another device.
    #[error("{0}")]
    OtherDevice(String),
    /// A run is resumed on another build of its kernel.
    #[error("{0}")]
    OtherKernel(String),
    /// No requested workload fits the budget.
    #[error("{0}")]
    Budget(String),
    /// A trial could not be written down.
    #[error("the run stopped because it could not save a trial: {}", .0.text)]
    Journal(Tried),
}

error_codes! {
    INTERRUPTED = "run/interrupted", 130, "The user interrupted the run.", "Resume the run with fsb run --resume DIR.";
    AGENT_GONE = "run/agent-gone", code::MACHINE, "The process that owns the testbed ended.", "Look at the kernel's log; resume the run with fsb run --resume DIR.";
    OTHER_DEVICE = "run/other-device", code::REQUEST, "The run was begun on another device.", "Resume the run on the same device.";
    OTHER_KERNEL = "run/other-kernel", code::REQUEST, "The run was begun on another build of the kernel.", "Resume the run on the same kernel.";
    BUDGET = "run/budget-too-small", code::REQUEST, "The budget holds no workload.", "Use a larger --budget.";
    JOURNAL = "run/journal", code::MACHINE, "A trial could not be saved.", "Make room on the disk, and resume the run with fsb run --resume DIR.";
}

impl Coded for RunError {
    fn code(&self) -> &'static ErrorCode {
        match self {
            RunError::Agent(AgentError::Refused(error)) => error.code(),
            RunError::Agent(AgentError::Interrupted) => &INTERRUPTED,
            RunError::Agent(AgentError::Gone(_)) => &AGENT_GONE,
            RunError::OtherDevice(_) => &OTHER_DEVICE,
            RunError::OtherKernel(_) => &OTHER_KERNEL,
            RunError::Budget(_) => &BUDGET,
            RunError::Journal(_) => &JOURNAL,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        match self {
            RunError::Agent(AgentError::Refused(error)) => error.fields(),
            RunError::Journal(Tried {
                errno: Some(number),
                ..
            }) => errno::name(*number)
                .map(|name| code::fields([("errno", name.into())]))
                .unwrap_or_default(),
            _ => Map::new(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            RunError::Agent(AgentError::Refused(error)) => error.help(),
            _ => None,
        }
    }
}

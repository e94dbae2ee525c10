//! The runner's knowledge of each cell: its workload, the costs that warm-up measured, and the plan.

use fsb_engine::Profile;
use fsb_model::{Cell, Plan};

use super::planner::{self, Case, InRounds, SAMPLE_SECONDS, UnitCost, WARM_UP, Whole, WholeCost, sets, whole_seconds};
use crate::agent::TrialReply;
use crate::work::{CellUnit, ParsedCell};

/// The reason why a cell is not measured any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    /// The budget does not hold it.
    Budget,
    /// Its warm-up alone took longer than the budget allows.
    TooLong,
    /// Its sizes are not in the design that the budget holds.
    Design,
}

/// Room on the targets of a block: that of the fullest one, and whether emptying the kernel's caches makes all of them
/// cold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
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
    /// Its warm-up took longer than the budget allows.
    pub(super) too_long: bool,
    /// It needs no more blocks.
    pub(super) settled: bool,
    /// Seconds of removing its files, as warm-up measured them.
    pub(super) removing: f64,
    /// The costs that warm-up measured on each target, as a whole.
    pub(super) whole_costs: Vec<WholeCost>,
    /// The costs that warm-up measured on each target, in rounds.
    pub(super) unit_costs: Vec<UnitCost>,
    /// Expected seconds of all targets in a block, where it is measured in rounds and that is planned.
    pub(super) row_seconds: Option<f64>,
    /// Expected seconds of a trial by target, where it is measured as a whole and that is planned.
    pub(super) expected: Vec<Option<f64>>,
}

impl CellState {
    pub(super) fn new(parsed: ParsedCell, in_rounds: bool, plan: &Plan) -> CellState {
        let ParsedCell { cell, profile, unit } = parsed;
        CellState {
            sample_seconds: plan.sample_time_of(&cell.workload),
            unit: unit.filter(|_| in_rounds),
            cell,
            profile,
            left_out: None,
            too_long: false,
            settled: false,
            removing: 0.0,
            whole_costs: Vec::new(),
            unit_costs: Vec::new(),
            row_seconds: None,
            expected: vec![None; plan.targets.len()],
        }
    }

    pub(super) fn label(&self) -> &str {
        &self.cell.label
    }

    pub(super) fn is_held(&self) -> bool {
        self.left_out.is_none()
    }

    /// Returns whether it runs a command of the user.
    pub(super) fn is_command(&self) -> bool {
        self.profile.program.is_some()
    }

    /// Returns whether rounds use the same units again, because emptying the caches of all targets makes them cold
    /// again.
    pub(super) fn revisits(&self, room: Room) -> bool {
        room.kernel_caches_only && self.unit.as_ref().is_some_and(|unit| unit.only_warmed)
    }

    /// Returns whether it is a command that runs `long` seconds or more on every target, so that one run per block is
    /// enough.
    fn is_long_command(&self, long: f64) -> bool {
        let fastest = self.unit_costs.iter().map(|cost| cost.timed).fold(f64::INFINITY, f64::min);
        self.is_command() && fastest.is_finite() && fastest >= long
    }

    /// Returns the cell as the planner sees it. A command that takes `long` seconds is long.
    pub(super) fn case(&self, room: Room, long: f64) -> Case {
        let Some(unit) = &self.unit else {
            return Case::Whole(Box::new(Whole {
                profile: self.profile.clone(),
                sample_seconds: whole_seconds(&self.profile, self.sample_seconds),
                sustain: self.cell.workload.sustain,
                costs: self.whole_costs.clone(),
            }));
        };
        let fits =
            |room: u64, needed: u64| (room as f64 * planner::FILLED / needed.max(1) as f64).clamp(1.0, 1e6) as u32;
        Case::Rounds(InRounds {
            own_files: unit.own_files,
            revisit: self.revisits(room),
            room: fits(room.bytes, unit.space).min(fits(room.inodes, unit.inodes)),
            sample_seconds: self.sample_seconds.unwrap_or(SAMPLE_SECONDS),
            single: self.is_long_command(long),
            costs: self.unit_costs.clone(),
        })
    }

    /// Learns from a reply of the warm-up block.
    pub(super) fn learn(&mut self, target: usize, reply: &TrialReply, room: Room) {
        if self.unit.is_some() {
            self.learn_unit(reply, room);
        } else if let Some(measured) = &reply.measured {
            self.whole_costs.push(WholeCost {
                target,
                operations: measured.operations,
                seconds: measured.timed_ns as f64 * 1e-9,
                spent: reply.spent,
                journal_turns: measured.sustained.and_then(|sustained| sustained.turns),
                between: false,
            });
        }
    }

    fn learn_unit(&mut self, reply: &TrialReply, room: Room) {
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
        let own = self.unit.as_ref().is_some_and(|unit| unit.own_files);
        let files = spent.prepare + spent.cleanup;
        let made = sets(self.revisits(room), timed.len() as u32, 0, WARM_UP.units);
        self.unit_costs.push(UnitCost {
            timed: timed_seconds,
            wall,
            prepare: if own { files / f64::from(made) } else { 0.0 },
            fixed: spent.settle + if own { 0.0 } else { files },
        });
    }

    /// Returns the expected seconds in a block on these targets.
    pub(super) fn seconds_on(&self, targets: &[usize]) -> f64 {
        self.row_seconds.unwrap_or_else(|| targets.iter().filter_map(|target| self.expected[*target]).sum())
    }
}

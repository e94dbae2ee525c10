//! How much there is to do: said before anything is known, decided after warm-up.

use std::collections::BTreeMap;
use std::time::Duration;

use fsb_engine::Profile;
use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::{Amount, Cell, Params, Repetition, RunRecord};
use fsb_testbed::LocalTestbed;
use serde_json::Value;

use super::schedule::{Run, Schedule, setup};
use super::stopping;
use crate::calibrate::{Basis, Visited, expected_seconds, shortened, shortest, stretch_seconds};
use crate::event::Event;
use crate::matrix::{Grid, between, design, estimate};
use crate::placement;
use crate::rounds::{self, CellInRounds};
use crate::work::{CellUnit, Work};

/// How long a run takes by a model that knows nothing of the machine: enough to tell minutes from hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Blocks: those that were asked for, or the fewest that can be judged.
    pub blocks: u32,
    /// All of them, with warm-up.
    pub time: Duration,
    /// A budget chooses among the sizes of a matrix.
    chooses: bool,
}

/// The estimate for a run that warms up.
pub fn expected(record: &RunRecord, work: &Work) -> Expected {
    expected_of(record, work, true)
}

fn expected_of(record: &RunRecord, work: &Work, warmup: bool) -> Expected {
    let plan = &record.plan;
    let (profiles, units, asked) = (work.profiles(), work.units(record), work.stretches(plan));
    let chooses = !Grid::of(&record.cells, &profiles).is_empty();
    // Of a matrix fewer cells come before shorter stretches; otherwise a budget makes stretches as short as they may be.
    let shortens = !chooses && plan.repetition.budget().is_some();
    let scale = |asked: Option<f64>| if shortens { shortest(asked.is_some()) } else { 1.0 };
    let of_cell = |(label, profile): (&String, &Profile)| match units.get(label) {
        Some(_) => estimate::ROW,
        None => {
            let asked = asked.get(label).copied();
            estimate::trial_seconds(profile, shortened(stretch_seconds(profile, asked), scale(asked)))
        }
    };
    let trials: f64 = profiles.iter().map(of_cell).sum();
    let blocks = match plan.repetition {
        Repetition::Blocks { blocks, .. } => blocks,
        _ if units.is_empty() => FEWEST_BLOCKS_JUDGED,
        _ => rounds::fewest_blocks(placement::parts(record)),
    };
    let block = (trials + estimate::VISIT) * plan.at_once() as f64;
    // Warm-up is a block, too.
    let made = blocks + u32::from(warmup);
    Expected { blocks, time: Duration::from_secs_f64(block * f64::from(made)), chooses }
}

/// Says how long a matrix will take, and any run that its budget will not hold, by a model: nothing is known of the machine
/// yet.
pub(super) fn say_estimate(run: &mut Run<'_>) {
    let Expected { blocks, time: expected, chooses } = expected_of(&run.record, &run.work, run.warmup);
    let budget = run.record.plan.repetition.budget();
    // What touches nothing takes no time.
    let works = LocalTestbed::may_leave(&setup(&run.record));
    if run.record.plan.race.is_none() && (chooses || works && budget.is_some_and(|budget| budget < expected)) {
        let cells = run.work.profiles().len();
        run.observer.event(&Event::Estimated { cells, blocks, expected, budget, chooses });
    }
}

impl Schedule<'_> {
    /// The cells that are parts of matrices.
    pub(super) fn grid(&self) -> Grid {
        Grid::of(&self.cells, &self.profiles)
    }

    /// Fixes the amounts and the number of blocks; of a matrix that the budget does not hold, a part is chosen.
    pub(super) fn calibrate(&mut self) {
        if self.run.record.plan.race.is_some() {
            self.calibrate_heats();
            return self.expect();
        }
        if self.side_by_side {
            return self.calibrate_rounds();
        }
        let grid = self.grid();
        self.samples.extend(between::fill(&grid, &self.samples));
        let left = self.seconds_of_budget_left();
        if left.is_finite() && !grid.is_empty() {
            self.thin_out(&grid, left);
        }
        let cells = self.visited();
        let basis = self.basis(&cells, left);
        let decided = basis.decide();
        self.run.record.amounts.clone_from(&decided.amounts);
        self.expect();
        self.plan_blocks(decided.blocks, decided.block_seconds);
    }

    /// Notes and tells how many blocks are made, which take so many seconds each, and what ends the run.
    fn plan_blocks(&mut self, blocks: u32, block_seconds: f64) {
        let repetition = self.run.record.plan.repetition;
        let rule = stopping::rule(repetition, self.targets().len(), blocks, &self.run.record.looks);
        self.run.record.blocks_planned = Some(blocks);
        self.run.record.stopping_rule = Some(rule.clone());
        self.run.observer.event(&Event::Planned {
            blocks,
            rule: &rule,
            expected: Duration::try_from_secs_f64(block_seconds * f64::from(blocks)).unwrap_or(Duration::MAX),
        });
        self.say_unjudged(blocks, block_seconds);
    }

    /// Fixes rounds, blocks and looks. Cells that are measured as wholes get their share of the time, by their number; or what
    /// the fewest blocks of them need, where the length of their visits was asked for.
    fn calibrate_rounds(&mut self) {
        let left = self.seconds_of_budget_left();
        let (rows, wholes): (Vec<_>, Vec<_>) =
            self.visited().into_iter().partition(|visited| self.units.contains_key(&visited.label));
        let rotation = placement::parts(&self.run.record);
        let basis = self.basis(&wholes, left);
        let basis = Basis { left: left_for(&basis, rows.len(), rotation), ..basis };
        let decided = basis.decide();
        let seconds_of_wholes = if wholes.is_empty() { 0.0 } else { decided.block_seconds };
        let mut amounts = decided.amounts;
        let rows: Vec<CellInRounds> = rows.into_iter().map(|visited| self.row_of(visited.label)).collect();
        let samples = self.unit_samples.clone();
        let basis = rounds::Basis {
            rows: &rows,
            samples: &samples,
            base: self.block_base + seconds_of_wholes,
            rotation,
            repetition: self.run.record.plan.repetition,
            left,
            emulated: self.run.record.emulated,
        };
        let mut decided = basis.decide();
        if self.leave_rows_to_judge(&basis, &decided) {
            decided = rounds::Basis { rows: &rows[..self.cells.len()], ..basis }.decide();
        }
        self.note_rounds(&mut amounts, &decided);
        self.run.record.looks = decided.looks;
        self.expect();
        self.plan_blocks(decided.blocks, decided.block_seconds);
    }

    /// Fixes the rounds, beside the amounts of cells that are measured as wholes.
    pub(super) fn note_rounds(&mut self, amounts: &mut BTreeMap<String, Amount>, decided: &rounds::Decision) {
        for (label, rounds) in &decided.rounds {
            let operations = self.units.get(label).map_or(0, |unit| unit.operations * u64::from(rounds.units));
            amounts.insert(label.clone(), Amount::of(rounds.rounds, operations));
        }
        self.row_seconds.clone_from(&decided.row_seconds);
        let record = &mut self.run.record;
        let of_cell = |cell: &Cell| {
            let unit = self.units.get(&cell.label).filter(|_| decided.rounds.contains_key(&cell.label))?;
            Some((cell.label.clone(), otherwise(cell, unit)))
        };
        record.units = record.cells.iter().filter_map(of_cell).collect();
        record.amounts.clone_from(amounts);
        record.rounds.clone_from(&decided.rounds);
    }

    pub(super) fn row_of(&self, label: String) -> CellInRounds {
        let unit = &self.units[&label];
        let (bytes, inodes) = self.free;
        let fits =
            |room: u64, needed: u64| (room as f64 * rounds::FILLED / needed.max(1) as f64).clamp(1.0, 1e6) as u32;
        let room = fits(bytes, unit.space).min(fits(inodes, unit.inodes));
        let stretch = self.stretches.get(&label).copied().unwrap_or(rounds::STRETCH);
        let single = self.is_long_command(&label);
        CellInRounds { own_files: unit.own_files, revisit: self.revisits(&label), room, stretch, single, label }
    }

    pub(super) fn visited(&self) -> Vec<Visited> {
        let visited = |cell: &Cell| {
            let profile = self.profiles[&cell.label].clone();
            let stretch = stretch_seconds(&profile, self.stretches.get(&cell.label).copied());
            Visited { label: cell.label.clone(), profile, stretch, sustain: cell.workload.sustain }
        };
        self.cells.iter().map(visited).collect()
    }

    pub(super) fn basis<'b>(&'b self, cells: &'b [Visited], left: f64) -> Basis<'b> {
        Basis {
            cells,
            samples: &self.samples,
            visits: self.visit_seconds.values().sum(),
            repetition: self.run.record.plan.repetition,
            asked: cells.iter().any(|visited| self.stretches.contains_key(&visited.label)),
            left,
        }
    }

    /// Leaves out what the budget does not hold: sizes of a matrix, evenly, so that there is time for enough blocks.
    fn thin_out(&mut self, grid: &Grid, left: f64) {
        let cells = self.visited();
        let basis = self.basis(&cells, left);
        let seconds = basis.seconds_of_cells();
        let whole: f64 = grid.spots().iter().filter_map(|spot| seconds.get(spot.label.as_str())).sum();
        let others = seconds.values().sum::<f64>() - whole + basis.visits;
        let design = design::largest(grid, &seconds, basis.to_fill() / f64::from(FEWEST_BLOCKS_JUDGED) - others);
        let enough = basis.to_hold((whole + others) * f64::from(FEWEST_BLOCKS_JUDGED));
        let enough = enough + self.run.started.elapsed().as_secs_f64();
        let Some(warning) = design.warning(grid, enough) else { return };
        let left_out = design.left_out(grid);
        self.cells.retain(|cell| !left_out.contains(&cell.label));
        self.run.record.cells.clone_from(&self.cells);
        self.warn(warning);
    }

    /// Notes how long each trial should take.
    fn expect(&mut self) {
        let amounts = &self.run.record.amounts;
        let expected = self.samples.iter().filter_map(|sample| {
            let seconds = expected_seconds(&self.profiles[&sample.label], *amounts.get(&sample.label)?, sample);
            Some(((sample.target.clone(), sample.label.clone()), seconds))
        });
        self.expected = expected.collect();
    }
}

/// What a unit has otherwise than its cell.
fn otherwise(cell: &Cell, unit: &CellUnit) -> Params {
    let differs = |(key, value): &(&String, &Value)| cell.workload.params.get(*key).is_some_and(|own| own != *value);
    unit.workload.params.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Seconds of the budget that are for cells that are measured as wholes, beside so many rows.
fn left_for(wholes: &Basis<'_>, rows: usize, rotation: u32) -> f64 {
    /// Rows get the rest at least.
    const MOST: f64 = 0.7;
    let share = wholes.cells.len() as f64 / (rows + wholes.cells.len()).max(1) as f64;
    if !wholes.asked || !wholes.left.is_finite() {
        return wholes.left * share;
    }
    let whole = Basis { left: f64::INFINITY, ..*wholes }.decide().block_seconds;
    let needed = wholes.to_hold(whole * f64::from(rounds::fewest_blocks(rotation)));
    (wholes.left * share).max(needed.min(wholes.left * MOST))
}

//! The amount of work: a model estimates it before the run, and the planner fixes it after warm-up.

use std::collections::BTreeSet;
use std::time::Duration;

use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::stop::StoppingRule;
use fsb_model::{Amount, Cell, Params, Repetition, RunRecord, Warning};
use fsb_testbed::LocalTestbed;
use serde_json::Value;

use super::state::{CellState, LeftOut, Run, Schedule, setup};
use crate::event::Event;
use crate::matrix::{self, Grid};
use crate::planner::{
    BLOCKS_IN_ROUNDS, Basis, Case, Decision, LONG_COMMAND, Share, fewest_blocks,
    sequential_seconds, shortened, shortest, to_hold,
};
use crate::work::{self, CellUnit, ParsedCell, Work};

/// In a race, the least ratio of a block's duration to the time in it that is not measured.
const WORTH: f64 = 2.5;
/// In a race, share of the time left within which every candidate should have been measured twice.
const FIRST_TURNS: f64 = 0.4;
/// As [`LONG_COMMAND`], in a race: a block is to last longer than making its targets.
const LONG_IN_RACE: f64 = 2.0;

/// The expected time of a run by a model that does not know the machine: enough to distinguish
/// minutes from hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The requested number of blocks, or the fewest that can be judged.
    pub blocks: u32,
    /// All of them, with warm-up.
    pub time: Duration,
    /// Whether a budget chooses among the sizes of a matrix.
    chooses: bool,
}

/// Returns the estimate for a run that warms up.
pub fn expected(record: &RunRecord, work: &Work) -> Expected {
    expected_of(record, work, true)
}

fn expected_of(record: &RunRecord, work: &Work, warmup: bool) -> Expected {
    let plan = &record.plan;
    let cells = work.cells.iter().enumerate();
    let chooses =
        !Grid::from_cells(cells.map(|(index, parsed)| (index, &parsed.cell, &parsed.profile)))
            .is_empty();
    // A budget leaves out cells of a matrix before it shortens samples. Otherwise it makes samples
    // as short as they may be.
    let shortens = !chooses && plan.repetition.budget().is_some();
    let scale = |asked: Option<f64>| {
        if shortens {
            shortest(asked.is_some())
        } else {
            1.0
        }
    };
    let in_rounds = |parsed: &ParsedCell| work.unit_in_rounds(record, parsed).is_some();
    let of_cell = |parsed: &ParsedCell| {
        if in_rounds(parsed) {
            return matrix::TYPICAL_ROW;
        }
        let asked = plan.sample_time_of(&parsed.cell.workload);
        matrix::typical_seconds(
            &parsed.profile,
            shortened(sequential_seconds(&parsed.profile, asked), scale(asked)),
        )
    };
    let trials: f64 = work.cells.iter().map(of_cell).sum();
    let blocks = match plan.repetition {
        Repetition::Blocks { blocks, .. } => blocks,
        _ if !work.cells.iter().any(in_rounds) => FEWEST_BLOCKS_JUDGED,
        _ => fewest_blocks(work::slices(record)),
    };
    let block = (trials + matrix::TYPICAL_VISIT) * plan.at_once() as f64;
    // Warm-up is a block, too.
    let made = blocks + u32::from(warmup);
    Expected {
        blocks,
        time: Duration::from_secs_f64(block * f64::from(made)),
        chooses,
    }
}

/// Reports the expected time of a matrix, and of any run that its budget will not hold, from a
/// model: nothing is known of the machine yet.
pub(super) fn say_estimate(run: &mut Run<'_>) {
    let Expected {
        blocks,
        time: expected,
        chooses,
    } = expected_of(&run.record, &run.work, run.warmup);
    let budget = run.record.plan.repetition.budget();
    // Fakes take no time.
    let works = LocalTestbed::may_leave(&setup(&run.record));
    if !run.judge.draws_targets()
        && (chooses || works && budget.is_some_and(|budget| budget < expected))
    {
        let cells = run.work.cells.len();
        run.observer.event(&Event::Estimated {
            cells,
            blocks,
            expected,
            budget,
            chooses,
        });
    }
}

impl Schedule<'_> {
    /// Returns the cells that are parts of matrices and are not left out.
    pub(super) fn grid(&self) -> Grid {
        let held = self
            .cells
            .iter()
            .enumerate()
            .filter(|(_, state)| state.is_held());
        Grid::from_cells(held.map(|(index, state)| (index, &state.cell, &state.profile)))
    }

    /// Fixes the amounts, the rounds and the number of blocks. Chooses a part of a matrix that the
    /// budget does not hold.
    pub(super) fn plan(&mut self) {
        if self.run.judge.draws_targets() {
            return self.plan_race();
        }
        let left = self.seconds_of_budget_left();
        for cell in self.held_cells() {
            self.cells[cell].is_hopeless = self.never_succeeded(cell);
        }
        if !self.side_by_side {
            let grid = self.grid();
            let costs: Vec<_> = self
                .cells
                .iter()
                .map(|state| &state.sequential_costs[..])
                .collect();
            for (cell, cost) in matrix::fill_costs(&grid, &costs) {
                self.cells[cell].sequential_costs.push(cost);
            }
            if left.is_finite() && !grid.is_empty() {
                self.thin_out(&grid, left);
            }
        }
        let cases = self.cases(LONG_COMMAND);
        let rotation = work::slices(&self.run.record);
        let basis = Basis {
            rotation,
            ..self.basis(&cases, left)
        };
        let mut decided = basis.decide();
        if let Some(judged) = self.leave_cells_to_judge(&basis, &decided) {
            let cases: Vec<Case> = judged
                .into_iter()
                .map(|index| cases[index].clone())
                .collect();
            decided = Basis {
                cases: &cases,
                ..basis
            }
            .decide();
        }
        self.note(&self.planned_cells(), &decided);
        let planned = self.planned_cells();
        let mut hopeless = self.held_cells();
        hopeless.retain(|cell| !planned.contains(cell));
        // They are measured once more, with an amount of their own.
        let cases = self.cases_of(&hopeless, LONG_COMMAND);
        let alone = self.basis(&cases, left).decide();
        self.note(&hopeless, &alone);
        self.say_preparation();
        self.run.record.interim_analyses = decided.interim_analyses;
        self.plan_blocks(decided.blocks, decided.block_seconds);
    }

    /// Fixes the duration of a block of a race. It is long enough that most of it is measured, and
    /// short enough that every candidate is measured twice within a share of the time.
    fn plan_race(&mut self) {
        let left = self.seconds_of_budget_left();
        let slots = self.run.record.plan.at_once() as u32;
        let rivals = self.run.record.plan.targets.len().saturating_sub(1).max(1) as f64;
        let turns = 2.0 * (rivals / f64::from(slots.max(2) - 1)).ceil();
        let making: f64 = self.making.iter().sum();
        let desired = (making.max(1.0) * WORTH)
            .min(left * FIRST_TURNS / turns)
            .max(making * 1.2);
        let seconds = desired * f64::from(BLOCKS_IN_ROUNDS);
        let cases = self.cases(LONG_IN_RACE);
        let repetition = Repetition::Budget { seconds };
        let decided = Basis {
            repetition,
            interim: true,
            ..self.basis(&cases, seconds)
        }
        .decide();
        self.note(&self.planned_cells(), &decided);
        self.say_preparation();
        let error = self
            .run
            .record
            .plan
            .race
            .as_ref()
            .map_or(0.0, |race| race.error);
        let rule = StoppingRule::Race {
            slots,
            round_seconds: decided.block_seconds,
            error,
        };
        self.run.observer.event(&Event::RacePlanned { rule: &rule });
        self.run.record.stopping_rule = Some(rule);
    }

    /// Returns the indexes of the cells that share the budget: those that are not left out and not
    /// hopeless, or all that are not left out if every one is hopeless.
    pub(super) fn planned_cells(&self) -> Vec<usize> {
        let held = self.held_cells();
        let mut hopeful = held.clone();
        hopeful.retain(|cell| !self.cells[*cell].is_hopeless);
        if hopeful.is_empty() { held } else { hopeful }
    }

    /// Returns the cells that share the budget, as the planner sees them.
    fn cases(&self, long_command: f64) -> Vec<Case> {
        self.cases_of(&self.planned_cells(), long_command)
    }

    fn cases_of(&self, cells: &[usize], long_command: f64) -> Vec<Case> {
        let mut cases = Vec::new();
        for cell in cells {
            cases.push(self.cells[*cell].case(self.free, long_command));
        }
        cases
    }

    fn basis<'c>(&self, cases: &'c [Case], left: f64) -> Basis<'c> {
        Basis {
            cases,
            base: self.making.iter().sum(),
            rotation: 1,
            interim: self.side_by_side,
            repetition: self.run.record.plan.repetition,
            asked: self
                .cells
                .iter()
                .any(|cell| cell.is_held() && cell.unit.is_none() && cell.sample_seconds.is_some()),
            left,
            emulated: self.run.record.emulated,
        }
    }

    /// Gives all cases with one subject the amount of the one that does the least: beside a
    /// background it does the same work as alone, on files of the same size.
    fn equalise(&mut self) {
        for cell in self.held_cells() {
            let workload = &self.cells[cell].cell.workload;
            if workload.background.is_none() {
                continue;
            }
            let with_it = self
                .cells
                .iter()
                .filter(|state| state.cell.workload.has_subject_of(workload));
            let labels: Vec<String> = with_it.map(|state| state.label().to_owned()).collect();
            let amounts = &mut self.run.record.amounts;
            let least = labels
                .iter()
                .filter_map(|label| amounts.get(label))
                .min_by_key(|amount| amount.operations.saturating_mul(amount.repetitions.into()))
                .copied();
            labels
                .iter()
                .filter_map(|label| Some((label, least?)))
                .for_each(|(label, least)| {
                    amounts
                        .entry(label.clone())
                        .and_modify(|amount| *amount = least);
                });
        }
    }

    /// Records the amounts and rounds, and the expected time of each cell.
    fn note(&mut self, cells: &[usize], decided: &Decision) {
        for (cell, share) in cells.iter().copied().zip(&decided.shares) {
            let (state, record) = (&mut self.cells[cell], &mut self.run.record);
            let label = state.cell.label.clone();
            match share {
                Share::SequentialTrial(amount) => {
                    for cost in &state.sequential_costs {
                        state.expected[cost.target] =
                            Some(cost.expected_seconds(&state.profile, *amount));
                    }
                    record.amounts.insert(label, *amount);
                }
                Share::Rounds(rounds, seconds) => {
                    state.case_seconds = Some(*seconds);
                    let Some(unit) = &state.unit else { continue };
                    let operations = unit.operations * u64::from(rounds.units);
                    record
                        .amounts
                        .insert(label.clone(), Amount::new(rounds.rounds, operations));
                    record
                        .units
                        .insert(label.clone(), otherwise(&state.cell, unit));
                    record.rounds.insert(label, *rounds);
                }
            }
        }
        self.equalise();
    }

    /// Warns of commands whose directories take longer to make than the commands run.
    fn say_preparation(&mut self) {
        fn warning(cell: &CellState) -> Option<fsb_model::Warning> {
            let [prepare_seconds, command_seconds] = cell.preparation()?;
            let workload = cell.label().to_owned();
            Some(Warning::LongPreparation {
                workload,
                prepare_seconds,
                command_seconds,
            })
        }
        let held = self.cells.iter().filter(|cell| cell.is_held());
        let warnings: Vec<Warning> = held.filter_map(warning).collect();
        warnings.iter().for_each(|warning| self.warn_once(warning));
    }

    /// Records and reports the number of blocks, with the expected seconds of each, and the rule
    /// that ends the run.
    fn plan_blocks(&mut self, blocks: u32, block_seconds: f64) {
        let record = &mut self.run.record;
        let rule = StoppingRule::new(
            record.plan.repetition,
            record.plan.targets.len(),
            blocks,
            &record.interim_analyses,
        );
        record.blocks_planned = Some(blocks);
        record.stopping_rule = Some(rule.clone());
        self.run.observer.event(&Event::Planned {
            blocks,
            rule: &rule,
            expected: Duration::try_from_secs_f64(block_seconds * f64::from(blocks))
                .unwrap_or(Duration::MAX),
        });
        self.say_unjudged(blocks, block_seconds);
    }

    /// Leaves out sizes of a matrix, evenly, if the budget does not hold enough blocks with all of
    /// them.
    fn thin_out(&mut self, grid: &Grid, left: f64) {
        let cases = self.cases(LONG_COMMAND);
        let basis = self.basis(&cases, left);
        let held = self.planned_cells();
        let mut seconds = vec![0.0; self.cells.len()];
        held.iter()
            .zip(basis.seconds_of_cells())
            .for_each(|(cell, of_cell)| seconds[*cell] = of_cell);
        let whole: f64 = grid.spots().iter().map(|spot| seconds[spot.cell]).sum();
        let others = seconds.iter().sum::<f64>() - whole + basis.base;
        let design = matrix::largest_part(
            grid,
            &seconds,
            basis.to_fill() / f64::from(FEWEST_BLOCKS_JUDGED) - others,
        );
        let enough = to_hold((whole + others) * f64::from(FEWEST_BLOCKS_JUDGED));
        let enough = enough + self.run.started.elapsed().as_secs_f64();
        let Some(warning) = design.warning(grid, enough) else {
            return;
        };
        let gone: BTreeSet<usize> = design.left_out(grid);
        self.leave_out(&gone.into_iter().collect::<Vec<_>>(), LeftOut::Design);
        self.record_held_cells();
        self.warn(warning);
    }
}

/// Returns the parameters of a unit that differ from those of its cell.
fn otherwise(cell: &Cell, unit: &CellUnit) -> Params {
    unit.workload
        .params
        .iter()
        .filter(|(key, value): &(&String, &Value)| {
            cell.workload
                .params
                .get(*key)
                .is_some_and(|own| own != *value)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

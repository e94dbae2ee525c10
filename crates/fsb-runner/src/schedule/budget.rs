//! Keeps a run within its budget. Cells that the budget does not hold are left out, with a warning.

use std::collections::BTreeSet;
use std::time::Duration;

use fsb_engine::Profile;
use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::units::show_duration;
use fsb_model::{Outcome, Plan, Repetition, RunRecord, StoppingRule, Trial, Warning};
use fsb_testbed::LocalTestbed;

use super::Measure;
use super::state::{Ending, LeftOut, RunError, Schedule, setup};
use crate::agent::{TimeLimit, TrialReply};
use crate::keeping::{self, Candidate};
use crate::matrix;
use crate::planner::{Basis, Decision, fewest_blocks, warmup_seconds};
use crate::work::{self, ParsedCell, Work};

/// Share of the budget that opening the testbed and warm-up may take. Cells that were not reached
/// by then are left out.
const WARM_UP: f64 = 0.5;
/// Share of the budget for tearing down the testbed and for the report.
const CLOSING: f64 = 0.03;
/// Share of the budget for traced blocks, if there are any.
const TRACED: f64 = 0.3;
/// The model of times is off by a factor of two or three. A cell is left out without a measurement
/// only if the model exceeds the time by this factor.
const SURE: f64 = 3.0;
/// Factor by which removing files may take longer than in warm-up.
const CAREFUL: f64 = 1.5;
/// Factor by which a block may take longer than the one before.
const LONGER: f64 = 1.1;
/// Multiple of a trial's expected time after which no further repetition begins.
const OVER: f64 = 2.0;

/// Refuses a run whose budget surely holds none of its workloads, warm-up included, before anything
/// is touched.
pub fn check_budget(record: &RunRecord, work: &Work) -> Result<(), RunError> {
    let plan = &record.plan;
    let Some(budget) = plan
        .repetition
        .budget()
        .filter(|_| LocalTestbed::may_leave(&setup(record)))
    else {
        return Ok(());
    };
    let of = |parsed: &ParsedCell| {
        let held = plan.held(&parsed.cell.workload);
        modelled(
            record,
            &parsed.profile,
            held,
            work.unit_in_rounds(record, parsed).is_some(),
        )
    };
    // Each cell is warmed up and then measured.
    let needs =
        work.cells.iter().map(of).fold(f64::INFINITY, f64::min) * 2.0 * plan.at_once() as f64;
    if !needs.is_finite() || needs / SURE <= budget.as_secs_f64() {
        return Ok(());
    }
    Err(RunError::Budget(format!(
        "{} are too short for these workloads: the shortest takes about {} on all targets, once and without judging; \
         {}",
        show_duration(budget),
        show_duration(Duration::try_from_secs_f64(needs).unwrap_or(Duration::MAX)),
        remedy(plan),
    )))
}

/// Returns the advice if a budget is too small. `fsb choose` has no --scale.
fn remedy(plan: &Plan) -> &'static str {
    match plan.race {
        Some(_) => "use a larger --budget, or a smaller --size",
        None => "use a larger --budget, or a smaller --scale or --size",
    }
}

/// Returns the seconds of a cell's warm-up on one target, from a model that knows nothing of the
/// machine.
fn modelled(record: &RunRecord, profile: &Profile, held: Option<f64>, in_rounds: bool) -> f64 {
    let trials = record.cells.len() * record.plan.at_once();
    if in_rounds {
        return matrix::TYPICAL_ROW;
    }
    matrix::typical_seconds(profile, warmup_seconds(profile, &record.plan, held, trials))
}

impl Schedule<'_> {
    /// Returns the seconds of the budget that are left; infinite without a budget. Until blocks are
    /// traced, their share is kept for them.
    pub(super) fn seconds_of_budget_left(&self) -> f64 {
        let plan = &self.run.record.plan;
        let kept = if plan.explain && !self.tracing {
            CLOSING + TRACED
        } else {
            CLOSING
        };
        plan.repetition.budget().map_or(f64::INFINITY, |budget| {
            budget.as_secs_f64() * (1.0 - kept) - self.run.started.elapsed().as_secs_f64()
        })
    }

    /// Returns whether no time is left for this cell in this block. In warm-up, each group of
    /// targets has its share of the time, and the cells after this one are left out as well.
    pub(super) fn leaves_out(&mut self, measure: &Measure<'_>) -> bool {
        let left = self.seconds_of_budget_left();
        if !measure.block.is_warmup() || left.is_infinite() {
            self.cut |= left <= 0.0;
            return left <= 0.0;
        }
        let cell = &self.cells[measure.cell];
        if !cell.is_held() || cell.is_skipped {
            return true;
        }
        let (plan, groups) = (&self.run.record.plan, &measure.block.groups);
        let used = self.run.started.elapsed().as_secs_f64();
        let share = (measure.group + 1) as f64 / groups.len() as f64;
        let share = plan.repetition.budget().unwrap_or_default().as_secs_f64() * WARM_UP * share;
        // In rounds, it is warmed up on all targets at once.
        let in_rounds = cell.unit.is_some();
        let targets = if in_rounds {
            plan.at_once() as f64
        } else {
            1.0
        };
        let held = plan.held(&cell.cell.workload);
        let needs = modelled(&self.run.record, &cell.profile, held, in_rounds) * targets;
        // The first cell may exceed the share of warm-up, because nothing is known before it.
        let over = if measure.block.cells.first() == Some(&measure.cell) {
            left <= 0.0
        } else {
            used > share
        };
        if !over && (!self.touches || needs / SURE <= left) {
            return false;
        }
        if over {
            self.stop_warm_up(measure);
        } else {
            // Later cells may have smaller files.
            self.leave_out(&[measure.cell], LeftOut::Budget);
        }
        true
    }

    /// Ends the warm-up on a group of targets before this cell. Cells whose costs follow from those
    /// that were warmed up stay, and the others are left out.
    fn stop_warm_up(&mut self, measure: &Measure<'_>) {
        let mut visited = Vec::new();
        for cell in &measure.block.cells {
            if *cell == measure.cell {
                break;
            }
            if self.cells[*cell].is_held() && !self.cells[*cell].is_skipped {
                visited.push(*cell);
            }
        }
        let estimated = match self.side_by_side {
            true => BTreeSet::new(),
            false => self.grid().between(&visited),
        };
        let mut gone = Vec::new();
        for cell in self.held_cells() {
            if !visited.contains(&cell) {
                self.cells[cell].is_skipped = true;
                if !estimated.contains(&cell) {
                    gone.push(cell);
                }
            }
        }
        self.leave_out(&gone, LeftOut::Budget);
    }

    /// Returns these cells as candidates for the time that is left, with their seconds in a block.
    pub(super) fn candidates(&self, cells: &[usize], seconds: &[f64]) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (cell, seconds) in cells.iter().zip(seconds) {
            let state = &self.cells[*cell];
            candidates.push(Candidate::from_cell(&state.cell, &state.profile, *seconds));
        }
        candidates
    }

    /// Sorts cells for warm-up, so that those come first that a budget keeps first. Without a
    /// budget they keep the order of the plan.
    pub(super) fn order_for_budget(&self, cells: &[usize]) -> Vec<usize> {
        if self.run.record.plan.repetition.budget().is_none() {
            return cells.to_vec();
        }
        let unknown = vec![0.0; cells.len()];
        let mut order = Vec::new();
        for index in keeping::in_order(&self.candidates(cells, &unknown)) {
            order.push(cells[index]);
        }
        order
    }

    /// Returns the time that a trial or the rounds of this cell may take. Warm-up may use half of
    /// the time that is left: a cell that needs more would not fit in a measured block either. The
    /// other half is for removing its files. Returns `None` without a budget, and if all targets
    /// are fakes.
    pub(super) fn time_limit(
        &self,
        measure: &Measure<'_>,
        expected: Option<f64>,
    ) -> Option<TimeLimit> {
        let left = self.seconds_of_budget_left().max(0.0);
        if !self.touches || left.is_infinite() {
            return None;
        }
        let half = left * WARM_UP;
        let (repeat, work) = if measure.block.is_warmup() {
            (half, half)
        } else {
            let work = (left - self.closing(self.cells[measure.cell].removing)).max(half);
            (
                expected.map_or(work, |expected| work.min(expected * OVER)),
                work,
            )
        };
        let [repeat, work, idle] = [repeat, work, left - self.releasing].map(|seconds| {
            // A negative number counts as zero.
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        });
        Some(TimeLimit { repeat, work, idle })
    }

    /// Returns the seconds that are reserved for removing files, based on warm-up, and for tearing
    /// down the targets.
    fn closing(&self, removing: f64) -> f64 {
        removing * CAREFUL + self.releasing
    }

    /// Returns whether the budget holds a block that takes `seconds`. A block must not be cut off
    /// because it takes a little longer than the one before.
    pub(super) fn holds_block(&self, seconds: f64) -> bool {
        let removing = self
            .cells
            .iter()
            .map(|cell| cell.removing)
            .fold(0.0, f64::max);
        seconds * LONGER + self.closing(removing) <= self.seconds_of_budget_left()
    }

    /// Records the times of a reply. Returns whether the budget ended a measured trial, which then
    /// counts for nothing.
    pub(super) fn note_time(&mut self, measure: &Measure<'_>, reply: &TrialReply) -> bool {
        if measure.block.is_warmup() {
            let cell = &mut self.cells[measure.cell];
            // In rounds, files are removed on all targets at once, and each reply contains its
            // share.
            let cleanup = reply.spent.cleanup;
            cell.removing = if cell.unit.is_some() {
                cell.removing + cleanup
            } else {
                cell.removing.max(cleanup)
            };
            cell.too_long |= reply.out_of_time;
            return false;
        }
        self.cut |= reply.out_of_time;
        reply.out_of_time
    }

    /// Returns an error if the budget ended before anything was measured.
    pub(super) fn expect_measured(&self) -> Result<(), RunError> {
        if self.run.trials.iter().any(Trial::counts) {
            return Ok(());
        }
        Err(RunError::Budget(format!(
            "{} are too short for a block of this plan with its warm-up: {}",
            self.show_budget(),
            remedy(&self.run.record.plan)
        )))
    }

    /// Leaves out cells whose warm-up alone took longer than the budget allows.
    fn leave_out_too_long(&mut self) -> Result<(), RunError> {
        let gone: Vec<usize> = self
            .held_cells()
            .into_iter()
            .filter(|cell| self.cells[*cell].too_long)
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        let workloads = self.labels(&gone);
        self.leave_out(&gone, LeftOut::TooLong);
        if self.held_cells().is_empty() {
            return Err(RunError::Budget(format!(
                "{} did not finish one trial within half of the budget of {}: {}",
                workloads.join("; "),
                self.show_budget(),
                remedy(&self.run.record.plan)
            )));
        }
        self.run
            .record
            .cells
            .retain(|cell| !workloads.contains(&cell.label));
        self.warn(Warning::TooLong {
            workloads,
            budget_seconds: self.budget_seconds(),
        });
        Ok(())
    }

    /// Warns of the cells that warm-up left out. `opened` seconds passed before it.
    pub(super) fn end_warm_up(&mut self, opened: f64) -> Result<(), RunError> {
        self.leave_out_too_long()?;
        let (all, kept) = (self.run.record.cells.len(), self.held_cells().len());
        if kept == all {
            return Ok(());
        }
        // Estimated from the time of warm-up so far, if there was any: each block takes about as
        // long.
        let used = (self.run.started.elapsed().as_secs_f64() - opened).max(0.0);
        let block = used * all as f64 / kept.max(1) as f64;
        let needed = opened + block * f64::from(self.fewest_blocks() + 1);
        // Warm-up alone must fit its share.
        let needed = needed.max((opened + block) / WARM_UP);
        if kept == 0 {
            return Err(RunError::Budget(format!(
                "{} are too short for every workload of this plan: {}",
                self.show_budget(),
                remedy(&self.run.record.plan)
            )));
        }
        self.say_left_out(needed);
        Ok(())
    }

    /// Returns the cells that a block holds. Only the first block can hold fewer than all, because
    /// no other block is begun that would pass the budget. At least one cell is measured.
    pub(super) fn fitting(&mut self, block: u32, cells: Vec<usize>) -> Vec<usize> {
        let left = self.seconds_of_budget_left();
        if block > 1 || left.is_infinite() || cells.is_empty() {
            return cells;
        }
        let targets: Vec<usize> = (0..self.run.record.plan.targets.len()).collect();
        let mut seconds = Vec::new();
        for cell in &cells {
            seconds.push(self.cells[*cell].seconds_on(&targets));
        }
        let making: f64 = self.making.iter().sum();
        let candidates = self.candidates(&cells, &seconds);
        let mut fitting = keeping::fitting_within(&candidates, left - making);
        if fitting.is_empty() {
            fitting.extend(keeping::in_order(&candidates).first());
        }
        if fitting.len() == cells.len() {
            return cells;
        }
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        for (index, cell) in cells.iter().enumerate() {
            match fitting.contains(&index) {
                true => kept.push(*cell),
                false => gone.push(*cell),
            }
        }
        self.leave_out(&gone, LeftOut::Budget);
        let elapsed = self.run.started.elapsed().as_secs_f64();
        let needed = making + seconds.iter().sum::<f64>();
        self.say_left_out(elapsed + needed * f64::from(self.fewest_blocks()));
        kept
    }

    /// Warns of the cells that are left out. A budget of `needed` seconds would hold all.
    fn say_left_out(&mut self, needed: f64) {
        self.record_held_cells();
        let gone: Vec<usize> = (0..self.cells.len())
            .filter(|cell| self.cells[*cell].left_out == Some(LeftOut::Budget))
            .collect();
        self.needed = self.needed.max(needed);
        let budget_seconds = self.budget_seconds();
        self.run
            .record
            .warnings
            .retain(|known| !matches!(known, Warning::LeftOut { .. }));
        self.warn(Warning::LeftOut {
            workloads: self.labels(&gone),
            held: self.held_cells().len(),
            planned: self.cells.len(),
            budget_seconds,
            // At least the budget that was too small.
            needed_seconds: with_room(self.needed.max(budget_seconds)),
        });
    }

    /// Leaves out cells if the budget can judge some cells but not all of them: verdicts on a few
    /// workloads are worth more than undecided numbers of many. If the budget can judge none, all
    /// are described. Returns the indexes of the remaining cases if some were left out.
    pub(super) fn leave_cells_to_judge(
        &mut self,
        basis: &Basis<'_>,
        planned: &Decision,
    ) -> Option<Vec<usize>> {
        if !self.prefers_verdicts() || planned.blocks >= FEWEST_BLOCKS_JUDGED {
            return None;
        }
        let held = self.planned_cells();
        let order = keeping::in_order(&self.candidates(&held, &basis.seconds_of_cells()));
        let judged = basis.judged(&order);
        if judged.is_empty() {
            return None;
        }
        let gone: Vec<usize> = (0..held.len())
            .filter(|index| !judged.contains(index))
            .map(|index| held[index])
            .collect();
        self.leave_out(&gone, LeftOut::Budget);
        let elapsed = self.run.started.elapsed().as_secs_f64();
        self.say_left_out(elapsed + basis.seconds_to_judge());
        Some(judged)
    }

    /// Returns whether cells are left out so that the others can be judged. A single target has no
    /// ratio to judge, and a matrix leaves out sizes evenly.
    fn prefers_verdicts(&self) -> bool {
        let record = &self.run.record;
        let asked = matches!(record.plan.repetition, Repetition::Blocks { .. });
        !asked
            && record.unjudged().is_none()
            && record.plan.targets.len() > 1
            && self.grid().is_empty()
    }

    /// Leaves out cells after `made` blocks, if blocks take so much longer than warm-up that the
    /// budget would end the run with too few to judge any cell. What was measured of these cells
    /// counts for nothing. Time alone decides, never a value.
    pub(super) fn leave_cells_to_finish(&mut self, made: u32) -> Result<(), RunError> {
        let missing = FEWEST_BLOCKS_JUDGED.saturating_sub(made);
        let left = self.seconds_of_budget_left();
        if made == 0 || missing == 0 || left.is_infinite() || self.cut || !self.prefers_verdicts() {
            return Ok(());
        }
        let held = self.open_cells();
        let seconds: Vec<f64> = held
            .iter()
            .map(|cell| self.cells[*cell].block_seconds)
            .collect();
        let measured: f64 = seconds.iter().sum();
        let base = (self.last_block_seconds - measured).max(self.making.iter().sum());
        let removing = held
            .iter()
            .map(|cell| self.cells[*cell].removing)
            .fold(0.0, f64::max);
        let room = (left - self.closing(removing)) / f64::from(missing) / LONGER - base;
        let kept = keeping::fitting_within(&self.candidates(&held, &seconds), room);
        if kept.is_empty() || kept.len() == held.len() {
            return Ok(());
        }
        let gone: Vec<usize> = (0..held.len())
            .filter(|index| !kept.contains(index))
            .map(|index| held[index])
            .collect();
        self.leave_out(&gone, LeftOut::Budget);
        self.discard(&gone);
        let elapsed = self.run.started.elapsed().as_secs_f64();
        self.say_left_out(elapsed + (base + measured) * f64::from(missing) * LONGER);
        // The record first: a run that is killed in between has no block without trials.
        self.save()?;
        self.run
            .journal
            .rewrite(&self.run.trials)
            .map_err(RunError::Journal)
    }

    /// Marks the trials of these cells as superseded, and removes the cells from the blocks so far.
    fn discard(&mut self, cells: &[usize]) {
        let labels = self.labels(cells);
        let run = &mut self.run;
        run.trials
            .iter_mut()
            .filter(|trial| trial.block > 0 && labels.contains(&trial.workload))
            .for_each(|trial| trial.superseded = true);
        for order in run.record.order.iter_mut().filter(|order| order.block > 0) {
            order.cells.retain(|label| !labels.contains(label));
        }
    }

    /// Returns the reason why no block follows the `made` ones, or `None` if another one follows.
    /// The last block took `last` seconds, if one was made since the run was begun or resumed. One
    /// more may take `longest`.
    pub(super) fn ending(&mut self, made: u32, last: Option<f64>, longest: f64) -> Option<Ending> {
        if self.run.judge.draws_targets() {
            return if self.cut {
                Some(Ending::Cut)
            } else {
                self.passes(longest)
            };
        }
        let planned = self.run.record.blocks_planned.unwrap_or(1);
        let all_made = |schedule: &Self| Ending::Planned {
            open: schedule.open_cells().len(),
            workloads: schedule.held_cells().len(),
        };
        if made > 0 && self.open_cells().is_empty() {
            let hopeless = self.hopeless().filter(|_| !self.is_asked_for_blocks());
            return Some(hopeless.unwrap_or(Ending::Settled));
        }
        let Some(last) = last else {
            return (made >= planned).then(|| all_made(self));
        };
        self.fill_budget(made, planned, last);
        let planned = self.run.record.blocks_planned.unwrap_or(1);
        if let Some(hopeless) = self.hopeless().filter(|_| !self.is_asked_for_blocks()) {
            return Some(hopeless);
        }
        if self.cut {
            return Some(Ending::Cut);
        }
        if made < planned {
            let ending = self.passes(longest)?;
            // The blocks of the stopping rule are made. Those that were to fill the budget are an
            // addition to it.
            let of_rule = match &self.run.record.stopping_rule {
                Some(StoppingRule::InterimAnalyses { planned, .. }) => *planned,
                _ => planned,
            };
            if made < of_rule {
                return Some(ending);
            }
            self.run.record.blocks_planned = Some(made);
            return Some(all_made(self));
        }
        (!self.adds_blocks(planned, longest)).then(|| all_made(self))
    }

    /// Returns whether the plan asks for a number of blocks, not for a time or a precision.
    fn is_asked_for_blocks(&self) -> bool {
        matches!(self.run.record.plan.repetition, Repetition::Blocks { .. })
    }

    /// Returns the ending of a run without a single value.
    fn hopeless(&self) -> Option<Ending> {
        let trials = &self.run.trials;
        let fails = |trial: &Trial| trial.outcome == Outcome::Failed;
        let never = |trial: &Trial| fails(trial) || trial.outcome == Outcome::NotApplicable;
        trials.iter().all(never).then(|| Ending::Hopeless {
            failed: trials.iter().any(fails),
        })
    }

    /// Ends the cells that failed on every target in warm-up and in a measured block: further
    /// blocks would cost the other cells time.
    pub(super) fn settle_hopeless(&mut self, made: u32) {
        if made == 0 || self.is_asked_for_blocks() {
            return;
        }
        for cell in self.open_cells() {
            self.cells[cell].settled = self.never_succeeded(cell);
        }
    }

    fn passes(&self, longest: f64) -> Option<Ending> {
        (!self.holds_block(longest)).then_some(Ending::WouldBePassed)
    }

    /// Once all planned blocks are made, plans as many more whole rotations of the slices as the
    /// budget holds, at most up to the next interim analysis. Cells that ended leave their time,
    /// and blocks may take less time than expected. The clock alone decides, so that the analysis
    /// after the last block is the final one.
    fn fill_budget(&mut self, made: u32, planned: u32, last: f64) {
        let record = &self.run.record;
        let Some(next) = record
            .interim_analyses
            .iter()
            .find(|analysis| **analysis > made)
            .copied()
            .filter(|_| made >= planned)
        else {
            return;
        };
        let share = self.open_cells().len() as f64 / self.held_cells().len() as f64;
        let rotation = work::slices(record).max(1);
        let held =
            (self.seconds_of_budget_left() / (last * share).max(1e-3)) as u32 / rotation * rotation;
        if held > 0 {
            self.run.record.blocks_planned = Some(next.min(made + held));
        }
    }

    /// Plans the fewest blocks that can be judged if fewer were planned and blocks took less time
    /// than expected. Time alone decides, never a value, so that the interval of a fixed number of
    /// blocks holds.
    fn adds_blocks(&mut self, planned: u32, longest: f64) -> bool {
        let record = &self.run.record;
        let by_time = matches!(record.plan.repetition, Repetition::Budget { .. });
        let missing = FEWEST_BLOCKS_JUDGED.saturating_sub(planned);
        let needed = longest * f64::from(missing);
        if !by_time
            || missing == 0
            || !record.interim_analyses.is_empty()
            || needed > self.seconds_of_budget_left()
        {
            return false;
        }
        self.run.record.blocks_planned = Some(FEWEST_BLOCKS_JUDGED);
        self.withdraw_unjudged();
        true
    }

    /// Returns the expected seconds from the end of this cell on this group of targets to the end
    /// of block `blocks`. Returns `None` if nothing is known, because a resumed run has no warm-up.
    pub(super) fn seconds_left(&self, measure: &Measure<'_>, blocks: u32) -> Option<f64> {
        if self.making.iter().sum::<f64>() == 0.0 || !self.is_planned() {
            return None;
        }
        let Measure { block, group, cell } = *measure;
        let of = |group: usize, cells: &[usize]| -> f64 {
            cells
                .iter()
                .map(|cell| self.cells[*cell].seconds_on(&block.groups[group]))
                .sum()
        };
        let whole =
            |group: usize| self.making[self.slot(&block.groups[group])] + of(group, &block.cells);
        // The rest of this block counts cell by cell, later blocks as a whole.
        let at = block
            .cells
            .iter()
            .position(|known| *known == cell)
            .unwrap_or(0);
        let rest = of(group, &block.cells[at + 1..]);
        let later: f64 = (group + 1..block.groups.len()).map(whole).sum();
        let all: f64 = (0..block.groups.len()).map(whole).sum();
        Some(rest + later + all * f64::from(blocks.saturating_sub(block.order.block)))
    }

    /// Returns whether the expected time of any cell is known.
    fn is_planned(&self) -> bool {
        self.cells
            .iter()
            .any(|cell| cell.case_seconds.is_some() || cell.expected.iter().any(Option::is_some))
    }

    /// Warns if the budget holds fewer blocks than can be judged.
    pub(super) fn say_unjudged(&mut self, blocks: u32, block_seconds: f64) {
        let repetition = self.run.record.plan.repetition;
        let asked = matches!(repetition, Repetition::Blocks { .. });
        if asked || blocks >= FEWEST_BLOCKS_JUDGED || repetition.budget().is_none() {
            return;
        }
        let needed = self.run.started.elapsed().as_secs_f64()
            + block_seconds * f64::from(self.fewest_blocks());
        let budget_seconds = self.budget_seconds();
        self.warn(Warning::TooFewBlocks {
            blocks,
            budget_seconds,
            needed_seconds: with_room(needed),
        });
    }

    /// Removes the warning of [`Schedule::say_unjudged`].
    fn withdraw_unjudged(&mut self) {
        self.run
            .record
            .warnings
            .retain(|known| !matches!(known, Warning::TooFewBlocks { .. }));
    }

    /// Returns the fewest blocks that can be judged.
    fn fewest_blocks(&self) -> u32 {
        if self.cells.iter().all(|cell| cell.unit.is_none()) {
            FEWEST_BLOCKS_JUDGED
        } else {
            fewest_blocks(work::slices(&self.run.record))
        }
    }

    fn show_budget(&self) -> String {
        show_duration(self.run.record.plan.repetition.budget().unwrap_or_default())
    }

    fn budget_seconds(&self) -> f64 {
        self.run
            .record
            .plan
            .repetition
            .budget()
            .unwrap_or_default()
            .as_secs_f64()
    }
}

/// Returns the seconds with a margin for the unforeseen, and for the memory that a larger budget
/// allows to be touched.
fn with_room(seconds: f64) -> f64 {
    const ROOM: f64 = 1.35;
    seconds * ROOM
}

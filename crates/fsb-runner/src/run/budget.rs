//! The budget is a maximum: what it does not hold is left out, and said.

use std::time::Duration;

use fsb_engine::Profile;
use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::run::BlockOrder;
use fsb_model::units::show_duration;
use fsb_model::{Cell, Repetition, RunRecord, Trial, Warning};

use fsb_testbed::LocalTestbed;

use super::error::RunError;
use super::schedule::{Schedule, setup};
use crate::agent::{TimeLimit, TrialReply};
use crate::calibrate::warmup_seconds;
use crate::matrix::estimate;
use crate::work::Work;
use crate::{placement, rounds};

/// Share of the budget that opening the testbed and warm-up may take; cells that were not reached by then are left out.
const WARM_UP: f64 = 0.5;
/// Share of the budget that taking the testbed down and the report take.
const CLOSING: f64 = 0.03;
/// The model of times is off by a factor of two or three: a cell is only left out unseen where it says so many times too much.
const SURE: f64 = 3.0;
/// Factor by which removing files may take longer than in warm-up.
const CAREFUL: f64 = 1.5;
/// Factor by which a block may take longer than the one before.
const LONGER: f64 = 1.1;
/// Multiple of a trial's expected time after which no further repetition begins.
const OVER: f64 = 2.0;

/// Refuses a run whose budget surely holds none of its workloads, warm-up included, before anything is touched.
pub fn check_budget(record: &RunRecord, work: &Work) -> Result<(), RunError> {
    let plan = &record.plan;
    let Some(budget) = plan.repetition.budget().filter(|_| LocalTestbed::may_leave(&setup(record))) else {
        return Ok(());
    };
    let (profiles, units) = (work.profiles(), work.units(record));
    let of = |(label, profile)| modelled(record, profile, units.contains_key(label));
    // Each is warmed up and then measured.
    let needs = profiles.iter().map(of).fold(f64::INFINITY, f64::min) * 2.0 * plan.at_once() as f64;
    if !needs.is_finite() || needs / SURE <= budget.as_secs_f64() {
        return Ok(());
    }
    Err(RunError::Budget(format!(
        "{} are too short for these workloads: the shortest takes about {} on all targets, once and without judging; \
         use a larger --budget, or a smaller --scale or --size",
        show_duration(budget),
        show_duration(Duration::try_from_secs_f64(needs).unwrap_or(Duration::MAX)),
    )))
}

/// Seconds of a cell's warm-up on one target, by a model that knows nothing of the machine.
fn modelled(record: &RunRecord, profile: &Profile, in_rounds: bool) -> f64 {
    let trials = record.cells.len() * record.plan.at_once();
    if in_rounds {
        return estimate::ROW;
    }
    let cell = record.cells.iter().find(|cell| cell.label == profile.label);
    let held = cell.and_then(|cell| record.plan.held(&cell.workload));
    estimate::trial_seconds(profile, warmup_seconds(profile, &record.plan, held, trials))
}

impl Schedule<'_> {
    /// Seconds of the budget that are left; infinite where there is none.
    pub(super) fn seconds_of_budget_left(&self) -> f64 {
        let budget = self.run.record.plan.repetition.budget();
        budget.map_or(f64::INFINITY, |budget| {
            budget.as_secs_f64() * (1.0 - CLOSING) - self.run.started.elapsed().as_secs_f64()
        })
    }

    /// Whether there is no time left for this cell in this block. In warm-up, of whose time `share` may be used up so far,
    /// the cells after it are left out, too.
    pub(super) fn leaves_out(&mut self, order: &BlockOrder, label: &str, share: f64) -> bool {
        let left = self.seconds_of_budget_left();
        if order.block > 0 || left.is_infinite() {
            self.cut |= left <= 0.0;
            return left <= 0.0;
        }
        let Some(at) = self.cells.iter().position(|cell| cell.label == label) else { return true };
        let plan = &self.run.record.plan;
        let used = self.run.started.elapsed().as_secs_f64();
        let share = plan.repetition.budget().unwrap_or_default().as_secs_f64() * WARM_UP * share;
        // A row is warmed up on all targets at once.
        let in_rounds = self.units.contains_key(label);
        let targets = if in_rounds { plan.at_once() as f64 } else { 1.0 };
        let needs = modelled(&self.run.record, &self.profiles[label], in_rounds) * targets;
        // Of nothing at all nothing can be said.
        let over = if at == 0 { left <= 0.0 } else { used > share };
        if !over && (!self.touches || needs / SURE <= left) {
            return false;
        }
        self.cells.truncate(at);
        true
    }

    /// The time that a trial or a row of this cell may take. Warm-up may use half of what is left, for what does not fit
    /// into that fits no measured block either; the other half is for removing what it made. `None` without a budget, and
    /// where nothing is touched.
    pub(super) fn time_limit(&self, order: &BlockOrder, label: &str, expected: Option<f64>) -> Option<TimeLimit> {
        let left = self.seconds_of_budget_left().max(0.0);
        if !self.touches || left.is_infinite() {
            return None;
        }
        let half = left * WARM_UP;
        let (repeat, work) = if order.block == 0 {
            (half, half)
        } else {
            let removing = self.removing.get(label).copied().unwrap_or(0.0);
            let work = (left - self.closing(removing)).max(half);
            (expected.map_or(work, |expected| work.min(expected * OVER)), work)
        };
        let [repeat, work, idle] = [repeat, work, left - self.releasing].map(|seconds| {
            // No negative number is left.
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        });
        Some(TimeLimit { repeat, work, idle })
    }

    /// Seconds that are kept for removing files, which took so long in warm-up, and for taking the targets down.
    fn closing(&self, removing: f64) -> f64 {
        removing * CAREFUL + self.releasing
    }

    /// Whether the budget holds a block that takes `seconds`. One that is begun must not be cut off because it takes a
    /// little longer than the one before.
    pub(super) fn holds_block(&self, seconds: f64) -> bool {
        let removing = self.removing.values().copied().fold(0.0, f64::max);
        seconds * LONGER + self.closing(removing) <= self.seconds_of_budget_left()
    }

    /// Notes what a reply says of the time. Returns whether the budget ended a measured trial, which then counts for nothing.
    pub(super) fn note_time(&mut self, order: &BlockOrder, label: &str, reply: &TrialReply) -> bool {
        if order.block == 0 {
            // The files of a row are removed on all targets at once, and each tells its share.
            let before = self.removing.entry(label.to_owned()).or_default();
            let in_rounds = self.units.contains_key(label);
            *before = if in_rounds { *before + reply.spent.cleanup } else { before.max(reply.spent.cleanup) };
            if reply.out_of_time {
                self.too_long.insert(label.to_owned());
            }
            return false;
        }
        self.cut |= reply.out_of_time;
        reply.out_of_time
    }

    /// A budget that ended before anything was measured held nothing.
    pub(super) fn expect_measured(&self) -> Result<(), RunError> {
        if self.run.trials.iter().any(Trial::counts) {
            return Ok(());
        }
        Err(RunError::Budget(format!(
            "{} are too short for a block of this plan with its warm-up: use a larger --budget, or a smaller --scale",
            self.show_budget()
        )))
    }

    /// Leaves out cells whose warm-up alone took longer than the budget allows.
    fn leave_out_too_long(&mut self) -> Result<(), RunError> {
        let named = |cell: &&Cell| self.too_long.contains(&cell.label);
        let gone: Vec<_> = self.cells.iter().filter(named).map(|cell| cell.label.clone()).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let named = gone.join("; ");
        let why = format!("did not finish one trial within half of the budget of {}", self.show_budget());
        self.cells.retain(|cell| !gone.contains(&cell.label));
        if self.cells.is_empty() {
            return Err(RunError::Budget(format!("{named} {why}: use a larger --budget")));
        }
        self.run.record.cells.retain(|cell| !gone.contains(&cell.label));
        self.warn(Warning::TooLong { workloads: gone, budget_seconds: self.budget_seconds() });
        Ok(())
    }

    /// Says what warm-up left out. `opened` seconds passed before it.
    pub(super) fn end_warm_up(&mut self, opened: f64) -> Result<(), RunError> {
        self.leave_out_too_long()?;
        let (all, kept) = (self.run.record.cells.len(), self.cells.len());
        if kept == all {
            return Ok(());
        }
        // By what warm-up took so far, if there was any: each block takes about as long.
        let used = (self.run.started.elapsed().as_secs_f64() - opened).max(0.0);
        let block = used * all as f64 / kept.max(1) as f64;
        let needed = opened + block * f64::from(self.fewest_blocks() + 1);
        // Warm-up alone must fit its share.
        let needed = needed.max((opened + block) / WARM_UP);
        if kept == 0 {
            return Err(RunError::Budget(format!(
                "{} are too short for every workload of this plan: use a larger --budget, or a smaller --scale",
                self.show_budget()
            )));
        }
        self.say_left_out(needed);
        Ok(())
    }

    /// The cells that a block holds. Only the first block can hold fewer than all: no other is begun that would pass the
    /// budget. One is measured always.
    pub(super) fn held(&mut self, block: u32, labels: Vec<String>) -> Vec<String> {
        let left = self.seconds_of_budget_left();
        if block > 1 || left.is_infinite() {
            return labels;
        }
        let visits: f64 = self.visit_seconds.values().sum();
        let mut needed = if self.side_by_side { self.block_base } else { visits };
        let fits = |label: &&String| {
            needed += self.seconds_in_block(label);
            needed <= left
        };
        let fitting = labels.iter().take_while(fits).count().max(1);
        let needed: f64 = labels[fitting..].iter().fold(needed, |sum, label| sum + self.seconds_in_block(label));
        if fitting >= labels.len() {
            return labels;
        }
        let held = labels[..fitting].to_vec();
        self.cells.retain(|cell| held.contains(&cell.label));
        let elapsed = self.run.started.elapsed().as_secs_f64();
        self.say_left_out(elapsed + needed * f64::from(self.fewest_blocks()));
        held
    }

    /// Some cells are left out; a budget of so many seconds would hold all.
    fn say_left_out(&mut self, needed: f64) {
        let kept = &self.cells;
        let is_gone = |cell: &&Cell| !kept.iter().any(|kept| kept.label == cell.label);
        let gone = self.run.record.cells.iter().filter(is_gone).map(|cell| cell.label.clone());
        // What was left out before comes later in the plan.
        self.left_out.labels.splice(0..0, gone);
        self.left_out.needed = self.left_out.needed.max(needed);
        self.run.record.cells.clone_from(&self.cells);
        let budget_seconds = self.budget_seconds();
        self.run.record.warnings.retain(|known| !matches!(known, Warning::LeftOut { .. }));
        self.warn(Warning::LeftOut {
            workloads: self.left_out.labels.clone(),
            held: self.cells.len(),
            planned: self.asked,
            budget_seconds,
            // More than the budget that was too small.
            needed_seconds: with_room(self.left_out.needed.max(budget_seconds)),
        });
    }

    /// Leaves out the last rows of a plan where a budget that cannot judge all of them can judge most: a verdict on eight workloads
    /// tells more than numbers of twelve that decide nothing. Where it can judge fewer than half, all are described. Answers
    /// whether rows were left out.
    pub(super) fn leave_rows_to_judge(&mut self, basis: &rounds::Basis<'_>, planned: &rounds::Decision) -> bool {
        let (all, record) = (self.cells.len(), &self.run.record);
        let asked = matches!(record.plan.repetition, Repetition::Blocks { .. });
        // A target alone has no ratio that wants a verdict.
        let judges = record.unjudged().is_none() && record.plan.targets.len() > 1;
        if asked || !judges || planned.blocks >= FEWEST_BLOCKS_JUDGED || basis.rows.len() < all {
            return false;
        }
        let judged = basis.judged();
        if judged >= all || judged * 2 < all {
            return false;
        }
        self.cells.truncate(judged);
        let elapsed = self.run.started.elapsed().as_secs_f64();
        self.say_left_out(elapsed + basis.seconds_to_judge(all));
        true
    }

    /// Says that the budget holds fewer blocks than can be judged, where it does.
    pub(super) fn say_unjudged(&mut self, blocks: u32, block_seconds: f64) {
        let repetition = self.run.record.plan.repetition;
        let asked = matches!(repetition, Repetition::Blocks { .. });
        if asked || blocks >= FEWEST_BLOCKS_JUDGED || repetition.budget().is_none() {
            return;
        }
        let needed = self.run.started.elapsed().as_secs_f64() + block_seconds * f64::from(self.fewest_blocks());
        let budget_seconds = self.budget_seconds();
        self.warn(Warning::TooFewBlocks { blocks, budget_seconds, needed_seconds: with_room(needed) });
    }

    /// Removes the warning of [`Schedule::say_unjudged`].
    pub(super) fn withdraw_unjudged(&mut self) {
        self.run.record.warnings.retain(|known| !matches!(known, Warning::TooFewBlocks { .. }));
    }

    /// The fewest blocks that can be judged.
    fn fewest_blocks(&self) -> u32 {
        if self.units.is_empty() {
            FEWEST_BLOCKS_JUDGED
        } else {
            rounds::fewest_blocks(placement::parts(&self.run.record))
        }
    }

    fn show_budget(&self) -> String {
        show_duration(self.run.record.plan.repetition.budget().unwrap_or_default())
    }

    fn budget_seconds(&self) -> f64 {
        self.run.record.plan.repetition.budget().unwrap_or_default().as_secs_f64()
    }
}

/// Seconds with room for what could not be foreseen, and for the memory that a larger budget lets be touched.
fn with_room(seconds: f64) -> f64 {
    const ROOM: f64 = 1.35;
    seconds * ROOM
}

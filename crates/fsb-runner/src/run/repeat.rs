//! A disturbed trial is made again at once, inside its block, and so is one that failed a proof.

use fsb_model::plan::FEWEST_BLOCKS_JUDGED;
use fsb_model::run::BlockOrder;
use fsb_model::{Outcome, Target};
use fsb_testbed::Provisioned;

use super::error::RunError;
use super::schedule::Schedule;
use crate::agent::TrialReply;

/// A trial that is disturbed again and again is made so often more: then the disturbance is the machine's state, and
/// the last attempt is as good as any.
pub const REPEATS: u32 = 2;
/// Where half of so many trials or more are disturbed at the first attempt, the disturbance is the machine's state, too,
/// and the time tells more in another block.
const TOLD: usize = 6;

impl Schedule<'_> {
    /// Conducts a trial, again while it is disturbed or invalid, and keeps every attempt. All but the last are superseded from the
    /// start: whatever becomes of the run, none of them is ever analysed. The answer says why the target is gone, if
    /// it is.
    pub(super) fn attempts(
        &mut self,
        order: &BlockOrder,
        target: &Target,
        (seat, label): (u32, &str),
        provisioned: &Provisioned,
    ) -> Result<Option<String>, RunError> {
        let mut attempt = 1;
        loop {
            let reply = self.conduct(order, target, (seat, label), attempt)?;
            let again = attempt <= self.run.repeats && self.is_worth_repeating(order, target, label, &reply);
            let lost = reply.target_lost.then(|| {
                let why = reply.error.clone().unwrap_or_default();
                format!("the target was lost earlier in this sequential trial: {why}")
            });
            self.keep(order, target, label, reply, Some(provisioned), again)?;
            if !again {
                return Ok(lost);
            }
            attempt += 1;
        }
    }

    /// Warm-up is never analysed, a trial that failed would fail again, and the budget is kept: blocks beyond the fifth
    /// may be given up for repetitions, the first five may not.
    fn is_worth_repeating(&self, order: &BlockOrder, target: &Target, label: &str, reply: &TrialReply) -> bool {
        let measured = order.block > 0 && matches!(reply.outcome, Outcome::Ok | Outcome::Invalid);
        if !measured || reply.target_lost {
            return false;
        }
        if reply.interference.is_empty()
            && (reply.outcome == Outcome::Ok || self.is_always_invalid(&target.name, label))
        {
            return false;
        }
        if self.is_always_affected() {
            return false;
        }
        let Some(budget) = self.run.record.plan.repetition.budget() else { return true };
        let planned = self.run.record.blocks_planned.unwrap_or(FEWEST_BLOCKS_JUDGED);
        let blocks = FEWEST_BLOCKS_JUDGED.min(planned).max(order.block);
        // A resumed run does not know how long trials take; it goes on as it began.
        let (itself, left) = if self.side_by_side {
            // The same cell on the targets whose turn is still to come, too: at most on all of them.
            (self.seconds_in_block(label), self.seconds_left_of_rows(order, label, blocks))
        } else {
            (self.expected(&target.name, label).unwrap_or(0.0), self.seconds_left(order, &target.name, label, blocks))
        };
        let left = left.unwrap_or(0.0);
        self.run.started.elapsed().as_secs_f64() + itself + left <= budget.as_secs_f64()
    }

    /// What was invalid to its last attempt in an earlier block is so by its nature: no mapping is direct.
    fn is_always_invalid(&self, target: &str, label: &str) -> bool {
        let of_cell = |trial: &&fsb_model::Trial| trial.counts() && trial.target == target && trial.workload == label;
        self.run.trials.iter().filter(of_cell).any(|trial| trial.outcome == Outcome::Invalid)
    }

    fn is_always_affected(&self) -> bool {
        let first = self.run.trials.iter().filter(|trial| trial.block > 0 && trial.attempt == 1);
        let affected: Vec<bool> = first.map(|trial| !trial.interference.is_empty()).collect();
        affected.len() >= TOLD && affected.iter().filter(|affected| **affected).count() * 2 >= affected.len()
    }
}

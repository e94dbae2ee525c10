//! The number of blocks: the rule that is fixed beforehand, and the reason why no more are made.

use std::time::Duration;

use fsb_model::plan::{FEWEST_BLOCKS_JUDGED, MOST_BLOCKS};
use fsb_model::stop::{Shortfall, StopReason, StoppingRule};
use fsb_model::{Outcome, Repetition, Trial};

use super::schedule::Schedule;

/// Returns the rule by which a run of this number of targets ends, once the number of blocks is planned.
pub(super) fn rule(repetition: Repetition, targets: usize, planned: u32, analyses: &[u32]) -> StoppingRule {
    if !analyses.is_empty() {
        return StoppingRule::InterimAnalyses {
            planned,
            budget_seconds: repetition.budget().unwrap_or_default().as_secs_f64(),
            after: analyses.to_vec(),
            half_width: match repetition {
                Repetition::Precision { half_width, .. } => Some(half_width),
                _ => None,
            },
        };
    }
    match repetition {
        Repetition::Blocks { blocks, seconds } => StoppingRule::Blocks { blocks, budget_seconds: seconds },
        Repetition::Budget { seconds } => {
            StoppingRule::Budget { budget_seconds: seconds, most_blocks: MOST_BLOCKS, planned }
        }
        Repetition::Precision { half_width, seconds } => StoppingRule::Precision {
            half_width,
            of_ratios: targets > 1,
            fewest_blocks: FEWEST_BLOCKS_JUDGED,
            budget_seconds: seconds,
            planned,
        },
    }
}

impl Schedule<'_> {
    /// Analyses the results where that is planned after this block: cells that need no more blocks are not measured any
    /// more. Returns the reason to stop, if there is one. Where all blocks are made and cells that ended left time, the
    /// run continues to the next interim analysis.
    pub(super) fn look(&mut self, block: u32, another: Duration) -> Option<StopReason> {
        let looks = self.run.record.looks.clone();
        if !looks.contains(&block) {
            return None;
        }
        self.settle_cells(block);
        let open = self.cells.len() - self.settled.len();
        if open == 0 {
            return Some(match self.run.record.plan.repetition {
                Repetition::Precision { half_width, .. } => {
                    StopReason::Precise { blocks: block, half_width, of_ratios: true, reached: None }
                }
                _ => StopReason::Decided { blocks: block },
            });
        }
        let planned = self.run.record.blocks_planned.unwrap_or(block);
        let next = looks.iter().find(|look| **look > block).copied().filter(|_| block >= planned)?;
        let share = open as f64 / self.cells.len() as f64;
        if another.as_secs_f64() * share * f64::from(next - block) <= self.seconds_of_budget_left() {
            self.run.record.blocks_planned = Some(next);
        }
        None
    }

    /// Notes which cells had enough at the look after this block.
    pub(super) fn settle_cells(&mut self, block: u32) {
        // Trials are in the order of their blocks.
        let made = self.run.trials.partition_point(|trial| trial.block <= block);
        self.settled.extend((self.run.look)(&self.run.record, &self.run.trials[..made]));
    }

    /// Returns the reason to stop after this block, if there is one. `another` is the time that one more may take.
    pub(super) fn enough(&mut self, block: u32, another: Duration) -> Option<StopReason> {
        let planned = self.run.record.blocks_planned.unwrap_or(1);
        let repetition = self.run.record.plan.repetition;
        let mut shortfall = None;
        let hopeless = |trial: &Trial| matches!(trial.outcome, Outcome::Failed | Outcome::NotApplicable);
        if !matches!(repetition, Repetition::Blocks { .. }) && self.run.trials.iter().all(hopeless) {
            let failed = self.run.trials.iter().any(|trial| trial.outcome == Outcome::Failed);
            return Some(StopReason::Hopeless { blocks: block, failed });
        }
        if self.run.record.looks.is_empty()
            && let Repetition::Precision { half_width, .. } = repetition
            && block >= FEWEST_BLOCKS_JUDGED
        {
            match (self.run.widest)(&self.run.trials) {
                None => return Some(StopReason::NoValues { blocks: block }),
                Some(widest) if widest.is_within(half_width) => {
                    return Some(StopReason::Precise {
                        blocks: block,
                        half_width,
                        of_ratios: self.targets().len() > 1,
                        reached: widest.half_width,
                    });
                }
                Some(widest) => shortfall = Some(Shortfall { widest, half_width }),
            }
        }
        if self.cut {
            return Some(StopReason::BudgetCut { blocks: block, planned });
        }
        if block >= planned && self.adds_blocks(planned, another) {
            return None;
        }
        if block >= planned {
            return Some(match repetition {
                Repetition::Precision { .. } => StopReason::Imprecise { blocks: planned, shortfall },
                Repetition::Budget { .. } if !self.run.record.looks.is_empty() => {
                    let open = self.cells.len() - self.settled.len();
                    StopReason::Undecided { blocks: planned, open, workloads: self.cells.len() }
                }
                Repetition::Budget { .. } => {
                    StopReason::BudgetPlanned { blocks: planned, most: planned == MOST_BLOCKS }
                }
                Repetition::Blocks { .. } => StopReason::Requested { blocks: planned },
            });
        }
        let over = !self.holds_block(another.as_secs_f64());
        over.then_some(StopReason::BudgetWouldBePassed { blocks: block, planned, shortfall })
    }
}

impl Schedule<'_> {
    /// Plans the fewest blocks that can be judged where fewer were planned and blocks took less time than expected. Time
    /// alone decides, never a value, so that the interval of a fixed number of blocks holds.
    fn adds_blocks(&mut self, planned: u32, another: Duration) -> bool {
        let record = &self.run.record;
        let by_time = matches!(record.plan.repetition, Repetition::Budget { .. });
        let missing = FEWEST_BLOCKS_JUDGED.saturating_sub(planned);
        let needed = another.as_secs_f64() * f64::from(missing);
        if !by_time || missing == 0 || !record.looks.is_empty() || needed > self.seconds_of_budget_left() {
            return false;
        }
        self.run.record.blocks_planned = Some(FEWEST_BLOCKS_JUDGED);
        self.withdraw_unjudged();
        true
    }
}

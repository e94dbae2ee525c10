//! How many blocks: the rule, said beforehand, and what came of it.

use std::time::Duration;

use fsb_model::plan::{FEWEST_BLOCKS_JUDGED, MOST_BLOCKS};
use fsb_model::units::show_duration;
use fsb_model::{Outcome, Repetition, RunRecord, Trial};

use super::Schedule;

/// How sure the least sure workload is.
#[derive(Debug, Clone, PartialEq)]
pub struct Widest {
    /// Half the width of its 95 % interval, relative: 0.02 for ±2 %. Infinite where it has no interval yet.
    pub half_width: f64,
    /// Which one: `read 1M, cold`.
    pub workload: String,
}

/// Says after a block how wide the widest interval of a ratio is, or of the only target; nothing where no cell has a value.
pub type WidestInterval<'a> = dyn FnMut(&[Trial]) -> Option<Widest> + 'a;

/// Names at a look the cells that need no more blocks, by the trials of the blocks so far: they are decided, or as precise
/// as was asked for.
pub type Look<'a> = dyn FnMut(&RunRecord, &[Trial]) -> Vec<String> + 'a;

/// The rule by which a run of so many targets ends, for people, once the number of blocks is planned.
pub(super) fn rule(repetition: Repetition, targets: usize, planned: u32) -> String {
    let time = |seconds: f64| show_duration(Duration::from_secs_f64(seconds));
    match repetition {
        Repetition::Blocks { blocks, seconds: None } => format!("{}, as was asked for", count(blocks)),
        Repetition::Blocks { blocks, seconds: Some(seconds) } => {
            format!("{} or as many as {} hold, as was asked for", count(blocks), time(seconds))
        }
        Repetition::Budget { seconds } => {
            format!("as many blocks as {} hold, at most {MOST_BLOCKS}; planned after warm-up: {planned}", time(seconds))
        }
        Repetition::Precision { half_width, seconds } => format!(
            "from {FEWEST_BLOCKS_JUDGED} blocks on, one more each time until every {}'s 95 % interval is within ±{}, or \
             until {} hold no more; planned after warm-up: at most {planned}",
            judged(targets),
            percent(half_width),
            time(seconds)
        ),
    }
}

/// What a half-width is asked of.
fn judged(targets: usize) -> &'static str {
    if targets > 1 { "ratio" } else { "cell" }
}

/// The rule of a run whose results are looked at, for people.
pub(super) fn rule_of_looks(repetition: Repetition, planned: u32, looks: &[u32]) -> String {
    let time = show_duration(repetition.budget().unwrap_or_default());
    let at: Vec<_> = looks.iter().map(u32::to_string).collect();
    let ends = match repetition {
        Repetition::Precision { half_width, .. } => {
            format!("when the intervals of its ratios are within ±{}", percent(half_width))
        }
        _ => "when it is decided".to_owned(),
    };
    let at = match at.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    };
    format!(
        "{planned} blocks within {time}; looked at after {at}: a workload ends {ends}, and the run when all have ended"
    )
}

impl Schedule<'_> {
    /// Looks at the results where that is planned after this block: cells that need no more blocks are not measured any
    /// more. The answer says why to stop, if so. Where all blocks are made and cells that ended left time, the run goes
    /// on to the next look.
    pub(super) fn look(&mut self, block: u32, another: Duration) -> Option<String> {
        let looks = self.run.record.looks.clone();
        if !looks.contains(&block) {
            return None;
        }
        self.settle_cells(block);
        let open = self.cells.len() - self.settled.len();
        if open == 0 {
            let all = match self.run.record.plan.repetition {
                Repetition::Precision { half_width, .. } => {
                    format!("the intervals of every workload's ratios are within ±{}", percent(half_width))
                }
                _ => "every workload is decided".to_owned(),
            };
            return Some(format!("{}: {all}", count(block)));
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

    /// Whether to stop after this block, and why. `another` is what one more may take.
    pub(super) fn enough(&mut self, block: u32, another: Duration) -> Option<String> {
        let planned = self.run.record.blocks_planned.unwrap_or(1);
        let repetition = self.run.record.plan.repetition;
        let mut open = String::new();
        let hopeless = |trial: &Trial| matches!(trial.outcome, Outcome::Failed | Outcome::NotApplicable);
        if !matches!(repetition, Repetition::Blocks { .. }) && self.run.trials.iter().all(hopeless) {
            let failed = self.run.trials.iter().any(|trial| trial.outcome == Outcome::Failed);
            let what = if failed { "every trial failed" } else { "nothing applies to these targets" };
            return Some(format!("{}: {what}, in warm-up too, and more would not change that", count(block)));
        }
        if self.run.record.looks.is_empty()
            && let Repetition::Precision { half_width, .. } = repetition
            && block >= FEWEST_BLOCKS_JUDGED
        {
            match (self.run.widest)(&self.run.trials) {
                None => return Some(format!("{}: no cell has a value, and more would not change that", count(block))),
                Some(widest) if widest.half_width <= half_width => {
                    let (reached, asked) = (percent(widest.half_width), percent(half_width));
                    return Some(format!(
                        "{}: every {}'s 95 % interval is within ±{reached} (asked for: ±{asked})",
                        count(block),
                        judged(self.targets().len())
                    ));
                }
                Some(widest) => open = format!("; {}", short_of(&widest, half_width)),
            }
        }
        if self.cut {
            return Some(format!("{block} of {planned} planned blocks, the last one not whole: the budget ended"));
        }
        if block >= planned && self.adds_blocks(planned, another) {
            return None;
        }
        if block >= planned {
            return Some(match repetition {
                Repetition::Precision { .. } => format!("{}, all that the budget holds{open}", count(planned)),
                Repetition::Budget { .. } if !self.run.record.looks.is_empty() => {
                    let open = self.cells.len() - self.settled.len();
                    format!("{} as planned; {open} of {} workloads not decided", count(planned), self.cells.len())
                }
                Repetition::Budget { .. } => format!("{} as planned, {}", count(planned), held(planned)),
                Repetition::Blocks { .. } => format!("{} as planned", count(planned)),
            });
        }
        let over = !self.holds_block(another.as_secs_f64());
        over.then(|| format!("{block} of {planned} planned blocks: another would have passed the budget{open}"))
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

/// Why a budget made so many blocks.
fn held(blocks: u32) -> &'static str {
    match blocks {
        MOST_BLOCKS => "the most that a budget makes",
        _ => "as many as the budget holds",
    }
}

fn short_of(widest: &Widest, half_width: f64) -> String {
    let asked = percent(half_width);
    if widest.half_width.is_finite() {
        format!("{} is still within ±{} only (asked for: ±{asked})", widest.workload, percent(widest.half_width))
    } else {
        format!("{} has too few values for an interval (asked for: ±{asked})", widest.workload)
    }
}

pub(super) fn count(blocks: u32) -> String {
    if blocks == 1 { "1 block".to_owned() } else { format!("{blocks} blocks") }
}

/// `3 %`, `2.84 %`: never rounded to what was asked for when it is more.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_say_what_ends_the_run() {
        let precision = Repetition::Precision { half_width: 0.025, seconds: 300.0 };
        let said = rule(precision, 1, 23);
        assert!(said.contains("±2.5 %") && said.contains("5 min") && said.contains("at most 23"), "{said}");
        let said = rule(Repetition::Budget { seconds: 60.0 }, 2, 7);
        assert!(said.contains("at most 30") && said.ends_with("7"), "{said}");
        assert_eq!(rule(Repetition::Blocks { blocks: 1, seconds: None }, 2, 1), "1 block, as was asked for");
        let bounded = Repetition::Blocks { blocks: 9, seconds: Some(60.0) };
        assert_eq!(rule(bounded, 2, 9), "9 blocks or as many as 1 min 00 s hold, as was asked for");
    }

    #[test]
    fn widths_are_told_as_they_are() {
        assert_eq!([percent(0.03), percent(0.0284), percent(0.1)], ["3 %", "2.84 %", "10 %"]);
        let widest = |half_width| Widest { half_width, workload: "w".to_owned() };
        assert_eq!(short_of(&widest(0.051), 0.03), "w is still within ±5.1 % only (asked for: ±3 %)");
        assert!(short_of(&widest(f64::INFINITY), 0.03).contains("too few values"));
    }
}

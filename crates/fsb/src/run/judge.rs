//! Judges of runs: they decide from the results so far about the blocks that follow.

use fsb_model::plan::{FEWEST_BLOCKS_JUDGED, MOST_BLOCKS};
use fsb_model::stop::{Shortfall, StopReason};
use fsb_model::workload::VERIFY_SAME;
use fsb_model::{Outcome, RaceEnd, Repetition, RunRecord, Trial};
use fsb_report::choice::{self, Choice, Replay};
use fsb_report::summary::CompactTrial;
use fsb_results::summary;
use fsb_runner::schedule::{Ending, Judge, Judgment};

/// Returns the judge of a run.
pub(super) fn for_run(record: &RunRecord) -> Box<dyn Judge> {
    if record.plan.race.is_some() {
        Box::new(Race)
    } else {
        Box::new(Intervals)
    }
}

/// Ends cells at interim analyses, and a run when its intervals are as narrow as the plan asks for.
struct Intervals;

impl Judge for Intervals {
    fn judge(&mut self, record: &RunRecord, trials: &[Trial], made: u32) -> Judgment {
        let of_ratios = record.plan.targets.len() > 1;
        if let Some(reason) = outputs_differ(record, trials, made) {
            return stopped(reason);
        }
        if record.interim_analyses.contains(&made) {
            return Judgment {
                settled: summary::analyse_interim(record, trials),
                ..Judgment::default()
            };
        }
        let Repetition::Precision { half_width, .. } = record.plan.repetition else {
            return Judgment::default();
        };
        if !record.interim_analyses.is_empty() || made < FEWEST_BLOCKS_JUDGED {
            return Judgment::default();
        }
        match summary::widest_interval(record, trials) {
            None => stopped(StopReason::NoValues { blocks: made }),
            Some(widest) if widest.is_within(half_width) => stopped(StopReason::Precise {
                blocks: made,
                half_width,
                of_ratios,
                reached: widest.half_width,
                without_values: without_values(record, trials),
            }),
            Some(widest) => Judgment {
                shortfall: Some(Shortfall { widest, half_width }),
                ..Judgment::default()
            },
        }
    }

    fn reason(
        &self,
        record: &RunRecord,
        trials: &[Trial],
        ending: Ending,
        made: u32,
        judgment: Judgment,
    ) -> StopReason {
        let (planned, shortfall) = (record.blocks_planned.unwrap_or(1), judgment.shortfall);
        match (ending, record.plan.repetition) {
            (Ending::Hopeless { failed }, _) => StopReason::Hopeless {
                blocks: made,
                failed,
            },
            (Ending::Settled, Repetition::Precision { half_width, .. }) => StopReason::Precise {
                blocks: made,
                half_width,
                of_ratios: true,
                reached: None,
                without_values: without_values(record, trials),
            },
            (Ending::Settled, _) => StopReason::Decided {
                blocks: made,
                without_values: without_values(record, trials),
            },
            (Ending::Cut, _) => StopReason::BudgetCut {
                blocks: made,
                planned,
            },
            (Ending::WouldBePassed, _) => StopReason::BudgetWouldBePassed {
                blocks: made,
                planned,
                shortfall,
            },
            (Ending::Planned { .. }, Repetition::Precision { .. }) => StopReason::Imprecise {
                blocks: planned,
                shortfall,
            },
            (Ending::Planned { open, workloads }, Repetition::Budget { .. })
                if !record.interim_analyses.is_empty() =>
            {
                StopReason::Undecided {
                    blocks: planned,
                    open,
                    workloads,
                }
            }
            (Ending::Planned { .. }, Repetition::Budget { .. }) => StopReason::BudgetPlanned {
                blocks: planned,
                most: planned == MOST_BLOCKS,
            },
            (Ending::Planned { .. }, Repetition::Blocks { .. }) => {
                StopReason::Requested { blocks: planned }
            }
        }
    }
}

/// Compares the output that targets printed in the newest block, or in warm-up, at commands whose
/// output must be the same. Records hold the end of it, and `prepare` may have changed between
/// blocks what a command reads.
fn outputs_differ(record: &RunRecord, trials: &[Trial], made: u32) -> Option<StopReason> {
    for cell in &record.cells {
        let params = &cell.workload.params;
        if params.get(VERIFY_SAME).is_none_or(|same| *same != true) {
            continue;
        }
        let mut first: Option<(&Trial, &str)> = None;
        for trial in trials.iter().rev() {
            let is_newest = trial.block == made && trial.outcome == Outcome::Ok;
            if !is_newest || trial.workload != cell.label {
                continue;
            }
            let printed = trial.observed.output.as_deref().unwrap_or_default();
            let Some((other, of_other)) = first else {
                first = Some((trial, printed));
                continue;
            };
            if printed != of_other {
                let lines = first_difference(printed, of_other);
                return Some(StopReason::OutputsDiffer {
                    blocks: made,
                    workload: cell.label.clone(),
                    targets: [trial.target.clone(), other.target.clone()],
                    output: lines.map(str::to_owned),
                });
            }
        }
    }
    None
}

/// Returns the first lines that differ.
fn first_difference<'t>(one: &'t str, other: &'t str) -> [&'t str; 2] {
    let (mut ones, mut others) = (one.lines(), other.lines());
    loop {
        match [ones.next(), others.next()] {
            [None, None] => return ["", ""],
            [one, other] if one != other => return [one, other].map(Option::unwrap_or_default),
            _ => {}
        }
    }
}

/// Returns the number of workloads of which no target has a value.
fn without_values(record: &RunRecord, trials: &[Trial]) -> u32 {
    let has_value = |label: &str| {
        trials
            .iter()
            .any(|trial| trial.workload == label && trial.counts() && trial.outcome == Outcome::Ok)
    };
    let without = record.cells.iter().filter(|cell| !has_value(&cell.label));
    without.count() as u32
}

/// A race: a few candidates in each block, until one is found or the budget ends.
struct Race;

impl Judge for Race {
    fn draws_targets(&self) -> bool {
        true
    }

    fn judge(&mut self, record: &RunRecord, trials: &[Trial], made: u32) -> Judgment {
        let ended = |reason| {
            stopped(StopReason::Race {
                rounds: made,
                reason,
            })
        };
        let shown = CompactTrial::all(trials);
        let replay = Replay::from_run(record, &shown);
        if let Some(error) = replay
            .without_loss
            .get(&0)
            .cloned()
            .or_else(|| failed_at_warm_up(record, &shown))
        {
            return ended(RaceEnd::BaselineFailed {
                target: record.plan.targets[0].name.clone(),
                error,
            });
        }
        let in_first_stage = record
            .plan
            .race
            .as_ref()
            .is_some_and(|race| replay.blocks.len() < race.first_stage.len());
        if !in_first_stage && replay.race.left().len() < 2 && replay.race.race_rounds() > 0 {
            return ended(RaceEnd::OthersSlower);
        }
        if !in_first_stage && replay.race.is_decided() {
            return ended(RaceEnd::NoneFaster);
        }
        let drawn = replay.draw(record);
        if drawn.len() < 2 {
            return ended(RaceEnd::NoneLeft);
        }
        Judgment {
            targets: Some(
                drawn
                    .iter()
                    .map(|drawn| {
                        (
                            record.plan.targets[drawn.candidate].name.clone(),
                            drawn.slice,
                        )
                    })
                    .collect(),
            ),
            standing: Some(
                Choice::from_run(record, &shown)
                    .map(|choice| choice::standing(&choice))
                    .unwrap_or_default(),
            ),
            ..Judgment::default()
        }
    }

    fn reason(
        &self,
        _record: &RunRecord,
        _trials: &[Trial],
        _ending: Ending,
        made: u32,
        _judgment: Judgment,
    ) -> StopReason {
        StopReason::Race {
            rounds: made,
            reason: RaceEnd::Budget,
        }
    }
}

fn stopped(reason: StopReason) -> Judgment {
    Judgment {
        stop: Some(reason),
        ..Judgment::default()
    }
}

/// Returns the error of the baseline if it gave no value in warm-up: then no block would have a
/// result.
fn failed_at_warm_up(record: &RunRecord, trials: &[CompactTrial]) -> Option<String> {
    let reference = &record.plan.targets.first()?.name;
    let own = || {
        trials
            .iter()
            .filter(|trial| trial.what.target == *reference && !trial.superseded)
    };
    if own().any(|trial| trial.outcome == fsb_model::Outcome::Ok) {
        return None;
    }
    let bad = own().next()?;
    Some(format!(
        "{}: {}",
        bad.what.workload,
        bad.extras().error.as_deref().unwrap_or("it gave no value")
    ))
}

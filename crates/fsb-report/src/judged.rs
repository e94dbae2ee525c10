//! The comparison of a candidate with the baseline, judged by the interval of their ratio, and a
//! sentence on the number of rows that each name wins.

use fsb_model::Better;
use fsb_stats::compare::{GridAgainst, RunLevel};
use fsb_stats::{Comparison, Interval, RankingOutcome, Resolution, Verdict};

use crate::show::{Change, counted, listed, percent};

/// The ratio of a candidate to the baseline, with its interval and verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judged {
    ratio: f64,
    interval: Option<Interval>,
    /// The verdict that follows from the interval.
    pub(crate) verdict: Verdict,
}

impl Judged {
    /// Returns the comparison of a target of a run.
    pub(crate) fn of_target(found: &Comparison) -> Judged {
        Judged {
            ratio: found.ratio,
            interval: found.interval,
            verdict: found.verdict,
        }
    }

    /// Returns the comparison of a set, from its runs.
    pub(crate) fn of_runs(found: &RunLevel) -> Judged {
        Judged {
            ratio: found.ratio,
            interval: found.ci95.map(interval),
            verdict: found.verdict,
        }
    }

    /// Returns the comparison of a set, from the cells of a grid that its runs have in common with
    /// those of the baseline.
    pub(crate) fn of_grid(found: &GridAgainst) -> Option<Judged> {
        Some(Judged {
            ratio: found.ratio?,
            interval: found.ci95.map(interval),
            verdict: found.verdict,
        })
    }

    /// Returns the change as people read it, without the interval if nothing is judged.
    pub(crate) fn change(&self) -> Change {
        Change::between(self.ratio, self.judged_interval())
    }

    /// Returns the ratio of speeds and its interval. Ratios of times are inverted. If nothing is
    /// judged, the interval is a point.
    pub(crate) fn speed(&self, better: Better) -> (f64, Interval) {
        let Interval { lo, hi } = self.judged_interval().unwrap_or(Interval {
            lo: self.ratio,
            hi: self.ratio,
        });
        match better {
            Better::Higher => (self.ratio, Interval { lo, hi }),
            Better::Lower => (
                1.0 / self.ratio,
                Interval {
                    lo: 1.0 / hi,
                    hi: 1.0 / lo,
                },
            ),
        }
    }

    /// Returns the interval; `None` if nothing is judged.
    pub(crate) fn judged_interval(&self) -> Option<Interval> {
        self.interval.filter(|_| self.verdict != Verdict::NotJudged)
    }
}

fn interval([lo, hi]: [f64; 2]) -> Interval {
    Interval { lo, hi }
}

/// The words of a tally.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TallyWords {
    /// The word for a winner: `fastest`, or `faster` between two.
    pub(crate) best: &'static str,
    /// The word for a row: `workload`.
    pub(crate) row: &'static str,
    /// The words for a row without a contest: `on one target only`.
    pub(crate) alone: &'static str,
    /// The smallest ratio that matters, 0.03 for 3 %: targets of a tie are equal within it.
    pub(crate) theta: f64,
}

/// The outcome of a row, for the tally.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountedOutcome<'a> {
    pub(crate) outcome: &'a RankingOutcome,
    /// The size of the difference that remains possible, if the tally states it.
    pub(crate) resolution: Option<Resolution>,
}

/// Returns a sentence such as `xfs is fastest at 2 of 5 workloads, ext4 at 1; 1 equal within 3 %, 1
/// undecided (differs by at most 6 %).`
pub(crate) fn tally(names: &[&str], outcomes: &[CountedOutcome<'_>], words: TallyWords) -> String {
    let total = outcomes.len();
    let winners = winners(names, outcomes);
    let rest = rest(outcomes, words);
    let TallyWords { best, row, .. } = words;
    match winners.as_slice() {
        [] => format!("{}: {}.", counted(total, row), listed(&rest)),
        [(name, wins)] if *wins == total => format!("{name} is {best} at all {total} {row}s."),
        [(name, wins), others @ ..] => {
            let others: String = others
                .iter()
                .map(|(name, wins)| format!(", {name} at {wins}"))
                .collect();
            let rest = if rest.is_empty() {
                String::new()
            } else {
                format!("; {}", rest.join(", "))
            };
            format!("{name} is {best} at {wins} of {total} {row}s{others}{rest}.")
        }
    }
}

/// Returns the winners with their number of rows, most first and in the given order if equal.
fn winners<'a>(names: &[&'a str], outcomes: &[CountedOutcome<'_>]) -> Vec<(&'a str, usize)> {
    let mut winners: Vec<(&str, usize)> = names
        .iter()
        .enumerate()
        .map(|(place, name)| {
            (*name, outcomes
            .iter()
            .filter(|row| matches!(row.outcome, RankingOutcome::Winner(winner) if *winner == place))
            .count())
        })
        .collect();
    winners.retain(|(_, wins)| *wins > 0);
    winners.sort_by_key(|(_, wins)| std::cmp::Reverse(*wins));
    winners
}

/// A headline states a possible change only up to this size. A row states a larger one itself.
const TOLD: f64 = 0.1;

/// Returns phrases on ties, undecided rows, and rows without a contest.
fn rest(outcomes: &[CountedOutcome<'_>], words: TallyWords) -> Vec<String> {
    let count = |wanted: fn(&RankingOutcome) -> bool| {
        outcomes.iter().filter(|row| wanted(row.outcome)).count()
    };
    let ties = count(|outcome| matches!(outcome, RankingOutcome::Tie(_)));
    let not_judged = count(|outcome| matches!(outcome, RankingOutcome::NotJudged));
    let alone = count(|outcome| matches!(outcome, RankingOutcome::Alone(_)));
    let nothing = count(|outcome| matches!(outcome, RankingOutcome::Nothing));
    let (open, undecided) = undecided(outcomes);
    let phrases = [
        (
            ties,
            format!("{ties} equal within {}", percent(words.theta)),
        ),
        (open, undecided),
        (not_judged, format!("{not_judged} not judged")),
        (alone, format!("{alone} {}", words.alone)),
        (nothing, format!("{nothing} without any value")),
    ];
    phrases
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(_, phrase)| phrase)
        .collect()
}

/// Returns the number of undecided rows, and a phrase: `7 undecided (4 of them differ by at most 10
/// %)`. The bound covers only rows with a small possible difference.
fn undecided(outcomes: &[CountedOutcome<'_>]) -> (usize, String) {
    let open: Vec<&CountedOutcome<'_>> = outcomes
        .iter()
        .filter(|row| matches!(row.outcome, RankingOutcome::Undecided(_)))
        .collect();
    let changes = open
        .iter()
        .filter_map(|row| row.resolution)
        .map(Resolution::change);
    let bounded: Vec<f64> = changes.filter(|change| *change <= TOLD).collect();
    let all = open.len();
    let Some(largest) = bounded.iter().copied().reduce(f64::max).map(bound) else {
        return (all, format!("{all} undecided"));
    };
    let (who, differ) = match bounded.len() {
        some if some == all => (String::new(), if all == 1 { "differs" } else { "differ" }),
        1 => ("1 of them ".to_owned(), "differs"),
        some => (format!("{some} of them "), "differ"),
    };
    (
        all,
        format!("{all} undecided ({who}{differ} by at most {largest})"),
    )
}

/// Formats a bound, rounded up in size: `6 %`, `0.8 %`.
pub(crate) fn bound(change: f64) -> String {
    let percent = change * 100.0 - 1e-9;
    let rounded = if percent <= 1.0 {
        (percent * 10.0).ceil() / 10.0
    } else {
        percent.ceil()
    };
    // Not "-0 %".
    format!("{} %", if rounded > 0.0 { rounded } else { 0.0 })
}

/// Describes a resolution: `equal within 1 %`, `no difference larger than 6 %`, `a difference of no
/// more than 8 %`, `undecided`.
pub(crate) fn resolution_text(resolution: Resolution) -> String {
    match resolution {
        Resolution::EqualWithin(change) => format!("equal within {}", bound(change)),
        Resolution::NoDifferenceAbove(change) => {
            format!("no difference larger than {}", bound(change))
        }
        Resolution::NoMoreThan(change) => format!("a difference of no more than {}", bound(change)),
        Resolution::Undecided(_) => "undecided".to_owned(),
    }
}

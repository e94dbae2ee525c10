//! Answers in sentences, for runs and comparisons alike: on one row, and on all rows together.

use fsb_stats::{RankingOutcome, Resolution};

use crate::show::{capital, counted, listed, percent};

/// The outcome of one row, and the parts of its sentence that differ between runs and comparisons.
#[derive(Debug)]
pub(crate) struct RowAnswer<'a> {
    /// The label of the row.
    pub(crate) at: &'a str,
    /// The names of the columns.
    pub(crate) names: &'a [String],
    pub(crate) outcome: &'a RankingOutcome,
    /// The size of the difference that remains possible, if it is known.
    pub(crate) resolution: Option<Resolution>,
    /// Whether a winner is compared with the only other column.
    pub(crate) is_pair: bool,
    /// The reason why nothing is judged, with the sign before it: `: fewer than 5 blocks`.
    pub(crate) unjudged: String,
    /// The details that follow the outcome: leads, losers, changes.
    pub(crate) details: String,
}

impl RowAnswer<'_> {
    /// Returns the conclusion that the data support, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let (at, details) = (self.at, &self.details);
        match (self.outcome, self.resolution) {
            (RankingOutcome::Winner(winner), _) if self.is_pair => {
                let [winner, loser] = [*winner, 1 - winner].map(|place| &self.names[place]);
                format!("{winner} is faster than {loser} at {at}{details}.")
            }
            (RankingOutcome::Winner(winner), _) => {
                format!("{} is fastest at {at}{details}.", self.names[*winner])
            }
            (RankingOutcome::Tie(tied), found) => {
                let all = if tied.len() == 2 { "" } else { "all " };
                let equal = found.map_or_else(|| "equivalent".to_owned(), resolution_text);
                format!("{} are {all}{equal} at {at}{details}.", self.listed(tied))
            }
            (RankingOutcome::Undecided(open), None) => format!(
                "{} are not significantly different at {at}{details}.",
                self.listed(open)
            ),
            (RankingOutcome::Undecided(open), Some(found)) => {
                let reach = match found {
                    Resolution::Undecided(change) => format!(", up to {}", bound(change)),
                    _ => String::new(),
                };
                format!(
                    "{} at {at} between {}{reach}{details}.",
                    capital(&resolution_text(found)),
                    self.listed(open)
                )
            }
            (RankingOutcome::NotJudged, _) => {
                format!("Not judged at {at}{}{details}.", self.unjudged)
            }
            (RankingOutcome::Alone(only), _) => {
                format!("Only {} has values at {at}.", self.names[*only])
            }
            (RankingOutcome::Nothing, _) => format!("No value at {at}."),
        }
    }

    fn listed(&self, places: &[usize]) -> String {
        let names: Vec<&str> = places.iter().map(|place| &*self.names[*place]).collect();
        listed(&names)
    }
}

/// Returns the answer of a run or comparison that gives numbers only. `scope` is `12 workloads in 6
/// blocks on ext4 and xfs`.
pub(crate) fn unjudged_answer(why: &str, scope: &str) -> String {
    format!("{}. {scope}: numbers, nothing is judged.", capital(why))
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
pub(crate) fn tally(
    names: &[String],
    outcomes: &[CountedOutcome<'_>],
    words: TallyWords,
) -> String {
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
fn winners<'a>(names: &'a [String], outcomes: &[CountedOutcome<'_>]) -> Vec<(&'a str, usize)> {
    let mut winners: Vec<(&str, usize)> = names
        .iter()
        .enumerate()
        .map(|(place, name)| {
            (name.as_str(), outcomes
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_never_rounded_down() {
        for (change, text) in [
            (0.06, "6 %"),
            (0.0601, "7 %"),
            (0.0123, "2 %"),
            (0.01, "1 %"),
            (0.0081, "0.9 %"),
            (0.0, "0 %"),
        ] {
            assert_eq!(bound(change), text);
        }
    }

    #[test]
    fn only_rows_without_a_difference_say_so() {
        let said = [
            Resolution::NoDifferenceAbove(0.06),
            Resolution::NoMoreThan(0.06),
            Resolution::Undecided(0.4),
        ];
        assert_eq!(
            said.map(|found| resolution_text(found).contains("no difference")),
            [true, false, false]
        );
    }
}

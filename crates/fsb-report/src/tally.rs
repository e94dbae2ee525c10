//! How many rows each name wins, in a sentence.

use fsb_stats::{Outcome, Resolution};

use crate::show::{counted, listed, percent};

/// What a tally says of its rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TallyWords {
    /// What a winner is: `fastest`; between two, `faster`.
    pub(crate) best: &'static str,
    /// What is counted: `workload`.
    pub(crate) row: &'static str,
    /// Where a row without a contest has its values: `on one target only`.
    pub(crate) alone: &'static str,
    /// The smallest ratio that matters, 0.03 for 3 %: targets of a tie are equal within it.
    pub(crate) theta: f64,
}

/// A row that is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) outcome: &'a Outcome,
    /// How large a difference could still be, where that is told.
    pub(crate) resolution: Option<Resolution>,
}

/// `xfs is fastest at 2 of 5 workloads, ext4 at 1; 1 equal within 3 %, 1 undecided (differs by at most 6 %).`
pub(crate) fn tally(names: &[&str], outcomes: &[Told<'_>], words: TallyWords) -> String {
    let total = outcomes.len();
    let winners = winners(names, outcomes);
    let rest = rest(outcomes, words);
    let TallyWords { best, row, .. } = words;
    match winners.as_slice() {
        [] => format!("{}: {}.", counted(total, row), listed(&rest)),
        [(name, wins)] if *wins == total => format!("{name} is {best} at all {total} {row}s."),
        [(name, wins), others @ ..] => {
            let others: String = others.iter().map(|(name, wins)| format!(", {name} at {wins}")).collect();
            let rest = if rest.is_empty() { String::new() } else { format!("; {}", rest.join(", ")) };
            format!("{name} is {best} at {wins} of {total} {row}s{others}{rest}.")
        }
    }
}

/// Winners with their number of rows, most first; in the given order where equal.
fn winners<'a>(names: &[&'a str], outcomes: &[Told<'_>]) -> Vec<(&'a str, usize)> {
    let wins = |place: usize| {
        outcomes.iter().filter(|row| matches!(row.outcome, Outcome::Winner(winner) if *winner == place)).count()
    };
    let mut winners: Vec<(&str, usize)> = names.iter().enumerate().map(|(place, name)| (*name, wins(place))).collect();
    winners.retain(|(_, wins)| *wins > 0);
    winners.sort_by_key(|(_, wins)| std::cmp::Reverse(*wins));
    winners
}

/// A larger change than this that remains possible is no answer in a headline; the row itself says how large it is.
const TOLD: f64 = 0.1;

/// Ties, undecided rows, and rows that are no contest.
fn rest(outcomes: &[Told<'_>], words: TallyWords) -> Vec<String> {
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|row| wanted(row.outcome)).count();
    let ties = count(|outcome| matches!(outcome, Outcome::Tie(_)));
    let not_judged = count(|outcome| matches!(outcome, Outcome::NotJudged));
    let alone = count(|outcome| matches!(outcome, Outcome::Alone(_)));
    let nothing = count(|outcome| matches!(outcome, Outcome::Nothing));
    let (open, undecided) = undecided(outcomes);
    let phrases = [
        (ties, format!("{ties} equal within {}", percent(words.theta))),
        (open, undecided),
        (not_judged, format!("{not_judged} not judged")),
        (alone, format!("{alone} {}", words.alone)),
        (nothing, format!("{nothing} without any value")),
    ];
    phrases.into_iter().filter(|(n, _)| *n > 0).map(|(_, phrase)| phrase).collect()
}

/// Returns the number of undecided rows, and a phrase: `7 undecided (4 of them differ by at most 10 %)`. One row of which
/// little is known must not speak for those of which much is.
fn undecided(outcomes: &[Told<'_>]) -> (usize, String) {
    let open: Vec<&Told<'_>> = outcomes.iter().filter(|row| matches!(row.outcome, Outcome::Undecided(_))).collect();
    let changes = open.iter().filter_map(|row| row.resolution).map(Resolution::change);
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
    (all, format!("{all} undecided ({who}{differ} by at most {largest})"))
}

/// A bound as people read it, rounded away from nothing: `6 %`, `0.8 %`.
pub(crate) fn bound(change: f64) -> String {
    let percent = change * 100.0 - 1e-9;
    let rounded = if percent <= 1.0 { (percent * 10.0).ceil() / 10.0 } else { percent.ceil() };
    // Not "-0 %".
    format!("{} %", if rounded > 0.0 { rounded } else { 0.0 })
}

/// `equal within 1 %`, `no difference larger than 6 %`, `a difference of no more than 8 %`, `undecided`.
pub(crate) fn resolution_text(resolution: Resolution) -> String {
    match resolution {
        Resolution::EqualWithin(change) => format!("equal within {}", bound(change)),
        Resolution::NoDifferenceAbove(change) => format!("no difference larger than {}", bound(change)),
        Resolution::NoMoreThan(change) => format!("a difference of no more than {}", bound(change)),
        Resolution::Undecided(_) => "undecided".to_owned(),
    }
}

//! How many rows each name wins, in a sentence.

use fsb_analysis::{Outcome, Resolution};

use crate::run::resolution::bound;
use crate::show::{counted, listed};

/// What a tally says of its rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TallyWords {
    /// What a winner is: `fastest`; between two, `faster`.
    pub(crate) best: &'static str,
    /// What is counted: `workload`.
    pub(crate) row: &'static str,
    /// Where a row without a contest has its values: `on one target only`.
    pub(crate) alone: &'static str,
}

/// A row that is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) outcome: &'a Outcome,
    /// How large a difference could still be, where that is told.
    pub(crate) resolution: Option<Resolution>,
}

/// `xfs is fastest at 2 of 4 workloads, ext4 at 1; 1 with no difference larger than 6 %.`
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
    let changes = |wanted: fn(&Outcome) -> bool| {
        let rows = outcomes.iter().filter(move |row| wanted(row.outcome));
        rows.map(|row| row.resolution.map(Resolution::change))
    };
    let largest = |changes: &mut dyn Iterator<Item = Option<f64>>| changes.flatten().reduce(f64::max).map(bound);
    let tied = |outcome: &Outcome| matches!(outcome, Outcome::Tie(_));
    let open = |outcome: &Outcome| matches!(outcome, Outcome::Undecided(_));
    let ties = count(tied);
    let equal = largest(&mut changes(tied))
        .map_or_else(|| counted(ties, "tie"), |within| format!("{ties} equal within {within}"));
    // One row of which little is known must not speak for those of which much is.
    let bounded = |wanted: fn(Resolution) -> bool| -> Vec<f64> {
        let found = outcomes.iter().filter(|row| open(row.outcome)).filter_map(|row| row.resolution);
        found.filter(|found| wanted(*found)).map(Resolution::change).filter(|change| *change <= TOLD).collect()
    };
    let none = bounded(|found| matches!(found, Resolution::NoDifferenceAbove(_)));
    let some = bounded(|found| matches!(found, Resolution::NoMoreThan(_)));
    let phrase = |changes: &[f64], what: &str| {
        let above = largest(&mut changes.iter().copied().map(Some)).unwrap_or_default();
        format!("{} with {what} {above}", changes.len())
    };
    let undecided = count(open) - none.len() - some.len();
    let not_judged = count(|outcome| matches!(outcome, Outcome::NotJudged));
    let alone = count(|outcome| matches!(outcome, Outcome::Alone(_)));
    let nothing = count(|outcome| matches!(outcome, Outcome::Nothing));
    let phrases = [
        (ties, equal),
        (none.len(), phrase(&none, "no difference larger than")),
        (some.len(), phrase(&some, "a difference of no more than")),
        (undecided, format!("{undecided} undecided")),
        (not_judged, format!("{not_judged} not judged")),
        (alone, format!("{alone} {}", words.alone)),
        (nothing, format!("{nothing} without any value")),
    ];
    phrases.into_iter().filter(|(n, _)| *n > 0).map(|(_, phrase)| phrase).collect()
}

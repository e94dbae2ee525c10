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

/// `xfs is fastest at 2 of 4 workloads, ext4 at 1; 1 with no difference above 6 %.`
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

/// Ties, undecided rows, and rows that are no contest.
fn rest(outcomes: &[Told<'_>], words: TallyWords) -> Vec<String> {
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|row| wanted(row.outcome)).count();
    let largest = |wanted: fn(&Outcome) -> bool| {
        let changes = outcomes.iter().filter(|row| wanted(row.outcome)).filter_map(|row| row.resolution);
        changes.map(Resolution::change).reduce(f64::max).map(bound)
    };
    let tied = |outcome: &Outcome| matches!(outcome, Outcome::Tie(_));
    let open = |outcome: &Outcome| matches!(outcome, Outcome::Undecided(_));
    let (ties, undecided) = (count(tied), count(open));
    let equal = largest(tied).map_or_else(|| counted(ties, "tie"), |within| format!("{ties} equal within {within}"));
    let unresolved = largest(open).map_or_else(
        || format!("{undecided} undecided"),
        |above| format!("{undecided} with no difference above {above}"),
    );
    let not_judged = count(|outcome| matches!(outcome, Outcome::NotJudged));
    let alone = count(|outcome| matches!(outcome, Outcome::Alone(_)));
    let nothing = count(|outcome| matches!(outcome, Outcome::Nothing));
    let phrases = [
        (ties, equal),
        (undecided, unresolved),
        (not_judged, format!("{not_judged} not judged")),
        (alone, format!("{alone} {}", words.alone)),
        (nothing, format!("{nothing} without any value")),
    ];
    phrases.into_iter().filter(|(n, _)| *n > 0).map(|(_, phrase)| phrase).collect()
}

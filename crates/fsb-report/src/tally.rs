//! How many rows each name wins, in a sentence.

use fsb_analysis::Outcome;

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

/// `xfs is fastest at 2 of 4 workloads, ext4 at 1; 1 undecided.`
pub(crate) fn tally(names: &[&str], outcomes: &[&Outcome], words: TallyWords) -> String {
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
fn winners<'a>(names: &[&'a str], outcomes: &[&Outcome]) -> Vec<(&'a str, usize)> {
    let wins = |place: usize| {
        outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Winner(winner) if *winner == place)).count()
    };
    let mut winners: Vec<(&str, usize)> = names.iter().enumerate().map(|(place, name)| (*name, wins(place))).collect();
    winners.retain(|(_, wins)| *wins > 0);
    winners.sort_by_key(|(_, wins)| std::cmp::Reverse(*wins));
    winners
}

/// Ties, undecided rows, and rows that are no contest.
fn rest(outcomes: &[&Outcome], words: TallyWords) -> Vec<String> {
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| wanted(outcome)).count();
    let ties = count(|outcome| matches!(outcome, Outcome::Tie(_)));
    let undecided = count(|outcome| matches!(outcome, Outcome::Undecided(_)));
    let not_judged = count(|outcome| matches!(outcome, Outcome::NotJudged));
    let alone = count(|outcome| matches!(outcome, Outcome::Alone(_)));
    let nothing = count(|outcome| matches!(outcome, Outcome::Nothing));
    let phrases = [
        (ties, counted(ties, "tie")),
        (undecided, format!("{undecided} undecided")),
        (not_judged, format!("{not_judged} not judged")),
        (alone, format!("{alone} {}", words.alone)),
        (nothing, format!("{nothing} without any value")),
    ];
    phrases.into_iter().filter(|(n, _)| *n > 0).map(|(_, phrase)| phrase).collect()
}

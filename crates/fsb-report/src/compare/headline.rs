//! The answer in a sentence, and one sentence per row.

use fsb_model::Better;
use fsb_stats::compare::{ALL, Operation, SetSummary};
use fsb_stats::{FEWEST_RUNS_JUDGED, Outcome, Verdict};

use super::between::unjudged_of;
use super::operation::Selection;
use crate::show::{capital, counted, listed, listed_or_counted, percent};
use crate::tally::{TallyWords, Told, tally};
use crate::view::Row;

/// States the number of operations at which each set is fastest, the ties and the undecided ones. The pool of all
/// operations does not count unless it is the only row, and the parts of a total count only in detail.
pub(super) fn headline(selection: Selection<'_>, all: &[Row<'_>]) -> String {
    let (document, sets) = (selection.document, selection.sets());
    let counts = |row: &&Row<'_>| operation(row).is_none_or(|found| found.operation != ALL) || all.len() == 1;
    let is_shown = |row: &&Row<'_>| selection.detail.is_some() || !row.is_part;
    let rows: Vec<&Row<'_>> = all.iter().filter(counts).filter(is_shown).collect();
    let of_workload = |row: &&Row<'_>| operation(row).is_some_and(|found| found.workload.is_some());
    let word = if rows.iter().any(of_workload) { "workload" } else { "operation" };
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    match rows.as_slice() {
        [] if sets.is_empty() => return "There is nothing to compare.".to_owned(),
        [] if sets.len() > 1 => {
            return "There is nothing to compare: the sets have no cell in common.".to_owned();
        }
        _ if document.unjudged.is_some() => {
            let why = capital(document.unjudged.as_deref().unwrap_or_default());
            let rows = counted(rows.len(), word);
            return format!("{why}. {rows} of {}: numbers, nothing is judged.", listed_or_counted(&names, "set"));
        }
        _ if sets.len() < 2 => {
            let (rows, runs) = (counted(rows.len(), word), counted(sets[0].runs, "run"));
            return format!("{}: {rows} in {runs}; name a second set to compare them.", document.baseline);
        }
        [row] => return row.sentence.clone(),
        _ => {}
    }
    if rows.iter().all(|row| matches!(row.outcome, Outcome::NotJudged)) {
        return described(selection, &rows, word);
    }
    let outcomes: Vec<Told<'_>> = rows.iter().map(|row| Told { outcome: &row.outcome, resolution: None }).collect();
    let words = TallyWords { best: best(&sets), row: word, alone: "in one set only", theta: document.settings.theta };
    let tally = tally(&names, &outcomes, words);
    let pairs = selection.operations().flat_map(|operation| &operation.ranking.pairs);
    let judged = pairs.filter(|pair| pair.comparison.verdict != Verdict::NotJudged);
    let judged: Vec<&str> = judged
        .flat_map(|pair| [pair.baseline, pair.candidate])
        .filter_map(|place| Some(document.sets.get(place)?.name.as_str()))
        .collect();
    let is_few = |set: &&&SetSummary| set.runs < FEWEST_RUNS_JUDGED && !judged.contains(&set.name.as_str());
    let few: Vec<&str> = sets.iter().filter(is_few).map(|set| set.name.as_str()).collect();
    let one_run = sets.iter().all(|set| set.runs == 1 && set.pairing.is_some() && set.pairing == sets[0].pairing);
    let ours = sets.iter().any(|set| set.blocks.is_some());
    let tally = if one_run || !ours { tally } else { format!("In these runs, {tally}") };
    if few.is_empty() { tally } else { format!("{tally} Left out, too few runs: {}.", listed(&few)) }
}

/// Returns the comparative for two sets and the superlative for more.
fn best(sets: &[&SetSummary]) -> &'static str {
    if sets.len() == 2 { "faster" } else { "fastest" }
}

/// Describes rows with too few runs for verdicts: the direction of the numbers, and that nothing is judged.
fn described(selection: Selection<'_>, rows: &[&Row<'_>], word: &str) -> String {
    let all = counted(rows.len(), word);
    if let Some(why) = unjudged_of(selection.document) {
        return format!("{all}, {why}.");
    }
    let sets = selection.sets();
    let [_, candidate] = sets.as_slice() else { return format!("{all}: described, not judged.") };
    if selection.document.withheld {
        return format!("{all}: described, not judged.");
    }
    let speed = |row: &&Row<'_>| Some(row.cells[1].judged?.speed(row.better).0);
    let better = rows.iter().filter(|row| speed(row).is_some_and(|speed| speed > 1.0)).count();
    let worse = rows.iter().filter(|row| speed(row).is_some_and(|speed| speed < 1.0)).count();
    format!(
        "{all}: described, not judged. The numbers of {} are better than those of {} at {better}, worse at {worse}.",
        candidate.name, selection.document.baseline
    )
}

/// Returns the conclusion that the data support at a row, in a sentence.
pub(super) fn sentence(selection: Selection<'_>, row: &Row<'_>) -> String {
    let (document, sets) = (selection.document, selection.sets());
    let names = |places: &[usize]| listed(&places.iter().map(|place| sets[*place].name.as_str()).collect::<Vec<_>>());
    let at = &row.label;
    if let Some(why) = &document.unjudged {
        return format!("Not judged at {at}: {why}.");
    }
    let start = match &row.outcome {
        Outcome::Winner(winner) => match sets.as_slice() {
            [_, _] => format!("{} is faster than {} at {at}", names(&[*winner]), names(&[1 - *winner])),
            _ => format!("{} is fastest at {at}", names(&[*winner])),
        },
        Outcome::Tie(tied) => {
            let all = if tied.len() == 2 { "" } else { "all " };
            format!("{} are {all}equivalent at {at}, within {}", names(tied), percent(document.settings.theta))
        }
        Outcome::Undecided(open) => format!("Undecided at {at}: {} are not significantly different", names(open)),
        Outcome::NotJudged if document.withheld => format!("Not judged at {at}"),
        Outcome::NotJudged => match unjudged_of(document) {
            Some(why) => format!("Not judged at {at}, {why}"),
            None => format!("Not judged at {at}, too few blocks or runs"),
        },
        Outcome::Alone(only) => return format!("Only {} has values at {at}.", names(&[*only])),
        Outcome::Nothing => return format!("No value at {at}."),
    };
    let changes: Vec<String> = (1..sets.len()).filter_map(|set| change(&sets[set].name, row, set)).collect();
    if changes.is_empty() {
        format!("{start}.")
    } else {
        format!("{start}. Against {}: {}.", document.baseline, changes.join("; "))
    }
}

/// Returns the change of a set with its verdict: `ext4 +12 % [+9 +16], faster`. Returns `None` if it is not compared.
fn change(name: &str, row: &Row<'_>, set: usize) -> Option<String> {
    let judged = row.cells[set].judged?;
    let what = if row.better == Better::Higher { "" } else { " in time" };
    let verdict = match judged.verdict {
        Verdict::NotJudged => String::new(),
        verdict => format!(", {}", verdict.words()),
    };
    Some(format!("{name} {}{what}{verdict}", judged.change().text()))
}

fn operation<'a>(row: &Row<'a>) -> Option<&'a Operation> {
    row.operation().map(|found| found.operation)
}

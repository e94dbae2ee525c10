//! The answer in a sentence, and a sentence a row.

use fsb_analysis::compare::ALL;
use fsb_analysis::{FEWEST_JUDGED, Outcome, Verdict};
use fsb_model::Better;

use super::{Row, View};
use crate::show::{counted, listed, listed_or_counted, percent};
use crate::tally::{Words, tally};
use crate::view::capital;

/// Who is fastest at how many operations; ties; what is open. The pool of all operations does not count.
pub(super) fn headline(view: &View<'_>) -> String {
    let counts = |row: &&Row<'_>| row.operation.operation != ALL || view.rows.len() == 1;
    let rows: Vec<&Row<'_>> = view.rows.iter().filter(counts).collect();
    let word = if rows.iter().any(|row| row.operation.workload.is_some()) { "workload" } else { "operation" };
    match rows.as_slice() {
        [] if view.sets.is_empty() => return "There is nothing to compare.".to_owned(),
        [] if view.sets.len() > 1 => {
            return "There is nothing to compare: the sets have no cell in common.".to_owned();
        }
        _ if view.document.unjudged.is_some() => {
            let names: Vec<&str> = view.sets.iter().map(|set| set.name.as_str()).collect();
            let why = capital(view.document.unjudged.as_deref().unwrap_or_default());
            let rows = counted(rows.len(), word);
            return format!("{why}. {rows} of {}: numbers, nothing is judged.", listed_or_counted(&names, "set"));
        }
        _ if !view.is_comparison() => {
            let runs = counted(view.sets[0].runs, "run");
            return format!(
                "{}: {} in {runs}; a second set would be compared.",
                view.baseline(),
                counted(rows.len(), word)
            );
        }
        [row] => return row.sentence.clone(),
        _ => {}
    }
    if rows.iter().all(|row| matches!(row.outcome, Outcome::NotJudged)) {
        return described(view, &rows, word);
    }
    let names: Vec<&str> = view.sets.iter().map(|set| set.name.as_str()).collect();
    let outcomes: Vec<&Outcome> = rows.iter().map(|row| &row.outcome).collect();
    let tally = tally(&names, &outcomes, Words { best: best(view), row: word, alone: "in one set only" });
    let few: Vec<&str> = view.sets.iter().filter(|set| set.runs < FEWEST_JUDGED).map(|set| set.name.as_str()).collect();
    if few.is_empty() { tally } else { format!("{tally} Left out, too few runs: {}.", listed(&few)) }
}

/// Between two, the superlative is too much.
fn best(view: &View<'_>) -> &'static str {
    if view.sets.len() == 2 { "faster" } else { "fastest" }
}

/// Too few runs for verdicts: which way the numbers point, and that they are no more than that.
fn described(view: &View<'_>, rows: &[&Row<'_>], word: &str) -> String {
    let all = counted(rows.len(), word);
    let [_, candidate] = view.sets.as_slice() else { return format!("{all}: described, not judged.") };
    if view.document.withheld {
        return format!("{all}: described, not judged.");
    }
    let better = rows.iter().filter(|row| row.speed(1).is_some_and(|speed| speed > 1.0)).count();
    let worse = rows.iter().filter(|row| row.speed(1).is_some_and(|speed| speed < 1.0)).count();
    format!(
        "{all}: described, not judged. The numbers of {} are better than those of {} at {better}, worse at {worse}.",
        candidate.name,
        view.baseline()
    )
}

/// Writes each row's sentence.
pub(super) fn add_sentences(view: &mut View<'_>) {
    let sentences: Vec<String> = view.rows.iter().map(|row| sentence(view, row)).collect();
    for (row, sentence) in view.rows.iter_mut().zip(sentences) {
        row.sentence = sentence;
    }
}

fn sentence(view: &View<'_>, row: &Row<'_>) -> String {
    let names =
        |places: &[usize]| listed(&places.iter().map(|place| view.sets[*place].name.as_str()).collect::<Vec<_>>());
    let at = &row.label;
    if let Some(why) = &view.document.unjudged {
        return format!("Not judged at {at}: {why}.");
    }
    let start = match &row.outcome {
        Outcome::Winner(winner) => match view.sets.as_slice() {
            [_, _] => format!("{} is faster than {} at {at}", names(&[*winner]), names(&[1 - *winner])),
            _ => format!("{} is fastest at {at}", names(&[*winner])),
        },
        Outcome::Tie(tied) => {
            let all = if tied.len() == 2 { "" } else { "all " };
            format!("{} are {all}equivalent at {at}, within {}", names(tied), percent(view.document.settings.theta))
        }
        Outcome::Undecided(open) => format!("Undecided at {at}: {} are not told apart", names(open)),
        Outcome::NotJudged if view.document.withheld => format!("Not judged at {at}"),
        Outcome::NotJudged => format!("Not judged at {at}, too few runs"),
        Outcome::Alone(only) => return format!("Only {} has values at {at}.", names(&[*only])),
        Outcome::Nothing => return format!("No value at {at}."),
    };
    let changes: Vec<String> = (1..view.sets.len()).filter_map(|set| change(view, row, set)).collect();
    if changes.is_empty() {
        format!("{start}.")
    } else {
        format!("{start}. Against {}: {}.", view.baseline(), changes.join("; "))
    }
}

/// `ext4 +12 % [+9 +16]`, and what its cells look like.
fn change(view: &View<'_>, row: &Row<'_>, set: usize) -> Option<String> {
    let cell = &row.cells[set];
    let judged = cell.judged?;
    let what = if row.operation.better == Better::Higher { "" } else { " in time" };
    let verdict = match judged.verdict {
        Verdict::NotJudged => String::new(),
        verdict => format!(", {}", verdict.words()),
    };
    Some(format!("{} {}{what}{verdict}", view.sets[set].name, judged.change().text()))
}

impl Row<'_> {
    /// The speed of a set over the baseline's: of times upside down.
    pub fn speed(&self, set: usize) -> Option<f64> {
        let ratio = self.cells[set].judged?.ratio;
        Some(if self.operation.better == Better::Higher { ratio } else { 1.0 / ratio })
    }
}

//! What is shown of a comparison.

use fsb_analysis::compare::{Finding, Slice};
use fsb_analysis::{FEWEST_RUNS_JUDGED, Verdict};
use fsb_model::Better;
use fsb_model::units::Bytes;

use super::between::{condition_text, power_of, remedy_of};
use super::operation::{SetStatistics, is_about};
use super::selection::Selection;
use super::{facts, headline, method, rows, values};
use crate::screen::Names;
use crate::show::{capital, counted};
use crate::view::{Detail, DetailLine, Row, View, Words, brief_legend, legend_of_marks};

const WORDS: Words =
    Words { column: "set", row: "operation", told: 10, elsewhere: "the formats markdown, html and json" };

/// Of fewer runs than this the answer says how few they are.
const FEW_RUNS: usize = 5;

/// Of a comparison, or of one operation of it in detail.
pub(crate) fn of(selection: Selection<'_>) -> View<'_> {
    let (document, sets) = (selection.document, selection.sets());
    let names: Vec<String> = sets.iter().map(|set| set.name.clone()).collect();
    let mut rows = rows::rows(selection);
    for row in &mut rows {
        row.sentence = headline::sentence(selection, row);
    }
    let shown = |found: &&Finding| selection.operations().any(|operation| is_about(found, operation));
    let findings: Vec<&Finding> = document.findings.iter().filter(shown).collect();
    let mut view = View {
        words: WORDS,
        title: title(&names),
        headline: headline::headline(selection, &rows),
        rows,
        theta: document.settings.theta,
        unjudged: document.unjudged.as_deref(),
        legend: Vec::new(),
        explanation: None,
        in_detail: selection.detail.is_some(),
        findings: Some(findings).filter(|findings| !findings.is_empty()),
        scaling: Vec::new(),
        published: None,
        facts: facts::facts(document, &sets),
        notes: Vec::new(),
        advice: None,
        problems: &[],
        trust: None,
        warnings: &document.warnings,
        urgent: 0,
        conditions: document.conditions.iter().map(condition_text).collect(),
        method: method::paragraphs(selection),
        group_size: 1,
        names,
    };
    view.legend = legend(&view);
    view.explanation = explanation(&view);
    view.notes = notes(selection);
    view
}

/// Notes on comparisons between runs: the changes they can show, and the remedy where they are not judged.
fn notes(selection: Selection<'_>) -> Vec<String> {
    let document = selection.document;
    if document.unjudged.is_some() || document.withheld {
        return Vec::new();
    }
    let remedy = remedy_of(document).map(|remedy| format!("{}.", capital(&remedy)));
    let few = document.sets.iter().map(|set| set.runs).filter(|runs| *runs >= FEWEST_RUNS_JUDGED).min();
    let few = few.filter(|runs| *runs < FEW_RUNS && remedy.is_none() && document.sets.len() > 1);
    let few = few.map(|runs| format!("Only {}: intervals hold within one session.", counted(runs, "run")));
    power_of(document).into_iter().chain(few).chain(remedy).collect()
}

fn title(names: &[String]) -> String {
    match names.len() {
        0..=4 => format!("Comparison: {}", names.join(", ")),
        n => format!("Comparison: {} and {} more", names[..3].join(", "), n - 3),
    }
}

/// Whether any row has letters.
pub(super) fn is_judged(view: &View<'_>) -> bool {
    let lettered =
        |row: &Row<'_>| row.operation().is_some_and(|found| found.operation.letters.values().any(Option::is_some));
    view.rows.iter().any(lettered)
}

/// What the signs of the table mean, where they occur, and what stands elsewhere.
fn legend(view: &View<'_>) -> Vec<String> {
    let names = Names::of(view.names.iter().map(String::as_str));
    let mut notes = names.legend();
    if view.rows.is_empty() {
        return notes;
    }
    let mut note = "Geometric means.".to_owned();
    if view.compares() {
        let mut judged = view.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.judged);
        let interval = match judged.any(|judged| judged.verdict != Verdict::NotJudged) {
            true if view.names.len() > 2 => ", 95 % interval of all pairs together",
            true => ", 95 % interval",
            false => "",
        };
        note = format!("Geometric mean of {0}, and change against {0}{interval}.", names.shown(0));
        if view.rows.iter().any(|row| row.better == Better::Lower) {
            note += " Of times, less is better.";
        }
    }
    notes.push(note);
    notes.extend(brief_legend(&view.rows, view.theta));
    let parts: Vec<&Row<'_>> = view.rows.iter().filter(|row| row.is_part && !view.in_detail).collect();
    if let Some(workload) = parts.first().and_then(|row| row.operation()?.operation.workload.as_deref()) {
        notes.push(format!("{} of totals: --detail {workload}", counted(parts.len(), "part")));
    }
    let others: usize = view.rows.iter().filter_map(Row::operation).map(|found| found.others.len()).sum();
    if others > 0 {
        notes.push(format!("Latencies and other metrics ({}) are in the other formats.", counted(others, "row")));
    }
    notes
}

fn explanation(view: &View<'_>) -> Option<String> {
    (view.compares() && !view.rows.is_empty()).then(|| {
        let judged = if is_judged(view) {
            let level = if view.names.len() > 2 { "95 % interval of all pairs together" } else { "95 % interval" };
            let marks = legend_of_marks(&view.rows, view.theta).unwrap_or_default();
            format!(", {level}. {marks}")
        } else {
            ".".to_owned()
        };
        format!("Geometric mean of {0}, and change against {0}{judged}", view.baseline())
    })
}

/// Returns further tables, by size and by run. They are made one at a time: all tables of thousands of runs fill the memory.
pub(crate) fn details<'v>(view: &'v View<'_>) -> impl Iterator<Item = Detail> + 'v {
    view.rows.iter().filter(|_| view.in_detail).flat_map(|row| details_of_row(row, &view.names))
}

/// One operation size by size, then every value.
fn details_of_row<'v>(row: &'v Row<'_>, names: &'v [String]) -> impl Iterator<Item = Detail> + 'v {
    let operation = row.operation().map(|found| found.operation);
    let slices = operation
        .into_iter()
        .flat_map(|operation| [("file size", &operation.by_file_size), ("record size", &operation.by_record_size)]);
    let by_size = |(varies, slices): (&'static str, &Vec<Slice>)| Detail {
        title: format!("{}, by {varies}:", row.label),
        varies,
        heads: None,
        lines: slices.iter().map(|slice| line(row, slice, names)).collect(),
    };
    let judged = slices.filter(|(_, slices)| !slices.is_empty()).map(by_size);
    judged.chain(operation.into_iter().flat_map(|operation| values::details(row, operation, names)))
}

/// One size: a cell a set.
pub(super) fn line(row: &Row<'_>, slice: &Slice, names: &[String]) -> DetailLine {
    let operation = row.operation().map(|found| found.operation);
    let cell = |name: &String| Some(rows::cell(operation?, &SetStatistics::of_slice(slice, name)));
    let cells = names.iter().filter_map(cell).collect();
    DetailLine { head: Bytes(slice.bytes).to_string(), column: None, cells }
}

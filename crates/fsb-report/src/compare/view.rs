//! The view of a comparison.

use std::borrow::Cow;

use fsb_model::Better;
use fsb_model::units::Bytes;
use fsb_stats::compare::{BySet, Classic, Document, Finding, Grid, Operation, SetSummary, Slice};
use fsb_stats::{FEWEST_RUNS_JUDGED, Verdict};

use super::between::{condition_text, power_of, remedy_of};
use super::operation::Selection;
use super::operation::{SetStatistics, is_about};
use super::{detail, headline, method, rows};
use crate::releases::Releases;
use crate::screen::Names;
use crate::show::{capital, counted};
use crate::view::{Detail, DetailLine, Row, View, Words, brief_legend, legend_of_marks};

const WORDS: Words =
    Words { column: "set", row: "operation", told: 10, elsewhere: "the formats markdown, html and json" };

/// With fewer runs than this, a note states how few they are.
const FEW_RUNS: usize = 5;

/// Returns the view of a comparison, or of one operation of it in detail.
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
        answer: headline::headline(selection, &rows),
        overall: None,
        rows,
        theta: document.settings.theta,
        unjudged: document.unjudged.as_deref(),
        legend: Vec::new(),
        explanation: None,
        in_detail: selection.detail.is_some(),
        findings: Some(findings).filter(|findings| !findings.is_empty()),
        scaling: Vec::new(),
        published: None,
        facts: facts(document, &sets),
        notes: Vec::new(),
        advice: None,
        problems: &[],
        trust: None,
        warnings: &document.warnings,
        urgent: 0,
        conditions: document.conditions.iter().map(condition_text).collect(),
        method: method::paragraphs(selection),
        group_size: 1,
        has_row_sections: true,
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

/// Returns whether any row has letters.
pub(super) fn is_judged(view: &View<'_>) -> bool {
    let lettered =
        |row: &Row<'_>| row.operation().is_some_and(|found| found.operation.letters.values().any(Option::is_some));
    view.rows.iter().any(lettered)
}

/// Explains the abbreviations and signs that occur in the table, and names the output with the remaining values.
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

/// Returns further tables, by size and by run. The iterator makes one at a time, because all tables of thousands of
/// runs would fill the memory.
pub(crate) fn details<'v>(view: &'v View<'_>) -> impl Iterator<Item = Detail> + 'v {
    view.rows.iter().filter(|_| view.in_detail).flat_map(|row| details_of_row(row, &view.names))
}

/// Returns the tables of one operation size by size, then those with every value.
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
    judged.chain(operation.into_iter().flat_map(|operation| detail::run_details(row, operation, names)))
}

/// Returns the line of one size, with one cell per set.
pub(super) fn line(row: &Row<'_>, slice: &Slice, names: &[String]) -> DetailLine {
    let operation = row.operation().map(|found| found.operation);
    let cell = |name: &String| Some(rows::cell(operation?, &SetStatistics::of_slice(slice, name)));
    let cells = names.iter().filter_map(cell).collect();
    DetailLine { head: Bytes(slice.bytes).to_string(), column: None, cells }
}

/// Returns the contents of each set, and the number of cells that the sets have in common.
pub(super) fn facts(document: &Document, sets: &[&SetSummary]) -> Vec<String> {
    let mut facts: Vec<String> = sets.iter().map(|set| set_fact(set)).collect();
    let coverage = &document.coverage;
    if sets.len() > 1 {
        facts.push(format!("{} in common", counted(coverage.common, "cell")));
        let only = coverage.only.iter().filter(|(_, cells)| **cells > 0);
        facts.extend(only.map(|(set, cells)| format!("{cells} more only in {set}")));
    }
    facts
}

fn set_fact(set: &SetSummary) -> String {
    let version = set.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    let blocks = set.blocks.map(|blocks| format!(", {}", counted(blocks, "block"))).unwrap_or_default();
    format!("{}: {}{version}, {}{blocks}", set.name, set.tool, counted(set.runs, "run"))
}

/// Returns the document with each kernel's release in names shortened to the part that distinguishes it, and the
/// releases that were shortened. Programs get the names in full.
pub(crate) fn shortened(document: &Document) -> (Cow<'_, Document>, Releases) {
    let releases = Releases::of(document.sets.iter().map(|set| set.name.as_str()));
    if releases.is_empty() {
        return (Cow::Borrowed(document), releases);
    }
    let shorten = |text: &mut String| *text = releases.shorten(text);
    let mut document = document.clone();
    shorten(&mut document.baseline);
    document.sets.iter_mut().for_each(|set| shorten(&mut set.name));
    shorten_names(&mut document.coverage.only, &releases);
    document.operations.iter_mut().for_each(|one| shorten_operation(one, &releases));
    for found in &mut document.findings {
        [&mut found.text, &mut found.baseline, &mut found.candidate].into_iter().for_each(shorten);
    }
    document.warnings.iter_mut().for_each(shorten);
    (Cow::Owned(document), releases)
}

fn shorten_operation(operation: &mut Operation, releases: &Releases) {
    shorten_classic(&mut operation.classic, releases);
    shorten_names(&mut operation.estimate.against, releases);
    operation.grid.iter_mut().for_each(|one| shorten_grid(one, releases));
    for slice in operation.by_file_size.iter_mut().chain(&mut operation.by_record_size) {
        shorten_classic(&mut slice.classic, releases);
        shorten_grid(&mut slice.grid, releases);
    }
    for cell in &mut operation.cells {
        shorten_names(&mut cell.means, releases);
        shorten_names(&mut cell.values, releases);
        shorten_names(&mut cell.against, releases);
    }
    shorten_names(&mut operation.letters, releases);
    shorten_names(&mut operation.latencies, releases);
}

fn shorten_classic(classic: &mut Classic, releases: &Releases) {
    shorten_names(&mut classic.sets, releases);
    shorten_names(&mut classic.against, releases);
}

fn shorten_grid(grid: &mut Grid, releases: &Releases) {
    shorten_names(&mut grid.against, releases);
}

fn shorten_names<T>(map: &mut BySet<T>, releases: &Releases) {
    *map = std::mem::take(map).into_iter().map(|(name, value)| (releases.shorten(&name), value)).collect();
}

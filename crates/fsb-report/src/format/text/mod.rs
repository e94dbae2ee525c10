//! The first screen: the answer, the table, what it rests on.

mod lines;
mod published;
mod tails;

pub use tails::tails;

use crate::compare;
use crate::report::Report;
use crate::screen::{Names, WIDTH};
use crate::show::{counted, percent};
use crate::view::{CellView, TrustView, View};
use lines::Lines;

use super::member::Format;

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    about: "the first screen and its notes: headline, table, warnings",
    binary: false,
    write: |report, output| output.write_all(screen(report, WIDTH, false, true).as_bytes()),
};

/// More targets without a value than this are counted.
const PROBLEMS: usize = 3;

/// The first screen in `width` columns (80 at least), with colours where `color` is true, and all notes and warnings where
/// `notes` is true. Lines end without spaces; the last one with a newline.
pub fn screen(report: &Report<'_>, width: usize, color: bool, notes: bool) -> String {
    let readable = report.readable();
    let view = readable.view();
    let names = Names::of(view.names.iter().map(String::as_str));
    let mut screen = Lines::new(width, color);
    for condition in &view.conditions {
        screen.say(&format!("warning: {condition}"), "", "  ");
    }
    screen.say(&view.headline, "", "");
    // Of one case the headline says what the signs mean.
    let is_single = view.rows.len() == 1 && view.trust.is_some();
    if is_single {
        screen.compact();
    }
    table(&mut screen, &view, &names);
    for note in view.legend.iter().filter(|_| !is_single) {
        screen.say(note, "  ", "  ");
    }
    for detail in compare::view::details(&view) {
        screen.detail(&detail, &names);
    }
    findings(&mut screen, &view);
    published::tables_of(&mut screen, &view, &names);
    match &view.trust {
        Some(trust) => conclusion(&mut screen, &view, trust, is_single, notes),
        None => basis(&mut screen, &view),
    }
    if notes {
        for note in view.notes.iter().filter(|_| view.trust.is_some()) {
            screen.say(&format!("note: {}", names.shorten(note)), "", "  ");
        }
        for warning in view.warnings.iter().filter(|_| view.trust.is_some()) {
            screen.say(&format!("warning: {warning}"), "", "  ");
        }
    }
    screen.text()
}

/// Prints the end of a run's screen: what has no value, the most severe warning, the environment and the trust, a line each.
fn conclusion(screen: &mut Lines, view: &View<'_>, trust: &TrustView, is_single: bool, notes: bool) {
    const NOTES: &str = "fsb report --notes";
    for problem in view.problems.iter().take(PROBLEMS) {
        screen.say(problem, "", "  ");
    }
    let more = view.problems.len().saturating_sub(PROBLEMS);
    if more > 0 {
        screen.say(&format!("and {more} more without a value: {NOTES}"), "  ", "  ");
    }
    if let Some((first, others)) = view.warnings[..view.urgent].split_first().filter(|_| !notes) {
        let warning = format!("warning: {first}");
        let more = match others.len() {
            0 if screen.fits(&warning) => String::new(),
            0 => format!(" ({NOTES})"),
            more => format!(" (+{more} more: {NOTES})"),
        };
        screen.line(&warning, &more);
    }
    let mut facts = view.facts.clone();
    let is_plain = is_single && trust.is_high && view.advice.is_none();
    if is_plain {
        facts.push("trust: high".to_owned());
    }
    if notes {
        screen.say(&facts.join(" · "), "", "  ");
    } else {
        screen.parts(&facts);
    }
    if !is_plain {
        let help = view.remedy().map(|help| format!("; {help}"));
        screen.say(&format!("{}{}", trust.line, help.unwrap_or_default()), "", "  ");
    }
}

/// Prints the end of a comparison's screen, or of a run without any value: all of it.
fn basis(screen: &mut Lines, view: &View<'_>) {
    screen.gap();
    screen.say(&view.facts.join(" · "), "", "  ");
    for note in &view.notes {
        screen.say(&format!("note: {note}"), "", "  ");
    }
    for problem in view.problems {
        screen.say(problem, "", "  ");
    }
    for warning in view.warnings {
        screen.say(&format!("warning: {warning}"), "", "  ");
    }
}

/// The table alone, of a run that goes on: each row with its present intervals, and without the marks of verdicts, which
/// are given at the planned looks.
pub fn table_so_far(report: &Report<'_>, width: usize) -> String {
    let readable = report.readable();
    let mut view = readable.view();
    view.rows.iter_mut().flat_map(|row| &mut row.cells).for_each(|cell| cell.mark.clear());
    let names = Names::of(view.names.iter().map(String::as_str));
    let mut screen = Lines::new(width, false);
    table(&mut screen, &view, &names);
    screen.text()
}

fn table(screen: &mut Lines, view: &View<'_>, names: &Names) {
    let shown = || view.rows.iter().filter(|row| view.in_detail || !row.is_part);
    let labels: Vec<&str> = shown().map(|row| row.label.as_str()).collect();
    let rows: Vec<&[CellView]> = shown().map(|row| row.cells.as_slice()).collect();
    screen.table(&labels, &rows, |column| names.shown(column));
}

/// The widest first; the rest is counted.
fn findings(screen: &mut Lines, view: &View<'_>) {
    let Some(found) = &view.findings else { return };
    screen.gap();
    if found.is_empty() {
        let text = format!("No region of sizes differs significantly by more than {}.", percent(view.theta));
        return screen.say(&text, "", "");
    }
    for finding in found.iter().take(view.words.told) {
        screen.say(&finding.text, "- ", "  ");
    }
    let more = found.len().saturating_sub(view.words.told);
    if more > 0 {
        screen.say(&format!("and {} in {}", counted(more, "more finding"), view.words.elsewhere), "  ", "  ");
    }
}

#[cfg(test)]
mod tests;

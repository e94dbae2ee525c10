//! The first screen: the answer, the table, what it rests on.

mod lines;
mod published;
mod tails;

pub use tails::tails;

use crate::compare;
use crate::report::Report;
use crate::screen::{Names, WIDTH};
use crate::show::{counted, percent};
use crate::view::{CellView, View};
use lines::Lines;

use super::member::Format;

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    about: "the first screen: headline, table, warnings",
    write: |report, output| output.write_all(screen(report, WIDTH, false).as_bytes()),
};

/// The first screen in `width` columns (80 at least), with colours where `color` is true. Lines end without spaces;
/// the last one with a newline.
pub fn screen(report: &Report<'_>, width: usize, color: bool) -> String {
    lines(report, width, color, true)
}

/// The same where the whole report lies beside it: of warnings that the line of trust sums up only their number.
pub fn first_screen(report: &Report<'_>, width: usize, color: bool) -> String {
    lines(report, width, color, false)
}

fn lines(report: &Report<'_>, width: usize, color: bool, in_full: bool) -> String {
    let readable = report.readable();
    let view = readable.view();
    let names = Names::of(view.names.iter().map(String::as_str));
    let mut screen = Lines::new(width, color);
    for condition in &view.conditions {
        screen.say(&format!("warning: {condition}"), "", "  ");
    }
    screen.say(&view.headline, "", "");
    table(&mut screen, &view, &names);
    for note in &view.legend {
        screen.say(note, "  ", "  ");
    }
    for detail in compare::view::details(&view) {
        screen.detail(&detail, &names);
    }
    findings(&mut screen, &view);
    published::tables_of(&mut screen, &view, &names);
    screen.gap();
    screen.say(&view.facts.join(" · "), "", "  ");
    if let Some(stopped) = view.stopped {
        screen.say(&format!("ended after {stopped}"), "", "  ");
    }
    if let Some(earlier) = &view.earlier {
        screen.say(earlier, "", "  ");
    }
    for problem in view.problems {
        screen.say(problem, "", "  ");
    }
    let told = if in_full || view.trust.is_none() { view.warnings.len() } else { view.urgent };
    if let Some(trust) = &view.trust {
        let more = match view.warnings.len() - told {
            0 => String::new(),
            more => format!(" ({} in the report)", counted(more, "remark")),
        };
        screen.say(&format!("{trust}{more}"), "", "  ");
    }
    for warning in &view.warnings[..told] {
        screen.say(&format!("warning: {warning}"), "", "  ");
    }
    screen.text()
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
    let labels: Vec<&str> = view.rows.iter().map(|row| row.label.as_str()).collect();
    let rows: Vec<&[CellView]> = view.rows.iter().map(|row| row.cells.as_slice()).collect();
    screen.table(&labels, &rows, |column| names.shown(column));
}

/// The widest first; the rest is counted.
fn findings(screen: &mut Lines, view: &View<'_>) {
    let Some(found) = &view.findings else { return };
    screen.gap();
    if found.is_empty() {
        let text = format!("No region of sizes differs by more than {} for sure.", percent(view.theta));
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

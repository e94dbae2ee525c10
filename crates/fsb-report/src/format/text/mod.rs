//! The first screen: the answer, the table, what it rests on.

mod published;

use crate::report::Report;
use crate::screen::{Column, Names, Part, WIDTH, paint, paragraph, tables};
use crate::show::{counted, percent};
use crate::view::{Cell, Detail, View};

use super::member::Format;

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    about: "the first screen: headline, table, warnings",
    render: |report| screen(report, WIDTH, false),
};

/// More columns than this, where a table has one a run, go into a table of their own.
const RUNS: usize = 6;

/// The first screen in `width` columns (80 at least), with colours where `color` is true. Lines end without spaces;
/// the last one with a newline.
pub fn screen(report: &Report<'_>, width: usize, color: bool) -> String {
    let readable = report.readable();
    let view = readable.view();
    let names = Names::of(view.names.iter().map(String::as_str));
    let mut screen = Screen { width: width.max(WIDTH), color, lines: Vec::new() };
    screen.say(&view.headline, "", "");
    let labels: Vec<&str> = view.rows.iter().map(|row| row.label.as_str()).collect();
    let rows: Vec<&[Cell]> = view.rows.iter().map(|row| row.cells.as_slice()).collect();
    screen.table(&labels, &rows, |column| names.shown(column));
    for note in &view.legend {
        screen.say(note, "  ", "  ");
    }
    for detail in &view.details {
        screen.detail(detail, &names);
    }
    findings(&mut screen, &view);
    published::tables_of(&mut screen, &view, &names);
    screen.lines.push(String::new());
    screen.say(&view.facts.join(" · "), "", "  ");
    if let Some(stopped) = view.stopped {
        screen.say(&format!("ended after {stopped}"), "", "  ");
    }
    for problem in view.problems {
        screen.say(problem, "", "  ");
    }
    for warning in view.warnings {
        screen.say(&format!("warning: {warning}"), "", "  ");
    }
    screen.lines.join("\n") + "\n"
}

/// Lines as they come.
struct Screen {
    width: usize,
    color: bool,
    lines: Vec<String>,
}

impl Screen {
    fn say(&mut self, text: &str, first: &str, rest: &str) {
        paragraph(&mut self.lines, self.width, text, first, rest);
    }

    /// Labels down, as many columns across as the rows have cells.
    fn table<'t>(&mut self, labels: &[&str], rows: &[&[Cell]], title: impl Fn(usize) -> &'t str) {
        let width = rows.first().map_or(0, |cells| cells.len());
        let column = |place: usize| Column::new(title(place), rows.iter().map(|cells| set(&cells[place])).collect());
        let columns: Vec<Column> = (0..width).map(column).collect();
        self.columns(labels, &columns);
    }

    fn columns(&mut self, labels: &[&str], columns: &[Column]) {
        self.lines.extend(tables(labels, columns, self.width, self.color));
    }

    fn detail(&mut self, detail: &Detail, names: &Names) {
        self.lines.push(String::new());
        self.say(&detail.title, "", "");
        let label = |column: Option<usize>, head: &str| match column {
            Some(column) => format!("{head} {}", names.shown(column)).trim_start().to_owned(),
            None => head.to_owned(),
        };
        let labels: Vec<String> = detail.lines.iter().map(|line| label(line.column, &line.head)).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let Some(heads) = &detail.heads else {
            let rows: Vec<&[Cell]> = detail.lines.iter().map(|line| line.cells.as_slice()).collect();
            return self.table(&labels, &rows, |column| names.shown(column));
        };
        for (place, heads) in heads.chunks(RUNS).enumerate() {
            let from = place * RUNS;
            let rows: Vec<&[Cell]> = detail.lines.iter().map(|line| &line.cells[from..from + heads.len()]).collect();
            self.table(&labels, &rows, |column| &heads[column]);
        }
    }
}

/// A cell and its colour.
fn set(cell: &Cell) -> (Part, Option<comfy_table::Color>) {
    let part = match (&cell.judged, &cell.value, cell.half_width) {
        (Some(judged), ..) => Part::Change(judged.change(), cell.mark.clone()),
        (None, Some(value), Some(half_width)) => {
            let half = half_width * 100.0;
            let decimals = if half < 9.95 { 1 } else { 0 };
            Part::Value(format!("{value} ±{half:.decimals$} %"), String::new())
        }
        (None, Some(value), None) => Part::Value(value.clone(), cell.mark.clone()),
        (None, None, _) => Part::Words(cell.absence.to_owned()),
    };
    (part, cell.judged.and_then(|judged| paint(judged.verdict)))
}

/// The widest first; the rest is counted.
fn findings(screen: &mut Screen, view: &View<'_>) {
    let Some(found) = &view.findings else { return };
    screen.lines.push(String::new());
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

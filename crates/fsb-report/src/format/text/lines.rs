//! The lines of a screen as they come.

use crate::screen::{Column, Names, Part, WIDTH, paint, paragraph, tables};
use crate::view::{CellView, Detail};

/// More columns than this, where a table has one a run, go into a table of their own.
const RUNS: usize = 6;

/// Lines as they come.
pub(super) struct Lines {
    width: usize,
    color: bool,
    lines: Vec<String>,
}

impl Lines {
    pub(super) fn new(width: usize, color: bool) -> Lines {
        Lines { width: width.max(WIDTH), color, lines: Vec::new() }
    }

    pub(super) fn text(self) -> String {
        self.lines.join("\n") + "\n"
    }

    pub(super) fn gap(&mut self) {
        self.lines.push(String::new());
    }

    pub(super) fn say(&mut self, text: &str, first: &str, rest: &str) {
        paragraph(&mut self.lines, self.width, text, first, rest);
    }

    /// Labels down, as many columns across as the rows have cells.
    pub(super) fn table<'t>(&mut self, labels: &[&str], rows: &[&[CellView]], title: impl Fn(usize) -> &'t str) {
        let width = rows.first().map_or(0, |cells| cells.len());
        let column = |place: usize| Column::new(title(place), rows.iter().map(|cells| set(&cells[place])).collect());
        let columns: Vec<Column> = (0..width).map(column).collect();
        self.columns(labels, &columns);
    }

    pub(super) fn columns(&mut self, labels: &[&str], columns: &[Column]) {
        self.lines.extend(tables(labels, columns, self.width, self.color));
    }

    pub(super) fn detail(&mut self, detail: &Detail, names: &Names) {
        self.gap();
        self.say(&detail.title, "", "");
        let label = |column: Option<usize>, head: &str| match column {
            Some(column) => format!("{head} {}", names.shown(column)).trim_start().to_owned(),
            None => head.to_owned(),
        };
        let labels: Vec<String> = detail.lines.iter().map(|line| label(line.column, &line.head)).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let Some(heads) = &detail.heads else {
            let rows: Vec<&[CellView]> = detail.lines.iter().map(|line| line.cells.as_slice()).collect();
            return self.table(&labels, &rows, |column| names.shown(column));
        };
        for (place, heads) in heads.chunks(RUNS).enumerate() {
            let from = place * RUNS;
            let rows: Vec<&[CellView]> =
                detail.lines.iter().map(|line| &line.cells[from..from + heads.len()]).collect();
            self.table(&labels, &rows, |column| &heads[column]);
        }
    }
}

/// A cell and its colour.
fn set(cell: &CellView) -> (Part, Option<comfy_table::Color>) {
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

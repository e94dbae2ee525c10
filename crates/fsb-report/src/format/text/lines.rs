//! The lines of a screen as they come.

use textwrap::core::display_width;

use crate::screen::{Column, Names, Part, WIDTH, cut, paint, paragraph, tables};
use crate::view::{CellView, Detail};

/// More columns than this, where a table has one a run, go into a table of their own.
const RUNS: usize = 6;

/// Lines as they come.
pub(super) struct Lines {
    width: usize,
    color: bool,
    /// Whether tables follow without an empty line.
    compact: bool,
    lines: Vec<String>,
}

impl Lines {
    pub(super) fn new(width: usize, color: bool) -> Lines {
        Lines { width: width.max(WIDTH), color, compact: false, lines: Vec::new() }
    }

    pub(super) fn compact(&mut self) {
        self.compact = true;
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

    /// Whether a text fits one line.
    pub(super) fn fits(&self, text: &str) -> bool {
        display_width(text) <= self.width
    }

    /// Prints one line: a text, cut if it is too long, and what follows it in any case.
    pub(super) fn line(&mut self, text: &str, after: &str) {
        let room = self.width.saturating_sub(display_width(after));
        self.lines.push(cut(text, room) + after);
    }

    /// Prints parts as one line, without the longest ones if all are too long.
    pub(super) fn parts(&mut self, parts: &[String]) {
        const BETWEEN: &str = " · ";
        let mut kept: Vec<&str> = parts.iter().map(String::as_str).collect();
        while kept.len() > 1 && display_width(&kept.join(BETWEEN)) > self.width {
            let longest = (0..kept.len()).max_by_key(|place| display_width(kept[*place])).unwrap_or_default();
            kept.remove(longest);
        }
        self.line(&kept.join(BETWEEN), "");
    }

    /// Labels down, as many columns across as the rows have cells.
    pub(super) fn table<'t>(&mut self, labels: &[&str], rows: &[&[CellView]], title: impl Fn(usize) -> &'t str) {
        let width = rows.first().map_or(0, |cells| cells.len());
        let column = |place: usize| Column::new(title(place), rows.iter().map(|cells| set(&cells[place])).collect());
        let columns: Vec<Column> = (0..width).map(column).collect();
        self.columns(labels, &columns);
    }

    pub(super) fn columns(&mut self, labels: &[&str], columns: &[Column]) {
        let lines = tables(labels, columns, self.width, self.color);
        self.lines.extend(lines.into_iter().filter(|line| !(self.compact && line.is_empty())));
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

//! The first screen: the answer, the table, what it rests on.
//!
//! Eighty columns. Targets that do not fit side by side follow in further groups, each with the reference beside
//! them; long names are shortened and explained; long labels are wrapped.

mod columns;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, TableStyle};
use fsb_analysis::{Outcome, Verdict};
use fsb_model::Better;
use textwrap::{Options, wrap};

use self::columns::{Column, Names};
use super::Format;
use crate::View;

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    about: "the first screen: headline, table, warnings",
    render: |view, _| first_screen(view, false),
};

/// How wide the screen may be.
const WIDTH: usize = 80;
/// Labels are not wrapped narrower than this.
const LABEL: usize = 20;
/// Between columns.
const GAP: usize = 2;

/// The first screen, with colours where `color` is true. Lines end without spaces; the last one with a newline.
pub fn first_screen(view: &View, color: bool) -> String {
    let mut lines = Vec::new();
    paragraph(&mut lines, &view.headline, "", "");
    let names = Names::of(view);
    let columns: Vec<Column> = (0..view.targets.len()).map(|target| Column::of(view, target, &names)).collect();
    let labels: Vec<&str> = view.rows.iter().map(|row| row.workload.as_str()).collect();
    if !labels.is_empty() {
        for group in groups(view, &columns) {
            lines.push(String::new());
            lines.extend(table(&labels, &group, color));
        }
    }
    for note in notes(view, &names) {
        paragraph(&mut lines, &note, "  ", "  ");
    }
    lines.push(String::new());
    paragraph(&mut lines, &view.facts.join(" · "), "", "  ");
    for problem in &view.problems {
        paragraph(&mut lines, problem, "", "  ");
    }
    for warning in &view.warnings {
        paragraph(&mut lines, &format!("warning: {warning}"), "", "  ");
    }
    lines.join("\n") + "\n"
}

fn paragraph(lines: &mut Vec<String>, text: &str, first: &str, rest: &str) {
    let options = Options::new(WIDTH).initial_indent(first).subsequent_indent(rest).break_words(false);
    lines.extend(wrap(text, options).into_iter().map(|line| line.trim_end().to_owned()));
}

/// The reference with as many of the others as fit beside it.
fn groups<'a>(view: &View, columns: &'a [Column]) -> Vec<Vec<&'a Column>> {
    let Some((reference, others)) = columns.split_first() else { return Vec::new() };
    let widest = view.rows.iter().map(|row| textwrap::core::display_width(&row.workload)).max().unwrap_or(0);
    let room = WIDTH - widest.min(LABEL) - GAP - reference.width;
    let mut groups: Vec<Vec<&Column>> = Vec::new();
    let mut left = 0;
    for column in others {
        let needed = GAP + column.width;
        match groups.last_mut() {
            Some(group) if needed <= left => group.push(column),
            _ => {
                groups.push(vec![reference, column]);
                left = room;
            }
        }
        left = left.saturating_sub(needed);
    }
    if groups.is_empty() { vec![vec![reference]] } else { groups }
}

/// One group as lines: labels take what the columns leave.
fn table(labels: &[&str], group: &[&Column], color: bool) -> Vec<String> {
    let taken: usize = group.iter().map(|column| GAP + column.width).sum();
    let room = WIDTH.saturating_sub(taken).max(LABEL);
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    if color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let header = group.iter().map(|column| Cell::new(&column.title));
    table.set_header(std::iter::once(Cell::new("")).chain(header));
    for (index, label) in labels.iter().enumerate() {
        let label = wrap(label, Options::new(room).subsequent_indent("  ")).join("\n");
        let cells = group.iter().map(|column| painted(&column.cells[index], column.paint[index], color));
        table.add_row(std::iter::once(Cell::new(label)).chain(cells));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP as u16)).set_cell_alignment(CellAlignment::Left);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn painted(text: &str, paint: Option<Color>, color: bool) -> Cell {
    match paint.filter(|_| color) {
        Some(paint) => Cell::new(text).fg(paint),
        None => Cell::new(text),
    }
}

/// What the signs of the table mean, where they occur.
fn notes(view: &View, names: &Names) -> Vec<String> {
    let mut notes = names.legend(view);
    let compared = view.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.against.as_ref());
    let (mut any, mut judged) = (false, false);
    for comparison in compared {
        any = true;
        judged |= comparison.verdict != Verdict::NotJudged;
    }
    if any {
        let interval = if judged { ", 95 % interval" } else { "" };
        let letters = if view.is_judged() { " Same letter: not told apart." } else { "" };
        let less =
            if view.rows.iter().any(|row| row.better == Better::Lower) { " Of times, less is better." } else { "" };
        let reference = names.shown(view.reference);
        notes.push(format!("Change against {reference}{interval}.{letters}{less}"));
    } else if view.rows.iter().any(|row| row.ranking.outcome != Outcome::Nothing) && !view.is_comparison() {
        notes.push("Estimate and half-width of its 95 % interval.".to_owned());
    }
    notes.extend(view.advice.clone());
    notes
}

#[cfg(test)]
mod tests;

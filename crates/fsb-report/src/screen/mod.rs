//! Text for terminals: paragraphs, and columns side by side within a width.
//!
//! Columns that do not fit follow in further groups, each with the first column, the reference, beside them; long
//! labels are wrapped. Every text that becomes a line here shows what it hides ([`crate::visible`]).

mod column;
mod names;

use std::borrow::Cow;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, TableStyle};
use textwrap::{Options, wrap};

use crate::show::bound;
use crate::visible;

pub(crate) use column::{Column, Part, paint};
pub(crate) use names::Names;

/// How wide a screen is where nothing is known about it.
pub const WIDTH: usize = 80;
/// Labels are not wrapped narrower than this.
const LABEL: usize = 16;
/// Between columns.
const GAP: usize = 2;

/// A paragraph in lines that fit, without spaces at their ends. Numbers keep their units; only a word wider than a line
/// is broken.
pub(crate) fn paragraph(lines: &mut Vec<String>, width: usize, text: &str, first: &str, rest: &str) {
    let options = Options::new(width).initial_indent(first).subsequent_indent(rest);
    lines.extend(
        wrap(&bound(&visible::line(text)), options).into_iter().map(|line| line.trim_end().replace('\u{a0}', " ")),
    );
}

/// Labels down, columns across, in as many groups as it takes; an empty line before each.
pub(crate) fn tables(labels: &[&str], columns: &[Column], width: usize, color: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if !labels.is_empty() {
        let labels: Vec<Cow<'_, str>> = labels.iter().map(|label| visible::line(label)).collect();
        for group in groups(&labels, columns, width) {
            lines.push(String::new());
            lines.extend(table(&labels, &group, width, color));
        }
    }
    lines
}

/// The reference with as many of the others as fit beside it.
fn groups<'a>(labels: &[Cow<'_, str>], columns: &'a [Column], width: usize) -> Vec<Vec<&'a Column>> {
    let Some((reference, others)) = columns.split_first() else { return Vec::new() };
    let widest = labels.iter().map(|label| textwrap::core::display_width(label)).max().unwrap_or(0);
    let room = width.saturating_sub(widest.min(LABEL) + GAP + reference.width);
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
fn table(labels: &[Cow<'_, str>], group: &[&Column], width: usize, color: bool) -> Vec<String> {
    let taken: usize = group.iter().map(|column| GAP + column.width).sum();
    let room = width.saturating_sub(taken).max(LABEL);
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

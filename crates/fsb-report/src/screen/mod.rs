//! Text for terminals: paragraphs, and columns side by side within a width.
//!
//! If the table is wider than the screen, labels are abbreviated; columns that still do not fit follow in further groups,
//! each beside the first column, the baseline; then labels wrap. Every text that becomes a line here shows what it hides
//! ([`crate::visible`]).

mod column;
mod labels;
mod names;

use std::borrow::Cow;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, TableStyle};
use textwrap::core::display_width;
use textwrap::{Options, wrap};

use crate::show::bound;
use crate::visible;

use column::Layout;
pub(crate) use column::{Column, Part, paint};
pub(crate) use names::Names;

/// How wide a screen is where nothing is known about it.
pub const WIDTH: usize = 80;
/// Labels are not wrapped narrower than this.
const LABEL: usize = 16;
/// Labels up to this width are not wrapped to get another column beside them.
const WHOLE_LABEL: usize = 26;
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
        let labels = labels.iter().map(|label| visible::line(label)).collect();
        let (labels, is_narrow) = fitting(labels, columns, width);
        for group in groups(&labels, columns, is_narrow, width) {
            lines.push(String::new());
            lines.extend(table(&labels, &group, is_narrow, width, color));
        }
    }
    lines
}

/// Abbreviates the labels if the table does not fit otherwise, and then narrows the columns.
fn fitting<'a>(labels: Vec<Cow<'a, str>>, columns: &[Column], width: usize) -> (Vec<Cow<'a, str>>, bool) {
    let taken = |is_narrow| columns.iter().map(|column| GAP + column.layout(is_narrow).width).sum::<usize>();
    if widest(&labels) + taken(false) <= width {
        return (labels, false);
    }
    let labels: Vec<Cow<'_, str>> = labels.into_iter().map(|label| labels::abbreviate(&label).into()).collect();
    let is_narrow = widest(&labels) + taken(false) > width && widest(&labels) + taken(true) <= width;
    (labels, is_narrow)
}

fn widest(labels: &[Cow<'_, str>]) -> usize {
    labels.iter().map(|label| display_width(label)).max().unwrap_or(0)
}

/// Cuts a text to one line of that width at a word, with an ellipsis where words are missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = visible::line(text);
    if display_width(&text) <= width {
        return text.into_owned();
    }
    let mut line = String::new();
    for word in text.split(' ') {
        if display_width(&line) + display_width(word) + 2 > width {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    line.trim_end_matches([',', ';', ':']).to_owned() + "…"
}

/// The reference with as many of the others as fit beside it.
fn groups<'a>(labels: &[Cow<'_, str>], columns: &'a [Column], is_narrow: bool, width: usize) -> Vec<Vec<&'a Column>> {
    let Some((reference, others)) = columns.split_first() else { return Vec::new() };
    let widest = widest(labels);
    let label = if widest <= WHOLE_LABEL { widest } else { LABEL };
    let room = width.saturating_sub(label + GAP + reference.layout(is_narrow).width);
    let mut groups: Vec<Vec<&Column>> = Vec::new();
    let mut left = 0;
    for column in others {
        let needed = GAP + column.layout(is_narrow).width;
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
fn table(labels: &[Cow<'_, str>], group: &[&Column], is_narrow: bool, width: usize, color: bool) -> Vec<String> {
    let layouts: Vec<&Layout> = group.iter().map(|column| column.layout(is_narrow)).collect();
    let taken: usize = layouts.iter().map(|layout| GAP + layout.width).sum();
    let room = width.saturating_sub(taken).max(LABEL);
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    if color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let header = layouts.iter().map(|layout| Cell::new(&layout.title));
    table.set_header(std::iter::once(Cell::new("")).chain(header));
    for (index, label) in labels.iter().enumerate() {
        let label = wrap(label, Options::new(room).subsequent_indent("  ")).join("\n");
        let cells = layouts.iter().zip(group);
        let cells = cells.map(|(layout, column)| painted(&layout.cells[index], column.paint[index], color));
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

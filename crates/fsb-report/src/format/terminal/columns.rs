//! One target's column: its parts aligned below each other.

use comfy_table::Color;
use fsb_analysis::{Comparison, Verdict};
use textwrap::core::display_width;

use crate::View;
use crate::show::Change;
use crate::view::{CellView, Row};

/// Longer names are shortened.
const NAME: usize = 18;

/// A column, ready to be set.
pub(super) struct Column {
    pub(super) title: String,
    pub(super) cells: Vec<String>,
    pub(super) paint: Vec<Option<Color>>,
    pub(super) width: usize,
}

/// What stands in one cell, in parts.
enum Parts {
    Change(Change, String),
    Value(String, String),
    Words(String),
}

impl Column {
    pub(super) fn of(view: &View, target: usize, names: &Names) -> Column {
        let parts: Vec<Parts> = view.rows.iter().map(|row| parts(view, row, &row.cells[target])).collect();
        let paint = view.rows.iter().map(|row| row.cells[target].against.as_ref().and_then(paint)).collect();
        let cells = aligned(&parts);
        let title = names.shown(target).to_owned();
        let width = cells.iter().chain([&title]).map(|cell| display_width(cell)).max().unwrap_or(0);
        Column { title, cells, paint, width }
    }
}

fn parts(view: &View, row: &Row, cell: &CellView) -> Parts {
    let Some(estimate) = &cell.estimate else {
        return Parts::Words(cell.absence().unwrap_or_default().to_owned());
    };
    if let Some(comparison) = &cell.against {
        return Parts::Change(Change::of(comparison), cell.mark.clone());
    }
    let value = row.unit.show(estimate.value);
    let half = estimate.interval.filter(|_| !view.is_comparison() && estimate.is_judged());
    match half {
        Some(interval) => {
            let half = interval.relative_half_width() * 100.0;
            let decimals = if half < 9.95 { 1 } else { 0 };
            Parts::Value(format!("{value} ±{half:.decimals$} %"), String::new())
        }
        None => Parts::Value(value, cell.mark.clone()),
    }
}

/// Pads every part to the width of its column.
fn aligned(parts: &[Parts]) -> Vec<String> {
    let widest =
        |of: &dyn Fn(&Parts) -> Option<&str>| parts.iter().filter_map(of).map(display_width).max().unwrap_or(0);
    let center = widest(&|part| match part {
        Parts::Change(change, _) => Some(&change.center),
        _ => None,
    });
    let ends = parts.iter().filter_map(|part| match part {
        Parts::Change(Change { ends: Some((lo, hi)), .. }, _) => Some(display_width(lo) + display_width(hi)),
        _ => None,
    });
    let inner = ends.max().unwrap_or(0);
    let value = widest(&|part| match part {
        Parts::Value(value, _) => Some(value),
        _ => None,
    });
    let interval = if inner > 0 { inner + 4 } else { 0 };
    let shown = |part: &Parts| match part {
        Parts::Words(words) => words.clone(),
        Parts::Value(text, mark) => format!("{} {mark}", pad_left(text, value)),
        Parts::Change(change, mark) => {
            // The lower end stands at the left bracket, the upper one at the right.
            let ends = change.ends.as_ref().map(|(lo, hi)| {
                let hi = pad_left(hi, inner - display_width(lo));
                format!(" [{lo} {hi}]")
            });
            format!("{}{:interval$} {mark}", pad_left(&change.center, center), ends.unwrap_or_default())
        }
    };
    parts.iter().map(|part| shown(part).trim_end().to_owned()).collect()
}

fn pad_left(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(display_width(text))))
}

/// Blue and yellow are told apart by everyone; what is not sure is dim.
fn paint(comparison: &Comparison) -> Option<Color> {
    match comparison.verdict {
        Verdict::Faster | Verdict::ProbablyFaster => Some(Color::Blue),
        Verdict::Slower | Verdict::ProbablySlower => Some(Color::Yellow),
        Verdict::Inconclusive => Some(Color::DarkGrey),
        Verdict::Equivalent | Verdict::NotJudged => None,
    }
}

/// The names of targets as the table shows them.
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn of(view: &View) -> Names {
        let mut shown: Vec<String> = Vec::new();
        for target in &view.targets {
            let short = shortened(&target.name);
            // Names that begin alike are told apart by a number.
            let name = match shown.contains(&short) {
                true => format!("{}#{}", short, shown.len() + 1),
                false => short,
            };
            shown.push(name);
        }
        Names(shown)
    }

    pub(super) fn shown(&self, target: usize) -> &str {
        self.0.get(target).map_or("", String::as_str)
    }

    /// One line for every name that was shortened.
    pub(super) fn legend(&self, view: &View) -> Vec<String> {
        let pairs = self.0.iter().zip(&view.targets);
        pairs.filter(|(shown, target)| **shown != target.name).map(|(s, t)| format!("{s} is {}", t.name)).collect()
    }
}

fn shortened(name: &str) -> String {
    if display_width(name) <= NAME {
        return name.to_owned();
    }
    let mut short = String::new();
    for c in name.chars() {
        if display_width(&short) + 2 > NAME - 2 {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

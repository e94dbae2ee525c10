//! The charts of a comparison. A new one is a file and a line in [`CHARTS`].
//!
//! A chart is a Plotly figure in JSON, made here and drawn by the page's script. Values are rounded to five digits:
//! nobody sees more, and the page stays small. Every number of a chart also stands in a table.

mod boxes;
mod heat;
mod means;
mod medians;
mod ratios;
mod runs;
mod scatter;
mod surface;

use fsb_model::units::Bytes;
use serde_json::{Value, json};

use crate::compare::view::{Fixed, Row, View};
use crate::page::axis::value_ticks;
use crate::page::chart::{hue, shape};
use crate::page::script_safe;

/// A chart and the words that belong to it.
pub(super) struct Chart {
    pub(super) id: String,
    pub(super) height: usize,
    /// What it shows, for those who do not see it.
    pub(super) label: String,
    pub(super) caption: String,
    pub(super) key: Vec<Key>,
    /// Where there are several figures to choose from: their names. `json` is an array then.
    pub(super) choices: Vec<String>,
    pub(super) json: String,
}

/// What a colour and a shape stand for.
pub(super) struct Key {
    pub(super) class: String,
    pub(super) shape: &'static str,
    pub(super) text: String,
}

/// A member of the registry of charts.
pub(super) struct Kind {
    /// Unique; charts are called after it.
    pub(super) name: &'static str,
    pub(super) draw: Draw,
}

/// Where a chart belongs, and what it is made of. The name is that of its kind.
pub(super) enum Draw {
    /// Once on the page.
    Overview(fn(&View<'_>, &str) -> Vec<Chart>),
    /// Once an operation, with its place among the rows.
    Operation(fn(&View<'_>, &Row<'_>, &str, usize) -> Option<Chart>),
    /// Once a size of an operation in detail.
    Detail(fn(&View<'_>, &Fixed<'_>, &str) -> Chart),
    /// Once on the page, for all operations together.
    Panel(fn(&View<'_>, &str) -> Option<Chart>),
}

/// Every chart, in the order of the page.
pub(super) static CHARTS: &[Kind] = &[
    ratios::KIND,
    boxes::KIND,
    runs::KIND,
    medians::BY_FILE_SIZE,
    medians::BY_RECORD_SIZE,
    scatter::KIND,
    heat::KIND,
    means::KIND,
    surface::KIND,
];

/// Every chart sets one thing beside another: where that is not to be done there is none.
fn kinds(view: &View<'_>) -> impl Iterator<Item = &'static Kind> {
    CHARTS.iter().filter(|_| view.document.unjudged.is_none())
}

/// The charts of the overview.
pub(super) fn overview(view: &View<'_>) -> Vec<Chart> {
    let kinds = kinds(view).filter_map(|kind| match kind.draw {
        Draw::Overview(draw) => Some(draw(view, kind.name)),
        _ => None,
    });
    kinds.flatten().collect()
}

/// The charts of one operation.
pub(super) fn operation(view: &View<'_>, row: &Row<'_>, place: usize) -> Vec<Chart> {
    let kinds = kinds(view).filter_map(|kind| match kind.draw {
        Draw::Operation(draw) => draw(view, row, kind.name, place),
        _ => None,
    });
    kinds.collect()
}

/// The charts of one size in detail.
pub(super) fn detail(view: &View<'_>, fixed: &Fixed<'_>) -> Vec<Chart> {
    let kinds = kinds(view).filter_map(|kind| match kind.draw {
        Draw::Detail(draw) => Some(draw(view, fixed, kind.name)),
        _ => None,
    });
    kinds.collect()
}

/// The panels that stand for all operations.
pub(super) fn panels(view: &View<'_>) -> Vec<Chart> {
    let kinds = kinds(view).filter_map(|kind| match kind.draw {
        Draw::Panel(draw) => draw(view, kind.name),
        _ => None,
    });
    kinds.collect()
}

/// One colour and shape a set.
fn key_of_sets(view: &View<'_>) -> Vec<Key> {
    let key = |(place, set): (usize, &&fsb_analysis::compare::SetSummary)| Key {
        class: style(place),
        shape: shape(place),
        text: set.name.clone(),
    };
    view.sets.iter().enumerate().map(key).collect()
}

/// The class of a set's mark.
fn style(place: usize) -> String {
    format!("t{}", hue(place))
}

/// A figure as it lies in the page.
fn figure(data: &[Value], layout: &Value) -> String {
    script_safe(&json!({ "data": data, "layout": layout }))
}

/// How far from its size a set stands, so that bars of several do not hide each other nor reach the next size.
fn beside(set: usize, sets: usize) -> f64 {
    (set as f64 - (sets as f64 - 1.0) / 2.0) * f64::min(0.12, 0.7 / sets as f64)
}

/// A value with five digits.
fn short(value: f64) -> Value {
    let rounded = format!("{value:.4e}").parse().unwrap_or(value);
    // A whole number needs no point.
    if rounded == rounded.trunc() && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}

/// Sizes as ticks of an axis: at most eight labels, or they would print over each other on a telephone.
fn size_axis(title: &str, sizes: &[u64]) -> Value {
    let step = sizes.len().div_ceil(8).max(1);
    let shown = sizes.iter().enumerate().step_by(step);
    let (places, texts): (Vec<usize>, Vec<String>) = shown.map(|(place, size)| (place, size_text(*size))).unzip();
    json!({
        "title": { "text": title }, "tickvals": places, "ticktext": texts, "tickangle": 0, "zeroline": false,
        "range": [-0.5, sizes.len() as f64 - 0.5],
    })
}

/// `64K`, as IOzone's users write it.
fn size_text(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// An axis of values between `lo` and `hi`: from zero, or logarithmic where they differ too much for that.
fn value_axis(unit: &str, lo: f64, hi: f64) -> Value {
    if lo > 0.0 && hi / lo > 8.0 {
        logarithmic(unit, lo / 1.15, hi * 1.15)
    } else {
        json!({ "title": { "text": unit }, "rangemode": "tozero", "zeroline": false })
    }
}

/// A logarithmic axis from `lo` to `hi`.
fn logarithmic(title: &str, lo: f64, hi: f64) -> Value {
    let (places, texts) = value_ticks(lo, hi);
    json!({
        "title": { "text": title }, "type": "log", "range": [lo.log10(), hi.log10()], "zeroline": false,
        "tickvals": places, "ticktext": texts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_have_names_of_their_own() {
        for (index, kind) in CHARTS.iter().enumerate() {
            assert!(CHARTS[..index].iter().all(|other| other.name != kind.name), "{}", kind.name);
            assert!(!kind.name.is_empty() && kind.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
        }
    }

    #[test]
    fn five_digits_are_enough() {
        let shown = |value| short(value).to_string();
        assert_eq!(
            (shown(1231.0149), shown(0.000_123_456), shown(98_765.4)),
            ("1231".into(), "0.00012346".into(), "98765".into())
        );
        assert_eq!(shown(1231.06), "1231.1");
    }

    #[test]
    fn sets_stay_at_their_size() {
        for sets in 1..24 {
            assert!((beside(sets - 1, sets) - beside(0, sets)).abs() < 0.7);
            assert!((beside(0, sets) + beside(sets - 1, sets)).abs() < 1e-12);
        }
    }

    #[test]
    fn labels_of_sizes_leave_room() {
        let sizes: Vec<u64> = (12..33).map(|power| 1 << power).collect();
        let axis = size_axis("file size", &sizes);
        assert_eq!(axis["ticktext"][0], "4K");
        assert_eq!(axis["ticktext"][1], "32K");
        assert!(axis["ticktext"].as_array().is_some_and(|texts| texts.len() == 7));
    }
}

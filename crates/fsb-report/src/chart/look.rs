//! The marks, axes and keys that the charts of a page have in common.

use fsb_model::units::Bytes;
use serde_json::{Value, json};

use crate::axis::{LINEAR, value_ticks};
use crate::compare::detail::Fixed;
use crate::escape::script_safe;
use crate::screen::Names;
use crate::view::{Row, View};

pub(crate) use crate::palette::{color, dash, fill, hue, shape, symbol};

/// The width of the line around an open shape.
const OUTLINE: f64 = 1.8;

/// Returns the mark of a column in a figure. By default, Plotly draws open shapes with a hairline.
pub(crate) fn mark(place: usize, size: usize) -> Value {
    let mut mark = json!({ "color": color(place), "symbol": symbol(place), "size": size });
    if symbol(place).contains("open") {
        mark["line"] = json!({ "width": OUTLINE });
    }
    mark
}

/// Returns a name that is short enough for the title of an axis, on a phone too, and that is unique
/// in `all`.
pub(crate) fn brief<'a>(name: &str, all: impl IntoIterator<Item = &'a str>) -> String {
    let names = Names::new(all);
    plain(names.short(name).unwrap_or(name))
}

/// Escapes `&` and `<`, because Plotly interprets some markup in texts.
pub(crate) fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Returns a mark and a name for every column.
pub(crate) fn key(view: &View<'_>) -> Vec<KeyEntry> {
    (0..view.names.len())
        .map(|place| KeyEntry {
            class: format!("t{}", hue(place)),
            shape: shape(place),
            text: view.charted(place),
        })
        .collect()
}

/// Returns a figure as JSON for the page.
///
/// Callers round values to five digits with `short`, more than a chart shows, to keep the page
/// small.
pub(super) fn figure(data: &[Value], layout: &Value) -> String {
    script_safe(&json!({ "data": data, "layout": layout }))
}

/// Returns the offset of a set from its size on the axis, so that the bars of several sets neither
/// hide each other nor reach the next size.
pub(super) fn beside(set: usize, sets: usize) -> f64 {
    (set as f64 - (sets as f64 - 1.0) / 2.0) * f64::min(0.12, 0.7 / sets as f64)
}

/// Rounds a value to five digits.
pub(super) fn short(value: f64) -> Value {
    let rounded = format!("{value:.4e}").parse().unwrap_or(value);
    // A whole number needs no point.
    if rounded == rounded.trunc() && rounded.abs() < 1e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

/// Returns an axis with sizes as ticks, with at most eight labels so that they do not overlap on a
/// phone.
pub(super) fn size_axis(title: &str, sizes: &[u64]) -> Value {
    let step = sizes.len().div_ceil(8).max(1);
    let shown = sizes.iter().enumerate().step_by(step);
    let (places, texts): (Vec<usize>, Vec<String>) =
        shown.map(|(place, size)| (place, size_text(*size))).unzip();
    json!({
        "title": { "text": title }, "tickvals": places, "ticktext": texts, "tickangle": 0, "zeroline": false,
        "range": [-0.5, sizes.len() as f64 - 0.5],
    })
}

/// Formats a size as users of IOzone write it: `64K`.
pub(super) fn size_text(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// Returns an axis for values between `lo` and `hi`: linear from zero, or logarithmic if they
/// differ by more than a factor of 8.
pub(super) fn value_axis(unit: &str, lo: f64, hi: f64) -> Value {
    if lo > 0.0 && hi / lo > LINEAR {
        logarithmic(unit, lo / 1.15, hi * 1.15)
    } else {
        json!({ "title": { "text": unit }, "rangemode": "tozero", "zeroline": false })
    }
}

/// Returns a logarithmic axis from `lo` to `hi`.
pub(super) fn logarithmic(title: &str, lo: f64, hi: f64) -> Value {
    let (places, texts) = value_ticks(lo, hi);
    json!({
        "title": { "text": title }, "type": "log", "range": [lo.log10(), hi.log10()], "zeroline": false,
        "tickvals": places, "ticktext": texts,
    })
}

/// A chart and the words that belong to it.
#[derive(Default)]
pub(crate) struct Chart {
    pub(crate) id: String,
    pub(crate) height: usize,
    /// The content of the chart, for a screen reader.
    pub(crate) label: String,
    pub(crate) caption: String,
    pub(crate) key: Vec<KeyEntry>,
    /// The names of the figures if there are several to choose from. `json` is an array then.
    pub(crate) choices: Vec<String>,
    /// The operation whose table it belongs to; absent where it is about the row as a whole.
    pub(crate) operation: Option<String>,
    pub(crate) json: String,
}

/// The meaning of a colour and a shape.
pub(crate) struct KeyEntry {
    pub(crate) class: String,
    pub(crate) shape: &'static str,
    pub(crate) text: String,
}

/// A member of the registry of charts.
pub(crate) struct ChartKind {
    /// Unique; charts are called after it.
    pub(crate) name: &'static str,
    pub(crate) draw: Draw,
}

/// The place of a chart on the page, and the function that draws it under the name of its kind. A
/// view without the data has no chart.
pub(crate) enum Draw {
    /// On the page as a whole.
    Overview(fn(&View<'_>, &str) -> Vec<Chart>),
    /// With a row, whose place is given.
    Row(fn(&View<'_>, &Row<'_>, &str, usize) -> Vec<Chart>),
    /// With a size of a row in detail.
    Size(fn(&View<'_>, &Fixed<'_>, &str) -> Chart),
    /// Once on the page, for all rows together, with selectors.
    Panel(fn(&View<'_>, &str) -> Option<Chart>),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::palette::SHAPES;

    #[test]
    fn two_dozen_look_different_without_colour() {
        let many = SHAPES.len();
        let unlike =
            |look: &dyn Fn(usize) -> String| (0..many).map(look).collect::<BTreeSet<_>>().len();
        assert_eq!(unlike(&|place| symbol(place).to_owned()), many);
        assert_eq!(unlike(&|place| shape(place).to_owned()), many);
        assert_eq!(
            unlike(&|place| format!("{} {}", color(place), dash(place))),
            many,
            "lines without marks"
        );
        assert_eq!(
            unlike(&|place| format!("{} {}", color(place), fill(place))),
            many,
            "boxes"
        );
        for place in 0..many {
            let mark = mark(place, 7);
            assert_eq!(
                (&mark["symbol"], mark.get("line").is_some()),
                (&symbol(place).into(), symbol(place).contains("open"))
            );
        }
    }

    #[test]
    fn long_names_do_not_fill_an_axis() {
        let all = [
            "ext4,noatime,data=<journal>,discard",
            "a<b",
            "ext4,noatime,data=ordered,discard",
        ];
        assert_eq!(brief(all[1], all), "a&lt;b");
        assert_eq!(
            brief(all[0], all[..2].iter().copied()),
            "ext4,noatime,data…"
        );
        assert_ne!(brief(all[0], all), brief(all[2], all));
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
        assert!(
            axis["ticktext"]
                .as_array()
                .is_some_and(|texts| texts.len() == 7)
        );
    }
}

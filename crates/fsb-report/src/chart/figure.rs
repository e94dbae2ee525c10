//! What figures are made of: Plotly's JSON, with values, axes and places.
//!
//! Values are rounded to five digits, more than a chart shows: the page stays small.

use fsb_model::units::Bytes;
use serde_json::{Value, json};

use super::axis::value_ticks;
use crate::page::escape::script_safe;

/// A figure as it lies in the page.
pub(super) fn figure(data: &[Value], layout: &Value) -> String {
    script_safe(&json!({ "data": data, "layout": layout }))
}

/// How far from its size a set stands, so that bars of several do not hide each other nor reach the next size.
pub(super) fn beside(set: usize, sets: usize) -> f64 {
    (set as f64 - (sets as f64 - 1.0) / 2.0) * f64::min(0.12, 0.7 / sets as f64)
}

/// A value with five digits.
pub(super) fn short(value: f64) -> Value {
    let rounded = format!("{value:.4e}").parse().unwrap_or(value);
    // A whole number needs no point.
    if rounded == rounded.trunc() && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}

/// Sizes as ticks of an axis: at most eight labels, or they would print over each other on a telephone.
pub(super) fn size_axis(title: &str, sizes: &[u64]) -> Value {
    let step = sizes.len().div_ceil(8).max(1);
    let shown = sizes.iter().enumerate().step_by(step);
    let (places, texts): (Vec<usize>, Vec<String>) = shown.map(|(place, size)| (place, size_text(*size))).unzip();
    json!({
        "title": { "text": title }, "tickvals": places, "ticktext": texts, "tickangle": 0, "zeroline": false,
        "range": [-0.5, sizes.len() as f64 - 0.5],
    })
}

/// `64K`, as IOzone's users write it.
pub(super) fn size_text(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// An axis of values between `lo` and `hi`: from zero, or logarithmic where they differ too much for that.
pub(super) fn value_axis(unit: &str, lo: f64, hi: f64) -> Value {
    if lo > 0.0 && hi / lo > 8.0 {
        logarithmic(unit, lo / 1.15, hi * 1.15)
    } else {
        json!({ "title": { "text": unit }, "rangemode": "tozero", "zeroline": false })
    }
}

/// A logarithmic axis from `lo` to `hi`.
pub(super) fn logarithmic(title: &str, lo: f64, hi: f64) -> Value {
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

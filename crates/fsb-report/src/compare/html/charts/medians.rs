//! Medians with quartiles, size by size.

use fsb_analysis::compare::Slice;
use serde_json::{Value, json};

use super::{Chart, Draw, Kind, beside, figure, key_of_sets, short, size_axis, value_axis};
use crate::compare::html::numbers::Scale;
use crate::compare::view::{Row, View};
use crate::page::chart::{color, dash, mark, plain};

pub(super) const BY_FILE_SIZE: Kind = Kind {
    name: "medians-file",
    draw: Draw::Operation(|view, row, name, place| {
        chart(view, row, &row.operation.by_file_size, "file size", name, place)
    }),
};

pub(super) const BY_RECORD_SIZE: Kind = Kind {
    name: "medians-record",
    draw: Draw::Operation(|view, row, name, place| {
        chart(view, row, &row.operation.by_record_size, "record size", name, place)
    }),
};

fn chart(view: &View<'_>, row: &Row<'_>, slices: &[Slice], what: &str, name: &str, place: usize) -> Option<Chart> {
    if slices.len() < 2 {
        return None;
    }
    let scale = Scale::of([row.operation]);
    let (mut lo, mut hi) = (f64::MAX, 0.0f64);
    for pooled in slices.iter().flat_map(|slice| slice.classic.sets.values().flatten()) {
        (lo, hi) = (lo.min(pooled.q1), hi.max(pooled.q3));
    }
    let traces: Vec<Value> = (0..view.sets.len()).map(|set| trace(view, slices, set, scale)).collect();
    let sizes: Vec<u64> = slices.iter().map(|slice| slice.bytes).collect();
    let layout = json!({ "xaxis": size_axis(what, &sizes), "yaxis": value_axis(scale.name, lo / scale.divisor, hi / scale.divisor) });
    Some(Chart {
        id: format!("{name}-{place}"),
        height: 300,
        label: format!("{}: medians with quartiles by {what}", row.label),
        caption: format!("Medians by {what}, with bars from the first to the third quartile."),
        key: key_of_sets(view),
        choices: Vec::new(),
        json: figure(&traces, &layout),
    })
}

fn trace(view: &View<'_>, slices: &[Slice], set: usize, scale: Scale) -> Value {
    let name = &view.sets[set].name;
    // Bars of several sets must not hide each other.
    let dodge = beside(set, view.sets.len());
    let present: Vec<_> = slices
        .iter()
        .enumerate()
        .filter_map(|(place, slice)| Some((place, slice.classic.sets.get(name)?.as_ref()?)))
        .collect();
    let scaled = |value: f64| short(value / scale.divisor);
    json!({
        "type": "scatter", "mode": "lines+markers", "name": plain(name),
        "x": present.iter().map(|(place, _)| short(*place as f64 + dodge)).collect::<Vec<_>>(),
        "y": present.iter().map(|(_, pooled)| scaled(pooled.median)).collect::<Vec<_>>(),
        "error_y": {
            "type": "data", "symmetric": false, "width": 0, "thickness": 1.5, "color": color(set),
            "array": present.iter().map(|(_, pooled)| scaled(pooled.q3 - pooled.median)).collect::<Vec<_>>(),
            "arrayminus": present.iter().map(|(_, pooled)| scaled(pooled.median - pooled.q1)).collect::<Vec<_>>(),
        },
        "marker": mark(set, 6),
        "line": { "color": color(set), "width": 1.5, "dash": dash(set) },
        "hovertemplate": format!("{}: %{{y}} {}<extra></extra>", plain(name), scale.name),
    })
}

//! Medians with quartiles, size by size.

use fsb_stats::compare::{Operation, Slice};
use serde_json::{Value, json};

use super::look::{
    Chart, ChartKind, Draw, beside, color, dash, figure, key, mark, plain, short, size_axis,
    value_axis,
};
use crate::operation::UnitScale;
use crate::view::{Row, View};

pub(super) const BY_FILE_SIZE: ChartKind = ChartKind {
    name: "medians-file",
    draw: Draw::Row(|view, row, name, place| {
        chart(
            view,
            row,
            "file size",
            |found| &found.by_file_size,
            (name, place),
        )
    }),
};

pub(super) const BY_RECORD_SIZE: ChartKind = ChartKind {
    name: "medians-record",
    draw: Draw::Row(|view, row, name, place| {
        chart(
            view,
            row,
            "record size",
            |found| &found.by_record_size,
            (name, place),
        )
    }),
};

fn chart(
    view: &View<'_>,
    row: &Row<'_>,
    what: &str,
    slices: fn(&Operation) -> &Vec<Slice>,
    (name, place): (&str, usize),
) -> Vec<Chart> {
    let Some(operation) = row.operation().map(|found| found.operation) else {
        return Vec::new();
    };
    let slices = slices(operation);
    if slices.len() < 2 {
        return Vec::new();
    }
    let scale = UnitScale::fit([operation]);
    let (mut lo, mut hi) = (f64::MAX, 0.0f64);
    for pooled in slices
        .iter()
        .flat_map(|slice| slice.classic.sets.values().flatten())
    {
        (lo, hi) = (lo.min(pooled.q1), hi.max(pooled.q3));
    }
    let traces: Vec<Value> = (0..view.names.len())
        .map(|set| trace(view, slices, set, scale))
        .collect();
    let sizes: Vec<u64> = slices.iter().map(|slice| slice.bytes).collect();
    let layout = json!({ "xaxis": size_axis(what, &sizes), "yaxis": value_axis(scale.name, lo / scale.divisor, hi / scale.divisor) });
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 300,
        label: format!("{}: medians with quartiles by {what}", row.label),
        caption: format!("Medians by {what}, with bars from the first to the third quartile."),
        key: key(view),
        json: figure(&traces, &layout),
        ..Chart::default()
    }]
}

fn trace(view: &View<'_>, slices: &[Slice], set: usize, scale: UnitScale) -> Value {
    let name = &view.names[set];
    // Bars of several sets must not hide each other.
    let dodge = beside(set, view.names.len());
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

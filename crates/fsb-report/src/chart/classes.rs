//! Bars of the classes of time in traced samples, each against the baseline.

use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, KeyEntry, color, figure, hue, plain, shape, short};
use crate::summary::{TracedCause, TracedExplanation};
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "classes",
    draw: Draw::Row(draw),
};

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let traced: Vec<(usize, &TracedExplanation)> = view
        .traced
        .iter()
        .filter(|(_, found)| found.workload == row.label && !found.causes.is_empty())
        .copied()
        .collect();
    // The order of the largest difference, with the unexplained time last.
    let mut classes: Vec<&'static str> = Vec::new();
    for cause in traced.iter().flat_map(|(_, found)| &found.causes) {
        if !classes.contains(&cause.class.name()) {
            classes.push(cause.class.name());
        }
    }
    if classes.is_empty() {
        return Vec::new();
    }
    let traces: Vec<Value> = traced
        .iter()
        .map(|(column, found)| bars(view, *column, found))
        .collect();
    let layout = json!({
        "barmode": "group", "bargap": 0.25,
        "xaxis": { "title": { "text": "µs per operation, against the baseline" }, "zeroline": true },
        "yaxis": { "categoryorder": "array", "categoryarray": classes.iter().rev().collect::<Vec<_>>(), "automargin": true },
    });
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 90 + classes.len() * (14 + 12 * traced.len()),
        label: format!(
            "{}: difference in time per operation by class, traced",
            row.label
        ),
        caption: format!(
            "The difference to {} by class of time in traced samples, with intervals that hold together. Below zero: less \
             time than the baseline.",
            view.baseline()
        ),
        key: traced
            .iter()
            .map(|(column, _)| entry(view, *column))
            .collect(),
        json: figure(&traces, &layout),
        ..Chart::default()
    }]
}

fn entry(view: &View<'_>, column: usize) -> KeyEntry {
    KeyEntry {
        class: format!("t{}", hue(column)),
        shape: shape(column),
        text: view.charted(column),
    }
}

fn bars(view: &View<'_>, column: usize, found: &TracedExplanation) -> Value {
    let micro = |seconds: f64| short(seconds * 1e6);
    let of = |value: fn(&TracedCause) -> f64| {
        found
            .causes
            .iter()
            .map(|cause| micro(value(cause)))
            .collect::<Vec<_>>()
    };
    let up = of(|cause| {
        cause
            .interval
            .map_or(0.0, |interval| interval.hi - cause.seconds)
    });
    let down = of(|cause| {
        cause
            .interval
            .map_or(0.0, |interval| cause.seconds - interval.lo)
    });
    let name = plain(&view.charted(column));
    json!({
        "type": "bar", "orientation": "h", "name": name,
        "x": of(|cause| cause.seconds), "y": found.causes.iter().map(|cause| cause.class.name()).collect::<Vec<_>>(),
        "marker": { "color": color(column) },
        "error_x": { "type": "data", "symmetric": false, "array": up, "arrayminus": down, "width": 0, "thickness": 1.5 },
        "hovertemplate": format!("{name}, %{{y}}: %{{x}} µs<extra></extra>"),
    })
}

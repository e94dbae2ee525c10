//! Every run, where an operation has a single cell.

use serde_json::{Value, json};

use super::{Chart, Draw, Kind, figure, key_of_sets, short, value_axis};
use crate::compare::html::numbers::Scale;
use crate::compare::view::{Row, View};
use crate::page::chart::{color, dash, mark, plain};

pub(super) const KIND: Kind = Kind { name: "runs", draw: Draw::Operation(draw) };

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Option<Chart> {
    let [cell] = row.operation.cells.as_slice() else { return None };
    let scale = Scale::of([row.operation]);
    let (mut lo, mut hi, mut last) = (f64::MAX, 0.0f64, 1);
    let mut traces: Vec<Value> = Vec::new();
    for (set, summary) in view.sets.iter().enumerate() {
        let Some(values) = cell.values.get(&summary.name) else { continue };
        for value in values {
            (lo, hi, last) = (lo.min(value.value), hi.max(value.value), last.max(value.run + 1));
        }
        traces.push(json!({
            "type": "scatter", "mode": "lines+markers", "name": plain(&summary.name),
            "x": values.iter().map(|value| value.run + 1).collect::<Vec<_>>(),
            "y": values.iter().map(|value| short(value.value / scale.divisor)).collect::<Vec<_>>(),
            "marker": mark(set, 7),
            "line": { "color": color(set), "width": 0.6, "dash": dash(set) },
            "hovertemplate": format!("{}, run %{{x}}: %{{y}} {}<extra></extra>", plain(&summary.name), scale.name),
        }));
    }
    let layout = json!({
        "xaxis": { "title": { "text": "run" }, "range": [0.4, last as f64 + 0.6], "tick0": 1,
                   "dtick": last.div_ceil(12), "showgrid": false, "zeroline": false },
        "yaxis": value_axis(scale.name, lo / scale.divisor, hi / scale.divisor),
    });
    Some(Chart {
        id: format!("{name}-{place}"),
        height: 280,
        label: format!("{}: every run of every set", row.label),
        caption: "Every run, in its order. Runs with the same number belong together where sets took turns in blocks."
            .to_owned(),
        key: key_of_sets(view),
        choices: Vec::new(),
        json: figure(&traces, &layout),
    })
}

//! Every run, where an operation has a single cell.

use serde_json::{Value, json};

use super::look::{
    Chart, ChartKind, Draw, color, dash, figure, key, mark, plain, short, value_axis,
};
use crate::operation::UnitScale;
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "runs",
    draw: Draw::Row(draw),
};

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let word = view.words.value;
    let Some(operation) = row.operation().map(|found| found.operation) else {
        return Vec::new();
    };
    let [cell] = operation.cells.as_slice() else {
        return Vec::new();
    };
    let scale = UnitScale::fit([operation]);
    let (mut lo, mut hi, mut last) = (f64::MAX, 0.0f64, 1);
    let mut traces: Vec<Value> = Vec::new();
    for (set, set_name) in view.names.iter().enumerate() {
        let Some(values) = cell.values.get(set_name) else {
            continue;
        };
        for value in values {
            (lo, hi, last) = (
                lo.min(value.value),
                hi.max(value.value),
                last.max(value.run + 1),
            );
        }
        traces.push(json!({
            "type": "scatter", "mode": "lines+markers", "name": plain(set_name),
            "x": values.iter().map(|value| value.run + 1).collect::<Vec<_>>(),
            "y": values.iter().map(|value| short(value.value / scale.divisor)).collect::<Vec<_>>(),
            "marker": mark(set, 7),
            "line": { "color": color(set), "width": 0.6, "dash": dash(set) },
            "hovertemplate": format!("{}, {word} %{{x}}: %{{y}} {}<extra></extra>", plain(set_name), scale.name),
        }));
    }
    let layout = json!({
        "xaxis": { "title": { "text": word }, "range": [0.4, last as f64 + 0.6], "tick0": 1,
                   "dtick": last.div_ceil(12), "showgrid": false, "zeroline": false },
        "yaxis": value_axis(scale.name, lo / scale.divisor, hi / scale.divisor),
    });
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 280,
        label: format!("{}: every {word} of every set", row.label),
        caption: format!(
            "Every {word}, in its order. Those with the same number belong together where sets took turns in blocks."
        ),
        key: key(view),
        json: figure(&traces, &layout),
        ..Chart::default()
    }]
}

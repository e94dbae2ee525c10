//! The values of each run over time, for sets of a tool that logs them.

use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, color, dash, figure, key, plain, short, value_axis};
use crate::operation::UnitScale;
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "over-time",
    draw: Draw::Row(draw),
};

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let Some(operation) = row.operation().map(|found| found.operation) else {
        return Vec::new();
    };
    let scale = UnitScale::fit([operation]);
    let (mut lo, mut hi) = (f64::MAX, 0.0f64);
    let mut traces: Vec<Value> = Vec::new();
    for (set, set_name) in view.names.iter().enumerate() {
        for (run, points) in operation
            .timelines
            .get(set_name)
            .into_iter()
            .flatten()
            .enumerate()
        {
            for (_, value) in points {
                (lo, hi) = (lo.min(*value), hi.max(*value));
            }
            traces.push(json!({
                "type": "scatter", "mode": "lines", "name": plain(set_name),
                "x": points.iter().map(|(seconds, _)| short(*seconds)).collect::<Vec<_>>(),
                "y": points.iter().map(|(_, value)| short(value / scale.divisor)).collect::<Vec<_>>(),
                "line": { "color": color(set), "width": 1.2, "dash": dash(set) },
                "hovertemplate":
                    format!("{}, run {}, %{{x}} s: %{{y}} {}<extra></extra>", plain(set_name), run + 1, scale.name),
            }));
        }
    }
    if traces.is_empty() || hi == 0.0 {
        return Vec::new();
    }
    let layout = json!({
        "xaxis": { "title": { "text": "seconds" }, "zeroline": false },
        "yaxis": value_axis(scale.name, lo / scale.divisor, hi / scale.divisor),
    });
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 280,
        label: format!("{}: every run over time", row.label),
        caption: "Every run over time, by the intervals of its log. Intervals are parts of a run: they are not judged."
            .to_owned(),
        key: key(view),
        json: figure(&traces, &layout),
..Chart::default()
}]
}

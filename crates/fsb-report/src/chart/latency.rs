//! Latency charts: quantiles of an operation on a scale that stretches the slow end.

use fsb_model::units::show_seconds;
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, color, dash, figure, key, mark, plain, short};
use crate::axis::second_ticks;
use crate::summary::latency::{Quantile, quantile_name, quantile_ticks, stretched};
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "latency",
    draw: Draw::Row(draw),
};

/// Draws one chart per operation of the workload.
fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let operations = row
        .workload()
        .map(|workload| workload.timed_operations())
        .unwrap_or_default();
    operations
        .into_iter()
        .filter_map(|operation| chart(view, row, operation, format!("{name}-{place}-{operation}")))
        .collect()
}

fn chart(view: &View<'_>, row: &Row<'_>, operation: &str, id: String) -> Option<Chart> {
    let mut traces = Vec::new();
    let (mut far, mut lo, mut hi) = (0.0f64, f64::MAX, 0.0f64);
    for (target, cell) in row.workload()?.cells.iter().enumerate() {
        let curve = cell.latency_curve(operation);
        if curve.len() < 3 {
            continue;
        }
        for point in curve {
            (far, lo, hi) = (
                far.max(stretched(point.q)),
                lo.min(point.seconds),
                hi.max(point.seconds),
            );
        }
        traces.push(trace(&plain(&view.charted(target)), target, curve));
    }
    if traces.is_empty() {
        return None;
    }
    let quantiles = quantile_ticks(far);
    let (lo, hi) = (lo / 1.15, hi * 1.15);
    let (places, texts) = second_ticks(lo, hi);
    let layout = json!({
        "xaxis": { "title": { "text": "percentile of operations" }, "zeroline": false,
                   "tickvals": quantiles.iter().map(|q| stretched(*q)).collect::<Vec<_>>(),
                   "ticktext": quantiles.iter().map(|q| quantile_name(*q)).collect::<Vec<_>>() },
        "yaxis": { "type": "log", "range": [lo.log10(), hi.log10()], "tickvals": places, "ticktext": texts,
                   "zeroline": false },
    });
    Some(Chart {
        id,
        height: 260,
        label: format!("{}: latency of {operation} by percentile", row.label),
        caption: format!(
            "Latency of {operation} by percentile, all trials together; lower is better."
        ),
        key: key(view),
        choices: Vec::new(),
        operation: Some(operation.to_owned()),
        json: figure(&traces, &layout),
    })
}

fn trace(name: &str, target: usize, curve: &[Quantile]) -> Value {
    let text = |point: &Quantile| {
        format!(
            "{name}, {}: {}",
            quantile_name(point.q),
            show_seconds(point.seconds)
        )
    };
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name,
        "x": curve.iter().map(|point| short(stretched(point.q))).collect::<Vec<_>>(),
        "y": curve.iter().map(|point| short(point.seconds)).collect::<Vec<_>>(),
        "marker": mark(target, 5), "line": { "color": color(target), "width": 1.8, "dash": dash(target) },
        "hovertext": curve.iter().map(text).collect::<Vec<_>>(), "hoverinfo": "text",
    })
}

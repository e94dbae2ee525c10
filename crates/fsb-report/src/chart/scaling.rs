//! Rates over threads or requests under way, with their intervals and the knees.

use serde_json::{Value, json};

use super::look::{
    Chart, ChartKind, Draw, beside, color, dash, figure, key, mark, plain, short, value_axis,
};
use crate::axis;
use crate::summary::{By, Scaling, Workload};
use crate::view::View;

pub(super) const KIND: ChartKind = ChartKind {
    name: "scaling",
    draw: Draw::Overview(draw),
};

fn draw(view: &View<'_>, name: &str) -> Vec<Chart> {
    view.scaling
        .iter()
        .enumerate()
        .filter_map(|(place, curve)| chart(view, curve, name, place))
        .collect()
}

fn chart(view: &View<'_>, curve: &Scaling, name: &str, place: usize) -> Option<Chart> {
    let rows = view.cases_of(curve)?;
    let values = || {
        rows.iter()
            .flat_map(|row| &row.cells)
            .filter_map(|cell| Some(cell.estimate.as_ref()?.value))
    };
    let (lo, hi) = values().fold((f64::MAX, 0.0f64), |(lo, hi), value| {
        (lo.min(value), hi.max(value))
    });
    if hi == 0.0 {
        return None;
    }
    let unit = axis::unit(rows[0].unit, hi);
    let traces: Vec<Value> = (0..view.names.len())
        .map(|target| trace(view, curve, &rows, target, unit.divisor, unit.name))
        .collect();
    let ticks: Vec<usize> = (0..curve.levels.len()).collect();
    let texts: Vec<String> = curve.levels.iter().map(u64::to_string).collect();
    let layout = json!({
        "xaxis": { "title": { "text": curve.by.words() }, "tickvals": ticks, "ticktext": texts, "tickangle": 0,
                   "zeroline": false, "range": [-0.5, curve.levels.len() as f64 - 0.5] },
        "yaxis": value_axis(unit.name, lo / unit.divisor, hi / unit.divisor),
        // The axis of the lines that mark knees.
        "yaxis2": { "overlaying": "y", "range": [0, 1], "visible": false, "fixedrange": true },
    });
    let by = curve.by.words();
    Some(Chart {
        id: format!("{name}-{place}"),
        height: 280,
        label: format!("{}: by {by}, with 95 % intervals", curve.what),
        caption: match curve.by {
            By::Rate => format!(
                "{}, 99th percentile by {by}, with 95 % intervals.",
                curve.what
            ),
            By::Threads | By::Ranks | By::Depth => format!(
                "{} by {by}, with 95 % intervals. A vertical line marks the level beyond which no gain is shown.",
                curve.what
            ),
        },
        key: key(view),
        json: figure(
            &traces
                .into_iter()
                .chain(knees(view, curve))
                .collect::<Vec<_>>(),
            &layout,
        ),
        ..Chart::default()
    })
}

fn trace(
    view: &View<'_>,
    curve: &Scaling,
    rows: &[&Workload],
    target: usize,
    divisor: f64,
    unit: &str,
) -> Value {
    let dodge = beside(target, view.names.len());
    let (mut x, mut y, mut up, mut down) = (vec![], vec![], vec![], vec![]);
    for (level, row) in rows.iter().enumerate() {
        let Some(estimate) = &row.cells[target].estimate else {
            continue;
        };
        let interval = estimate.interval.filter(|_| estimate.is_judged());
        x.push(short(level as f64 + dodge));
        y.push(short(estimate.value / divisor));
        up.push(short(interval.map_or(0.0, |interval| {
            (interval.hi - estimate.value) / divisor
        })));
        down.push(short(
            interval.map_or(0.0, |interval| (estimate.value - interval.lo) / divisor),
        ));
    }
    let name = plain(&view.names[target]);
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y,
        "error_y": { "type": "data", "symmetric": false, "array": up, "arrayminus": down, "width": 3, "thickness": 1.5,
                     "color": color(target) },
        "marker": mark(target, 6),
        "line": { "color": color(target), "width": 1.5, "dash": dash(target) },
        "hovertemplate": format!("{name}: %{{y}} {unit}, {}<extra></extra>", curve.by.words()),
    })
}

/// Draws a vertical line over the full height of the figure at each knee, the level beyond which a
/// curve shows no gain.
fn knees(view: &View<'_>, curve: &Scaling) -> Vec<Value> {
    let knees = curve
        .knees
        .iter()
        .enumerate()
        .filter_map(|(target, knee)| Some((target, knee.as_ref()?)));
    knees.map(|(target, knee)| {
        let x = short(knee.level as f64 + beside(target, view.names.len()));
        json!({
            "type": "scatter", "mode": "lines", "x": [x, x], "y": [0, 1], "yaxis": "y2", "hoverinfo": "skip",
            "line": { "color": color(target), "width": 1, "dash": "dot" },
        })
    }).collect()
}

//! The chart of changes: every column against the baseline, in every row.

use fsb_stats::Interval;
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, brief, color, figure, key, mark, plain, short};
use crate::axis::ratio_ticks;
use crate::show::{capital, percent};
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "ratios",
    draw: Draw::Overview(draw),
};

fn draw(view: &View<'_>, name: &str) -> Vec<Chart> {
    let mut extremes = (0.9f64, 1.1f64);
    let traces: Vec<Value> = (1..view.names.len())
        .filter_map(|column| trace(view, column, &mut extremes))
        .collect();
    if traces.is_empty() {
        return Vec::new();
    }
    let others = view.names.len() - 1;
    let (baseline, axis) = (view.baseline(), view.axis_of_changes(view.baseline()));
    vec![Chart {
        id: name.to_owned(),
        height: 90 + view.rows.len() * (22 + 13 * others),
        label: format!(
            "Change of each {} against {baseline} at every {}, with intervals",
            view.words.column, view.words.row
        ),
        caption: format!(
            "{}, with intervals where they are judged. The grey band is ±{}, the smallest difference that matters here.",
            capital(&axis),
            percent(view.theta)
        ),
        key: key(view).into_iter().skip(1).collect(),
        json: figure(&traces, &layout(view, extremes)),
        ..Chart::default()
    }]
}

/// Returns one column's dots.
fn trace(view: &View<'_>, column: usize, extremes: &mut (f64, f64)) -> Option<Value> {
    let others = (view.names.len() - 1) as f64;
    let dodge = (column as f64 - (others + 1.0) / 2.0) * 0.66 / others;
    let (mut x, mut y, mut up, mut down, mut texts) = (vec![], vec![], vec![], vec![], vec![]);
    for (place, row) in view.rows.iter().enumerate() {
        let Some(judged) = row.cells[column].judged else {
            continue;
        };
        let (ratio, Interval { lo, hi }) = view.on_axis_of_changes(row, &judged);
        *extremes = (extremes.0.min(lo), extremes.1.max(hi));
        x.push(short(ratio.ln()));
        up.push(short((hi / ratio).ln()));
        down.push(short((ratio / lo).ln()));
        y.push(short(place as f64 + dodge));
        texts.push(hover(view, row, column));
    }
    (!x.is_empty()).then(|| {
        json!({
            "type": "scatter", "mode": "markers", "name": plain(&view.names[column]), "x": x, "y": y,
            "marker": mark(column, 9),
            "error_x": { "type": "data", "symmetric": false, "array": up, "arrayminus": down, "width": 0,
                         "thickness": 2, "color": color(column) },
            "hovertext": texts, "hoverinfo": "text",
        })
    })
}

fn hover(view: &View<'_>, row: &Row<'_>, column: usize) -> String {
    let change = row.cells[column]
        .judged
        .map(|judged| format!("{}, {}", judged.change().text(), judged.verdict.words()));
    format!(
        "{}<br>{}: {}",
        plain(&row.label),
        plain(&view.names[column]),
        change.unwrap_or_default()
    )
}

fn layout(view: &View<'_>, (lo, hi): (f64, f64)) -> Value {
    // Wild intervals of noisy rows must not squeeze all others into a line; they run out of the
    // picture instead.
    let (lo, hi) = (lo.max(1e-3) * 0.97, hi.min(1e3) * 1.03);
    let (places, texts) = ratio_ticks(lo, hi, 9);
    let rows = view.rows.len();
    let theta = view.theta.ln_1p();
    let baseline = brief(view.baseline(), view.names.iter().map(String::as_str));
    json!({
        "xaxis": { "title": { "text": view.axis_of_changes(&baseline) },
                   "range": [lo.ln(), hi.ln()], "tickvals": places, "ticktext": texts, "zeroline": true },
        "yaxis": { "range": [rows as f64 - 0.4, -0.6], "showgrid": false, "zeroline": false,
                   "tickvals": (0..rows).collect::<Vec<_>>(),
                   "ticktext": view.rows.iter().map(|row| plain(&row.label)).collect::<Vec<_>>() },
        "shapes": [{ "type": "rect", "layer": "below", "xref": "x", "yref": "paper", "x0": -theta, "x1": theta,
                     "y0": 0, "y1": 1, "fillcolor": "var(--band)", "line": { "width": 0 } }],
    })
}

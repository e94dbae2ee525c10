//! Who wins what: the speed of every set against the baseline at every operation.

use serde_json::{Value, json};

use fsb_analysis::Verdict;
use fsb_model::Better;

use super::{Chart, Draw, Kind, figure, key_of_sets, short};
use crate::compare::view::{Row, View};
use crate::page::axis::ratio_ticks;
use crate::page::chart::{brief, color, mark, plain};
use crate::show::percent;

pub(super) const KIND: Kind = Kind { name: "ratios", draw: Draw::Overview(draw) };

fn draw(view: &View<'_>, name: &str) -> Vec<Chart> {
    let mut extremes = (0.9f64, 1.1f64);
    let traces: Vec<Value> = (1..view.sets.len()).filter_map(|set| trace(view, set, &mut extremes)).collect();
    if traces.is_empty() {
        return Vec::new();
    }
    let others = view.sets.len() - 1;
    let baseline = view.baseline();
    vec![Chart {
        id: name.to_owned(),
        height: 90 + view.rows.len() * (20 + 12 * others),
        label: format!("Speed of each set against {baseline} at every operation, with intervals"),
        caption: format!(
            "Speed against {baseline}, with intervals where they are judged. Right is faster, also where times were \
             measured. The grey band is ±{}, the smallest difference that matters here.",
            percent(view.document.settings.theta)
        ),
        key: key_of_sets(view).into_iter().skip(1).collect(),
        choices: Vec::new(),
        json: figure(&traces, &layout(view, extremes)),
    }]
}

/// One set's dots.
fn trace(view: &View<'_>, set: usize, extremes: &mut (f64, f64)) -> Option<Value> {
    let others = (view.sets.len() - 1) as f64;
    let dodge = (set as f64 - (others + 1.0) / 2.0) * 0.66 / others;
    let (mut x, mut y, mut up, mut down, mut texts) = (vec![], vec![], vec![], vec![], vec![]);
    for (place, row) in view.rows.iter().enumerate() {
        let Some((ratio, [lo, hi])) = speed(row, set) else { continue };
        *extremes = (extremes.0.min(lo), extremes.1.max(hi));
        x.push(short(ratio.ln()));
        up.push(short((hi / ratio).ln()));
        down.push(short((ratio / lo).ln()));
        y.push(short(place as f64 + dodge));
        texts.push(hover(view, row, set));
    }
    (!x.is_empty()).then(|| {
        json!({
            "type": "scatter", "mode": "markers", "name": plain(&view.sets[set].name), "x": x, "y": y,
            "marker": mark(set, 9),
            "error_x": { "type": "data", "symmetric": false, "array": up, "arrayminus": down, "width": 0,
                         "thickness": 2, "color": color(set) },
            "hovertext": texts, "hoverinfo": "text",
        })
    })
}

/// The speed over the baseline's and its interval, of times upside down; where nothing is judged a point.
fn speed(row: &Row<'_>, set: usize) -> Option<(f64, [f64; 2])> {
    let judged = row.cells[set].judged?;
    let interval = judged.ci95.filter(|_| judged.verdict != Verdict::NotJudged);
    let [lo, hi] = interval.unwrap_or([judged.ratio; 2]);
    Some(match row.operation.better {
        Better::Higher => (judged.ratio, [lo, hi]),
        Better::Lower => (1.0 / judged.ratio, [1.0 / hi, 1.0 / lo]),
    })
}

fn hover(view: &View<'_>, row: &Row<'_>, set: usize) -> String {
    let change = row.cells[set].judged.map(|judged| format!("{}, {}", judged.change().text(), judged.verdict.words()));
    format!("{}<br>{}: {}", plain(&row.label), plain(&view.sets[set].name), change.unwrap_or_default())
}

fn layout(view: &View<'_>, (lo, hi): (f64, f64)) -> Value {
    // Wild intervals of noisy rows must not squeeze all others into a line; they run out of the picture instead.
    let (lo, hi) = (lo.max(1e-3) * 0.97, hi.min(1e3) * 1.03);
    let (places, texts) = ratio_ticks(lo, hi, 9);
    let rows = view.rows.len();
    let theta = view.document.settings.theta.ln_1p();
    let baseline = brief(view.baseline(), view.sets.iter().map(|set| set.name.as_str()));
    json!({
        "xaxis": { "title": { "text": format!("speed against {baseline} (right is faster)") },
                   "range": [lo.ln(), hi.ln()], "tickvals": places, "ticktext": texts, "zeroline": true },
        "yaxis": { "range": [rows as f64 - 0.4, -0.6], "showgrid": false, "zeroline": false,
                   "tickvals": (0..rows).collect::<Vec<_>>(),
                   "ticktext": view.rows.iter().map(|row| plain(&row.label)).collect::<Vec<_>>() },
        "shapes": [{ "type": "rect", "layer": "below", "xref": "x", "yref": "paper", "x0": -theta, "x1": theta,
                     "y0": 0, "y1": 1, "fillcolor": "var(--band)", "line": { "width": 0 } }],
    })
}

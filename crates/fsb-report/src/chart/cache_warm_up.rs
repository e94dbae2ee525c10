//! The warm-up of a cold cache: the rate over the bytes that were read, and the fit.

use fsb_model::Unit;
use serde_json::{Value, json};

use super::look::{
    Chart, ChartKind, Draw, color, dash, figure, key, mark, plain, short, value_axis,
};
use crate::axis::unit;
use crate::summary::timeline::ShownWarmUp;
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "cache-warm-up",
    draw: Draw::Row(draw),
};

/// Points of the fitted line.
const STEPS: usize = 100;

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let Some(workload) = row.workload() else {
        return Vec::new();
    };
    let cells = workload.cells.iter().enumerate();
    let shown: Vec<(usize, &ShownWarmUp)> = cells
        .filter_map(|(target, cell)| Some((target, &cell.warm_up.as_ref()?.shown)))
        .collect();
    let points = || shown.iter().flat_map(|(_, shown)| &shown.points);
    let most_read = points().map(|point| point[0]).fold(0.0, f64::max);
    let rates = points().map(|point| point[1]).filter(|rate| *rate > 0.0);
    let (lo, hi) = rates.fold((f64::MAX, 0.0f64), |(lo, hi), rate| {
        (lo.min(rate), hi.max(rate))
    });
    if most_read == 0.0 || hi == 0.0 {
        return Vec::new();
    }
    let (read, rate) = (unit(Unit::Bytes, most_read), unit(Unit::BytesPerSecond, hi));
    let traces: Vec<Value> = shown
        .iter()
        .flat_map(|(target, shown)| {
            let name = plain(&view.charted(*target));
            let trace = |mode: &str, points: &[[f64; 2]]| {
                json!({
                    "type": "scatter", "mode": mode, "name": name,
                    "x": points.iter().map(|point| short(point[0] / read.divisor)).collect::<Vec<_>>(),
                    "y": points.iter().map(|point| short(point[1] / rate.divisor)).collect::<Vec<_>>(),
                    "marker": mark(*target, 4),
                    "line": { "color": color(*target), "width": 1.5, "dash": dash(*target) },
                    "hovertemplate": format!("{name}: %{{y}} {} after %{{x}} {}<extra></extra>", rate.name, read.name),
                })
            };
            let end = shown.points.last().map_or(0.0, |point| point[0]);
            let line: Option<Vec<[f64; 2]>> = shown.fit.map(|fit| {
                let places = (0..=STEPS).map(|step| end * step as f64 / STEPS as f64);
                places.map(|bytes| [bytes, fit.rate(bytes)]).collect()
            });
            std::iter::once(trace("markers", &shown.points)).chain(line.map(|line| trace("lines", &line)))
        })
        .collect();
    let layout = json!({
        "xaxis": { "title": { "text": format!("{} read", read.name) }, "zeroline": false },
        "yaxis": value_axis(rate.name, lo / rate.divisor, hi / rate.divisor),
    });
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 300,
        label: format!("{}: rate over the bytes that were read since the cache was empty", row.label),
        caption: "One trial of each target, that with the median time constant. Points: bins of equal time. Line: the \
                  fit, if the rate rises. The table below has the time constants of all blocks."
            .to_owned(),
        key: key(view),
        json: figure(&traces, &layout),
..Chart::default()
}]
}

//! The cycles of the 2023 micro-benchmarks: the time of an iteration over the iterations, and over
//! the time of the trial.

use fsb_model::Unit;
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, color, dash, figure, key, mark, plain, short};
use crate::axis::unit;
use crate::summary::Cycles;
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "cycles",
    draw: Draw::Row(draw),
};

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let Some(workload) = row.workload() else {
        return Vec::new();
    };
    let cells = workload.cells.iter().enumerate();
    let shown: Vec<(usize, &Cycles)> = cells
        .filter_map(|(target, cell)| Some((target, cell.cycles.as_ref()?)))
        .collect();
    let most = shown
        .iter()
        .flat_map(|(_, cycles)| &cycles.seconds)
        .copied()
        .fold(0.0, f64::max);
    if most == 0.0 {
        return Vec::new();
    }
    let scale = unit(Unit::Seconds, most);
    let traces = shown.iter().flat_map(|(target, cycles)| {
        let name = plain(&view.charted(*target));
        let y: Vec<Value> = cycles.seconds.iter().map(|seconds| short(seconds / scale.divisor)).collect();
        let trace = |axis: &str, x: Vec<Value>, after: &str| {
            json!({
                "type": "scatter", "mode": "lines+markers", "name": name, "xaxis": axis, "x": x, "y": y,
                "marker": mark(*target, 5), "line": { "color": color(*target), "width": 1, "dash": dash(*target) },
                "hovertemplate": format!("{name}: %{{y}} {} {after}<extra></extra>", scale.name),
            })
        };
        let iterations = (1..=cycles.seconds.len()).map(|cycle| json!(cycle as u64 * cycles.iterations));
        let times = cycles.ends.iter().map(|end| short(*end));
        [
            trace("x", iterations.collect(), "in the cycle that ends with iteration %{x}"),
            trace("x2", times.collect(), "in the cycle that ends after %{x} s"),
        ]
    });
    let traces: Vec<Value> = traces.collect();
    let axis = |title: &str, domain: [f64; 2]| json!({ "title": { "text": title }, "domain": domain, "rangemode": "tozero", "zeroline": false });
    let layout = json!({
        "xaxis": axis("iterations", [0.0, 0.48]), "xaxis2": axis("seconds from the first cycle", [0.52, 1.0]),
        "yaxis": { "title": { "text": format!("{} per iteration", scale.name) }, "rangemode": "tozero", "zeroline": false },
    });
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 300,
        label: format!("{}: time of an iteration over iterations and over time", row.label),
        caption: "The cycles of the first block: a point is the mean time of one cycle's iterations. Left: over the \
                  iterations after the warm-up. Right: over the time since the first cycle, which includes warm-up \
                  cycles, and making and removing files."
            .to_owned(),
        key: key(view),
        json: figure(&traces, &layout),
..Chart::default()
}]
}

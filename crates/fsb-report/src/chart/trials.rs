//! A workload of a run: estimates with their intervals at the left, every trial in run order at the
//! right.

use std::collections::BTreeMap;

use fsb_stats::Estimate;
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, brief, color, dash, figure, key, mark, plain, short};
use crate::axis::unit;
use crate::summary::{BlockGroup, TrialPoint, Workload};
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "trials",
    draw: Draw::Row(draw),
};

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let Some(workload) = row.workload() else {
        return Vec::new();
    };
    let values = workload
        .cells
        .iter()
        .filter_map(|cell| Some(cell.estimate.as_ref()?.value));
    let typical = values.fold(0.0, f64::max);
    if typical == 0.0 {
        return Vec::new();
    }
    let scale = unit(workload.unit, typical);
    let cells = workload.cells.iter().enumerate();
    let present: Vec<(usize, &Estimate)> = cells
        .filter_map(|(target, cell)| Some((target, cell.estimate.as_ref()?)))
        .collect();
    let orders = Orders::from_workload(workload);
    let traces: Vec<Value> = present
        .iter()
        .flat_map(|(target, estimate)| {
            let name = plain(&view.charted(*target));
            let mut traces = vec![estimate_trace(
                &name,
                workload,
                *target,
                estimate,
                scale.divisor,
            )];
            match view.group_size {
                1 => traces.extend(run_order(&name, workload, &orders, *target, scale.divisor)),
                size => traces.push(group_medians(&name, workload, size, *target, scale.divisor)),
            }
            traces
        })
        .collect();
    let all = workload.cells.iter().flat_map(|cell| &cell.trials);
    let last = f64::from(all.map(|point| point.block).max().unwrap_or(1));
    let names = present
        .iter()
        .map(|(target, _)| brief(&view.names[*target], view.names.iter().map(String::as_str)));
    // Readers take columns side by side for a ranking.
    let note = |target: usize| {
        if view.is_unranked(target) {
            "not ranked"
        } else {
            &row.cells[target].mark
        }
    };
    let letters: Vec<Value> = present
        .iter()
        .filter_map(|(target, _)| letter(*target, note(*target)))
        .collect();
    let layout = json!({
        "margin": { "t": 26 }, "annotations": letters,
        "xaxis": { "domain": [0.0, 0.3], "range": [-0.6, workload.cells.len() as f64 - 0.4], "title": { "text": "estimate" },
                   "tickvals": present.iter().map(|(target, _)| *target).collect::<Vec<_>>(), "ticktext": names.collect::<Vec<_>>(),
                   "showgrid": false, "zeroline": false },
        "xaxis2": { "domain": [0.35, 1.0], "range": [0.4, last + 0.6], "title": { "text": "block" }, "tick0": 1,
                    "dtick": (last / 10.0).ceil(), "showgrid": false, "zeroline": false },
        "yaxis": { "title": { "text": scale.name }, "zeroline": false },
    });
    let (shown, right) = match view.group_size {
        1 => {
            let right = "every trial, in run order within its block; a ring marks an outlier";
            ("every trial".to_owned(), right.to_owned())
        }
        size => (
            format!("medians of {size} blocks"),
            format!("medians of {size} consecutive blocks"),
        ),
    };
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 300,
        label: format!(
            "{}: estimates with intervals, and {shown} in run order",
            row.label
        ),
        caption: format!(
            "Left: estimates with their 95 % intervals, below the letter of each: targets that share one are not \
             significantly different. Right: {right}. The numbers are those of the tables below."
        ),
        key: key(view),
        json: figure(&traces, &layout),
        ..Chart::default()
    }]
}

/// Returns the annotation with the letter of an estimate, or with the note that it is not ranked,
/// above it. The axis shows the name below it.
fn letter(target: usize, mark: &str) -> Option<Value> {
    (!mark.is_empty()).then(|| {
        json!({ "text": plain(mark), "xref": "x", "x": target, "xanchor": "center", "yref": "paper", "y": 1,
                "yanchor": "bottom", "yshift": 3, "showarrow": false, "bordercolor": "var(--rule)", "borderpad": 2 })
    })
}

fn estimate_trace(
    name: &str,
    workload: &Workload,
    target: usize,
    estimate: &Estimate,
    divisor: f64,
) -> Value {
    let show = |value| workload.unit.show(value);
    let value = estimate.value;
    let interval = estimate.interval.filter(|_| estimate.is_judged());
    let (lo, hi) = interval.map_or((value, value), |interval| (interval.lo, interval.hi));
    let ends = interval
        .map(|_| format!(" [{}, {}]", show(lo), show(hi)))
        .unwrap_or_default();
    json!({
        "type": "scatter", "mode": "markers", "name": name, "x": [target], "y": [short(value / divisor)],
        "marker": mark(target, 10),
        "error_y": { "type": "data", "symmetric": false, "array": [short((hi - value) / divisor)],
                     "arrayminus": [short((value - lo) / divisor)], "width": 0, "thickness": 2, "color": color(target) },
        "hovertext": format!("{name}: {}{ends}", show(value)), "hoverinfo": "text",
    })
}

/// Draws the trials of one target, and rings around its outliers.
fn run_order(
    name: &str,
    workload: &Workload,
    orders: &Orders,
    target: usize,
    divisor: f64,
) -> Vec<Value> {
    let trials = &workload.cells[target].trials;
    let x: Vec<Value> = trials
        .iter()
        .map(|point| short(orders.place(point, workload.cells.len())))
        .collect();
    let y: Vec<Value> = trials
        .iter()
        .map(|point| short(point.value / divisor))
        .collect();
    let texts: Vec<String> = trials
        .iter()
        .map(|point| {
            format!(
                "{name}, block {}: {}",
                point.block,
                workload.unit.show(point.value)
            )
        })
        .collect();
    let outliers: Vec<usize> = (0..x.len())
        .filter(|index| trials[*index].outlier)
        .collect();
    let pick = |values: &[Value]| {
        outliers
            .iter()
            .map(|index| values[*index].clone())
            .collect::<Vec<_>>()
    };
    let rings = (!outliers.is_empty()).then(|| {
        json!({
            "type": "scatter", "mode": "markers", "name": "outlier", "xaxis": "x2", "x": pick(&x), "y": pick(&y),
            "marker": { "color": color(target), "symbol": "circle-open", "size": 15, "line": { "width": 1.5 } },
            "hoverinfo": "skip",
        })
    });
    let points = json!({
        "type": "scatter", "mode": "lines+markers", "name": name, "xaxis": "x2", "x": x, "y": y,
        "marker": mark(target, 7), "line": { "color": color(target), "width": 0.6, "dash": dash(target) },
        "hovertext": texts, "hoverinfo": "text",
    });
    rings.into_iter().chain([points]).collect()
}

/// Draws the medians of one target's groups of blocks, each at the middle of its blocks.
fn group_medians(name: &str, workload: &Workload, size: u32, target: usize, divisor: f64) -> Value {
    let groups = BlockGroup::by_number(&workload.cells[target].trials, size);
    let x: Vec<Value> = groups
        .values()
        .map(|group| short(f64::midpoint(group.blocks.0.into(), group.blocks.1.into())))
        .collect();
    let y: Vec<Value> = groups
        .values()
        .map(|group| short(group.median / divisor))
        .collect();
    let text = |group: &BlockGroup| {
        let ((first, last), median) = (group.blocks, workload.unit.show(group.median));
        format!(
            "{name}, blocks {first} to {last}: median {median} of {}",
            group.n
        )
    };
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name, "xaxis": "x2", "x": x, "y": y,
        "marker": mark(target, 7), "line": { "color": color(target), "width": 0.6, "dash": dash(target) },
        "hovertext": groups.values().map(text).collect::<Vec<_>>(), "hoverinfo": "text",
    })
}

/// The run-order numbers of each block's trials, sorted. The chart draws the trials of a block
/// beside each other in the order in which they ran.
struct Orders(BTreeMap<u32, Vec<u32>>);

impl Orders {
    fn from_workload(workload: &Workload) -> Orders {
        let mut blocks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for point in workload.cells.iter().flat_map(|cell| &cell.trials) {
            blocks.entry(point.block).or_default().push(point.order);
        }
        blocks
            .values_mut()
            .for_each(|orders| orders.sort_unstable());
        Orders(blocks)
    }

    /// Returns the place of a trial on the axis of blocks.
    fn place(&self, point: &TrialPoint, targets: usize) -> f64 {
        let orders = self.0.get(&point.block).map_or(&[][..], Vec::as_slice);
        let before = orders.partition_point(|order| *order < point.order) as f64;
        let middle = (orders.len() as f64 - 1.0) / 2.0;
        f64::from(point.block) + (before - middle) * 0.6 / f64::max(targets as f64, 2.0)
    }
}

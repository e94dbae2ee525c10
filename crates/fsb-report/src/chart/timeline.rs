//! One trial over time: its rate above, its longest operations below, and its stalls.

use fsb_model::Unit;
use fsb_model::units::show_seconds;
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, color, dash, figure, key, plain, short};
use crate::axis::{second_ticks, unit};
use crate::summary::timeline::JoinedTimeline;
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "timeline",
    draw: Draw::Row(draw),
};

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let Some(workload) = row.workload() else {
        return Vec::new();
    };
    let cells = workload.cells.iter().enumerate();
    let timelines: Vec<(usize, &JoinedTimeline)> = cells
        .filter_map(|(target, cell)| Some((target, cell.timeline.as_ref()?)))
        .collect();
    let rates = timelines
        .iter()
        .flat_map(|(_, timeline)| timeline.rates.iter().flatten().copied());
    let most = rates.fold(0.0, f64::max);
    let (lo, hi) = timelines
        .iter()
        .flat_map(|(_, timeline)| timeline.longest.iter().flatten().copied())
        .fold((f64::MAX, 0.0f64), |(lo, hi), value| {
            (lo.min(value), hi.max(value))
        });
    if most == 0.0 || hi == 0.0 {
        return Vec::new();
    }
    let scale = unit(Unit::OperationsPerSecond, most);
    let mut traces: Vec<Value> = Vec::new();
    for (target, timeline) in &timelines {
        let name = plain(&view.charted(*target));
        let rates = timeline
            .rates
            .iter()
            .map(|rate| rate.map(|rate| short(rate / scale.divisor)));
        traces.push(line(
            &name,
            *target,
            timeline,
            rates.collect(),
            "y",
            &format!("%{{y}} {}", scale.name),
        ));
        let longest = timeline.longest.iter().map(|seconds| seconds.map(short));
        traces.push(line(
            &name,
            *target,
            timeline,
            longest.collect(),
            "y2",
            "longest %{y:.3s}s",
        ));
        traces.extend(stalls(&name, *target, timeline, hi));
    }
    let (lo, hi) = (lo / 1.3, hi * 1.5);
    let (places, texts) = second_ticks(lo, hi);
    let layout = json!({
        "xaxis": { "title": { "text": "seconds" }, "zeroline": false, "anchor": "y2" },
        "yaxis": { "domain": [0.52, 1.0], "title": { "text": scale.name.replace("operations", "op") }, "rangemode": "tozero", "zeroline": false },
        "yaxis2": { "domain": [0.0, 0.44], "title": { "text": "longest" }, "type": "log", "zeroline": false,
                    "range": [lo.log10(), hi.log10()], "tickvals": places, "ticktext": texts },
    });
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 340,
        label: format!("{}: rate and longest operation over time within one trial", row.label),
        caption: "One trial of each target over time, that with the median value. Above: operations a second. Below: the \
                  longest operation that ended in each bin; a cross marks a stall, and its text says what the device did \
                  meanwhile."
            .to_owned(),
        key: key(view),
        json: figure(&traces, &layout),
..Chart::default()
}]
}

fn line(
    name: &str,
    target: usize,
    timeline: &JoinedTimeline,
    values: Vec<Option<Value>>,
    axis: &str,
    text: &str,
) -> Value {
    json!({
        "type": "scatter", "mode": "lines", "name": name, "yaxis": axis, "connectgaps": false,
        "x": timeline.seconds.iter().map(|seconds| short(*seconds)).collect::<Vec<_>>(), "y": values,
        "line": { "color": color(target), "width": 1.2, "dash": dash(target) },
        "hovertemplate": format!("{name}, %{{x}} s: {text}<extra></extra>"),
    })
}

/// Draws crosses for stalls at the top of the lower figure.
fn stalls(name: &str, target: usize, timeline: &JoinedTimeline, top: f64) -> Option<Value> {
    let texts: Vec<String> = timeline
        .stalls
        .iter()
        .map(|stall| {
            format!(
                "{name}, stall of {}: {}",
                show_seconds(stall.lasted),
                stall.meanwhile()
            )
        })
        .collect();
    (!texts.is_empty()).then(|| {
        json!({
            "type": "scatter", "mode": "markers", "name": name, "yaxis": "y2",
            "x": timeline.stalls.iter().map(|stall| short(stall.at + stall.lasted / 2.0)).collect::<Vec<_>>(),
            "y": timeline.stalls.iter().map(|_| short(top)).collect::<Vec<_>>(),
            "marker": { "color": color(target), "symbol": "x", "size": 8 },
            "hovertext": texts, "hoverinfo": "text",
        })
    })
}

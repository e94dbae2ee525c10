//! The requests of the device over time, by their place on it: one traced sample of a target beside
//! one of the baseline.

use fsb_model::traced::{RequestKind, TracedRequest};
use fsb_model::units::{show_bytes, show_seconds};
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, KeyEntry, brief, short};
use crate::escape::script_safe;
use crate::summary::{TracedExplanation, TracedWork};
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "requests",
    draw: Draw::Row(draw),
};

/// The look of requests by kind: the number of the colour, the symbol in a figure, and the shape in
/// text.
const LOOKS: [(RequestKind, usize, &str, &str); 4] = [
    (RequestKind::Read, 0, "circle", "●"),
    (RequestKind::Write, 1, "square", "■"),
    (RequestKind::Flush, 3, "triangle-up", "▲"),
    (RequestKind::Discard, 7, "x", "✖"),
];

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let traced = view
        .traced
        .iter()
        .filter(|(_, found)| found.workload == row.label);
    let shown: Vec<(usize, &TracedExplanation, &TracedWork)> = traced
        .filter_map(|(column, found)| {
            Some((
                *column,
                *found,
                found.work.as_ref().filter(|work| {
                    work.shown_requests
                        .iter()
                        .all(|requests| !requests.is_empty())
                })?,
            ))
        })
        .collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let key = LOOKS.iter().filter(|(kind, ..)| {
        shown
            .iter()
            .flat_map(|(.., work)| work.shown_requests.iter().flatten())
            .any(|request| request.kind == *kind)
    });
    let key = key.map(|(kind, hue, _, shape)| KeyEntry {
        class: format!("t{hue}"),
        shape,
        text: kind.name().to_owned(),
    });
    let figures: Vec<Value> = shown
        .iter()
        .map(|(_, found, work)| figure(view, found, work))
        .collect();
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 320,
        label: format!("{}: requests of the device by time and offset, traced", row.label),
        caption: "Requests of the device in one traced sample, by the time of their issue and their offset on the device; a \
                  line ends at the completion. Flushes have no offset and are at the bottom. At most 300 requests of a sample \
                  are shown, evenly chosen; the table has all of them."
            .to_owned(),
        key: key.collect(),
        choices: shown.iter().map(|(column, ..)| view.charted(*column)).collect(),
        operation: None,
        json: script_safe(&figures),
    }]
}

fn figure(view: &View<'_>, found: &TracedExplanation, work: &TracedWork) -> Value {
    let [candidate, baseline] = &work.shown_requests;
    let moved = || {
        candidate
            .iter()
            .chain(baseline)
            .filter(|request| request.kind != RequestKind::Flush)
    };
    let first = moved().map(|request| request.offset).min().unwrap_or(0);
    let last = moved()
        .map(|request| request.offset.saturating_add(request.bytes))
        .max()
        .unwrap_or(0);
    let (divisor, unit) = if last >= 1 << 30 {
        (f64::from(1 << 30), "GiB")
    } else {
        (f64::from(1 << 20), "MiB")
    };
    let (lo, hi) = (first as f64 / divisor, last as f64 / divisor);
    let margin = ((hi - lo) * 0.08).max(1.0 / divisor);
    let bottom = lo - margin;
    let sides = [("x", baseline), ("x2", candidate)];
    let traces: Vec<Value> = sides
        .iter()
        .flat_map(|(axis, requests)| {
            LOOKS.iter().filter_map(|look| {
                let own: Vec<&TracedRequest> = requests
                    .iter()
                    .filter(|request| request.kind == look.0)
                    .collect();
                (!own.is_empty()).then(|| {
                    trace(&own, look, axis, |request| match request.kind {
                        RequestKind::Flush => bottom,
                        _ => request.offset as f64 / divisor,
                    })
                })
            })
        })
        .collect();
    let end = candidate
        .iter()
        .chain(baseline)
        .map(|request| request.at_ns.saturating_add(request.ns))
        .max();
    let end = short(end.unwrap_or(0) as f64 * 1.02e-6);
    let names = || view.names.iter().map(String::as_str);
    let axis = |name: &str, domain: [f64; 2]| {
        let title = format!("{}, ms", brief(name, names()));
        json!({ "title": { "text": title }, "domain": domain, "range": [0, end], "zeroline": false })
    };
    let layout = json!({
        "xaxis": axis(&found.baseline, [0.0, 0.48]), "xaxis2": axis(&found.candidate, [0.52, 1.0]),
        "yaxis": { "title": { "text": format!("offset, {unit}") }, "range": [short(bottom - margin / 2.0), short(hi + margin)],
                   "zeroline": false },
    });
    json!({ "data": traces, "layout": layout })
}

/// Draws requests of one kind: a mark at the issue, and a line to the completion.
fn trace(
    requests: &[&TracedRequest],
    (kind, hue, symbol, _): &(RequestKind, usize, &str, &str),
    axis: &str,
    place: impl Fn(&TracedRequest) -> f64,
) -> Value {
    let ms = |ns: u64| short(ns as f64 * 1e-6);
    let points = requests.iter().flat_map(|request| {
        let y = short(place(request));
        [
            (ms(request.at_ns), y.clone()),
            (ms(request.at_ns.saturating_add(request.ns)), y),
            (Value::Null, Value::Null),
        ]
    });
    let (x, y): (Vec<Value>, Vec<Value>) = points.unzip();
    // Only the first of the three points of a request has a mark.
    let size = if *kind == RequestKind::Flush { 7 } else { 5 };
    let sizes: Vec<usize> = requests.iter().flat_map(|_| [size, 0, 0]).collect();
    let texts = requests.iter().flat_map(|request| {
        let size = if *kind == RequestKind::Flush {
            String::new()
        } else {
            format!(" of {}", show_bytes(request.bytes as f64))
        };
        let text = format!(
            "{}{size}: {}",
            kind.name(),
            show_seconds(request.ns as f64 * 1e-9)
        );
        [text.clone(), text, String::new()]
    });
    json!({
        "type": "scatter", "mode": "lines+markers", "name": kind.name(), "xaxis": axis, "x": x, "y": y,
        "text": texts.collect::<Vec<_>>(), "connectgaps": false,
        "line": { "color": format!("var(--t{hue})"), "width": 1 },
        "marker": { "color": format!("var(--t{hue})"), "symbol": symbol, "size": sizes, "opacity": 0.8, "line": { "width": 0 } },
        "hovertemplate": "%{text}<br>at %{x} ms<extra></extra>",
    })
}

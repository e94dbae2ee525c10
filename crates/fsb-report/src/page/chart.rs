//! Charts, as Plotly figures in JSON.
//!
//! Colours are names of the page's style variables (`var(--t0)`): the page's script puts the values in, so that charts
//! follow light, dark and print. Every target and set has its own colour and its own shape. Every number of a chart
//! also stands in a table.

use plotly::common::{Marker, MarkerSymbol};
use plotly::{Layout, Plot, Trace};
use serde_json::Value;

/// A chart and the words that belong to it.
pub(crate) struct Chart {
    pub(crate) id: String,
    pub(crate) height: usize,
    /// What it shows, for those who do not see it.
    pub(crate) label: String,
    pub(crate) caption: String,
    pub(crate) json: String,
}

/// Colours and shapes of targets, in this order, then from the start again.
pub(crate) const STYLES: usize = 8;

const SYMBOLS: [MarkerSymbol; STYLES] = [
    MarkerSymbol::Circle,
    MarkerSymbol::Square,
    MarkerSymbol::Diamond,
    MarkerSymbol::TriangleUp,
    MarkerSymbol::Cross,
    MarkerSymbol::X,
    MarkerSymbol::Star,
    MarkerSymbol::Hexagon,
];

/// The colour of a target or set.
pub(crate) fn color(target: usize) -> String {
    format!("var(--t{})", target % STYLES)
}

/// The name of its shape, for figures that are written as JSON.
pub(crate) fn symbol(target: usize) -> &'static str {
    ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon"][target % STYLES]
}

/// Its mark in a chart.
pub(crate) fn marker(target: usize, size: usize) -> Marker {
    Marker::new().color(color(target)).symbol(SYMBOLS[target % STYLES].clone()).size(size)
}

/// Plotly reads a little markup in texts; names must not become any.
pub(crate) fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A figure that the page's script can draw.
pub(crate) fn json(traces: Vec<Box<dyn Trace>>, layout: Layout) -> String {
    let mut plot = Plot::new();
    for trace in traces {
        plot.add_trace(trace);
    }
    plot.set_layout(layout);
    // Only data and layout: the template that the crate adds carries colours of its own.
    let whole: Value = serde_json::from_str(&plot.to_json()).unwrap_or_default();
    super::script_safe(serde_json::json!({ "data": whole["data"], "layout": whole["layout"] }).to_string())
}

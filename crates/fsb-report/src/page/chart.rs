//! Charts, as Plotly figures in JSON.
//!
//! Colours are names of the page's style variables (`var(--t0)`): the page's script puts the values in, so that charts
//! follow light, dark and print. Every target and set has a colour, a shape and a dash, no two the same of all three.
//! Every number of a chart also stands in a table.

use plotly::common::{DashType, Line, Marker, MarkerSymbol};
use plotly::{Layout, Plot, Trace};
use serde_json::Value;

use crate::screen::Names;

/// A chart and the words that belong to it.
pub(crate) struct Chart {
    pub(crate) id: String,
    pub(crate) height: usize,
    /// What it shows, for those who do not see it.
    pub(crate) label: String,
    pub(crate) caption: String,
    pub(crate) json: String,
}

/// Colours of targets and sets; the next one has the first colour again, in another shape and with another dash.
pub(crate) const COLORS: usize = 8;

/// Shapes: in a figure, its name there, and in text. A round is filled, the next one open, the third of other shapes.
const SHAPES: [(MarkerSymbol, &str, &str); 3 * COLORS] = [
    (MarkerSymbol::Circle, "circle", "●"),
    (MarkerSymbol::Square, "square", "■"),
    (MarkerSymbol::Diamond, "diamond", "◆"),
    (MarkerSymbol::TriangleUp, "triangle-up", "▲"),
    (MarkerSymbol::Cross, "cross", "✚"),
    (MarkerSymbol::X, "x", "✖"),
    (MarkerSymbol::Star, "star", "★"),
    (MarkerSymbol::Hexagon, "hexagon", "⬢"),
    (MarkerSymbol::CircleOpen, "circle-open", "○"),
    (MarkerSymbol::SquareOpen, "square-open", "□"),
    (MarkerSymbol::DiamondOpen, "diamond-open", "◇"),
    (MarkerSymbol::TriangleUpOpen, "triangle-up-open", "△"),
    (MarkerSymbol::PentagonOpen, "pentagon-open", "⬠"),
    (MarkerSymbol::TriangleDownOpen, "triangle-down-open", "▽"),
    (MarkerSymbol::StarOpen, "star-open", "☆"),
    (MarkerSymbol::HexagonOpen, "hexagon-open", "⬡"),
    (MarkerSymbol::Pentagon, "pentagon", "⬟"),
    (MarkerSymbol::TriangleDown, "triangle-down", "▼"),
    (MarkerSymbol::TriangleLeft, "triangle-left", "◀"),
    (MarkerSymbol::TriangleRight, "triangle-right", "▶"),
    (MarkerSymbol::CircleOpenDot, "circle-open-dot", "◉"),
    (MarkerSymbol::SquareOpenDot, "square-open-dot", "▣"),
    (MarkerSymbol::DiamondOpenDot, "diamond-open-dot", "◈"),
    (MarkerSymbol::Hourglass, "hourglass", "⧗"),
];

/// How lines are broken, by round.
const DASHES: [(DashType, &str); 4] =
    [(DashType::Solid, "solid"), (DashType::Dash, "dash"), (DashType::Dot, "dot"), (DashType::DashDot, "dashdot")];

/// The number of a target's or set's colour.
pub(crate) fn hue(place: usize) -> usize {
    place % COLORS
}

/// The colour of a target or set.
pub(crate) fn color(place: usize) -> String {
    format!("var(--t{})", hue(place))
}

/// The name of its shape, for figures that are written as JSON.
pub(crate) fn symbol(place: usize) -> &'static str {
    SHAPES[place % SHAPES.len()].1
}

/// Its shape in text.
pub(crate) fn shape(place: usize) -> &'static str {
    SHAPES[place % SHAPES.len()].2
}

/// The name of its dash.
pub(crate) fn dash(place: usize) -> &'static str {
    DASHES[place / COLORS % DASHES.len()].1
}

/// How its areas are filled: lightly, not at all, more.
pub(crate) fn fill(place: usize) -> String {
    format!("{}{}", color(place), ["33", "00", "77"][place / COLORS % 3])
}

/// Its line in a chart.
pub(crate) fn line(place: usize, width: f64) -> Line {
    Line::new().color(color(place)).width(width).dash(DASHES[place / COLORS % DASHES.len()].0.clone())
}

/// Its mark in a chart.
pub(crate) fn marker(place: usize, size: usize) -> Marker {
    let (symbol, name, _) = &SHAPES[place % SHAPES.len()];
    let marker = Marker::new().color(color(place)).symbol(symbol.clone()).size(size);
    // Plotly draws open shapes with a hairline.
    if name.contains("open") { marker.line(Line::new().width(OUTLINE)) } else { marker }
}

/// How wide the line around an open shape is.
const OUTLINE: f64 = 1.8;

/// Its mark, for figures that are written as JSON.
pub(crate) fn mark(place: usize, size: usize) -> Value {
    let mut mark = serde_json::json!({ "color": color(place), "symbol": symbol(place), "size": size });
    if symbol(place).contains("open") {
        mark["line"] = serde_json::json!({ "width": OUTLINE });
    }
    mark
}

/// A name short enough for the title of an axis, on a telephone too, and no other of `all` is called so.
pub(crate) fn brief<'a>(name: &str, all: impl IntoIterator<Item = &'a str>) -> String {
    let names = Names::of(all);
    plain(names.short(name).unwrap_or(name))
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
    super::script_safe(&serde_json::json!({ "data": whole["data"], "layout": whole["layout"] }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_dozen_look_different_without_colour() {
        let many = SHAPES.len();
        let unlike = |look: &dyn Fn(usize) -> String| (0..many).map(look).collect::<BTreeSet<_>>().len();
        assert_eq!(unlike(&|place| symbol(place).to_owned()), many);
        assert_eq!(unlike(&|place| shape(place).to_owned()), many);
        assert_eq!(unlike(&|place| format!("{} {}", color(place), dash(place))), many, "lines without marks");
        assert_eq!(unlike(&|place| format!("{} {}", color(place), fill(place))), many, "boxes");
        for place in 0..many {
            let drawn = serde_json::to_value(marker(place, 7)).unwrap();
            assert_eq!((&drawn["symbol"], drawn.get("line")), (&symbol(place).into(), mark(place, 7).get("line")));
        }
    }

    #[test]
    fn long_names_do_not_fill_an_axis() {
        let all = ["ext4,noatime,data=<journal>,discard", "a<b", "ext4,noatime,data=ordered,discard"];
        assert_eq!(brief(all[1], all), "a&lt;b");
        assert_eq!(brief(all[0], all[..2].iter().copied()), "ext4,noatime,data…");
        assert_ne!(brief(all[0], all), brief(all[2], all));
    }
}

//! Cell means of a candidate against those of the baseline, with the regression through the origin.

use std::cmp::Ordering;

use fsb_model::Better;
use fsb_stats::compare::{Cell, Colour, PooledAgainst};
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, KeyEntry, brief, logarithmic, short, size_text};
use crate::escape::script_safe;
use crate::operation::{OperationRow, UnitScale};
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "scatter",
    draw: Draw::Row(draw),
};

/// The look of points by colour: the symbol in a figure, the shape in text, the style class and the
/// label.
const LOOKS: [(Colour, &str, &str, &str, &str); 4] = [
    (Colour::Uncertain, "circle-open", "○", "muted", "uncertain"),
    (Colour::Same, "circle", "●", "muted", "the same"),
    (Colour::Faster, "triangle-up", "▲", "better", "better"),
    (Colour::Slower, "triangle-down", "▼", "worse", "worse"),
];

fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let Some(found) = row
        .operation()
        .filter(|found| found.operation.cells.len() > 1)
    else {
        return Vec::new();
    };
    let candidates = 1..view.names.len();
    let judged = candidates.clone().map(|set| (set, ScatterStyle::Judged));
    let styles = judged.chain(candidates.map(|set| (set, ScatterStyle::Sides)));
    let named = styles.filter_map(|(set, style)| {
        Some((
            format!("{}{}", view.names[set], style.suffix()),
            candidate(view, found, set, style)?,
        ))
    });
    let figures: Vec<(String, Value)> = named.collect();
    if figures.is_empty() {
        return Vec::new();
    }
    let (names, figures): (Vec<String>, Vec<Value>) = figures.into_iter().unzip();
    let key = LOOKS.iter().map(|(_, _, shape, class, text)| KeyEntry {
        class: (*class).to_owned(),
        shape,
        text: (*text).to_owned(),
    });
    let direction = if row.better == Better::Higher {
        "above"
    } else {
        "below"
    };
    vec![Chart {
        id: format!("{name}-{place}"),
        height: 380,
        label: format!(
            "{}: cell means of each candidate against those of {}",
            row.label,
            view.baseline()
        ),
        caption: format!(
            "A point is the mean of one cell (file size × record size); {direction} the dashed line y = x the candidate \
             is better. Classic: the full line is the regression through the origin by total least squares, the band \
             its 90 % interval. Logarithmic axes, on which its slope is a distance from y = x; the choices \
             \"as in 2011\" have linear axes, and colour each point by its side of y = x alone."
        ),
        key: key.collect(),
        choices: names,
        operation: None,
        json: script_safe(&figures),
    }]
}

/// The meaning of the colours, and the axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScatterStyle {
    /// Colours from the intervals of the cells; logarithmic axes.
    Judged,
    /// Colours by the side of y = x, without a verdict; linear axes (Beňas 2011, figure 5.2).
    Sides,
}

impl ScatterStyle {
    /// Returns the text after the name of the candidate in the list of choices.
    fn suffix(self) -> &'static str {
        match self {
            ScatterStyle::Judged => "",
            ScatterStyle::Sides => ", as in 2011",
        }
    }
}

/// Returns the figure of one candidate. Returns `None` if no cell compares it with the baseline.
fn candidate(
    view: &View<'_>,
    found: &OperationRow<'_>,
    set: usize,
    style: ScatterStyle,
) -> Option<Value> {
    let scale = UnitScale::fit([found.operation]);
    let (baseline, name) = (view.baseline(), view.names[set].as_str());
    let mut points: Vec<ScatterPoint> = found
        .operation
        .cells
        .iter()
        .filter_map(|cell| ScatterPoint::from_cell(cell, baseline, name, scale.divisor))
        .collect();
    if style == ScatterStyle::Sides {
        let better = found.operation.better;
        points
            .iter_mut()
            .for_each(|point| point.colour = side(point, better));
    }
    let both = || points.iter().flat_map(|point| [point.x, point.y]);
    let (least, hi) = (
        both().fold(f64::MAX, f64::min) / 1.2,
        both().fold(0.0, f64::max) * 1.2,
    );
    let lo = if style == ScatterStyle::Sides {
        0.0
    } else {
        least
    };
    if points.is_empty() {
        return None;
    }
    let mut data = regression(found.sets[set].classic, lo, hi);
    data.push(line([lo, hi], [lo, hi], "var(--muted)", "dash"));
    data.extend(
        LOOKS
            .iter()
            .filter_map(|look| trace(&points, look, scale.name)),
    );
    let names = || view.names.iter().map(String::as_str);
    let axis = |name: &str| {
        let title = format!("{}, {}", brief(name, names()), scale.name);
        match style {
            ScatterStyle::Judged => logarithmic(&title, lo, hi),
            ScatterStyle::Sides => {
                json!({ "title": { "text": title }, "range": [lo, hi], "zeroline": false })
            }
        }
    };
    Some(json!({ "data": data, "layout": { "xaxis": axis(baseline), "yaxis": axis(name) } }))
}

/// Returns the colour of a point by its side of y = x.
fn side(point: &ScatterPoint, better: Better) -> Colour {
    match point.y.total_cmp(&point.x) {
        Ordering::Equal => Colour::Same,
        Ordering::Greater if better == Better::Higher => Colour::Faster,
        Ordering::Less if better == Better::Lower => Colour::Faster,
        _ => Colour::Slower,
    }
}

/// A cell of the grid.
struct ScatterPoint {
    x: f64,
    y: f64,
    text: String,
    colour: Colour,
}

impl ScatterPoint {
    fn from_cell(
        cell: &Cell,
        baseline: &str,
        candidate: &str,
        divisor: f64,
    ) -> Option<ScatterPoint> {
        Some(ScatterPoint {
            x: cell.means.get(baseline)? / divisor,
            y: cell.means.get(candidate)? / divisor,
            text: cell_text(cell),
            colour: cell.against.get(candidate)?.colour,
        })
    }
}

/// Returns text such as `1M file, 64K records`.
fn cell_text(cell: &Cell) -> String {
    let file = cell
        .file_size
        .map(|bytes| format!("{} file", size_text(bytes)));
    let record = cell
        .record_size
        .map(|bytes| format!("{} records", size_text(bytes)));
    file.into_iter()
        .chain(record)
        .collect::<Vec<_>>()
        .join(", ")
}

fn trace(
    points: &[ScatterPoint],
    look: &(Colour, &str, &str, &str, &str),
    unit: &str,
) -> Option<Value> {
    let (colour, symbol, _, class, text) = look;
    let chosen: Vec<&ScatterPoint> = points
        .iter()
        .filter(|point| point.colour == *colour)
        .collect();
    (!chosen.is_empty()).then(|| {
        json!({
            "type": "scatter", "mode": "markers", "name": text,
            "x": chosen.iter().map(|point| short(point.x)).collect::<Vec<_>>(),
            "y": chosen.iter().map(|point| short(point.y)).collect::<Vec<_>>(),
            "text": chosen.iter().map(|point| point.text.as_str()).collect::<Vec<_>>(),
            "marker": { "color": format!("var(--{class})"), "symbol": symbol, "size": 7, "opacity": 0.85 },
            "hovertemplate": format!("%{{text}}<br>%{{x}} → %{{y}} {unit}<extra>{text}</extra>"),
        })
    })
}

/// Returns the band, then the line, of the regression through the origin. Empty without a positive
/// slope.
fn regression(classic: Option<&PooledAgainst>, lo: f64, hi: f64) -> Vec<Value> {
    let Some((classic, slope)) =
        classic.and_then(|classic| Some((classic, classic.slope.filter(|s| *s > 0.0)?)))
    else {
        return Vec::new();
    };
    let mut data = Vec::new();
    if let Some([below, above]) = classic.slope_ci90.filter(|[below, _]| *below > 0.0) {
        data.push(line(
            [lo, hi],
            [lo * below, hi * below],
            "rgba(0,0,0,0)",
            "solid",
        ));
        let mut upper = line([lo, hi], [lo * above, hi * above], "rgba(0,0,0,0)", "solid");
        upper["fill"] = json!("tonexty");
        upper["fillcolor"] = json!("var(--accent)2a");
        data.push(upper);
    }
    data.push(line(
        [lo, hi],
        [lo * slope, hi * slope],
        "var(--accent)",
        "solid",
    ));
    data
}

fn line(x: [f64; 2], y: [f64; 2], color: &str, dash: &str) -> Value {
    json!({
        "type": "scatter", "mode": "lines", "x": x.map(short), "y": y.map(short), "hoverinfo": "skip",
        "line": { "color": color, "width": 1.3, "dash": dash },
    })
}

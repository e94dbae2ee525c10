//! Bars of measured values beside published ones, in the figures of the publication.

use fsb_model::Unit;
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, KeyEntry, color, figure, hue, key, plain, shape, short};
use crate::summary::PublishedFigure;
use crate::summary::published::{Published, PublishedRow};
use crate::view::View;

pub(super) const KIND: ChartKind = ChartKind {
    name: "published",
    draw: Draw::Overview(draw),
};

const MIB: f64 = 1024.0 * 1024.0;

fn draw(view: &View<'_>, name: &str) -> Vec<Chart> {
    let Some(published) = view.published else {
        return Vec::new();
    };
    let mut charts = Vec::new();
    for found in &published.figures {
        let mut rows: Vec<&PublishedRow> = Vec::new();
        for row in &published.rows {
            if found.rows.contains(&row.workload) {
                rows.push(row);
            }
        }
        let is_measured = (0..view.names.len()).any(|target| {
            found.targets.contains(&published.targets[target])
                && rows.iter().any(|row| row.ours[target].is_some())
        });
        if is_measured {
            let id = format!("{name}-{}", charts.len());
            charts.push(chart(view, published, (found, &rows), id));
        }
    }
    charts
}

/// Returns the unit of the axes and its size in base units.
fn unit_of(row: &PublishedRow) -> (&'static str, f64) {
    match row.unit {
        Unit::BytesPerSecond => ("MiB/s", MIB),
        Unit::OperationsPerSecond => ("files/s", 1.0),
        _ => ("s", 1.0),
    }
}

/// Draws one figure: the measured values above, the published ones below, each on an axis of its
/// own, because machines differ more than file systems. A figure of one test has a horizontal bar
/// for each file system, another one a group of bars for each test.
fn chart(
    view: &View<'_>,
    published: &Published,
    (found, rows): (&PublishedFigure, &[&PublishedRow]),
    id: String,
) -> Chart {
    let places = places(view, published);
    let is_single = rows.len() == 1;
    let (mut here, mut there): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for (target, name) in view.names.iter().enumerate() {
        if found.targets.contains(&published.targets[target]) {
            here.push(bars(rows, (name, target), "", |row| row.ours[target]));
        }
    }
    for (at, (name, place)) in published.file_systems.iter().zip(&places).enumerate() {
        if found.file_systems.contains(name) {
            there.push(bars(rows, (name, *place), "2", |row| row.theirs[at]));
        }
    }
    let (unit, _) = unit_of(rows[0]);
    let (layout, height) = match is_single {
        true => names_layout(unit, [here.len(), there.len()]),
        false => (tests_layout(unit), 440),
    };
    let traces = [here, there].concat();
    let (title, quantity) = (&found.title, quantity(rows[0]));
    Chart {
        id,
        height,
        label: format!(
            "{title}: bars of the {quantity} of each test, measured and published, in {unit}"
        ),
        caption: format!(
            "{title}: {quantity}, measured here above and published below. The axes differ, because the machines do."
        ),
        key: match is_single {
            true => Vec::new(),
            false => complete_key(view, published, (found, &places)),
        },
        json: figure(&traces, &layout),
        ..Chart::default()
    }
}

/// Returns an axis of values.
fn value_axis(unit: &str, whose: &str) -> Value {
    json!({ "title": { "text": format!("{unit}, {whose}") }, "rangemode": "tozero" })
}

/// Returns the layout of a figure of several tests.
fn tests_layout(unit: &str) -> Value {
    let (mut y, mut y2) = (value_axis(unit, "here"), value_axis(unit, "published"));
    (y["domain"], y2["domain"]) = (json!([0.54, 1.0]), json!([0.0, 0.46]));
    json!({
        "barmode": "group", "bargap": 0.3, "yaxis": y, "yaxis2": y2,
        "xaxis": { "anchor": "y", "showticklabels": false }, "xaxis2": { "anchor": "y2", "matches": "x" },
    })
}

/// Returns the layout and the height of a figure of one test, with these numbers of measured and
/// published bars.
fn names_layout(unit: &str, bars: [usize; 2]) -> (Value, usize) {
    /// Pixels of a bar, of the axis between the two parts, and around both.
    const BAR: usize = 24;
    const AXIS: usize = 60;
    const AROUND: usize = 90;
    let drawn = (bars[0] + bars[1]) * BAR + AXIS;
    let share = |pixels: usize| pixels as f64 / drawn as f64;
    let names = |anchor: &str, domain: [f64; 2]| json!({ "anchor": anchor, "domain": domain, "autorange": "reversed", "automargin": true });
    let (mut x, mut x2) = (value_axis(unit, "here"), value_axis(unit, "published"));
    (x["anchor"], x2["anchor"]) = (json!("y"), json!("y2"));
    let layout = json!({
        "barmode": "overlay", "bargap": 0.3, "xaxis": x, "xaxis2": x2,
        "yaxis": names("x", [share(bars[1] * BAR + AXIS), 1.0]),
        "yaxis2": names("x2", [0.0, share(bars[1] * BAR)]),
    });
    (layout, drawn + AROUND)
}

/// Returns the noun for the values of a row.
fn quantity(row: &PublishedRow) -> &'static str {
    match row.unit {
        Unit::Seconds => "mean times",
        _ if row.group.is_some() => "rates of the mean time",
        _ => "mean rates",
    }
}

/// Returns the place of each published file system among the looks: that of its target, or one
/// after all targets.
fn places(view: &View<'_>, published: &Published) -> Vec<usize> {
    let mut next = view.names.len();
    let mut places = Vec::new();
    for (name, target) in published.file_systems.iter().zip(&published.counterparts) {
        let named = view.names.iter().position(|known| known == name);
        places.push(target.or(named).unwrap_or(next));
        next += usize::from(target.or(named).is_none());
    }
    places
}

/// Returns the key of the targets, and of the published file systems of a figure that are no
/// target.
fn complete_key(
    view: &View<'_>,
    published: &Published,
    (found, places): (&PublishedFigure, &[usize]),
) -> Vec<KeyEntry> {
    let mut entries = Vec::new();
    for (target, entry) in key(view).into_iter().enumerate() {
        if found.targets.contains(&published.targets[target]) {
            entries.push(entry);
        }
    }
    for (name, place) in published.file_systems.iter().zip(places) {
        if *place >= view.names.len() && found.file_systems.contains(name) {
            entries.push(KeyEntry {
                class: format!("t{}", hue(*place)),
                shape: shape(*place),
                text: name.clone(),
            });
        }
    }
    entries
}

/// Returns the bars of one file system on the axes with this number: one with its name for a single
/// test, else one for each test.
fn bars(
    rows: &[&PublishedRow],
    (name, place): (&str, usize),
    axes: &str,
    value: impl Fn(&PublishedRow) -> Option<f64>,
) -> Value {
    let (_, size) = unit_of(rows[0]);
    let (mut labels, mut values) = (Vec::new(), Vec::new());
    for row in rows {
        if let Some(value) = value(row) {
            labels.push(in_two_lines(&row.workload));
            values.push(short(value / size));
        }
    }
    let (mut x, mut y, mut orientation, mut shown) = (json!(labels), json!(values), "v", "%{y}");
    if rows.len() == 1 {
        let names = vec![plain(name); values.len()];
        (x, y, orientation, shown) = (json!(values), json!(names), "h", "%{x}");
    }
    json!({
        "type": "bar", "name": plain(name), "xaxis": format!("x{axes}"), "yaxis": format!("y{axes}"),
        "x": x, "y": y, "orientation": orientation, "marker": { "color": color(place) },
        "hovertemplate": format!("{}: {shown}<extra></extra>", plain(name)),
    })
}

/// Returns a label for an axis, broken at the space nearest to its middle.
fn in_two_lines(label: &str) -> String {
    let middle = label.len() / 2;
    let space = label
        .match_indices(' ')
        .map(|(place, _)| place)
        .min_by_key(|place| place.abs_diff(middle));
    match space.map(|place| label.split_at(place)) {
        Some((first, second)) => format!("{}<br>{}", plain(first), plain(second.trim_start())),
        None => plain(label),
    }
}

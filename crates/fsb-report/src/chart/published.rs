//! Bars of rates beside published ones: one chart per group of tests, as a publication shows them.

use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, KeyEntry, color, figure, hue, key, plain, shape, short};
use crate::summary::published::{Published, PublishedRow};
use crate::view::View;

pub(super) const KIND: ChartKind = ChartKind {
    name: "published",
    draw: Draw::Overview(draw),
};

fn draw(view: &View<'_>, name: &str) -> Vec<Chart> {
    let Some(published) = view.published else {
        return Vec::new();
    };
    let groups = published
        .rows
        .chunk_by(|a, b| a.group == b.group)
        .filter(|rows| rows[0].rate_unit().is_some());
    groups
        .enumerate()
        .map(|(place, rows)| chart(view, published, rows, format!("{name}-{place}")))
        .collect()
}

/// Draws one group: the measured values above, the published ones below, each on an axis of its
/// own, because machines differ more than file systems.
fn chart(view: &View<'_>, published: &Published, rows: &[PublishedRow], id: String) -> Chart {
    let places = places(view, published);
    let here = view
        .names
        .iter()
        .enumerate()
        .map(|(target, name)| bars(rows, name, target, "", |row| row.ours[target]));
    let there = published.file_systems.iter().zip(&places).enumerate();
    let there =
        there.map(|(at, (name, place))| bars(rows, name, *place, "2", |row| row.theirs[at]));
    let traces: Vec<Value> = here.chain(there).collect();
    let (group, (unit, _)) = (
        rows[0].group.as_deref().unwrap_or_default(),
        rows[0].rate_unit().unwrap_or_default(),
    );
    let axis = |domain: [f64; 2], whose: &str| json!({ "domain": domain, "title": { "text": format!("{unit}, {whose}") }, "rangemode": "tozero" });
    let layout = json!({
        "barmode": "group", "bargap": 0.3,
        "xaxis": { "anchor": "y", "showticklabels": false }, "xaxis2": { "anchor": "y2", "matches": "x" },
        "yaxis": axis([0.54, 1.0], "here"), "yaxis2": axis([0.0, 0.46], "published"),
    });
    Chart {
        id,
        height: 440,
        label: format!(
            "{group}: bars of the rates of each test, measured and published, in {unit}"
        ),
        caption: format!(
            "{group}: rates of the mean time, measured here above and published below. The axes differ, because the \
             machines do."
        ),
        key: complete_key(view, published, &places),
        json: figure(&traces, &layout),
        ..Chart::default()
    }
}

/// Returns the place of each published file system among the looks: that of the target with its
/// name, or one after all targets.
fn places(view: &View<'_>, published: &Published) -> Vec<usize> {
    let mut next = view.names.len();
    let mut place = |name: &String| {
        view.names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                next += 1;
                next - 1
            })
    };
    published.file_systems.iter().map(&mut place).collect()
}

/// Returns the key of the targets, and of the published file systems that are no target.
fn complete_key(view: &View<'_>, published: &Published, places: &[usize]) -> Vec<KeyEntry> {
    let others = published
        .file_systems
        .iter()
        .zip(places)
        .filter(|(_, place)| **place >= view.names.len());
    key(view)
        .into_iter()
        .chain(others.map(|(name, place)| KeyEntry {
            class: format!("t{}", hue(*place)),
            shape: shape(*place),
            text: name.clone(),
        }))
        .collect()
}

/// Returns the bars of one file system on the axes with this number.
fn bars(
    rows: &[PublishedRow],
    name: &str,
    place: usize,
    axes: &str,
    value: impl Fn(&PublishedRow) -> Option<f64>,
) -> Value {
    let size = rows[0].rate_unit().map_or(1.0, |(_, size)| size);
    let present: Vec<(&PublishedRow, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, value(row)? / size)))
        .collect();
    json!({
        "type": "bar", "name": plain(name), "xaxis": format!("x{axes}"), "yaxis": format!("y{axes}"),
        "x": present.iter().map(|(row, _)| in_two_lines(&row.workload)).collect::<Vec<_>>(),
        "y": present.iter().map(|(_, value)| short(*value)).collect::<Vec<_>>(),
        "marker": { "color": color(place) },
        "hovertemplate": format!("{}: %{{y}}<extra></extra>", plain(name)),
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

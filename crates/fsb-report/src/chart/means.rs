//! Means with their 90 % intervals, at one fixed size.

use serde_json::{Value, json};

use super::look::{
    Chart, ChartKind, Draw, beside, color, dash, figure, key, mark, plain, short, size_axis,
};
use crate::compare::detail::Fixed;
use crate::operation::UnitScale;
use crate::view::View;

pub(super) const KIND: ChartKind = ChartKind {
    name: "means",
    draw: Draw::Size(draw),
};

fn draw(view: &View<'_>, fixed: &Fixed<'_>, name: &str) -> Chart {
    let scale = UnitScale::fit([fixed.operation]);
    let traces: Vec<Value> = (0..view.names.len())
        .map(|set| trace(view, fixed, set, scale))
        .collect();
    let sizes: Vec<u64> = fixed.lines.iter().map(|line| line.bytes).collect();
    // From zero everywhere, so that the charts of a page can be read side by side.
    let layout = json!({
        "xaxis": size_axis(fixed.varies, &sizes),
        "yaxis": { "title": { "text": scale.name }, "rangemode": "tozero", "zeroline": false },
    });
    Chart {
        id: format!("{name}-{}", fixed.id),
        height: 280,
        label: format!(
            "{}: means with 90 % intervals by {}",
            fixed.title, fixed.varies
        ),
        caption: format!(
            "Means of the runs by {}, with 90 % t-intervals.",
            fixed.varies
        ),
        key: key(view),
        json: figure(&traces, &layout),
        ..Chart::default()
    }
}

fn trace(view: &View<'_>, fixed: &Fixed<'_>, set: usize, scale: UnitScale) -> Value {
    let name = plain(&view.names[set]);
    let present: Vec<_> = fixed
        .lines
        .iter()
        .enumerate()
        .filter_map(|(x, line)| Some((x, line.sets[set].as_ref()?)))
        .collect();
    let half = |ci90: Option<[f64; 2]>| ci90.map_or(0.0, |[lo, hi]| (hi - lo) / 2.0);
    let dodge = beside(set, view.names.len());
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name,
        "x": present.iter().map(|(x, _)| short(*x as f64 + dodge)).collect::<Vec<_>>(),
        "y": present.iter().map(|(_, single)| short(single.mean / scale.divisor)).collect::<Vec<_>>(),
        "error_y": { "type": "data", "width": 3, "thickness": 1.5, "color": color(set),
                     "array": present.iter().map(|(_, single)| short(half(single.ci90) / scale.divisor)).collect::<Vec<_>>() },
        "marker": mark(set, 6),
        "line": { "color": color(set), "width": 1.2, "dash": dash(set) },
        "hovertemplate": format!("{name}: %{{y}} {}<extra></extra>", scale.name),
    })
}

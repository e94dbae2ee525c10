//! Box plots of the values of every operation, one box per set.

use fsb_model::Unit;
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, color, figure, fill, key, logarithmic, plain, short};
use crate::operation::{OperationRow, UnitScale};
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "boxes",
    draw: Draw::Overview(draw),
};

/// Draws one chart per unit, because rates and times have no axis in common.
fn draw(view: &View<'_>, name: &str) -> Vec<Chart> {
    let all: Vec<(&Row<'_>, &OperationRow<'_>)> = view
        .rows
        .iter()
        .filter_map(|row| Some((row, row.operation()?)))
        .collect();
    let mut units: Vec<Unit> = Vec::new();
    for (_, found) in &all {
        if !units.contains(&found.operation.unit) {
            units.push(found.operation.unit);
        }
    }
    units
        .iter()
        .enumerate()
        .map(|(place, unit)| {
            let rows: Vec<_> = all
                .iter()
                .filter(|(_, found)| found.operation.unit == *unit)
                .copied()
                .collect();
            chart(view, &rows, format!("{name}-{place}"))
        })
        .collect()
}

fn chart(view: &View<'_>, rows: &[(&Row<'_>, &OperationRow<'_>)], id: String) -> Chart {
    let scale = UnitScale::fit(rows.iter().map(|(_, found)| found.operation));
    let all = || {
        rows.iter()
            .flat_map(|(_, found)| &found.sets)
            .filter_map(|set| set.pooled)
    };
    let lo = all().map(|pooled| pooled.min).fold(f64::MAX, f64::min);
    let hi = all().map(|pooled| pooled.max).fold(lo, f64::max);
    let traces: Vec<Value> = (0..view.names.len())
        .map(|set| trace(view, rows, set, scale))
        .collect();
    let layout = json!({
        "boxmode": "group", "boxgap": 0.35, "boxgroupgap": 0.25,
        "xaxis": logarithmic(scale.name, lo / scale.divisor / 1.3, hi / scale.divisor * 1.3),
        "yaxis": { "range": [rows.len() as f64 - 0.4, -0.6], "showgrid": false, "zeroline": false,
                   "tickvals": (0..rows.len()).collect::<Vec<_>>(),
                   "ticktext": rows.iter().map(|(row, _)| plain(&row.label)).collect::<Vec<_>>() },
    });
    Chart {
        id,
        height: 90 + rows.len() * (14 + 13 * view.names.len()),
        label: "Box plots of all values at every operation, one box per set".to_owned(),
        caption: "All values of the cells in common, of all sizes and runs: the box from the first to the third \
                  quartile with the median in it, whiskers to the smallest and the largest value. Logarithmic."
            .to_owned(),
        key: key(view),
        json: figure(&traces, &layout),
        ..Chart::default()
    }
}

/// Returns the boxes of one set. Plotly gets their corners, not the values.
fn trace(
    view: &View<'_>,
    rows: &[(&Row<'_>, &OperationRow<'_>)],
    set: usize,
    scale: UnitScale,
) -> Value {
    let present: Vec<_> = rows
        .iter()
        .enumerate()
        .filter_map(|(place, (_, found))| Some((place, found.sets[set].pooled?)))
        .collect();
    let column = |of: &dyn Fn(&fsb_stats::compare::Pooled) -> f64| -> Vec<Value> {
        present
            .iter()
            .map(|(_, pooled)| short(of(pooled) / scale.divisor))
            .collect()
    };
    json!({
        "type": "box", "orientation": "h", "name": plain(&view.names[set]), "offsetgroup": set.to_string(),
        "y": present.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
        "q1": column(&|pooled| pooled.q1), "median": column(&|pooled| pooled.median),
        "q3": column(&|pooled| pooled.q3), "lowerfence": column(&|pooled| pooled.min),
        "upperfence": column(&|pooled| pooled.max),
        "line": { "color": color(set), "width": 1.5 }, "fillcolor": fill(set), "hoverinfo": "x",
    })
}

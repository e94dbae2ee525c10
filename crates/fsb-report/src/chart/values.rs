//! Bars of absolute values, as publications show them: the time of a case, and the rates that it
//! has beside the value that targets are compared by. Rates that targets are compared by are at the
//! left of the chart of all trials.

use fsb_model::metric::{self, Role, WITH_DEFERRED};
use fsb_model::{Better, Unit};
use fsb_stats::Interval;
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, color, figure, key, plain, short};
use crate::axis::unit;
use crate::summary::Workload;
use crate::view::{Row, View};

pub(super) const KIND: ChartKind = ChartKind {
    name: "values",
    draw: Draw::Row(draw),
};

/// A metric of a case: the value of each target that has one, and its interval if it is judged.
struct Group {
    metric: String,
    unit: Unit,
    values: Vec<Option<(f64, Option<Interval>)>>,
}

/// Draws one chart per unit.
fn draw(view: &View<'_>, row: &Row<'_>, name: &str, place: usize) -> Vec<Chart> {
    let groups = row.workload().map(groups).unwrap_or_default();
    let mut units: Vec<Unit> = Vec::new();
    for group in &groups {
        if !units.contains(&group.unit) {
            units.push(group.unit);
        }
    }
    units
        .iter()
        .map(|unit| {
            let groups: Vec<&Group> = groups.iter().filter(|group| group.unit == *unit).collect();
            chart(
                view,
                row,
                &groups,
                format!("{name}-{place}-{}", unit.name()),
            )
        })
        .collect()
}

fn groups(workload: &Workload) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    if workload.better == Better::Lower {
        let values = workload
            .cells
            .iter()
            .map(|cell| {
                let estimate = cell.estimate.as_ref()?;
                Some((
                    estimate.value,
                    estimate.interval.filter(|_| estimate.is_judged()),
                ))
            })
            .collect();
        groups.push(Group {
            metric: workload.metric.clone(),
            unit: workload.unit,
            values,
        });
    }
    for (target, cell) in workload.cells.iter().enumerate() {
        for found in &cell.secondary {
            let is_rate = metric::find(&found.metric).is_some_and(|kind| kind.role == Role::Rate);
            if !is_rate || found.metric.ends_with(WITH_DEFERRED) {
                continue;
            }
            let place = groups
                .iter()
                .position(|group| group.metric == found.metric)
                .unwrap_or_else(|| {
                    let values = vec![None; workload.cells.len()];
                    groups.push(Group {
                        metric: found.metric.clone(),
                        unit: found.unit,
                        values,
                    });
                    groups.len() - 1
                });
            groups[place].values[target] = Some((found.description.mean, found.interval));
        }
    }
    groups.retain(|group| group.values.iter().any(Option::is_some));
    groups
}

fn chart(view: &View<'_>, row: &Row<'_>, groups: &[&Group], id: String) -> Chart {
    let values = groups
        .iter()
        .flat_map(|group| group.values.iter().flatten().map(|(value, _)| *value));
    let scale = unit(groups[0].unit, values.fold(0.0, f64::max));
    let trace = |target: usize| -> Option<Value> {
        let found = groups
            .iter()
            .filter_map(|group| Some((group, group.values[target]?)));
        let found: Vec<(&&Group, (f64, Option<Interval>))> = found.collect();
        let scaled = |value: f64| short(value / scale.divisor);
        let reach = |end: fn(&Interval, f64) -> f64| -> Vec<Value> {
            let reach = |interval: Option<Interval>, value| {
                interval.map_or(0.0, |found| end(&found, value))
            };
            found
                .iter()
                .map(|(_, (value, interval))| scaled(reach(*interval, *value)))
                .collect()
        };
        (!found.is_empty()).then(|| {
            json!({
                "type": "bar", "name": plain(&view.charted(target)), "marker": { "color": color(target) },
                "x": found.iter().map(|(group, _)| group.metric.replace('_', " ")).collect::<Vec<_>>(),
                "y": found.iter().map(|(_, (value, _))| scaled(*value)).collect::<Vec<_>>(),
                "error_y": { "type": "data", "symmetric": false, "width": 0, "thickness": 2,
                             "array": reach(|interval, value| interval.hi - value),
                             "arrayminus": reach(|interval, value| value - interval.lo) },
                "hovertemplate": format!("{}: %{{y}} {}<extra></extra>", plain(&view.charted(target)), scale.name),
            })
        })
    };
    let traces: Vec<Value> = (0..view.names.len()).filter_map(trace).collect();
    let layout = json!({
        "barmode": "group", "bargap": 0.3, "xaxis": { "showgrid": false },
        "yaxis": { "title": { "text": scale.name }, "rangemode": "tozero", "zeroline": false },
    });
    let names: Vec<String> = groups
        .iter()
        .map(|group| group.metric.replace('_', " "))
        .collect();
    Chart {
        id,
        height: 280,
        label: format!(
            "{}: bars of {} for each {}",
            row.label,
            names.join(", "),
            view.words.column
        ),
        caption: "Absolute values, with 95 % intervals where they are judged.".to_owned(),
        key: key(view),
        json: figure(&traces, &layout),
        ..Chart::default()
    }
}

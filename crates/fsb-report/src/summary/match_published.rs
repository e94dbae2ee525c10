//! Matches the cases of a run with published values.

use fsb_model::Unit;

use super::model::{MeasuredCell, Numbers, TargetSummary};
use super::published::{Published, PublishedRow, PublishedTable, PublishedValue};

/// Matches by workload label, metric and file-system name. Cases that the run did not measure are
/// omitted.
pub(super) fn beside(summary: &Numbers, table: &PublishedTable) -> Published {
    let (mut file_systems, mut rows): (Vec<String>, Vec<&PublishedValue>) =
        (Vec::new(), Vec::new());
    for value in &table.rows {
        if !file_systems.contains(&value.target) {
            file_systems.push(value.target.clone());
        }
        if !rows.iter().any(|known| known.row == value.row) {
            rows.push(value);
        }
    }
    let theirs = |row: &str, target: &str| {
        let found = table
            .rows
            .iter()
            .find(|value| value.row == row && value.target == target);
        found
            .map(|value| value.value)
            .filter(|value| value.is_finite())
    };
    let printed = |row: &str| {
        file_systems
            .iter()
            .map(|name| {
                table
                    .rows
                    .iter()
                    .find(|value| value.row == row && value.target == *name)?
                    .rate
                    .as_ref()?
                    .printed
                    .clone()
            })
            .collect()
    };
    let rows = rows.into_iter().filter_map(|known| {
        let row = summary
            .cases
            .iter()
            .find(|row| row.workload == known.workload)?;
        let ours = |cell: &MeasuredCell| match (&known.metric, &known.rate) {
            (None, Some(rate)) => {
                let time = cell
                    .estimate
                    .as_ref()
                    .filter(|_| row.unit == Unit::Seconds)
                    .map(|estimate| estimate.mean);
                time.map(|seconds| rate.amount / seconds)
            }
            (None, None) => cell
                .estimate
                .as_ref()
                .filter(|_| row.unit == known.unit)
                .map(|estimate| estimate.mean),
            (Some(metric), _) => {
                let found = cell
                    .secondary
                    .iter()
                    .find(|secondary| secondary.metric == *metric);
                found
                    .filter(|secondary| secondary.unit == known.unit)
                    .map(|secondary| secondary.description.mean)
            }
        };
        Some(PublishedRow {
            workload: known.row.clone(),
            unit: known.unit,
            ours: row.cells.iter().map(ours).collect(),
            theirs: file_systems
                .iter()
                .map(|name| theirs(&known.row, name))
                .collect(),
            group: known.rate.as_ref().map(|rate| rate.group.clone()),
            printed: if known.rate.is_some() {
                printed(&known.row)
            } else {
                Vec::new()
            },
        })
    });
    let mut rows = rows.collect();
    table.sums.iter().for_each(|sum| sum.add_to(&mut rows));
    let (title, note) = (table.title.clone(), table.note.clone());
    let absent = summary
        .targets
        .iter()
        .filter(|target| target.unavailable.is_some());
    let unavailable = absent.map(TargetSummary::label).collect();
    Published {
        title,
        note,
        first: table.first,
        layout: table.layout,
        rows,
        file_systems,
        unavailable,
    }
}

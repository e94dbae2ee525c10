//! Matches the cases of a run with published values.

use fsb_model::{RunRecord, Unit, metric};

use super::cases;
use super::model::{MeasuredCell, Numbers, TargetSummary};
use super::published::{Published, PublishedRow, PublishedTable, PublishedValue};
use super::published_order::{OrderSubject, PublishedOrder, outcome};
use super::trial_value::CompactTrial;

/// Matches by workload label, metric and file-system name. Cases that the run did not measure are
/// omitted.
pub(super) fn beside(
    summary: &Numbers,
    table: &PublishedTable,
    (record, trials): (&RunRecord, &[CompactTrial]),
) -> Published {
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
            here: known.here.clone(),
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
    let mut rows: Vec<PublishedRow> = rows.collect();
    let counterparts: Vec<Option<usize>> = file_systems
        .iter()
        .map(|name| counterpart(summary, table, name))
        .collect();
    let order = order(
        summary,
        table,
        (&rows, &file_systems, &counterparts),
        (record, trials),
    );
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
        counterparts,
        order,
        targets: summary
            .targets
            .iter()
            .map(|target| target.name.clone())
            .collect(),
        figures: table.figures.clone(),
        unavailable,
    }
}

/// Returns the place of the target that is a published file system.
fn counterpart(summary: &Numbers, table: &PublishedTable, name: &str) -> Option<usize> {
    let (_, target) = table.counterparts.iter().find(|(known, _)| known == name)?;
    summary
        .targets
        .iter()
        .position(|known| known.name == *target)
}

/// Returns what a row publishes.
fn published(row: &PublishedRow) -> (&str, Unit, &[Option<f64>]) {
    (&row.workload, row.unit, &row.theirs)
}

/// Compares the order of the file systems with the published one. A row whose measured values must
/// not be compared does not count. Returns `None` if the run has fewer than two of the file
/// systems.
fn order(
    summary: &Numbers,
    table: &PublishedTable,
    (rows, file_systems, counterparts): (&[PublishedRow], &[String], &[Option<usize>]),
    (record, trials): (&RunRecord, &[CompactTrial]),
) -> Option<PublishedOrder> {
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (place, target) in counterparts.iter().enumerate() {
        // Two published measurements may be of one target: the first counts.
        if let Some(target) = target
            && places.iter().all(|(_, known)| known != target)
        {
            places.push((place, *target));
        }
    }
    if places.len() < 2 {
        return None;
    }
    let mut outcomes = Vec::new();
    for row in rows.iter().filter(|row| row.here.is_none()) {
        let Some(known) = table.rows.iter().find(|known| known.row == row.workload) else {
            continue;
        };
        let case = summary
            .cases
            .iter()
            .find(|case| case.workload == known.workload);
        let Some(case) = case.filter(|case| case.withheld.is_none()) else {
            continue;
        };
        let other = known.metric.as_deref().filter(|name| *name != case.metric);
        let found = match other.and_then(metric::find) {
            Some(_) if summary.unjudged.is_some() => None,
            Some(kind) => {
                let ranking = cases::rank_by(record, trials, &case.workload, &kind.metric(0.0));
                outcome(published(row), file_systems, &places, &ranking)
            }
            None => outcome(published(row), file_systems, &places, &case.ranking),
        };
        outcomes.extend(found);
    }
    let unjudged = summary
        .unjudged
        .as_deref()
        .unwrap_or("no difference that it names was judged here");
    Some(PublishedOrder::from_outcomes(
        OrderSubject::Operations,
        outcomes,
        unjudged,
    ))
}

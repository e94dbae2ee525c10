//! The rows of a comparison: one per operation and workload, in the metric that sets are compared by.

use fsb_stats::Outcome;
use fsb_stats::compare::{ALL, OURS, Operation};

use super::operation::Selection;
use super::operation::{OperationRow, SetStatistics};
use crate::mark;
use crate::view::{CellView, Row, RowData};

/// Returns the rows of a selection in the document's order. Their sentences are still empty.
pub(crate) fn rows<'a>(selection: Selection<'a>) -> Vec<Row<'a>> {
    let sets = selection.sets();
    let place = |name: &str| selection.document.sets.iter().position(|other| other.name == name);
    let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let places: Vec<usize> = names.iter().filter_map(|name| place(name)).collect();
    let mut groups: Vec<Vec<&'a Operation>> = Vec::new();
    for operation in selection.operations() {
        let same = |group: &&mut Vec<&Operation>| {
            (&group[0].workload, &group[0].operation) == (&operation.workload, &operation.operation)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(operation),
            None => groups.push(vec![operation]),
        }
    }
    let q = selection.document.settings.q;
    let ours = selection.document.sets.iter().all(|set| set.tool == OURS);
    let mut rows: Vec<Row<'a>> = groups.into_iter().map(|group| row(group, &names, &places, (q, ours))).collect();
    order_totals(&mut rows);
    rows
}

/// The operation that sums up the others of its workload: filebench's summary.
const TOTAL: &str = "total";

/// Moves the total of a workload before its parts, and marks the parts.
fn order_totals(rows: &mut [Row<'_>]) {
    let workload = |row: &Row<'_>| row.operation().and_then(|found| found.operation.workload.clone());
    let is_total = |row: &Row<'_>| row.operation().is_some_and(|found| found.operation.operation == TOTAL);
    let totals: Vec<String> = rows.iter().filter(|row| is_total(row)).filter_map(workload).collect();
    for row in rows.iter_mut() {
        row.is_part = !is_total(row) && workload(row).is_some_and(|workload| totals.contains(&workload));
    }
    // Workloads of one run stay together: only those that have a total are reordered.
    for total in &totals {
        let of_total = |row: &Row<'_>| workload(row).as_deref() == Some(total.as_str());
        let Some(first) = rows.iter().position(of_total) else { continue };
        let length = rows[first..].iter().take_while(|row| of_total(row)).count();
        rows[first..first + length].sort_by_key(|row| row.is_part);
    }
}

fn row<'a>(mut group: Vec<&'a Operation>, names: &[&str], places: &[usize], (q, ours): (f64, bool)) -> Row<'a> {
    let primary = group.iter().position(|operation| operation.primary).unwrap_or(0);
    let operation = group.remove(primary);
    let outcome = outcome(operation, places);
    let sets: Vec<SetStatistics<'a>> = names.iter().map(|name| SetStatistics::of_operation(operation, name)).collect();
    let cells = sets
        .iter()
        .enumerate()
        .map(|(place, set)| CellView { mark: mark(operation, &outcome, place, names, set), ..cell(operation, set) });
    Row {
        label: label(operation, ours),
        sentence: String::new(),
        better: operation.better,
        cells: cells.collect(),
        outcome,
        is_part: false,
        data: RowData::Operation(OperationRow { operation, others: group, places: places.to_vec(), sets, q }),
    }
}

/// Returns the cell of a set, without a mark.
pub(super) fn cell(operation: &Operation, set: &SetStatistics<'_>) -> CellView {
    CellView {
        value: set.pooled.map(|pooled| operation.unit.show(pooled.geometric_mean)),
        judged: set.judged,
        absence: "no values",
        ..CellView::default()
    }
}

/// Returns the workload if it names the operation, as FSBench's labels do, or else both. The label of the pool says
/// that it is one.
fn label(operation: &Operation, ours: bool) -> String {
    let name = operation.operation.replace('_', " ");
    match &operation.workload {
        None if name == ALL => "ALL, pooled".to_owned(),
        None => name,
        Some(workload) if ours || workload.contains(name.as_str()) => workload.clone(),
        Some(workload) => format!("{workload}: {name}"),
    }
}

/// Returns the outcome of the analysis with sets numbered by the view's columns, the baseline first.
fn outcome(operation: &Operation, places: &[usize]) -> Outcome {
    let place = |set: &usize| places.iter().position(|place| place == set).unwrap_or(*set);
    let all = |sets: &[usize]| sets.iter().map(place).collect();
    match &operation.ranking.outcome {
        Outcome::Winner(set) => Outcome::Winner(place(set)),
        Outcome::Tie(sets) => Outcome::Tie(all(sets)),
        Outcome::Undecided(sets) => Outcome::Undecided(all(sets)),
        Outcome::NotJudged => Outcome::NotJudged,
        // These sets have values, but their runs have too few cells in common for an estimate.
        Outcome::Alone(_) | Outcome::Nothing if operation.classic.sets.values().flatten().count() > 1 => {
            Outcome::NotJudged
        }
        Outcome::Alone(set) => Outcome::Alone(place(set)),
        Outcome::Nothing => Outcome::Nothing,
    }
}

fn mark(operation: &Operation, outcome: &Outcome, place: usize, names: &[&str], set: &SetStatistics<'_>) -> String {
    let verdict = set.judged.map(|judged| judged.verdict);
    if names.len() == 2 {
        return verdict.map(mark::of_change).unwrap_or_default();
    }
    let letters = operation.letters.get(names[place]).and_then(Option::as_deref);
    mark::of_value(outcome, place, letters, verdict)
}

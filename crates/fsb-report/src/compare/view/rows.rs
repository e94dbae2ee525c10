//! One row an operation and workload, in the metric that sets are compared by.

use fsb_analysis::Outcome;
use fsb_analysis::compare::{ALL, Operation, SetSummary};

use super::{CellView, Row};
use crate::compare::Page;

/// The rows of a page, in the document's order.
pub(super) fn rows<'a>(page: &Page<'a>, sets: &[&'a SetSummary]) -> Vec<Row<'a>> {
    let place = |set: &SetSummary| page.document.sets.iter().position(|other| other.name == set.name);
    let places: Vec<usize> = sets.iter().filter_map(|set| place(set)).collect();
    let mut groups: Vec<Vec<&'a Operation>> = Vec::new();
    for operation in page.operations() {
        let same = |group: &&mut Vec<&Operation>| {
            (&group[0].workload, &group[0].operation) == (&operation.workload, &operation.operation)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(operation),
            None => groups.push(vec![operation]),
        }
    }
    groups.into_iter().map(|group| row(group, sets, &places)).collect()
}

fn row<'a>(mut group: Vec<&'a Operation>, sets: &[&'a SetSummary], places: &[usize]) -> Row<'a> {
    let primary = group.iter().position(|operation| operation.primary).unwrap_or(0);
    let operation = group.remove(primary);
    let outcome = outcome(operation, places);
    let cells = sets.iter().enumerate().map(|(place, set)| CellView {
        mark: mark(operation, &outcome, place, &set.name),
        ..CellView::of_operation(operation, &set.name)
    });
    let cells = cells.collect();
    Row {
        label: label(operation),
        places: places.to_vec(),
        operation,
        others: group,
        outcome,
        cells,
        sentence: String::new(),
    }
}

/// The workload where it names what is done; else both; the pool says what it is.
fn label(operation: &Operation) -> String {
    let name = operation.operation.replace('_', " ");
    match &operation.workload {
        None if name == ALL => "ALL, pooled".to_owned(),
        None => name,
        Some(workload) if workload.contains(name.as_str()) => workload.clone(),
        Some(workload) => format!("{workload}: {name}"),
    }
}

/// The analysis' outcome, with the baseline's place first as everywhere on a page.
fn outcome(operation: &Operation, places: &[usize]) -> Outcome {
    let place = |set: &usize| places.iter().position(|place| place == set).unwrap_or(*set);
    let all = |sets: &[usize]| sets.iter().map(place).collect();
    match &operation.ranking.outcome {
        Outcome::Winner(set) => Outcome::Winner(place(set)),
        Outcome::Tie(sets) => Outcome::Tie(all(sets)),
        Outcome::Undecided(sets) => Outcome::Undecided(all(sets)),
        Outcome::NotJudged => Outcome::NotJudged,
        // They have values, but their runs have too few cells in common to be estimated.
        Outcome::Alone(_) | Outcome::Nothing if operation.classic.sets.values().flatten().count() > 1 => {
            Outcome::NotJudged
        }
        Outcome::Alone(set) => Outcome::Alone(place(set)),
        Outcome::Nothing => Outcome::Nothing,
    }
}

fn mark(operation: &Operation, outcome: &Outcome, place: usize, name: &str) -> String {
    match outcome {
        Outcome::Undecided(contenders) if contenders.contains(&place) => "?".to_owned(),
        Outcome::Alone(_) => String::new(),
        _ => operation.letters.get(name).cloned().flatten().unwrap_or_default(),
    }
}

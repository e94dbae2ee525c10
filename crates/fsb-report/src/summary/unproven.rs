//! Values that are not known to be what the name of their case says, and the statements of a report
//! on them.

use std::collections::BTreeMap;

use fsb_model::RunRecord;
use fsb_model::storage::Promise;

use super::model::{MeasuredCell, Numbers, Workload};
use super::trial_value::CompactTrial;
use crate::mark::UNPROVEN;
use crate::show::{listed, some_of};

/// The cases that a statement names at most.
const NAMED: usize = 3;

/// Returns the promises that the trials of a cell were not shown to keep.
pub(super) fn of_trials(trials: &[&CompactTrial]) -> Vec<Promise> {
    let mut found: Vec<Promise> = Vec::new();
    for trial in trials {
        found.extend(&trial.extras().unproven);
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the places of the targets whose values of a case are not known to be what it says.
pub(super) fn places(cells: &[MeasuredCell]) -> Vec<usize> {
    let mut places = Vec::new();
    for (place, cell) in cells.iter().enumerate() {
        if !cell.unproven.is_empty() {
            places.push(place);
        }
    }
    places
}

/// Returns whether the values of two targets at a case are known to be of the same work, or not
/// known in the same way.
pub(super) fn are_alike(case: &Workload, first: usize, second: usize) -> bool {
    case.cells[first].unproven == case.cells[second].unproven
}

/// Returns text such as `not known to be durable`.
pub(crate) fn text(promises: &[Promise]) -> String {
    let mut texts: Vec<&str> = promises.iter().map(|promise| promise.unproven()).collect();
    texts.dedup();
    texts.join(", ")
}

/// Returns one statement for each target and reason: `‡ bindfs: not known to be durable:
/// the device wrote nothing when a directory was synced (create 4K files, durable)`.
pub(super) fn statements(record: &RunRecord, summary: &Numbers) -> Vec<String> {
    let mut said = Vec::new();
    for (place, target) in summary.targets.iter().enumerate() {
        let known = record.targets.get(&target.name);
        let known = known.map_or(&[][..], |found| &found.unproven);
        let mut cases: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for case in &summary.cases {
            let promises = &*case.cells[place].unproven;
            if promises.is_empty() {
                continue;
            }
            let mut reasons: Vec<&str> = Vec::new();
            for unproven in known {
                if promises.contains(&unproven.promise) {
                    reasons.push(&unproven.reason);
                }
            }
            reasons.dedup();
            let statement = format!("{}: {}", text(promises), listed(&reasons));
            cases
                .entry(statement)
                .or_default()
                .push(case.workload.clone());
        }
        for (statement, cases) in cases {
            said.push(format!(
                "{UNPROVEN} {}: {statement} ({})",
                target.name,
                some_of(&cases, NAMED),
            ));
        }
    }
    said
}

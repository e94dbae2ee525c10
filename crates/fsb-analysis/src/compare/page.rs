//! The operations of a comparison as one page: verdicts must hold for all of them together.

use super::document::{Document, Operation};
use super::region::estimates;
use crate::page::hold_over_page;

impl Document {
    /// Holds the verdicts of several comparisons to one page: a gate over all of them fails for at most one page of equals in
    /// twenty.
    pub fn hold_together(documents: &mut [Document]) {
        let operations = documents.iter_mut().flat_map(|document| &mut document.operations);
        hold_over_page(operations.filter(|operation| operation.primary).map(|operation| &mut operation.ranking));
        for document in documents {
            let names: Vec<&str> = document.sets.iter().map(|set| set.name.as_str()).collect();
            let baseline = names.iter().position(|name| *name == document.baseline).unwrap_or_default();
            document.operations.iter_mut().for_each(|operation| conclude(operation, &names, baseline));
            // A finding on an operation of one cell says what the operation says.
            let operations = &document.operations;
            document.findings.retain(|found| {
                let is_meant = |operation: &&Operation| {
                    operation.cells.len() == 1
                        && (&operation.workload, &operation.operation, &operation.metric)
                            == (&found.workload, &found.operation, &found.metric)
                };
                let against = |operation: &Operation| operation.estimate.against.get(&found.candidate)?.clone();
                operations.iter().find(is_meant).and_then(against).is_none_or(|level| level.verdict.differs())
            });
        }
    }
}

/// Adjusts the judged operations to each other. Letters, estimates and grids follow their rankings.
pub(super) fn hold(operations: &mut [Operation], names: &[&str], baseline: usize) {
    let judged = operations.iter_mut().filter(|operation| operation.primary);
    hold_over_page(judged.map(|operation| &mut operation.ranking));
    operations.iter_mut().for_each(|operation| conclude(operation, names, baseline));
}

fn conclude(operation: &mut Operation, names: &[&str], baseline: usize) {
    let Operation { ranking, estimate, letters, grid, .. } = operation;
    *estimate = estimates(names, baseline, ranking);
    *letters = names.iter().map(|name| (*name).to_owned()).zip(ranking.letters.iter().cloned()).collect();
    for (name, against) in grid.iter_mut().flat_map(|grid| &mut grid.against) {
        if let Some((against, level)) = against.as_mut().zip(estimate.against.get(name).and_then(Option::as_ref)) {
            against.verdict = level.verdict;
        }
    }
}

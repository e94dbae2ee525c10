//! Documents without verdicts: values next to each other, for sets whose conditions do not allow a comparison.

use super::document::{Colour, Document, Grid, Operation};
use crate::runs::Unjudged;
use crate::verdict::Verdict;

impl Document {
    /// Removes all verdicts: verdicts, intervals, letters, colours and findings. Measured values stay, and so do the
    /// statistics of 2011, which only describe. `why` becomes the first warning.
    pub fn withhold(&mut self, why: String) {
        self.operations.iter_mut().for_each(of_operation);
        self.findings.clear();
        self.withheld = true;
        self.warnings.insert(0, why);
    }

    /// Like [`Document::withhold`], for one workload. If the workload exists, `why` is added to the warnings.
    pub fn withhold_at(&mut self, workload: &str, why: String) {
        let is_meant = |name: &Option<String>| name.as_deref() == Some(workload);
        let mut meant = self.operations.iter_mut().filter(|operation| is_meant(&operation.workload)).peekable();
        if meant.peek().is_none() {
            return;
        }
        meant.for_each(|operation| {
            of_operation(operation);
            for level in operation.estimate.against.values_mut().flatten() {
                level.unjudged = level.unjudged.or(Some(Unjudged::Withheld));
            }
        });
        self.findings.retain(|found| !is_meant(&found.workload));
        self.warnings.push(why);
    }

    /// Removes all verdicts like [`Document::withhold`], and also everything that compares one value with another:
    /// ratios, changes, p-values, slopes. Measured values stay. `unjudged` is the short reason, and `why` becomes the
    /// first warning.
    pub fn unjudge(&mut self, unjudged: String, why: String) {
        self.withhold(why);
        self.unjudged = Some(unjudged);
        for operation in &mut self.operations {
            operation.estimate.against.values_mut().for_each(|against| *against = None);
            operation.classic.against.values_mut().for_each(|against| *against = None);
            operation.ranking.pairs.clear();
            operation.grid.iter_mut().flat_map(|grid| grid.against.values_mut()).for_each(|against| *against = None);
            for slice in operation.by_file_size.iter_mut().chain(&mut operation.by_record_size) {
                slice.classic.against.values_mut().for_each(|against| *against = None);
                slice.grid.against.values_mut().for_each(|against| *against = None);
            }
            operation.cells.iter_mut().for_each(|cell| cell.against.clear());
        }
    }
}

fn of_operation(operation: &mut Operation) {
    for estimate in operation.estimate.against.values_mut().flatten() {
        (estimate.verdict, estimate.ci95) = (Verdict::NotJudged, None);
    }
    operation.ranking.withhold();
    operation.letters.values_mut().for_each(|letter| *letter = None);
    for against in operation.classic.against.values_mut().flatten() {
        against.t_verdict = None;
    }
    operation.grid.iter_mut().for_each(of_grid);
    for slice in operation.by_file_size.iter_mut().chain(&mut operation.by_record_size) {
        of_grid(&mut slice.grid);
        slice.classic.against.values_mut().flatten().for_each(|against| against.t_verdict = None);
    }
    for look in operation.cells.iter_mut().flat_map(|cell| cell.against.values_mut()) {
        (look.colour, look.ci95) = (Colour::Uncertain, None);
    }
}

fn of_grid(grid: &mut Grid) {
    for against in grid.against.values_mut().flatten() {
        (against.verdict, against.ci95) = (Verdict::NotJudged, None);
        (against.uncertain, against.faster, against.slower, against.same) = (against.cells, 0, 0, 0);
    }
}

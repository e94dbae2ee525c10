//! Sentences on single cells: for each case, the targets that have something to report.

use super::model::{MeasuredCell, Numbers, Workload};
use crate::show::{describe_cases, listed, some_cases};

/// The texts on the cells of each case, and the label of the case.
pub(crate) struct ReportedCells(Vec<(String, String)>);

impl ReportedCells {
    pub(crate) fn new(
        summary: &Numbers,
        text: impl Fn(&Workload, &MeasuredCell) -> Option<String>,
    ) -> ReportedCells {
        let mut cases = Vec::new();
        for case in &summary.cases {
            let mut named = Vec::new();
            for (target, cell) in summary.cells_of(case) {
                named.extend(text(case, cell).map(|text| format!("{} {text}", target.label())));
            }
            if !named.is_empty() {
                cases.push((listed(&named), case.workload.clone()));
            }
        }
        ReportedCells(cases)
    }

    /// Returns `START: xfs +12 % at read 1M, warm.`, in which cases that report the same are
    /// counted. Returns `None` if no cell has a text.
    pub(crate) fn sentence(&self, start: &str) -> Option<String> {
        (!self.0.is_empty()).then(|| format!("{start}: {}.", describe_cases(&self.0)))
    }

    /// Returns the same sentence with each case by itself.
    pub(crate) fn sentence_of_each(&self, start: &str) -> Option<String> {
        let cases = self.each();
        (!cases.is_empty()).then(|| format!("{start}: {}.", some_cases(&cases)))
    }

    /// Returns `xfs +12 % at read 1M, warm` for each case.
    pub(crate) fn each(&self) -> Vec<String> {
        let cases = self.0.iter();
        cases
            .map(|(text, case)| format!("{text} at {case}"))
            .collect()
    }
}

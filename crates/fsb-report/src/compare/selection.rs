//! Which part of a comparison is shown.

use fsb_analysis::compare::{Document, Operation, SetSummary};

/// A comparison, or one operation of it in detail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) document: &'a Document,
    /// The operation, or the workload, that is shown size by size; absent for the overview of all.
    pub(crate) detail: Option<&'a str>,
}

impl<'a> Selection<'a> {
    /// What is shown, in the document's order.
    pub(crate) fn operations(&self) -> impl Iterator<Item = &'a Operation> + use<'a> {
        let detail = self.detail;
        self.document.operations.iter().filter(move |operation| {
            detail.is_none_or(|name| operation.operation == name || operation.workload.as_deref() == Some(name))
        })
    }

    /// The baseline, then the others in their order.
    pub(crate) fn sets(&self) -> Vec<&'a SetSummary> {
        let is_baseline = |set: &&SetSummary| set.name == self.document.baseline;
        let others = self.document.sets.iter().filter(|set| !is_baseline(set));
        self.document.sets.iter().filter(is_baseline).chain(others).collect()
    }
}

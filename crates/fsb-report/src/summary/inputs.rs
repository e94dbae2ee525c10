//! The inputs of a summary.

use fsb_model::RunRecord;
use fsb_model::set::Set;

use super::claims::PublishedClaims;
use super::published::PublishedTable;
use super::trial_value::CompactTrial;

/// Everything that a summary is assembled from.
#[derive(Debug, Clone, Copy)]
pub struct SummaryInputs<'a> {
    /// The record of the run. The first target of the plan is the one that others are compared
    /// with.
    pub record: &'a RunRecord,
    /// The trials.
    pub trials: &'a [CompactTrial],
    /// The targets as sets of the run's matrices of sizes; empty for a run without a matrix.
    pub matrices: &'a [Set],
    /// Published values of the same workloads.
    pub published: Option<&'a PublishedTable>,
    /// Published statements about the same quantities.
    pub claims: Option<&'a PublishedClaims>,
    /// The record and the trials of an earlier run of the same plan.
    pub earlier: Option<(&'a RunRecord, &'a [CompactTrial])>,
}

impl<'a> SummaryInputs<'a> {
    /// Returns the inputs of a run beside which nothing else is shown.
    pub fn new(record: &'a RunRecord, trials: &'a [CompactTrial]) -> SummaryInputs<'a> {
        SummaryInputs {
            record,
            trials,
            matrices: &[],
            published: None,
            claims: None,
            earlier: None,
        }
    }
}

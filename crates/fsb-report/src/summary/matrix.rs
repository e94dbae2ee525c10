//! The findings in a run's matrix of sizes, as a comparison of sets finds them.

use fsb_stats::FEWEST_JUDGED;
use fsb_stats::compare::{CompareRequest, Document, Finding, all_pairs, compare};

use super::inputs::SummaryInputs;
use super::method;
use super::model::{Numbers, Trust, TrustLevel};
use crate::show::Paragraph;

/// The part of a summary that describes a matrix; empty if there is none or if nothing is judged.
#[derive(Default)]
pub(super) struct Matrix {
    /// The findings, the widest first. `None` if the trust in the numbers is low.
    pub(super) findings: Option<Vec<Finding>>,
    pub(super) warnings: Vec<String>,
    pub(super) method: Option<Paragraph>,
    /// The comparison of the targets. `None` if one of them has no value: the charts of a page
    /// number targets alike.
    pub(super) document: Option<Document>,
}

impl Matrix {
    pub(super) fn new(
        numbers: &Numbers,
        trust: Option<&Trust>,
        inputs: &SummaryInputs<'_>,
    ) -> Matrix {
        let sets = inputs.matrices;
        if !numbers.compares() || (numbers.blocks as usize) < FEWEST_JUDGED || sets.len() < 2 {
            return Matrix::default();
        }
        let Ok((mut findings, warnings)) = all_pairs(sets, numbers.theta) else {
            return Matrix::default();
        };
        let request = CompareRequest {
            pooled: false,
            ..CompareRequest::new(0, numbers.theta)
        };
        let is_complete = sets.len() == inputs.record.plan.targets.len();
        let document = compare(sets, &request).ok().filter(|_| is_complete);
        let method = Some(method::findings(numbers.theta));
        if trust.is_some_and(|trust| trust.level == TrustLevel::Low) {
            return Matrix {
                method,
                document,
                ..Matrix::default()
            };
        }
        findings.retain(|finding| {
            !numbers
                .cases
                .iter()
                .any(|case| case.operation == finding.operation && case.withheld.is_some())
        });
        Matrix {
            findings: Some(findings),
            warnings,
            method,
            document,
        }
    }
}

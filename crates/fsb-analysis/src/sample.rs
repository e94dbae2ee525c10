//! What is ranked: the values of targets.

use crate::comparison::{BlockValue, Difference};
use crate::error::AnalysisError;

/// The values of one target, one a block or run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Samples with the same number here took turns in the same blocks and are compared block by block; others are
    /// independent and compared by Welch's method.
    pub shares_blocks: Option<usize>,
    /// The values; `block` tells the runs apart.
    pub values: Vec<BlockValue>,
}

impl Sample {
    /// Whether the two are compared block by block.
    pub(crate) fn is_paired_with(&self, other: &Sample) -> bool {
        self.shares_blocks.is_some() && self.shares_blocks == other.shares_blocks
    }

    /// Whether its targets exchange parts of the medium, and each value says which it was.
    pub(crate) fn has_parts(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(|value| value.part.is_some())
    }

    /// The mean difference of logarithms of `candidate` from this sample.
    pub(crate) fn difference(&self, candidate: &Sample) -> Result<Option<Difference>, AnalysisError> {
        if self.is_paired_with(candidate) {
            return Difference::paired(&self.values, &candidate.values);
        }
        let plain = |sample: &Sample| sample.values.iter().map(|value| value.value).collect::<Vec<_>>();
        Difference::welch(&plain(self), &plain(candidate))
    }
}

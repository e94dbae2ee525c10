//! The value of one target in one block, and the methods of comparing values of two targets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{AnalysisError, logarithm};

/// The value of one trial, and its block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockValue {
    pub block: u32,
    /// The value, a rate or a time.
    pub value: f64,
    /// The slice of the medium that it was measured on, if targets exchange slices. Unique over segments of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// The squared standard error of the value's logarithm, from the samples that it is the mean of. Absent for fewer
    /// than two samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
}

impl BlockValue {
    /// Returns a value that was measured on the whole medium.
    pub fn new(block: u32, value: f64) -> BlockValue {
        BlockValue { block, value, part: None, within: None }
    }
}

/// The method by which two sets of trials were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Block by block: what a block has in common cancels out.
    Paired,
    /// Block by block, without what the parts of the medium differ in.
    PairedOnParts,
    /// Run by run, of targets that took turns in each of several runs.
    PairedRuns,
    /// Two independent samples of runs (Welch 1947).
    Welch,
}

pub(crate) fn by_block(values: &[BlockValue]) -> Result<BTreeMap<u32, f64>, AnalysisError> {
    values.iter().map(|value| Ok((value.block, logarithm(value.value)?))).collect()
}

//! Values of targets in blocks and runs, which are compared and ranked.

use std::collections::BTreeMap;

use fsb_model::stop::Analyses;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use serde::{Deserialize, Serialize};

/// The value of one trial, and its block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockValue {
    pub block: u32,
    /// The value, a rate or a time.
    pub value: f64,
    /// The slice of the medium that it was measured on, if targets exchange slices. Unique over
    /// segments of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<u32>,
    /// The squared standard error of the value's logarithm, from the samples that it is the mean
    /// of. Absent for fewer than two samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
}

impl BlockValue {
    /// Returns a value that was measured on the whole medium.
    pub fn new(block: u32, value: f64) -> BlockValue {
        BlockValue {
            block,
            value,
            slice: None,
            within: None,
        }
    }
}

/// The method by which two sets of trials were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Block by block: effects that a block has in common cancel out.
    Paired,
    /// Block by block, without the effects of the slices of the medium.
    PairedOnSlices,
    /// Run by run, of targets that took turns in each of several runs.
    PairedRuns,
    /// Two independent samples of runs (Welch 1947).
    Welch,
}

/// The values of one target or set, each of one block of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sample {
    /// An index of shared blocks. Samples with the same index took turns in the same blocks of the
    /// same runs; others are independent.
    pub shares_blocks: Option<usize>,
    /// The interim analyses of the run.
    pub analyses: Analyses,
    /// The values. A block has one number over all runs.
    pub values: Vec<BlockValue>,
    /// The run of each value.
    pub runs: Vec<u32>,
}

impl Sample {
    /// Returns the values of one target in the blocks of one run.
    pub fn of_blocks(values: Vec<BlockValue>, analyses: &Analyses) -> Sample {
        Sample {
            shares_blocks: Some(0),
            analyses: analyses.clone(),
            runs: vec![0; values.len()],
            values,
        }
    }

    /// Returns one value for each of several runs.
    pub fn of_runs(values: Vec<BlockValue>) -> Sample {
        Sample {
            runs: (0..).zip(&values).map(|(run, _)| run).collect(),
            values,
            ..Sample::default()
        }
    }

    /// Returns the sample without its values.
    pub fn emptied(&self) -> Sample {
        Sample {
            values: Vec::new(),
            runs: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the sample without the values of blocks after this one.
    pub fn up_to(&self, block: u32) -> Sample {
        let (values, runs) = self
            .values
            .iter()
            .zip(&self.runs)
            .filter(|(value, _)| value.block <= block)
            .unzip();
        Sample {
            values,
            runs,
            ..self.clone()
        }
    }

    /// Returns whether the two took turns.
    pub fn is_paired_with(&self, other: &Sample) -> bool {
        self.shares_blocks.is_some() && self.shares_blocks == other.shares_blocks
    }

    /// Returns whether the two took turns in the blocks of one run: then blocks are the units,
    /// otherwise runs are.
    pub fn is_compared_by_block(&self, other: &Sample) -> bool {
        let mut runs = self.runs.iter().chain(&other.runs);
        let first = runs.next();
        self.is_paired_with(other) && runs.all(|run| Some(run) == first)
    }

    /// Returns whether its targets exchange slices of the medium, and each value records its slice.
    pub fn has_slices(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(|value| value.slice.is_some())
    }
}

pub(crate) fn by_block(values: &[BlockValue]) -> Result<BTreeMap<u32, f64>, AnalysisError> {
    values
        .iter()
        .map(|value| Ok((value.block, logarithm(value.value)?)))
        .collect()
}

/// The reason why numbers cannot be analysed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AnalysisError {
    /// There is nothing to analyse.
    #[error("there are no values")]
    Empty,
    /// A rate or a time must be a finite number above zero. Anything else is a fault of the
    /// measurement.
    #[error("{0} is not a measurement: rates and times are finite and above zero")]
    NotPositive(f64),
    /// Plain statistics need finite numbers.
    #[error("{0} is not a finite number")]
    NotFinite(f64),
    /// A confidence level must be strictly between 0 and 1.
    #[error("{0} is not a level of confidence: it must lie between 0 and 1, such as 0.95")]
    Level(f64),
    /// A weight must be a finite number above zero.
    #[error("{0} is not a weight: weights are finite and above zero")]
    Weight(f64),
}

/// Draws as many blocks as there are, with replacement.
pub(crate) fn resampled<'a>(blocks: &'a [Vec<f64>], random: &mut Pcg64) -> Vec<&'a Vec<f64>> {
    let drawn = (0..blocks.len()).map(|_| (random.next_u64() % blocks.len() as u64) as usize);
    drawn.map(|place| &blocks[place]).collect()
}

/// Returns the logarithms of rates or times.
pub(crate) fn logarithms(values: &[f64]) -> Result<Vec<f64>, AnalysisError> {
    values.iter().map(|value| logarithm(*value)).collect()
}

/// Returns the logarithm of a rate or a time.
pub(crate) fn logarithm(value: f64) -> Result<f64, AnalysisError> {
    if value.is_finite() && value > 0.0 {
        Ok(libm::log(value))
    } else {
        Err(AnalysisError::NotPositive(value))
    }
}

/// Checks a level of confidence.
pub(crate) fn level(level: f64) -> Result<f64, AnalysisError> {
    if level > 0.0 && level < 1.0 {
        Ok(level)
    } else {
        Err(AnalysisError::Level(level))
    }
}

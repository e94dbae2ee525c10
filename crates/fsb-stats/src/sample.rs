//! The values of targets, which are ranked.

use fsb_model::stop::Analyses;

use crate::block_value::BlockValue;

/// The values of one target or set, each of one block of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sample {
    /// An index of shared blocks. Samples with the same index took turns in the same blocks of the same runs; others
    /// are independent.
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
        Sample { shares_blocks: Some(0), analyses: analyses.clone(), runs: vec![0; values.len()], values }
    }

    /// Returns one value for each of several runs.
    pub fn of_runs(values: Vec<BlockValue>) -> Sample {
        Sample { runs: (0..).zip(&values).map(|(run, _)| run).collect(), values, ..Sample::default() }
    }

    /// The same without its values.
    pub fn emptied(&self) -> Sample {
        Sample { values: Vec::new(), runs: Vec::new(), ..self.clone() }
    }

    /// The same without the values of blocks after this one.
    pub fn up_to(&self, block: u32) -> Sample {
        let kept = |(value, _): &(&BlockValue, &u32)| value.block <= block;
        let (values, runs) = self.values.iter().zip(&self.runs).filter(kept).unzip();
        Sample { values, runs, ..self.clone() }
    }

    /// Whether the two took turns.
    pub fn is_paired_with(&self, other: &Sample) -> bool {
        self.shares_blocks.is_some() && self.shares_blocks == other.shares_blocks
    }

    /// Whether the two took turns in the blocks of one run: then blocks are the units, otherwise runs are.
    pub fn is_compared_by_block(&self, other: &Sample) -> bool {
        let mut runs = self.runs.iter().chain(&other.runs);
        let first = runs.next();
        self.is_paired_with(other) && runs.all(|run| Some(run) == first)
    }

    /// Returns whether its targets exchange slices of the medium, and each value records its slice.
    pub fn has_parts(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(|value| value.part.is_some())
    }
}

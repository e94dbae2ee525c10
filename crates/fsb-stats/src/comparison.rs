//! A comparison of one target with another in one workload.

use serde::{Deserialize, Serialize};

use crate::block_value::Method;
use crate::interval::Interval;
use crate::runs::{Power, Unjudged};
use crate::verdict::Verdict;

/// Candidate over baseline, with its uncertainty and verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Candidate / baseline; whether more is better is the metric's matter.
    pub ratio: f64,
    /// The interval of the ratio; absent below two blocks.
    pub interval: Option<Interval>,
    /// The level of the interval: 0.95, or more where several intervals hold together.
    pub level: f64,
    /// The level of the analysis that the interval is of, where a run has interim analyses: with it all of them together keep
    /// `level`. Absent where the number of blocks was fixed beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_level: Option<f64>,
    /// Blocks in common, runs in common, or runs on the smaller side: see `method`.
    pub n: usize,
    /// The method of the comparison.
    pub method: Method,
    /// Two-sided probability of such a difference between equals, at any of the analyses; absent without an
    /// interval.
    pub p_value: Option<f64>,
    /// The verdict from the interval.
    pub verdict: Verdict,
    /// The reason why a pair that is compared by runs has no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<Unjudged>,
    /// The changes that the comparison of runs can show; absent where blocks are compared, or nothing is known of how runs vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
}

impl Comparison {
    /// Returns the same comparison with the roles of baseline and candidate exchanged.
    pub fn inverse(&self) -> Comparison {
        let inverted = |value: f64| (1.0 / value).clamp(f64::MIN_POSITIVE, f64::MAX);
        Comparison {
            ratio: inverted(self.ratio),
            interval: self.interval.map(|i| Interval { lo: inverted(i.hi), hi: inverted(i.lo) }),
            verdict: self.verdict.inverse(),
            ..self.clone()
        }
    }
}

//! One target against another at one workload.

use std::collections::BTreeMap;

use fsb_model::Better;
use serde::{Deserialize, Serialize};

use crate::description::mean_and_sd;
use crate::distribution::{t_quantile, t_two_sided};
use crate::error::{AnalysisError, logarithm};
use crate::interval::{Interval, exp};
use crate::runs::{Power, RunContrast, Terms, Unjudged};
use crate::sample::Sample;
use crate::sequential::Boundary;
use crate::verdict::Verdict;
use crate::{FEWEST_JUDGED, LEVEL};

/// The value of one trial, and the block that it was made in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockValue {
    pub block: u32,
    /// The value, a rate or a time.
    pub value: f64,
    /// The part of the medium that it was measured on, where targets exchange parts; unique over segments of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
}

impl BlockValue {
    /// Measured on the whole medium.
    pub fn new(block: u32, value: f64) -> BlockValue {
        BlockValue { block, value, part: None }
    }
}

/// How two sets of trials were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// Candidate over baseline, with its uncertainty and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Candidate / baseline; whether more is better is the metric's matter.
    pub ratio: f64,
    /// The interval of the ratio; absent below two blocks.
    pub interval: Option<Interval>,
    /// The level of the interval: 0.95, or more where several intervals hold together.
    pub level: f64,
    /// The level of a single look, where results are looked at several times: with it the interval keeps `level` at
    /// all looks together. Absent where the number of blocks was fixed beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_level: Option<f64>,
    /// Blocks in common, runs in common, or runs on the smaller side: see `method`.
    pub n: usize,
    /// How they were compared.
    pub method: Method,
    /// Two-sided probability of such a difference between equals, at any of the looks; absent where there is no
    /// interval.
    pub p_value: Option<f64>,
    /// What the interval says.
    pub verdict: Verdict,
    /// The reason why a pair that is compared by runs has no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<Unjudged>,
    /// The changes that the comparison of runs can show; absent where blocks are compared, or nothing is known of how runs vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
}

impl Comparison {
    /// The same finding with the roles of baseline and candidate exchanged.
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

/// Compares by block: d = ln(candidate / baseline) in every common block, exp(d̄ ± t·s/√n).
///
/// `theta` is the smallest ratio that matters, 0.03 for 3 %. `None` where no block is in common. A block that occurs
/// twice counts with its last value.
pub fn paired(
    baseline: &[BlockValue],
    candidate: &[BlockValue],
    better: Better,
    theta: f64,
) -> Result<Option<Comparison>, AnalysisError> {
    Ok(Difference::paired(baseline, candidate)?.map(|difference| difference.judged(LEVEL, None, better, theta)))
}

/// Compares two independent samples of runs on logarithms by Welch's method; `None` where a side is empty.
pub fn welch(
    baseline: &[f64],
    candidate: &[f64],
    better: Better,
    theta: f64,
) -> Result<Option<Comparison>, AnalysisError> {
    let runs = |values: &[f64]| Sample::of_runs((0..).zip(values).map(|(run, v)| BlockValue::new(run, *v)).collect());
    let contrast = RunContrast::of(&runs(baseline), &runs(candidate))?;
    Ok(contrast.map(|contrast| contrast.difference(&Terms::default()).judged(LEVEL, None, better, theta)))
}

/// A mean difference of logarithms with its standard error: all that intervals of any level need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Difference {
    mean: f64,
    error: f64,
    degrees: f64,
    n: usize,
    method: Method,
    /// The variance of one block's difference; 0 where none is known.
    variance: f64,
    unjudged: Option<Unjudged>,
    power: Option<Power>,
}

impl Difference {
    /// With fewer degrees of freedom there is no interval.
    pub(crate) const FEWEST_DEGREES: f64 = 1.0 - 1e-9;

    /// From a model, which also says how much one block's difference varies.
    pub(crate) fn fitted(mean: f64, error: f64, variance: f64, degrees: f64, n: usize) -> Difference {
        Difference { mean, error, degrees, n, method: Method::PairedOnParts, variance, unjudged: None, power: None }
    }

    /// Of blocks that tell no error.
    pub(crate) fn without_interval(mean: f64, n: usize) -> Difference {
        Difference::fitted(mean, 0.0, 0.0, 0.0, n)
    }

    pub(crate) fn paired(
        baseline: &[BlockValue],
        candidate: &[BlockValue],
    ) -> Result<Option<Difference>, AnalysisError> {
        let (baseline, candidate) = (by_block(baseline)?, by_block(candidate)?);
        let differences: Vec<f64> =
            baseline.iter().filter_map(|(block, b)| candidate.get(block).map(|c| c - b)).collect();
        Ok(Difference::of_blocks(&differences))
    }

    /// From one difference of logarithms a block.
    pub(crate) fn of_blocks(differences: &[f64]) -> Option<Difference> {
        if differences.is_empty() {
            return None;
        }
        let n = differences.len();
        let (mean, sd) = mean_and_sd(differences);
        let degrees = (n as f64 - 1.0).max(1.0);
        let fitted = Difference::fitted(mean, sd / (n as f64).sqrt(), sd * sd, degrees, n);
        Some(Difference { method: Method::Paired, ..fitted })
    }

    /// From runs: a standard error with its degrees of freedom, and the reason why it is not judged, if any.
    pub(crate) fn of_runs(
        mean: f64,
        (error, degrees): (f64, f64),
        n: usize,
        method: Method,
        unjudged: Option<Unjudged>,
        power: Option<Power>,
    ) -> Difference {
        Difference { mean, error, degrees, n, method, variance: 0.0, unjudged, power }
    }

    /// The mean difference of logarithms.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation of one block's difference.
    pub(crate) fn spread(&self) -> Option<f64> {
        (!self.is_of_runs()).then(|| self.variance.sqrt())
    }

    fn is_of_runs(&self) -> bool {
        matches!(self.method, Method::Welch | Method::PairedRuns)
    }

    /// Of a single run the variation between runs must be known from elsewhere; sides that share no session say nothing of how
    /// sessions vary.
    fn has_interval(&self) -> bool {
        let known = match self.is_of_runs() {
            true => match self.unjudged {
                Some(Unjudged::OneRun | Unjudged::NoSharedSession) => false,
                Some(Unjudged::FewRuns) => self.n >= 2,
                None => true,
            },
            false => self.n >= 2,
        };
        known && self.degrees >= Difference::FEWEST_DEGREES
    }

    /// Two-sided probability of such a difference between equals, at this look alone.
    pub(crate) fn p_value(&self) -> Option<f64> {
        match () {
            () if !self.has_interval() => None,
            () if self.mean == 0.0 => Some(1.0),
            () => Some(t_two_sided(self.mean / self.error, self.degrees)),
        }
    }

    pub(crate) fn is_judged(&self) -> bool {
        let enough = if self.is_of_runs() { self.unjudged.is_none() } else { self.n >= FEWEST_JUDGED };
        enough && self.has_interval()
    }

    /// The interval on the scale of logarithms.
    pub(crate) fn interval(&self, level: f64) -> Option<Interval> {
        let half = t_quantile(level, self.degrees) * self.error;
        self.has_interval().then_some(Interval { lo: self.mean - half, hi: self.mean + half })
    }

    /// Judged by the interval of `level`, which stands at all looks of `boundary` together where there is one.
    pub(crate) fn judged(&self, level: f64, boundary: Option<&Boundary>, better: Better, theta: f64) -> Comparison {
        let nominal_level = boundary.map(|boundary| 1.0 - boundary.nominal(1.0 - level));
        let interval = self.interval(nominal_level.unwrap_or(level));
        let verdict = match interval {
            Some(interval) if self.is_judged() => Verdict::of(interval, theta, better),
            _ => Verdict::NotJudged,
        };
        Comparison {
            ratio: exp(self.mean),
            interval: interval.map(Interval::exp),
            level,
            n: self.n,
            method: self.method,
            p_value: self.p_value().map(|p| boundary.map_or(p, |boundary| boundary.overall(p))),
            nominal_level,
            verdict,
            unjudged: self.unjudged,
            power: self.power,
        }
    }
}

pub(crate) fn by_block(values: &[BlockValue]) -> Result<BTreeMap<u32, f64>, AnalysisError> {
    values.iter().map(|value| Ok((value.block, logarithm(value.value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(values: &[f64]) -> Vec<BlockValue> {
        (1..).zip(values).map(|(block, value)| BlockValue::new(block, *value)).collect()
    }

    #[test]
    fn a_rate_that_doubles_is_faster_and_a_time_that_doubles_is_slower() {
        let (once, twice) = (blocks(&[100.0, 110.0, 95.0, 105.0, 99.0]), blocks(&[201.0, 219.0, 191.0, 210.0, 197.0]));
        let rate = paired(&once, &twice, Better::Higher, 0.03).unwrap().unwrap();
        assert_eq!(rate.verdict, Verdict::Faster);
        assert!(rate.ratio > 1.98 && rate.ratio < 2.02, "{}", rate.ratio);
        let time = paired(&once, &twice, Better::Lower, 0.03).unwrap().unwrap();
        assert_eq!((time.ratio, time.verdict), (rate.ratio, Verdict::Slower));
    }

    #[test]
    fn only_blocks_in_common_count() {
        let long = blocks(&[100.0, 100.0, 100.0, 100.0, 100.0, 100.0]);
        let short = vec![BlockValue::new(2, 50.0), BlockValue::new(9, 70.0)];
        let comparison = paired(&long, &short, Better::Higher, 0.03).unwrap().unwrap();
        assert_eq!((comparison.n, comparison.verdict, comparison.interval), (1, Verdict::NotJudged, None));
        assert!((comparison.ratio - 0.5).abs() < 1e-12);
        assert_eq!(paired(&long, &[], Better::Higher, 0.03), Ok(None));
        assert_eq!(welch(&[1.0], &[], Better::Higher, 0.03), Ok(None));
    }

    #[test]
    fn without_any_spread_the_interval_is_a_point() {
        let (a, b) = (blocks(&[100.0; 6]), blocks(&[90.0; 6]));
        let exact = paired(&a, &b, Better::Higher, 0.03).unwrap().unwrap();
        assert_eq!((exact.verdict, exact.p_value), (Verdict::Slower, Some(0.0)));
        let same = paired(&a, &a, Better::Higher, 0.03).unwrap().unwrap();
        assert_eq!((same.verdict, same.ratio, same.p_value), (Verdict::Equivalent, 1.0, Some(1.0)));
        let welch = welch(&[100.0; 6], &[90.0; 7], Better::Higher, 0.03).unwrap().unwrap();
        assert_eq!((welch.verdict, welch.n), (Verdict::Slower, 6));
    }

    #[test]
    fn a_value_that_is_no_rate_is_an_error() {
        let (good, bad) = (blocks(&[1.0; 5]), blocks(&[1.0, 2.0, 0.0, 1.0, 1.0]));
        assert_eq!(paired(&good, &bad, Better::Higher, 0.03), Err(AnalysisError::NotPositive(0.0)));
        assert_eq!(welch(&[1.0, -3.0], &[1.0], Better::Higher, 0.03), Err(AnalysisError::NotPositive(-3.0)));
    }

    proptest! {
        #[test]
        fn exchanging_the_roles_inverts_the_finding(
            a in prop::collection::vec(1.0f64..3.0, 5..12),
            b in prop::collection::vec(1.0f64..3.0, 5..12),
        ) {
            for (there, back) in [
                (paired(&blocks(&a), &blocks(&b), Better::Higher, 0.03), paired(&blocks(&b), &blocks(&a), Better::Higher, 0.03)),
                (welch(&a, &b, Better::Lower, 0.03), welch(&b, &a, Better::Lower, 0.03)),
            ] {
                let (there, back) = (there.unwrap().unwrap(), back.unwrap().unwrap());
                prop_assert_eq!(there.verdict, back.verdict.inverse());
                let (i, j) = (there.interval.unwrap(), back.inverse().interval.unwrap());
                prop_assert!((i.lo / j.lo - 1.0).abs() < 1e-9 && (i.hi / j.hi - 1.0).abs() < 1e-9);
                prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
            }
        }

        #[test]
        fn another_unit_changes_no_verdict(
            a in prop::collection::vec(1.0f64..3.0, 5..12), factor in 1e-9f64..1e9, slowdown in 0.5f64..1.5,
        ) {
            let b: Vec<f64> = a.iter().enumerate().map(|(i, v)| v * slowdown * (1.0 + 0.01 * i as f64)).collect();
            let scaled = |values: &[f64]| blocks(&values.iter().map(|v| v * factor).collect::<Vec<_>>());
            let plain = paired(&blocks(&a), &blocks(&b), Better::Higher, 0.03).unwrap().unwrap();
            let other = paired(&scaled(&a), &scaled(&b), Better::Higher, 0.03).unwrap().unwrap();
            prop_assert!((plain.ratio / other.ratio - 1.0).abs() < 1e-9);
            prop_assert_eq!(plain.verdict, other.verdict);
        }

        #[test]
        fn nothing_is_ever_infinite(exponents in prop::collection::vec((-300.0f64..300.0, -300.0f64..300.0), 1..9)) {
            let a: Vec<f64> = exponents.iter().map(|(e, _)| libm::pow(10.0, *e)).collect();
            let b: Vec<f64> = exponents.iter().map(|(_, e)| libm::pow(10.0, *e)).collect();
            for comparison in [
                paired(&blocks(&a), &blocks(&b), Better::Higher, 0.03).unwrap().unwrap(),
                welch(&a, &b, Better::Higher, 0.03).unwrap().unwrap(),
            ] {
                for comparison in [comparison.inverse(), comparison] {
                    prop_assert!(comparison.ratio.is_finite() && comparison.ratio > 0.0);
                    prop_assert!(comparison.p_value.is_none_or(|p| (0.0..=1.0).contains(&p)));
                    let ends = comparison.interval.map_or([1.0, 1.0], |i| [i.lo, i.hi]);
                    prop_assert!(ends.iter().all(|end| end.is_finite() && *end > 0.0));
                    prop_assert!(ends[0] <= ends[1]);
                }
            }
        }
    }
}

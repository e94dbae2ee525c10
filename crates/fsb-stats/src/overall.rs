//! One ratio over many workloads.

use std::collections::BTreeMap;

use fsb_model::Better;

use crate::LEVEL;
use crate::block_value::Method;
use crate::comparison::Comparison;
use crate::difference::{Difference, Residuals};
use crate::error::AnalysisError;
use crate::page::{Correlation, inflation};
use crate::ranking::{Fit, Ranking};

/// One workload's share in the whole.
#[derive(Debug, Clone, Copy)]
pub struct Weighted<'a> {
    /// Its weight; equal weights are the default everywhere.
    pub weight: f64,
    /// All targets of the workload. The direction of its metric counts: times enter upside down, so that more is faster.
    pub ranking: &'a Ranking,
}

/// The weighted geometric mean of ratios given as `(ratio, weight)`.
pub fn geometric_mean(ratios: &[(f64, f64)]) -> Result<f64, AnalysisError> {
    let total = total_weight(ratios.iter().map(|(_, weight)| *weight))?;
    let logs = ratios.iter().map(|(ratio, weight)| Ok(crate::error::logarithm(*ratio)? * (weight / total)));
    Ok(crate::interval::exp(logs.sum::<Result<f64, AnalysisError>>()?))
}

/// The geometric mean of the workloads' speed ratios of `candidate` to `baseline`, with an interval.
///
/// It is the weighted sum of the workloads' own estimates, each from all of its blocks. The unit is the block: the
/// residuals of each workload are summed by block before they are squared (a cluster-robust variance; Liang and Zeger
/// 1986), so that workloads with a common random effect of a block do not count as independent. A workload that ended
/// early has fewer blocks. The degrees of freedom are Satterthwaite's, for blocks with unequal weights. The ratio is
/// one of speeds: more than 1 is faster. `correlation` is that of neighbouring blocks
/// ([`hold_over_page`](crate::hold_over_page)). Returns `None` if a workload does not compare the two by block.
pub fn overall(
    workloads: &[Weighted<'_>],
    baseline: usize,
    candidate: usize,
    correlation: Option<Correlation>,
    theta: f64,
) -> Result<Option<Comparison>, AnalysisError> {
    let total = total_weight(workloads.iter().map(|workload| workload.weight))?;
    let mut mean = 0.0;
    // By block: the sum of residuals, and its variance if workloads are independent.
    let mut blocks: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    let mut last: Option<&Fit> = None;
    for workload in workloads {
        let is_meant = |fit: &&Fit| (fit.baseline, fit.candidate) == (baseline, candidate) && fit.run.is_some();
        let Some(fit) = workload.ranking.fits().iter().find(is_meant) else { return Ok(None) };
        let sign = if workload.ranking.better() == Better::Higher { 1.0 } else { -1.0 };
        let share = sign * workload.weight / total;
        let difference = &fit.difference;
        mean += share * difference.mean;
        let residuals = &difference.residuals.by_block;
        // The fit took a part of the residuals. The scale corrects for that with the degrees of freedom.
        let scale = share * (difference.leverage() / difference.degrees).sqrt();
        for (block, residual) in residuals {
            let (sum, variance) = blocks.entry(*block).or_default();
            *sum += scale * residual;
            *variance += (scale * scale) * difference.variance;
        }
        if last.is_none_or(|last| last.ended.is_some() && fit.ended.is_none()) {
            last = Some(fit);
        }
    }
    let Some(last) = last else { return Ok(None) };
    let squares: f64 = blocks.values().map(|(sum, _)| sum * sum).sum();
    let variances = || blocks.values().map(|(_, variance)| *variance);
    let (variance, fourth) = (variances().sum::<f64>(), variances().map(|variance| variance * variance).sum::<f64>());
    let alike = if fourth > 0.0 { variance * variance / fourth } else { blocks.len() as f64 };
    let inflation = inflation(correlation);
    let n = blocks.len();
    let difference =
        Difference::fitted(mean, inflation * squares.sqrt(), 0.0, (alike - 1.0).max(1.0), n, Residuals::default());
    let difference = Difference { method: Method::Paired, ..difference };
    Ok(Some(difference.judged(LEVEL, &last.analysis, Better::Higher, theta)))
}

fn total_weight(weights: impl ExactSizeIterator<Item = f64>) -> Result<f64, AnalysisError> {
    if weights.len() == 0 {
        return Err(AnalysisError::Empty);
    }
    weights.into_iter().try_fold(0.0, |sum, weight| {
        if weight.is_finite() && weight > 0.0 { Ok(sum + weight) } else { Err(AnalysisError::Weight(weight)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_value::BlockValue;
    use crate::verdict::Verdict;

    fn blocks(values: &[f64]) -> Vec<BlockValue> {
        (1..).zip(values).map(|(block, value)| BlockValue::new(block, *value)).collect()
    }

    #[test]
    fn weights_matter_and_must_be_weights() {
        assert!((geometric_mean(&[(4.0, 1.0), (1.0, 1.0)]).unwrap() - 2.0).abs() < 1e-12);
        assert!((geometric_mean(&[(8.0, 1.0), (1.0, 2.0)]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), Err(AnalysisError::Empty));
        assert_eq!(geometric_mean(&[(2.0, 0.0)]), Err(AnalysisError::Weight(0.0)));
        assert_eq!(geometric_mean(&[(-2.0, 1.0)]), Err(AnalysisError::NotPositive(-2.0)));
    }

    fn row(baseline: &[f64], candidate: &[f64], better: Better) -> Ranking {
        Ranking::of(&[blocks(baseline), blocks(candidate)], better, 0.03).unwrap()
    }

    fn of(rows: &[Ranking]) -> Option<Comparison> {
        let workloads: Vec<Weighted<'_>> = rows.iter().map(|ranking| Weighted { weight: 1.0, ranking }).collect();
        let none = Correlation { estimate: 0.0, error: 1e-9 };
        overall(&workloads, 0, 1, Some(none), 0.03).unwrap()
    }

    #[test]
    fn times_enter_upside_down() {
        let rate = row(&[1.0; 6], &[2.0; 6], Better::Higher);
        let time = row(&[1.0; 6], &[2.0; 6], Better::Lower);
        let doubled = of(std::slice::from_ref(&rate)).unwrap();
        assert!((doubled.ratio - 2.0).abs() < 1e-12);
        assert_eq!(doubled.verdict, Verdict::Faster);
        let balanced = of(&[rate, time]).unwrap();
        assert_eq!((balanced.ratio, balanced.verdict), (1.0, Verdict::Equivalent));
    }

    const NOISE: [f64; 8] = [0.03, -0.05, 0.02, 0.04, -0.03, -0.02, 0.05, -0.04];

    /// Eight blocks, or the first of them, in which the candidate differs by `luck`.
    fn noisy(luck: &[f64]) -> Ranking {
        let values: Vec<f64> = luck.iter().map(|luck| libm::exp(*luck)).collect();
        row(&vec![1.0; values.len()], &values, Better::Higher)
    }

    #[test]
    fn the_interval_is_that_of_the_mean_over_workloads_in_each_block() {
        let other: Vec<f64> = NOISE.iter().rev().map(|noise| 0.5 * noise + 0.1).collect();
        let means: Vec<f64> = NOISE.iter().zip(&other).map(|(a, b)| (a + b) / 2.0).collect();
        let (whole, paired) = (of(&[noisy(&NOISE), noisy(&other)]).unwrap(), noisy(&means));
        let (ours, theirs) = (whole.interval.unwrap(), paired.pairs[0].comparison.interval.unwrap());
        assert!(
            (ours.lo / theirs.lo - 1.0).abs() < 1e-9 && (ours.hi / theirs.hi - 1.0).abs() < 1e-9,
            "{ours:?} {theirs:?}"
        );
    }

    #[test]
    fn a_workload_that_ended_early_keeps_the_blocks_of_the_others() {
        let whole = of(&[noisy(&NOISE), noisy(&NOISE[..5])]).unwrap();
        assert_eq!(whole.n, 8);
        let cut = of(&[noisy(&NOISE[..5]), noisy(&NOISE[..5])]).unwrap();
        assert!(whole.interval.unwrap().relative_half_width() < cut.interval.unwrap().relative_half_width());
        assert_eq!(of(&[noisy(&NOISE), noisy(&[])]), None);
    }

    #[test]
    fn shared_luck_is_not_averaged_out() {
        let opposite: Vec<f64> = NOISE.iter().map(|noise| -noise).collect();
        let shared = of(&[noisy(&NOISE), noisy(&NOISE)]).unwrap().interval.unwrap();
        let one = noisy(&NOISE).pairs[0].comparison.interval.unwrap();
        assert!((shared.lo / one.lo - 1.0).abs() < 1e-9);
        assert!(of(&[noisy(&NOISE), noisy(&opposite)]).unwrap().interval.unwrap().relative_half_width() < 1e-9);
    }
}

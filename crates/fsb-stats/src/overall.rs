//! One ratio over many workloads.

use fsb_model::Better;

use crate::LEVEL;
use crate::block_value::{BlockValue, by_block};
use crate::comparison::Comparison;
use crate::difference::Difference;
use crate::error::AnalysisError;

/// One workload's share in the whole.
#[derive(Debug, Clone, Copy)]
pub struct Weighted<'a> {
    /// Its weight; equal weights are the default everywhere.
    pub weight: f64,
    /// Which way its metric is good: times enter upside down, so that more is faster.
    pub better: Better,
    /// The baseline's trials.
    pub baseline: &'a [BlockValue],
    /// The candidate's trials.
    pub candidate: &'a [BlockValue],
}

/// The weighted geometric mean of ratios given as `(ratio, weight)`.
pub fn geometric_mean(ratios: &[(f64, f64)]) -> Result<f64, AnalysisError> {
    let total = total_weight(ratios.iter().map(|(_, weight)| *weight))?;
    let logs = ratios.iter().map(|(ratio, weight)| Ok(crate::error::logarithm(*ratio)? * (weight / total)));
    Ok(crate::interval::exp(logs.sum::<Result<f64, AnalysisError>>()?))
}

/// The geometric mean of speed ratios over workloads, with an interval.
///
/// The unit is the block: in each block that all the workloads share, the weighted mean of ln(candidate / baseline)
/// is one number, and the paired t-interval is taken over those numbers. So workloads that share a block's luck do
/// not pretend to be independent. The ratio is one of speeds: more than 1 is faster. `None` where no block has all.
pub fn overall(workloads: &[Weighted<'_>], theta: f64) -> Result<Option<Comparison>, AnalysisError> {
    let total = total_weight(workloads.iter().map(|workload| workload.weight))?;
    let mut sums: Option<std::collections::BTreeMap<u32, f64>> = None;
    for workload in workloads {
        let (baseline, candidate) = (by_block(workload.baseline)?, by_block(workload.candidate)?);
        let sign = if workload.better == Better::Higher { 1.0 } else { -1.0 };
        let share = sign * workload.weight / total;
        let earlier = sums.take();
        let added = baseline.iter().filter_map(|(block, b)| {
            let difference = share * (candidate.get(block)? - b);
            let so_far = match &earlier {
                Some(sums) => *sums.get(block)?,
                None => 0.0,
            };
            Some((*block, so_far + difference))
        });
        sums = Some(added.collect());
    }
    let differences: Vec<f64> = sums.unwrap_or_default().into_values().collect();
    Ok(Difference::of_blocks(&differences).map(|difference| difference.judged(LEVEL, None, Better::Higher, theta)))
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

    #[test]
    fn times_enter_upside_down() {
        let (one, two) = (blocks(&[1.0; 6]), blocks(&[2.0; 6]));
        let rate = Weighted { weight: 1.0, better: Better::Higher, baseline: &one, candidate: &two };
        let time = Weighted { weight: 1.0, better: Better::Lower, baseline: &one, candidate: &two };
        let doubled = overall(&[rate], 0.03).unwrap().unwrap();
        assert!((doubled.ratio - 2.0).abs() < 1e-12);
        assert_eq!(doubled.verdict, Verdict::Faster);
        let balanced = overall(&[rate, time], 0.03).unwrap().unwrap();
        assert_eq!((balanced.ratio, balanced.verdict), (1.0, Verdict::Equivalent));
    }

    #[test]
    fn only_blocks_with_every_workload_count() {
        let (long, short) = (blocks(&[1.0; 8]), blocks(&[1.0; 5]));
        let whole = Weighted { weight: 1.0, better: Better::Higher, baseline: &long, candidate: &long };
        let part = Weighted { weight: 1.0, better: Better::Higher, baseline: &long, candidate: &short };
        assert_eq!(overall(&[whole, part], 0.03).unwrap().unwrap().n, 5);
        let none = Weighted { weight: 1.0, better: Better::Higher, baseline: &long, candidate: &[] };
        assert_eq!(overall(&[whole, none], 0.03), Ok(None));
    }
}

//! Amounts that may be 0, such as flushes. They have no ratio to a baseline of 0.

use std::collections::BTreeMap;

use fsb_model::stop::Analyses;
use serde::Serialize;

use crate::sequential::Analysis;
use crate::{BlockValue, FEWEST_JUDGED, LEVEL, describe, t_interval};

/// The probability that any comparison of a page shows more although all targets need the same.
const ALPHA: f64 = 0.005;

/// The answer whether a candidate needs more than a baseline of which values may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Excess {
    /// The means of the baseline and of the candidate, over the blocks that both have.
    pub means: [f64; 2],
    /// Whether the candidate needs more than θ more. `None` if the blocks do not tell.
    pub is_more: Option<bool>,
}

/// Compares amounts of a baseline and a candidate block by block. Returns `None` for negative
/// values, and for too few blocks.
///
/// The difference b − (1 + θ) a of a block is also defined if a is 0 (Fieller 1954). The candidate
/// needs more if the t-interval of its mean is above 0, after Bonferroni's correction for
/// `comparisons`. It does not if the interval of this comparison alone ends at 0 or below, because
/// a gate passes only if all of them do.
pub fn excess(
    samples: [&[BlockValue]; 2],
    analyses: &Analyses,
    theta: f64,
    comparisons: usize,
) -> Option<Excess> {
    let [baseline, candidate] = samples.map(|values| {
        let by_block = values.iter().map(|value| (value.block, value.value));
        by_block.collect::<BTreeMap<u32, f64>>()
    });
    let shared = |(block, own): (&u32, &f64)| Some((*block, [*baseline.get(block)?, *own]));
    let pairs: Vec<(u32, [f64; 2])> = candidate.iter().filter_map(shared).collect();
    let is_amount = |value: &f64| value.is_finite() && *value >= 0.0;
    let are_amounts = pairs.iter().all(|(_, pair)| pair.iter().all(is_amount));
    if pairs.len() < FEWEST_JUDGED || !are_amounts {
        return None;
    }
    let mean = |at: usize| {
        let values: Vec<f64> = pairs.iter().map(|(_, pair)| pair[at]).collect();
        describe(&values).ok().map(|found| found.mean)
    };
    let excesses: Vec<f64> = pairs
        .iter()
        .map(|(_, [before, now])| now - (1.0 + theta) * before)
        .collect();
    let (last, _) = *pairs.last()?;
    let analysis = Analysis::new(analyses, last, 1);
    let interval = |alpha| t_interval(&excesses, 1.0 - alpha).ok().flatten();
    let strict = analysis.nominal(ALPHA / comparisons.max(1) as f64);
    let (sure, alone) = (interval(strict)?, interval(analysis.nominal(1.0 - LEVEL))?);
    // Counts may not scatter at all. If both have more than 0 in a share q of blocks, a baseline
    // of 0 and a candidate above it have the probability (q (1 - q))^n, which is 4^-n at most.
    let least = 0.25_f64.powi(pairs.len() as i32);
    let is_more = match (sure.lo > 0.0 && 2.0 * least <= strict, alone.hi <= 0.0) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    Some(Excess {
        means: [mean(0)?, mean(1)?],
        is_more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(baseline: &[f64], candidate: &[f64], comparisons: usize) -> Option<Excess> {
        let [baseline, candidate] = [baseline, candidate].map(|values| {
            let of_blocks = (1..).zip(values);
            let blocks = of_blocks.map(|(block, value)| BlockValue::new(block, *value));
            blocks.collect::<Vec<_>>()
        });
        let samples = [&baseline[..], &candidate[..]];
        excess(samples, &Analyses::default(), 0.03, comparisons)
    }

    #[test]
    fn amounts_without_a_ratio_are_more_not_more_or_open() {
        let answer = |baseline: &[f64], candidate: &[f64]| {
            compared(baseline, candidate, 1).map(|found| found.is_more)
        };
        assert_eq!(answer(&[0.0; 5], &[3.0; 5]), Some(Some(true)));
        assert_eq!(answer(&[0.0; 5], &[0.0; 5]), Some(Some(false)));
        let once = [0.0, 0.0, 1.0, 0.0, 0.0];
        assert_eq!(answer(&[0.0; 5], &once), Some(None));
        assert_eq!(answer(&once, &[0.0; 5]), Some(None));
        assert_eq!(
            answer(
                &[0.0, 0.1, 0.0, 0.1, 0.0, 0.1],
                &[3.0, 3.1, 2.9, 3.0, 3.1, 2.9]
            ),
            Some(Some(true))
        );
        assert_eq!(
            answer(&[3.0, 3.0, 3.0, 3.0, 0.1], &[0.0; 5]),
            Some(Some(false))
        );
        assert_eq!(answer(&[0.0; 4], &[3.0; 4]), None);
        assert_eq!(answer(&[0.0; 5], &[f64::NAN; 5]), None);
    }

    #[test]
    fn few_blocks_do_not_answer_for_many_comparisons() {
        let found = compared(&[0.0; 5], &[3.0; 5], 30).unwrap();
        assert_eq!((found.is_more, found.means), (None, [0.0, 3.0]));
        assert_eq!(
            compared(&[0.0; 9], &[3.0; 9], 30).unwrap().is_more,
            Some(true)
        );
    }
}

//! Comparisons of values that are not part of a result set: paired by block, or independent.

use fsb_model::Better;

use super::block_value::BlockValue;
use super::comparison::Comparison;
use super::difference::Difference;
use crate::LEVEL;
use crate::error::AnalysisError;
use crate::runs::{RunContrast, Terms};
use crate::sample::Sample;
use crate::sequential::Analysis;

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
    Ok(Difference::paired(baseline, candidate)?
        .map(|difference| difference.judged(LEVEL, &Analysis::Only, better, theta)))
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
    Ok(contrast.map(|contrast| contrast.difference(&Terms::default()).judged(LEVEL, &Analysis::Only, better, theta)))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::verdict::Verdict;
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
    fn a_value_that_is_not_a_rate_is_an_error() {
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

//! A trend over run order: the Mann–Kendall test.
//!
//! Chosen over a rank correlation with a t approximation because its null distribution is known exactly: at five
//! values, where the approximation calls any ordered sequence certain, the exact probability is 2/120, and nothing
//! is claimed. Mann 1945; Kendall 1975, exact by counting permutations with a given number of inversions; with ties
//! the normal approximation with the tie correction and without a continuity correction. The size of the change is
//! the slope of Theil and Sen (Sen 1968) on the logarithms.

use serde::{Deserialize, Serialize};

use crate::distribution::normal_two_sided;
use crate::error::{AnalysisError, logarithms};
use crate::interval::exp;

/// A trend is reported below this probability.
const TREND_LEVEL: f64 = 0.01;

/// Beyond this many values the normal approximation is as good as counting.
const MOST_COUNTED: usize = 40;

/// Of more values, this many, evenly spread, tell the slope: pairs of all would fill gigabytes at tens of thousands.
const MOST_PAIRED: usize = 1000;

/// A monotone drift of the values over the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trend {
    /// Kendall's rank correlation of value and place, −1 to 1 (tau-b).
    pub tau: f64,
    /// Two-sided probability of so strong a trend by chance.
    pub p_value: f64,
    /// The last value over the first, along the median slope: 0.9 for a loss of a tenth.
    pub change: f64,
}

impl Trend {
    /// Whether it is too clear to be chance.
    pub fn is_significant(&self) -> bool {
        self.p_value < TREND_LEVEL
    }
}

/// Tests values in run order; `None` for fewer than three.
pub fn trend(values: &[f64]) -> Result<Option<Trend>, AnalysisError> {
    let logs = logarithms(values)?;
    let n = values.len();
    if n < 3 {
        return Ok(None);
    }
    let mut slopes = slopes(&logs);
    let mut sorted = values.to_vec();
    // Sorting them by merging counts the pairs that are out of order.
    let falling = inversions(&mut sorted, &mut vec![0.0; n], &mut |a, b| a.total_cmp(b).is_lt());
    let ties = tie_sizes(&sorted);
    let pairs = n * (n - 1) / 2;
    let tied: usize = ties.iter().map(|t| t * (t - 1) / 2).sum();
    let score = (pairs - tied) as i64 - 2 * falling as i64;
    let (pairs, untied) = (pairs as f64, (pairs - tied) as f64);
    if untied == 0.0 {
        return Ok(Some(Trend { tau: 0.0, p_value: 1.0, change: 1.0 }));
    }
    let tau = score as f64 / (pairs * untied).sqrt();
    let p_value = if ties.is_empty() && n <= MOST_COUNTED { exact(n, score) } else { approximate(n, score, &ties) };
    Ok(Some(Trend { tau, p_value, change: exp(median(&mut slopes) * (n - 1) as f64) }))
}

/// The slopes between all pairs, a unit of the run order: of as many values as memory is to hold pairs of.
fn slopes(logs: &[f64]) -> Vec<f64> {
    let n = logs.len();
    let used = n.min(MOST_PAIRED);
    let places: Vec<usize> = (0..used).map(|at| at * (n - 1) / (used - 1)).collect();
    let mut slopes = Vec::with_capacity(used * (used - 1) / 2);
    for (at, later) in places.iter().enumerate() {
        slopes.extend(places[..at].iter().map(|earlier| (logs[*later] - logs[*earlier]) / (later - earlier) as f64));
    }
    slopes
}

/// The same median as [`quantile`](crate::quantile) has, without sorting what lies on its two sides.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    let (below, above, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if !is_even {
        return *above;
    }
    let below = below.iter().copied().max_by(f64::total_cmp).unwrap_or(*above);
    below * 0.5 + *above * 0.5
}

/// Sorts the values and returns the number of pairs that were in falling order (Knight 1966).
fn inversions(values: &mut [f64], spare: &mut [f64], is_less: &mut impl FnMut(&f64, &f64) -> bool) -> u64 {
    let middle = values.len() / 2;
    if middle == 0 {
        return 0;
    }
    let (left, right) = values.split_at_mut(middle);
    let mut falling =
        inversions(left, &mut spare[..middle], is_less) + inversions(right, &mut spare[middle..], is_less);
    let (mut at_left, mut at_right) = (0, 0);
    for place in spare.iter_mut() {
        let takes_right = match (left.get(at_left), right.get(at_right)) {
            (Some(left), Some(right)) => is_less(right, left),
            (None, _) => true,
            (_, None) => false,
        };
        if takes_right {
            falling += (left.len() - at_left) as u64;
            *place = right[at_right];
            at_right += 1;
        } else {
            *place = left[at_left];
            at_left += 1;
        }
    }
    values.copy_from_slice(spare);
    falling
}

/// Sizes of the groups of equal values.
fn tie_sizes(sorted: &[f64]) -> Vec<usize> {
    sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).filter(|size| *size > 1).collect()
}

/// The share of all orders of `n` values whose score lies at least as far from zero.
///
/// Shares instead of counts are carried along, for 40! does not fit any integer: inserting the m-th value adds 0 to
/// m − 1 inversions, each as likely as the other.
fn exact(n: usize, score: i64) -> f64 {
    let most = n * (n - 1) / 2;
    let fewest = (most - score.unsigned_abs() as usize) / 2;
    let mut shares = vec![0.0; fewest + 1];
    shares[0] = 1.0;
    for inserted in 2..=n {
        // Downwards, so that the shares of the step before are still there to be summed.
        for inversions in (0..=fewest).rev() {
            let first = (inversions + 1).saturating_sub(inserted);
            shares[inversions] = shares[first..=inversions].iter().sum::<f64>() / inserted as f64;
        }
    }
    (2.0 * shares.iter().sum::<f64>()).min(1.0)
}

/// Kendall's variance of the score under chance, with ties.
fn approximate(n: usize, score: i64, ties: &[usize]) -> f64 {
    let term = |m: usize| (m * (m - 1) * (2 * m + 5)) as f64;
    let variance = (term(n) - ties.iter().map(|t| term(*t)).sum::<f64>()) / 18.0;
    normal_two_sided(score as f64 / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::quantile;
    use proptest::prelude::*;

    #[test]
    fn five_ordered_values_prove_nothing_and_eight_do() {
        let rising: Vec<f64> = (1..=8).map(f64::from).collect();
        let five = trend(&rising[..5]).unwrap().unwrap();
        assert!((five.p_value - 2.0 / 120.0).abs() < 1e-12 && !five.is_significant());
        let eight = trend(&rising).unwrap().unwrap();
        assert!((eight.p_value - 2.0 / 40320.0).abs() < 1e-12 && eight.is_significant());
        assert_eq!(eight.tau, 1.0);
    }

    #[test]
    fn the_pairs_of_many_values_are_bounded() {
        let rising: Vec<f64> = (0..5000).map(|place| (f64::from(place) * 1e-4).exp()).collect();
        let logs: Vec<f64> = rising.iter().map(|value| value.ln()).collect();
        assert_eq!(slopes(&logs).len(), MOST_PAIRED * (MOST_PAIRED - 1) / 2);
        let found = trend(&rising).unwrap().unwrap();
        assert_eq!(found.tau, 1.0);
        assert!((found.change.ln() - 0.4999).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn the_comparisons_of_a_trend_grow_with_n_log_n() {
        let comparisons = |n: u32| {
            let mut values: Vec<f64> = (0..n).map(|place| f64::from(place.wrapping_mul(2_654_435_761) >> 7)).collect();
            let mut count = 0;
            inversions(&mut values, &mut vec![0.0; n as usize], &mut |a, b| {
                count += 1;
                a < b
            });
            assert!(values.is_sorted());
            count
        };
        let (few, many) = (comparisons(1000), comparisons(10_000));
        assert!(many < 15 * few, "{few} comparisons for 1000 values, {many} for 10,000");
    }

    #[test]
    fn equal_values_have_no_trend() {
        assert_eq!(trend(&[7.0; 9]).unwrap(), Some(Trend { tau: 0.0, p_value: 1.0, change: 1.0 }));
        assert_eq!(trend(&[7.0, 8.0]).unwrap(), None);
    }

    #[test]
    fn a_steady_loss_is_measured() {
        let falling: Vec<f64> = (0..10).map(|i| 100.0 * libm::pow(0.98, f64::from(i))).collect();
        let trend = trend(&falling).unwrap().unwrap();
        assert!((trend.change - libm::pow(0.98, 9.0)).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_score_and_the_median_slope_are_those_of_all_pairs(ranks in prop::collection::vec(1u32..30, 3..60)) {
            let values: Vec<f64> = ranks.iter().map(|rank| f64::from(*rank)).collect();
            let pairs = (1..values.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
            let falling = pairs.filter(|(earlier, later)| values[*later] < values[*earlier]).count();
            let n = values.len();
            prop_assert_eq!(inversions(&mut values.clone(), &mut vec![0.0; n], &mut |a, b| a < b), falling as u64);
            let mut slopes = slopes(&logarithms(&values).unwrap());
            let sorted = quantile(&slopes, 0.5).unwrap();
            prop_assert_eq!(median(&mut slopes), sorted);
        }

        #[test]
        fn backwards_is_the_opposite(values in prop::collection::vec(1.0f64..100.0, 3..80)) {
            let there = trend(&values).unwrap().unwrap();
            let back: Vec<f64> = values.iter().rev().copied().collect();
            let back = trend(&back).unwrap().unwrap();
            prop_assert!((there.tau + back.tau).abs() < 1e-12);
            prop_assert!((there.p_value - back.p_value).abs() < 1e-12);
            prop_assert!((0.0..=1.0).contains(&there.p_value));
        }
    }
}

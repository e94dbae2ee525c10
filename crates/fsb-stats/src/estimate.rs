//! One cell: what a target does at one workload.

use serde::{Deserialize, Serialize};

use crate::description::{
    Description, describe, mean_and_sd, normal_two_sided, quantile, t_quantile,
};
use crate::sample::{AnalysisError, logarithms};
use crate::verdict::{Interval, exp};
use crate::{FEWEST_JUDGED, LEVEL};

/// A coefficient of variation above this makes a cell noisy.
pub const NOISY: f64 = 0.05;
/// A coefficient of variation above this makes a cell unreliable.
pub const UNRELIABLE: f64 = 0.10;

/// The scatter of the trials of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    /// CV of at most 5 %.
    Quiet,
    /// CV above 5 %.
    Noisy,
    /// CV above 10 %.
    Unreliable,
}

/// The central value of a cell with its uncertainty. It never travels without its n.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// exp(ȳ) with y = ln(value): the geometric mean.
    pub value: f64,
    /// exp(ȳ ± t·s/√n) at 95 %; absent for a single value.
    pub interval: Option<Interval>,
    /// The number of trials.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation.
    pub sd: f64,
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Coefficient of variation, standard deviation over mean.
    pub cv: f64,
    /// Places, in the order given, of values beyond Tukey's fences; marked, never removed.
    pub outliers: Vec<usize>,
    /// A trend over run order; absent for fewer than three values.
    pub trend: Option<Trend>,
}

impl Estimate {
    /// Estimates from trial values **in run order**.
    pub fn from_values(values: &[f64]) -> Result<Estimate, AnalysisError> {
        let logs = logarithms(values)?;
        let Description {
            n,
            mean,
            sd,
            median,
            min,
            max,
        } = describe(values)?;
        let (center, spread) = mean_and_sd(&logs);
        let interval = (n >= 2).then(|| {
            let half = t_quantile(LEVEL, (n - 1) as f64) * spread / (n as f64).sqrt();
            // Clamped because exp(ln x) may miss x by an ulp and the interval may be a point.
            let Interval { lo, hi } = Interval::around(center, half).exp();
            Interval {
                lo: lo.min(exp(center)),
                hi: hi.max(exp(center)),
            }
        });
        Ok(Estimate {
            value: exp(center),
            interval,
            n,
            mean,
            sd,
            median,
            min,
            max,
            cv: sd / mean,
            outliers: outliers(values)?,
            trend: trend(values)?,
        })
    }

    /// Returns whether there are enough trials for a verdict.
    pub fn is_judged(&self) -> bool {
        self.n >= FEWEST_JUDGED
    }

    /// Returns the scatter of the trials; `Quiet` where there are too few to say.
    pub fn noise(&self) -> Noise {
        match self.cv {
            _ if !self.is_judged() => Noise::Quiet,
            cv if cv > UNRELIABLE => Noise::Unreliable,
            cv if cv > NOISY => Noise::Noisy,
            _ => Noise::Quiet,
        }
    }

    /// Returns the trend, where it is too clear to be chance.
    pub fn significant_trend(&self) -> Option<&Trend> {
        self.trend
            .as_ref()
            .filter(|trend| self.is_judged() && trend.is_significant())
    }
}

/// Values more than one and a half interquartile ranges beyond the quartiles (Tukey 1977).
fn outliers(values: &[f64]) -> Result<Vec<usize>, AnalysisError> {
    let (q1, q3) = (quantile(values, 0.25)?, quantile(values, 0.75)?);
    let reach = 1.5 * (q3 - q1);
    let (low, high) = (q1 - reach, q3 + reach);
    Ok((0..values.len())
        .filter(|index| values[*index] < low || values[*index] > high)
        .filter(|_| values.len() >= FEWEST_JUDGED)
        .collect())
}

/// A trend is reported below this probability.
const TREND_LEVEL: f64 = 0.01;

/// Beyond this many values the normal approximation is as good as counting.
const MOST_COUNTED: usize = 40;

/// Of more values, this many, evenly spread, tell the slope: pairs of all would fill gigabytes at
/// tens of thousands.
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
    /// Returns whether it is too clear to be chance.
    pub fn is_significant(&self) -> bool {
        self.p_value < TREND_LEVEL
    }
}

/// Tests values in run order; `None` for fewer than three.
///
/// The test is Mann-Kendall (Mann 1945; Kendall 1975). It was chosen over a rank correlation with a
/// t approximation because its null distribution is known exactly. At five values, the
/// approximation calls any ordered sequence certain. The exact probability is 2/120, and the test
/// claims nothing.
///
/// The exact distribution comes from counting permutations with a given number of inversions. With
/// ties, or with more than `MOST_COUNTED` values, the test uses the normal approximation with the
/// tie correction and without a continuity correction. The size of the change is the slope of Theil
/// and Sen (Sen 1968) on the logarithms.
pub fn trend(values: &[f64]) -> Result<Option<Trend>, AnalysisError> {
    let logs = logarithms(values)?;
    let n = values.len();
    if n < 3 {
        return Ok(None);
    }
    let mut slopes = slopes(&logs);
    let mut sorted = values.to_vec();
    // Sorting them by merging counts the pairs that are out of order.
    let falling = inversions(&mut sorted, &mut vec![0.0; n], &mut |a, b| {
        a.total_cmp(b).is_lt()
    });
    let ties = tie_sizes(&sorted);
    let pairs = n * (n - 1) / 2;
    let tied: usize = ties.iter().map(|t| t * (t - 1) / 2).sum();
    let score = (pairs - tied) as i64 - 2 * falling as i64;
    let (pairs, untied) = (pairs as f64, (pairs - tied) as f64);
    if untied == 0.0 {
        return Ok(Some(Trend {
            tau: 0.0,
            p_value: 1.0,
            change: 1.0,
        }));
    }
    let tau = score as f64 / (pairs * untied).sqrt();
    let p_value = if ties.is_empty() && n <= MOST_COUNTED {
        exact(n, score)
    } else {
        approximate(n, score, &ties)
    };
    Ok(Some(Trend {
        tau,
        p_value,
        change: exp(median(&mut slopes) * (n - 1) as f64),
    }))
}

/// Returns the slopes between all pairs of values per unit of the run order. The number of values
/// is limited, so that the pairs fit into memory.
fn slopes(logs: &[f64]) -> Vec<f64> {
    let n = logs.len();
    let used = n.min(MOST_PAIRED);
    let places: Vec<usize> = (0..used).map(|at| at * (n - 1) / (used - 1)).collect();
    let mut slopes = Vec::with_capacity(used * (used - 1) / 2);
    for (at, later) in places.iter().enumerate() {
        slopes.extend(
            places[..at]
                .iter()
                .map(|earlier| (logs[*later] - logs[*earlier]) / (later - earlier) as f64),
        );
    }
    slopes
}

/// Returns the same median as [`quantile`](crate::quantile), without sorting the values on its two
/// sides.
fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    let (below, above, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if !is_even {
        return *above;
    }
    let below = below
        .iter()
        .copied()
        .max_by(f64::total_cmp)
        .unwrap_or(*above);
    below * 0.5 + *above * 0.5
}

/// Sorts the values and returns the number of pairs that were in falling order (Knight 1966).
fn inversions(
    values: &mut [f64],
    spare: &mut [f64],
    is_less: &mut impl FnMut(&f64, &f64) -> bool,
) -> u64 {
    let middle = values.len() / 2;
    if middle == 0 {
        return 0;
    }
    let (left, right) = values.split_at_mut(middle);
    let mut falling = inversions(left, &mut spare[..middle], is_less)
        + inversions(right, &mut spare[middle..], is_less);
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
    sorted
        .chunk_by(|a, b| a == b)
        .map(<[f64]>::len)
        .filter(|size| *size > 1)
        .collect()
}

/// Returns the share of all orders of `n` values whose score is at least as far from zero.
///
/// Shares instead of counts are carried along, for 40! does not fit any integer: inserting the m-th
/// value adds 0 to m − 1 inversions, each as likely as the other.
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
    use proptest::prelude::*;

    use super::*;
    use crate::description::quantile;

    #[test]
    fn equal_values_give_a_point() {
        let estimate = Estimate::from_values(&[412e6; 10]).unwrap();
        let interval = estimate.interval.unwrap();
        assert_eq!((interval.lo, interval.hi), (estimate.value, estimate.value));
        assert_eq!((estimate.cv, estimate.noise()), (0.0, Noise::Quiet));
        assert!(estimate.outliers.is_empty() && estimate.significant_trend().is_none());
    }

    #[test]
    fn too_few_values_are_described() {
        let one = Estimate::from_values(&[5.0]).unwrap();
        assert!(one.interval.is_none() && !one.is_judged() && one.trend.is_none());
        let four = Estimate::from_values(&[1.0, 2.0, 3.0, 40.0]).unwrap();
        assert_eq!((four.noise(), four.outliers.len()), (Noise::Quiet, 0));
    }

    #[test]
    fn invalid_rates_are_errors() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(
                    Estimate::from_values(&[1.0, bad]),
                    Err(AnalysisError::NotPositive(_))
                ),
                "{bad}"
            );
        }
        assert_eq!(Estimate::from_values(&[]), Err(AnalysisError::Empty));
    }

    #[test]
    fn an_outlier_is_marked_and_kept() {
        let estimate = Estimate::from_values(&[10.0, 10.1, 9.9, 30.0, 10.0, 10.05, 9.95]).unwrap();
        assert_eq!(estimate.outliers, [3]);
        assert_eq!((estimate.n, estimate.max), (7, 30.0));
        assert_eq!(estimate.noise(), Noise::Unreliable);
    }

    proptest! {
        #[test]
        fn no_input_gives_nonsense(exponents in prop::collection::vec(-300.0f64..300.0, 1..30)) {
            let values: Vec<f64> = exponents.iter().map(|e| libm::pow(10.0, *e)).collect();
            let estimate = Estimate::from_values(&values).unwrap();
            prop_assert!(estimate.value.is_finite() && estimate.cv.is_finite());
            if let Some(interval) = estimate.interval {
                prop_assert!(interval.lo.is_finite() && interval.hi.is_finite());
                prop_assert!(interval.lo <= estimate.value && estimate.value <= interval.hi);
            }
        }

        #[test]
        fn another_unit_changes_nothing(values in prop::collection::vec(1.0f64..9.0, 5..20), factor in 1e-6f64..1e6) {
            let scaled: Vec<f64> = values.iter().map(|v| v * factor).collect();
            let (a, b) = (Estimate::from_values(&values).unwrap(), Estimate::from_values(&scaled).unwrap());
            let (ia, ib) = (a.interval.unwrap(), b.interval.unwrap());
            for (x, y) in [(a.value, b.value), (ia.lo, ib.lo), (ia.hi, ib.hi), (a.median, b.median)] {
                prop_assert!((x * factor / y - 1.0).abs() < 1e-9);
            }
            prop_assert!((a.cv - b.cv).abs() < 1e-9);
        }
    }

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
        let rising: Vec<f64> = (0..5000)
            .map(|place| (f64::from(place) * 1e-4).exp())
            .collect();
        let logs: Vec<f64> = rising.iter().map(|value| value.ln()).collect();
        assert_eq!(slopes(&logs).len(), MOST_PAIRED * (MOST_PAIRED - 1) / 2);
        let found = trend(&rising).unwrap().unwrap();
        assert_eq!(found.tau, 1.0);
        assert!((found.change.ln() - 0.4999).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn the_comparisons_of_a_trend_grow_with_n_log_n() {
        let comparisons = |n: u32| {
            let mut values: Vec<f64> = (0..n)
                .map(|place| f64::from(place.wrapping_mul(2_654_435_761) >> 7))
                .collect();
            let mut count = 0;
            inversions(&mut values, &mut vec![0.0; n as usize], &mut |a, b| {
                count += 1;
                a < b
            });
            assert!(values.is_sorted());
            count
        };
        let (few, many) = (comparisons(1000), comparisons(10_000));
        assert!(
            many < 15 * few,
            "{few} comparisons for 1000 values, {many} for 10,000"
        );
    }

    #[test]
    fn equal_values_have_no_trend() {
        assert_eq!(
            trend(&[7.0; 9]).unwrap(),
            Some(Trend {
                tau: 0.0,
                p_value: 1.0,
                change: 1.0
            })
        );
        assert_eq!(trend(&[7.0, 8.0]).unwrap(), None);
    }

    #[test]
    fn a_steady_loss_is_measured() {
        let falling: Vec<f64> = (0..10)
            .map(|i| 100.0 * libm::pow(0.98, f64::from(i)))
            .collect();
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

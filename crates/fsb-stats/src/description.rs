//! Plain statistics of plain values: the output of the 2023 micro-benchmark, and the marks of charts.

use serde::{Deserialize, Serialize};

use crate::LEVEL;
use crate::distribution::t_quantile;
use crate::error::{AnalysisError, level};
use crate::interval::{Interval, exp};

/// A summary of a set of values, on its own scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Description {
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n − 1); 0 for a single value.
    pub sd: f64,
    /// The middle value, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// Describes finite values.
pub fn describe(samples: &[f64]) -> Result<Description, AnalysisError> {
    let sorted = sorted(samples)?;
    let (mean, sd) = mean_and_sd(&sorted);
    let median = quantile_of_sorted(&sorted, 0.5);
    Ok(Description { n: sorted.len(), mean, sd, median, min: sorted[0], max: sorted[sorted.len() - 1] })
}

/// Returns the t-interval of the mean, mean ± t·s/√n, or `None` for fewer than two values.
pub fn t_interval(samples: &[f64], confidence: f64) -> Result<Option<Interval>, AnalysisError> {
    let confidence = level(confidence)?;
    let Description { n, mean, sd, .. } = describe(samples)?;
    if n < 2 {
        return Ok(None);
    }
    let half = t_quantile(confidence, (n - 1) as f64) * sd / (n as f64).sqrt();
    Ok(Some(Interval { lo: (mean - half).max(f64::MIN), hi: (mean + half).min(f64::MAX) }))
}

/// Returns the value below which a share `q` of the values are, by linear interpolation (type 7 of Hyndman and Fan
/// 1996).
pub fn quantile(samples: &[f64], q: f64) -> Result<f64, AnalysisError> {
    Ok(quantile_of_sorted(&sorted(samples)?, q.clamp(0.0, 1.0)))
}

pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    let share = place - place.floor();
    below * (1.0 - share) + above * share
}

/// Mean and sample standard deviation, scaled first so that squares neither overflow nor vanish.
///
/// The two passes are taken about the first value. The mean of equal values is then that value, and their deviation is
/// exactly zero. A plain sum would leave a residue, from which a tiny interval would be computed.
pub(crate) fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let origin = values[0];
    let shift = values.iter().map(|value| value / n - origin / n).sum::<f64>();
    let mean = origin + shift;
    let largest = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max).min(f64::MAX);
    if largest == 0.0 || values.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|value| ((value - mean) / largest).powi(2)).sum();
    (mean, (largest * (squares / (n - 1.0)).sqrt()).min(f64::MAX))
}

/// The ratio of the geometric means of two samples, given as logarithms, with its 95 % t interval by the common variance of
/// both: `after` over `before`. `None` where no value repeats.
pub fn ratio_of_means(before: &[f64], after: &[f64]) -> Option<(f64, Interval)> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let freedom = (before.len() + after.len()).checked_sub(2).filter(|freedom| *freedom > 0)? as f64;
    let ((first, first_sd), (second, second_sd)) = (mean_and_sd(before), mean_and_sd(after));
    let squares = |sd: f64, n: usize| sd.powi(2) * (n - 1) as f64;
    let variance = (squares(first_sd, before.len()) + squares(second_sd, after.len())) / freedom;
    let error = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
    let half = t_quantile(LEVEL, freedom) * error;
    let difference = second - first;
    Some((exp(difference), Interval { lo: difference - half, hi: difference + half }.exp()))
}

fn sorted(samples: &[f64]) -> Result<Vec<f64>, AnalysisError> {
    if samples.is_empty() {
        return Err(AnalysisError::Empty);
    }
    if let Some(bad) = samples.iter().find(|value| !value.is_finite()) {
        return Err(AnalysisError::NotFinite(*bad));
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_values_have_no_spread_at_all() {
        let same = [0.1 + 0.2; 7];
        assert_eq!(describe(&same).unwrap().sd, 0.0);
        assert_eq!(t_interval(&same, 0.999).unwrap(), Some(Interval { lo: same[0], hi: same[0] }));
    }

    #[test]
    fn one_value_is_described_without_an_interval() {
        assert_eq!(describe(&[3.0]).unwrap().median, 3.0);
        assert_eq!(t_interval(&[3.0], 0.95), Ok(None));
    }

    #[test]
    fn the_ratio_of_two_samples_has_the_interval_of_their_common_scatter() {
        let (before, after) = ([0.0, 0.2], [1.0, 1.2, 1.4]);
        let (ratio, interval) = ratio_of_means(&before, &after).unwrap();
        // Student's t: 1.1 ± 3.182446 · √(0.1/3 · (1/2 + 1/3)).
        let half = 3.182446305 * (0.1f64 / 3.0 * (0.5 + 1.0 / 3.0)).sqrt();
        assert!((ratio.ln() - 1.1).abs() < 1e-12, "{ratio}");
        assert!((interval.lo.ln() - 1.1 + half).abs() < 1e-6 && (interval.hi.ln() - 1.1 - half).abs() < 1e-6);
        assert_eq!((ratio_of_means(&[1.0], &[2.0]), ratio_of_means(&[], &[1.0, 2.0])), (None, None));
    }

    #[test]
    fn nonsense_is_an_error() {
        assert_eq!(describe(&[]), Err(AnalysisError::Empty));
        assert!(matches!(describe(&[1.0, f64::NAN]), Err(AnalysisError::NotFinite(_))));
        for bad in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(matches!(t_interval(&[1.0, 2.0], bad), Err(AnalysisError::Level(_))), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn everything_stays_finite(values in prop::collection::vec(-1e308f64..1e308, 1..40)) {
            let d = describe(&values).unwrap();
            for number in [d.mean, d.sd, d.median, d.min, d.max] {
                prop_assert!(number.is_finite());
            }
            prop_assert!(d.min <= d.median && d.median <= d.max);
            prop_assert!(d.min - 1e292 <= d.mean && d.mean <= d.max + 1e292);
            if let Some(interval) = t_interval(&values, 0.95).unwrap() {
                prop_assert!(interval.lo.is_finite() && interval.hi.is_finite() && interval.lo <= interval.hi);
            }
        }
    }
}

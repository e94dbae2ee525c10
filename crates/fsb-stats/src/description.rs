//! Plain statistics of plain values: the output of the 2023 micro-benchmark, and the marks of
//! charts. The distributions of intervals and tests, from `statrs`, with safe ends.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF};
use statrs::function::beta::beta_reg;
use statrs::function::erf::{erf_inv, erfc};
use statrs::function::gamma::ln_gamma;

use crate::LEVEL;
use crate::sample::{AnalysisError, level};
use crate::verdict::{Interval, exp};

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
    Ok(Description {
        n: sorted.len(),
        mean,
        sd,
        median,
        min: sorted[0],
        max: sorted[sorted.len() - 1],
    })
}

/// Returns the t-interval of the mean, mean ± t·s/√n, or `None` for fewer than two values.
pub fn t_interval(samples: &[f64], confidence: f64) -> Result<Option<Interval>, AnalysisError> {
    let confidence = level(confidence)?;
    let Description { n, mean, sd, .. } = describe(samples)?;
    if n < 2 {
        return Ok(None);
    }
    let half = t_quantile(confidence, (n - 1) as f64) * sd / (n as f64).sqrt();
    Ok(Some(Interval {
        lo: (mean - half).max(f64::MIN),
        hi: (mean + half).min(f64::MAX),
    }))
}

/// Returns the value below which a share `q` of the values are, by linear interpolation (type 7 of
/// Hyndman and Fan 1996).
pub fn quantile(samples: &[f64], q: f64) -> Result<f64, AnalysisError> {
    Ok(quantile_of_sorted(&sorted(samples)?, q.clamp(0.0, 1.0)))
}

pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    let share = place - place.floor();
    below * (1.0 - share) + above * share
}

/// Returns the mean and the sample standard deviation of at least one value, scaled first so that
/// squares neither overflow nor vanish. The deviation of one value is 0.
///
/// The two passes are taken about the first value. The mean of equal values is then that value, and
/// their deviation is exactly zero. A plain sum would leave a residue, from which a tiny interval
/// would be computed.
pub fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let origin = values[0];
    let shift = values
        .iter()
        .map(|value| value / n - origin / n)
        .sum::<f64>();
    let mean = origin + shift;
    let largest = values
        .iter()
        .map(|value| (value - mean).abs())
        .fold(0.0, f64::max)
        .min(f64::MAX);
    if largest == 0.0 || values.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = values
        .iter()
        .map(|value| ((value - mean) / largest).powi(2))
        .sum();
    (mean, (largest * (squares / (n - 1.0)).sqrt()).min(f64::MAX))
}

/// Returns the ratio of the geometric means of two samples, `after` divided by `before`, and its 95
/// % t interval with a common variance. The samples are logarithms. Returns `None` if no value
/// repeats.
pub fn ratio_of_means(before: &[f64], after: &[f64]) -> Option<(f64, Interval)> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let freedom = (before.len() + after.len())
        .checked_sub(2)
        .filter(|freedom| *freedom > 0)? as f64;
    let ((first, first_sd), (second, second_sd)) = (mean_and_sd(before), mean_and_sd(after));
    let squares = first_sd.powi(2) * (before.len() - 1) as f64;
    let variance = (squares + second_sd.powi(2) * (after.len() - 1) as f64) / freedom;
    let error = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
    let half = t_quantile(LEVEL, freedom) * error;
    let difference = second - first;
    Some((exp(difference), Interval::around(difference, half).exp()))
}

pub(crate) fn sorted(samples: &[f64]) -> Result<Vec<f64>, AnalysisError> {
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

/// Below a tenth of a degree of freedom intervals have no ends that a number could hold.
const FEWEST_DEGREES: f64 = 0.1;
/// Beyond this the distribution is the normal one to every digit.
const MOST_DEGREES: f64 = 1e8;

/// Returns the quantile of the χ² distribution with these degrees of freedom.
pub(crate) fn chi_squared_quantile(probability: f64, degrees: f64) -> f64 {
    let degrees = degrees.clamp(FEWEST_DEGREES, MOST_DEGREES);
    ChiSquared::new(degrees).map_or(degrees, |distribution| {
        distribution.inverse_cdf(probability)
    })
}

/// Returns the half-width, in standard errors, of a two-sided t-interval.
///
/// Newton's method on the tail probability from a good first guess, within a bracket, for steps
/// near the ends are rounded. (The library's own inverse runs forever at a thousand million degrees
/// of freedom.)
pub fn t_quantile(level: f64, degrees: f64) -> f64 {
    let degrees = degrees.clamp(FEWEST_DEGREES, MOST_DEGREES);
    let scale =
        ln_gamma((degrees + 1.0) / 2.0) - ln_gamma(degrees / 2.0) - 0.5 * (degrees * PI).ln();
    let (mut low, mut high) = (0.0, f64::MAX);
    let mut t = first_guess(level, degrees);
    for _ in 0..200 {
        let excess = t_two_sided(t, degrees) - (1.0 - level);
        if excess > 0.0 {
            low = t
        } else {
            high = t
        }
        let step = t + excess
            / (2.0 * libm::exp(scale - (degrees + 1.0) / 2.0 * libm::log1p(t * t / degrees)));
        let next = match () {
            () if step > low && step < high => step,
            () if high == f64::MAX => 2.0 * t,
            () => f64::midpoint(low, high),
        };
        if (next - t).abs() <= 1e-14 * next {
            return next;
        }
        t = next;
    }
    t
}

/// Returns the expansion of the quantile in powers of 1/ν (Fisher and Cornish 1960), from the
/// normal quantile.
fn first_guess(level: f64, degrees: f64) -> f64 {
    let z = std::f64::consts::SQRT_2 * erf_inv(level);
    let (z2, nu) = (z * z, degrees);
    let guess =
        z * (1.0 + (z2 + 1.0) / (4.0 * nu) + (5.0 * z2 * z2 + 16.0 * z2 + 3.0) / (96.0 * nu * nu));
    if guess.is_finite() && guess > 0.0 {
        guess
    } else {
        1.0
    }
}

/// Returns the probability of a t at least so far from zero, either way.
pub(crate) fn t_two_sided(t: f64, degrees: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    let degrees = degrees.clamp(FEWEST_DEGREES, MOST_DEGREES);
    beta_reg(degrees / 2.0, 0.5, degrees / (degrees + t * t)).clamp(0.0, 1.0)
}

/// Returns the probability of an F of at least that size, with these degrees of freedom above and
/// below.
pub(crate) fn f_upper(f: f64, above: f64, below: f64) -> f64 {
    if !f.is_finite() {
        return 0.0;
    }
    let (above, below) = (
        above.clamp(FEWEST_DEGREES, MOST_DEGREES),
        below.clamp(FEWEST_DEGREES, MOST_DEGREES),
    );
    beta_reg(
        below / 2.0,
        above / 2.0,
        below / (below + above * f.max(0.0)),
    )
    .clamp(0.0, 1.0)
}

/// Returns the probability of a normal deviate at least so far from zero, either way.
pub(crate) fn normal_two_sided(z: f64) -> f64 {
    if z.is_finite() {
        erfc(z.abs() / std::f64::consts::SQRT_2).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Returns the probability that a standard normal variable is below `z`.
pub(crate) fn normal_below(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2).clamp(0.0, 2.0)
}

/// Returns the value that a standard normal variable is below with this probability.
pub(crate) fn normal_quantile(probability: f64) -> f64 {
    std::f64::consts::SQRT_2 * erf_inv(2.0 * probability - 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_values_have_no_spread_at_all() {
        let same = [0.1 + 0.2; 7];
        assert_eq!(describe(&same).unwrap().sd, 0.0);
        assert_eq!(
            t_interval(&same, 0.999).unwrap(),
            Some(Interval {
                lo: same[0],
                hi: same[0]
            })
        );
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
        assert!(
            (interval.lo.ln() - 1.1 + half).abs() < 1e-6
                && (interval.hi.ln() - 1.1 - half).abs() < 1e-6
        );
        assert_eq!(
            (
                ratio_of_means(&[1.0], &[2.0]),
                ratio_of_means(&[], &[1.0, 2.0])
            ),
            (None, None)
        );
    }

    #[test]
    fn nonsense_is_an_error() {
        assert_eq!(describe(&[]), Err(AnalysisError::Empty));
        assert!(matches!(
            describe(&[1.0, f64::NAN]),
            Err(AnalysisError::NotFinite(_))
        ));
        for bad in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(
                matches!(t_interval(&[1.0, 2.0], bad), Err(AnalysisError::Level(_))),
                "{bad}"
            );
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

    #[test]
    fn half_widths_are_those_of_scipy() {
        let oracle: serde_json::Value =
            serde_json::from_str(include_str!("../tests/oracle/scipy.json")).unwrap();
        let cases = oracle["quantiles"].as_array().unwrap();
        assert!(cases.len() > 100);
        for case in cases {
            let number = |key: &str| case[key].as_f64().unwrap();
            let ours = t_quantile(number("level"), number("degrees"));
            assert!((ours / number("t") - 1.0).abs() < 1e-11, "{case}: {ours}");
        }
    }

    #[test]
    fn probabilities_stay_within_bounds() {
        for t in [0.0, 1e-300, 1e300, f64::INFINITY, f64::NAN] {
            assert!((0.0..=1.0).contains(&t_two_sided(t, 4.0)), "{t}");
            assert!((0.0..=1.0).contains(&normal_two_sided(t)), "{t}");
        }
        for degrees in [0.0, 1e-9, 1e12, f64::INFINITY] {
            assert!(t_quantile(0.95, degrees).is_finite(), "{degrees}");
        }
    }
}

//! One cell: what a target does at one workload.

use serde::{Deserialize, Serialize};

use crate::description::{Description, describe, mean_and_sd, quantile};
use crate::distribution::t_quantile;
use crate::error::{AnalysisError, logarithms};
use crate::interval::{Interval, exp};
use crate::trend::{Trend, trend};
use crate::{FEWEST_JUDGED, LEVEL};

/// A coefficient of variation above this makes a cell noisy.
pub const NOISY: f64 = 0.05;
/// A coefficient of variation above this makes a cell unreliable.
pub const UNRELIABLE: f64 = 0.10;

/// How much the trials of one cell scatter.
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
    /// How many trials.
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
    pub fn of(values: &[f64]) -> Result<Estimate, AnalysisError> {
        let logs = logarithms(values)?;
        let Description { n, mean, sd, median, min, max } = describe(values)?;
        let (center, spread) = mean_and_sd(&logs);
        let interval = (n >= 2).then(|| {
            let half = t_quantile(LEVEL, (n - 1) as f64) * spread / (n as f64).sqrt();
            // Clamped because exp(ln x) may miss x by an ulp and the interval may be a point.
            let Interval { lo, hi } = Interval { lo: center - half, hi: center + half }.exp();
            Interval { lo: lo.min(exp(center)), hi: hi.max(exp(center)) }
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

    /// Whether there are enough trials to judge by.
    pub fn is_judged(&self) -> bool {
        self.n >= FEWEST_JUDGED
    }

    /// How much the trials scatter; `Quiet` where there are too few to say.
    pub fn noise(&self) -> Noise {
        match self.cv {
            _ if !self.is_judged() => Noise::Quiet,
            cv if cv > UNRELIABLE => Noise::Unreliable,
            cv if cv > NOISY => Noise::Noisy,
            _ => Noise::Quiet,
        }
    }

    /// The trend, where it is too clear to be chance.
    pub fn significant_trend(&self) -> Option<&Trend> {
        self.trend.as_ref().filter(|trend| self.is_judged() && trend.is_significant())
    }
}

/// Values more than one and a half interquartile ranges beyond the quartiles (Tukey 1977).
fn outliers(values: &[f64]) -> Result<Vec<usize>, AnalysisError> {
    let (q1, q3) = (quantile(values, 0.25)?, quantile(values, 0.75)?);
    let reach = 1.5 * (q3 - q1);
    let beyond = |value: f64| value < q1 - reach || value > q3 + reach;
    Ok((0..values.len()).filter(|index| values.len() >= FEWEST_JUDGED && beyond(values[*index])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_values_give_a_point() {
        let estimate = Estimate::of(&[412e6; 10]).unwrap();
        let interval = estimate.interval.unwrap();
        assert_eq!((interval.lo, interval.hi), (estimate.value, estimate.value));
        assert_eq!((estimate.cv, estimate.noise()), (0.0, Noise::Quiet));
        assert!(estimate.outliers.is_empty() && estimate.significant_trend().is_none());
    }

    #[test]
    fn too_few_values_are_described() {
        let one = Estimate::of(&[5.0]).unwrap();
        assert!(one.interval.is_none() && !one.is_judged() && one.trend.is_none());
        let four = Estimate::of(&[1.0, 2.0, 3.0, 40.0]).unwrap();
        assert_eq!((four.noise(), four.outliers.len()), (Noise::Quiet, 0));
    }

    #[test]
    fn what_is_no_rate_is_an_error() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(Estimate::of(&[1.0, bad]), Err(AnalysisError::NotPositive(_))), "{bad}");
        }
        assert_eq!(Estimate::of(&[]), Err(AnalysisError::Empty));
    }

    #[test]
    fn an_outlier_is_marked_and_kept() {
        let estimate = Estimate::of(&[10.0, 10.1, 9.9, 30.0, 10.0, 10.05, 9.95]).unwrap();
        assert_eq!(estimate.outliers, [3]);
        assert_eq!((estimate.n, estimate.max), (7, 30.0));
        assert_eq!(estimate.noise(), Noise::Unreliable);
    }

    proptest! {
        #[test]
        fn no_input_gives_nonsense(exponents in prop::collection::vec(-300.0f64..300.0, 1..30)) {
            let values: Vec<f64> = exponents.iter().map(|e| libm::pow(10.0, *e)).collect();
            let estimate = Estimate::of(&values).unwrap();
            prop_assert!(estimate.value.is_finite() && estimate.cv.is_finite());
            if let Some(interval) = estimate.interval {
                prop_assert!(interval.lo.is_finite() && interval.hi.is_finite());
                prop_assert!(interval.lo <= estimate.value && estimate.value <= interval.hi);
            }
        }

        #[test]
        fn another_unit_changes_nothing(values in prop::collection::vec(1.0f64..9.0, 5..20), factor in 1e-6f64..1e6) {
            let scaled: Vec<f64> = values.iter().map(|v| v * factor).collect();
            let (a, b) = (Estimate::of(&values).unwrap(), Estimate::of(&scaled).unwrap());
            let (ia, ib) = (a.interval.unwrap(), b.interval.unwrap());
            for (x, y) in [(a.value, b.value), (ia.lo, ib.lo), (ia.hi, ib.hi), (a.median, b.median)] {
                prop_assert!((x * factor / y - 1.0).abs() < 1e-9);
            }
            prop_assert!((a.cv - b.cv).abs() < 1e-9);
        }
    }
}

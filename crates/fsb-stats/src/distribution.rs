//! The distributions that intervals and tests stand on, from `statrs`, with the ends made safe.

use std::f64::consts::PI;

use statrs::distribution::{ChiSquared, ContinuousCDF};
use statrs::function::beta::beta_reg;
use statrs::function::erf::{erf_inv, erfc};
use statrs::function::gamma::ln_gamma;

/// Below a tenth of a degree of freedom intervals have no ends that a number could hold.
const FEWEST_DEGREES: f64 = 0.1;
/// Beyond this the distribution is the normal one to every digit.
const MOST_DEGREES: f64 = 1e8;

/// The quantile of the χ² distribution with these degrees of freedom.
pub(crate) fn chi_squared_quantile(probability: f64, degrees: f64) -> f64 {
    let degrees = degrees.clamp(FEWEST_DEGREES, MOST_DEGREES);
    ChiSquared::new(degrees).map_or(degrees, |distribution| distribution.inverse_cdf(probability))
}

/// The half-width, in standard errors, of a two-sided t-interval.
///
/// Newton's method on the tail probability from a good first guess, within a bracket, for steps near the ends are
/// rounded. (The library's own inverse runs forever at a thousand million degrees of freedom.)
pub(crate) fn t_quantile(level: f64, degrees: f64) -> f64 {
    let degrees = degrees.clamp(FEWEST_DEGREES, MOST_DEGREES);
    let scale = ln_gamma((degrees + 1.0) / 2.0) - ln_gamma(degrees / 2.0) - 0.5 * (degrees * PI).ln();
    let density = |t: f64| libm::exp(scale - (degrees + 1.0) / 2.0 * libm::log1p(t * t / degrees));
    let (mut low, mut high) = (0.0, f64::MAX);
    let mut t = first_guess(level, degrees);
    for _ in 0..200 {
        let excess = t_two_sided(t, degrees) - (1.0 - level);
        if excess > 0.0 {
            low = t
        } else {
            high = t
        }
        let step = t + excess / (2.0 * density(t));
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

/// The expansion of the quantile in powers of 1/ν (Fisher and Cornish 1960), from the normal quantile.
fn first_guess(level: f64, degrees: f64) -> f64 {
    let z = std::f64::consts::SQRT_2 * erf_inv(level);
    let (z2, nu) = (z * z, degrees);
    let guess = z * (1.0 + (z2 + 1.0) / (4.0 * nu) + (5.0 * z2 * z2 + 16.0 * z2 + 3.0) / (96.0 * nu * nu));
    if guess.is_finite() && guess > 0.0 { guess } else { 1.0 }
}

/// The probability of a t at least so far from zero, either way.
pub(crate) fn t_two_sided(t: f64, degrees: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    let degrees = degrees.clamp(FEWEST_DEGREES, MOST_DEGREES);
    beta_reg(degrees / 2.0, 0.5, degrees / (degrees + t * t)).clamp(0.0, 1.0)
}

/// The probability of a normal deviate at least so far from zero, either way.
pub(crate) fn normal_two_sided(z: f64) -> f64 {
    if z.is_finite() { erfc(z.abs() / std::f64::consts::SQRT_2).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_widths_are_those_of_scipy() {
        let oracle: serde_json::Value = serde_json::from_str(include_str!("../tests/oracle/scipy.json")).unwrap();
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

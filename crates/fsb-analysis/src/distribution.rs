//! The distributions that intervals and tests stand on, from `statrs`, with the ends made safe.

use statrs::function::beta::beta_reg;
use statrs::function::erf::erfc;

/// The half-width, in standard errors, of a two-sided t-interval.
///
/// Found by bisection of the tail probability, which is as exact as that is and always ends: the library's own inverse
/// runs forever at a thousand million degrees of freedom.
pub(crate) fn t_quantile(level: f64, degrees: f64) -> f64 {
    let beyond = |t: f64| t_two_sided(t, degrees) > 1.0 - level;
    let (mut low, mut high) = (0.0, 1.0);
    while beyond(high) && high < 1e300 {
        (low, high) = (high, high * 2.0);
    }
    // Each step halves the gap: after 64 the ends are neighbours.
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The probability of a t at least so far from zero, either way.
pub(crate) fn t_two_sided(t: f64, degrees: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    let degrees = degrees.clamp(0.1, 1e8);
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

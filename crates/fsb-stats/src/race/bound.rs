//! The bound that holds at all interim analyses of a race together.
//!
//! A difference δ of two candidates is estimated by least squares with the variance σ²v, and σ² by s² with ν degrees of
//! freedom. The prior of δ/σ is normal with the precision φ. The other priors leave everything else open (right Haar:
//! flat on effects, 1/σ on the scale). The Bayes factor against a difference of δ₀ is
//!
//! ```text
//! B = √(φ/(φ+z)) · ((1 + t²/ν · φ/(φ+z)) / (1 + t²/ν))^(−(ν+1)/2)     z = 1/v, t = (d − δ₀)/(s√v)
//! ```
//!
//! If δ₀ is the truth, B is a martingale of mean 1 under normal errors whatever σ is, so that the probability that it
//! ever reaches 1/α is at most α (Ville). The values δ₀ that it does not reject are therefore an interval that holds at
//! all interim analyses together, whatever decides their times. It is Lai's t mixture (T. L. Lai, Ann. Statist. 4,
//! 1976; H. Wang and A. Ramdas, arXiv:2310.03722, 2023) for a contrast of a linear model (M. Lindon and others,
//! arXiv:2210.08589, 2022).

/// The prior precision φ of a difference in units of σ. The bound is narrowest where 1/v is about sixteen times that,
/// which is what a race of forty candidates needs to separate losers from others.
const PRECISION: f64 = 0.25;

/// Returns the half-width of the interval for a difference with the variance s²·`v`, in units of s, or infinity if the
/// degrees of freedom are too few. `error` is the probability that the interval ever misses the truth.
pub(super) fn half_width(v: f64, degrees: f64, error: f64) -> f64 {
    if degrees <= 0.0 || v <= 0.0 {
        return f64::INFINITY;
    }
    let z = 1.0 / v;
    let ln_a = (((PRECISION + z) / PRECISION).ln() - 2.0 * error.ln()) / (degrees + 1.0);
    let rest = 1.0 - libm::exp(ln_a) * PRECISION / (PRECISION + z);
    if rest <= 0.0 {
        return f64::INFINITY;
    }
    (v * degrees * libm::expm1(ln_a) / rest).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B as in the module documentation.
    fn bayes_factor(t: f64, v: f64, degrees: f64) -> f64 {
        let shrunk = PRECISION / (PRECISION + 1.0 / v);
        let u = t * t / degrees;
        shrunk.sqrt() * ((1.0 + u * shrunk) / (1.0 + u)).powf(-(degrees + 1.0) / 2.0)
    }

    #[test]
    fn at_its_ends_the_bayes_factor_is_one_over_the_error() {
        for (v, degrees, error) in [(0.1, 40.0, 0.05), (0.5, 60.0, 1e-3), (1.0, 25.0, 1e-4), (0.02, 300.0, 6e-4)] {
            let half = half_width(v, degrees, error);
            let factor = bayes_factor(half / f64::sqrt(v), v, degrees);
            assert!((factor * error - 1.0).abs() < 1e-9, "{v} {degrees} {error}: {factor}");
        }
    }

    #[test]
    fn few_degrees_of_freedom_bound_nothing() {
        assert!(half_width(0.5, 0.0, 0.05).is_infinite() && half_width(0.5, 2.0, 1e-4).is_infinite());
        assert!(half_width(0.5, 200.0, 1e-4) < half_width(0.5, 20.0, 1e-4));
    }
}

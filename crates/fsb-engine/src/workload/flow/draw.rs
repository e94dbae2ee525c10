//! Random numbers with the distributions of a flow, each a function of the seed and its own number.
//!
//! The gamma distribution is sampled by Marsaglia and Tsang's method ("A simple method for generating gamma variables",
//! 2000), as `rand_distr` implements it. The generator is pinned, and the floating point is the same everywhere.

use fsb_model::flow::{Spread, Width};
use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64Mcg;

use crate::hash::{mix, unit};

/// No file of a gamma distribution gets larger than this multiple of its mean: one in 10^25 would.
const LONGEST_TAIL: f64 = 40.0;

/// Returns the number of bytes that random bits determine.
pub(super) fn size(spread: &Spread, bits: u64) -> u64 {
    match *spread {
        Spread::Exact(size) => size.0,
        Spread::Gamma { mean, shape } => gamma(mean.0 as f64, shape, bits) as u64,
        Spread::Uniform { low, high } => below(high.0 - low.0, bits) + low.0,
    }
}

/// Returns the most bytes that one call moves. A larger drawn size takes several calls.
pub(super) fn largest(spread: &Spread) -> u64 {
    match *spread {
        Spread::Exact(size) => size.0,
        Spread::Uniform { high, .. } => high.0.saturating_sub(1).max(1),
        Spread::Gamma { mean, .. } => mean.0.saturating_mul(4).min(1 << 30),
    }
}

/// Returns the number of entries of a directory, not rounded, because filebench counts up to it.
pub(super) fn width(width: Width, bits: u64) -> f64 {
    if width.shape == 0.0 { width.mean as f64 } else { gamma(width.mean as f64, width.shape, bits) }
}

/// Returns a number below `limit`.
#[inline]
pub(super) fn below(limit: u64, bits: u64) -> u64 {
    ((u128::from(bits) * u128::from(limit)) >> 64) as u64
}

/// Returns a number from 0 to below 1.
pub(super) fn share(bits: u64) -> f64 {
    unit(bits)
}

/// Returns a sample of the distribution with this mean and shape.
pub(super) fn gamma(mean: f64, shape: f64, bits: u64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    // The shape is checked by the flow, and so is the mean: there is such a distribution.
    let Ok(distribution) = Gamma::new(shape, mean / shape) else { return mean };
    let state = u128::from(bits) << 64 | u128::from(mix(bits));
    distribution.sample(&mut Pcg64Mcg::new(state)).min(mean * LONGEST_TAIL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Stream, hash};
    use fsb_model::Bytes;

    #[test]
    fn a_gamma_distribution_has_its_mean_and_variance() {
        let values: Vec<f64> = (0..50_000).map(|i| gamma(16_384.0, 1.5, hash(1, Stream::Flow, i))).collect();
        let mean = values.iter().sum::<f64>() / 5e4;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 5e4;
        assert!((mean / 16_384.0 - 1.0).abs() < 0.02, "{mean}");
        // The variance of a gamma distribution is its mean squared through its shape.
        assert!((variance / (16_384.0f64.powi(2) / 1.5) - 1.0).abs() < 0.05, "{variance}");
    }

    /// Every recorded run depends on these numbers.
    #[test]
    fn samples_are_pinned() {
        let sizes =
            [0, 1, 2].map(|i| size(&Spread::Gamma { mean: Bytes(131_072), shape: 1.5 }, hash(42, Stream::Flow, i)));
        assert_eq!(sizes, [251_408, 22_817, 70_540]);
    }

    #[test]
    fn uniform_numbers_stay_between_their_bounds_and_reach_them() {
        let spread = Spread::Uniform { low: Bytes(3), high: Bytes(7) };
        let mut seen = [0; 8];
        (0..1000).for_each(|i| seen[size(&spread, hash(1, Stream::Draw, i)) as usize] += 1);
        assert_eq!(seen.map(|count| count > 150), [false, false, false, true, true, true, true, false]);
    }
}

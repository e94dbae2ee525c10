//! The number of blocks that a precision needs.

use fsb_model::plan::BLOCK_LIMIT;

use crate::distribution::t_quantile;

/// Returns the fewest blocks, fixed in advance, with which an interval of `level` would be `factor` times as wide as
/// one of `nominal_level` from `n` blocks. A factor of 0.5 halves the width. The scatter is assumed to stay the same.
/// Returns `None` below two blocks, and if the number exceeds the limit of blocks.
pub fn blocks_to_scale(n: usize, nominal_level: f64, level: f64, factor: f64) -> Option<u32> {
    if n < 2 {
        return None;
    }
    let wanted = width(n, nominal_level) * factor;
    fewest(|blocks| width(blocks, level) <= wanted)
}

/// Half-width of a t-interval in standard deviations.
fn width(n: usize, level: f64) -> f64 {
    t_quantile(level, (n - 1) as f64) / (n as f64).sqrt()
}

/// Finds the smallest sufficient number by bisection, because the width decreases steadily.
fn fewest(enough: impl Fn(usize) -> bool) -> Option<u32> {
    let (mut low, mut high) = (2, BLOCK_LIMIT as usize);
    if !enough(high) {
        return None;
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    u32::try_from(low).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_takes_about_three_times_the_blocks_when_there_are_few() {
        let of = |n, factor| blocks_to_scale(n, 0.95, 0.95, factor);
        assert_eq!(of(10, 0.5), Some(33));
        assert_eq!(of(100, 0.5), Some(393));
        assert_eq!(of(10, 1.0), Some(10));
        assert_eq!((of(1, 0.5), of(9_000, 0.5)), (None, None));
        // An interval of an interim analysis is wider than one of a fixed number of blocks.
        assert!(blocks_to_scale(10, 0.996, 0.95, 0.5) < of(10, 0.5));
    }
}

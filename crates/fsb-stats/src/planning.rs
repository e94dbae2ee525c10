//! How many blocks it takes.

use fsb_model::plan::BLOCK_LIMIT;

use crate::LEVEL;
use crate::distribution::t_quantile;

/// The fewest blocks with which an interval that now rests on `n` would be `factor` times as wide (0.5 halves it), if
/// the scatter stays as it is. `None` below two blocks and beyond what can be asked for.
pub fn blocks_to_scale(n: usize, factor: f64) -> Option<u32> {
    if n < 2 {
        return None;
    }
    let wanted = width(n) * factor;
    fewest(|blocks| width(blocks) <= wanted)
}

/// Half-width of a t-interval in standard deviations.
fn width(n: usize) -> f64 {
    t_quantile(LEVEL, (n - 1) as f64) / (n as f64).sqrt()
}

/// By bisection, for the width falls steadily.
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
        assert_eq!(blocks_to_scale(10, 0.5), Some(33));
        assert_eq!(blocks_to_scale(100, 0.5), Some(393));
        assert_eq!(blocks_to_scale(10, 1.0), Some(10));
        assert_eq!((blocks_to_scale(1, 0.5), blocks_to_scale(9_000, 0.5)), (None, None));
    }
}

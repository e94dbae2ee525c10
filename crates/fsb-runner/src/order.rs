//! The order of a block, decided by the seed alone.

use fsb_model::run::BlockOrder;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Targets in random order, and the cells in one random order that all targets of the block share.
///
/// The generator is seeded with the run's seed and the block's number, so that any block can be drawn again without
/// those before it.
pub fn block(seed: u64, block: u32, targets: &[String], cells: &[String]) -> BlockOrder {
    let mut generator = Pcg64::seed_from_u64(seed ^ (u64::from(block) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut shuffled = |names: &[String]| {
        let mut names = names.to_vec();
        // Fisher–Yates. Written out because a library's shuffle may change between versions, and a recorded order
        // must not; the bias of the remainder is below 2⁻⁵⁰ for lists of this length.
        for last in (1..names.len()).rev() {
            names.swap(last, (generator.next_u64() % (last as u64 + 1)) as usize);
        }
        names
    };
    BlockOrder { block, targets: shuffled(targets), cells: shuffled(cells), parts: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|index| index.to_string()).collect()
    }

    proptest! {
        #[test]
        fn an_order_visits_everything_once_and_can_be_drawn_again(seed: u64, number in 0u32..1000, count in 0usize..20) {
            let drawn = block(seed, number, &names(count), &names(3));
            prop_assert_eq!(&drawn, &block(seed, number, &names(count), &names(3)));
            let mut sorted = drawn.targets;
            sorted.sort_by_key(|name| name.parse::<usize>().unwrap());
            prop_assert_eq!(sorted, names(count));
        }
    }

    #[test]
    fn every_target_comes_first_about_equally_often() {
        let mut first = [0u32; 3];
        for number in 1..=3000 {
            let drawn = block(42, number, &names(3), &[]);
            first[drawn.targets[0].parse::<usize>().unwrap()] += 1;
        }
        // Standard deviation is 26: five of them.
        assert!(first.iter().all(|count| count.abs_diff(1000) < 130), "{first:?}");
    }
}

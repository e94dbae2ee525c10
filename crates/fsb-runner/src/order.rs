//! The order of a block, decided by the seed alone.

use fsb_model::run::BlockOrder;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Returns the targets in random order, and the cells in one random order that all targets of the block share.
///
/// The generator is seeded with the run's seed and the block's number, so that any block can be drawn again without
/// those before it.
pub fn block(seed: u64, block: u32, targets: &[String], cells: &[String]) -> BlockOrder {
    let mut generator = generator(seed, block);
    let mut shuffled = |names: &[String]| {
        let mut names = names.to_vec();
        shuffle(&mut names, &mut generator);
        names
    };
    BlockOrder { block, targets: shuffled(targets), cells: shuffled(cells), parts: Vec::new() }
}

/// The generator of a block.
fn generator(seed: u64, block: u32) -> Pcg64 {
    Pcg64::seed_from_u64(seed ^ (u64::from(block) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Fisher–Yates. Written out because a library's shuffle may change between versions, and a recorded order must not;
/// the bias of the remainder is below 2⁻⁵⁰ for lists of this length.
fn shuffle<T>(list: &mut [T], generator: &mut Pcg64) {
    for last in (1..list.len()).rev() {
        list.swap(last, (generator.next_u64() % (last as u64 + 1)) as usize);
    }
}

/// Returns the turns of `slots` targets in the rounds of a cell. Every second round reverses the order of the round
/// before it, so that no target is first, or after a certain other one, more often than the rest.
pub fn rounds(seed: u64, block: u32, slots: u32, rounds: u32) -> Vec<Vec<u32>> {
    let mut generator = generator(seed, block);
    let mut turns: Vec<u32> = (0..slots).collect();
    let next = |round: u32| {
        if round.is_multiple_of(2) {
            shuffle(&mut turns, &mut generator);
        } else {
            turns.reverse();
        }
        turns.clone()
    };
    (0..rounds).map(next).collect()
}

/// Returns the slice of each target, in the order of `targets`. In whole rotations, every target is on every slice
/// equally often.
pub fn parts(block: u32, all: &[String], targets: &[String], parts: u32) -> Vec<u32> {
    let place = |name: &String| all.iter().position(|known| known == name).unwrap_or(0) as u32;
    targets.iter().map(|name| (place(name) + block) % parts.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn two_rounds_are_an_order_and_the_same_backwards(seed: u64, block in 0u32..30, slots in 1u32..7) {
            let rounds = rounds(seed, block, slots, 6);
            for pair in rounds.chunks(2) {
                let backwards: Vec<u32> = pair[0].iter().rev().copied().collect();
                prop_assert_eq!(&pair[1], &backwards);
                let mut sorted = backwards;
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..slots).collect::<Vec<_>>());
            }
        }

        #[test]
        fn whole_rotations_put_every_target_on_every_part_equally_often(count in 1usize..7, first in 0u32..20) {
            let all = names(count);
            let mut seen = std::collections::BTreeMap::new();
            for block in first..first + 2 * count as u32 {
                for (name, part) in all.iter().zip(parts(block, &all, &all, count as u32)) {
                    *seen.entry((name.clone(), part)).or_insert(0) += 1;
                }
            }
            prop_assert!(seen.len() == count * count && seen.values().all(|times| *times == 2));
        }
    }

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

//! The order of a block, decided by the seed alone.

use fsb_model::run::BlockOrder;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Returns the targets in random order, and the cells in one random order that all targets of the
/// block share.
///
/// The generator is seeded with the run's seed and the block's number, so that any block can be
/// drawn again without those before it.
pub fn block(seed: u64, block: u32, targets: &[String], cells: &[String]) -> BlockOrder {
    let mut generator = generator(seed, block);
    let mut shuffled = |names: &[String]| {
        let mut names = names.to_vec();
        shuffle(&mut names, &mut generator);
        names
    };
    BlockOrder {
        block,
        targets: shuffled(targets),
        cells: shuffled(cells),
        slices: Vec::new(),
    }
}

/// Returns the generator of a block.
fn generator(seed: u64, block: u32) -> Pcg64 {
    Pcg64::seed_from_u64(seed ^ (u64::from(block) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Fisher–Yates. Written out because a library's shuffle may change between versions, and a
/// recorded order must not; the bias of the remainder is below 2⁻⁵⁰ for lists of this length.
fn shuffle<T>(list: &mut [T], generator: &mut Pcg64) {
    for last in (1..list.len()).rev() {
        list.swap(last, (generator.next_u64() % (last as u64 + 1)) as usize);
    }
}

/// Returns the turns of `slots` targets in the rounds of a cell: a random order, the same
/// backwards, then both moved on by one turn, and so on. In every `2 × slots` rounds, each target
/// has every turn twice and comes before each other one as often as after it. A round that leads in
/// has an order of its own, so that the rounds that count begin with a pair.
pub fn rounds(seed: u64, block: u32, slots: u32, lead_in: bool, rounds: u32) -> Vec<Vec<u32>> {
    let mut generator = generator(seed, block);
    let mut turns: Vec<u32> = (0..slots).collect();
    let mut orders = Vec::new();
    if lead_in {
        shuffle(&mut turns, &mut generator);
        orders.push(turns.clone());
    }
    for round in 0..rounds {
        let pair = round / 2 % slots.max(1);
        if !round.is_multiple_of(2) {
            orders.push(
                orders
                    .last()
                    .map_or_else(Vec::new, |last| last.iter().rev().copied().collect()),
            );
            continue;
        }
        if pair == 0 {
            shuffle(&mut turns, &mut generator);
        } else {
            turns.rotate_left(1);
        }
        orders.push(turns.clone());
    }
    orders
}

/// Returns the slice of each target, in the order of `targets`. From block 1 on, each rotation of
/// `slices` blocks is a random Latin square. In a rotation every target is on every slice once. The
/// targets on neighbouring slices change from rotation to rotation.
pub fn slices(seed: u64, block: u32, all: &[String], targets: &[String], slices: u32) -> Vec<u32> {
    let slices = slices.max(1);
    let (rotation, row) = match block.checked_sub(1) {
        Some(measured) => (measured / slices + 1, measured % slices),
        None => (0, 0),
    };
    // Its complement is the seed of another stream than that of the orders.
    let mut generator = generator(!seed, rotation);
    let mut permutation = |count: u32| {
        let mut numbers: Vec<u32> = (0..count).collect();
        shuffle(&mut numbers, &mut generator);
        numbers
    };
    let [rows, columns, symbols] = [(); 3].map(|()| permutation(slices));
    targets
        .iter()
        .map(|name| {
            let column = all.iter().position(|known| known == name).unwrap_or(0) % slices as usize;
            symbols[((columns[column] + rows[row as usize]) % slices) as usize]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn two_rounds_are_an_order_and_the_same_backwards(seed: u64, block in 0u32..30, slots in 1u32..7) {
            for pair in rounds(seed, block, slots, false, 6).chunks(2) {
                let backwards: Vec<u32> = pair[0].iter().rev().copied().collect();
                prop_assert_eq!(&pair[1], &backwards);
            }
        }

        #[test]
        fn every_target_has_every_turn_equally_often(seed: u64, block in 0u32..30, slots in 1u32..7, lead_in: bool) {
            let orders = rounds(seed, block, slots, lead_in, 4 * slots);
            prop_assert_eq!(orders.len() as u32, 4 * slots + u32::from(lead_in));
            let counted = &orders[usize::from(lead_in)..];
            for turn in 0..slots as usize {
                for slot in 0..slots {
                    prop_assert_eq!(counted.iter().filter(|order| order[turn] == slot).count(), 4);
                }
            }
        }

        #[test]
        fn whole_rotations_put_every_target_on_every_slice_equally_often(seed: u64, count in 1u32..7, first in 0u32..9) {
            let all = names(count as usize);
            let mut seen = std::collections::BTreeMap::new();
            for block in first * count + 1..=(first + 2) * count {
                let here = slices(seed, block, &all, &all, count);
                let mut different = here.clone();
                different.sort_unstable();
                prop_assert_eq!(different, (0..count).collect::<Vec<_>>());
                for (name, slice) in all.iter().zip(here) {
                    *seen.entry((name.clone(), slice)).or_insert(0) += 1;
                }
            }
            prop_assert!(seen.len() as u32 == count * count && seen.values().all(|times| *times == 2));
        }
    }

    #[test]
    fn either_of_two_targets_follows_the_other_on_the_disk_equally_often() {
        let all = names(3);
        let follows = |block: &u32| {
            let here = slices(7, *block, &all, &all, 3);
            here[1] == (here[0] + 1) % 3
        };
        let count = (1..=600).filter(follows).count();
        // The three blocks of a rotation agree, so the standard deviation is 21: five of them.
        assert!(count.abs_diff(300) < 105, "{count}");
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
        assert!(
            first.iter().all(|count| count.abs_diff(1000) < 130),
            "{first:?}"
        );
    }
}

//! Who visits which item when.
//!
//! Items (blocks of data, files, directories) are numbered 0..n. Each thread owns a contiguous share of the places in
//! the order and passes over it as often as its number of operations asks for, so whatever the number of threads a pass
//! visits every item exactly once, and two threads never meet on one item. In random order the item at a place is a
//! seeded permutation of all items, another one in each pass and in each repetition.

use fsb_model::Access;

use crate::hash::{Stream, hash};
use crate::permutation::Permutation;

/// One thread's part of the places and of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// The first place.
    pub(crate) first: u64,
    /// The number of places.
    pub(crate) length: u64,
    /// The number of operations; more than `length` means further passes.
    pub(crate) operations: u64,
}

/// The share of thread `rank` of `threads`. The first threads get one more where it does not divide, of places as of
/// operations, so `operations` below `items` never overruns anybody's places.
pub(crate) fn share(items: u64, operations: u64, rank: u32, threads: u32) -> Share {
    let (rank, threads) = (u64::from(rank), u64::from(threads));
    let part = |whole: u64| whole / threads + u64::from(rank < whole % threads);
    let first = items / threads * rank + rank.min(items % threads);
    let length = part(items);
    let (passes, rest) = operations.checked_div(items).map_or((0, 0), |passes| (passes, operations % items));
    Share { first, length, operations: passes * length + part(rest) }
}

/// The items that one thread visits, in order.
#[derive(Debug, Clone)]
pub(crate) struct Visits {
    share: Share,
    /// The place within the share, and the pass.
    place: u64,
    pass: u64,
    items: u64,
    /// Seed of this repetition's orders, where the order is random.
    seed: Option<u64>,
    permutation: Permutation,
}

impl Visits {
    /// `seed` and `repetition` decide the order where `access` is random.
    pub(crate) fn new(items: u64, share: Share, access: Access, seed: u64, repetition: u32) -> Visits {
        let seed = hash(seed, Stream::Order, u64::from(repetition));
        Visits {
            share,
            place: 0,
            pass: 0,
            items,
            seed: (access == Access::Random).then_some(seed),
            permutation: Permutation::new(items, seed),
        }
    }

    /// The pass that the next item belongs to.
    pub(crate) fn pass(&self) -> u64 {
        if self.place == self.share.length { self.pass + 1 } else { self.pass }
    }

    /// Out of line, for it happens once a pass.
    #[cold]
    fn next_pass(&mut self) {
        self.place = 0;
        self.pass += 1;
        if let Some(seed) = self.seed {
            self.permutation = Permutation::new(self.items, hash(seed, Stream::Order, self.pass));
        }
    }
}

impl Iterator for Visits {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.share.operations = self.share.operations.checked_sub(1)?;
        if self.place == self.share.length {
            self.next_pass();
        }
        let place = self.share.first + self.place;
        self.place += 1;
        Some(if self.seed.is_some() { self.permutation.at(place) } else { place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(items: u64, operations: u64, threads: u32, access: Access) -> Vec<u64> {
        let mut visited = Vec::new();
        for rank in 0..threads {
            visited.extend(Visits::new(items, share(items, operations, rank, threads), access, 42, 0));
        }
        visited
    }

    proptest! {
        #[test]
        fn whole_passes_visit_every_item_equally_often(
            items in 1u64..300, passes in 1u64..4, threads in 1u32..9, random in any::<bool>(),
        ) {
            let access = if random { Access::Random } else { Access::Sequential };
            let mut visited = all(items, items * passes, threads, access);
            visited.sort_unstable();
            let expected: Vec<u64> = (0..items).flat_map(|i| (0..passes).map(move |_| i)).collect();
            prop_assert_eq!(visited, expected);
        }

        #[test]
        fn less_than_a_pass_visits_no_item_twice(
            items in 1u64..300, part in 0.0..1.0f64, threads in 1u32..9, random in any::<bool>(),
        ) {
            let operations = (items as f64 * part) as u64;
            let access = if random { Access::Random } else { Access::Sequential };
            let mut visited = all(items, operations, threads, access);
            prop_assert_eq!(visited.len() as u64, operations);
            visited.sort_unstable();
            visited.dedup();
            prop_assert_eq!(visited.len() as u64, operations);
        }

        #[test]
        fn the_item_at_a_place_does_not_depend_on_the_number_of_threads(items in 1u64..300, threads in 2u32..9) {
            prop_assert_eq!(all(items, items, 1, Access::Random), all(items, items, threads, Access::Random));
        }
    }

    #[test]
    fn passes_and_repetitions_have_orders_of_their_own() {
        let order = all(100, 200, 1, Access::Random);
        assert_ne!(order[..100], order[100..]);
        let later = Visits::new(100, share(100, 100, 0, 1), Access::Random, 42, 1).collect::<Vec<_>>();
        assert_ne!(order[..100], later);
    }

    #[test]
    fn nothing_to_visit_is_no_visit() {
        assert_eq!(share(0, 0, 0, 4), Share { first: 0, length: 0, operations: 0 });
        assert_eq!(share(2, 5, 3, 4), Share { first: 2, length: 0, operations: 0 });
    }
}

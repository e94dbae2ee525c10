//! The order in which threads visit items.
//!
//! Items (blocks of data, files, directories) are numbered 0..n. Each thread owns a contiguous share of the places in
//! the order, and passes over it as often as its number of operations asks for. A pass therefore visits every item
//! exactly once, whatever the number of threads, and two threads never meet on one item. In random order the item at a
//! place is a seeded permutation of all items, another one in each pass and in each repetition. Only the order `same`
//! leaves items out, for it visits one again and again.
//!
//! With a [`Distribution`], each place in a random order is a draw instead. A pass then has as many visits as there are
//! items, but visits some items several times and others never, and two threads can meet on one item.

use fsb_model::Access;

use crate::distribution::{Distribution, Draw};
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

/// Returns the share of thread `rank` of `threads`. If a number does not divide evenly, the first threads get one more,
/// of places as of operations. So `operations` below `items` never exceed the places of a thread.
pub(crate) fn share(items: u64, operations: u64, rank: u32, threads: u32) -> Share {
    let (rank, threads) = (u64::from(rank), u64::from(threads));
    let part = |whole: u64| whole / threads + u64::from(rank < whole % threads);
    let first = items / threads * rank + rank.min(items % threads);
    let length = part(items);
    let (passes, rest) = operations.checked_div(items).map_or((0, 0), |passes| (passes, operations % items));
    Share { first, length, operations: passes * length + part(rest) }
}

/// The default distance of visits in strided order, in blocks: the same as IOzone's.
pub(crate) const STRIDE: u64 = 17;

/// The items that one thread visits, in order.
#[derive(Debug, Clone)]
pub(crate) struct Visits {
    share: Share,
    /// The place within the share, and the pass.
    place: u64,
    pass: u64,
    order: Order,
    /// The offset that is added to each item of this thread.
    base: u64,
    /// Stop once at the end of each pass.
    rests: bool,
    resting: bool,
}

/// The mapping from places to items.
#[derive(Debug, Clone)]
enum Order {
    Forward,
    /// Of all items, so that the number of threads does not matter.
    Random {
        items: u64,
        seed: u64,
        permutation: Permutation,
    },
    /// Of all items, as drawn. The number of a draw does not depend on the number of threads.
    Drawn {
        items: u64,
        seed: u64,
        draw: Draw,
    },
    /// This order and those below run over the thread's own places, because elsewhere they would meet other threads.
    Backward,
    Strided {
        stride: u64,
        column: u64,
        next: u64,
    },
    Same,
}

impl Visits {
    /// `seed` and `repetition` decide the order where `access` is random.
    pub(crate) fn new(items: u64, share: Share, access: Access, seed: u64, repetition: u32) -> Visits {
        let order = match access {
            Access::Sequential => Order::Forward,
            Access::Random => {
                let seed = hash(seed, Stream::Order, u64::from(repetition));
                Order::Random { items, seed, permutation: Permutation::new(items, seed) }
            }
            Access::Backward => Order::Backward,
            Access::Strided => Order::Strided { stride: STRIDE, column: 0, next: 0 },
            Access::Same => Order::Same,
        };
        Visits { share, place: 0, pass: 0, order, base: 0, rests: false, resting: false }
    }

    /// Returns the visits of one share of the items, in an order of its own. For processes, which share nothing.
    pub(crate) fn of_part(share: Share, access: Access, seed: u64, repetition: u32) -> Visits {
        let own = Share { first: 0, ..share };
        let base = share.first;
        Visits { base, ..Visits::new(share.length, own, access, seed.wrapping_add(base), repetition) }
    }

    /// Sets the stride, if the order is strided.
    pub(crate) fn with_stride(mut self, blocks: u64) -> Visits {
        if let Order::Strided { stride, .. } = &mut self.order {
            *stride = blocks.max(1);
        }
        self
    }

    /// Draws the items of a random order from a distribution. `seed` decides which items are frequent: they are the same
    /// ones in all repetitions.
    pub(crate) fn with_distribution(mut self, distribution: &Distribution, seed: u64) -> Visits {
        if let Order::Random { items, seed: own, .. } = self.order {
            self.order = Order::Drawn { items, seed: own, draw: Draw::new(distribution, items, seed) };
        }
        self
    }

    /// Makes the iterator return `None` once at the end of each pass. The next call starts the next pass.
    pub(crate) fn resting(mut self) -> Visits {
        self.rests = true;
        self
    }

    /// Whether operations are left.
    pub(crate) fn more(&self) -> bool {
        self.share.operations > 0
    }

    /// The pass that the next item belongs to.
    pub(crate) fn pass(&self) -> u64 {
        if self.place == self.share.length { self.pass + 1 } else { self.pass }
    }

    /// Ends a pass. Returns whether to start the next one. Not inlined, because it runs once a pass.
    #[cold]
    fn turn(&mut self) -> bool {
        self.resting = self.rests && !self.resting;
        if self.resting {
            return false;
        }
        self.place = 0;
        self.pass += 1;
        match &mut self.order {
            Order::Random { items, seed, permutation } => {
                *permutation = Permutation::new(*items, hash(*seed, Stream::Order, self.pass));
            }
            Order::Strided { column, next, .. } => (*column, *next) = (0, 0),
            Order::Forward | Order::Backward | Order::Same | Order::Drawn { .. } => {}
        }
        true
    }
}

impl Iterator for Visits {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let Share { first, length, operations } = self.share;
        let left = operations.checked_sub(1)?;
        if self.place == length && !self.turn() {
            return None;
        }
        self.share.operations = left;
        let place = self.place;
        self.place += 1;
        let item = match &mut self.order {
            Order::Forward => first + place,
            Order::Random { permutation, .. } => permutation.at(first + place),
            Order::Drawn { items, seed, draw } => {
                let number = self.pass.wrapping_mul(*items).wrapping_add(first + place);
                draw.item(hash(*seed, Stream::Draw, number))
            }
            Order::Backward => first + length - 1 - place,
            Order::Strided { stride, column, next } => {
                let item = *next;
                *next = item.saturating_add(*stride);
                if *next >= length {
                    *column += 1;
                    *next = *column;
                }
                first + item
            }
            Order::Same => first,
        };
        Some(self.base + item)
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

    /// Every order that visits every item.
    fn thorough() -> impl Strategy<Value = Access> {
        let orders: Vec<Access> = Access::ALL.iter().copied().filter(|access| *access != Access::Same).collect();
        prop::sample::select(orders)
    }

    proptest! {
        #[test]
        fn whole_passes_visit_every_item_equally_often(
            items in 1u64..300, passes in 1u64..4, threads in 1u32..9, access in thorough(),
        ) {
            let mut visited = all(items, items * passes, threads, access);
            visited.sort_unstable();
            let expected: Vec<u64> = (0..items).flat_map(|i| (0..passes).map(move |_| i)).collect();
            prop_assert_eq!(visited, expected);
        }

        #[test]
        fn less_than_a_pass_visits_no_item_twice(
            items in 1u64..300, part in 0.0..1.0f64, threads in 1u32..9, access in thorough(),
        ) {
            let operations = (items as f64 * part) as u64;
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

        #[test]
        fn a_strided_pass_visits_every_item_once_whatever_the_stride(items in 1u64..300, stride in 1u64..400) {
            let visits = Visits::new(items, share(items, items, 0, 1), Access::Strided, 42, 0).with_stride(stride);
            let visited: Vec<u64> = visits.collect();
            prop_assert!(visited.windows(2).all(|pair| pair[1] == pair[0] + stride || pair[1] < stride));
            let mut sorted = visited;
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..items).collect::<Vec<_>>());
        }

        #[test]
        fn resting_visits_are_the_same_visits_in_passes(
            items in 1u64..50, operations in 0u64..200, threads in 1u32..5, access in prop::sample::select(Access::ALL),
        ) {
            for rank in 0..threads {
                let share = share(items, operations, rank, threads);
                let mut resting = Visits::new(items, share, access, 42, 0).resting();
                let mut visited = Vec::new();
                while resting.more() {
                    let pass: Vec<u64> = resting.by_ref().collect();
                    prop_assert!(pass.len() as u64 == share.length || !resting.more());
                    visited.extend(pass);
                }
                prop_assert_eq!(visited, Visits::new(items, share, access, 42, 0).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn orders_are_what_they_are_called() {
        let order = |access| all(40, 40, 1, access);
        assert_eq!(order(Access::Backward), (0..40).rev().collect::<Vec<_>>());
        assert_eq!(order(Access::Strided)[..8], [0, 17, 34, 1, 18, 35, 2, 19]);
        assert_eq!(order(Access::Same), [0; 40]);
        // Two threads: each has its own half.
        assert_eq!(all(6, 6, 2, Access::Backward), [2, 1, 0, 5, 4, 3]);
        assert_eq!(all(6, 6, 2, Access::Same), [0, 0, 0, 3, 3, 3]);
    }

    proptest! {
        #[test]
        fn a_part_visits_its_own_items(items in 1u64..100, parts in 1u32..9, access in thorough()) {
            for rank in 0..parts {
                let share = share(items, items, rank, parts);
                let mut visited: Vec<u64> = Visits::of_part(share, access, 42, 0).collect();
                visited.sort_unstable();
                prop_assert_eq!(visited, (share.first..share.first + share.length).collect::<Vec<_>>());
            }
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
    fn draws_do_not_depend_on_the_number_of_threads_and_frequent_items_stay_frequent() {
        let distribution: Distribution = "zipf:1.5".parse().unwrap();
        let all = |threads: u32, repetition: u32| -> Vec<u64> {
            let visits = |rank| {
                let share = share(100, 300, rank, threads);
                Visits::new(100, share, Access::Random, 42, repetition).with_distribution(&distribution, 42)
            };
            (0..threads).flat_map(visits).collect()
        };
        let sorted = |mut items: Vec<u64>| {
            items.sort_unstable();
            items
        };
        assert_eq!(sorted(all(1, 0)), sorted(all(3, 0)));
        assert_ne!(all(1, 0), all(1, 1));
        let most_frequent = |items: &[u64]| (0..100).max_by_key(|item| items.iter().filter(|one| *one == item).count());
        assert_eq!(most_frequent(&all(1, 0)), most_frequent(&all(1, 1)));
        assert_ne!(all(1, 0)[..100], all(1, 0)[100..200], "each pass has draws of its own");
    }

    #[test]
    fn workers_without_entries_visit_nothing() {
        assert_eq!(share(0, 0, 0, 4), Share { first: 0, length: 0, operations: 0 });
        assert_eq!(share(2, 5, 3, 4), Share { first: 2, length: 0, operations: 0 });
    }
}

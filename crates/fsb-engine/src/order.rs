//! The order in which threads visit items.
//!
//! Items (blocks of data, files, directories) are numbered 0..n. Each thread owns a contiguous
//! share of the places in the order, and passes over it as often as its number of operations asks
//! for. A pass therefore visits every item exactly once, whatever the number of threads, and two
//! threads never meet on one item. In random order the item at a place is a seeded permutation of
//! all items, another one in each pass and in each repetition. Only the order `same` leaves items
//! out, for it visits one again and again.
//!
//! With a [`Distribution`], each place in a random order is a draw instead. A pass then has as many
//! visits as there are items, but visits some items several times and others never, and two threads
//! can meet on one item.
//!
//! A [`Walk`] is the order of a thread that owns all items. Its records can have several sizes, and
//! a share of its visits can be in sequence. A pass then ends when as many items as there are were
//! moved.

use std::fmt;
use std::str::FromStr;

use fsb_model::Access;
use rand_distr::{Distribution as _, StandardNormal, Zipf};
use rand_pcg::Pcg64Mcg;

use crate::hash::{Permutation, Stream, hash, mix, unit};
use crate::walk::{Walk, WalkOptions};

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

/// Returns the share of thread `rank` of `threads`. If a number does not divide evenly, the first
/// threads get one more, of places as of operations. So `operations` below `items` never exceed the
/// places of a thread.
pub(crate) fn share(items: u64, operations: u64, rank: u32, threads: u32) -> Share {
    let (rank, threads) = (u64::from(rank), u64::from(threads));
    let part = |whole: u64| whole / threads + u64::from(rank < whole % threads);
    let first = items / threads * rank + rank.min(items % threads);
    let length = part(items);
    let (passes, rest) = operations
        .checked_div(items)
        .map_or((0, 0), |passes| (passes, operations % items));
    Share {
        first,
        length,
        operations: passes * length + part(rest),
    }
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
    /// This order and those below run over the thread's own places, because elsewhere they would
    /// meet other threads.
    Backward,
    Strided {
        stride: u64,
        column: u64,
        next: u64,
    },
    Same,
    Walk {
        walk: Box<Walk>,
        /// The distribution of random visits, and the seed of the draws.
        draw: Option<(u64, Draw)>,
    },
}

impl Visits {
    /// `seed` and `repetition` decide the order where `access` is random.
    pub(crate) fn new(
        items: u64,
        share: Share,
        access: Access,
        seed: u64,
        repetition: u32,
    ) -> Visits {
        let order = match access {
            Access::Sequential => Order::Forward,
            Access::Random => {
                let seed = hash(seed, Stream::Order, u64::from(repetition));
                Order::Random {
                    items,
                    seed,
                    permutation: Permutation::new(items, seed),
                }
            }
            Access::Backward => Order::Backward,
            Access::Strided => Order::Strided {
                stride: STRIDE,
                column: 0,
                next: 0,
            },
            Access::Same => Order::Same,
        };
        Visits {
            share,
            place: 0,
            pass: 0,
            order,
            base: 0,
            rests: false,
            resting: false,
        }
    }

    /// Returns the visits of one share of the items, in an order of its own. For processes, which
    /// share nothing.
    pub(crate) fn of_part(share: Share, access: Access, seed: u64, repetition: u32) -> Visits {
        let own = Share { first: 0, ..share };
        let base = share.first;
        Visits {
            base,
            ..Visits::new(
                share.length,
                own,
                access,
                seed.wrapping_add(base),
                repetition,
            )
        }
    }

    /// Sets the stride, if the order is strided.
    pub(crate) fn with_stride(mut self, blocks: u64) -> Visits {
        if let Order::Strided { stride, .. } = &mut self.order {
            *stride = blocks.max(1);
        }
        self
    }

    /// Draws the items of a random order from a distribution. `seed` decides which items are
    /// frequent: they are the same ones in all repetitions.
    pub(crate) fn with_distribution(mut self, distribution: &Distribution, seed: u64) -> Visits {
        if let Order::Random {
            items, seed: own, ..
        } = self.order
        {
            self.order = Order::Drawn {
                items,
                seed: own,
                draw: Draw::new(distribution, items, seed),
            };
        }
        self
    }

    /// Makes a walk of a sequential or random order. The thread must own all items.
    pub(crate) fn walking(mut self, options: &WalkOptions, seed: u64) -> Visits {
        let (options, seed, draw) = match self.order {
            Order::Random { seed, .. } => (options.clone(), seed, None),
            Order::Drawn { seed, draw, .. } => (options.clone(), seed, Some((seed, draw))),
            _ => (
                WalkOptions {
                    sequential: 1.0,
                    ..options.clone()
                },
                seed,
                None,
            ),
        };
        let walk = Box::new(Walk::new(options, self.share.length, seed, draw.is_none()));
        self.order = Order::Walk { walk, draw };
        self
    }

    /// Sets the direction of the next record, which decides its size in a mix with several sizes.
    #[inline]
    pub(crate) fn choose(&mut self, writes: bool) {
        if let Order::Walk { walk, .. } = &mut self.order {
            walk.choose(writes);
        }
    }

    /// Returns the number of items of the last record.
    #[inline]
    pub(crate) fn record(&self) -> u64 {
        if let Order::Walk { walk, .. } = &self.order {
            walk.record()
        } else {
            1
        }
    }

    /// Returns the first of this thread's items and their number.
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.base + self.share.first, self.share.length)
    }

    /// Makes the iterator return `None` once at the end of each pass. The next call starts the next
    /// pass.
    pub(crate) fn resting(mut self) -> Visits {
        self.rests = true;
        self
    }

    /// Returns whether operations are left.
    pub(crate) fn more(&self) -> bool {
        self.share.operations > 0
    }

    /// Returns the pass that the next item belongs to.
    pub(crate) fn pass(&self) -> u64 {
        if self.place == self.share.length {
            self.pass + 1
        } else {
            self.pass
        }
    }

    /// Ends a pass. Returns whether to start the next one. Not inlined, because it runs once a
    /// pass.
    #[cold]
    fn turn(&mut self) -> bool {
        self.resting = self.rests && !self.resting;
        if self.resting {
            return false;
        }
        self.place = 0;
        self.pass += 1;
        match &mut self.order {
            Order::Random {
                items,
                seed,
                permutation,
            } => {
                *permutation = Permutation::new(*items, hash(*seed, Stream::Order, self.pass));
            }
            Order::Strided { column, next, .. } => (*column, *next) = (0, 0),
            Order::Walk { walk, .. } => walk.restart(self.pass),
            Order::Forward | Order::Backward | Order::Same | Order::Drawn { .. } => {}
        }
        true
    }
}

impl Iterator for Visits {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let Share {
            first,
            length,
            operations,
        } = self.share;
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
            Order::Strided {
                stride,
                column,
                next,
            } => {
                let item = *next;
                *next = item.saturating_add(*stride);
                if *next >= length {
                    *column += 1;
                    *next = *column;
                }
                first + item
            }
            Order::Same => first,
            Order::Walk { walk, draw } => {
                let item = walk.visit((length - place).min(left + 1), |number| {
                    draw.as_ref()
                        .map(|(seed, draw)| draw.item(hash(*seed, Stream::Draw, number)))
                });
                self.place = place + walk.record();
                self.share.operations = left + 1 - walk.record();
                item
            }
        };
        Some(self.base + item)
    }
}

/// A distribution of random access that visits some items more often than others, as a plan gives
/// it.
///
/// The names are those of fio's option `random_distribution`. `normal` is a normal distribution;
/// that of fio is a mean of twelve uniform numbers with a uniform offset.
///
/// A distribution draws ranks. A permutation assigns the ranks to items, so that the most frequent
/// items do not lie side by side; only zones are regions of the file. Each draw is a function of
/// the seed and its own number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Distribution {
    /// The item of rank *k* is drawn in proportion to *k*^−theta (Zipf's law).
    Zipf(f64),
    /// The fraction `h` of the items receives the fraction 1 − `h` of the draws (Pareto's 80/20
    /// rule for 0.2).
    Pareto(f64),
    /// Ranks have a normal distribution around the middle, with this standard deviation in percent
    /// of all ranks.
    Normal(f64),
    /// Percent of the draws and percent of the items, from the first item on.
    Zoned(Vec<(f64, f64)>),
}

impl Distribution {
    /// Draws all items with the same probability: half of them receive half of the draws.
    pub(crate) const UNIFORM: Distribution = Distribution::Pareto(0.5);
}

/// The forms of a distribution, for messages.
pub(crate) const FORMS: &str =
    "random, zipf:1.1, pareto:0.2, normal:10, or zones such as zoned:80/20:20/80";

/// The largest exponent of Zipf's law. With it, 99.9 % of the draws are of one item.
const STEEPEST: f64 = 10.0;

/// The maximum number of zones.
const MOST_ZONES: usize = 256;

/// Percent by which sums of zones may differ from 100, for rounded thirds.
const ROUNDED: f64 = 0.05;

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a distribution: use {FORMS}");
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        if name == "zoned" {
            return zones(value).map(Distribution::Zoned);
        }
        let number: f64 = value.parse().map_err(|_| wrong())?;
        let within = |most: f64| match number > 0.0 && number <= most {
            true => Ok(number),
            false => Err(format!("{name} needs a number above 0 and up to {most}")),
        };
        match name {
            "zipf" => within(STEEPEST).map(Distribution::Zipf),
            "pareto" if number >= 1.0 => {
                Err("pareto needs a number above 0 and below 1".to_owned())
            }
            "pareto" => within(1.0).map(Distribution::Pareto),
            "normal" => within(100.0).map(Distribution::Normal),
            _ => Err(wrong()),
        }
    }
}

/// Parses `60/10:30/20:10/70`.
fn zones(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let percent = |text: &str| {
        text.parse::<f64>()
            .ok()
            .filter(|percent| (0.0..=100.0).contains(percent))
    };
    let zone = |text: &str| {
        let (draws, items) = text.split_once('/')?;
        Some((
            percent(draws)?,
            percent(items).filter(|items| *items > 0.0)?,
        ))
    };
    let zones: Option<Vec<_>> = text.split(':').map(zone).collect();
    let zones = zones.filter(|zones| zones.len() <= MOST_ZONES);
    let zones = zones.ok_or(
        "zones are percent of the accesses / percent of the file, such as zoned:80/20:20/80",
    )?;
    let sum = |part: fn(&(f64, f64)) -> f64| zones.iter().map(part).sum::<f64>();
    if (sum(|zone| zone.0) - 100.0).abs() > ROUNDED || (sum(|zone| zone.1) - 100.0).abs() > ROUNDED
    {
        return Err(
            "the accesses of all zones, and their parts of the file, must each add up to 100"
                .to_owned(),
        );
    }
    Ok(zones)
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Zipf(theta) => write!(f, "zipf:{theta}"),
            Distribution::Pareto(h) => write!(f, "pareto:{h}"),
            Distribution::Normal(deviation) => write!(f, "normal:{deviation}"),
            Distribution::Zoned(zones) => {
                f.write_str("zoned")?;
                zones
                    .iter()
                    .try_for_each(|(draws, items)| write!(f, ":{draws}/{items}"))
            }
        }
    }
}

/// A distribution over a number of items.
#[derive(Debug, Clone)]
struct Draw {
    items: u64,
    ranks: Ranks,
    permutation: Permutation,
}

#[derive(Debug, Clone)]
enum Ranks {
    Zipf(Zipf<f64>),
    /// The exponent that makes a uniform number a fraction of the ranks.
    Pareto(f64),
    /// The mean and the standard deviation, in ranks.
    Normal {
        mean: f64,
        deviation: f64,
    },
    Zoned(Vec<Zone>),
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    /// The share of draws in this zone and those before it.
    up_to: f64,
    first: u64,
    length: u64,
}

impl Draw {
    /// `seed` decides which items are the most frequent ones.
    fn new(distribution: &Distribution, items: u64, seed: u64) -> Draw {
        let (items, n) = (items.max(1), items.max(1) as f64);
        let ranks = match distribution {
            // The parser checks the exponent: there is such a distribution.
            Distribution::Zipf(theta) => {
                Zipf::new(n, *theta).map_or(Ranks::Pareto(1.0), Ranks::Zipf)
            }
            Distribution::Pareto(h) => Ranks::Pareto(libm::log(*h) / libm::log(1.0 - h)),
            Distribution::Normal(percent) => Ranks::Normal {
                mean: n / 2.0,
                deviation: n * percent / 100.0,
            },
            Distribution::Zoned(parts) => Ranks::Zoned(Zone::all(parts, items)),
        };
        Draw {
            items,
            ranks,
            permutation: Permutation::new(items, seed),
        }
    }

    /// Returns the item that random bits determine.
    fn item(&self, bits: u64) -> u64 {
        let last = self.items - 1;
        let mut generator = Pcg64Mcg::new(u128::from(bits) << 64 | u128::from(mix(bits)));
        let rank = match &self.ranks {
            Ranks::Zipf(zipf) => (zipf.sample(&mut generator) as u64).saturating_sub(1),
            Ranks::Pareto(exponent) => {
                (libm::pow(unit(bits), *exponent) * self.items as f64) as u64
            }
            Ranks::Normal { mean, deviation } => loop {
                let sample: f64 = StandardNormal.sample(&mut generator);
                let rank = mean + deviation * sample;
                if rank >= 0.0 && rank < self.items as f64 {
                    break rank as u64;
                }
            },
            Ranks::Zoned(zones) => return Zone::item(zones, bits).min(last),
        };
        self.permutation.at(rank.min(last))
    }
}

impl Zone {
    /// Returns the zones. A zone smaller than half an item gets the item at its start.
    fn all(parts: &[(f64, f64)], items: u64) -> Vec<Zone> {
        let at = |percent: f64| (percent / 100.0 * items as f64).round() as u64;
        let (mut draws, mut percent) = (0.0, 0.0);
        let zone = |&(more_draws, more_percent): &(f64, f64)| {
            let first = at(percent);
            draws += more_draws;
            percent += more_percent;
            Zone {
                up_to: draws / 100.0,
                first,
                length: at(percent).saturating_sub(first).max(1),
            }
        };
        parts.iter().map(zone).collect()
    }

    fn item(zones: &[Zone], bits: u64) -> u64 {
        let share = unit(bits);
        let zone = zones
            .iter()
            .find(|zone| share < zone.up_to)
            .or(zones.last());
        zone.map_or(0, |zone| {
            zone.first + (unit(mix(bits)) * zone.length as f64) as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hash::{Stream, hash};

    fn all(items: u64, operations: u64, threads: u32, access: Access) -> Vec<u64> {
        let mut visited = Vec::new();
        for rank in 0..threads {
            visited.extend(Visits::new(
                items,
                share(items, operations, rank, threads),
                access,
                42,
                0,
            ));
        }
        visited
    }

    /// Returns every order that visits every item.
    fn thorough() -> impl Strategy<Value = Access> {
        let orders: Vec<Access> = Access::ALL
            .iter()
            .copied()
            .filter(|access| *access != Access::Same)
            .collect();
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
        let later =
            Visits::new(100, share(100, 100, 0, 1), Access::Random, 42, 1).collect::<Vec<_>>();
        assert_ne!(order[..100], later);
    }

    #[test]
    fn draws_do_not_depend_on_the_number_of_threads_and_frequent_items_stay_frequent() {
        let distribution: Distribution = "zipf:1.5".parse().unwrap();
        let all = |threads: u32, repetition: u32| -> Vec<u64> {
            let visits = |rank| {
                let share = share(100, 300, rank, threads);
                Visits::new(100, share, Access::Random, 42, repetition)
                    .with_distribution(&distribution, 42)
            };
            (0..threads).flat_map(visits).collect()
        };
        let sorted = |mut items: Vec<u64>| {
            items.sort_unstable();
            items
        };
        assert_eq!(sorted(all(1, 0)), sorted(all(3, 0)));
        assert_ne!(all(1, 0), all(1, 1));
        let most_frequent = |items: &[u64]| {
            (0..100).max_by_key(|item| items.iter().filter(|one| *one == item).count())
        };
        assert_eq!(most_frequent(&all(1, 0)), most_frequent(&all(1, 1)));
        assert_ne!(
            all(1, 0)[..100],
            all(1, 0)[100..200],
            "each pass has draws of its own"
        );
    }

    #[test]
    fn workers_without_entries_visit_nothing() {
        assert_eq!(
            share(0, 0, 0, 4),
            Share {
                first: 0,
                length: 0,
                operations: 0
            }
        );
        assert_eq!(
            share(2, 5, 3, 4),
            Share {
                first: 2,
                length: 0,
                operations: 0
            }
        );
    }

    const DRAWS: u64 = 200_000;

    /// Returns how often each item is drawn.
    fn counts(text: &str, items: u64) -> Vec<u64> {
        let draw = Draw::new(&text.parse().unwrap(), items, 7);
        let mut counts = vec![0; items as usize];
        (0..DRAWS)
            .for_each(|number| counts[draw.item(hash(1, Stream::Draw, number)) as usize] += 1);
        counts
    }

    /// Returns the share of draws of the most frequent items, the most frequent first.
    fn shares(text: &str, items: u64) -> Vec<f64> {
        let mut counts = counts(text, items);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
            .into_iter()
            .map(|count| count as f64 / DRAWS as f64)
            .collect()
    }

    /// Asserts that a share of draws is as expected, within five standard deviations.
    fn close(found: f64, expected: f64, what: &str) {
        let deviation = (expected * (1.0 - expected) / DRAWS as f64).sqrt();
        assert!(
            (found - expected).abs() < 5.0 * deviation,
            "{what}: {found} instead of {expected}"
        );
    }

    #[test]
    fn the_ranks_of_zipf_follow_its_law() {
        for theta in [0.5, 1.0, 1.1, 2.0] {
            let items = 1000;
            let shares = shares(&format!("zipf:{theta}"), items);
            let weight = |rank: u64| (rank as f64).powf(-theta);
            let all: f64 = (1..=items).map(weight).sum();
            if theta >= 1.0 {
                // Sampling noise cannot exchange the first two ranks.
                close(shares[0], 1.0 / all, &format!("theta {theta}, first rank"));
                close(
                    shares[1],
                    weight(2) / all,
                    &format!("theta {theta}, second rank"),
                );
                let ten: f64 = (1..=10).map(weight).sum();
                close(
                    shares[..10].iter().sum(),
                    ten / all,
                    &format!("theta {theta}, ten ranks"),
                );
            } else {
                // Sorting prefers noise, so that only half of all ranks can be compared.
                let half: f64 = (1..=items / 2).map(weight).sum();
                assert!(
                    (shares[..500].iter().sum::<f64>() - half / all).abs() < 0.01,
                    "theta {theta}"
                );
            }
        }
    }

    #[test]
    fn the_pareto_rule_is_kept_at_every_scale() {
        // Of 10,000 items, 20 % receive 80 % of the draws, and 20 % of these receive 80 % of the 80
        // %.
        let shares = shares("pareto:0.2", 10_000);
        assert!((shares[..2000].iter().sum::<f64>() - 0.8).abs() < 0.01);
        assert!((shares[..400].iter().sum::<f64>() - 0.64).abs() < 0.01);
        assert!((shares[..80].iter().sum::<f64>() - 0.512).abs() < 0.01);
    }

    #[test]
    fn a_normal_distribution_has_its_quantiles() {
        // 68.27 % of the draws are within one standard deviation: 20 % of the items for 10 %. 95.45
        // % are within two.
        let shares = shares("normal:10", 1000);
        assert!((shares[..200].iter().sum::<f64>() - 0.6827).abs() < 0.01);
        assert!((shares[..400].iter().sum::<f64>() - 0.9545).abs() < 0.01);
    }

    #[test]
    fn zones_are_regions_with_their_shares_of_draws() {
        let counts = counts("zoned:60/10:30/20:8/30:2/40", 1000);
        let share =
            |from: usize, to: usize| counts[from..to].iter().sum::<u64>() as f64 / DRAWS as f64;
        for ((from, to), expected) in [(0, 100), (100, 300), (300, 600), (600, 1000)]
            .into_iter()
            .zip([0.6, 0.3, 0.08, 0.02])
        {
            close(share(from, to), expected, &format!("items {from} to {to}"));
        }
        close(share(0, 50), 0.3, "half of the first zone");
    }

    #[test]
    fn the_most_frequent_items_are_not_side_by_side() {
        let counts = counts("zipf:1.1", 100_000);
        let mut items: Vec<usize> = (0..counts.len()).collect();
        items.sort_unstable_by_key(|item| std::cmp::Reverse(counts[*item]));
        let mut first = items[..50].to_vec();
        first.sort_unstable();
        assert!(
            first.windows(2).all(|pair| pair[1] - pair[0] > 1),
            "{first:?}"
        );
    }

    proptest! {
        #[test]
        fn every_draw_is_an_item(
            text in prop::sample::select(vec!["zipf:0.1", "zipf:10", "pareto:0.001", "pareto:0.999", "normal:0.01",
                "normal:100", "zoned:100/100", "zoned:99/1:1/99"]),
            items in 1u64..1 << 40, bits in any::<u64>(),
        ) {
            prop_assert!(Draw::new(&text.parse().unwrap(), items, 3).item(bits) < items);
        }
    }

    #[test]
    fn a_distribution_is_printed_as_it_is_written() {
        for text in [
            "zipf:1.1",
            "zipf:1",
            "pareto:0.2",
            "normal:10",
            "zoned:60/10:30/20:8/30:2/40",
        ] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn distributions_that_do_not_exist_are_refused() {
        for text in [
            "",
            "zipf",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:nan",
            "zipf:inf",
            "zipf:11",
            "pareto:1",
            "pareto:0",
            "normal:101",
            "gamma:1",
            "zoned:",
            "zoned:50/50",
            "zoned:100/0:0/100",
            "zoned:50/50:50",
            "zoned:120/50:-20/50",
        ] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
    }
}

//! The one source of everything that looks random.
//!
//! Steps of a trial run in different processes with different numbers of threads, so no generator
//! may carry state from one item to the next: whatever belongs to item *i* is `hash(seed, stream,
//! i)`.

/// The purpose of a stream of random numbers. Streams of one seed are independent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    /// The bytes that files are filled with.
    Data = 1,
    /// The order in which items are visited.
    Order = 2,
    /// The fake clock's random factor of a whole trial.
    FakeTrial = 3,
    /// The fake clock's random factor of one call.
    FakeCall = 4,
    /// The choice between reads and writes in a mix.
    Mix = 5,
    /// The files of a mail server's transactions.
    Pool = 6,
    /// File sizes, directory widths and the initial files of the sets of a flow.
    Flow = 7,
    /// The random choices of a flow's threads: places, sizes of appends, files.
    Draw = 8,
    /// The visits of a walk that are in sequence, and the sizes of its records.
    Walk = 9,
}

/// A bijection of 64-bit numbers whose output looks random: the finaliser of SplitMix64 (Steele,
/// Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns the number that belongs to item `index` of a stream.
#[inline]
pub(crate) const fn hash(seed: u64, stream: Stream, index: u64) -> u64 {
    mix(mix(seed ^ mix(stream as u64)) ^ mix(index))
}

/// Returns a number in [0, 1) with 53 random bits.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A bijection of `0..length`: a seeded shuffle of any length that needs no memory.
///
/// Random access must visit every block once before any block twice, for any number of blocks, in a
/// process whose memory does not depend on that number, in a few nanoseconds. So the order is not
/// stored but computed: a bijection of the *k*-bit numbers, with the smallest *k* that holds the
/// length. A result outside the length is put through again until it falls inside ("cycle
/// walking"). On average this takes fewer than two passes, because the length is more than half of
/// 2^k. The result is a bijection of the numbers below the length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    length: u64,
    mask: u64,
    shift: u32,
    add: [u64; ROUNDS],
    multiply: [u64; ROUNDS],
}

/// Each round adds, multiplies by an odd number and folds the upper half onto the lower one; every
/// one of these can be undone on *k* bits, so all of it is a bijection. Three rounds let every bit
/// depend on every other.
const ROUNDS: usize = 3;

impl Permutation {
    pub(crate) fn new(length: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        let mut key = seed;
        let mut next = || {
            key = mix(key);
            key
        };
        Permutation {
            length,
            mask: if bits == 0 {
                0
            } else {
                u64::MAX >> (u64::BITS - bits)
            },
            shift: bits.div_ceil(2).max(1),
            add: std::array::from_fn(|_| next()),
            multiply: std::array::from_fn(|_| next() | 1),
        }
    }

    /// Returns the number at place `index`, which must be below the length.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.length);
        let mut x = index;
        loop {
            for round in 0..ROUNDS {
                x = x
                    .wrapping_add(self.add[round])
                    .wrapping_mul(self.multiply[round])
                    & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.length {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_generator_is_pinned() {
        // SplitMix64 from state 0, as its authors print it: other numbers would change every
        // recorded run.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_ne!(hash(1, Stream::Data, 0), hash(1, Stream::Order, 0));
        assert_ne!(hash(1, Stream::Data, 0), hash(2, Stream::Data, 0));
    }

    #[test]
    fn units_fill_their_interval() {
        let mean = (0..10_000)
            .map(|i| unit(hash(7, Stream::FakeCall, i)))
            .sum::<f64>()
            / 1e4;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!(unit(u64::MAX) < 1.0);
    }

    proptest! {
        #[test]
        fn every_number_comes_exactly_once(length in 1u64..5000, seed in any::<u64>()) {
            let permutation = Permutation::new(length, seed);
            let mut seen = vec![false; length as usize];
            for index in 0..length {
                let number = permutation.at(index) as usize;
                prop_assert!(!std::mem::replace(&mut seen[number], true), "{} twice", number);
            }
        }

        #[test]
        fn large_lengths_stay_inside(length in 1u64 << 40..1 << 62, index in 0u64..1 << 40, seed in any::<u64>()) {
            prop_assert!(Permutation::new(length, seed).at(index) < length);
        }
    }

    /// Neighbours in time must not be neighbours on disk, and no region may be preferred at any
    /// time.
    #[test]
    fn the_order_looks_random() {
        let length = 65_536u64;
        for seed in 0..20 {
            let permutation = Permutation::new(length, seed);
            let order: Vec<u64> = (0..length).map(|i| permutation.at(i)).collect();
            let near = order
                .windows(2)
                .filter(|pair| pair[0].abs_diff(pair[1]) <= 8)
                .count();
            // 65,535 pairs, each near with probability 16/65,536: 16 expected, standard deviation
            // 4.
            assert!(near < 60, "seed {seed}: {near} pairs of neighbours");
            let jump: f64 = order
                .windows(2)
                .map(|pair| pair[0].abs_diff(pair[1]) as f64)
                .sum::<f64>();
            let mean = jump / (length - 1) as f64 / length as f64;
            assert!(
                (mean - 1.0 / 3.0).abs() < 0.03,
                "seed {seed}: mean jump {mean} of the length"
            );
            let early: f64 =
                order[..1024].iter().map(|&x| x as f64).sum::<f64>() / 1024.0 / length as f64;
            assert!(
                (early - 0.5).abs() < 0.06,
                "seed {seed}: the first 1024 centre on {early}"
            );
        }
    }
}

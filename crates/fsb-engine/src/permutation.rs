//! A seeded shuffle of any length that needs no memory.
//!
//! Random access must visit every block once before any block twice, for any number of blocks, in a process whose
//! memory does not depend on that number, in a few nanoseconds. So the order is not stored but computed: a bijection of
//! the *k*-bit numbers, with the smallest *k* that holds the length. A result outside the length is put through again
//! until it falls inside ("cycle walking"). On average this takes fewer than two passes, because the length is more
//! than half of 2^k. The result is a bijection of the numbers below the length.

use crate::hash::mix;

/// A bijection of `0..length`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    length: u64,
    mask: u64,
    shift: u32,
    add: [u64; ROUNDS],
    multiply: [u64; ROUNDS],
}

/// Each round adds, multiplies by an odd number and folds the upper half onto the lower one; every one of these can be
/// undone on *k* bits, so all of it is a bijection. Three rounds let every bit depend on every other.
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
            mask: if bits == 0 { 0 } else { u64::MAX >> (u64::BITS - bits) },
            shift: bits.div_ceil(2).max(1),
            add: std::array::from_fn(|_| next()),
            multiply: std::array::from_fn(|_| next() | 1),
        }
    }

    /// The number at place `index`, which must be below the length.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.length);
        let mut x = index;
        loop {
            for round in 0..ROUNDS {
                x = x.wrapping_add(self.add[round]).wrapping_mul(self.multiply[round]) & self.mask;
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
    use super::*;
    use proptest::prelude::*;

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

    /// Neighbours in time must not be neighbours on disk, and no region may be preferred at any time.
    #[test]
    fn the_order_looks_random() {
        let length = 65_536u64;
        for seed in 0..20 {
            let permutation = Permutation::new(length, seed);
            let order: Vec<u64> = (0..length).map(|i| permutation.at(i)).collect();
            let near = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 8).count();
            // 65,535 pairs, each near with probability 16/65,536: 16 expected, standard deviation 4.
            assert!(near < 60, "seed {seed}: {near} pairs of neighbours");
            let jump: f64 = order.windows(2).map(|pair| pair[0].abs_diff(pair[1]) as f64).sum::<f64>();
            let mean = jump / (length - 1) as f64 / length as f64;
            assert!((mean - 1.0 / 3.0).abs() < 0.03, "seed {seed}: mean jump {mean} of the length");
            let early: f64 = order[..1024].iter().map(|&x| x as f64).sum::<f64>() / 1024.0 / length as f64;
            assert!((early - 0.5).abs() < 0.06, "seed {seed}: the first 1024 centre on {early}");
        }
    }
}

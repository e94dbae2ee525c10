//! The one source of everything that looks random.
//!
//! Steps of a trial run in different processes with different numbers of threads, so no generator may carry state from
//! one item to the next: whatever belongs to item *i* is `hash(seed, stream, i)`.

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
}

/// A bijection of 64-bit numbers whose output looks random: the finaliser of SplitMix64 (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", 2014).
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The number that belongs to item `index` of a stream.
#[inline]
pub(crate) const fn hash(seed: u64, stream: Stream, index: u64) -> u64 {
    mix(mix(seed ^ mix(stream as u64)) ^ mix(index))
}

/// A number in [0, 1) with 53 random bits.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_pinned() {
        // SplitMix64 from state 0, as its authors print it: other numbers would change every recorded run.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_ne!(hash(1, Stream::Data, 0), hash(1, Stream::Order, 0));
        assert_ne!(hash(1, Stream::Data, 0), hash(2, Stream::Data, 0));
    }

    #[test]
    fn units_fill_their_interval() {
        let mean = (0..10_000).map(|i| unit(hash(7, Stream::FakeCall, i))).sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!(unit(u64::MAX) < 1.0);
    }
}

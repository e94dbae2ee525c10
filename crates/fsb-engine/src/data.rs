//! What files are filled with: bytes that no file system can compress, deduplicate or leave out.
//!
//! The byte at an address is a function of the seed and the address alone, whatever the record size, the order and the
//! thread. Addresses number all bytes of a file set. A pool of random bytes repeats every [`PERIOD`] bytes, further
//! apart than any file system's compression looks; the first 8 bytes of every 512 are replaced by a number of their own,
//! so no two sectors of a set are alike. In the timed loop a record therefore costs one store each 512 bytes and no
//! copying: the kernel reads straight from the pool, which is small enough to stay in the processor's cache.

use crate::hash::{Stream, hash, mix};

/// Btrfs compresses at most 128 KiB at once, zstd with windows no larger.
const PERIOD: usize = 512 << 10;
const SECTOR: usize = 512;
/// The granularity of memory, and the strictest alignment that direct I/O asks for.
pub(crate) const PAGE: usize = 4096;

/// Memory that starts on a page and was touched, so that no first use of it falls into a timed stretch.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Memory {
    pub(crate) fn new(length: usize) -> Memory {
        let mut bytes = vec![0; length + PAGE];
        // Zeroed memory is not there until it is written.
        bytes.fill(0xa5);
        let start = bytes.as_ptr().align_offset(PAGE);
        Memory { bytes, start, length }
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.length]
    }
}

/// One thread's source of data.
#[derive(Debug)]
pub(crate) struct Data {
    pool: Memory,
    seed: u64,
}

impl Data {
    /// A source of records of up to `largest` bytes.
    pub(crate) fn new(seed: u64, largest: usize) -> Data {
        let mut pool = Memory::new(PERIOD + largest.next_multiple_of(SECTOR) + SECTOR);
        let seed = hash(seed, Stream::Data, 0);
        for (index, word) in pool.as_mut().chunks_exact_mut(8).enumerate() {
            // Beyond the period it starts again, so that a record is in one piece wherever it begins.
            word.copy_from_slice(&mix(seed ^ mix((index % (PERIOD / 8)) as u64)).to_ne_bytes());
        }
        Data { pool, seed }
    }

    /// All memory that windows lie in.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        self.pool.as_mut()
    }

    /// The bytes from `address` on. They stay right until the next call.
    #[inline]
    pub(crate) fn window(&mut self, address: u64, length: usize) -> &mut [u8] {
        let begin = address as usize % PERIOD;
        let lead = begin % SECTOR;
        let first = address / SECTOR as u64;
        let sectors = &mut self.pool.as_mut()[begin - lead..][..(lead + length).next_multiple_of(SECTOR)];
        for (index, sector) in sectors.chunks_exact_mut(SECTOR).enumerate() {
            // Multiplication by an odd number is a bijection: different for every sector of the set.
            let stamp = self.seed.wrapping_add(first + index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sector[..8].copy_from_slice(&stamp.to_be_bytes());
        }
        &mut sectors[lead..lead + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn a_byte_depends_on_its_address_alone(start in 0u64..4 << 20, cut in 1usize..9000, length in 9000usize..20_000) {
            let whole = Data::new(1, 20_000).window(start, length).to_vec();
            let mut pieces = Data::new(1, 9000);
            let head = pieces.window(start, cut).to_vec();
            prop_assert_eq!(&whole[..cut], &head[..]);
            let tail = (length - cut).min(9000);
            prop_assert_eq!(&whole[cut..cut + tail], pieces.window(start + cut as u64, tail));
        }
    }

    #[test]
    fn no_two_sectors_are_alike_and_none_is_zero() {
        let mut data = Data::new(7, 4096);
        let mut seen = HashSet::new();
        for block in 0..4096u64 {
            for sector in data.window(block * 4096, 4096).chunks(SECTOR) {
                assert!(sector.iter().any(|&byte| byte != 0));
                assert!(seen.insert(sector.to_vec()), "block {block} repeats a sector");
            }
        }
    }

    /// Deflate looks 32 KiB back; the pool repeats further apart than any file system's compression looks.
    #[test]
    fn compression_gains_nothing() {
        use std::io::Write;
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(Data::new(3, 1 << 20).window(512, 1 << 20)).unwrap();
        assert!(encoder.finish().unwrap().len() > 1 << 20);
    }

    #[test]
    fn memory_starts_on_a_page() {
        for length in [1, 4096, 100_000] {
            let mut memory = Memory::new(length);
            assert_eq!(memory.as_mut().as_ptr() as usize % PAGE, 0);
            assert_eq!(memory.as_mut().len(), length);
        }
    }
}

//! The content of files: bytes that no file system can compress, deduplicate or omit, unless a plan
//! asks for data of another [`Mixture`].
//!
//! The byte at an address is a function of the seed and the address alone, whatever the record
//! size, the order and the thread. Addresses number all bytes of a file set. A pool of random bytes
//! repeats every [`PERIOD`] bytes, further apart than any file system's compression looks. The
//! first 8 bytes of every 512 are replaced by a number of their own, so no two sectors of a set are
//! alike. In the timed loop a record therefore costs one store each 512 bytes and no copying: the
//! kernel reads straight from the pool, which is small enough to stay in the processor's cache.
//!
//! Each sector of compressible data begins with random bytes and ends in a run of one byte.
//! Duplicates are blocks of 4 KiB that carry the numbers of the pool instead of their own. All
//! duplicates at the same place in the pool are equal, and they are further apart than compression
//! looks.

use fsb_model::nearest::unknown;
use serde_json::{Map, Value, json};

use crate::hash::{Stream, hash, mix};

pub(crate) use crate::memory::{Memory, PAGE};

/// Btrfs compresses at most 128 KiB at once, zstd with windows no larger.
const PERIOD: usize = 512 << 10;
const SECTOR: usize = 512;
/// Bytes at the start of a sector that are unique to it.
const STAMP: usize = 8;
/// The unit of duplication: the smallest block that file systems share.
const BLOCK: usize = 4096;
const SECTORS_A_BLOCK: u64 = (BLOCK / SECTOR) as u64;

/// The parameters that decide every byte of a file set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DataSource {
    pub(crate) seed: u64,
    pub(crate) mixture: Mixture,
}

impl From<u64> for DataSource {
    /// Returns incompressible data of a seed.
    fn from(seed: u64) -> DataSource {
        DataSource {
            seed,
            mixture: Mixture::default(),
        }
    }
}

/// One thread's source of data.
#[derive(Debug)]
pub(crate) struct Data {
    pool: Memory,
    stamps: Stamps,
}

impl Data {
    /// Returns a source of records of up to `largest` bytes.
    pub(crate) fn new(source: impl Into<DataSource>, largest: usize) -> Data {
        let DataSource { seed, mixture } = source.into();
        let mut pool = Memory::new(PERIOD + largest.next_multiple_of(SECTOR) + SECTOR);
        let seed = hash(seed, Stream::Data, 0);
        let (period, rest) = pool.as_mut().split_at_mut(PERIOD);
        for (index, word) in period.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&mix(seed ^ mix(index as u64)).to_ne_bytes());
        }
        // Beyond the period it starts again, so that a record is in one piece wherever it begins.
        rest.chunks_mut(PERIOD)
            .for_each(|again| again.copy_from_slice(&period[..again.len()]));
        let random = mixture.random_bytes(SECTOR, STAMP);
        if random < SECTOR {
            // The same everywhere: btrfs looks at samples first, and does not try where all bytes
            // are about as frequent. No zeros, which some devices leave out.
            let run = seed as u8 | 1;
            pool.as_mut()
                .chunks_exact_mut(SECTOR)
                .for_each(|sector| sector[random..].fill(run));
        }
        Data {
            pool,
            stamps: Stamps {
                seed,
                duplicates: mixture.duplicates(),
            },
        }
    }

    /// Returns all memory that windows are in.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        self.pool.as_mut()
    }

    /// Returns the bytes from `address` on. They are valid until the next call.
    #[inline]
    pub(crate) fn window(&mut self, address: u64, length: usize) -> &mut [u8] {
        let begin = address as usize % PERIOD;
        let lead = begin % SECTOR;
        let sectors =
            &mut self.pool.as_mut()[begin - lead..][..(lead + length).next_multiple_of(SECTOR)];
        self.stamps.stamp(address / SECTOR as u64, sectors);
        &mut sectors[lead..lead + length]
    }

    /// Returns the number of the window from `address` on among those of its length, if windows of
    /// that length share no sector. Two windows with different numbers may be in use at once.
    #[inline]
    pub(crate) fn place(address: u64, length: usize) -> Option<usize> {
        let begin = address as usize % PERIOD;
        let apart = length != 0 && length.is_multiple_of(SECTOR) && PERIOD.is_multiple_of(length);
        (apart && begin.is_multiple_of(length)).then(|| begin / length)
    }

    /// Returns the number of different values of [`Data::place`] for windows of this length.
    pub(crate) fn places(length: usize) -> usize {
        PERIOD / length.max(1)
    }

    /// Returns the index of the first byte that differs, or `None` if all are equal.
    #[inline]
    pub(crate) fn difference(expected: &[u8], found: &[u8]) -> Option<usize> {
        // Comparing whole slices is fast. The byte-wise search runs only after a mismatch.
        if expected == found {
            None
        } else {
            expected
                .iter()
                .zip(found)
                .position(|(expected, found)| expected != found)
        }
    }

    /// Copies the bytes from `address` on into the caller's memory, and returns the address for the
    /// next call. If memory already `holds` bytes at the same place in the pool, only the stamps
    /// are renewed.
    #[inline]
    pub(crate) fn fill(&self, memory: &mut [u8], address: u64, holds: Option<u64>) -> u64 {
        let begin = address as usize % PERIOD;
        if holds.is_none_or(|held| held as usize % PERIOD != begin) {
            memory.copy_from_slice(&self.pool.as_ref()[begin..begin + memory.len()]);
        }
        let (first, lead) = (address / SECTOR as u64, begin % SECTOR);
        if lead == 0 {
            self.stamps.stamp(first, memory);
        } else {
            // The end of a sector, and whole ones after it.
            let (end, sectors) = memory.split_at_mut((SECTOR - lead).min(memory.len()));
            let covered = STAMP.saturating_sub(lead).min(end.len());
            end[..covered]
                .copy_from_slice(&self.stamps.number(first)[lead.min(STAMP)..][..covered]);
            self.stamps.stamp(first + 1, sectors);
        }
        address
    }
}

/// The first bytes of sectors.
#[derive(Debug)]
struct Stamps {
    seed: u64,
    /// The number of duplicates in 2³² blocks.
    duplicates: u64,
}

impl Stamps {
    /// Replaces the first bytes of sectors by the sectors' own numbers. The last sector may be cut
    /// short.
    #[inline]
    fn stamp(&self, first: u64, memory: &mut [u8]) {
        let mut sectors = memory.chunks_exact_mut(SECTOR);
        let mut number = first;
        for sector in &mut sectors {
            sector[..STAMP].copy_from_slice(&self.number(number));
            number += 1;
        }
        let rest = sectors.into_remainder();
        let covered = rest.len().min(STAMP);
        rest[..covered].copy_from_slice(&self.number(number)[..covered]);
    }

    /// Returns the first bytes of a sector.
    #[inline]
    fn number(&self, sector: u64) -> [u8; STAMP] {
        if self.duplicates > 0
            && mix(self.seed ^ mix(sector / SECTORS_A_BLOCK)) >> 32 < self.duplicates
        {
            // The numbers of the first period, of another seed, so that no block of that period is
            // one of them.
            return number_of(!self.seed, sector % (PERIOD / SECTOR) as u64);
        }
        number_of(self.seed, sector)
    }
}

/// Multiplication by an odd number is a bijection: different for every sector of the set.
#[inline]
fn number_of(seed: u64, sector: u64) -> [u8; STAMP] {
    seed.wrapping_add(sector)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()
}

/// Shares of the data that compression and deduplication save. By default both are 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mixture {
    /// The share of each sector that is a run of one byte, from 0 to 1.
    compressible: f64,
    /// The share of 4 KiB blocks that have the content of another one, from 0 to 1.
    duplicate: f64,
}

impl Mixture {
    /// Parses the value in a plan: `{ compressible = "60%", duplicate = "10%" }`, or a number in
    /// per cent.
    pub(crate) fn parse(value: &Value) -> Result<Mixture, String> {
        const KEYS: [&str; 2] = ["compressible", "duplicate"];
        let Value::Object(shares) = value else {
            return Err(format!(
                "{value} is not a table such as {{ compressible = \"60%\", duplicate = \"10%\" }}"
            ));
        };
        if let Some(key) = shares.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(unknown("share", key, KEYS));
        }
        let share = |key: &str| shares.get(key).map_or(Ok(0.0), |value| share(key, value));
        Ok(Mixture {
            compressible: share("compressible")?,
            duplicate: share("duplicate")?,
        })
    }

    /// Returns the mixture as a parameter, or `None` for the default.
    pub(crate) fn param(self) -> Option<Value> {
        let mut shares = Map::new();
        for (key, share) in [
            ("compressible", self.compressible),
            ("duplicate", self.duplicate),
        ] {
            if share > 0.0 {
                shares.insert(key.to_owned(), json!(percent(share)));
            }
        }
        (!shares.is_empty()).then_some(Value::Object(shares))
    }

    /// Returns the text for a cell's label, with a leading comma.
    pub(crate) fn label(self) -> String {
        let mut label = String::new();
        for (share, what) in [
            (self.compressible, "compressible"),
            (self.duplicate, "duplicates"),
        ] {
            if share > 0.0 {
                label += &format!(", {} {what}", percent(share));
            }
        }
        label
    }

    /// Returns the least share of the data that must reach the device.
    pub(crate) fn least_share(self) -> f64 {
        (1.0 - self.compressible) * (1.0 - self.duplicate)
    }

    /// Returns the random bytes of a sector: at least those that make it unique.
    fn random_bytes(self, sector: usize, least: usize) -> usize {
        (((1.0 - self.compressible) * sector as f64).round() as usize).max(least)
    }

    /// Returns the number of duplicates in 2³² blocks.
    fn duplicates(self) -> u64 {
        (self.duplicate * (1u64 << 32) as f64) as u64
    }
}

/// Parses a share in per cent, from 0 to 100.
fn share(key: &str, value: &Value) -> Result<f64, String> {
    let number = match value {
        Value::String(text) => text.trim().trim_end_matches('%').trim().parse::<f64>().ok(),
        value => value.as_f64(),
    };
    match number {
        Some(number) if (0.0..=100.0).contains(&number) => Ok(number / 100.0),
        _ => Err(format!(
            "{key}: {value} is not a share from \"0%\" to \"100%\""
        )),
    }
}

/// Formats a share. A hundredth of a per cent is less than the granularity of a sector.
fn percent(share: f64) -> String {
    format!("{}%", (share * 1e4).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

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

    proptest! {
        #[test]
        fn windows_of_different_places_leave_each_other_alone(one in 0u64..4096, other in 0u64..4096, power in 9u32..19) {
            let length = 1usize << power;
            let [one, other] = [one, other].map(|number| number * length as u64);
            let [first, second] = [one, other].map(|address| Data::place(address, length).unwrap());
            prop_assert!(first.max(second) < Data::places(length));
            let mut data = Data::new(1, length);
            let before = data.window(one, length).to_vec();
            data.window(other, length);
            let begin = one as usize % PERIOD;
            prop_assert!(first == second || data.whole()[begin..begin + length] == before[..]);
        }
    }

    #[test]
    fn records_that_share_sectors_have_no_place() {
        assert_eq!(Data::place(8192, 4096), Some(2));
        for (address, length) in [
            (512, 4096),
            (0, 1000),
            (0, 3 * 512),
            (0, 0),
            (0, 2 * PERIOD),
        ] {
            assert_eq!(Data::place(address, length), None);
        }
    }

    proptest! {
        #[test]
        fn memory_of_ones_own_is_filled_alike(
            start in 0u64..4 << 20, later in 0u64..4 << 20, same in any::<bool>(), length in 1usize..5000,
        ) {
            let later = if same { start + PERIOD as u64 } else { later };
            let mut data = Data::new(1, 5000);
            let mut memory = vec![0; length];
            let mut holds = None;
            for address in [start, later, later] {
                holds = Some(data.fill(&mut memory, address, holds));
                prop_assert_eq!(&memory[..], &data.window(address, length)[..]);
            }
        }
    }

    #[test]
    fn no_two_sectors_are_alike_and_none_is_zero() {
        let mut data = Data::new(7, 4096);
        let mut seen = HashSet::new();
        for block in 0..4096u64 {
            for sector in data.window(block * 4096, 4096).chunks(SECTOR) {
                assert!(sector.iter().any(|&byte| byte != 0));
                assert!(
                    seen.insert(sector.to_vec()),
                    "block {block} repeats a sector"
                );
            }
        }
    }

    fn mixed(shares: serde_json::Value) -> DataSource {
        DataSource {
            seed: 5,
            mixture: Mixture::parse(&shares).unwrap(),
        }
    }

    #[test]
    fn compression_saves_what_was_asked_for() {
        use std::io::Write;
        for percent in [10.0, 25.0, 60.0, 90.0, 100.0] {
            let mut data = Data::new(
                mixed(serde_json::json!({"compressible": percent, "duplicate": 10})),
                128 << 10,
            );
            let mut left = 0;
            for chunk in 0..32u64 {
                let mut encoder =
                    flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder
                    .write_all(data.window(chunk * (128 << 10), 128 << 10))
                    .unwrap();
                left += encoder.finish().unwrap().len();
            }
            let saved = 100.0 - 100.0 * left as f64 / f64::from(32 * (128 << 10));
            assert!(
                (saved - percent).abs() < 3.0,
                "{percent} % were asked for, {saved:.1} % saved"
            );
        }
    }

    #[test]
    fn duplicates_are_as_many_as_were_asked_for() {
        for (compressible, duplicate) in [(0, 10), (60, 25), (0, 100)] {
            let mixture = serde_json::json!({"compressible": compressible, "duplicate": duplicate});
            let mut data = Data::new(mixed(mixture), BLOCK);
            let blocks = 40_000u64;
            let distinct: HashSet<Vec<u8>> = (0..blocks)
                .map(|block| data.window(block * BLOCK as u64, BLOCK).to_vec())
                .collect();
            let saved = 100.0 - 100.0 * distinct.len() as f64 / blocks as f64;
            assert!(
                (saved - f64::from(duplicate)).abs() < 1.5,
                "{duplicate} % were asked for, {saved:.1} % saved"
            );
        }
    }

    proptest! {
        #[test]
        fn mixed_data_depend_on_their_address_alone(start in 0u64..2 << 20, cut in 1usize..9000, length in 9000usize..20_000) {
            let source = mixed(serde_json::json!({"compressible": 60, "duplicate": 30}));
            let whole = Data::new(source, 20_000).window(start, length).to_vec();
            let mut pieces = Data::new(source, 20_000);
            let head = pieces.window(start, cut).to_vec();
            prop_assert_eq!(&whole[..cut], &head[..]);
            let tail = pieces.window(start + cut as u64, length - cut).to_vec();
            prop_assert_eq!(&whole[cut..], &tail[..]);
            let mut memory = vec![0; length];
            pieces.fill(&mut memory, start, None);
            prop_assert_eq!(&whole, &memory);
        }
    }

    /// Deflate looks 32 KiB back; the pool repeats further apart than any file system's compression
    /// looks.
    #[test]
    fn compression_gains_nothing() {
        use std::io::Write;
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder
            .write_all(Data::new(3, 1 << 20).window(512, 1 << 20))
            .unwrap();
        assert!(encoder.finish().unwrap().len() > 1 << 20);
    }

    #[test]
    fn shares_are_read_and_written() {
        let mixture = Mixture::parse(&json!({"compressible": "60%", "duplicate": 12.5})).unwrap();
        assert_eq!(
            Mixture::parse(&json!({"compressible": "60", "duplicate": 12.5})).unwrap(),
            mixture
        );
        assert_eq!(
            mixture.param(),
            Some(json!({"compressible": "60%", "duplicate": "12.5%"}))
        );
        assert_eq!(Mixture::parse(&mixture.param().unwrap()), Ok(mixture));
        assert_eq!(mixture.label(), ", 60% compressible, 12.5% duplicates");
        assert_eq!(
            Mixture::parse(&json!({"compressible": "0%"}))
                .unwrap()
                .param(),
            None
        );
        assert_eq!(Mixture::default().label(), "");
        assert!((mixture.least_share() - 0.35).abs() < 1e-9);
    }

    #[test]
    fn invalid_shares_are_refused() {
        for bad in [
            json!("60%"),
            json!({"compressible": "101%"}),
            json!({"duplicate": "-1%"}),
            json!({"compressible": "x"}),
        ] {
            Mixture::parse(&bad).unwrap_err();
        }
        let near = Mixture::parse(&json!({"compressable": "60%"})).unwrap_err();
        assert!(near.contains("compressible"), "{near}");
    }
}

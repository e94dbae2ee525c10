//! Latency histograms in records: HdrHistogram, V2, deflated, in base64.
//!
//! A record may come from any source, and its header states the length of the histogram. A
//! deserializer that believes the header may allocate four gigabytes. So this module inflates the
//! data first, within bounds, and parses them only if they are as long as the header states.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Decompress, FlushDecompress, Status};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// The byte limit of an inflated histogram. A histogram of all 64 bits with four digits takes half
/// of it.
const MOST: usize = 16 << 20;
/// The cookies of a plain and of a deflated histogram, as hdrhistogram writes them.
const PLAIN: u32 = 0x1c84_9313;
const DEFLATED: u32 = 0x1c84_9314;
/// The length of the header before the counts.
const HEADER: usize = 40;
/// The offset of its part that states range and precision, behind the cookie and the length.
const FORMAT: usize = 8;
/// The maximum precision in digits: FSBench writes two, other tools three.
const MOST_DIGITS: u32 = 4;

/// Decodes a histogram. Returns `None` if the text holds none, or if its header is not plausible.
pub fn decode(text: &str) -> Option<Histogram<u64>> {
    Decoder::default().decode(text)
}

/// Decodes histograms one after another in the same memory, because a journal has one for each of
/// hundreds of thousands of trials.
pub struct Decoder {
    bytes: Vec<u8>,
    plain: Vec<u8>,
    inflate: Decompress,
    counts: Vec<Bin>,
    merged: Vec<Bin>,
}

/// The buffer of a [`Decoder`] that holds a plain histogram.
#[derive(Debug, Clone, Copy)]
enum Plain {
    /// The text was not deflated.
    Encoded,
    Inflated,
}

impl Default for Decoder {
    fn default() -> Decoder {
        let (bytes, plain) = Default::default();
        let (counts, merged) = Default::default();
        Decoder {
            bytes,
            plain,
            inflate: Decompress::new(true),
            counts,
            merged,
        }
    }
}

/// An index into the counts of a histogram, and the count there, which is above zero.
type Bin = (u32, u64);

/// The sum of histograms. It takes the memory of the counts that are above zero, a hundredth of
/// what a histogram takes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Sum(Option<Counts>);

impl Sum {
    /// Returns the sum as the text of a histogram that is not deflated. Returns `None` if nothing
    /// was added, or if a count is above 2^63.
    pub fn to_text(&self) -> Option<String> {
        Some(STANDARD.encode(self.0.as_ref()?.to_plain()?))
    }
}

/// The counts of a histogram that are above zero.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts {
    /// The part of the header that states range and precision.
    header: [u8; HEADER - FORMAT],
    /// The number of counts of a histogram with this header.
    cells: usize,
    /// By index.
    bins: Vec<Bin>,
}

impl Counts {
    /// Returns the counts of a plain histogram. Returns `None` if hdrhistogram refuses it.
    fn from_first(plain: &[u8]) -> Option<Counts> {
        let found: Histogram<u64> = Deserializer::new()
            .deserialize(&mut Cursor::new(plain))
            .ok()?;
        let cells = found.distinct_values();
        let mut bins = Vec::new();
        counts_of(plain, cells, &mut bins)?;
        Some(Counts {
            header: plain.get(FORMAT..HEADER)?.try_into().ok()?,
            cells,
            bins,
        })
    }

    /// Adds counts of a histogram with the same header. `merged` is memory that is used again.
    fn add(&mut self, other: &[Bin], merged: &mut Vec<Bin>) {
        merged.clear();
        let mut own = &self.bins[..];
        for (index, count) in other.iter().copied() {
            let before = own.iter().take_while(|(known, _)| *known < index).count();
            merged.extend_from_slice(&own[..before]);
            own = &own[before..];
            match own.first() {
                Some((known, held)) if *known == index => {
                    merged.push((index, held.saturating_add(count)));
                    own = &own[1..];
                }
                _ => merged.push((index, count)),
            }
        }
        merged.extend_from_slice(own);
        self.bins.clone_from(merged);
    }

    /// Returns the sum with a histogram of another range or precision. Returns `None` if it does
    /// not fit.
    fn with(&self, other: &Histogram<u64>) -> Option<Counts> {
        let mut sum = self.histogram()?;
        sum.add(other).ok()?;
        let mut plain = Vec::new();
        V2Serializer::new().serialize(&sum, &mut plain).ok()?;
        Counts::from_first(&plain)
    }

    fn histogram(&self) -> Option<Histogram<u64>> {
        Deserializer::new()
            .deserialize(&mut Cursor::new(self.to_plain()?))
            .ok()
    }

    /// Returns the plain histogram: the header, and each count in ZigZag LEB128 of at most nine
    /// bytes. A negative number is that many zeros.
    fn to_plain(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(HEADER + 4 * self.bins.len());
        bytes.extend_from_slice(&PLAIN.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.header);
        let mut next = 0;
        for (index, count) in self.bins.iter().copied() {
            match index - next {
                0 => {}
                1 => write_number(&mut bytes, 0),
                zeros => write_number(&mut bytes, -i64::from(zeros)),
            }
            write_number(&mut bytes, i64::try_from(count).ok()?);
            next = index + 1;
        }
        if self.bins.is_empty() {
            write_number(&mut bytes, 0);
        }
        let length = u32::try_from(bytes.len() - HEADER).ok()?;
        bytes[4..8].copy_from_slice(&length.to_be_bytes());
        Some(bytes)
    }
}

/// Writes a number in ZigZag LEB128, whose ninth byte has eight bits.
fn write_number(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 0..8 {
        if rest < 0x80 {
            bytes.push(rest as u8);
            return;
        }
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Reads the number at the beginning of `bytes`, and the number of its bytes. Returns `None` if it
/// is cut off.
fn read_number(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut encoded = 0;
    for (place, byte) in bytes.iter().take(9).enumerate() {
        let is_last = place == 8 || *byte < 0x80;
        let bits = if place == 8 { *byte } else { *byte & 0x7f };
        encoded |= u64::from(bits) << (7 * place);
        if is_last {
            let number = (encoded >> 1) as i64 ^ -((encoded & 1) as i64);
            return Some((number, place + 1));
        }
    }
    None
}

/// Reads the counts of a plain histogram that has `cells` counts. Returns `None` if it has more of
/// them, or if its data are cut off.
fn counts_of(plain: &[u8], cells: usize, bins: &mut Vec<Bin>) -> Option<()> {
    bins.clear();
    let length = word(plain, 4)? as usize;
    let mut data = plain.get(HEADER..HEADER + length)?;
    let mut index = 0u64;
    while !data.is_empty() {
        let (number, bytes) = read_number(data)?;
        data = &data[bytes..];
        if number > 0 {
            if index >= cells as u64 {
                return None;
            }
            bins.push((index as u32, number as u64));
        }
        // A negative number is one of zeros.
        let step = if number < 0 { number.unsigned_abs() } else { 1 };
        index = index.checked_add(step)?;
    }
    Some(())
}

impl Decoder {
    /// Like [`decode`].
    pub fn decode(&mut self, text: &str) -> Option<Histogram<u64>> {
        let plain = self.plain(text)?;
        let plain = self.buffer(plain);
        Deserializer::new()
            .deserialize(&mut Cursor::new(plain))
            .ok()
    }

    /// Adds the histogram in a text to a sum. A text that holds none, or one that does not fit the
    /// first one of the sum, is left out.
    pub fn add(&mut self, sum: &mut Sum, text: &str) {
        let Some(plain) = self.plain(text) else {
            return;
        };
        let bytes = match plain {
            Plain::Encoded => &self.bytes,
            Plain::Inflated => &self.plain,
        };
        match &mut sum.0 {
            None => sum.0 = Counts::from_first(bytes),
            Some(counts) if counts.header[..] == bytes[FORMAT..HEADER] => {
                if counts_of(bytes, counts.cells, &mut self.counts).is_some() {
                    counts.add(&self.counts, &mut self.merged);
                }
            }
            // Another range or precision.
            Some(counts) => {
                let found = Deserializer::new().deserialize(&mut Cursor::new(bytes));
                if let Some(counts_of_both) = found.ok().and_then(|found| counts.with(&found)) {
                    *counts = counts_of_both;
                }
            }
        }
    }

    /// Adds a sum to another one, as [`Decoder::add`] adds a histogram.
    pub fn join(&mut self, sum: &mut Sum, other: Sum) {
        match (&mut sum.0, other.0) {
            (_, None) => {}
            (None, other) => sum.0 = other,
            (Some(counts), Some(other)) if counts.header == other.header => {
                counts.add(&other.bins, &mut self.merged);
            }
            (Some(counts), Some(other)) => {
                let both = other.histogram().and_then(|found| counts.with(&found));
                if let Some(both) = both {
                    *counts = both;
                }
            }
        }
    }

    /// Decodes a text to a plain histogram, whose header is plausible and as long as stated.
    fn plain(&mut self, text: &str) -> Option<Plain> {
        self.bytes.clear();
        STANDARD.decode_vec(text, &mut self.bytes).ok()?;
        let plain = match word(&self.bytes, 0)? {
            PLAIN => Plain::Encoded,
            DEFLATED => {
                self.inflate()?;
                Plain::Inflated
            }
            _ => return None,
        };
        let bytes = self.buffer(plain);
        let fits = word(bytes, 0)? == PLAIN
            && word(bytes, 4)? as usize <= bytes.len().checked_sub(HEADER)?
            && word(bytes, 12)? <= MOST_DIGITS;
        fits.then_some(plain)
    }

    fn buffer(&self, plain: Plain) -> &Vec<u8> {
        match plain {
            Plain::Encoded => &self.bytes,
            Plain::Inflated => &self.plain,
        }
    }

    /// Inflates the data behind the cookie and the length. Returns `None` if they are no deflate
    /// stream, or if the result is longer than any histogram.
    fn inflate(&mut self) -> Option<()> {
        /// The initial buffer size, and its increment.
        const ROOM: usize = 16 << 10;
        self.inflate.reset(true);
        self.plain.clear();
        let deflated = self.bytes.get(8..)?;
        while self.plain.len() < MOST {
            self.plain.reserve(ROOM);
            let read = self.inflate.total_in() as usize;
            let had = self.plain.len();
            let status = self
                .inflate
                .decompress_vec(&deflated[read..], &mut self.plain, FlushDecompress::None)
                .ok()?;
            if status == Status::StreamEnd {
                return Some(());
            }
            // A stream that ends too early makes no further progress.
            if had == self.plain.len() && read == self.inflate.total_in() as usize {
                return None;
            }
        }
        None
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::V2DeflateSerializer;
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
        values
            .iter()
            .for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    #[test]
    fn a_histogram_that_lies_about_its_length_is_none() {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&histogram(&[1000]), &mut bytes)
            .unwrap();
        assert!(decode(&STANDARD.encode(&bytes)).is_some());
        bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(decode(&STANDARD.encode(&bytes)).is_none());
        bytes[4..8].copy_from_slice(&0u32.to_be_bytes());
        bytes[12..16].copy_from_slice(&5u32.to_be_bytes());
        assert!(decode(&STANDARD.encode(&bytes)).is_none());
    }

    #[test]
    fn a_stream_that_ends_too_early_is_none_and_the_decoder_goes_on() {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&histogram(&[1000, 70_000]), &mut bytes)
            .unwrap();
        let mut decoder = Decoder::default();
        for cut in 0..bytes.len() {
            assert!(
                decoder.decode(&STANDARD.encode(&bytes[..cut])).is_none(),
                "{cut}"
            );
        }
        assert_eq!(
            decoder.decode(&STANDARD.encode(&bytes)),
            Some(histogram(&[1000, 70_000]))
        );
    }

    fn text(histogram: &Histogram<u64>) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut bytes)
            .unwrap();
        STANDARD.encode(bytes)
    }

    #[test]
    fn a_sum_leaves_out_other_texts() {
        let mut decoder = Decoder::default();
        let mut sum = Sum::default();
        assert_eq!(sum.to_text(), None);
        decoder.add(&mut sum, "nonsense");
        assert_eq!(sum.to_text(), None);
        decoder.add(&mut sum, &text(&histogram(&[1000, 70_000])));
        decoder.add(&mut sum, "nonsense");
        decoder.add(&mut sum, &text(&histogram(&[5, 1000])));
        let mut other = Sum::default();
        decoder.add(&mut other, &text(&histogram(&[9])));
        decoder.join(&mut sum, other);
        assert_eq!(
            decode(&sum.to_text().unwrap()),
            Some(histogram(&[5, 9, 1000, 1000, 70_000]))
        );
    }

    #[test]
    fn a_count_above_the_limit_of_the_format_has_no_text() {
        let mut large = histogram(&[]);
        large.record_n(1000, i64::MAX as u64).unwrap();
        let mut decoder = Decoder::default();
        let mut sum = Sum::default();
        decoder.add(&mut sum, &text(&large));
        assert_eq!(decode(&sum.to_text().unwrap()), Some(large));
        decoder.add(&mut sum, &text(&histogram(&[1000])));
        assert_eq!(sum.to_text(), None);
    }

    /// Draws a histogram of one of three formats.
    fn any_histogram() -> impl Strategy<Value = Histogram<u64>> {
        let formats = [
            (1, 3_600_000_000_000, 2),
            (1, 3_600_000_000_000, 3),
            (1000, 1 << 40, 2),
        ];
        let value = prop_oneof![0u64..5, 1u64..3_600_000_000_000];
        let values = prop::collection::vec((value, 0u64..3 << 40), 0..40);
        (prop::sample::select(formats.to_vec()), values).prop_map(
            |((low, high, digits), values)| {
                let mut found = Histogram::new_with_bounds(low, high, digits).unwrap();
                for (value, count) in values {
                    let _ = found.record_n(value, count);
                }
                found
            },
        )
    }

    #[test]
    fn a_stream_that_never_ends_is_none() {
        let mut bomb = flate2::write::ZlibEncoder::new(
            DEFLATED.to_be_bytes().to_vec(),
            flate2::Compression::best(),
        );
        bomb.get_mut().extend([0; 4]);
        std::io::Write::write_all(&mut bomb, &vec![0; 2 * MOST]).unwrap();
        assert!(decode(&STANDARD.encode(bomb.finish().unwrap())).is_none());
    }

    proptest! {
        /// The sum is that of hdrhistogram, byte for byte.
        #[test]
        fn sums_are_those_of_the_library(all in prop::collection::vec(any_histogram(), 1..6), at: usize) {
            let mut expected = all[0].clone();
            for other in &all[1..] {
                let _ = expected.add(other);
            }
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&expected, &mut bytes).unwrap();
            let mut decoder = Decoder::default();
            let mut sum = Sum::default();
            for one in &all {
                decoder.add(&mut sum, &text(one));
            }
            let expected = STANDARD.encode(&bytes);
            prop_assert_eq!(sum.to_text(), Some(expected.clone()));
            // In two parts of equal formats.
            let format = (all[0].low(), all[0].high(), all[0].sigfig());
            if all.iter().all(|one| (one.low(), one.high(), one.sigfig()) == format) {
                let mut parts = [Sum::default(), Sum::default()];
                for (place, one) in all.iter().enumerate() {
                    decoder.add(&mut parts[usize::from(place >= at % all.len())], &text(one));
                }
                let [mut sum, other] = parts;
                decoder.join(&mut sum, other);
                prop_assert_eq!(sum.to_text(), Some(expected));
            }
        }

        #[test]
        fn cut_off_and_overlong_counts_are_left_out(
            values in prop::collection::vec(1u64..3_600_000_000_000, 1..20),
            mut noise in prop::collection::vec(any::<u8>(), 0..30),
        ) {
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&histogram(&values), &mut bytes).unwrap();
            let mut sum = Sum::default();
            let mut decoder = Decoder::default();
            decoder.add(&mut sum, &STANDARD.encode(&bytes));
            let before = sum.clone();
            bytes.truncate(HEADER);
            bytes.append(&mut noise);
            let length = (bytes.len() - HEADER) as u32;
            bytes[4..8].copy_from_slice(&length.to_be_bytes());
            let noisy = STANDARD.encode(&bytes);
            decoder.add(&mut sum, &noisy);
            match decode(&noisy) {
                None => prop_assert_eq!(sum, before),
                Some(found) => {
                    let mut both = histogram(&values);
                    both.add(&found).unwrap();
                    prop_assert_eq!(sum.to_text().as_deref().and_then(decode), Some(both));
                }
            }
        }

        #[test]
        fn recorded_values_are_read_back(values in prop::collection::vec(1u64..3_600_000_000_000, 0..50)) {
            let histogram = histogram(&values);
            let mut bytes = Vec::new();
            V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
            prop_assert_eq!(decode(&STANDARD.encode(&bytes)), Some(histogram));
        }

        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), plain: bool) {
            let _ = decode(&String::from_utf8_lossy(&bytes));
            let mark = if plain { PLAIN } else { DEFLATED };
            if bytes.len() > 4 {
                bytes[..4].copy_from_slice(&mark.to_be_bytes());
            }
            let _ = decode(&STANDARD.encode(&bytes));
        }
    }
}

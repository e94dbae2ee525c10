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
    deserializer: Deserializer,
}

impl Default for Decoder {
    fn default() -> Decoder {
        let (bytes, plain) = Default::default();
        Decoder {
            bytes,
            plain,
            inflate: Decompress::new(true),
            deserializer: Deserializer::new(),
        }
    }
}

impl Decoder {
    /// Like [`decode`].
    pub fn decode(&mut self, text: &str) -> Option<Histogram<u64>> {
        self.bytes.clear();
        STANDARD.decode_vec(text, &mut self.bytes).ok()?;
        let plain = match word(&self.bytes, 0)? {
            PLAIN => &self.bytes,
            DEFLATED => {
                self.inflate()?;
                &self.plain
            }
            _ => return None,
        };
        let fits = word(plain, 0)? == PLAIN
            && word(plain, 4)? as usize <= plain.len().checked_sub(HEADER)?
            && word(plain, 12)? <= MOST_DIGITS;
        fits.then(|| self.deserializer.deserialize(&mut Cursor::new(plain)).ok())?
    }

    /// Replaces histograms by their sum, which is not deflated. It skips texts that are no
    /// histogram, and histograms that do not fit the first one. No text remains if a sum is above
    /// 2^63.
    pub fn merge(&mut self, texts: &mut Vec<String>) {
        let mut sum: Option<Histogram<u64>> = None;
        for found in texts.drain(..).filter_map(|text| self.decode(&text)) {
            match &mut sum {
                Some(sum) => drop(sum.add(found)),
                None => sum = Some(found),
            }
        }
        let mut bytes = Vec::new();
        let encoded = sum.filter(|sum| V2Serializer::new().serialize(sum, &mut bytes).is_ok());
        texts.extend(encoded.map(|_| STANDARD.encode(bytes)));
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

    #[test]
    fn merge_sums_histograms_and_leaves_out_other_texts() {
        let text = |values: &[u64]| {
            let mut bytes = Vec::new();
            V2DeflateSerializer::new()
                .serialize(&histogram(values), &mut bytes)
                .unwrap();
            STANDARD.encode(bytes)
        };
        let mut decoder = Decoder::default();
        let mut texts = vec![
            "nonsense".to_owned(),
            text(&[1000, 70_000]),
            text(&[5, 1000]),
        ];
        decoder.merge(&mut texts);
        texts.push(text(&[9]));
        decoder.merge(&mut texts);
        assert_eq!(texts.len(), 1);
        assert_eq!(
            decode(&texts[0]),
            Some(histogram(&[5, 9, 1000, 1000, 70_000]))
        );
        let mut texts = vec!["nonsense".to_owned()];
        decoder.merge(&mut texts);
        assert!(texts.is_empty());
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

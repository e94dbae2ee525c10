//! Latencies as records hold them: an HdrHistogram, V2, deflated, in base64.
//!
//! A record may come from anybody, and a histogram says of itself how long it is. A reader that believes it makes room
//! for four gigabytes: so it is unpacked here first, within bounds, and read only if it is as long as it says.

use std::io::{Cursor, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// More bytes than this no histogram takes whose digits are believable: all of 64 bits in four digits takes half of it.
const MOST: u64 = 16 << 20;
/// The mark of what is not deflated, as hdrhistogram writes it, and of what is.
const PLAIN: u32 = 0x1c84_9313;
const DEFLATED: u32 = 0x1c84_9314;
/// What stands before the counts.
const HEADER: usize = 40;
/// Digits that are believable: this program writes two, others three.
const MOST_DIGITS: u32 = 4;

/// The histogram in a text; nothing where there is none, or one that nobody measured.
pub fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    let plain = match word(&bytes, 0)? {
        PLAIN => bytes,
        DEFLATED => {
            let mut plain = Vec::new();
            ZlibDecoder::new(bytes.get(8..)?).take(MOST).read_to_end(&mut plain).ok()?;
            plain
        }
        _ => return None,
    };
    let fits = word(&plain, 0)? == PLAIN
        && word(&plain, 4)? as usize <= plain.len().checked_sub(HEADER)?
        && word(&plain, 12)? <= MOST_DIGITS;
    fits.then(|| Deserializer::new().deserialize(&mut Cursor::new(plain)).ok())?
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    #[test]
    fn a_histogram_that_lies_about_its_length_is_none() {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram(&[1000]), &mut bytes).unwrap();
        assert!(decode(&STANDARD.encode(&bytes)).is_some());
        bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(decode(&STANDARD.encode(&bytes)).is_none());
        bytes[4..8].copy_from_slice(&0u32.to_be_bytes());
        bytes[12..16].copy_from_slice(&5u32.to_be_bytes());
        assert!(decode(&STANDARD.encode(&bytes)).is_none());
    }

    proptest! {
        #[test]
        fn what_was_recorded_is_read_back(values in prop::collection::vec(1u64..3_600_000_000_000, 0..50)) {
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

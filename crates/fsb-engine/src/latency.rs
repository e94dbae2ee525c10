//! Latency histograms: recorded in the hot loop, merged and read afterwards.
//!
//! A histogram covers 1 ns to 1 h at two significant digits, so a value is off by less than 1 %. It
//! is sized once and never grows: recording neither allocates nor fails. Histograms of threads,
//! repetitions and trials are merged by adding counts; percentiles are never averaged.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};

/// One hour in nanoseconds. A longer duration is recorded as one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 2;

/// The fewest values beyond a percentile for it to be reported.
const FEWEST_BEYOND: f64 = 100.0;

/// A text that holds no histogram.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a latency histogram (HdrHistogram V2 in base64): {0}")]
pub struct HistogramError(String);

pub(crate) fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
        .expect("the bounds are constants, and valid ones")
}

/// Returns an empty histogram for the hot loop, with all its memory touched.
pub(crate) fn touched() -> Histogram<u64> {
    let mut histogram = empty();
    // Writes every counter. Otherwise page faults would happen while the clock runs.
    histogram.reset();
    histogram
}

/// The counts of a histogram while the clock runs.
///
/// It counts what [`empty`] would count. Because the bounds are constants here, one record is a few
/// instructions inside the loop instead of a call. The buckets are those of HdrHistogram (Tene,
/// hdrhistogram.org): exact up to 2^8, then 2^7 of equal width for each further power of two.
#[derive(Debug)]
pub(crate) struct LatencyCounts {
    counts: Box<[u64]>,
    /// The result. It is reserved because a worker's thread allocates nothing once the clock has
    /// started.
    histogram: Histogram<u64>,
}

/// Bits of the values that have buckets of their own.
const EXACT_BITS: u32 = 8;
/// Buckets of each further power of two.
const HALF: usize = 1 << (EXACT_BITS - 1);
/// All buckets.
const BUCKETS: usize = bucket(LONGEST_NS) + 1;

/// Returns the bucket of a duration in nanoseconds.
#[inline(always)]
const fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - EXACT_BITS) - (ns | ((1 << EXACT_BITS) - 1)).leading_zeros();
    shift as usize * HALF + (ns >> shift) as usize
}

/// Returns the least duration in a bucket.
const fn least(bucket: usize) -> u64 {
    let shift = (bucket / HALF).saturating_sub(1);
    ((bucket - shift * HALF) as u64) << shift
}

impl LatencyCounts {
    /// Returns empty counts, with all their memory touched.
    pub(crate) fn new() -> LatencyCounts {
        // Zeroed memory alone would not be backed by pages yet.
        let mut counts = vec![u64::MAX; BUCKETS].into_boxed_slice();
        std::hint::black_box(&mut counts).fill(0);
        LatencyCounts {
            counts,
            histogram: touched(),
        }
    }

    /// Counts a duration.
    #[inline(always)]
    pub(crate) fn record(&mut self, ns: u64) {
        // Never absent. A check is cheaper than a call that panics.
        if let Some(count) = self.counts.get_mut(bucket(ns.min(LONGEST_NS))) {
            *count += 1;
        }
    }

    /// Discards all counts.
    pub(crate) fn reset(&mut self) {
        self.counts.fill(0);
    }

    /// Returns the histogram.
    pub(crate) fn into_histogram(self) -> Histogram<u64> {
        let LatencyCounts {
            counts,
            mut histogram,
        } = self;
        for (bucket, &count) in counts.iter().enumerate() {
            if count > 0 {
                histogram.saturating_record_n(least(bucket), count);
            }
        }
        histogram
    }
}

/// Returns the histogram as text: V2, deflated, base64.
pub fn encode(histogram: &Histogram<u64>) -> String {
    encode_foreign(histogram).expect("no run lasts long enough for a count of 2^63")
}

/// Returns the histogram as text without compression: V2, base64. A message that is merged at once
/// needs none, and the compressor takes a quarter of a mebibyte, which thousands of processes would
/// take at the same time.
pub fn encode_plain(histogram: &Histogram<u64>) -> String {
    encode_with(V2Serializer::new(), histogram)
        .expect("no run lasts long enough for a count of 2^63")
}

/// Encodes a histogram that another program wrote. Returns `None` if one of its counts is above the
/// format's limit of 2^63.
pub fn encode_foreign(histogram: &Histogram<u64>) -> Option<String> {
    encode_with(V2DeflateSerializer::new(), histogram).ok()
}

fn encode_with<S: Serializer>(
    mut serializer: S,
    histogram: &Histogram<u64>,
) -> Result<String, S::SerializeError> {
    let mut bytes = Vec::new();
    serializer.serialize(histogram, &mut bytes)?;
    Ok(STANDARD.encode(bytes))
}

/// Decodes a text of [`encode`], or of any other HdrHistogram library (V2, deflated or not).
pub fn decode(text: &str) -> Result<Histogram<u64>, HistogramError> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| HistogramError(error.to_string()))?;
    let bytes = inflated(bytes)?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| HistogramError(error.to_string()))
}

/// Returns the histogram without compression. A text of a few bytes can claim to hold gigabytes,
/// which the deserializer allocates before it reads them.
fn inflated(bytes: Vec<u8>) -> Result<Vec<u8>, HistogramError> {
    /// The cookie that begins a deflated histogram, which is followed by the length of the rest.
    const DEFLATED: &[u8] = &0x1c84_9314_u32.to_be_bytes();
    /// Before the payload are the cookie, its length and 32 bytes of parameters.
    const HEADER: usize = 40;
    /// More than the counts of the widest histogram take.
    const LONGEST: u64 = 64 << 20;
    let mut plain = bytes;
    if plain.starts_with(DEFLATED) {
        let deflated = plain.split_off(plain.len().min(2 * DEFLATED.len()));
        plain.clear();
        let mut reader = ZlibDecoder::new(deflated.as_slice()).take(LONGEST);
        reader
            .read_to_end(&mut plain)
            .map_err(|error| HistogramError(error.to_string()))?;
    }
    let length = plain
        .get(4..8)
        .and_then(|length| length.try_into().ok())
        .map_or(0, u32::from_be_bytes);
    if length as usize > plain.len().saturating_sub(HEADER) {
        return Err(HistogramError(
            "it is shorter than its header says".to_owned(),
        ));
    }
    Ok(plain)
}

/// Merges all values of all histograms into one.
pub fn merge<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<String, HistogramError> {
    let mut sum = empty();
    for text in texts {
        sum.add(decode(text)?)
            .map_err(|error| HistogramError(error.to_string()))?;
    }
    Ok(encode(&sum))
}

/// Returns the seconds within which the share `q` of all operations finished. Returns `None` if
/// fewer than 100 values are beyond it, because a few calls decide such a percentile by chance, or
/// if the text holds no histogram.
pub fn quantile(text: &str, q: f64) -> Option<f64> {
    let histogram = decode(text).ok()?;
    let beyond = (1.0 - q) * histogram.len() as f64;
    // (1 - 0.99) * 10,000 is a hair below 100 in binary floating point; the rule means the decimal
    // number.
    let enough = beyond >= FEWEST_BEYOND * (1.0 - 1e-9);
    ((0.0..=1.0).contains(&q) && enough).then(|| histogram.value_at_quantile(q) as f64 * 1e-9)
}

/// Returns the mean seconds of one operation, or `None` for an empty histogram.
pub fn mean(text: &str) -> Option<f64> {
    decode(text)
        .ok()
        .filter(|histogram| !histogram.is_empty())
        .map(|histogram| histogram.mean() * 1e-9)
}

/// Returns the seconds of the longest operation, or `None` for an empty histogram.
pub fn longest(text: &str) -> Option<f64> {
    decode(text)
        .ok()
        .filter(|histogram| !histogram.is_empty())
        .map(|histogram| histogram.max() as f64 * 1e-9)
}

/// Returns the number of values.
pub fn count(text: &str) -> Option<u64> {
    decode(text).ok().map(|histogram| histogram.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(values: impl IntoIterator<Item = u64>) -> String {
        let mut histogram = empty();
        values
            .into_iter()
            .for_each(|value| histogram.saturating_record(value));
        encode(&histogram)
    }

    proptest! {
        /// HdrHistogram itself is the oracle for the buckets.
        #[test]
        fn counts_of_the_loop_equal_the_histogram(
            values in prop::collection::vec((0u64..64, any::<u64>()), 0..300)
        ) {
            let (mut counts, mut histogram) = (LatencyCounts::new(), empty());
            for (shift, bits) in values {
                // All magnitudes, and the longest one.
                let ns = (bits >> shift).min(LONGEST_NS);
                counts.record(ns);
                histogram.saturating_record(ns);
            }
            prop_assert_eq!(counts.into_histogram(), histogram);
        }
    }

    #[test]
    fn a_call_longer_than_an_hour_counts_as_an_hour() {
        let mut counts = LatencyCounts::new();
        counts.record(u64::MAX);
        counts.record(0);
        let histogram = counts.into_histogram();
        assert_eq!((histogram.len(), histogram.min()), (2, 0));
        assert!(histogram.equivalent(histogram.max(), LONGEST_NS));
    }

    #[test]
    fn a_percentile_needs_a_hundred_values_beyond_it() {
        let text = encoded((1..=10_000).map(|i| i * 1000));
        let p99 = quantile(&text, 0.99).expect("exactly a hundred lie beyond");
        assert!((p99 - 9.9e-3).abs() < 0.01 * 9.9e-3, "{p99}");
        assert_eq!(quantile(&text, 0.999), None);
        assert_eq!(
            quantile(&encoded((1..10_000).map(|i| i * 1000)), 0.99),
            None
        );
        assert_eq!(quantile(&encoded(1..=199), 0.5), None);
        assert!(quantile(&encoded(1..=200), 0.5).is_some());
    }

    #[test]
    fn counts_that_the_format_cannot_hold_are_no_text() {
        let mut histogram = empty();
        histogram.record_n(1000, i64::MAX as u64).unwrap();
        assert!(encode_foreign(&histogram).is_some());
        histogram.record(1000).unwrap();
        assert_eq!(encode_foreign(&histogram), None);
    }

    #[test]
    fn hours_are_clamped_and_garbage_is_refused() {
        assert_eq!(count(&encoded([0, u64::MAX])), Some(2));
        assert!(decode("AAAA").is_err());
        assert!(decode("no base64!").is_err());
        assert_eq!((mean(&encoded([])), longest(&encoded([]))), (None, None));
        assert!((longest(&encoded([5, 1_000_000, 7])).unwrap() - 1e-3).abs() < 1e-5);
        assert_eq!(quantile("garbage", 0.5), None);
    }

    #[test]
    fn a_histogram_that_claims_gigabytes_is_refused_before_they_are_allocated() {
        let mut header = 0x1c84_9313_u32.to_be_bytes().to_vec();
        header.extend(u32::MAX.to_be_bytes());
        header.extend([0, 0, 0, 0, 0, 0, 0, 2]);
        header.extend([1, 3_600_000_000_000].map(u64::to_be_bytes).concat());
        header.extend(1.0f64.to_be_bytes());
        let mut deflated = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut deflated, &header).unwrap();
        let deflated = deflated.finish().unwrap();
        let length = (deflated.len() as u32).to_be_bytes();
        let compressed = [&0x1c84_9314_u32.to_be_bytes()[..], &length, &deflated].concat();
        for bytes in [header, compressed] {
            let refused = decode(&STANDARD.encode(bytes)).unwrap_err();
            assert!(
                refused.0.contains("shorter than its header says"),
                "{refused}"
            );
        }
    }

    proptest! {
        #[test]
        fn merging_is_recording_together(a in prop::collection::vec(1u64..1 << 41, 0..50),
                                         b in prop::collection::vec(1u64..1 << 41, 0..50)) {
            let merged = merge([encoded(a.clone()).as_str(), encoded(b.clone()).as_str()]).unwrap();
            let together = encoded(a.into_iter().chain(b));
            let together = decode(&together).unwrap();
            prop_assert_eq!(&decode(&merged).unwrap(), &together);
            prop_assert_eq!(&decode(&encode_plain(&together)).unwrap(), &together);
        }

        #[test]
        fn a_value_is_kept_to_one_per_cent(value in 1u64..LONGEST_NS) {
            let seconds = mean(&encoded([value])).unwrap();
            prop_assert!((seconds * 1e9 / value as f64 - 1.0).abs() <= 0.01);
        }
    }
}

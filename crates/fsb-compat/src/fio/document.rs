//! The shape of fio's JSON, as far as it is read. Numbers and tables stay text until they are used: the position of a
//! number in the document gives its line, and unused tables take no memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Error, SeqAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::{RawValue, Value};

/// The first key of every document.
pub(super) const FIRST_KEY: &str = "\"fio version\"";

/// `global options` and `job options`: texts by name.
pub(super) type Options = BTreeMap<String, Value>;

/// The most jobs of a report.
const MOST_JOBS: usize = 10_000;

/// The longest table. The counts of one direction in json+ are some 40 kB.
const LONGEST_TABLE: usize = 1 << 20;

/// Parses a table. Returns an empty one if the text is not a table, or is longer than any table of fio.
pub(super) fn table<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    let text = raw.map(RawValue::get).filter(|text| text.len() <= LONGEST_TABLE);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// One report of fio.
#[derive(Deserialize)]
pub(super) struct Document<'a> {
    #[serde(rename = "fio version", default)]
    pub version: String,
    #[serde(rename = "global options", borrow)]
    pub global: Option<&'a RawValue>,
    /// When it was printed, in milliseconds.
    pub timestamp_ms: Option<i64>,
    #[serde(borrow, default)]
    pub jobs: Jobs<'a>,
    /// Replaces `jobs` if the jobs ran on other hosts.
    #[serde(borrow, default)]
    pub client_stats: Jobs<'a>,
}

impl<'a> Document<'a> {
    /// Returns every job, on all hosts. The sum over all hosts repeats them and is left out.
    pub fn all(&self) -> impl Iterator<Item = &Job<'a>> {
        self.jobs.0.iter().chain(&self.client_stats.0).filter(|job| job.jobname != "All clients")
    }
}

/// A limited number of jobs.
#[derive(Default)]
pub(super) struct Jobs<'a>(pub Vec<Job<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Jobs<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Limited;
        impl<'de> Visitor<'de> for Limited {
            type Value = Vec<Job<'de>>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "at most {MOST_JOBS} jobs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut jobs = Vec::new();
                while let Some(job) = items.next_element()? {
                    if jobs.len() == MOST_JOBS {
                        return Err(A::Error::custom(format_args!("more than {MOST_JOBS} jobs")));
                    }
                    jobs.push(job);
                }
                Ok(jobs)
            }
        }
        deserializer.deserialize_seq(Limited).map(Jobs)
    }
}

/// One job, or the sum of a group.
#[derive(Deserialize)]
pub(super) struct Job<'a> {
    #[serde(default)]
    pub jobname: String,
    #[serde(default)]
    pub groupid: i64,
    #[serde(default)]
    pub error: i64,
    /// Seconds since the start of fio, rounded up.
    pub elapsed: Option<i64>,
    #[serde(rename = "job options", borrow)]
    pub options: Option<&'a RawValue>,
    #[serde(borrow)]
    pub read: Option<Direction<'a>>,
    #[serde(borrow)]
    pub write: Option<Direction<'a>>,
    #[serde(borrow)]
    pub trim: Option<Direction<'a>>,
    #[serde(borrow)]
    pub mixed: Option<Direction<'a>>,
    #[serde(borrow)]
    pub sync: Option<Direction<'a>>,
}

/// Reads, writes, trims or syncs of a job.
#[derive(Deserialize)]
pub(super) struct Direction<'a> {
    #[serde(default)]
    pub total_ios: u64,
    /// Bytes a second; since 3.0.
    #[serde(borrow)]
    pub bw_bytes: Option<&'a RawValue>,
    /// Kilobytes (1024 bytes) a second.
    #[serde(borrow)]
    pub bw: Option<&'a RawValue>,
    #[serde(borrow)]
    pub iops: Option<&'a RawValue>,
    /// From submission to completion; since 3.0 in nanoseconds.
    #[serde(borrow)]
    pub clat_ns: Option<Times<'a>>,
    /// The same with submission.
    #[serde(borrow)]
    pub lat_ns: Option<Times<'a>>,
    /// Before 3.0, in microseconds.
    #[serde(borrow)]
    pub clat: Option<Times<'a>>,
    #[serde(borrow)]
    pub lat: Option<Times<'a>>,
}

/// Times of one kind.
#[derive(Deserialize)]
pub(super) struct Times<'a> {
    #[serde(borrow)]
    pub mean: Option<&'a RawValue>,
    #[serde(rename = "N", default)]
    pub count: Option<u64>,
    #[serde(borrow)]
    pub percentile: Option<&'a RawValue>,
    #[serde(borrow)]
    pub bins: Option<&'a RawValue>,
}

/// Returns the offsets at which documents start. No document holds another, so each ends before the next. That keeps
/// the work linear for any text.
pub(super) fn starts(text: &str) -> Vec<usize> {
    let keys = text.match_indices(FIRST_KEY).map(|(key, _)| key);
    keys.filter_map(|key| {
        let before = text[..key].trim_end();
        before.ends_with('{').then(|| before.len() - 1)
    })
    .collect()
}

/// Parses the document that a text starts with. Returns the intact part and the error if the document is damaged.
pub(super) fn document(text: &str) -> (Document<'_>, Option<serde_json::Error>) {
    match next(text, 0) {
        Ok((document, _)) => (document, None),
        Err(error) => (partial(text), Some(error)),
    }
}

/// Parses a value that starts at an offset. Returns it with the offset of its end.
fn next<'a, T: Deserialize<'a>>(text: &'a str, from: usize) -> serde_json::Result<(T, usize)> {
    let mut values = Deserializer::from_str(&text[from..]).into_iter::<T>();
    match values.next() {
        Some(value) => value.map(|value| (value, from + values.byte_offset())),
        None => Err(Error::custom("nothing follows")),
    }
}

/// Returns the intact part of a damaged document: its jobs before the damage.
fn partial(text: &str) -> Document<'_> {
    let after = |key: &str| {
        let at = text.find(key)? + key.len();
        let rest = text[at..].trim_start();
        rest.starts_with(':').then(|| text.len() - rest.len() + 1)
    };
    let version = after(FIRST_KEY).and_then(|at| next(text, at).ok()).map(|(version, _)| version);
    let global = after("\"global options\"").and_then(|at| next(text, at).ok()).map(|(options, _)| options);
    let mut jobs = Vec::new();
    let mut at = after("\"jobs\"").and_then(|at| Some(at + text[at..].find('[')? + 1));
    while let Some((job, end)) = at.filter(|_| jobs.len() < MOST_JOBS).and_then(|at| next(text, at).ok()) {
        jobs.push(job);
        let rest = text[end..].trim_start();
        at = rest.starts_with(',').then(|| text.len() - rest.len() + 1);
    }
    let version = version.unwrap_or_default();
    Document { version, global, timestamp_ms: None, jobs: Jobs(jobs), client_stats: Jobs::default() }
}

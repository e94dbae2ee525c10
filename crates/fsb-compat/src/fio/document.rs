//! The shape of fio's JSON, as far as it is read. Numbers and tables stay text until they are used: where a number stands
//! in the document tells its line, and tables that nobody asks for take no memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Error, SeqAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::{RawValue, Value};

/// What every document starts with.
pub(super) const FIRST_KEY: &str = "\"fio version\"";

/// `global options` and `job options`: texts by name.
pub(super) type Options = BTreeMap<String, Value>;

/// The most jobs of a report.
const MOST_JOBS: usize = 10_000;

/// The longest table. The counts of one direction in json+ are some 40 kB.
const LONGEST_TABLE: usize = 1 << 20;

/// A table, or an empty one if it is none, or longer than any that fio prints.
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
    /// In the place of `jobs` where the jobs ran on other hosts.
    #[serde(borrow, default)]
    pub client_stats: Jobs<'a>,
}

impl<'a> Document<'a> {
    /// Every job, wherever it ran. The sum over all hosts repeats them and is left out.
    pub fn all(&self) -> impl Iterator<Item = &Job<'a>> {
        self.jobs.0.iter().chain(&self.client_stats.0).filter(|job| job.jobname != "All clients")
    }
}

/// Jobs, of which there is a limit.
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

/// Where the documents in a text start. None holds another, so each ends before the next: that keeps the work linear
/// whatever the text is.
pub(super) fn starts(text: &str) -> Vec<usize> {
    let keys = text.match_indices(FIRST_KEY).map(|(key, _)| key);
    keys.filter_map(|key| {
        let before = text[..key].trim_end();
        before.ends_with('{').then(|| before.len() - 1)
    })
    .collect()
}

/// The document that a text starts with, and what is wrong with it.
pub(super) fn document(text: &str) -> (Document<'_>, Option<serde_json::Error>) {
    match next(text, 0) {
        Ok((document, _)) => (document, None),
        Err(error) => (partial(text), Some(error)),
    }
}

/// A value that starts at an offset, and where it ends.
fn next<'a, T: Deserialize<'a>>(text: &'a str, from: usize) -> serde_json::Result<(T, usize)> {
    let mut values = Deserializer::from_str(&text[from..]).into_iter::<T>();
    match values.next() {
        Some(value) => value.map(|value| (value, from + values.byte_offset())),
        None => Err(Error::custom("nothing follows")),
    }
}

/// What is whole of a document that is not: its jobs before the damage.
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

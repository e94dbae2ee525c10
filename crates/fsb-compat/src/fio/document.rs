//! The shape of fio's JSON, as far as it is read.
//!
//! Numbers and tables stay text until they are used: the position of a number in the document gives
//! its line, and unused tables take no memory. Only keys that are read are kept, so a value of
//! another shape elsewhere does no harm.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Deserializer, Value};

/// The first key of every document.
pub(super) const FIRST_KEY: &str = "\"fio version\"";

/// `global options` and `job options`: texts by name.
pub(super) type Options = BTreeMap<String, Value>;

/// The maximum number of jobs of a report.
const MOST_JOBS: usize = 10_000;

/// The maximum length of a table in bytes. The counts of one direction in json+ have about 40 kB.
const LONGEST_TABLE: usize = 1 << 20;

/// The keys that are read, of every object.
static KEYS: &[&str] = &[
    "fio version",
    "global options",
    "timestamp",
    "timestamp_ms",
    "jobs",
    "client_stats",
    "jobname",
    "groupid",
    "hostname",
    "error",
    "first_error",
    "elapsed",
    "ctx",
    "job options",
    "read",
    "write",
    "trim",
    "mixed",
    "sync",
    "total_ios",
    "runtime",
    "bw_bytes",
    "bw",
    "iops",
    "clat_ns",
    "lat_ns",
    "clat",
    "lat",
    "min",
    "max",
    "mean",
    "N",
    "percentile",
    "bins",
];

/// Parses options. Numbers become the texts that fio prints.
pub(super) fn options(raw: Option<&RawValue>) -> Options {
    let mut options: Options = table(raw);
    for value in options
        .values_mut()
        .filter(|value| value.is_number() || value.is_boolean())
    {
        *value = Value::String(value.to_string());
    }
    options
}

/// Parses a table. Returns an empty one if the text is not a table, or is longer than any table of
/// fio.
pub(super) fn table<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    let text = raw
        .map(RawValue::get)
        .filter(|text| text.len() <= LONGEST_TABLE);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The values of an object under the keys of [`KEYS`], at most two for each.
#[derive(Default)]
pub(super) struct Fields<'a>(Vec<(&'static str, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Returns the first value of a key.
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, raw)| *raw)
    }

    /// Returns the second value of a key, if it is not the first again.
    pub fn other(&self, key: &str) -> Option<&'a RawValue> {
        let mut values = self
            .0
            .iter()
            .filter(|(known, _)| *known == key)
            .map(|(_, raw)| *raw);
        let first = values.next()?;
        values.next().filter(|second| second.get() != first.get())
    }

    /// Returns the object of a key; `None` if it has none.
    pub fn object(&self, key: &str) -> Option<Fields<'a>> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// Returns the value of a key; `None` if it has another type.
    pub fn parse<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// Returns the text of a key, also if it is printed as a number.
    pub fn text(&self, key: &str) -> Option<String> {
        self.parse(key)
            .or_else(|| self.get(key).map(|raw| raw.get().to_owned()))
    }

    /// Returns the whole number of a key. fio's own type may be another: `28.000000` is 28.
    pub fn whole(&self, key: &str) -> Option<i64> {
        let number: f64 = self.get(key)?.get().parse().ok()?;
        (number.is_finite() && number.abs() < 2f64.powi(63)).then_some(number as i64)
    }

    /// Returns the count of a key; `None` if it is not one.
    pub fn count(&self, key: &str) -> Option<u64> {
        self.whole(key).and_then(|count| u64::try_from(count).ok())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Known;
        impl<'de> Visitor<'de> for Known {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(&'static str, &'de RawValue)> = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    let key = key
                        .filter(|key| fields.iter().filter(|(known, _)| known == key).count() < 2);
                    match key {
                        Some(key) => fields.push((key, map.next_value()?)),
                        None => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Known)
    }
}

/// One of [`KEYS`], or another key.
struct Key(Option<&'static str>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
                Ok(Key(KEYS.iter().find(|key| **key == name).copied()))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// One report of fio.
#[derive(Default)]
pub(super) struct Document<'a> {
    pub version: String,
    /// `global options`.
    pub global: Option<&'a RawValue>,
    /// The time at which fio printed the report, in seconds since 1970. Absent before 2.2.
    pub timestamp: Option<i64>,
    /// The same in milliseconds. Absent before 2.21.
    pub timestamp_ms: Option<i64>,
    /// Every job, on all hosts.
    pub jobs: Vec<Job<'a>>,
    /// The sum over all hosts, which repeats the jobs.
    pub sum: Option<Job<'a>>,
}

impl<'a> Document<'a> {
    /// Keeps the jobs of `fields`. Returns the error of a list that is not one.
    fn from_fields(fields: &Fields<'a>) -> (Self, Option<serde_json::Error>) {
        let mut error = None;
        let mut all = Vec::new();
        // `client_stats` replaces `jobs` if the jobs ran on other hosts.
        for raw in ["jobs", "client_stats"]
            .into_iter()
            .filter_map(|key| fields.get(key))
        {
            match serde_json::from_str::<Jobs<'a>>(raw.get()) {
                Ok(jobs) => all.extend(jobs.0.into_iter().map(Job::from_fields)),
                Err(found) => error = Some(found),
            }
        }
        let (mut sums, jobs): (Vec<Job<'a>>, _) =
            all.into_iter().partition(|job| job.name == "All clients");
        let document = Document {
            version: fields.parse("fio version").unwrap_or_default(),
            global: fields.get("global options"),
            timestamp: fields.whole("timestamp"),
            timestamp_ms: fields.whole("timestamp_ms"),
            jobs,
            sum: sums.pop(),
        };
        (document, error)
    }
}

/// A limited number of jobs.
struct Jobs<'a>(Vec<Fields<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Jobs<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Limited;
        impl<'de> Visitor<'de> for Limited {
            type Value = Vec<Fields<'de>>;

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
pub(super) struct Job<'a> {
    pub name: String,
    pub group: i64,
    /// The host that ran it, in the reports of clients.
    pub host: Option<String>,
    pub fields: Fields<'a>,
}

impl<'a> Job<'a> {
    fn from_fields(fields: Fields<'a>) -> Self {
        Job {
            name: fields.text("jobname").unwrap_or_default(),
            group: fields.whole("groupid").unwrap_or_default(),
            host: fields.text("hostname"),
            fields,
        }
    }

    /// Returns the error of the job if it is not a number.
    pub fn unknown_error(&self) -> Option<&'a RawValue> {
        self.fields
            .get("error")
            .filter(|_| self.fields.whole("error").is_none())
    }

    /// Returns the error that ended the job, or the first that it survived with
    /// `continue_on_error`, and the text that holds it.
    pub fn error(&self) -> Option<(i64, &'a RawValue)> {
        let number = |key| {
            Some((
                self.fields.whole(key).filter(|number| *number != 0)?,
                self.fields.get(key)?,
            ))
        };
        number("error")
            .or_else(|| {
                let raw = self.fields.other("error")?;
                let number = raw.get().parse::<f64>().ok()?;
                (number != 0.0).then_some((number as i64, raw))
            })
            .or_else(|| number("first_error"))
    }
}

/// Returns the offsets at which documents start. No document holds another, so each ends before the
/// next. That keeps the work linear for any text.
pub(super) fn starts(text: &str) -> Vec<usize> {
    let keys = text.match_indices(FIRST_KEY).map(|(key, _)| key);
    keys.filter_map(|key| {
        let before = text[..key].trim_end();
        before.ends_with('{').then(|| before.len() - 1)
    })
    .collect()
}

/// A document with the offset of its end in the text that it starts, and the error that cuts it.
pub(super) struct Parsed<'a> {
    pub document: Document<'a>,
    pub end: usize,
    pub error: Option<serde_json::Error>,
}

/// Parses the document that a text starts with. Returns the intact part and the error if the
/// document is damaged.
pub(super) fn parse(text: &str) -> Parsed<'_> {
    match next::<Fields>(text, 0) {
        Ok((fields, end)) => {
            let (document, error) = Document::from_fields(&fields);
            Parsed {
                document,
                end,
                error,
            }
        }
        Err(error) => Parsed {
            document: partial(text),
            end: text.len(),
            error: Some(error),
        },
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

fn value_position(text: &str, key: &str) -> Option<usize> {
    let at = text.find(key)? + key.len();
    let rest = text[at..].trim_start();
    rest.starts_with(':').then(|| text.len() - rest.len() + 1)
}

/// Returns the intact part of a damaged document: its jobs before the damage.
fn partial(text: &str) -> Document<'_> {
    let version = value_position(text, FIRST_KEY)
        .and_then(|at| next(text, at).ok())
        .map(|(version, _)| version);
    let global = value_position(text, "\"global options\"")
        .and_then(|at| next(text, at).ok())
        .map(|(options, _)| options);
    let mut jobs = Vec::new();
    let mut at =
        value_position(text, "\"jobs\"").and_then(|at| Some(at + text[at..].find('[')? + 1));
    while let Some((job, end)) = at
        .filter(|_| jobs.len() < MOST_JOBS)
        .and_then(|at| next(text, at).ok())
    {
        jobs.push(Job::from_fields(job));
        let rest = text[end..].trim_start();
        at = rest.starts_with(',').then(|| text.len() - rest.len() + 1);
    }
    Document {
        version: version.unwrap_or_default(),
        global,
        jobs,
        ..Document::default()
    }
}

/// Returns the reason of an error without its position, which counts from the start of the
/// document.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_key_is_kept_twice_and_another_is_not_kept() {
        let fields: Fields = serde_json::from_str(
            r#"{"bw": 1, "x": [2], "bw": 1, "iops": 3, "iops": 4, "iops": 5}"#,
        )
        .unwrap();
        assert!(fields.other("bw").is_none() && fields.get("x").is_none());
        assert_eq!(fields.other("iops").unwrap().get(), "4");
    }

    #[test]
    fn counts_may_be_printed_as_fractions() {
        let fields: Fields = serde_json::from_str(
            r#"{"total_ios": 131072.000000, "error": -1, "N": "3", "bw": 1e300}"#,
        )
        .unwrap();
        assert_eq!(
            (fields.count("total_ios"), fields.whole("error")),
            (Some(131_072), Some(-1))
        );
        assert_eq!(
            (fields.count("error"), fields.count("N"), fields.whole("bw")),
            (None, None, None)
        );
    }

    #[test]
    fn the_error_of_a_job_may_be_the_second_or_one_that_it_survived() {
        let error = |text| {
            let job = Job::from_fields(serde_json::from_str(text).unwrap());
            job.error().map(|(number, _)| number)
        };
        assert_eq!(error(r#"{"error": 0, "error": 28}"#), Some(28));
        assert_eq!(
            error(r#"{"error": 0, "total_err": 3, "first_error": 5}"#),
            Some(5)
        );
        assert_eq!(error(r#"{"error": 0, "first_error": 0}"#), None);
    }
}

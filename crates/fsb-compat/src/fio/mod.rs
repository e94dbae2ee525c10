//! fio: its results (JSON and json+, one document or several, with or without text around them), and its job files.

mod export;
pub mod job;
pub mod print;
mod sections;
mod tables;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::BufRead;

use fsb_model::metric::{
    Better, LATENCY_MEAN, LATENCY_P50, LATENCY_P90, LATENCY_P99, LATENCY_P999, MetricKind, OPERATION_RATE, Role,
    THROUGHPUT, Unit,
};
use fsb_model::set::{Histogram, Run};
use serde::Deserialize;
use serde::de::{Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Deserializer, Value};

use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::text::{LineIndex, holds, whole_text};
use crate::tool::{ReadError, Tool};

pub(crate) use export::EXPORTER;

/// Reads fio's JSON.
pub(crate) const TOOL: Tool = Tool {
    name: NAME,
    about: "JSON and json+ of 2.x and 3.x: per job and direction, grouped or not, unified",
    looks_for: "JSON with \"fio version\", from --output-format=json or json+",
    recognise,
    read,
};

fn recognise(head: &[u8]) -> bool {
    holds(head, FIRST_KEY.as_bytes()) || is_text(head) || is_terse(head)
}

/// Returns whether this is the normal report of fio: `fio-3.33` on one line, and lines of jobs.
fn is_text(head: &[u8]) -> bool {
    let version = head.split(|byte| *byte == b'\n').any(|line| is_version(line.trim_ascii()));
    version && (holds(head, b": (groupid=") || holds(head, b": (g="))
}

/// Returns whether this is the terse report: `3;fio-3.33;…`.
fn is_terse(head: &[u8]) -> bool {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    first.split(|byte| *byte == b';').nth(1).is_some_and(is_version)
}

fn is_version(text: &[u8]) -> bool {
    text.strip_prefix(b"fio-").is_some_and(|version| version.first().is_some_and(u8::is_ascii_digit))
}

// Converts fio's documents to runs.

/// The name of the tool in lists and messages.
const NAME: &str = "fio";

/// The maximum number of documents in a text.
const MOST_DOCUMENTS: usize = 1000;

/// Reads the executions in an input, each with at least one value.
fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let text = whole_text(input, NAME)?;
    let starts = starts(&text);
    if starts.is_empty() {
        return Err(ReadError::refused(NAME, no_document(text.as_bytes())));
    }
    if starts.len() > MOST_DOCUMENTS {
        return Err(ReadError::refused(NAME, format!("it holds more than {MOST_DOCUMENTS} reports")));
    }
    let lines = LineIndex::new(&text);
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let mut documents = starts.iter().copied().zip(ends).map(|(start, end)| (start, document(&text[start..end])));
    let (mut runs, mut damage, mut before) = (Runs::new(NAME), None, 0);
    let mut next = documents.next();
    while let Some((start, (document, error))) = next {
        next = documents.next();
        if error.is_none() && next.as_ref().is_some_and(|(_, (next, _))| is_snapshot(&document, next)) {
            continue;
        }
        let mut draft = Draft::new(NAME);
        complaints(&text[before..start], before, &lines, &mut draft);
        before = start;
        if let Some(error) = error {
            let line = lines.line(start).saturating_add(error.line() as u32).saturating_sub(1);
            draft.remark(line, format_args!("the JSON is cut or damaged here; the jobs before it are read ({error})"));
            damage = Some(line);
        }
        runs.push(run(&document, &text, &lines, draft)?)?;
    }
    runs.finish(|| match damage {
        Some(line) => format!("its JSON is cut or damaged in line {line}, before any job is complete"),
        None => "no job in it did any I/O".to_owned(),
    })
}

fn no_document(bytes: &[u8]) -> String {
    let form = if is_terse(bytes) {
        "in the terse format"
    } else if is_text(bytes) {
        "in the normal format"
    } else {
        "without the start of its JSON"
    };
    format!("{form}; run fio with --output-format=json (or json+) and --output=FILE")
}

/// Returns whether a report was printed during the run of the next one (`--status-interval`). Then it is part of that
/// run.
fn is_snapshot(document: &Document, next: &Document) -> bool {
    let elapsed = next.all().filter_map(|job| job.elapsed).max();
    match (document.timestamp_ms, next.timestamp_ms, elapsed) {
        (Some(printed), Some(end), Some(seconds)) => {
            // Seconds are rounded up, so this is the latest moment at which the run can have begun.
            end.saturating_sub(seconds.saturating_sub(1).saturating_mul(1000)) <= printed
        }
        _ => false,
    }
}

/// Adds remarks for fio's messages before the JSON, which cast doubt on the results.
fn complaints(before: &str, offset: usize, lines: &LineIndex, draft: &mut Draft) {
    let mut at = offset;
    for line in before.split_inclusive('\n') {
        if line.starts_with("fio:") {
            draft.remark(lines.line(at), line.trim().chars().take(200).collect::<String>());
        }
        at += line.len();
    }
}

fn run(document: &Document, text: &str, lines: &LineIndex, mut draft: Draft) -> Result<Draft, ReadError> {
    let version = document.version.strip_prefix("fio-").unwrap_or(&document.version);
    draft.run.version = (!version.is_empty()).then(|| version.to_owned());
    for job in document.all().filter(|job| job.error != 0) {
        draft.remark(None, format_args!("job '{}' ended with error {}", job.jobname, job.error));
    }
    let all = measured(document, text, |offset, why| draft.remark(lines.line(offset), why));
    for one in all {
        keep(one, lines, &mut draft)?;
    }
    Ok(draft)
}

fn keep(one: Measured, lines: &LineIndex, draft: &mut Draft) -> Result<(), ReadError> {
    let name = Name { workload: Some(&one.workload), operation: one.operation };
    let place = |offset| Position { file_size: one.file_size, record_size: one.record_size, line: lines.line(offset) };
    if one.processes > 1 {
        let text =
            format!("job '{}', {}: the rates of {} processes are added", one.workload, one.operation, one.processes);
        draft.remark(None, text);
    }
    if let Some((found, unit)) = one.bandwidth {
        draft.add(name, &THROUGHPUT, unit, place(found.offset), rate(found.value))?;
    }
    if let Some(found) = one.iops {
        draft.add(name, &OPERATION_RATE, "IOPS", place(found.offset), rate(found.value))?;
    }
    if one.latency.count == 0 {
        return Ok(());
    }
    for (metric, found) in one.latency.values() {
        draft.add(name, metric, one.latency.found_unit, place(found.offset), time(found.value))?;
    }
    if !one.latency.bins.is_empty() {
        let bins = one.latency.bins.into_iter().collect();
        draft.run.histograms.push(Histogram {
            workload: Some(one.workload),
            operation: one.operation.to_owned(),
            bins,
        });
    }
    Ok(())
}

/// One direction of a job: the sum over its processes.
#[derive(Debug)]
struct Measured {
    /// The job's name, with a number if a later group repeats it.
    workload: String,
    operation: &'static str,
    file_size: Option<u64>,
    record_size: Option<u64>,
    /// Bytes a second, and the unit as printed.
    bandwidth: Option<(Found, &'static str)>,
    iops: Option<Found>,
    latency: Latency,
    /// The number of jobs with the same name: `numjobs` without `group_reporting`.
    processes: usize,
}

/// The key that processes with the same work share: workload, operation and sizes.
type Key = (String, &'static str, Option<u64>, Option<u64>);

/// Returns the directions in which jobs worked or were requested to work. Calls `complain` for each value that is not a
/// number.
fn measured(document: &Document, text: &str, mut complain: impl FnMut(usize, String)) -> Vec<Measured> {
    let mut found: Vec<Measured> = Vec::new();
    let mut index: HashMap<Key, usize> = HashMap::new();
    let mut groups: HashMap<&str, Vec<i64>> = HashMap::new();
    let global = table(document.global);
    for job in document.all() {
        let known = groups.entry(&job.jobname).or_default();
        let round = known.iter().position(|group| *group == job.groupid).unwrap_or_else(|| {
            known.push(job.groupid);
            known.len() - 1
        });
        let workload = if round == 0 { job.jobname.clone() } else { format!("{} #{}", job.jobname, round + 1) };
        for one in directions(job, &global, &workload, text, &mut complain) {
            let key = (workload.clone(), one.operation, one.file_size, one.record_size);
            match index.get(&key) {
                Some(at) => found[*at].merge(one),
                None => {
                    index.insert(key, found.len());
                    found.push(one);
                }
            }
        }
    }
    found
}

fn directions(
    job: &Job,
    global: &Options,
    workload: &str,
    text: &str,
    complain: &mut impl FnMut(usize, String),
) -> Vec<Measured> {
    let own = table(job.options);
    let options = Merged { job: &own, global };
    let ways = [
        (Way::Read, &job.read),
        (Way::Write, &job.write),
        (Way::Trim, &job.trim),
        (Way::Mixed, &job.mixed),
        (Way::Sync, &job.sync),
    ];
    let ran = |(way, direction): (Way, &'_ Option<Direction>)| {
        direction.as_ref().is_some_and(|direction| direction.total_ios > 0)
            || (options.asks_for(way) && job.mixed.is_none())
    };
    let ways = ways.into_iter().filter(|(way, direction)| ran((*way, direction)));
    ways.filter_map(|(way, direction)| {
        let direction = direction.as_ref()?;
        Some(Measured {
            workload: workload.to_owned(),
            operation: options.operation(way),
            file_size: options.file_size(),
            record_size: options.record_size(way),
            ..one(direction, text, complain)
        })
    })
    .collect()
}

fn one(direction: &Direction, text: &str, complain: &mut impl FnMut(usize, String)) -> Measured {
    let offset = |raw: &RawValue| raw.get().as_ptr() as usize - text.as_ptr() as usize;
    for raw in [direction.bw_bytes, direction.bw, direction.iops].into_iter().flatten() {
        if raw.get().parse::<f64>().is_err() {
            complain(
                offset(raw),
                format!("'{}' is not a number; left out", raw.get().chars().take(40).collect::<String>()),
            );
        }
    }
    let number = |raw: &RawValue| {
        let value = raw.get().parse::<f64>().ok()?;
        Some(Found { value, offset: offset(raw) })
    };
    let bytes = direction.bw_bytes.and_then(number).map(|found| (found, "B/s"));
    let kilobytes = direction.bw.and_then(number);
    let kilobytes = kilobytes.map(|found| (Found { value: found.value * 1024.0, ..found }, "KiB/s"));
    Measured {
        workload: String::new(),
        operation: "",
        file_size: None,
        record_size: None,
        bandwidth: bytes.or(kilobytes),
        iops: direction.iops.and_then(number),
        latency: Latency::from_direction(direction, number),
        processes: 1,
    }
}

impl Measured {
    /// Adds a process that did the same work at the same time: rates add up.
    fn merge(&mut self, other: Measured) {
        let add = |a: Found, b: Found| Found { value: a.value + b.value, ..a };
        self.bandwidth = match (self.bandwidth, other.bandwidth) {
            (Some((mine, unit)), Some((theirs, _))) => Some((add(mine, theirs), unit)),
            _ => None,
        };
        self.iops = self.iops.zip(other.iops).map(|(mine, theirs)| add(mine, theirs));
        self.latency.merge(other.latency);
        self.processes += other.processes;
    }
}

/// The latency that includes the submission: fio's `lat`. [`LATENCY_MEAN`] is fio's `clat`.
const TOTAL_LATENCY_MEAN: MetricKind = MetricKind {
    name: "total_latency_mean",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Latency,
    about: "Mean time of one operation with its submission (fio's lat).",
};

/// The percentiles that are kept, in percent.
static PERCENTILES: [(f64, MetricKind); 4] =
    [(50.0, LATENCY_P50), (90.0, LATENCY_P90), (99.0, LATENCY_P99), (99.9, LATENCY_P999)];

/// A number and its offset in the text.
#[derive(Debug, Clone, Copy)]
struct Found {
    value: f64,
    offset: usize,
}

/// Times in seconds.
#[derive(Debug, Default)]
struct Latency {
    /// The number of operations measured.
    count: u64,
    /// The mean of completion latency, or of total latency if fio printed no other.
    mean: Option<Found>,
    /// The mean latency that includes the submission.
    total: Option<Found>,
    /// The percentiles, in the order of [`PERCENTILES`].
    percentiles: [Option<Found>; 4],
    /// The number of operations by latency in nanoseconds.
    bins: BTreeMap<u64, u64>,
    /// The unit as printed.
    found_unit: &'static str,
}

impl Latency {
    /// Returns the times of a direction. `number` reads a number of the document.
    fn from_direction<'a>(direction: &Direction<'a>, number: impl Fn(&'a RawValue) -> Option<Found>) -> Self {
        let nanoseconds = direction.clat_ns.is_some() || direction.lat_ns.is_some();
        let (completion, total, found_unit, a_second) = if nanoseconds {
            (&direction.clat_ns, &direction.lat_ns, "ns", 1e9)
        } else {
            (&direction.clat, &direction.lat, "us", 1e6)
        };
        let seconds = |raw| number(raw).map(|found| Found { value: found.value / a_second, ..found });
        let mean = |times: &Option<Times<'a>>| times.as_ref().and_then(|times| times.mean).and_then(seconds);
        // With `lat_percentiles`, fio counts total latencies instead of completion latencies.
        let counted = |times: &&Times| times.percentile.is_some() || times.bins.is_some();
        let kept = completion.as_ref().filter(counted).or(total.as_ref().filter(counted));
        let printed: BTreeMap<String, &RawValue> = table(kept.and_then(|times| times.percentile));
        let percentiles = PERCENTILES.each_ref().map(|(percent, _)| {
            let same = |key: &str| key.parse::<f64>().is_ok_and(|found| (found - percent).abs() < 1e-6);
            printed.iter().find(|(key, _)| same(key)).and_then(|(_, raw)| seconds(raw))
        });
        // Before 3.0 the counts had bin numbers instead of times as keys, beside constants of the format.
        let bins: BTreeMap<String, u64> = table(kept.filter(|_| nanoseconds).and_then(|times| times.bins));
        let bins = bins.into_iter().filter_map(|(time, count)| Some((time.parse().ok()?, count)));
        Latency {
            count: kept.or(completion.as_ref()).and_then(|times| times.count).unwrap_or(direction.total_ios),
            mean: mean(completion).or_else(|| mean(total)),
            total: completion.as_ref().and_then(|_| mean(total)),
            percentiles,
            bins: bins.filter(|(_, count)| *count > 0).collect(),
            found_unit,
        }
    }

    /// Adds another process that did the same work at the same time. Means are weighted. Percentiles come from the
    /// counts, or are lost if there are none.
    fn merge(&mut self, other: Latency) {
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let weigh = |a: Option<Found>, b: Option<Found>| match (a, b) {
            (Some(a), Some(b)) if mine + theirs > 0.0 => {
                Some(Found { value: (a.value * mine + b.value * theirs) / (mine + theirs), ..a })
            }
            _ => None,
        };
        self.mean = weigh(self.mean, other.mean);
        self.total = weigh(self.total, other.total);
        if other.bins.is_empty() {
            self.bins.clear();
        } else if !self.bins.is_empty() {
            for (time, count) in other.bins {
                let sum = self.bins.entry(time).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        self.count = self.count.saturating_add(other.count);
        for (percentile, (percent, _)) in self.percentiles.iter_mut().zip(&PERCENTILES) {
            let value = quantile(&self.bins, percent / 100.0);
            *percentile = percentile.and_then(|found| Some(Found { value: value? / 1e9, ..found }));
        }
    }
}

/// Returns the time of the bin that reaches the given share of all operations, as fio computes it.
fn quantile(bins: &BTreeMap<u64, u64>, share: f64) -> Option<f64> {
    let all: f64 = bins.values().map(|count| *count as f64).sum();
    let mut sum = 0.0;
    let reached = bins.iter().find(|(_, count)| {
        sum += **count as f64;
        sum >= share * all
    });
    reached.map(|(time, _)| *time as f64)
}

impl Latency {
    /// Returns the values to keep, one per metric. A percentile is kept only if at least a hundred operations are
    /// beyond it.
    fn values(&self) -> impl Iterator<Item = (&'static MetricKind, Found)> {
        let means = [(&LATENCY_MEAN, self.mean), (&TOTAL_LATENCY_MEAN, self.total)];
        let enough = |percent: f64| (100.0 - percent) * self.count as f64 >= 100.0 * 100.0 * (1.0 - 1e-9);
        let percentiles: Vec<_> = PERCENTILES
            .iter()
            .zip(self.percentiles)
            .filter(|((percent, _), _)| enough(*percent))
            .map(|((_, metric), found)| (metric, found))
            .collect();
        means.into_iter().chain(percentiles).filter_map(|(metric, found)| Some((metric, found?)))
    }
}

/// A direction of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
    Trim,
    /// The sum of all directions, with `unified_rw_reporting`.
    Mixed,
    /// Calls such as fsync.
    Sync,
}

/// The options of a job, with those of all jobs behind them.
struct Merged<'a> {
    job: &'a Options,
    global: &'a Options,
}

impl<'a> Merged<'a> {
    fn get(&self, names: &[&str]) -> Option<&'a str> {
        let find = |options: &'a Options| names.iter().find_map(|name| options.get(*name)).and_then(Value::as_str);
        find(self.job).or_else(|| find(self.global))
    }

    /// Returns the value of `rw`, which is `read` by default.
    fn rw(&self) -> &'a str {
        self.get(&["rw", "readwrite"]).unwrap_or("read").split(':').next().unwrap_or("read")
    }

    /// Returns the name of a direction.
    fn operation(&self, way: Way) -> &'static str {
        let random = self.rw().starts_with("rand");
        match (way, random) {
            (Way::Read, false) => "read",
            (Way::Read, true) => "random_read",
            (Way::Write, false) => "write",
            (Way::Write, true) => "random_write",
            (Way::Trim, false) => "trim",
            (Way::Trim, true) => "random_trim",
            (Way::Mixed, _) => "mixed",
            (Way::Sync, _) => "sync",
        }
    }

    /// Returns whether the options of the job request this direction.
    fn asks_for(&self, way: Way) -> bool {
        let rw = self.rw();
        let both = matches!(rw, "rw" | "readwrite" | "randrw");
        match way {
            Way::Read => both || rw.ends_with("read"),
            Way::Write => both || rw.ends_with("write"),
            Way::Trim => rw.contains("trim"),
            Way::Mixed | Way::Sync => false,
        }
    }

    /// Returns the bytes of a file, if the options give them.
    fn file_size(&self) -> Option<u64> {
        if let Some(size) = self.get(&["filesize"]) {
            return self.bytes(size);
        }
        let files = self.get(&["nrfiles"]).map_or(Some(1), |text| text.parse().ok()).filter(|files| *files > 0)?;
        Some(self.bytes(self.get(&["size"])?)? / files)
    }

    /// Returns the bytes of a call in a direction: 4 KiB by default. Returns `None` if calls have several sizes.
    fn record_size(&self, way: Way) -> Option<u64> {
        if self.get(&["bsrange", "blocksize_range", "bssplit", "bs_unaligned"]).is_some() || way == Way::Sync {
            return None;
        }
        let sizes: Vec<&str> = self.get(&["bs", "blocksize"]).unwrap_or("4k").split(',').collect();
        if way == Way::Mixed && sizes.len() > 1 {
            return None;
        }
        let at = match way {
            Way::Write => 1,
            Way::Trim => 2,
            _ => 0,
        };
        self.bytes(sizes.get(at).or(sizes.last())?)
    }

    /// Parses a size as fio does: `k` is 1024 unless `kb_base` says otherwise. The meaning of `ki` depends on versions
    /// and settings, so it is not parsed.
    fn bytes(&self, text: &str) -> Option<u64> {
        let text = text.trim().to_ascii_lowercase();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let power = match unit.strip_suffix('b').unwrap_or(unit) {
            "" => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            _ => return None,
        };
        if power > 0 && self.get(&["kb_base"]).is_some_and(|base| base != "1024") {
            return None;
        }
        number.parse::<u64>().ok()?.checked_mul(1 << (10 * power)).filter(|bytes| *bytes > 0)
    }
}

// The shape of fio's JSON, as far as it is read. Numbers and tables stay text until they are used: the position of a
// number in the document gives its line, and unused tables take no memory.

/// The first key of every document.
const FIRST_KEY: &str = "\"fio version\"";

/// `global options` and `job options`: texts by name.
type Options = BTreeMap<String, Value>;

/// The maximum number of jobs of a report.
const MOST_JOBS: usize = 10_000;

/// The maximum length of a table in bytes. The counts of one direction in json+ have about 40 kB.
const LONGEST_TABLE: usize = 1 << 20;

/// Parses a table. Returns an empty one if the text is not a table, or is longer than any table of fio.
fn table<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    let text = raw.map(RawValue::get).filter(|text| text.len() <= LONGEST_TABLE);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// One report of fio.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(rename = "fio version", default)]
    version: String,
    #[serde(rename = "global options", borrow)]
    global: Option<&'a RawValue>,
    /// The time at which fio printed the report, in milliseconds since 1970.
    timestamp_ms: Option<i64>,
    #[serde(borrow, default)]
    jobs: Jobs<'a>,
    /// Replaces `jobs` if the jobs ran on other hosts.
    #[serde(borrow, default)]
    client_stats: Jobs<'a>,
}

impl<'a> Document<'a> {
    /// Returns every job, on all hosts. The sum over all hosts repeats them and is left out.
    fn all(&self) -> impl Iterator<Item = &Job<'a>> {
        self.jobs.0.iter().chain(&self.client_stats.0).filter(|job| job.jobname != "All clients")
    }
}

/// A limited number of jobs.
#[derive(Default)]
struct Jobs<'a>(Vec<Job<'a>>);

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
struct Job<'a> {
    #[serde(default)]
    jobname: String,
    #[serde(default)]
    groupid: i64,
    #[serde(default)]
    error: i64,
    /// Seconds since the start of fio, rounded up.
    elapsed: Option<i64>,
    #[serde(rename = "job options", borrow)]
    options: Option<&'a RawValue>,
    #[serde(borrow)]
    read: Option<Direction<'a>>,
    #[serde(borrow)]
    write: Option<Direction<'a>>,
    #[serde(borrow)]
    trim: Option<Direction<'a>>,
    #[serde(borrow)]
    mixed: Option<Direction<'a>>,
    #[serde(borrow)]
    sync: Option<Direction<'a>>,
}

/// Reads, writes, trims or syncs of a job.
#[derive(Deserialize)]
struct Direction<'a> {
    #[serde(default)]
    total_ios: u64,
    /// Bytes a second; since 3.0.
    #[serde(borrow)]
    bw_bytes: Option<&'a RawValue>,
    /// Kilobytes (1024 bytes) a second.
    #[serde(borrow)]
    bw: Option<&'a RawValue>,
    #[serde(borrow)]
    iops: Option<&'a RawValue>,
    /// The latency from submission to completion in nanoseconds, since fio 3.0.
    #[serde(borrow)]
    clat_ns: Option<Times<'a>>,
    /// The latency that includes the submission in nanoseconds, since fio 3.0.
    #[serde(borrow)]
    lat_ns: Option<Times<'a>>,
    /// The latency from submission to completion in microseconds, before fio 3.0.
    #[serde(borrow)]
    clat: Option<Times<'a>>,
    #[serde(borrow)]
    lat: Option<Times<'a>>,
}

/// Times of one kind.
#[derive(Deserialize)]
struct Times<'a> {
    #[serde(borrow)]
    mean: Option<&'a RawValue>,
    #[serde(rename = "N", default)]
    count: Option<u64>,
    #[serde(borrow)]
    percentile: Option<&'a RawValue>,
    #[serde(borrow)]
    bins: Option<&'a RawValue>,
}

/// Returns the offsets at which documents start. No document holds another, so each ends before the next. That keeps
/// the work linear for any text.
fn starts(text: &str) -> Vec<usize> {
    let keys = text.match_indices(FIRST_KEY).map(|(key, _)| key);
    keys.filter_map(|key| {
        let before = text[..key].trim_end();
        before.ends_with('{').then(|| before.len() - 1)
    })
    .collect()
}

/// Parses the document that a text starts with. Returns the intact part and the error if the document is damaged.
fn document(text: &str) -> (Document<'_>, Option<serde_json::Error>) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with<T>(job: Value, global: Value, ask: impl Fn(&Merged) -> T) -> T {
        let options = |value: Value| value.as_object().unwrap().clone().into_iter().collect::<Options>();
        let (job, global) = (options(job), options(global));
        ask(&Merged { job: &job, global: &global })
    }

    #[test]
    fn the_job_overrules_what_holds_for_all() {
        with(json!({"rw": "randrw:2"}), json!({"rw": "write", "bs": "4k,8k", "size": "1g"}), |merged| {
            assert_eq!(merged.operation(Way::Write), "random_write");
            assert!(merged.asks_for(Way::Read) && merged.asks_for(Way::Write) && !merged.asks_for(Way::Trim));
            assert_eq!(merged.record_size(Way::Read), Some(4096));
            assert_eq!((merged.record_size(Way::Write), merged.record_size(Way::Trim)), (Some(8192), Some(8192)));
            assert_eq!(merged.file_size(), Some(1 << 30));
        });
    }

    #[test]
    fn only_certain_sizes_are_read() {
        let size = |job: Value| with(job, json!({}), |merged| merged.file_size());
        assert_eq!(size(json!({"size": "256m"})), Some(256 << 20));
        assert_eq!(size(json!({"size": "4KB", "nrfiles": "2"})), Some(2048));
        assert_eq!(size(json!({"size": "1g", "filesize": "64k"})), Some(65536));
        for unsure in ["50%", "1ki", "4k-8k", "99999999999999999999", "16777216t", ""] {
            assert_eq!(size(json!({ "size": unsure })), None, "{unsure}");
        }
        assert_eq!(size(json!({"size": "1k", "kb_base": "1000"})), None);
        let record = |job: Value| with(job, json!({}), |merged| merged.record_size(Way::Read));
        assert_eq!((record(json!({})), record(json!({"bsrange": "1k-4k"}))), (Some(4096), None));
    }
}

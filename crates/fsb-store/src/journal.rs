//! The trials of a journal in memory: the fields that reports and comparisons use. Fields that many
//! trials share are stored once, so that hundreds of thousands fit in memory.
//!
//! The rule which trials a result consists of is here, once: [`CompactTrial::counts`] and
//! [`last_attempts`].

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::path::Path;
use std::sync::Arc;

use fsb_model::observed::{BackgroundWork, MemoryUse};
use fsb_model::storage::Promise;
use fsb_model::timeline::Timeline;
use fsb_model::traced::Traced;
use fsb_model::trial::Phase;
use fsb_model::workload::{Durability, Params};
use fsb_model::{Better, Interference, Metric, Outcome, Trial, Unit};
use jiff::Timestamp;
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::StoreError;
use crate::read::{Chunk, Journal, Line, Reader, cut_off, parse_line};

/// A trial without the fields that no result uses. The others are those of [`Trial`].
#[derive(Debug, Clone, PartialEq)]
pub struct CompactTrial {
    /// The case, the target and the metrics, shared by all trials that have them in common.
    pub what: Arc<TrialCell>,
    /// Whether it counts.
    pub phase: Phase,
    /// The block, from 1.
    pub block: u32,
    /// The place in run order.
    pub order: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The number of its line in the journal, from 1.
    pub line: u32,
    /// The outcome of the trial.
    pub outcome: Outcome,
    /// Whether it was retried.
    pub superseded: bool,
    /// Whether the target was idle before the measurement, as far as the record says.
    pub idle: bool,
    /// The slice of the medium that the target had.
    pub slice: Option<u32>,
    /// Seconds since 1970 at its start. `None` if the record has no time.
    pub started: Option<f64>,
    /// The values, in the order of the metrics of [`CompactTrial::what`].
    values: Box<[f64]>,
    /// Nanoseconds of each sample.
    pub timed_ns: Times,
    /// `None` if there is nothing but values, which is the rule.
    extras: Option<Box<TrialExtras>>,
}

/// The fields of a trial that are empty in most trials.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialExtras {
    /// The error of a failed or invalid trial.
    pub error: Option<Arc<str>>,
    /// The interference that affected it.
    pub interference: Vec<Interference>,
    /// The timelines, one per repetition.
    pub timelines: Vec<Timeline>,
    /// Histograms by operation: its own, or the merged ones of all trials of its cell.
    pub latency: BTreeMap<String, String>,
    /// The cycles of a micro-benchmark.
    pub cycles: Option<Box<Cycles>>,
    /// The time of its threads by kernel stack; only of a traced trial.
    pub traced: Option<Box<Traced>>,
    /// The work of the background of its case.
    pub background: Option<Box<BackgroundWork>>,
    /// The promises of the case's name that the target has not been shown to keep.
    pub unproven: Vec<Promise>,
}

/// The extras of a trial that has none.
static NO_EXTRAS: TrialExtras = TrialExtras {
    error: None,
    interference: Vec::new(),
    timelines: Vec::new(),
    latency: BTreeMap::new(),
    cycles: None,
    traced: None,
    background: None,
    unproven: Vec::new(),
};

/// The parts of trials that many of them share: the case, the target and the metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialCell {
    /// The name of the target.
    pub target: String,
    /// The kernel release it ran on.
    pub kernel: String,
    /// The label of the cell.
    pub workload: String,
    /// The operation on a file.
    pub operation: String,
    /// The member of the registry, and all its parameters.
    pub params: Params,
    /// The metrics of its trials' values, in order. Targets are compared by the first one.
    pub metrics: Box<[MetricKind]>,
    /// The memory limit; `None` for trials without one.
    pub memory_limit: Option<MemoryLimit>,
    /// The parameters as they are in the journal, by which the next trial is recognised. `None` if
    /// the trials are in memory.
    text_of_params: Option<Box<str>>,
}

/// The memory limit under which a trial ran.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub limit_bytes: u64,
    /// The mechanism that limited memory.
    pub mechanism: String,
}

impl From<&MemoryUse> for MemoryLimit {
    fn from(memory: &MemoryUse) -> MemoryLimit {
        MemoryLimit {
            limit_bytes: memory.limit_bytes,
            mechanism: memory.mechanism.clone(),
        }
    }
}

/// Returns whether an operation with these parameters writes, or makes data durable.
pub fn writes(operation: &str, params: &Params) -> bool {
    let reads = |name: &str| name.ends_with("read") || name.ends_with("readv");
    let only_reads = reads(operation) || ["stat", "scan", "readdir"].contains(&operation);
    !only_reads || is_durable(params)
}

pub fn is_durable(params: &Params) -> bool {
    let durability = params.get("durability").and_then(serde_json::Value::as_str);
    durability.is_some_and(|found| {
        [Durability::End, Durability::Each]
            .iter()
            .any(|asked| asked.name() == found)
    })
}

impl TrialCell {
    /// Returns whether it writes, or makes data durable.
    pub fn writes(&self) -> bool {
        writes(&self.operation, &self.params)
    }

    /// Returns whether its data must be on the device when the clock stops.
    pub fn is_durable(&self) -> bool {
        is_durable(&self.params)
    }
}

/// A value with its metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricValue<'a> {
    /// The metric.
    pub kind: &'a MetricKind,
    /// The value in the metric's unit.
    pub value: f64,
}

/// Durations in nanoseconds. They take half the memory if none is longer than four seconds, which
/// is usual for samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Times {
    /// Each below 2³².
    Short(Box<[u32]>),
    /// Any.
    Long(Box<[u64]>),
}

impl Times {
    fn from_ns(times: &[u64]) -> Times {
        let short = times
            .iter()
            .map(|time| u32::try_from(*time))
            .collect::<Result<Box<[u32]>, _>>();
        short.map_or_else(|_| Times::Long(times.into()), Times::Short)
    }

    /// Returns the durations in their order.
    pub fn to_vec(&self) -> Vec<u64> {
        match self {
            Times::Short(times) => times.iter().map(|time| u64::from(*time)).collect(),
            Times::Long(times) => times.to_vec(),
        }
    }
}

/// A metric without a value.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricKind {
    /// The name.
    pub name: String,
    /// The unit.
    pub unit: Unit,
    /// The direction that is good.
    pub better: Better,
}

impl From<&MetricFields<'_>> for MetricKind {
    fn from(metric: &MetricFields<'_>) -> MetricKind {
        MetricKind {
            name: metric.name.to_string(),
            unit: metric.unit,
            better: metric.better,
        }
    }
}

impl PartialEq<&MetricFields<'_>> for &MetricKind {
    fn eq(&self, other: &&MetricFields<'_>) -> bool {
        self.name == other.name && (self.unit, self.better) == (other.unit, other.better)
    }
}

/// The fields of a trial that are kept, borrowed from a line of the journal or from a [`Trial`].
#[derive(Debug, Deserialize)]
struct TrialFields<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    phase: Phase,
    block: u32,
    order: u32,
    attempt: u32,
    #[serde(borrow)]
    target: Cow<'a, str>,
    #[serde(borrow)]
    kernel: Cow<'a, str>,
    #[serde(borrow)]
    workload: Cow<'a, str>,
    #[serde(borrow)]
    operation: Cow<'a, str>,
    #[serde(borrow)]
    params: ParamsField<'a>,
    #[serde(borrow)]
    started: Cow<'a, str>,
    outcome: Outcome,
    #[serde(default)]
    error: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    metrics: Vec<MetricFields<'a>>,
    #[serde(default)]
    interference: Cow<'a, [Interference]>,
    #[serde(default)]
    superseded: bool,
    #[serde(default)]
    slice: Option<u32>,
    #[serde(default)]
    samples: SampleFields<'a>,
    #[serde(default)]
    timelines: Cow<'a, [Timeline]>,
    #[serde(default, borrow)]
    latency: BTreeMap<Text<'a>, Text<'a>>,
    #[serde(default)]
    observed: ObservedFields<'a>,
}

/// The parameters of a trial. Those of a line are parsed once for all lines that have the same.
#[derive(Debug)]
enum ParamsField<'a> {
    /// As they are in the line.
    Text(&'a RawValue),
    /// Those of a trial in memory.
    Parsed(&'a Params),
}

impl<'de: 'a, 'a> Deserialize<'de> for ParamsField<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: &RawValue = Deserialize::deserialize(deserializer)?;
        match text.get().starts_with('{') {
            true => Ok(ParamsField::Text(text)),
            false => Err(serde::de::Error::custom("params is not an object")),
        }
    }
}

impl ParamsField<'_> {
    fn are_of(&self, cell: &TrialCell) -> bool {
        match self {
            ParamsField::Text(text) => cell.text_of_params.as_deref() == Some(text.get()),
            ParamsField::Parsed(params) => cell.params == **params,
        }
    }

    fn to_params(&self) -> Params {
        match self {
            // A raw value is valid JSON, and this one is an object.
            ParamsField::Text(text) => serde_json::from_str(text.get()).unwrap_or_default(),
            ParamsField::Parsed(params) => (*params).clone(),
        }
    }
}

/// The part of the observations that is kept.
#[derive(Debug, Clone, Default, Deserialize)]
struct ObservedFields<'a> {
    /// Whether the target was idle each time the clock started.
    #[serde(default)]
    idle: Option<bool>,
    #[serde(default)]
    seconds_per_iteration: Cow<'a, [f64]>,
    #[serde(default)]
    cycle_spans_ns: Cow<'a, [[u64; 2]]>,
    #[serde(default)]
    traced: Option<Cow<'a, Traced>>,
    #[serde(default)]
    background: Option<BackgroundWork>,
    #[serde(default)]
    unproven: Vec<Promise>,
    #[serde(default)]
    memory_limit: Option<MemoryLimit>,
}

/// The fields of a [`Metric`].
#[derive(Debug, Deserialize)]
struct MetricFields<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    value: f64,
    unit: Unit,
    better: Better,
}

/// The part of the samples that says how long each one took.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SampleFields<'a> {
    timed_ns: Cow<'a, [u64]>,
}

/// A string that is borrowed unless it has escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl TrialFields<'_> {
    /// Returns whether the analysis may use its values.
    fn has_values(&self) -> bool {
        self.phase.counts(self.superseded) && self.outcome == Outcome::Ok
    }
}

impl<'a> From<&'a Trial> for TrialFields<'a> {
    fn from(trial: &'a Trial) -> TrialFields<'a> {
        let text = |text: &'a String| Cow::Borrowed(text.as_str());
        let metric = |metric: &'a Metric| {
            let Metric {
                name,
                value,
                unit,
                better,
            } = metric;
            MetricFields {
                name: text(name),
                value: *value,
                unit: *unit,
                better: *better,
            }
        };
        TrialFields {
            schema: text(&trial.schema),
            id: text(&trial.id),
            phase: trial.phase,
            block: trial.block,
            order: trial.order,
            attempt: trial.attempt,
            target: text(&trial.target),
            kernel: text(&trial.kernel),
            workload: text(&trial.workload),
            operation: text(&trial.operation),
            params: ParamsField::Parsed(&trial.params),
            started: text(&trial.started),
            outcome: trial.outcome,
            error: trial.error.as_ref().map(text),
            metrics: trial.metrics.iter().map(metric).collect(),
            interference: Cow::Borrowed(&trial.interference),
            superseded: trial.superseded,
            slice: trial.slice,
            samples: SampleFields {
                timed_ns: Cow::Borrowed(&trial.samples.timed_ns),
            },
            timelines: Cow::Borrowed(&trial.timelines),
            latency: trial
                .latency
                .iter()
                .map(|(name, found)| (Text(text(name)), Text(text(found))))
                .collect(),
            observed: ObservedFields {
                idle: trial.observed.idle,
                seconds_per_iteration: Cow::Borrowed(&trial.observed.seconds_per_iteration),
                cycle_spans_ns: Cow::Borrowed(&trial.observed.cycle_spans_ns),
                traced: trial.observed.traced.as_deref().map(Cow::Borrowed),
                background: trial.observed.background,
                unproven: trial.observed.unproven.clone(),
                memory_limit: trial.observed.memory_limit.as_ref().map(MemoryLimit::from),
            },
        }
    }
}

/// Collects trials one by one.
#[derive(Debug, Default)]
struct TrialCollector {
    list: Vec<CompactTrial>,
    hasher: RandomState,
    cells: HashMap<u64, Vec<Arc<TrialCell>>>,
    texts: HashSet<Arc<str>>,
}

impl TrialCollector {
    /// Adds the next trial, which is in this line of the journal, and returns its cell.
    fn push(&mut self, line: usize, trial: TrialFields<'_>) -> &Arc<TrialCell> {
        let cell = self.cell(&trial);
        let latency = trial
            .latency
            .into_iter()
            .map(|(name, found)| (name.0.into_owned(), found.0.into_owned()))
            .collect();
        let observed = trial.observed;
        let iterations = cell
            .params
            .get("iterations")
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(1);
        let extras = TrialExtras {
            error: trial.error.as_deref().map(|text| self.text(text)),
            interference: trial.interference.into_owned(),
            timelines: trial.timelines.into_owned(),
            latency,
            cycles: Cycles::new(
                iterations,
                &observed.seconds_per_iteration,
                &observed.cycle_spans_ns,
            )
            .map(Box::new),
            traced: observed.traced.map(|traced| Box::new(traced.into_owned())),
            background: observed.background.map(Box::new),
            unproven: observed.unproven,
        };
        let place = self.list.len();
        self.list.push(CompactTrial {
            what: cell,
            phase: trial.phase,
            block: trial.block,
            order: trial.order,
            attempt: trial.attempt,
            line: u32::try_from(line).unwrap_or(u32::MAX),
            outcome: trial.outcome,
            superseded: trial.superseded,
            idle: observed.idle != Some(false),
            slice: trial.slice,
            started: seconds(&trial.started),
            values: trial.metrics.iter().map(|metric| metric.value).collect(),
            timed_ns: Times::from_ns(&trial.samples.timed_ns),
            extras: (extras != NO_EXTRAS).then(|| extras.into()),
        });
        &self.list[place].what
    }

    /// Returns the cell of another collector, shared by all trials of this one that have it.
    fn share(&mut self, cell: &Arc<TrialCell>) -> Arc<TrialCell> {
        let TrialCell {
            target,
            kernel,
            workload,
            operation,
            ..
        } = &**cell;
        let names = (&**target, &**kernel, &**workload, &**operation);
        let known = self.cells.entry(self.hasher.hash_one(names)).or_default();
        if let Some(found) = known.iter().find(|known| **known == *cell) {
            return found.clone();
        }
        known.push(cell.clone());
        cell.clone()
    }

    /// Returns the trials in the order in which they were added.
    fn finish(mut self) -> Vec<CompactTrial> {
        self.list.shrink_to_fit();
        self.list
    }

    fn cell(&mut self, trial: &TrialFields<'_>) -> Arc<TrialCell> {
        let TrialFields {
            target,
            kernel,
            workload,
            operation,
            params,
            metrics,
            observed,
            ..
        } = trial;
        let known = self
            .cells
            .entry(
                self.hasher
                    .hash_one((&**target, &**kernel, &**workload, &**operation)),
            )
            .or_default();
        let found = known.iter().find(|cell| {
            [&cell.target, &cell.kernel, &cell.workload, &cell.operation]
                == [target, kernel, workload, operation]
                && params.are_of(cell)
                && cell.metrics.iter().eq(metrics)
                && cell.memory_limit == observed.memory_limit
        });
        if let Some(cell) = found {
            return cell.clone();
        }
        let cell = Arc::new(TrialCell {
            target: target.to_string(),
            kernel: kernel.to_string(),
            workload: workload.to_string(),
            operation: operation.to_string(),
            params: params.to_params(),
            metrics: metrics.iter().map(MetricKind::from).collect(),
            memory_limit: observed.memory_limit.clone(),
            text_of_params: match params {
                ParamsField::Text(text) => Some(text.get().into()),
                ParamsField::Parsed(_) => None,
            },
        });
        known.push(cell.clone());
        cell
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }
}

/// Parses a time of a record into seconds since 1970. Returns `None` if it is not a time.
pub fn seconds(text: &str) -> Option<f64> {
    text.parse::<Timestamp>()
        .ok()
        .map(|stamp| stamp.as_nanosecond() as f64 * 1e-9)
}

impl CompactTrial {
    /// Converts trials that are in memory already.
    pub fn all(trials: &[Trial]) -> Vec<CompactTrial> {
        let mut collector = TrialCollector::default();
        for (place, trial) in trials.iter().enumerate() {
            collector.push(place + 1, trial.into());
        }
        collector.finish()
    }

    /// Returns the fields that are empty in most trials.
    pub fn extras(&self) -> &TrialExtras {
        self.extras.as_deref().unwrap_or(&NO_EXTRAS)
    }

    /// Replaces its histograms.
    pub fn set_latency(&mut self, latency: BTreeMap<String, String>) {
        let extras = TrialExtras {
            latency,
            ..self.extras().clone()
        };
        self.extras = (extras != NO_EXTRAS).then(|| extras.into());
    }

    /// Returns its values in the order in which the trial records them.
    pub fn metrics(&self) -> impl Iterator<Item = MetricValue<'_>> {
        self.what
            .metrics
            .iter()
            .zip(&self.values)
            .map(|(kind, value)| MetricValue {
                kind,
                value: *value,
            })
    }

    /// As [`Trial::primary`].
    pub fn primary(&self) -> Option<MetricValue<'_>> {
        self.metrics()
            .next()
            .filter(|_| self.outcome == Outcome::Ok)
    }

    /// As [`Trial::counts`].
    pub fn counts(&self) -> bool {
        self.phase.counts(self.superseded)
    }

    /// As [`Trial::reason`].
    pub fn reason(&self) -> String {
        self.outcome.reason(self.extras().error.as_deref())
    }

    /// As [`Trial::metric`].
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics()
            .find(|metric| metric.kind.name == name)
            .map(|metric| metric.value)
    }
}

impl From<MetricValue<'_>> for Metric {
    fn from(metric: MetricValue<'_>) -> Metric {
        let MetricKind { name, unit, better } = metric.kind;
        Metric {
            name: name.clone(),
            value: metric.value,
            unit: *unit,
            better: *better,
        }
    }
}

/// Returns one trial for each case, target and block, in run order: the last attempt if a trial was
/// retried. Whether the others count is not looked at.
pub fn last_attempts<'t>(
    trials: impl IntoIterator<Item = impl Borrow<&'t CompactTrial>>,
) -> Vec<&'t CompactTrial> {
    // Of hundreds of thousands of trials, most share their cell with others.
    let mut subjects: HashMap<(&str, &str), u32> = HashMap::new();
    let mut cells: HashMap<*const TrialCell, u32> = HashMap::new();
    let mut last: HashMap<(u32, u32), &CompactTrial> = HashMap::new();
    for trial in trials {
        let trial = *trial.borrow();
        let subject = *cells.entry(Arc::as_ptr(&trial.what)).or_insert_with(|| {
            let next = subjects.len() as u32;
            let names = (&*trial.what.target, &*trial.what.workload);
            *subjects.entry(names).or_insert(next)
        });
        let held = last.entry((subject, trial.block)).or_insert(trial);
        if (trial.attempt, trial.order) >= (held.attempt, held.order) {
            *held = trial;
        }
    }
    let mut trials: Vec<&CompactTrial> = last.into_values().collect();
    trials.sort_by_key(|trial| (trial.order, trial.line));
    trials
}

/// The trials of a run directory or a published page.
#[derive(Debug)]
pub struct JournalTrials {
    /// The trials in the order in which they ended. The first trial with latencies of a cell holds
    /// those of all its trials.
    pub trials: Vec<CompactTrial>,
    /// Warnings about data that was left out.
    pub warnings: Vec<String>,
    /// Whether a line before the last one is damaged or repeated, so that a result is of a part of
    /// the trials.
    pub is_damaged: bool,
}

impl<'a> Line<'a> for TrialFields<'a> {
    fn schema(&self) -> &str {
        &self.schema
    }
}

/// Adds histograms, whose format this crate does not know.
pub trait Histograms: Default + Send {
    /// The sum of histograms.
    type Sum: Default + Send;

    /// Adds the histogram in a text to a sum.
    fn add(&mut self, sum: &mut Self::Sum, text: &str);

    /// Adds a sum to another one.
    fn join(&mut self, sum: &mut Self::Sum, other: Self::Sum);

    /// Returns the text of a sum, or `None` if it holds no histogram.
    fn to_text(&self, sum: &Self::Sum) -> Option<String>;
}

/// Whether the latencies of trials are read. To add their histograms takes a third of the time of
/// reading a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Latencies {
    /// The first trial with latencies of a cell holds those of all its trials.
    Added,
    /// No trial holds latencies.
    LeftOut,
}

/// The number of bytes of lines that a thread parses at once.
const CHUNK: usize = 512 << 10;

/// The number of lines that are left out with a warning of their own; the others are counted.
const NAMED: usize = 3;

/// Reads the trials of a run: a damaged line, and a line that repeats another one, are left out
/// with a warning. Histograms are replaced by their sum, or left out.
///
/// Lines are parsed by all threads of the rayon pool of this thread. Histograms are most of a
/// journal. They are added while it is read and never held together.
///
/// # Errors
///
/// The journal cannot be read, or its first line is damaged.
pub fn read<H: Histograms>(
    reader: &mut Reader,
    latencies: Latencies,
) -> Result<JournalTrials, StoreError> {
    let mut histograms = H::default();
    let mut without = (latencies == Latencies::Added).then(HashSet::new);
    loop {
        let pass = Pass::read(reader, without.as_ref(), &mut histograms)?;
        let Some(known) = &mut without else {
            return Ok(pass.finish(&HashSet::new(), &histograms));
        };
        let mut attempts = Attempts::new(&pass.collector.list);
        attempts.replaced.extend(&pass.repeated);
        if attempts.replaced == *known {
            return Ok(pass.finish(&attempts.first_good, &histograms));
        }
        // Only a later line shows that a trial does not count. This is rare and takes a second
        // pass.
        *known = attempts.replaced;
    }
}

/// The memory of one thread that parses lines.
#[derive(Default)]
struct Slot<H> {
    chunk: Chunk,
    /// Knows the cells of all chunks, so that their parameters are not parsed again in each one.
    collector: TrialCollector,
    histograms: H,
}

/// The trials of some lines.
struct Parsed<H: Histograms> {
    trials: Vec<CompactTrial>,
    /// The identity of each trial, hashed: its name and its place in run order.
    identities: Vec<u64>,
    /// Histograms of trials with values, by cell in the order of their first trials.
    sums: Vec<(Arc<TrialCell>, Sums<H>)>,
    /// Lines that cannot be parsed.
    damaged: Vec<(usize, StoreError)>,
    /// Whether the last line is cut off.
    is_cut_off: bool,
    /// The error that ended the lines.
    error: Option<StoreError>,
}

/// Sums of histograms by operation.
type Sums<H> = BTreeMap<String, <H as Histograms>::Sum>;

impl<H: Histograms> Slot<H> {
    /// Parses the lines. Histograms of the lines in `without` are left out; those of all lines for
    /// `None`.
    fn parse(
        &mut self,
        path: &Path,
        hasher: &RandomState,
        without: Option<&HashSet<u32>>,
    ) -> Parsed<H> {
        let mut parsed = Parsed {
            trials: Vec::new(),
            identities: Vec::new(),
            sums: Vec::new(),
            damaged: Vec::new(),
            is_cut_off: false,
            error: self.chunk.error.take(),
        };
        let mut places: HashMap<*const TrialCell, usize> = HashMap::new();
        for line in self.chunk.lines() {
            let mut trial = match parse_line::<TrialFields<'_>>(path, line.number, line.bytes) {
                Ok(trial) => trial,
                Err(StoreError::Syntax { .. } | StoreError::Checksum { .. }) if !line.ended => {
                    parsed.is_cut_off = true;
                    continue;
                }
                Err(error) => {
                    parsed.damaged.push((line.number, error));
                    continue;
                }
            };
            parsed
                .identities
                .push(hasher.hash_one((&trial.id, trial.order)));
            let latency = mem::take(&mut trial.latency);
            let is_added = without.is_some_and(|lines| !lines.contains(&(line.number as u32)));
            let has_values = trial.has_values() && is_added;
            let cell = self.collector.push(line.number, trial);
            if has_values && !latency.is_empty() {
                let place = *places.entry(Arc::as_ptr(cell)).or_insert_with(|| {
                    parsed.sums.push((cell.clone(), BTreeMap::new()));
                    parsed.sums.len() - 1
                });
                let sums = &mut parsed.sums[place].1;
                for (operation, text) in latency {
                    let sum = sum_of::<H>(sums, &operation.0);
                    self.histograms.add(sum, &text.0);
                }
            }
        }
        parsed.trials = mem::take(&mut self.collector.list);
        self.collector.texts.clear();
        parsed
    }
}

fn sum_of<'s, H: Histograms>(sums: &'s mut Sums<H>, operation: &str) -> &'s mut H::Sum {
    if !sums.contains_key(operation) {
        sums.insert(operation.to_owned(), H::Sum::default());
    }
    sums.get_mut(operation).expect("it was inserted")
}

/// One pass over a journal.
struct Pass<H: Histograms> {
    collector: TrialCollector,
    /// Histograms of trials with values by target and case.
    sums: HashMap<(String, String), Sums<H>>,
    /// Lines by the identity of their trial, hashed.
    seen: HashMap<u64, u32>,
    /// Lines that repeat another one.
    repeated: Vec<u32>,
    /// The first damaged line with its error.
    first_error: Option<(usize, StoreError)>,
    /// The number of lines that were left out.
    left_out: usize,
    warnings: Vec<String>,
}

impl<H: Histograms> Pass<H> {
    fn read(
        reader: &mut Reader,
        without: Option<&HashSet<u32>>,
        histograms: &mut H,
    ) -> Result<Pass<H>, StoreError> {
        let mut pass = Pass {
            collector: TrialCollector::default(),
            sums: HashMap::new(),
            seen: HashMap::new(),
            repeated: Vec::new(),
            first_error: None,
            left_out: 0,
            warnings: Vec::new(),
        };
        let mut journal = reader.journal()?;
        let path = journal.path().to_owned();
        let hasher = pass.collector.hasher.clone();
        let slots = || -> Vec<Slot<H>> {
            let slots = std::iter::repeat_with(Slot::default);
            slots.take(rayon::current_num_threads()).collect()
        };
        let (mut now, mut next) = (slots(), slots());
        fill(&mut journal, &mut now);
        while now.iter().any(|slot| !slot.chunk.is_empty()) {
            let parse = || -> Vec<Parsed<H>> {
                let slots = now.par_iter_mut();
                slots
                    .map(|slot| slot.parse(&path, &hasher, without))
                    .collect()
            };
            let (parsed, ()) = rayon::join(parse, || fill(&mut journal, &mut next));
            for parsed in parsed {
                pass.add(parsed, &path, histograms)?;
            }
            mem::swap(&mut now, &mut next);
        }
        match pass.first_error.take() {
            // Such a journal is hardly one of this program.
            Some((1, error)) => Err(error),
            _ => Ok(pass),
        }
    }

    /// Adds the trials of the next lines.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    fn add(
        &mut self,
        parsed: Parsed<H>,
        path: &Path,
        histograms: &mut H,
    ) -> Result<(), StoreError> {
        let mut left_out: Vec<(usize, String)> = Vec::new();
        let mut cells: HashMap<*const TrialCell, Arc<TrialCell>> = HashMap::new();
        for (mut trial, identity) in parsed.trials.into_iter().zip(parsed.identities) {
            let first = *self.seen.entry(identity).or_insert(trial.line);
            if first != trial.line {
                self.repeated.push(trial.line);
                let line = trial.line as usize;
                let text = format!("line {line} of the journal repeats line {first}: left out");
                left_out.push((line, text));
                continue;
            }
            let shared = cells
                .entry(Arc::as_ptr(&trial.what))
                .or_insert_with(|| self.collector.share(&trial.what));
            trial.what = shared.clone();
            if let Some(error) = trial
                .extras
                .as_mut()
                .and_then(|extras| extras.error.as_mut())
            {
                *error = self.collector.text(error);
            }
            self.collector.list.push(trial);
        }
        for (cell, sums) in parsed.sums {
            let key = (cell.target.clone(), cell.workload.clone());
            let known = self.sums.entry(key).or_default();
            for (operation, sum) in sums {
                histograms.join(sum_of::<H>(known, &operation), sum);
            }
        }
        for (line, error) in parsed.damaged {
            left_out.push((line, format!("{error}: line {line} is left out")));
            self.first_error.get_or_insert((line, error));
        }
        left_out.sort_by_key(|(line, _)| *line);
        for (_, text) in left_out {
            self.left_out += 1;
            if self.left_out <= NAMED {
                self.warnings.push(text);
            }
        }
        if parsed.is_cut_off {
            self.warnings.push(cut_off(path));
        }
        parsed.error.map_or(Ok(()), |error| self.end_at(error))
    }

    /// Ends the pass at a line that cannot be read to its end.
    ///
    /// # Errors
    ///
    /// No trial precedes it, or the file cannot be read.
    fn end_at(&mut self, error: StoreError) -> Result<(), StoreError> {
        let before = self.collector.list.len();
        if !matches!(error, StoreError::Syntax { .. }) || before == 0 {
            return Err(error);
        }
        self.left_out += 1;
        self.warnings.push(format!(
            "{error}: only the trials before this line are used ({before})"
        ));
        Ok(())
    }

    fn finish(mut self, first_good: &HashSet<u32>, histograms: &H) -> JournalTrials {
        let more = self.left_out.saturating_sub(NAMED);
        if more > 0 {
            let lines = if more == 1 { "line" } else { "lines" };
            self.warnings
                .push(format!("{more} more {lines} of the journal are left out"));
        }
        let mut trials = self.collector.finish();
        for trial in &mut trials {
            if !first_good.contains(&trial.line) {
                continue;
            }
            let key = (trial.what.target.clone(), trial.what.workload.clone());
            let mut merged = BTreeMap::new();
            for (operation, sum) in self.sums.remove(&key).into_iter().flatten() {
                merged.extend(histograms.to_text(&sum).map(|text| (operation, text)));
            }
            trial.set_latency(merged);
        }
        JournalTrials {
            trials,
            warnings: self.warnings,
            is_damaged: self.left_out > 0,
        }
    }
}

/// Reads the next lines into each slot.
fn fill<H>(journal: &mut Journal<'_>, slots: &mut [Slot<H>]) {
    for slot in slots {
        journal.fill(&mut slot.chunk, CHUNK);
    }
}

/// Lines of trials with values.
struct Attempts {
    /// Those that a later attempt in the same block replaces.
    replaced: HashSet<u32>,
    /// The first one of each cell.
    first_good: HashSet<u32>,
}

impl Attempts {
    fn new(trials: &[CompactTrial]) -> Attempts {
        let is_good = |trial: &CompactTrial| trial.counts() && trial.outcome == Outcome::Ok;
        let mut replaced: HashSet<u32> = (trials.iter())
            .filter(|trial| is_good(trial))
            .map(|trial| trial.line)
            .collect();
        let mut first_good = HashSet::new();
        let mut cells: HashSet<(&str, &str)> = HashSet::new();
        for trial in last_attempts(trials.iter().filter(|trial| trial.counts())) {
            let cell = &*trial.what;
            replaced.remove(&trial.line);
            if is_good(trial) && cells.insert((&cell.target, &cell.workload)) {
                first_good.insert(trial.line);
            }
        }
        Attempts {
            replaced,
            first_good,
        }
    }
}

// The cycles of a micro-benchmark of 2023.

/// The measured cycles of one trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cycles {
    /// Iterations of a cycle.
    pub iterations: u64,
    /// The mean seconds of an iteration, by cycle.
    pub seconds: Vec<f64>,
    /// Seconds from the start of the first cycle, which may warm up, to the end of each measured
    /// cycle.
    pub ends: Vec<f64>,
}

impl Cycles {
    /// Returns the cycles from the mean times of measured cycles and the spans of all. Returns
    /// `None` if there are none, or if the numbers of both do not fit.
    pub(super) fn new(iterations: u64, seconds: &[f64], spans_ns: &[[u64; 2]]) -> Option<Cycles> {
        let first = spans_ns.first()?[0];
        let measured = &spans_ns[spans_ns.len().checked_sub(seconds.len())?..];
        let ends = measured
            .iter()
            .map(|[_, end]| end.saturating_sub(first) as f64 * 1e-9)
            .collect();
        (!seconds.is_empty()).then(|| Cycles {
            iterations,
            seconds: seconds.to_vec(),
            ends,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::{RUN_FILE, TRIALS_FILE, journal_line};

    fn line(block: u32, order: u32) -> Value {
        json!({
            "schema": fsb_model::trial::SCHEMA, "id": format!("b{block}"), "phase": "measured",
            "block": block, "order": order, "attempt": 1, "target": "a", "kernel": "6.18",
            "workload": "read", "operation": "read", "params": {"name": "read"},
            "started": "2026-01-01T00:00:00Z", "outcome": "ok",
            "metrics": [{"name": "throughput", "value": 1e6, "unit": "bytes_per_second",
                         "better": "higher"}],
        })
    }

    fn in_memory(line: &Value) -> Trial {
        serde_json::from_value(line.clone()).unwrap()
    }

    /// Writes a run with these lines and reads its journal.
    fn read_lines(lines: &[Vec<u8>]) -> Result<JournalTrials, StoreError> {
        let directory = tempfile::tempdir().unwrap();
        let record = json!({
            "schema": fsb_model::run::SCHEMA, "name": "a", "cells": [],
            "plan": {"name": "quick", "targets": [], "workloads": [], "seed": 1, "size": "2G",
                     "repetition": {"blocks": {"blocks": 5}}, "dir": ".", "theta": 0.03},
        });
        fs::write(directory.path().join(RUN_FILE), record.to_string()).unwrap();
        fs::write(directory.path().join(TRIALS_FILE), lines.concat()).unwrap();
        read::<Joined>(&mut Reader::open(directory.path())?, Latencies::Added)
    }

    /// Joins texts in place of histograms.
    #[derive(Default)]
    struct Joined;

    impl Histograms for Joined {
        type Sum = String;

        fn add(&mut self, sum: &mut String, text: &str) {
            sum.push_str(text);
        }

        fn join(&mut self, sum: &mut String, other: String) {
            sum.push_str(&other);
        }

        fn to_text(&self, sum: &String) -> Option<String> {
            Some(sum.clone())
        }
    }

    fn encoded(values: &[Value]) -> Vec<Vec<u8>> {
        let lines = values.iter().map(|value| journal_line(value).unwrap());
        lines.collect()
    }

    fn orders(read: &JournalTrials) -> Vec<u32> {
        read.trials.iter().map(|trial| trial.order).collect()
    }

    #[test]
    fn a_damaged_line_is_named_and_left_out() {
        let good = encoded(&[line(1, 1), line(2, 2), line(3, 3)]);
        let mut newer = line(2, 2);
        newer["schema"] = "fsbench/trial/99".into();
        let mut unknown = line(2, 2);
        unknown["outcome"] = "wonderful".into();
        let changed = String::from_utf8(good[1].clone())
            .unwrap()
            .replace("1000000.0", "9000000.0");
        for bad in [
            b"{\"schema\": 1\n".to_vec(),
            b"\xff\n".to_vec(),
            changed.into_bytes(),
            journal_line(&newer).unwrap(),
            journal_line(&unknown).unwrap(),
        ] {
            let read = read_lines(&[good[0].clone(), bad.clone(), good[2].clone()]).unwrap();
            assert_eq!(orders(&read), [1, 3]);
            assert!(read.is_damaged && read.warnings.len() == 1, "{read:?}");
            assert!(
                read.warnings[0].ends_with(": line 2 is left out"),
                "{read:?}"
            );
            let first = read_lines(&[bad, good[2].clone()]);
            assert!(first.is_err(), "{first:?}");
        }
    }

    #[test]
    fn a_journal_of_many_chunks_loses_no_line_but_the_damaged_ones() {
        const LINES: u32 = 6000;
        let mut lines = Vec::new();
        for block in 1..=LINES {
            let mut value = line(block, block);
            value["error"] = "x".repeat(500).into();
            value["latency"] = json!({ "read": format!("{block},") });
            lines.push(journal_line(&value).unwrap());
        }
        assert!(lines.concat().len() > 4 * CHUNK);
        let damaged = [2, 3, 2999, 3000, LINES as usize - 1];
        for line in damaged {
            lines[line - 1][10] ^= 1;
        }
        let read = read_lines(&lines).unwrap();
        let expected: Vec<u32> = (1..=LINES)
            .filter(|line| !damaged.contains(&(*line as usize)))
            .collect();
        assert_eq!(orders(&read), expected);
        assert!(
            (read.trials.iter())
                .zip(&expected)
                .all(|(trial, line)| trial.line == *line)
        );
        let named: Vec<bool> = ["line 2 is", "line 3 is", "line 2999 is", "2 more lines"]
            .iter()
            .zip(&read.warnings)
            .map(|(text, warning)| warning.contains(text))
            .collect();
        assert_eq!((named, read.warnings.len()), (vec![true; 4], 4));
        let mut latencies: Vec<u32> = read.trials[0].extras().latency["read"]
            .split_terminator(',')
            .map(|number| number.parse().unwrap())
            .collect();
        latencies.sort_unstable();
        assert_eq!(latencies, expected);
        // All trials share one cell and one text.
        let first = &read.trials[0];
        for trial in &read.trials {
            assert!(Arc::ptr_eq(&first.what, &trial.what));
            let errors = [first, trial].map(|trial| trial.extras().error.clone().unwrap());
            assert!(Arc::ptr_eq(&errors[0], &errors[1]));
        }
    }

    #[test]
    fn a_line_that_is_cut_off_at_the_end_is_dropped_without_damage() {
        let mut good = encoded(&[line(1, 1), line(2, 2)]);
        good[1].truncate(40);
        let read = read_lines(&good).unwrap();
        assert_eq!((orders(&read), read.is_damaged), (vec![1], false));
        assert_eq!(read.warnings.len(), 1);
    }

    #[test]
    fn a_repeated_line_is_left_out() {
        let lines = encoded(&[line(1, 1), line(2, 2), line(1, 1), line(3, 3)]);
        let read = read_lines(&lines).unwrap();
        assert_eq!((orders(&read), read.is_damaged), (vec![1, 2, 3], true));
        assert!(read.warnings[0].contains("line 3"), "{read:?}");
    }

    #[test]
    fn trials_of_lines_are_those_in_memory() {
        let mut full = line(2, 2);
        full["samples"] = json!({"units": 1, "operations": 5, "timed_ns": [5, u64::MAX]});
        full["observed"] = json!({"idle": false, "memory_limit": {"mechanism": "cgroup v2",
            "limit_bytes": 5}});
        full["interference"] = json!([{"kind": "cpu_steal", "share": 0.1}]);
        full["error"] = "full".into();
        let values = [line(1, 1), full];
        let read = read_lines(&encoded(&values)).unwrap();
        let mut expected = CompactTrial::all(&values.each_ref().map(in_memory));
        for (read, expected) in read.trials.iter().zip(&mut expected) {
            // The text of parameters is only a way to recognise them.
            let mut cell = TrialCell::clone(&expected.what);
            cell.text_of_params.clone_from(&read.what.text_of_params);
            expected.what = cell.into();
        }
        assert_eq!(read.trials, expected);
        assert!(!read.trials[1].idle && read.trials[1].what.memory_limit.is_some());
    }

    #[test]
    fn shared_parts_are_stored_once_and_times_are_whole() {
        let values = [line(1, 1), line(2, 2), line(3, 3)];
        let mut trials = values.each_ref().map(in_memory);
        let long = vec![0, u64::from(u32::MAX), u64::from(u32::MAX) + 1];
        trials[0].samples.timed_ns.clone_from(&long);
        trials[1].samples.timed_ns = vec![7, u64::from(u32::MAX)];
        (trials[0].error, trials[1].error) = (Some("full".to_owned()), Some("full".to_owned()));
        let compact = CompactTrial::all(&trials);
        assert_eq!(compact[0].timed_ns.to_vec(), long);
        assert_eq!(compact[1].timed_ns, Times::Short([7, u32::MAX].into()));
        let errors = [0, 1].map(|place| compact[place].extras().error.clone().unwrap());
        assert!(Arc::ptr_eq(&errors[0], &errors[1]));
        assert!(Arc::ptr_eq(&compact[0].what, &compact[2].what));
        for (compact, trial) in compact.iter().zip(&trials) {
            assert_eq!(
                (compact.reason(), compact.counts()),
                (trial.reason(), trial.counts())
            );
            assert_eq!(
                compact.primary().map(Metric::from).as_ref(),
                trial.primary()
            );
        }
    }

    #[test]
    fn times_begin_with_the_first_cycle_and_cycles_with_the_first_measured_one() {
        let spans = [
            [1_000_000_000, 1_500_000_000],
            [1_500_000_000, 2_000_000_000],
            [2_000_000_000, 4_000_000_000],
        ];
        let cycles = Cycles::new(10, &[0.1, 0.2], &spans).unwrap();
        assert_eq!((cycles.iterations, cycles.ends), (10, vec![1.0, 3.0]));
        assert_eq!(Cycles::new(10, &[], &spans), None);
        assert_eq!(Cycles::new(10, &[0.1; 4], &spans), None);
        assert_eq!(Cycles::new(10, &[0.1], &[]), None);
    }

    /// Phase, supersession, outcome, target, case, block and attempt of a trial.
    type Drawn = (bool, bool, bool, bool, bool, u32, u32);

    fn drawn(order: u32, drawn: Drawn) -> Value {
        let (measured, superseded, good, target, case, block, attempt) = drawn;
        let mut value = line(block, order);
        value["id"] = format!("{order}").into();
        value["phase"] = if measured { "measured" } else { "warmup" }.into();
        value["superseded"] = superseded.into();
        value["outcome"] = if good { "ok" } else { "failed" }.into();
        value["target"] = if target { "a" } else { "b" }.into();
        value["workload"] = if case { "read" } else { "write" }.into();
        value["attempt"] = attempt.into();
        value["latency"] = json!({ "read": format!("{order},") });
        value
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// A result consists of one trial for each case, target and block: of those that are
        /// measured and not superseded, the one with the last attempt, and of equal attempts the
        /// last one made. Latencies are those of these trials, if they ended well.
        #[test]
        fn the_last_attempt_of_the_trials_that_count_is_the_result(
            draws in prop::collection::vec(
                any::<(bool, bool, bool, bool, bool)>().prop_flat_map(|(m, s, g, t, c)| {
                    (Just(m), Just(s), Just(g), Just(t), Just(c), 1..4_u32, 1..4_u32)
                }),
                1..40,
            ),
        ) {
            let values: Vec<Value> = (draws.iter().enumerate())
                .map(|(order, draw)| drawn(order as u32, *draw))
                .collect();
            let mut expected: BTreeMap<(bool, bool, u32), (u32, usize)> = BTreeMap::new();
            for (order, (measured, superseded, _, target, case, block, attempt)) in
                draws.iter().enumerate()
            {
                if *measured && !*superseded {
                    let held = expected.entry((*target, *case, *block)).or_default();
                    *held = (*held).max((*attempt, order));
                }
            }
            let mut places: Vec<usize> = expected.values().map(|(_, order)| *order).collect();
            places.sort_unstable();
            let memory: Vec<Trial> = values.iter().map(in_memory).collect();
            let compact = CompactTrial::all(&memory);
            let counted = compact.iter().filter(|trial| trial.counts());
            let found: Vec<usize> =
                last_attempts(counted).iter().map(|trial| trial.order as usize).collect();
            prop_assert_eq!(&found, &places);

            let mut latencies: BTreeSet<String> = BTreeSet::new();
            for place in places {
                if draws[place].2 {
                    latencies.insert(format!("{place},"));
                }
            }
            let directory = tempfile::tempdir().unwrap();
            let record = json!({
                "schema": fsb_model::run::SCHEMA, "name": "a", "cells": [],
                "plan": {"name": "quick", "targets": [], "workloads": [], "seed": 1, "size": "2G",
                         "repetition": {"blocks": {"blocks": 5}}, "dir": ".", "theta": 0.03},
            });
            fs::write(directory.path().join(RUN_FILE), record.to_string()).unwrap();
            fs::write(directory.path().join(TRIALS_FILE), encoded(&values).concat()).unwrap();
            let mut reader = Reader::open(directory.path()).unwrap();
            let stored = read::<Joined>(&mut reader, Latencies::Added).unwrap();
            let mut merged = BTreeSet::new();
            for trial in &stored.trials {
                for text in trial.extras().latency.values() {
                    let parts = text.split_inclusive(',').map(str::to_owned);
                    merged.extend(parts);
                }
            }
            prop_assert_eq!(merged, latencies);
        }
    }
}

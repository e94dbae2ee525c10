//! Trials with the fields that reports show. Fields that many trials share are stored once, so that
//! hundreds of thousands fit in memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use fsb_model::observed::BackgroundWork;
use fsb_model::timeline::Timeline;
use fsb_model::traced::Traced;
use fsb_model::trial::Phase;
use fsb_model::workload::{Durability, Params};
use fsb_model::{Better, Interference, Metric, Outcome, Trial, Unit};
use jiff::Timestamp;
use serde::Deserialize;

use crate::summary::Cycles;

/// A trial without the fields that no report shows. The others are those of [`Trial`].
#[derive(Debug, Clone, PartialEq)]
pub struct ReportTrial {
    /// The case, the target and the metrics, shared by all trials that have them in common.
    pub what: Arc<ShownCell>,
    /// Whether it counts.
    pub phase: Phase,
    /// The block, from 1.
    pub block: u32,
    /// The place in run order.
    pub order: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The outcome of the trial.
    pub outcome: Outcome,
    /// Whether it was retried.
    pub superseded: bool,
    /// Whether the target was idle before the measurement, as far as the record says.
    pub at_rest: bool,
    /// The slice of the medium that the target had.
    pub slice: Option<u32>,
    /// Seconds since 1970 at its start. `None` if the record has no time.
    pub started: Option<f64>,
    /// The values, in the order of the metrics of [`ReportTrial::what`].
    values: Box<[f64]>,
    /// Nanoseconds of each sample.
    pub timed_ns: Times,
    /// `None` if there is nothing but values, which is the rule.
    extras: Option<Box<ShownExtras>>,
}

/// The fields of a trial that are empty in most trials.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownExtras {
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
}

/// The extras of a trial that has none.
static NO_EXTRAS: ShownExtras = ShownExtras {
    error: None,
    interference: Vec::new(),
    timelines: Vec::new(),
    latency: BTreeMap::new(),
    cycles: None,
    traced: None,
    background: None,
};

/// The parts of trials that many of them share: the case, the target and the metrics.
#[derive(Debug, PartialEq)]
pub struct ShownCell {
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
}

/// Returns whether an operation with these parameters writes, or makes data durable.
pub fn writes(operation: &str, params: &Params) -> bool {
    let only_reads = (operation.ends_with("read") || operation.ends_with("readv"))
        || ["stat", "scan", "readdir"].contains(&operation);
    !only_reads || is_durable(params)
}

pub(super) fn is_durable(params: &Params) -> bool {
    let durability = params.get("durability").and_then(serde_json::Value::as_str);
    durability.is_some_and(|found| {
        [Durability::End, Durability::Each]
            .iter()
            .any(|asked| asked.name() == found)
    })
}

impl ShownCell {
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
pub struct ShownMetric<'a> {
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
#[derive(Debug, PartialEq)]
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

/// The fields of a trial that reports show, borrowed from a line of the journal or from a
/// [`Trial`].
#[derive(Debug, Deserialize)]
pub struct TrialFields<'a> {
    #[serde(borrow)]
    pub schema: Cow<'a, str>,
    pub phase: Phase,
    pub block: u32,
    pub order: u32,
    pub attempt: u32,
    #[serde(borrow)]
    pub target: Cow<'a, str>,
    #[serde(borrow)]
    pub kernel: Cow<'a, str>,
    #[serde(borrow)]
    pub workload: Cow<'a, str>,
    #[serde(borrow)]
    pub operation: Cow<'a, str>,
    pub params: Cow<'a, Params>,
    #[serde(borrow)]
    pub started: Cow<'a, str>,
    pub outcome: Outcome,
    #[serde(default)]
    pub error: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub metrics: Vec<MetricFields<'a>>,
    #[serde(default, alias = "disturbed")]
    pub interference: Cow<'a, [Interference]>,
    #[serde(default)]
    pub superseded: bool,
    #[serde(default, rename = "part")]
    pub slice: Option<u32>,
    #[serde(default)]
    #[serde(rename = "stretches")]
    pub samples: SampleFields<'a>,
    #[serde(default)]
    pub timelines: Cow<'a, [Timeline]>,
    #[serde(default, borrow)]
    pub latency: BTreeMap<Text<'a>, Text<'a>>,
    #[serde(default)]
    pub observed: ObservedFields<'a>,
}

/// The part of the observations that reports show.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ObservedFields<'a> {
    /// Whether the target was idle each time the clock started.
    #[serde(default, alias = "settled")]
    idle: Option<bool>,
    #[serde(default)]
    seconds_per_iteration: Cow<'a, [f64]>,
    #[serde(default)]
    cycle_spans_ns: Cow<'a, [[u64; 2]]>,
    #[serde(default)]
    traced: Option<Cow<'a, Traced>>,
    #[serde(default)]
    background: Option<BackgroundWork>,
}

/// The fields of a [`Metric`].
#[derive(Debug, Deserialize)]
pub struct MetricFields<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    pub value: f64,
    pub unit: Unit,
    pub better: Better,
}

/// The part of the samples that says how long each one took.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SampleFields<'a> {
    timed_ns: Cow<'a, [u64]>,
}

/// A string that is borrowed unless it has escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl TrialFields<'_> {
    /// Returns whether the analysis may use its values.
    pub fn has_values(&self) -> bool {
        self.phase == Phase::Measured && !self.superseded && self.outcome == Outcome::Ok
    }
}

impl<'a> From<&'a Trial> for TrialFields<'a> {
    fn from(trial: &'a Trial) -> TrialFields<'a> {
        let text = |text: &'a String| Cow::Borrowed(text.as_str());
        TrialFields {
            schema: text(&trial.schema),
            phase: trial.phase,
            block: trial.block,
            order: trial.order,
            attempt: trial.attempt,
            target: text(&trial.target),
            kernel: text(&trial.kernel),
            workload: text(&trial.workload),
            operation: text(&trial.operation),
            params: Cow::Borrowed(&trial.params),
            started: text(&trial.started),
            outcome: trial.outcome,
            error: trial.error.as_ref().map(text),
            metrics: trial
                .metrics
                .iter()
                .map(|metric| {
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
                })
                .collect(),
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
            },
        }
    }
}

/// Collects trials one by one.
#[derive(Debug, Default)]
pub struct ShownTrials {
    list: Vec<ReportTrial>,
    hasher: RandomState,
    cells: HashMap<u64, Vec<Arc<ShownCell>>>,
    texts: HashSet<Arc<str>>,
}

impl ShownTrials {
    /// Adds the next trial.
    pub fn push(&mut self, trial: TrialFields<'_>) {
        let what = self.cell(&trial);
        let interference = trial
            .interference
            .iter()
            .map(|one| one.clone().upgraded())
            .collect();
        let error = trial.error.as_deref().map(|text| self.text(text));
        let latency = trial
            .latency
            .into_iter()
            .map(|(name, found)| (name.0.into_owned(), found.0.into_owned()));
        let timelines = trial.timelines.into_owned();
        let background = trial.observed.background.map(Box::new);
        let iterations = trial
            .params
            .get("iterations")
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(1);
        let ObservedFields {
            seconds_per_iteration,
            cycle_spans_ns,
            ..
        } = &trial.observed;
        let cycles = Cycles::new(iterations, seconds_per_iteration, cycle_spans_ns).map(Box::new);
        let traced = trial
            .observed
            .traced
            .map(|traced| Box::new(traced.into_owned()));
        let latency = latency.collect();
        let extras = ShownExtras {
            error,
            interference,
            timelines,
            latency,
            cycles,
            traced,
            background,
        };
        self.list.push(ReportTrial {
            what,
            phase: trial.phase,
            block: trial.block,
            order: trial.order,
            attempt: trial.attempt,
            outcome: trial.outcome,
            superseded: trial.superseded,
            at_rest: trial.observed.idle != Some(false),
            slice: trial.slice,
            started: seconds(&trial.started),
            values: trial.metrics.iter().map(|metric| metric.value).collect(),
            timed_ns: Times::from_ns(&trial.samples.timed_ns),
            extras: (extras != NO_EXTRAS).then(|| extras.into()),
        });
    }

    /// Returns the number of trials.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the trials in the order in which they were added.
    pub fn finish(mut self) -> Vec<ReportTrial> {
        self.list.shrink_to_fit();
        self.list
    }

    fn cell(&mut self, trial: &TrialFields<'_>) -> Arc<ShownCell> {
        let TrialFields {
            target,
            kernel,
            workload,
            operation,
            params,
            metrics,
            ..
        } = trial;
        let known = self
            .cells
            .entry(self.hasher.hash_one((target, kernel, workload, operation)))
            .or_default();
        if let Some(cell) = known.iter().find(|cell| {
            [&cell.target, &cell.kernel, &cell.workload, &cell.operation]
                == [target, kernel, workload, operation]
                && cell.params == **params
                && cell.metrics.iter().eq(metrics)
        }) {
            return cell.clone();
        }
        let cell = Arc::new(ShownCell {
            target: target.to_string(),
            kernel: kernel.to_string(),
            workload: workload.to_string(),
            operation: operation.to_string(),
            params: params.clone().into_owned(),
            metrics: metrics.iter().map(MetricKind::from).collect(),
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
pub(super) fn seconds(text: &str) -> Option<f64> {
    text.parse::<Timestamp>()
        .ok()
        .map(|stamp| stamp.as_nanosecond() as f64 * 1e-9)
}

impl ReportTrial {
    /// Converts trials that are in memory already.
    pub fn all(trials: &[Trial]) -> Vec<ReportTrial> {
        let mut shown = ShownTrials::default();
        trials.iter().for_each(|trial| shown.push(trial.into()));
        shown.finish()
    }

    /// Returns the fields that are empty in most trials.
    pub fn extras(&self) -> &ShownExtras {
        self.extras.as_deref().unwrap_or(&NO_EXTRAS)
    }

    /// Replaces its histograms.
    pub fn set_latency(&mut self, latency: BTreeMap<String, String>) {
        let extras = ShownExtras {
            latency,
            ..self.extras().clone()
        };
        self.extras = (extras != NO_EXTRAS).then(|| extras.into());
    }

    /// Returns its values in the order in which the trial records them.
    pub fn metrics(&self) -> impl Iterator<Item = ShownMetric<'_>> {
        self.what
            .metrics
            .iter()
            .zip(&self.values)
            .map(|(kind, value)| ShownMetric {
                kind,
                value: *value,
            })
    }

    /// As [`Trial::primary`].
    pub fn primary(&self) -> Option<ShownMetric<'_>> {
        self.metrics()
            .next()
            .filter(|_| self.outcome == Outcome::Ok)
    }

    /// As [`Trial::counts`].
    pub fn counts(&self) -> bool {
        self.phase == Phase::Measured && !self.superseded
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

impl From<ShownMetric<'_>> for Metric {
    fn from(metric: ShownMetric<'_>) -> Metric {
        let MetricKind { name, unit, better } = metric.kind;
        Metric {
            name: name.clone(),
            value: metric.value,
            unit: *unit,
            better: *better,
        }
    }
}

/// Returns one trial per block in run order: the last attempt if a trial was retried.
pub(super) fn last_attempts<'a>(trials: &[&'a ReportTrial]) -> Vec<&'a ReportTrial> {
    let mut by_block: BTreeMap<u32, &ReportTrial> = BTreeMap::new();
    for trial in trials {
        if by_block
            .get(&trial.block)
            .is_none_or(|held| (trial.attempt, trial.order) >= (held.attempt, held.order))
        {
            by_block.insert(trial.block, trial);
        }
    }
    let mut trials: Vec<&ReportTrial> = by_block.into_values().collect();
    trials.sort_by_key(|trial| trial.order);
    trials
}

/// The reason why a trial has no value.
#[derive(Debug)]
pub(super) struct NoValue {
    /// The outcome of the trial. A trial that ended well and has no usable value is invalid.
    pub(super) outcome: Outcome,
    /// The cause; `None` if it is unknown.
    pub(super) cause: Option<String>,
}

impl NoValue {
    /// Returns the outcome and the cause as text: `failed: No space left on device`.
    pub(super) fn to_text(&self) -> String {
        self.outcome.reason(self.cause.as_deref())
    }
}

/// Returns the value of a trial, or as an error the reason why it has none.
pub(super) fn value(trial: &ReportTrial, primary: &Metric) -> Result<f64, NoValue> {
    let invalid = |cause| NoValue {
        outcome: Outcome::Invalid,
        cause: Some(cause),
    };
    if trial.outcome != Outcome::Ok {
        let cause = trial.extras().error.as_deref().map(str::to_owned);
        return Err(NoValue {
            outcome: trial.outcome,
            cause,
        });
    }
    match trial.metric(&primary.name) {
        Some(value) if value.is_finite() && value > 0.0 => Ok(value),
        Some(value) => Err(invalid(format!("{value} is not a measurement"))),
        None => Err(invalid(format!("it has no {}", primary.name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn shared_strings_are_stored_once_and_times_are_whole() {
        let (_, mut trials) = sample::run(&["ext4", "xfs"], 5);
        let long = vec![0, u64::from(u32::MAX), u64::from(u32::MAX) + 1];
        trials[0].samples.timed_ns = long.clone();
        trials[1].samples.timed_ns = vec![7, u64::from(u32::MAX)];
        (trials[0].error, trials[1].error) = (Some("full".to_owned()), Some("full".to_owned()));
        let shown = ReportTrial::all(&trials);
        assert_eq!(shown[0].timed_ns.to_vec(), long);
        assert_eq!(shown[1].timed_ns, Times::Short([7, u32::MAX].into()));
        let same = |one: &Option<Arc<str>>, other: &Option<Arc<str>>| {
            Arc::ptr_eq(one.as_ref().unwrap(), other.as_ref().unwrap())
        };
        assert!(same(&shown[0].extras().error, &shown[1].extras().error));
        let other = (1..trials.len()).find(|at| {
            (
                &trials[*at].target,
                &trials[*at].workload,
                &trials[*at].params,
            ) == (&trials[0].target, &trials[0].workload, &trials[0].params)
        });
        assert!(Arc::ptr_eq(&shown[0].what, &shown[other.unwrap()].what));
        for (shown, trial) in shown.iter().zip(&trials) {
            assert_eq!(
                (&shown.what.target, &shown.what.params),
                (&trial.target, &trial.params)
            );
            assert_eq!(
                (shown.reason(), shown.counts()),
                (trial.reason(), trial.counts())
            );
            assert_eq!(shown.primary().map(Metric::from).as_ref(), trial.primary());
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
}

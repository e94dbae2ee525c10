//! A trial: one execution of one cell in one block, and a line of `trials.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::interference::Interference;
use crate::metric::Metric;
use crate::observed::Observed;
use crate::timeline::Timeline;
use crate::workload::Params;

/// The schema that this version writes.
pub const SCHEMA: &str = "fsbench/trial/3";

/// Whether a trial counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Made to warm up and to fix the amounts; never analysed.
    Warmup,
    /// Analysed.
    Measured,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has values.
    Ok,
    /// Something refused: the disk is full, the mount failed, the worker crashed.
    Failed,
    /// It ran, but a proof failed: a cold read that the device never saw.
    Invalid,
    /// It makes no sense on this target: a cold read of tmpfs. Nothing was run.
    NotApplicable,
}

impl Outcome {
    /// `ok`, or the reason why not.
    pub fn reason(self, error: Option<&str>) -> String {
        let kind = match self {
            Outcome::Ok => return "ok".to_owned(),
            Outcome::Failed => "failed",
            Outcome::Invalid => "invalid",
            Outcome::NotApplicable => "not applicable",
        };
        match error {
            Some(error) => format!("{kind}: {error}"),
            None => kind.to_owned(),
        }
    }
}

/// What one worker thread did between its first and its last timed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerSpan {
    /// Which thread, from 0.
    pub rank: u32,
    /// CLOCK_MONOTONIC at the first timed call of the first repetition.
    pub start_ns: u64,
    /// CLOCK_MONOTONIC after the last timed call of the last repetition.
    pub stop_ns: u64,
    /// Nanoseconds of its timed stretches, all repetitions together; 0 in records that do not say.
    #[serde(default)]
    pub timed_ns: u64,
    /// Operations finished, all repetitions together.
    pub operations: u64,
    /// Bytes moved, all repetitions together.
    pub bytes: u64,
}

/// One line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Always [`SCHEMA`] in what this version writes; version 1 had no parts and no stretches.
    pub schema: String,
    /// Unique in the run: `b3.xfs.read 1M, cold`, with the attempt where it is not the first.
    pub id: String,
    /// Whether it counts.
    pub phase: Phase,
    /// The block, from 1; warm-up is block 0.
    pub block: u32,
    /// The place in run order, from 0, over the whole run.
    pub order: u32,
    /// From 1; a disturbed or resumed trial is made again.
    pub attempt: u32,
    /// The name of the target.
    pub target: String,
    /// The kernel release it ran on.
    pub kernel: String,
    /// The label of the cell.
    pub workload: String,
    /// What is done to a file: write, read, create, …
    pub operation: String,
    /// The member of the registry under `name`, and all its parameters.
    pub params: Params,
    /// When it started, RFC 3339 in UTC.
    pub started: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not end well.
    #[serde(default)]
    pub error: Option<String>,
    /// The values; the first one is what targets are compared by.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// HdrHistogram V2 deflate in base64 (nanoseconds), by operation.
    #[serde(default)]
    pub latency: BTreeMap<String, String>,
    /// One entry a thread.
    #[serde(default)]
    pub workers: Vec<WorkerSpan>,
    /// What was asked of the controls, the amounts, the mount options.
    #[serde(default)]
    pub requested: Map<String, Value>,
    /// The observations besides the metrics.
    #[serde(default)]
    pub observed: Observed,
    /// The interference that affected it.
    #[serde(default, alias = "disturbed")]
    pub interference: Vec<Interference>,
    /// It was retried, or the budget ended before it did: it was disturbed, or a resume made its interrupted block anew. Never
    /// analysed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
    /// The part of the medium that the target had, counted over all segments of the run, for each makes its medium anew;
    /// absent where it had the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Each stretch of a trial in rounds; absent where it was one visit.
    #[serde(default, skip_serializing_if = "Stretches::is_empty")]
    pub stretches: Stretches,
    /// What happened when, one a repetition; absent of what was over in less than a fifth of a second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Fields of newer minor versions, kept as found.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What was seen of each stretch, round by round; the lead-in is not among them. All lists are of one length, but for
/// those that are empty because nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Stretches {
    /// Units of a stretch, the same in all.
    pub units: u32,
    /// Operations of a stretch, the same in all.
    pub operations: u64,
    /// Nanoseconds inside the clock.
    pub timed_ns: Vec<u64>,
    /// Nanoseconds of each unit, stretch after stretch, where a stretch is several units with files of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unit_ns: Vec<u64>,
    /// Bytes that the device read and wrote inside the clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_bytes: Vec<u64>,
    /// Flushes that the device served inside the clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_flushes: Vec<u64>,
    /// Bytes that the device wrote from the clock's stop until the target was synced: work that was left for later.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deferred_bytes: Vec<u64>,
}

impl Stretches {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.timed_ns.is_empty()
    }
}

/// The squared standard error of the mean logarithm of these times; `None` for fewer than two, or if one is zero.
pub fn squared_error_of_mean(times: &[u64]) -> Option<f64> {
    let n = times.len() as f64;
    if times.len() < 2 || times.contains(&0) {
        return None;
    }
    let logs = || times.iter().map(|time| (*time as f64).ln());
    let mean = logs().sum::<f64>() / n;
    Some(logs().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
}

impl Trial {
    /// The metric that targets are compared by, of a trial that ended well.
    pub fn primary(&self) -> Option<&Metric> {
        (self.outcome == Outcome::Ok).then(|| self.metrics.first()).flatten()
    }

    /// Whether analysis may use it: measured and not made again later.
    pub fn counts(&self) -> bool {
        self.phase == Phase::Measured && !self.superseded
    }

    /// `ok`, or the reason why not.
    pub fn reason(&self) -> String {
        self.outcome.reason(self.error.as_deref())
    }

    /// A metric by name.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    }
}

//! A trial: one execution of one cell in one block, and a line of `trials.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::code::{self, ErrorCode};
use crate::error::Error;
use crate::error_codes;
use crate::metric::Metric;
use crate::observed::Observed;
use crate::timeline::Timeline;
use crate::workload::Params;

/// The schema that this version writes.
pub const SCHEMA: &str = "fsbench/trial/1";

/// The text before the reason of a trial whose target was lost by an earlier trial of the block.
pub const LOST_EARLIER: &str = "the target was lost earlier in this block: ";

error_codes! {
    NOT_COLD = "trial/not-cold", code::TRIALS, "A cold trial found data in memory, or its device read too little.", "Measure a file system that fsb makes: the files of a directory may be read by others.";
    NOT_WARM = "trial/not-warm", code::TRIALS, "Data of a warm trial was not in memory.", "Use smaller files, or give the machine more memory.";
    NOT_OUT_OF_CACHE = "trial/not-out-of-cache", code::TRIALS, "Data of a trial out of cache was in memory.", "Use larger files, or a smaller memory-limit.";
    INTO_HOLES = "trial/into-holes", code::TRIALS, "A trial wrote to holes of the sparse image under its target, which takes other times than on a disk.", "Use a larger --size: more is written over beforehand.";
    SMALL_DEVICE = "trial/small-device", code::TRIALS, "A file system waited for commits that it does not need on a large disk.", "Use a larger device, or an image (@loop), which fsb makes large for such a file system.";
    NOT_DIRECT = "trial/not-direct", code::TRIALS, "Direct I/O went through the page cache, or the file system refuses it.", "Use a backend without O_DIRECT there.";
    NOT_UNCACHED = "trial/not-uncached", code::TRIALS, "Data of uncached I/O stayed in the page cache.", "Use another backend there.";
    NOT_SUSTAINED = "trial/not-sustained", code::TRIALS, "The target did not keep up with the requested rate.", "Request a lower rate.";
    CORRUPTED = "trial/corrupted", code::TRIALS, "A file does not hold what was written to it.", "Check the device and the kernel log.";
    NO_SPACE = "trial/no-space", code::TRIALS, "The target has too little space or too few inodes.", "Use a larger --size.";
    NO_FILES = "trial/no-files", code::TRIALS, "The workload has no file left to use.", "Use more files, fewer transactions or fewer threads.";
    COMMAND = "trial/command-failed", code::TRIALS, "A command failed or cannot be executed.", "Read its last output in the reason.";
    SERVICE = "trial/service-failed", code::TRIALS, "A service of a command did not start, ended by itself or did not stop.", "Run it by hand in the target's directory.";
    WORKER = "trial/worker-ended", code::TRIALS, "The process that measures was killed or stopped.", "Look for the out-of-memory killer in the kernel log.";
    SERVER = "trial/server-ended", code::TRIALS, "The FUSE server of the target ended during a trial.", "Read its last messages in the reason; run its command by hand.";
    BACKGROUND = "trial/background-failed", code::TRIALS, "The background of a case failed.", "Read its cause in the reason; run it alone with --workload.";
    OUT_OF_TIME = "trial/out-of-time", code::TRIALS, "The budget ended before the trial did.", "Use a larger --budget.";
    GUEST = "trial/guest-stopped", code::TRIALS, "The virtual machine ended, or was silent for too long.", "Read the last lines of its console in the reason.";
}

/// The reason why a trial has no values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// A sentence.
    pub text: String,
    /// The name of its [`ErrorCode`], if it has one of its own.
    pub code: Option<String>,
    /// The name of the kernel's error that caused it: `ENOSPC`.
    pub errno: Option<String>,
}

impl Reason {
    /// Returns a reason with a code.
    pub fn new(code: &'static ErrorCode, text: impl Into<String>) -> Reason {
        Reason {
            code: Some(code.name.to_owned()),
            ..text.into().into()
        }
    }

    /// Returns the text, the code and the name of the kernel's error, as a trial stores them.
    pub fn into_parts(reason: Option<Reason>) -> [Option<String>; 3] {
        reason.map_or([None, None, None], |reason| {
            [Some(reason.text), reason.code, reason.errno]
        })
    }
}

/// Converts a sentence to a reason without a code.
impl From<String> for Reason {
    fn from(text: String) -> Reason {
        Reason {
            text,
            code: None,
            errno: None,
        }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Reason {
        text.to_owned().into()
    }
}

/// Converts an error to a reason with its code.
impl From<Error> for Reason {
    fn from(error: Error) -> Reason {
        let errno = error
            .fields
            .get("errno")
            .and_then(Value::as_str)
            .map(str::to_owned);
        Reason {
            text: error.to_string(),
            code: Some(error.code).filter(|code| !code.is_empty()),
            errno,
        }
    }
}

/// Whether a trial counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A trial of the warm-up, which fixes the amounts; never analysed.
    Warmup,
    /// Analysed.
    Measured,
    /// A trial that eBPF programs observed, which slow it down: never ranked, but its times by
    /// class explain differences.
    Traced,
}

impl Phase {
    /// Returns whether analysis may use a trial of this phase: it is measured and not superseded.
    pub fn counts(self, superseded: bool) -> bool {
        self == Phase::Measured && !superseded
    }
}

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The trial has values.
    Ok,
    /// An error ended it: the disk is full, the mount failed, the worker crashed.
    Failed,
    /// The trial ran, but a validity check failed: for example, the device did not read the data of
    /// a cold read.
    Invalid,
    /// The work does not apply to this target, for example a cold read of tmpfs. Nothing was run.
    NotApplicable,
}

impl Outcome {
    /// Returns `ok`, or the outcome and its reason.
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

/// The work of one worker thread, or of one rank of an MPI job, between its first and its last
/// timed call. Times of ranks are on the clock of rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerSpan {
    /// The number of the thread or of the rank, from 0.
    pub rank: u32,
    /// CLOCK_MONOTONIC at the first timed call of the first repetition.
    pub start_ns: u64,
    /// CLOCK_MONOTONIC after the last timed call of the last repetition.
    pub stop_ns: u64,
    /// Nanoseconds of its samples, all repetitions together.
    pub timed_ns: u64,
    /// Operations finished, all repetitions together.
    pub operations: u64,
    /// Bytes moved, all repetitions together.
    pub bytes: u64,
}

impl WorkerSpan {
    /// Returns the nanoseconds from the first start to the last end of workers that finished an
    /// operation. It is 0 if none did.
    pub fn elapsed_ns(spans: &[WorkerSpan]) -> u64 {
        let (mut first, mut last) = (u64::MAX, 0);
        for span in spans {
            if span.operations > 0 {
                first = first.min(span.start_ns);
            }
            last = last.max(span.stop_ns);
        }
        last.saturating_sub(first)
    }
}

/// One line of `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Always [`SCHEMA`] in records of this version.
    pub schema: String,
    /// Unique in the run: `b3.xfs.read 1M, cold`, with the attempt where it is not the first.
    pub id: String,
    /// The phase of the run. Only measured trials are results.
    pub phase: Phase,
    /// The block, from 1; warm-up is block 0.
    pub block: u32,
    /// The place in run order, from 0, over the whole run.
    pub order: u32,
    /// The attempt, from 1. A trial is retried after interference, or if a resume repeats its
    /// block.
    pub attempt: u32,
    /// The name of the target.
    pub target: String,
    /// The kernel release it ran on.
    pub kernel: String,
    /// The label of the cell.
    pub workload: String,
    /// The operation on a file: write, read, create, …
    pub operation: String,
    /// The member of the registry under `name`, and all its parameters.
    pub params: Params,
    /// When it started, RFC 3339 in UTC.
    pub started: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason why it did not end well.
    #[serde(default)]
    pub error: Option<String>,
    /// The stable name of that reason, such as `trial/not-cold`: docs/errors.md. Absent if it has
    /// none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The name of the kernel's error that caused it, such as `ENOSPC`. Absent if none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    /// The values. Targets are compared by the first one.
    #[serde(default)]
    pub metrics: Vec<Metric>,
    /// HdrHistogram V2 deflate in base64 (nanoseconds), by operation.
    #[serde(default)]
    pub latency: BTreeMap<String, String>,
    /// One entry per thread.
    #[serde(default)]
    pub workers: Vec<WorkerSpan>,
    /// The requested controls, amounts and mount options.
    #[serde(default)]
    pub requested: Map<String, Value>,
    /// The observations besides the metrics.
    #[serde(default)]
    pub observed: Observed,
    /// The interference that affected it.
    #[serde(default)]
    pub interference: Vec<Interference>,
    /// Whether it is never analysed: it was retried because of interference, a resume repeated its
    /// interrupted block, or the budget ended before it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
    /// The slice of the medium that the target had, counted over all segments of the run, because
    /// each segment makes its medium anew. Absent if the target had the whole medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<u32>,
    /// The samples of a trial in rounds; absent for a sequential trial.
    #[serde(default, skip_serializing_if = "Samples::is_empty")]
    pub samples: Samples,
    /// One timeline per repetition; absent for a repetition of less than a fifth of a second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// Fields of newer minor versions, kept as found.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A trial as a line of `trials.jsonl`, for its JSON Schema.
#[cfg(feature = "schema")]
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct JournalLine {
    /// The trial.
    #[serde(flatten)]
    pub trial: Trial,
    /// CRC-32 of the line without this field, as eight hexadecimal digits. The field is the last
    /// one: the line ends with `,"crc32":"…"}`, and the checksum is that of the text before it and
    /// `}`.
    pub crc32: String,
}

/// The observations of each sample, round by round, without the lead-in. All lists have the same
/// length, except those that are empty because nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Samples {
    /// Units of a sample, the same in all.
    pub units: u32,
    /// Operations of a sample, the same in all.
    pub operations: u64,
    /// Nanoseconds inside the clock.
    pub timed_ns: Vec<u64>,
    /// Nanoseconds of each unit, sample after sample, if a sample has several units with files of
    /// their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unit_ns: Vec<u64>,
    /// Bytes that the device read and wrote inside the clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_bytes: Vec<u64>,
    /// Flushes that the device served inside the clock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_flushes: Vec<u64>,
    /// Bytes that the device wrote from the end of the sample until the target was synced: deferred
    /// work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deferred_bytes: Vec<u64>,
}

impl Samples {
    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.timed_ns.is_empty()
    }
}

/// Returns the squared standard error of the mean logarithm of these times, or `None` for fewer
/// than two, or if one is zero.
pub fn squared_error_of_mean(times: &[u64]) -> Option<f64> {
    let n = times.len() as f64;
    if times.len() < 2 || times.contains(&0) {
        return None;
    }
    let logs: Vec<f64> = times.iter().map(|time| (*time as f64).ln()).collect();
    let mean = logs.iter().sum::<f64>() / n;
    Some(logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
}

impl Trial {
    /// Returns the metric that targets are compared by, or `None` if the trial did not end well.
    pub fn primary(&self) -> Option<&Metric> {
        (self.outcome == Outcome::Ok)
            .then(|| self.metrics.first())
            .flatten()
    }

    /// Returns whether analysis may use the trial: it is measured and not superseded.
    pub fn counts(&self) -> bool {
        self.phase.counts(self.superseded)
    }

    /// Returns `ok`, or the outcome and its reason.
    pub fn reason(&self) -> String {
        self.outcome.reason(self.error.as_deref())
    }

    /// Returns the value of a metric by its name.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics
            .iter()
            .find(|metric| metric.name == name)
            .map(|metric| metric.value)
    }
}

/// Interference with a trial from outside: something other than the run used what the trial needed.
///
/// It is an object with the tag `kind` in `trials.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Interference {
    /// The hypervisor gave the CPU time of this machine to others.
    CpuSteal {
        /// The share of the available CPU time: 0.03 for 3 %.
        share: f64,
    },
    /// Other processes of this machine used its CPUs.
    OtherProcesses {
        /// The share of the available CPU time: 0.03 for 3 %.
        share: f64,
    },
    /// Other programs used the disk of the target.
    OtherDiskIo {
        /// Bytes per second that the disk moved for others.
        bytes_per_second: f64,
    },
    /// The processors were throttled because of their temperature.
    ThermalThrottling {
        /// The number of events.
        events: f64,
    },
    /// Processes of the run were stopped by a signal for a while.
    Stopped {
        /// The number of processes.
        processes: f64,
    },
    /// A kind of a newer minor version, kept as found.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl Interference {
    /// Returns the size of the interference in the unit of its kind, for comparison with others of
    /// the same kind.
    pub fn size(&self) -> f64 {
        match self {
            Interference::CpuSteal { share } | Interference::OtherProcesses { share } => *share,
            Interference::OtherDiskIo { bytes_per_second } => *bytes_per_second,
            Interference::ThermalThrottling { events } => *events,
            Interference::Stopped { processes } => *processes,
            Interference::Unknown(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_without_an_operation_do_not_start_the_clock() {
        let span = |start_ns, stop_ns, operations| WorkerSpan {
            rank: 0,
            start_ns,
            stop_ns,
            timed_ns: 0,
            operations,
            bytes: 0,
        };
        let spans = [span(0, 0, 0), span(10, 30, 1), span(12, 45, 2)];
        assert_eq!(WorkerSpan::elapsed_ns(&spans), 35);
        assert_eq!(WorkerSpan::elapsed_ns(&spans[..1]), 0);
    }

    #[test]
    fn each_form_survives_a_round_trip() {
        let (interference, text) = (
            Interference::CpuSteal { share: 0.5 },
            r#"{"kind":"cpu_steal","share":0.5}"#,
        );
        assert_eq!(serde_json::to_string(&interference).expect("JSON"), text);
        assert_eq!(
            serde_json::from_str::<Interference>(text).expect("interference"),
            interference
        );
        let newer = r#"{"kind":"full_moon","phase":1}"#;
        let found: Interference = serde_json::from_str(newer).expect("interference");
        assert!(matches!(found, Interference::Unknown(_)), "{found:?}");
        assert_eq!(serde_json::to_string(&found).expect("JSON"), newer);
    }
}

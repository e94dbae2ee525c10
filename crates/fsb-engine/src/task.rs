//! What a worker is asked and what it answers: the data of the protocol, all of it plain.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsb_model::WorkloadSpec;
use fsb_model::timeline::Timeline;
use fsb_model::trial::WorkerSpan;
use serde::{Deserialize, Serialize};

use crate::EngineError;
use crate::backend::Direct;
use crate::progress::Live;

/// What sizes and thread counts may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizing {
    /// Bytes of the image, or of what may be used of a directory: `size` in expressions.
    pub size: u64,
    /// Hardware threads: what `threads = 0` means.
    pub cpus: u32,
}

/// A trial's three steps, each in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Make the files that the work needs.
    Prepare,
    /// Do the work against the clock.
    Measure,
    /// Remove every file.
    Cleanup,
}

/// Which clock times the calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSpec {
    Monotonic,
    /// Made-up, plausible times that depend on the seed alone, for runs that must repeat to the last digit.
    Fake {
        /// One a trial.
        seed: u64,
        /// Factor on every time: 1.1 is a tenth slower.
        slowdown: f64,
        /// Standard deviation of trials, relative: 0.05 for 5 %.
        noise: f64,
        /// Which stretch of the trial: the calls of each take times of their own.
        #[serde(default)]
        stretch: u64,
    },
    /// CLOCK_MONOTONIC, on which every operation takes longer by a share of its time: for calibration, in builds made
    /// for nothing else.
    #[cfg(any(test, feature = "injected-slowdown"))]
    Slowed {
        /// 0.05 for 5 %.
        share: f64,
    },
}

/// One step of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub step: Step,
    pub workload: WorkloadSpec,
    /// What its sizes refer to.
    pub sizing: Sizing,
    /// An existing directory in which the worker may do as it likes.
    pub root: PathBuf,
    /// Decides every byte of data and every order of visits.
    pub seed: u64,
    /// Operations in this repetition.
    pub operations: u64,
    /// Which repetition, from 0: random orders differ between repetitions.
    pub repetition: u32,
    /// Stop after the operation at which this number of seconds has passed; only divisible jobs heed it.
    pub until_seconds: Option<f64>,
    /// Drop the files' data from the page cache before the clock starts (cold without a remount).
    pub evict: bool,
    /// Use this backend instead of the workload's.
    pub backend: Option<String>,
    pub clock: ClockSpec,
    /// The units to prepare or to measure, where each has files of its own; the workload is then that of one unit.
    /// Cleanup removes all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<Units>,
}

/// Units that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Units {
    pub first: u32,
    pub count: u32,
}

impl Task {
    /// A step of a first repetition on the kernel's clock, as the workload itself has it: all of it, with nothing
    /// evicted.
    pub fn plain(step: Step, workload: WorkloadSpec, sizing: Sizing, root: &Path, seed: u64, operations: u64) -> Task {
        Task {
            step,
            workload,
            sizing,
            root: root.to_owned(),
            seed,
            operations,
            repetition: 0,
            until_seconds: None,
            evict: false,
            backend: None,
            clock: ClockSpec::Monotonic,
            units: None,
        }
    }
}

/// A measure step is ready to start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Bytes of the examined files that the page cache holds; absent where data is not what the job reads, or where the
    /// kernel does not say.
    pub resident_bytes: Option<u64>,
    /// Bytes of the examined files: all of them up to 16, else a sample of 16.
    pub file_bytes: u64,
    /// What was found out about direct I/O; absent where data does not go past the page cache.
    #[serde(default)]
    pub direct: Option<Direct>,
}

/// An amount and the time that it took: a rate that repetitions can be added up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Bytes, or operations, as the metric says.
    pub amount: u64,
    /// Nanoseconds.
    pub timed_ns: u64,
}

/// What a measure step found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// One a thread.
    pub workers: Vec<WorkerSpan>,
    /// From the first start to the last stop; of the 2023 micro-benchmarks the sum of the timed stretches.
    pub timed_ns: u64,
    /// Operations finished.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// What all workers had done when the first one was through; only where there are several.
    #[serde(default)]
    pub stonewall: Option<Stonewall>,
    /// Latency histograms by operation, HdrHistogram V2 deflate in base64, nanoseconds.
    pub latency: BTreeMap<String, String>,
    /// CPU seconds of this process in user mode between go and stop.
    pub user_seconds: f64,
    /// CPU seconds of this process in the kernel between go and stop.
    pub system_seconds: f64,
    /// As [`Ready::resident_bytes`], after the work.
    pub resident_after: Option<u64>,
    /// As [`Ready::file_bytes`], after the work: new files have grown.
    #[serde(default)]
    pub file_bytes_after: u64,
    /// What one reading of the clock costs.
    pub clock_cost_ns: f64,
    /// Seconds an iteration, one a cycle; only of the 2023 micro-benchmarks.
    pub samples: Vec<f64>,
    /// Rates beside the one that targets are compared by, by the name of their metric.
    #[serde(default)]
    pub rates: BTreeMap<String, Rate>,
    /// What was done, counted, where that is more than operations.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// What happened when; absent where it was over in less than a fifth of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Numbers that a command printed, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub printed: BTreeMap<String, f64>,
    /// The end of what a command printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Bytes of memory that the largest process of a command had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
}

/// What all workers did while all of them worked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stonewall {
    /// Bytes moved by all of them.
    pub bytes: u64,
    /// From the first start until the first one was through, in nanoseconds.
    pub timed_ns: u64,
}

/// Where a measure step waits for its start.
pub trait Gate {
    /// Everything is ready; returns when the clock may start. An error ends the step.
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError>;

    /// How far the step has come, now and then.
    fn tell(&mut self, _live: Live) {}
}

/// How a step ended well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepReport {
    /// Prepared, or cleaned up.
    Done,
    /// Measured: once, or unit by unit where each has files of its own.
    Measured(Vec<Measurement>),
}

impl StepReport {
    /// What a job that was measured at once found; absent where nothing was measured, or unit by unit.
    pub fn whole(self) -> Option<Measurement> {
        match self {
            StepReport::Measured(measured) => <[Measurement; 1]>::try_from(measured).ok().map(|[measured]| measured),
            StepReport::Done => None,
        }
    }
}

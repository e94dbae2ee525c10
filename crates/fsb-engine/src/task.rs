//! The protocol between the agent and a worker: requests and answers as plain data, the context of
//! a task in the worker, and its progress.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fsb_model::WorkloadSpec;
use fsb_model::timeline::Timeline;
use fsb_model::trial::WorkerSpan;
use serde::{Deserialize, Serialize};

use crate::backend::{self, Backend, Direct};
use crate::data::{DataSource, Mixture};
use crate::error::EngineError;
use crate::hash::mix;

/// The quantities that sizes and thread counts in expressions refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizing {
    /// Bytes of the image, or of the usable space of a directory: `size` in expressions.
    pub size: u64,
    /// Hardware threads: the meaning of `threads = 0`.
    pub cpus: u32,
}

/// A trial's three steps, each in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Creates the files that the work needs.
    Prepare,
    /// Does the work against the clock.
    Measure,
    /// Removes every file.
    Cleanup,
}

/// The clock that times the calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSpec {
    Monotonic,
    /// Computed, plausible times that depend on the seed alone, for runs that must repeat to the
    /// last digit.
    Fake {
        /// The seed of the trial.
        seed: u64,
        /// A factor on every time: 1.1 is a tenth slower.
        slowdown: f64,
        /// The relative standard deviation of trials: 0.05 for 5 %.
        noise: f64,
        /// The number of the sample within the trial. The calls of each sample take different
        /// times.
        #[serde(default)]
        sample: u64,
    },
    /// CLOCK_MONOTONIC, with every operation prolonged by a share of its time. For calibration, in
    /// builds made only for that.
    #[cfg(any(test, feature = "injected-slowdown"))]
    Slowed {
        /// The share: 0.05 for 5 %.
        share: f64,
    },
}

/// One step of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub step: Step,
    pub workload: WorkloadSpec,
    /// The quantities that its sizes refer to.
    pub sizing: Sizing,
    /// An existing directory whose content the worker may change freely.
    pub root: PathBuf,
    /// The same directory as further clients of a network file system see it. Thread n uses the
    /// client n modulo their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_roots: Vec<PathBuf>,
    /// Decides every byte of data and every order of visits.
    pub seed: u64,
    /// Operations in this repetition.
    pub operations: u64,
    /// The index of the repetition, from 0. Random orders differ between repetitions.
    pub repetition: u32,
    /// Stop after the operation at which this number of seconds has passed. Only divisible jobs
    /// heed it, and micro-benchmarks, which stop after a cycle.
    pub until_seconds: Option<f64>,
    /// Discard the records of this number of seconds, after which the clock starts again. Only
    /// divisible jobs heed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_seconds: Option<f64>,
    /// Drop the files' data from the page cache before the clock starts (cold without a remount).
    pub evict: bool,
    /// Use this backend instead of the workload's.
    pub backend: Option<String>,
    pub clock: ClockSpec,
    /// The units to prepare or to measure, where each has files of its own. The workload is then
    /// that of one unit. Cleanup removes all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<Units>,
    /// Whether this is the work of a background, whose files are in a directory of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The processors that the threads of a measurement may use. All if it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<u32>,
}

/// A range of consecutive units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Units {
    pub first: u32,
    pub count: u32,
}

impl Task {
    /// Returns a step of a first repetition on the kernel's clock, without further clients, a time
    /// limit, eviction, another backend or units.
    pub fn plain(
        step: Step,
        workload: WorkloadSpec,
        sizing: Sizing,
        root: &Path,
        seed: u64,
        operations: u64,
    ) -> Task {
        Task {
            step,
            workload,
            sizing,
            root: root.to_owned(),
            client_roots: Vec::new(),
            seed,
            operations,
            repetition: 0,
            until_seconds: None,
            ramp_seconds: None,
            evict: false,
            backend: None,
            clock: ClockSpec::Monotonic,
            units: None,
            background: false,
            processors: Vec::new(),
        }
    }
}

/// The message of a measure step that is ready to start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Bytes of the examined files that the page cache holds. Absent if the job does not read data,
    /// or if the kernel does not report it.
    pub resident_bytes: Option<u64>,
    /// Bytes of the examined files: all of them up to 16, else a sample of 16.
    pub file_bytes: u64,
    /// The properties of direct I/O that the backend found. Absent if the data uses the page cache.
    #[serde(default)]
    pub direct: Option<Direct>,
}

/// An amount and the time that it took. Repetitions add up to one rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Bytes or operations, depending on the metric.
    pub amount: u64,
    /// Nanoseconds.
    pub timed_ns: u64,
}

/// The name of the calls with RWF_NOWAIT that were refused (EAGAIN) or moved a part, among
/// [`Measurement::counts`].
pub const WOULD_WAIT: &str = "calls_that_would_wait";

/// The result of a measure step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// One entry per thread.
    pub workers: Vec<WorkerSpan>,
    /// From the first start to the last stop. For the 2023 micro-benchmarks the sum of the samples.
    pub timed_ns: u64,
    /// Operations finished.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// The work of all workers at the moment when the first one finished. Absent for a single
    /// worker.
    #[serde(default)]
    pub stonewall: Option<Stonewall>,
    /// Latency histograms by operation: nanoseconds, HdrHistogram V2 deflate in base64.
    pub latency: BTreeMap<String, String>,
    /// CPU seconds of this process in user mode between go and stop.
    pub user_seconds: f64,
    /// CPU seconds of this process in the kernel between go and stop.
    pub system_seconds: f64,
    /// Like [`Ready::resident_bytes`], after the work.
    pub resident_after: Option<u64>,
    /// Like [`Ready::file_bytes`], after the work, because new files have grown.
    #[serde(default)]
    pub file_bytes_after: u64,
    /// The cost of one clock reading.
    pub clock_cost_ns: f64,
    /// Seconds per iteration, one value per cycle. Only for the 2023 micro-benchmarks.
    pub samples: Vec<f64>,
    /// Start and end of each cycle of those, warm-up cycles first, in nanoseconds of the clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycle_spans_ns: Vec<[u64; 2]>,
    /// Rates besides the one that targets are compared by, by the name of their metric.
    #[serde(default)]
    pub rates: BTreeMap<String, Rate>,
    /// Further counts by name, where operations are not the only count.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// The timeline of the measurement. Absent if it was shorter than a fifth of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Numbers that a command printed, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub printed: BTreeMap<String, f64>,
    /// The last part of a command's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Bytes of memory of the largest process of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// Seconds that the shell of a command took that did nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_start: Option<f64>,
}

impl Measurement {
    /// Adds the work of another repetition: times, amounts, rates, counts and the spans of workers.
    /// Histograms, timelines and the output of a command are not added.
    pub fn add(&mut self, other: Measurement) {
        self.timed_ns += other.timed_ns;
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.user_seconds += other.user_seconds;
        self.system_seconds += other.system_seconds;
        self.samples.extend(other.samples);
        self.cycle_spans_ns.extend(other.cycle_spans_ns);
        self.peak_memory = self.peak_memory.max(other.peak_memory);
        self.shell_start = match (self.shell_start, other.shell_start) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if let Some(wall) = other.stonewall {
            let sum = self.stonewall.get_or_insert_default();
            sum.bytes += wall.bytes;
            sum.timed_ns += wall.timed_ns;
        }
        for (name, rate) in other.rates {
            let sum = self.rates.entry(name).or_default();
            sum.amount += rate.amount;
            sum.timed_ns += rate.timed_ns;
        }
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for span in other.workers {
            match self
                .workers
                .iter_mut()
                .find(|known| known.rank == span.rank)
            {
                Some(known) => {
                    known.stop_ns = span.stop_ns;
                    known.timed_ns += span.timed_ns;
                    known.operations += span.operations;
                    known.bytes += span.bytes;
                }
                None => self.workers.push(span),
            }
        }
    }
}

/// The work of all workers while all of them were active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stonewall {
    /// Bytes moved by all of them.
    pub bytes: u64,
    /// Nanoseconds from the first start until the first worker finished.
    pub timed_ns: u64,
}

/// Stops a background. The caller runs it on another thread than the work.
pub type Stop = Box<dyn FnOnce() + Send>;

/// The point where a measure step waits for its start signal.
pub trait Gate {
    /// Reports that everything is ready. Returns when the clock may start. An error ends the step.
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError>;

    /// Receives a progress report of the step from time to time.
    fn tell(&mut self, _live: Live) {}

    /// Returns the flag that is set when the work shall end early, if it can be set.
    fn interrupted(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// Reports that the work of a background starts. `stop` stops the work.
    fn started(&mut self, _stop: Stop) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The result of a successful step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepReport {
    /// The step prepared or cleaned up.
    Done,
    /// The measurements: one, or one per unit where each unit has files of its own.
    Measured(Vec<Measurement>),
}

impl StepReport {
    /// Returns the measurement of a job that was measured as one. Returns `None` if nothing was
    /// measured, or if the units were measured one by one.
    pub fn whole(self) -> Option<Measurement> {
        match self {
            StepReport::Measured(measured) => <[Measurement; 1]>::try_from(measured)
                .ok()
                .map(|[measured]| measured),
            StepReport::Done => None,
        }
    }
}

/// The phases of a preparation. A preparation of many units syncs all of them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preparing {
    All,
    /// Creates the files without waiting for the device.
    Files,
    /// Reads the files once, after they are on the device, so that access times no longer change.
    Settling,
}

/// A [`Task`] without the workload: everything that every job needs.
#[derive(Clone)]
pub struct Context {
    /// An existing directory whose content the worker may change freely.
    pub root: PathBuf,
    /// The same directory as further clients see it.
    pub(crate) client_roots: Vec<PathBuf>,
    /// Decides every byte of data and every order of visits.
    pub seed: u64,
    /// The shares of the data that compression and deduplication save.
    pub(crate) mixture: Mixture,
    /// Operations in this repetition.
    pub operations: u64,
    /// The index of the repetition, from 0.
    pub repetition: u32,
    /// Stop after the operation at which this number of seconds has passed.
    pub until_seconds: Option<f64>,
    /// Discard the records of this number of seconds.
    pub ramp_seconds: Option<f64>,
    /// Drop the files' data from the page cache before the clock starts.
    pub evict: bool,
    pub clock: ClockSpec,
    /// The index of this unit, where each unit has files of its own.
    pub(crate) unit: Option<u32>,
    /// The phase of the preparation that runs now.
    pub(crate) preparing: Preparing,
    /// The progress of the step, for the thread that reports it.
    pub(crate) progress: Progress,
    /// Replaces the job's backend.
    pub(crate) backend: Option<&'static dyn Backend>,
    /// Whether this is the work of a background.
    pub(crate) background: bool,
    /// Ends the threads of a measurement early if it is set. Without it they end with their work.
    pub(crate) ends: Option<Arc<AtomicBool>>,
}

impl Context {
    /// Returns the context of a task. Refuses a backend that does not exist.
    pub fn new(task: &Task) -> Result<Context, EngineError> {
        let backend = task.backend.as_deref().map(backend::find).transpose()?;
        Ok(Context {
            root: task.root.clone(),
            client_roots: task.client_roots.clone(),
            seed: task.seed,
            mixture: Mixture::default(),
            operations: task.operations,
            repetition: task.repetition,
            until_seconds: task.until_seconds,
            ramp_seconds: task.ramp_seconds,
            evict: task.evict,
            clock: task.clock,
            unit: None,
            preparing: Preparing::All,
            progress: Progress::default(),
            backend,
            background: task.background,
            ends: None,
        })
    }

    /// Returns the context of one unit, which has its own directory and seed.
    pub(crate) fn of_unit(&self, unit: u32) -> Context {
        Context {
            unit: Some(unit),
            seed: mix(self.seed ^ mix(u64::from(unit))),
            ..self.clone()
        }
    }

    /// Returns the source of the bytes of its files.
    pub(crate) fn data(&self) -> DataSource {
        DataSource {
            seed: self.seed,
            mixture: self.mixture,
        }
    }

    /// Returns the directory that holds all files of all units. A job creates nothing else in the
    /// root.
    pub(crate) fn all_sets(&self) -> PathBuf {
        self.all_sets_in(&self.root)
    }

    /// Returns the directory that holds all files of a job, or of its unit.
    pub(crate) fn set(&self) -> PathBuf {
        self.set_in(&self.root)
    }

    /// Returns that directory as each further client sees it.
    pub(crate) fn client_sets(&self) -> impl Iterator<Item = PathBuf> {
        self.client_roots.iter().map(|root| self.set_in(root))
    }

    fn all_sets_in(&self, root: &Path) -> PathBuf {
        root.join(if self.background {
            "fsb-background"
        } else {
            "fsb-set"
        })
    }

    fn set_in(&self, root: &Path) -> PathBuf {
        let all = self.all_sets_in(root);
        match self.unit {
            Some(unit) => all.join(format!("unit{unit:04}")),
            None => all,
        }
    }

    /// Returns the task's backend, or `own`, the job's, if the task names none.
    pub(crate) fn backend(&self, own: &'static dyn Backend) -> &'static dyn Backend {
        self.backend.unwrap_or(own)
    }
}

/// The interval between two progress reports.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// The progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Finished operations of the measured work, or files of the steps before and after it.
    pub done: u64,
    /// The total number, or 0 if it is unknown.
    pub of: u64,
}

/// Counters of a step outside the clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<[AtomicU64; 2]>);

impl Progress {
    /// Adds `of` to the total.
    pub(crate) fn expect(&self, of: u64) {
        self.0[1].fetch_add(of, Ordering::Relaxed);
    }

    /// Adds `done` to the finished items.
    pub(crate) fn add(&self, done: u64) {
        self.0[0].fetch_add(done, Ordering::Relaxed);
    }

    /// Returns the current counts, or `None` if the step does not count.
    pub(crate) fn live(&self) -> Option<Live> {
        let [done, of] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        (done > 0 || of > 0).then_some(Live { done, of })
    }
}

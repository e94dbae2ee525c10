//! Where and with what a step is done.

use std::path::PathBuf;

use crate::EngineError;
use crate::backend::{self, Backend};
use crate::data::{DataSource, Mixture};
use crate::hash::mix;
use crate::progress::Progress;
use crate::task::{ClockSpec, Task};

/// How much of a preparation is done: that of many units brings all of them onto the device at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preparing {
    All,
    /// Files are made, and not waited for.
    Files,
    /// What is on the device is read once, so that access times are settled.
    Settling,
}

/// A [`Task`] without the workload: what every job must know.
#[derive(Clone)]
pub struct Context {
    /// An existing directory in which the worker may do as it likes.
    pub root: PathBuf,
    /// Decides every byte of data and every order of visits.
    pub seed: u64,
    /// How much of the data compression and deduplication save.
    pub(crate) mixture: Mixture,
    /// Operations in this repetition.
    pub operations: u64,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// Stop after the operation at which this number of seconds has passed.
    pub until_seconds: Option<f64>,
    /// Drop the files' data from the page cache before the clock starts.
    pub evict: bool,
    pub clock: ClockSpec,
    /// The unit that this is, where each has files of its own.
    pub(crate) unit: Option<u32>,
    /// How much of the preparation is done now.
    pub(crate) preparing: Preparing,
    /// How far the step has come, for the thread that reports it.
    pub(crate) progress: Progress,
    /// Instead of the job's.
    pub(crate) backend: Option<&'static dyn Backend>,
}

impl Context {
    /// The context of a task. Refuses a backend that does not exist.
    pub fn new(task: &Task) -> Result<Context, EngineError> {
        let backend = task.backend.as_deref().map(backend::find).transpose()?;
        Ok(Context {
            root: task.root.clone(),
            seed: task.seed,
            mixture: Mixture::default(),
            operations: task.operations,
            repetition: task.repetition,
            until_seconds: task.until_seconds,
            evict: task.evict,
            clock: task.clock,
            unit: None,
            preparing: Preparing::All,
            progress: Progress::default(),
            backend,
        })
    }

    /// The same for one unit, whose files and data are its own.
    pub(crate) fn of_unit(&self, unit: u32) -> Context {
        Context { unit: Some(unit), seed: mix(self.seed ^ mix(u64::from(unit))), ..self.clone() }
    }

    /// What the bytes of its files are.
    pub(crate) fn data(&self) -> DataSource {
        DataSource { seed: self.seed, mixture: self.mixture }
    }

    /// The directory that holds all files of all units: the only thing ever made in the root.
    pub(crate) fn all_sets(&self) -> PathBuf {
        self.root.join("fsb-set")
    }

    /// The directory that holds all files of a job, or of its unit.
    pub(crate) fn set(&self) -> PathBuf {
        match self.unit {
            Some(unit) => self.all_sets().join(format!("unit{unit:04}")),
            None => self.all_sets(),
        }
    }

    /// The task's backend, or else the job's.
    pub(crate) fn backend(&self, own: &'static dyn Backend) -> &'static dyn Backend {
        self.backend.unwrap_or(own)
    }
}

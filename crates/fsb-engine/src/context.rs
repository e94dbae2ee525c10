//! The context of a step: directory, seed, data, operations, clock and backend.

use std::path::PathBuf;

use crate::EngineError;
use crate::backend::{self, Backend};
use crate::data::{DataSource, Mixture};
use crate::hash::mix;
use crate::progress::Progress;
use crate::task::{ClockSpec, Task};

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

    /// Returns the context of one unit, which has its own directory and seed.
    pub(crate) fn of_unit(&self, unit: u32) -> Context {
        Context { unit: Some(unit), seed: mix(self.seed ^ mix(u64::from(unit))), ..self.clone() }
    }

    /// Returns the source of the bytes of its files.
    pub(crate) fn data(&self) -> DataSource {
        DataSource { seed: self.seed, mixture: self.mixture }
    }

    /// Returns the directory that holds all files of all units. A job creates nothing else in the root.
    pub(crate) fn all_sets(&self) -> PathBuf {
        self.root.join("fsb-set")
    }

    /// Returns the directory that holds all files of a job, or of its unit.
    pub(crate) fn set(&self) -> PathBuf {
        match self.unit {
            Some(unit) => self.all_sets().join(format!("unit{unit:04}")),
            None => self.all_sets(),
        }
    }

    /// Returns the task's backend, or `own`, the job's, if the task names none.
    pub(crate) fn backend(&self, own: &'static dyn Backend) -> &'static dyn Backend {
        self.backend.unwrap_or(own)
    }
}

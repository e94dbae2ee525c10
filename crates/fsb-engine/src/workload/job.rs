//! The traits that every workload implements.

use fsb_model::Params;

use super::parameter::Parameter;
use crate::backend::Backend;
use crate::error::{EngineError, ParamError};
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement, Sizing};

/// A member of the registry.
pub trait Workload: Sync {
    /// Returns the name in plans and records.
    fn name(&self) -> &'static str;

    /// Returns one line about the measurement.
    fn about(&self) -> &'static str;

    /// Returns the parameters of a tiny job that runs in milliseconds.
    fn example(&self) -> Params;

    /// Declares the parameters.
    fn parameters(&self) -> Vec<Parameter>;

    /// Reads the parameters. Refuses unknown ones and those that make no sense.
    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError>;
}

/// A workload with its parameters.
pub trait Job: Send + Sync {
    /// Returns the properties that the runner needs.
    fn profile(&self) -> Profile;

    /// Returns its parameters, resolved and complete: parsing them gives the same job.
    fn params(&self) -> Params;

    /// Returns the backend that makes the calls, unless a task has its own.
    fn backend(&self) -> &'static dyn Backend;

    /// Returns the reason why the plan cannot choose the content of its data, if there is one: the
    /// workload brings its own data, or has none.
    fn own_data(&self) -> Option<&'static str> {
        let profile = self.profile();
        (profile.file_size == 0).then_some("it moves no data")
    }

    /// Returns the reason why the work uses one client of a network file system alone. Returns
    /// `None` if each of its threads can use its own.
    fn one_client(&self) -> Option<&'static str> {
        Some("it uses one client alone: use a target without clients=")
    }

    /// Returns the unit that samples consist of. Returns `None` for an unsplittable workload.
    fn unit(&self) -> Option<WorkUnit> {
        None
    }

    /// Makes the files that the work needs, durably, and replaces those of an earlier step. Like
    /// [`Job::cleanup`], it is called only if the backend touches files.
    fn prepare(&self, context: &Context) -> Result<(), EngineError>;

    /// Does the work against the clock. It asks the gate once everything is ready.
    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError>;

    /// Ends the programs that [`Job::measure`] runs, in another thread than it. The worker's own
    /// threads end by themselves.
    fn end_programs(&self, _context: &Context) {}

    /// Removes every file.
    fn cleanup(&self, context: &Context) -> Result<(), EngineError>;
}

/// A fixed piece of a workload's work.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkUnit {
    /// Parameters of the unit alone: the workload's, with smaller or fewer files where each unit
    /// has its own.
    pub params: Params,
    /// Whether each unit has its own files.
    pub own_files: bool,
    /// Whether the work only warms the unit's own files: with emptied caches the unit is in its
    /// first state again.
    pub only_warmed: bool,
    /// Operations of a unit.
    pub operations: u64,
}

//! What is done to files.
//!
//! A [`Workload`] is a member of the registry: it reads its own parameters and makes a [`Job`], which knows its profile
//! and does the three steps. A new workload is a file beside this one (copy `skeleton.rs`) and a line in [`REGISTRY`].

mod append;
#[cfg(test)]
mod cells;
mod command;
#[cfg(test)]
mod conformance;
mod create;
mod data;
mod delete;
mod fallocate;
mod filetree;
mod flow;
mod iozone;
mod item_threads;
mod label;
mod listing;
mod measure;
mod micro;
mod micro_create;
mod micro_read;
mod micro_write;
mod names;
pub mod parameter;
mod params;
mod phase_times;
mod postmark;
mod read;
mod readdir;
mod records;
mod rename;
mod replay;
mod scan;
mod simple;
#[cfg(test)]
mod skeleton;
mod spec;
mod stat;
#[cfg(test)]
pub(crate) mod testing;
mod unit;
mod untar_build;
mod write;

pub use unit::Unit;

use fsb_model::nearest::unknown;
use fsb_model::{Params, WorkloadSpec};

use parameter::Parameter;

use crate::backend::Backend;
use crate::context::Context;
use crate::profile::Profile;
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

/// All workloads.
pub static REGISTRY: &[&dyn Workload] = &[
    &write::WRITE,
    &read::READ,
    &append::APPEND,
    &create::CREATE,
    &stat::STAT,
    &readdir::READDIR,
    &scan::SCAN,
    &rename::RENAME,
    &delete::DELETE,
    &fallocate::Fallocate,
    &iozone::REWRITE,
    &iozone::REREAD,
    &iozone::RANDOM_READ,
    &iozone::RANDOM_WRITE,
    &iozone::RANDOM_MIX,
    &iozone::BACKWARD_READ,
    &iozone::RECORD_REWRITE,
    &iozone::STRIDE_READ,
    &iozone::FWRITE,
    &iozone::FREWRITE,
    &iozone::FREAD,
    &iozone::FREREAD,
    &iozone::PWRITE,
    &iozone::REPWRITE,
    &iozone::PREAD,
    &iozone::REPREAD,
    &iozone::PWRITEV,
    &iozone::REPWRITEV,
    &iozone::PREADV,
    &iozone::REPREADV,
    &micro_create::MICRO_CREATE,
    &micro_read::MICRO_READ,
    &micro_write::MICRO_WRITE,
    &postmark::Postmark,
    &filetree::FileTree,
    &flow::FILESERVER,
    &flow::WEBSERVER,
    &flow::WEBPROXY,
    &flow::VARMAIL,
    &flow::OLTP,
    &flow::VIDEOSERVER,
    &flow::AnyFlow,
    &untar_build::UntarBuild,
    &command::Command,
    &replay::AnyTrace,
    #[cfg(test)]
    &skeleton::SKELETON,
];

/// A member of the registry.
pub trait Workload: Sync {
    /// The name in plans and records.
    fn name(&self) -> &'static str;

    /// One line on what it measures.
    fn about(&self) -> &'static str;

    /// Parameters of a tiny job that runs in milliseconds.
    fn example(&self) -> Params;

    /// Declares the parameters.
    fn parameters(&self) -> Vec<Parameter>;

    /// Reads the parameters. Refuses unknown ones and those that make no sense.
    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError>;
}

/// A workload with its parameters.
pub trait Job: Send + Sync {
    /// What the runner must know of it.
    fn profile(&self) -> Profile;

    /// Its parameters, resolved and complete: parsed again they give the same job.
    fn params(&self) -> Params;

    /// The backend that makes the calls, unless a task has one of its own.
    fn backend(&self) -> &'static dyn Backend;

    /// Why the plan cannot say what its data are like: they are somebody's own, or there are none.
    fn own_data(&self) -> Option<&'static str> {
        let profile = self.profile();
        (profile.file_size == 0).then_some("it moves no data")
    }

    /// What stretches are made of. Absent where the work is measured as a whole, in visits.
    fn unit(&self) -> Option<Unit> {
        None
    }

    /// Makes the files that the work needs, durably. What an earlier step left behind is replaced. Asked only where the
    /// backend touches files, as [`Job::cleanup`] is.
    fn prepare(&self, context: &Context) -> Result<(), EngineError>;

    /// Does the work against the clock; the gate is asked once everything is ready.
    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError>;

    /// Removes every file.
    fn cleanup(&self, context: &Context) -> Result<(), EngineError>;
}

/// The job that a plan describes.
pub fn parse(spec: &WorkloadSpec, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
    let known: Vec<_> = REGISTRY.iter().map(|workload| workload.name()).collect();
    match REGISTRY.iter().find(|workload| workload.name() == spec.name) {
        Some(workload) => data::parse(*workload, &spec.params, sizing),
        None => {
            Err(ParamError { workload: spec.name.clone(), key: None, message: unknown("workload", &spec.name, known) })
        }
    }
}

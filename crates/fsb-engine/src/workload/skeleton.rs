//! A skeleton to copy. It is compiled and run with the tests of the engine, so it cannot rot, and is no part of a build.
//!
//! To add a workload:
//!
//! 1. copy this file to `workload/NAME.rs` and add `mod NAME;` and `&NAME::Name` to `workload/mod.rs`;
//! 2. say in the rules which of the shared parameters it takes; read parameters of its own with a
//!    [`Reader`](super::params::Reader), as `records/options.rs` does;
//! 3. do the work. One call a file: pass a closure to [`names::measure`], as here. Records of data:
//!    a constant of `records::Mover`, as `read.rs`. Anything else: a [`Crew`](crate::team::Crew) of its own, as `create.rs`;
//! 4. run the tests: the conformance tests include it by themselves, on every backend.

use fsb_model::{Access, CacheState, Durability, Params};

use super::spec::{Records, Rules, Spec};
use super::{Job, Workload, names, params};
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset::Content;
use crate::profile::Profile;
use crate::pump::Stage;
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

/// What it takes of the shared parameters. Values that make no sense for it are left out and so refused.
const RULES: Rules = Rules {
    name: "skeleton",
    files: "100",
    file_size: "0",
    records: Records::None,
    access: &[Access::Sequential, Access::Random],
    durability: &[Durability::None],
    cache: &[CacheState::Any, CacheState::Warm, CacheState::Cold],
};

/// The member: a constant without state.
pub(super) struct Skeleton;

impl Workload for Skeleton {
    /// As in plans; lower case, one word.
    fn name(&self) -> &'static str {
        RULES.name
    }

    /// One line for `fsb list workloads`: what it measures.
    fn about(&self) -> &'static str {
        "look twice at the name of every file"
    }

    /// A tiny job for the conformance tests: milliseconds, and more than one directory.
    fn example(&self) -> Params {
        params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("threads", 2.into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(SkeletonJob(Spec::parse(RULES, params, sizing)?)))
    }
}

struct SkeletonJob(Spec);

impl Job for SkeletonJob {
    /// The spec knows most of it; what differs is replaced. The label names everything that makes it another cell.
    fn profile(&self) -> Profile {
        Profile { cold_bytes_per_operation: 64, ..self.0.profile("skeleton", self.0.files_label("look at")) }
    }

    /// Complete: parsed again they give the same job.
    fn params(&self) -> Params {
        self.0.params()
    }

    /// What must be there before the clock starts: directories, empty files or full ones.
    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.0.prepare(context, Content::Full)
    }

    /// Nothing in the closure may allocate, lock or log. An error names the call and the file.
    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let stage = self.0.stage(context)?;
        let act = |stage: &Stage, file: u64, _pass: u64| {
            let look = || stage.backend.tree().stat(&stage.root, stage.names.path(file));
            look().and_then(|()| look()).map_err(|errno| stage.refused("look at", file, errno))
        };
        names::measure(&self.0, Kind::Stat, &act, &stage, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.0.cleanup(context)
    }
}

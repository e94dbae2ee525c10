//! Removing every file.

use fsb_model::{Access, CacheState, Durability, Params};

use super::spec::{Records, Rules, Spec};
use super::{Job, Workload, names, params};
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset::Content;
use crate::profile::{Profile, Renewal};
use crate::pump::Stage;
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

const RULES: Rules = Rules {
    name: "delete",
    files: "min(10000, size/64K)",
    file_size: "4K",
    records: Records::None,
    access: &[Access::Sequential, Access::Random],
    durability: Durability::ALL,
    cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
};

/// The member.
pub(super) struct Delete;

impl Workload for Delete {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "remove every file; where each is durable, with fsync of its directory"
    }

    fn example(&self) -> Params {
        params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("durability", "end".into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(DeleteJob(Spec::parse(RULES, params, sizing)?)))
    }
}

struct DeleteJob(Spec);

impl Job for DeleteJob {
    fn profile(&self) -> Profile {
        let profile = self.0.profile("delete", self.0.files_label("delete"));
        Profile { renewal: Renewal::Recreate, repeats_in_place: false, ..profile }
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.0.prepare(context, Content::Full)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let stage = self.0.stage(context)?;
        let act = |stage: &Stage, file: u64, _pass: u64| {
            let called = stage.backend.tree().unlink(&stage.root, stage.names.path(file));
            called.map_err(|errno| stage.refused("delete", file, errno))
        };
        names::measure(&self.0, Kind::Delete, &act, &stage, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.0.cleanup(context)
    }
}

//! Asking for the attributes of every file, by name.

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

const RULES: Rules = Rules {
    name: "stat",
    files: "min(10000, size/64K)",
    file_size: "4K",
    records: Records::None,
    access: &[Access::Sequential, Access::Random],
    durability: &[Durability::None],
    cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
};

/// The member.
pub(super) struct Stat;

impl Workload for Stat {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "ask for the attributes of every file by its name"
    }

    fn example(&self) -> Params {
        params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("access", "random".into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(StatJob(Spec::parse(RULES, params, sizing)?)))
    }
}

struct StatJob(Spec);

impl Job for StatJob {
    fn profile(&self) -> Profile {
        self.0.profile("stat", self.0.files_label("stat"))
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
            let called = stage.backend.tree().stat(&stage.root, stage.names.path(file));
            called.map_err(|errno| stage.refused("stat", file, errno))
        };
        names::measure(&self.0, Kind::Stat, &act, &stage, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.0.cleanup(context)
    }
}

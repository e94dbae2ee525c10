//! Giving every file another name in the same directory, and on the next pass its old name again.

use fsb_model::{Access, CacheState, Durability, Params};

use super::spec::{Records, Rules, Spec};
use super::{Job, Workload, names, params};
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset::{Content, Names};
use crate::profile::{Profile, Renewal};
use crate::pump::Stage;
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

const RULES: Rules = Rules {
    name: "rename",
    files: "min(10000, size/64K)",
    file_size: "4K",
    records: Records::None,
    access: &[Access::Sequential, Access::Random],
    durability: Durability::ALL,
    cache: &[CacheState::Any, CacheState::Cold, CacheState::Warm],
};

/// The member.
pub(super) struct Rename;

impl Workload for Rename {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "give every file another name in its directory; where each is durable, with fsync of the directory"
    }

    fn example(&self) -> Params {
        params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("durability", "each".into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(RenameJob(Spec::parse(RULES, params, sizing)?)))
    }
}

struct RenameJob(Spec);

impl Job for RenameJob {
    fn profile(&self) -> Profile {
        let profile = self.0.profile("rename", self.0.files_label("rename"));
        // Whatever the number of operations was, the next repetition must find the first names.
        Profile { renewal: Renewal::Recreate, ..profile }
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.0.prepare(context, Content::Full)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let stage = self.0.stage(context)?;
        let others = Names::other(&self.0.layout);
        let act = |stage: &Stage, file: u64, pass: u64| {
            let (first, other) = (stage.names.path(file), others.path(file));
            let (from, to) = if pass.is_multiple_of(2) { (first, other) } else { (other, first) };
            let called = stage.backend.tree().rename(&stage.root, from, to);
            called.map_err(|errno| stage.refused("rename", file, errno))
        };
        names::measure(&self.0, Kind::Rename, &act, &stage, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.0.cleanup(context)
    }
}

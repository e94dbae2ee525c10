//! Listing directories, names only. An operation is a directory read to its end, for the kernel hands entries over by the
//! bufferful and the time of a single one cannot be told.

use fsb_model::{Access, CacheState, Durability, Params};

use super::listing::{self, Unit};
use super::spec::{Records, Rules, Spec};
use super::{Job, Workload, params};
use crate::context::Context;
use crate::fileset::Content;
use crate::profile::Profile;
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

const RULES: Rules = Rules {
    name: "readdir",
    files: "min(10000, size/64K)",
    file_size: "4K",
    records: Records::None,
    access: &[Access::Sequential, Access::Random],
    durability: &[Durability::None],
    cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
};

/// The member.
pub(super) struct Readdir;

impl Workload for Readdir {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "read every directory to its end, names only; an operation is a directory"
    }

    fn example(&self) -> Params {
        params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("file_size", 0.into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(ReaddirJob(Spec::parse(RULES, params, sizing)?)))
    }
}

struct ReaddirJob(Spec);

impl Job for ReaddirJob {
    fn profile(&self) -> Profile {
        let layout = &self.0.layout;
        let entries = layout.files.min(layout.files_per_directory);
        let profile = self.0.profile("readdir", format!("readdir {entries} entries"));
        Profile {
            operations: layout.directories(),
            cold_bytes_per_operation: profile.cold_bytes_per_operation * layout.files / layout.directories(),
            ..profile
        }
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.0.prepare(context, Content::Full)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        listing::measure(&self.0, Unit::Directory, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.0.cleanup(context)
    }
}

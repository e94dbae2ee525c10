//! Listing directories and asking for the attributes of each entry, as `ls -l`, backups and indexers do.

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
    name: "scan",
    files: "min(10000, size/64K)",
    file_size: "4K",
    records: Records::None,
    access: &[Access::Sequential, Access::Random],
    durability: &[Durability::None],
    cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
};

/// The member.
pub(super) struct Scan;

impl Workload for Scan {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "read every directory and ask for the attributes of each entry, as ls -l does"
    }

    fn example(&self) -> Params {
        params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("file_size", 0.into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(ScanJob(Spec::parse(RULES, params, sizing)?)))
    }
}

struct ScanJob(Spec);

impl Job for ScanJob {
    fn profile(&self) -> Profile {
        self.0.profile("scan", "readdir + stat".to_owned())
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.0.prepare(context, Content::Full)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        listing::measure(&self.0, Unit::Entry, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.0.cleanup(context)
    }
}

//! Reading records of a file, or of a set of files.

use fsb_model::{Access, CacheState, Durability, Params};

use super::params;
use super::spec::{Records, Rules, Spec};
use super::{Job, Workload};
use crate::backend::Purpose;
use crate::context::Context;
use crate::fileset::Content;
use crate::profile::Profile;
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

const RULES: Rules = Rules {
    name: "read",
    files: "1",
    file_size: "size/8",
    records: Records::Each,
    access: Access::ALL,
    durability: &[Durability::None],
    cache: &[CacheState::Warm, CacheState::Cold, CacheState::Any],
};

/// The member.
pub(super) struct Read;

impl Workload for Read {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "read records that were fully written, in sequence or at random, warm or cold; sets are opened file by file"
    }

    fn example(&self) -> Params {
        params::of([("file_size", "64K".into()), ("block_size", "4K".into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(ReadJob(Spec::parse(RULES, params, sizing)?)))
    }
}

struct ReadJob(Spec);

impl Job for ReadJob {
    fn profile(&self) -> Profile {
        self.0.profile("read", self.0.data_label("read"))
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.0.prepare(context, Content::Full)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        self.0.measure_data(Purpose::Read, Content::Full, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.0.cleanup(context)
    }
}

//! A log: records are added at the end of a file that starts empty.

use fsb_model::{Access, CacheState, Durability, Params};

use super::params;
use super::spec::{Records, Rules, Spec};
use super::{Job, Workload};
use crate::backend::Purpose;
use crate::context::Context;
use crate::fileset::Content;
use crate::profile::{Profile, Renewal};
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

const RULES: Rules = Rules {
    name: "append",
    files: "1",
    file_size: "min(size/64, 64M)",
    records: Records::Each,
    access: &[Access::Sequential],
    durability: Durability::ALL,
    cache: &[CacheState::Any],
};

/// The member.
pub(super) struct Append;

impl Workload for Append {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "add records to the end of a log that starts empty and grows to file_size"
    }

    fn example(&self) -> Params {
        params::of([("file_size", "32K".into()), ("block_size", "4K".into()), ("durability", "each".into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        // A log's records are small: the usual record of a stream would be no log.
        let mut params = params.clone();
        params.entry("block_size".to_owned()).or_insert_with(|| "4K".into());
        Ok(Box::new(AppendJob(Spec::parse(RULES, &params, sizing)?)))
    }
}

struct AppendJob(Spec);

impl Job for AppendJob {
    fn profile(&self) -> Profile {
        let mut profile = self.0.profile("append", self.0.data_label("append"));
        profile.renewal = Renewal::Recreate;
        profile.repeats_in_place = false;
        profile.cold_bytes_per_operation = 0;
        profile
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.0.prepare(context, Content::Empty)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        self.0.measure_data(Purpose::Append, Content::Empty, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.0.cleanup(context)
    }
}

//! Creating empty files, as the 2023 tool does it.

use fsb_model::Params;

use super::micro::{Bench, MicroJob};
use super::{Job, Workload, params};
use crate::{ParamError, Sizing};

/// The member.
pub(super) struct MicroCreate;

impl Workload for MicroCreate {
    fn name(&self) -> &'static str {
        Bench::Create.name()
    }

    fn about(&self) -> &'static str {
        "the 2023 micro-benchmark: create empty files; microseconds an iteration, one sample a cycle"
    }

    fn example(&self) -> Params {
        params::of([
            ("file_count", 5.into()),
            ("iterations", 3.into()),
            ("cycles", 2.into()),
            ("warmup_cycles", 1.into()),
        ])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(MicroJob::parse(Bench::Create, params, sizing)?))
    }
}

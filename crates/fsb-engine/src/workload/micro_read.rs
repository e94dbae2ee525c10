//! Reading files that were just written, as the 2023 tool does it.

use fsb_model::Params;

use super::micro::{Bench, MicroJob};
use super::{Job, Workload, params};
use crate::{ParamError, Sizing};

/// The member.
pub(super) struct MicroRead;

impl Workload for MicroRead {
    fn name(&self) -> &'static str {
        Bench::Read.name()
    }

    fn about(&self) -> &'static str {
        "the 2023 micro-benchmark: read files that were just written, block by block; microseconds an iteration, one sample a cycle"
    }

    fn example(&self) -> Params {
        params::of([
            ("block_size", "4K".into()),
            ("block_count", 4.into()),
            ("random", true.into()),
            ("iterations", 3.into()),
            ("cycles", 2.into()),
            ("warmup_cycles", 1.into()),
            ("threads", 2.into()),
        ])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(MicroJob::parse(Bench::Read, params, sizing)?))
    }
}

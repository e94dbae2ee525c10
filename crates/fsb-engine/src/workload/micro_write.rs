//! Writing new files, as the 2023 tool does it.

use fsb_model::Params;

use super::micro::{Bench, MicroJob};
use super::{Job, Workload, params};
use crate::{ParamError, Sizing};

/// The member.
pub(super) struct MicroWrite;

impl Workload for MicroWrite {
    fn name(&self) -> &'static str {
        Bench::Write.name()
    }

    fn about(&self) -> &'static str {
        "the 2023 micro-benchmark: write new files, block by block; microseconds an iteration, one sample a cycle"
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
        Ok(Box::new(MicroJob::parse(Bench::Write, params, sizing)?))
    }
}

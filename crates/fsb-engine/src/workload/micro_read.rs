//! Reading files that were just written, as the 2023 tool does it.

use super::micro::{Bench, MicroWorkload};
use super::params;

/// The member.
pub(super) static MICRO_READ: MicroWorkload = MicroWorkload {
    bench: Bench::Read,
    about: "the 2023 micro-benchmark: read files that were just written, block by block; microseconds an iteration, one sample a cycle",
    example: || {
        params::of([
            ("block_size", "4K".into()),
            ("block_count", 4.into()),
            ("random", true.into()),
            ("iterations", 3.into()),
            ("cycles", 2.into()),
            ("warmup_cycles", 1.into()),
            ("threads", 2.into()),
        ])
    },
};

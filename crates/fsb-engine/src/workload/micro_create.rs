//! Creating empty files, as the 2023 tool does it.

use super::micro::{Bench, MicroWorkload};
use super::params;

/// The member.
pub(super) static MICRO_CREATE: MicroWorkload = MicroWorkload {
    bench: Bench::Create,
    about: "the 2023 micro-benchmark: create empty files; microseconds an iteration, one sample a cycle",
    example: || {
        params::of([
            ("file_count", 5.into()),
            ("iterations", 3.into()),
            ("cycles", 2.into()),
            ("warmup_cycles", 1.into()),
        ])
    },
};

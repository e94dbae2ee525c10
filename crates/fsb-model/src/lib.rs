//! The data of FSBench.
//!
//! Plans, targets, cells, trials, run records, metrics and units: data only, nothing here opens a
//! file. Members of families (file systems, media, workloads, controls) are stored as a name and
//! parameters; what they mean is known only to the member itself, in the crate that owns the
//! family.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod anonymise;
pub mod code;
pub mod errno;
pub mod error;
pub mod expression;
pub mod failure;
pub mod flow;
pub mod geometry;
pub mod host;
pub mod metric;
pub mod nearest;
pub mod notice;
pub mod observed;
pub mod plan;
pub mod postmark;
pub mod publication;
pub mod run;
#[cfg(feature = "schema")]
pub mod schema;
pub mod set;
pub mod setting;
pub mod shape;
pub mod shell;
pub mod stop;
pub mod storage;
pub mod target;
pub mod timeline;
pub mod traced;
pub mod trial;
pub mod units;
pub mod variant;
pub mod warning;
pub mod workload;

pub use code::{Coded, ErrorCode};
pub use failure::Failure;
pub use geometry::Geometry;
pub use metric::{Better, Metric, Unit};
pub use plan::{Identity, Place, Plan, Race, Repetition};
pub use run::RunRecord;
pub use setting::Settings;
pub use stop::{RaceEnd, Shortfall, StopReason, StoppingRule, WidestInterval};
pub use target::{ENCRYPT, FileSystemSpec, Medium, Target, TargetKind};
pub use trial::{Interference, Outcome, Phase, Trial};
pub use units::Bytes;
pub use warning::{UnbackedMemory, Warning};
pub use workload::{
    Access, Amount, BACKGROUND, Background, BackgroundLimit, CacheState, Cell, Durability,
    Maintenance, OwnDirectory, Params, WorkloadSpec,
};

/// Returns the error codes of this crate.
pub fn codes() -> impl Iterator<Item = &'static ErrorCode> {
    error::CODES
        .iter()
        .chain(code::CODES)
        .chain(target::CODES)
        .chain(trial::CODES)
        .copied()
}

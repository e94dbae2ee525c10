//! IOzone's operations, one pass over one file at a time, with the very calls that IOzone 3.471 makes.
//!
//! The workloads of this crate's registry are made for fair comparison: incompressible data, restored states,
//! latencies. IOzone's are made of its own habits: which flags a file is opened with, what is synced before the clock
//! starts, what is read once beforehand, what happens between the last record and the end of the clock. A comparison
//! with IOzone's needs those, so they live here, apart, and the tests hold them against traces of the real tool.
//!
//! A [`Phase`] is data; [`perform`] does it alone, [`perform_together`] does several that start and stop together, in
//! threads or in processes that are this program again ([`child_main`]). How a record is moved is a matter of
//! [`IoMethod`], each in a file of its own.

mod content;
mod files;
mod group;
mod open;
mod perform;
mod phase;

pub use content::{Check, Corruption};
pub use files::{Existing, bring_to_rest, examine, remove};
pub use group::{CHILD_ARGUMENT, child_main};
pub use group::{GroupResult, perform_together};
pub use perform::perform;
pub use perform::{check_direct, clock_resolution, processors, sync_all};
pub use phase::{IoMethod, Msync, Operation, Phase, PhaseError, PhaseResult, Purge, Rest};

//! IOzone's operations, one pass over one file at a time, with the very calls that IOzone 3.471 makes.
//!
//! The workloads of this crate's registry are made for fair comparison: incompressible data, restored states,
//! latencies. IOzone has its own conventions: the flags of open, the syncs and reads before the clock starts, and the
//! calls between the last record and the end of the clock. A comparison with IOzone's results needs these, so this
//! module implements them separately, and the tests compare its calls with traces of the real tool.
//!
//! A [`Phase`] is data. [`perform`] performs it alone. [`perform_together`] performs several that start and stop
//! together, in threads or in processes that are this program again ([`child_main`]). [`IoMethod`] determines the calls
//! that move a record.

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

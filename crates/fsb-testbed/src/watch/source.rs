//! The trait that every source of interference implements, and the types of its methods.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsb_sys::Roots;
use fsb_sys::error::Refusal;

/// Values observed between the start of a task and its result, by name and in base units. They are summed over
/// repetitions; a name that ends in [`LEAST`] keeps the smallest value.
pub type Seen = BTreeMap<String, f64>;

/// The suffix of names whose values are minima.
pub const LEAST: &str = "_least";

/// Wall seconds between the start of a task and its result.
pub(crate) const WATCHED_SECONDS: &str = "watched_seconds";
/// Wall seconds times processors: the available CPU time.
pub(crate) const AVAILABLE_CPU_SECONDS: &str = "available_cpu_seconds";

/// The target that is watched, and the files that are read for it.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// The host's /proc and /sys: the agent's own /proc shows only its own processes.
    pub roots: &'a Roots,
    /// The coordinator, by its number in that /proc. Its descendants belong to the run.
    pub coordinator: u32,
    /// The directory of the target's device below /sys; `None` if it has no device.
    pub device: Option<&'a Path>,
    /// The directories of the other targets that are ready. Their I/O belongs to the run.
    pub neighbours: &'a [PathBuf],
}

/// The second reading of a source. It returns the differences from the first one.
pub type Finish = Box<dyn FnOnce() -> Seen>;

/// A source of interference.
pub trait Source: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// One line for `fsb list disturbances`.
    fn about(&self) -> &'static str;
    /// Returns the reason why it cannot be watched here, if there is one.
    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal>;
    /// Reads it for the first time. Returns `None` if it cannot be read.
    fn begin(&self, place: &Watched<'_>) -> Option<Finish>;
}

/// Converts ticks of the kernel's clock into seconds.
pub(crate) fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Returns a single value.
pub(super) fn one(name: &str, value: f64) -> Seen {
    Seen::from([(name.to_owned(), value)])
}

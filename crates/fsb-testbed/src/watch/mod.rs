//! The family of what may disturb a measurement from outside: one file a source, one line in [`REGISTRY`].
//!
//! A source is read twice, by the agent: before the worker is told to go and after its result. Between the two nothing
//! of this runs, so that watching costs the measurement nothing.

mod course;
pub(crate) mod device;
mod frequency;
pub(crate) mod others;
mod pressure;
pub(crate) mod processes;
pub(crate) mod steal;
pub(crate) mod stops;
pub(crate) mod threshold;
pub(crate) mod throttle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use course::DeviceCourse;
pub use threshold::{PRETENDED, interference};

use crate::error::Refusal;
use crate::sys::Roots;

/// Everything that is watched.
pub static REGISTRY: &[&dyn Source] = &[
    &steal::Steal,
    &others::Others,
    &pressure::Pressure,
    &device::OtherDeviceUse,
    &frequency::Frequency,
    &throttle::Throttle,
];

/// What was seen between go and result, by name: in base units, summed over repetitions, but the smallest where the
/// name ends in [`LEAST`].
pub type Seen = BTreeMap<String, f64>;

/// How names end whose values are not sums.
pub const LEAST: &str = "_least";

/// Wall seconds between go and result.
pub(crate) const WATCHED_SECONDS: &str = "watched_seconds";
/// Wall seconds times processors: the CPU time that there was.
pub(crate) const AVAILABLE_CPU_SECONDS: &str = "available_cpu_seconds";

/// What is watched, and from where.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// Where the machine's own /proc and /sys are: the agent's /proc shows only its own processes.
    pub roots: &'a Roots,
    /// The process whose descendants are ours, as that /proc numbers it.
    pub front: u32,
    /// The directory of the target's device below /sys; absent where it has none.
    pub device: Option<&'a Path>,
    /// The same of other targets that are ready: what they do is ours, too.
    pub neighbours: &'a [PathBuf],
}

/// The second reading of a source: what happened since the first.
pub type Finish = Box<dyn FnOnce() -> Seen>;

/// One thing that may disturb.
pub trait Source: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// One line for `fsb list disturbances`.
    fn about(&self) -> &'static str;
    /// Whether it can be watched here; why not.
    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal>;
    /// Reads it for the first time; nothing where it cannot be read.
    fn begin(&self, place: &Watched<'_>) -> Option<Finish>;
}

/// A measurement that is watched.
pub struct Watch {
    started: Instant,
    processors: f64,
    readings: Vec<Finish>,
}

impl Watch {
    /// Reads everything for the first time.
    pub fn begin(place: &Watched<'_>) -> Watch {
        // Stops before the first reading are no interference.
        stops::continued();
        let readings = REGISTRY.iter().filter_map(|source| source.begin(place)).collect();
        Watch { processors: processors(place.roots), readings, started: Instant::now() }
    }

    /// Reads everything for the second time.
    pub fn end(self) -> Seen {
        let seconds = self.started.elapsed().as_secs_f64();
        let mut seen: Seen = self.readings.into_iter().flat_map(|finish| finish()).collect();
        seen.insert(WATCHED_SECONDS.to_owned(), seconds);
        let stopped = stops::continued();
        if stopped > 0 {
            seen.insert(stops::PROCESSES.to_owned(), f64::from(stopped));
        }
        seen.insert(AVAILABLE_CPU_SECONDS.to_owned(), seconds * self.processors);
        seen
    }
}

/// Takes what was seen of one more repetition to what is known of the trial.
pub fn add(sum: &mut Seen, more: Seen) {
    for (name, value) in more {
        let least = name.ends_with(LEAST);
        sum.entry(name)
            .and_modify(|known| *known = if least { known.min(value) } else { *known + value })
            .or_insert(value);
    }
}

/// Why it cannot be told what the disk under a device does for others; nothing where it can.
pub(crate) fn blind_to_others(roots: &Roots, device: &Path) -> Option<String> {
    match device::bottom(roots, device) {
        Err(why) => Some(why.into()),
        Ok(bottom) if !bottom.in_place => Some(
            "the file system that holds the image moves what it writes, which looks like others' writes".to_owned(),
        ),
        Ok(_) => None,
    }
}

/// Processors that are on line, as /proc/stat has a line for each.
fn processors(roots: &Roots) -> f64 {
    let text = roots.proc_text("stat").unwrap_or_default();
    let lines = text.lines().filter(|line| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' ')));
    lines.count().max(1) as f64
}

/// Ticks of the kernel's clock as seconds.
pub(crate) fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// A counter read twice is a value.
fn one(name: &str, value: f64) -> Seen {
    Seen::from([(name.to_owned(), value)])
}

#[cfg(test)]
mod tests;

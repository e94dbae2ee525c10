//! The registry of sources of interference: each is one file and one line in [`REGISTRY`].
//!
//! The agent reads a source twice: before it starts the worker and after it has the worker's result. It reads nothing
//! in between, so that watching does not affect the measurement.

pub(crate) mod device;
mod device_timeline;
mod frequency;
pub(crate) mod others;
mod pressure;
pub(crate) mod processes;
mod source;
pub(crate) mod steal;
pub(crate) mod stops;
pub(crate) mod threshold;
pub(crate) mod throttle;

use std::path::Path;
use std::time::Instant;

pub use device_timeline::DeviceTimeline;
pub(crate) use source::seconds;
pub(crate) use source::{AVAILABLE_CPU_SECONDS, WATCHED_SECONDS};
pub use source::{Finish, LEAST, Seen, Source, Watched};
pub use threshold::{PRETENDED, interference};

use fsb_sys::Roots;

/// Every source that is watched.
pub static REGISTRY: &[&dyn Source] = &[
    &steal::Steal,
    &others::Others,
    &pressure::Pressure,
    &device::OtherDeviceUse,
    &frequency::Frequency,
    &throttle::Throttle,
];

/// A measurement that is being watched.
pub struct Watch {
    started: Instant,
    processors: f64,
    readings: Vec<Finish>,
}

impl Watch {
    /// Reads all sources for the first time.
    pub fn begin(place: &Watched<'_>) -> Watch {
        // Stops before the first reading are no interference.
        stops::continued();
        let readings = REGISTRY.iter().filter_map(|source| source.begin(place)).collect();
        Watch { processors: processors(place.roots), readings, started: Instant::now() }
    }

    /// Reads all sources for the second time.
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

/// Adds the values of one more repetition to those of the trial.
pub fn add(sum: &mut Seen, more: Seen) {
    for (name, value) in more {
        let least = name.ends_with(LEAST);
        sum.entry(name)
            .and_modify(|known| *known = if least { known.min(value) } else { *known + value })
            .or_insert(value);
    }
}

/// Returns the reason why I/O of others on the disk under a device cannot be detected. Returns `None` if it can.
pub(crate) fn blind_to_others(roots: &Roots, device: &Path) -> Option<String> {
    match device::bottom(roots, device) {
        Err(why) => Some(why.into()),
        Ok(bottom) if !bottom.in_place => Some(
            "the file system of the image relocates written data, which counts as writes of other processes".to_owned(),
        ),
        Ok(_) => None,
    }
}

/// Returns the number of online processors, from their lines in /proc/stat.
fn processors(roots: &Roots) -> f64 {
    let text = roots.proc_text("stat").unwrap_or_default();
    let lines = text.lines().filter(|line| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' ')));
    lines.count().max(1) as f64
}

#[cfg(test)]
mod tests;

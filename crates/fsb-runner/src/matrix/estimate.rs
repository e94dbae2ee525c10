//! Estimates the duration of cells before anything is known of the machine.
//!
//! The model has four numbers that are typical of one disk of recent years. Its estimates are off by a factor of two or
//! three, which is enough to distinguish minutes from hours. Warm-up replaces it.

use fsb_engine::{Profile, Renewal};

/// Seconds of three processes, and of waiting until the target is idle.
const AROUND: f64 = 0.12;
/// Bytes per second that are written and made durable when files are prepared.
const PREPARED: f64 = 400e6;
/// Bytes per second that the device moves.
const DEVICE: f64 = 200e6;
/// The time in which a worker restores the state between passes, relative to the time of the passes.
const RESTORED: f64 = 1.0;
/// Seconds of formatting, mounting and taking down a target.
pub(crate) const VISIT: f64 = 1.5;

/// Seconds of a cell on one target with the fewest rounds. The cells of the quick suite took 0.2 to 0.6 s with an image
/// on one disk of recent years.
pub(crate) const ROW: f64 = 0.35;

/// Returns the expected seconds of a trial whose sample lasts `timed` seconds.
pub(crate) fn trial_seconds(profile: &Profile, timed: f64) -> f64 {
    let bytes = (profile.files * profile.file_size) as f64;
    let around = if profile.renewal == Renewal::Inside { timed * RESTORED } else { 0.0 };
    // A cold pass is over when the file is read.
    let pass = bytes / DEVICE;
    let timed = if profile.renewal == Renewal::Remount && pass < timed { pass.max(timed / 5.0) } else { timed };
    AROUND + bytes / PREPARED + timed + around
}

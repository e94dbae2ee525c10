//! How long cells will take, before anything is known of the machine.
//!
//! A model of four numbers, typical of one disk of these years: what it says is off by a factor of two or three, which is
//! enough to tell minutes from hours. Warm-up replaces it.

use fsb_engine::{Profile, Renewal};

/// Three processes, and waiting until the target is quiet.
const AROUND: f64 = 0.12;
/// Bytes that are written and made durable in a second, when files are prepared.
const PREPARED: f64 = 400e6;
/// Bytes that are moved in a second where the device works.
const DEVICE: f64 = 200e6;
/// Where a worker restores the state between passes, this takes as long as the passes do.
const RESTORED: f64 = 1.0;
/// Seconds of formatting, mounting and taking down a target.
pub(crate) const VISIT: f64 = 1.5;

/// Seconds of one target's share of a row of the fewest rounds: the quick suite's rows took 0.2 to 0.6 s with an image on one
/// disk of these years.
pub(crate) const ROW: f64 = 0.35;

/// Seconds that one trial should take whose stretch lasts `timed` seconds.
pub(crate) fn trial_seconds(profile: &Profile, timed: f64) -> f64 {
    let bytes = (profile.files * profile.file_size) as f64;
    let around = if profile.renewal == Renewal::Inside { timed * RESTORED } else { 0.0 };
    // A cold pass is over when the file is read.
    let pass = bytes / DEVICE;
    let timed = if profile.renewal == Renewal::Remount && pass < timed { pass.max(timed / 5.0) } else { timed };
    AROUND + bytes / PREPARED + timed + around
}

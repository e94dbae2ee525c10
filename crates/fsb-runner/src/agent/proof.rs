//! Proofs: a trial whose state was not what its name says is invalid and is not ranked (DESIGN §5.7).

use fsb_engine::{Measurement, Profile, Ready};
use fsb_model::CacheState;
use fsb_model::units::show_bytes;
use fsb_testbed::{Abilities, ColdMethod};
use serde_json::{Map, Value, json};

use super::protocol::Measured;

/// Share of the bytes asked for that the device must have served in a cold trial. Below 1, for the last bytes of a
/// file may come along with others' blocks.
const COLD_SHARE: f64 = 0.95;
/// Share of the data that may lie in memory before a cold trial.
const COLD_RESIDENT: f64 = 0.01;
/// Share of the data that must lie in memory before a warm trial.
const WARM_RESIDENT: f64 = 0.99;
/// Share of the bytes asked for that the device may have served in a warm trial, beside [`WARM_SLACK`].
const WARM_SHARE: f64 = 0.01;
/// Bytes of metadata that a warm trial may read: opening a file must find it.
const WARM_SLACK: u64 = 1 << 20;

/// What was seen during the repetitions of a trial.
#[derive(Debug, Default)]
pub struct Seen {
    resident_before: Option<u64>,
    resident_after: Option<u64>,
    file_bytes: u64,
    device: Option<(u64, u64)>,
    since_cold: Option<u64>,
    clock_cost_ns: f64,
}

impl Seen {
    /// The worker stands at the line.
    pub fn ready(&mut self, ready: &Ready) {
        if let Some(bytes) = ready.resident_bytes {
            *self.resident_before.get_or_insert(0) += bytes;
        }
        self.file_bytes += ready.file_bytes;
    }

    /// The worker is through.
    pub fn measured(&mut self, measurement: &Measurement) {
        self.resident_after = measurement.resident_after;
        self.clock_cost_ns = measurement.clock_cost_ns;
    }

    /// What the device did meanwhile.
    pub fn device(&mut self, read: u64, written: u64) {
        let (reads, writes) = self.device.get_or_insert((0, 0));
        *reads += read;
        *writes += written;
    }

    /// What the device read since the caches were emptied, the mount included.
    pub fn since_cold(&mut self, read: u64) {
        *self.since_cold.get_or_insert(0) += read;
    }

    /// For the record.
    pub fn observed(&self) -> Map<String, Value> {
        let mut observed = Map::new();
        let mut note = |key: &str, value: Value| observed.insert(key.to_owned(), value);
        note("resident_bytes_before", json!(self.resident_before));
        note("resident_bytes_after", json!(self.resident_after));
        note("clock_cost_seconds", json!(self.clock_cost_ns * 1e-9));
        if let Some((read, written)) = self.device {
            note("device_read_bytes", json!(read));
            note("device_write_bytes", json!(written));
        }
        observed
    }
}

/// Whether what was seen agrees with the trial's name; if not, why.
pub fn verdict(profile: &Profile, abilities: &Abilities, seen: &Seen, measured: &Measured) -> Result<(), String> {
    if abilities.fake.is_some() {
        return Ok(());
    }
    match profile.cache {
        CacheState::Any => Ok(()),
        CacheState::Cold => cold(profile, seen, measured),
        CacheState::Warm => warm(abilities, seen, measured),
    }
}

fn cold(profile: &Profile, seen: &Seen, measured: &Measured) -> Result<(), String> {
    if let Some(resident) = seen.resident_before
        && resident as f64 > seen.file_bytes as f64 * COLD_RESIDENT
    {
        let (found, all) = (show_bytes(resident as f64), show_bytes(seen.file_bytes as f64));
        return Err(format!("not cold: {found} of {all} were in memory before it began"));
    }
    let asked = profile.cold_bytes_per_operation as f64 * measured.operations as f64;
    // A mount reads ahead in the very tables that hold the inodes: for metadata its reads count as well.
    let read = if profile.metadata_only { seen.since_cold } else { seen.device.map(|(read, _)| read) };
    match read {
        Some(read) if (read as f64) < asked * COLD_SHARE => {
            let (read, asked) = (show_bytes(read as f64), show_bytes(asked));
            Err(format!("not cold: the device read {read} where {asked} were asked for"))
        }
        Some(_) => Ok(()),
        None if seen.resident_before.is_some() => Ok(()),
        None => Err("cold cannot be proved: the device under the directory is not known".to_owned()),
    }
}

fn warm(abilities: &Abilities, seen: &Seen, measured: &Measured) -> Result<(), String> {
    if let Some(resident) = seen.resident_before
        && (resident as f64) < seen.file_bytes as f64 * WARM_RESIDENT
    {
        let (found, all) = (show_bytes(resident as f64), show_bytes(seen.file_bytes as f64));
        return Err(format!("not warm: only {found} of {all} were in memory when it began"));
    }
    // The device under a directory serves others too: there only residency can prove anything.
    let private = abilities.cold == Some(ColdMethod::Remount);
    match seen.device {
        Some((read, _)) if private && read as f64 > measured.bytes as f64 * WARM_SHARE + WARM_SLACK as f64 => {
            Err(format!("not warm: the device read {}", show_bytes(read as f64)))
        }
        _ => Ok(()),
    }
}

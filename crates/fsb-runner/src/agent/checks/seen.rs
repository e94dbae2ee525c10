//! The observations that show whether a trial is valid.

use fsb_engine::{Measurement, Ready};
use fsb_model::observed::{Direct, Observed};

/// Share of the data that may be in memory before a cold trial.
pub(super) const COLD_RESIDENT: f64 = 0.01;
/// The observations of the repetitions of a trial.
#[derive(Debug, Default)]
pub struct Seen {
    pub(super) resident_before: Option<u64>,
    pub(super) resident_after: Option<u64>,
    pub(super) file_bytes: u64,
    pub(super) file_bytes_after: u64,
    /// Bytes that the page cache of the work may hold.
    pub(super) limit: Option<u64>,
    pub(super) device: Option<(u64, u64)>,
    pub(super) since_cold: Option<u64>,
    pub(super) direct: Option<Direct>,
    pub(super) clock_cost_ns: f64,
}

impl Seen {
    /// Adds the observations of a worker that is ready to start.
    pub fn ready(&mut self, ready: &Ready) {
        if let Some(bytes) = ready.resident_bytes {
            *self.resident_before.get_or_insert(0) += bytes;
        }
        self.file_bytes += ready.file_bytes;
        self.direct = ready.direct.or(self.direct);
    }

    /// Adds the observations of a measurement.
    pub fn measured(&mut self, measurement: &Measurement) {
        self.resident_after = measurement.resident_after;
        self.file_bytes_after = measurement.file_bytes_after;
        self.clock_cost_ns = measurement.clock_cost_ns;
    }

    /// Sets the memory for the work: the limit, or all memory of the machine.
    pub fn limited(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    /// Adds the bytes that the device read and wrote during a repetition.
    pub fn device(&mut self, read: u64, written: u64) {
        let (reads, writes) = self.device.get_or_insert((0, 0));
        *reads += read;
        *writes += written;
    }

    /// Adds the bytes that the device read since the caches were emptied, including the mount. In rounds, which empty
    /// the caches without a mount, the value is unknown.
    pub(crate) fn since_cold(&mut self, read: u64) {
        *self.since_cold.get_or_insert(0) += read;
    }

    /// Returns the evidence for the trial's record.
    pub fn observed(&self) -> Observed {
        Observed {
            resident_bytes_before: self.resident_before,
            resident_bytes_after: self.resident_after,
            clock_cost_seconds: Some(self.clock_cost_ns * 1e-9),
            device_read_bytes: self.device.map(|(read, _)| read),
            device_write_bytes: self.device.map(|(_, written)| written),
            direct: self.direct,
            ..Observed::default()
        }
    }
}

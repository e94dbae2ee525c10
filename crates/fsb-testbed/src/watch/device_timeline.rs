//! The timeline of a device during a sequential trial: its counters every 20 ms, read by a thread of the agent.
//!
//! Fifty readings a second take about a thousandth of one processor. Short samples have no timeline.
//! course.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fsb_model::timeline::DeviceSample;
use fsb_sys::block;
use rustix::time::{ClockId, clock_gettime};

use crate::fs::Journal;

/// The interval between two readings.
const EVERY: Duration = Duration::from_millis(20);

/// A device whose counters are read until [`DeviceTimeline::end`].
#[derive(Debug)]
pub struct DeviceTimeline {
    over: Arc<AtomicBool>,
    reader: JoinHandle<Vec<DeviceSample>>,
}

impl DeviceTimeline {
    /// Starts to read the counters of the device with this directory, and the turns of the journal on it. Returns
    /// `None` if the counters cannot be read.
    pub(crate) fn begin(device: &Path, journal: Option<Journal>) -> Option<DeviceTimeline> {
        // The kernel counts flushes only for whole disks.
        let (device, disk) = (device.to_owned(), block::whole_disk(device));
        let read = move || {
            let activity = block::activity(&device)?;
            let flushes = if disk == device { activity.flushes } else { block::activity(&disk)?.flushes };
            let now = clock_gettime(ClockId::Monotonic);
            let at_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
            let journal_turns = journal.as_ref().and_then(Journal::turns);
            Some(DeviceSample {
                at_ns,
                read: activity.read_bytes,
                written: activity.write_bytes,
                flushes,
                journal_turns,
            })
        };
        let first = read()?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let reader = thread::Builder::new().name("fsb-timeline".to_owned()).spawn(move || {
            let mut samples = vec![first];
            while !ended.load(Ordering::Relaxed) {
                thread::park_timeout(EVERY);
                samples.extend(read());
            }
            samples.extend(read());
            samples
        });
        Some(DeviceTimeline { over, reader: reader.ok()? })
    }

    /// Returns the readings in the order of time.
    pub fn end(self) -> Vec<DeviceSample> {
        self.over.store(true, Ordering::Relaxed);
        self.reader.thread().unpark();
        self.reader.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_until_the_end() {
        let tree = tempfile::tempdir().unwrap();
        let stat = |written: u64, flushes: u64| {
            let text = format!("0 0 8 0 0 0 {written} 0 0 0 0 0 0 0 0 {flushes} 0");
            std::fs::write(tree.path().join("stat"), text).unwrap();
        };
        stat(2, 1);
        let timeline = DeviceTimeline::begin(tree.path(), None).unwrap();
        stat(10, 3);
        let samples = timeline.end();
        let (first, last) = (samples.first().unwrap(), samples.last().unwrap());
        assert_eq!((first.read, first.written, first.flushes), (4096, 1024, 1));
        assert_eq!((last.written, last.flushes), (5120, 3));
        assert!(last.at_ns > first.at_ns);
        assert!(DeviceTimeline::begin(&tree.path().join("none"), None).is_none());
    }
}

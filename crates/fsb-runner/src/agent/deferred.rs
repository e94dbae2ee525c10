//! Deferred work of a file system: the activity of its device from the end of a sample until the target is idle.
//!
//! A clock stops when the calls have returned, or when the log is written. The work that remains then (dirty pages,
//! ext4's checkpoint, the metadata that xfs logged, a btrfs commit) slows down later operations. This module counts it.

use std::time::{Duration, Instant};

use fsb_model::observed::Deferred;
use fsb_testbed::{Counters, Testbed, TestbedError};

/// Bytes that an idle target may write: a superblock, or a log record without changes.
pub(super) const AT_REST: u64 = 64 << 10;

/// Adds the writes and flushes of the device between two readings.
fn count(sum: &mut Deferred, before: Option<Counters>, after: Option<Counters>) {
    let (Some(before), Some(after)) = (before, after) else { return };
    sum.bytes += after.write_bytes.saturating_sub(before.write_bytes);
    sum.flushes += after.flushes.saturating_sub(before.flushes);
}

/// Accumulates the deferred work of a target while it is measured.
#[derive(Debug, Default)]
pub(super) struct DeferredWork {
    sum: Deferred,
    /// Seconds of each syncfs that followed a sample.
    syncs: Vec<f64>,
    /// Bytes that the device wrote inside the clock.
    written: u64,
}

impl DeferredWork {
    /// Records the end of a sample.
    pub(super) fn sample(&mut self, operations: u64, before: Option<Counters>, after: Option<Counters>) {
        self.sum.operations += operations;
        if let (Some(before), Some(after)) = (before, after) {
            self.written += after.write_bytes.saturating_sub(before.write_bytes);
        }
    }

    /// Records the end of a repetition of a sequential trial. The deferred work of earlier repetitions is written by
    /// then, so the counts start again.
    pub(super) fn repetition(&mut self, operations: u64, before: Option<Counters>, after: Option<Counters>) {
        *self = DeferredWork::default();
        self.sample(operations, before, after);
    }

    /// Records a sync of the target after a sample.
    pub(super) fn synced(&mut self, seconds: f64, before: Option<Counters>, after: Option<Counters>) {
        self.syncs.push(seconds);
        count(&mut self.sum, before, after);
    }

    /// Quiesces the target within `left`. Returns `None` if nothing was written, or if time is too short to count it.
    pub(super) fn rest(
        mut self,
        testbed: &mut dyn Testbed,
        slot: u32,
        left: Duration,
    ) -> Result<Option<Deferred>, TestbedError> {
        let started = Instant::now();
        let in_rounds = !self.syncs.is_empty();
        if left.is_zero() || self.sum.operations == 0 || in_rounds && !self.wrote() {
            return Ok(None);
        }
        let before = testbed.counters(slot);
        let first = testbed.quiesce(slot, left)?;
        count(&mut self.sum, before, testbed.counters(slot));
        // A second call, on an idle target, measures the time of the calls themselves.
        let left = left.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        let idle = testbed.quiesce(slot, left)?;
        self.sum.seconds += (first.waited_seconds - idle.waited_seconds).max(0.0);
        if in_rounds {
            let started = Instant::now();
            testbed.sync(slot)?;
            let idle = started.elapsed().as_secs_f64();
            self.sum.seconds += self.syncs.iter().map(|sync| (sync - idle).max(0.0)).sum::<f64>();
        }
        Ok(self.wrote().then_some(self.sum))
    }

    /// Returns whether the device wrote more than that of an idle target, whose writes the work does not cause.
    fn wrote(&self) -> bool {
        self.written + self.sum.bytes > AT_REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(write_bytes: u64, flushes: u64) -> Option<Counters> {
        Some(Counters { write_bytes, flushes, ..Counters::default() })
    }

    #[test]
    fn deferred_work_is_divided_by_all_operations() {
        let mut left = DeferredWork::default();
        left.sample(100, counters(0, 0), counters(4096, 1));
        left.synced(0.1, counters(4096, 1), counters(8192, 3));
        assert_eq!((left.written, left.sum.bytes, left.sum.flushes), (4096, 4096, 2));
        left.sample(100, None, None);
        let sum = Deferred { seconds: 0.5, ..left.sum };
        assert_eq!(sum.per_operation(), Some([20.48, 0.01, 0.0025]));
        assert_eq!(Deferred::default().per_operation(), None);
    }
}

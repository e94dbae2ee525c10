//! The progress of a step. The working threads count it, and an idle thread reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The interval between two progress reports.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// The progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Finished operations of the measured work, or files of the steps before and after it.
    pub done: u64,
    /// The total number, or 0 if it is unknown.
    pub of: u64,
}

/// Counters of a step outside the clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<[AtomicU64; 2]>);

impl Progress {
    /// Adds `of` to the total.
    pub(crate) fn expect(&self, of: u64) {
        self.0[1].fetch_add(of, Ordering::Relaxed);
    }

    /// Adds `done` to the finished items.
    pub(crate) fn add(&self, done: u64) {
        self.0[0].fetch_add(done, Ordering::Relaxed);
    }

    /// Returns the current counts, or `None` if the step does not count.
    pub(crate) fn live(&self) -> Option<Live> {
        let [done, of] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        (done > 0 || of > 0).then_some(Live { done, of })
    }
}

//! How far a step has come: counted where the work is done, read by an idle thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often it is told.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// How far a step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Of the measured work: operations. Of the steps before and after it: files.
    pub done: u64,
    /// The number of all; 0 where it is not known.
    pub of: u64,
}

/// Counts of a step outside the clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<[AtomicU64; 2]>);

impl Progress {
    /// There is so much to do, more than was known.
    pub(crate) fn expect(&self, of: u64) {
        self.0[1].fetch_add(of, Ordering::Relaxed);
    }

    /// So much more is done.
    pub(crate) fn add(&self, done: u64) {
        self.0[0].fetch_add(done, Ordering::Relaxed);
    }

    /// What is known; nothing where the step does not count.
    pub(crate) fn live(&self) -> Option<Live> {
        let [done, of] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        (done > 0 || of > 0).then_some(Live { done, of })
    }
}

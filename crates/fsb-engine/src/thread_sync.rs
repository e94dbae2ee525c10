//! How threads wait for each other: before the clock for the start signal, after it for the last thread to finish.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

/// Whether waiting threads run or leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartSignal {
    Run,
    Abort,
}

#[derive(Debug, Default)]
struct Start {
    reported: u32,
    not_ready: bool,
    signal: Option<StartSignal>,
}

/// What the threads share.
#[derive(Debug)]
pub(crate) struct ThreadSync {
    threads: u32,
    start: Mutex<Start>,
    changed: Condvar,
    pub(crate) failed: AtomicBool,
    /// Threads that have not finished their work.
    working: AtomicU32,
    /// What the finished ones have moved.
    pub(crate) bytes: AtomicU64,
    /// The first thread, which waits for the others where a sync ends the timed stretch.
    pub(crate) first: OnceLock<Thread>,
}

impl ThreadSync {
    pub(crate) fn new(threads: u32) -> ThreadSync {
        ThreadSync {
            threads,
            start: Mutex::default(),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
            working: AtomicU32::new(threads),
            bytes: AtomicU64::new(0),
            first: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Start> {
        self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every thread has reported; whether all of them are ready.
    pub(crate) fn all_ready(&self) -> bool {
        let waiting = |start: &mut Start| start.reported < self.threads;
        let start = self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        !start.not_ready
    }

    pub(crate) fn signal(&self, signal: StartSignal) {
        self.lock().signal = Some(signal);
        self.changed.notify_all();
    }

    /// Sleeps until the signal is given.
    pub(crate) fn wait_for_signal(&self) -> StartSignal {
        let waiting = |start: &mut Start| start.signal.is_none();
        let start = self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        start.signal.unwrap_or(StartSignal::Abort)
    }

    pub(crate) fn wait_for_others(&self) {
        while self.working.load(Ordering::Acquire) > 0 {
            thread::park();
        }
    }
}

/// Reports, when dropped, whether a thread is ready: also when it is not because of a panic.
pub(crate) struct ReadyGuard<'s> {
    pub(crate) shared: &'s ThreadSync,
    pub(crate) ready: bool,
}

impl Drop for ReadyGuard<'_> {
    fn drop(&mut self) {
        let mut start = self.shared.lock();
        start.reported += 1;
        start.not_ready |= !self.ready;
        self.shared.changed.notify_all();
    }
}

/// Counts a thread as done when dropped.
pub(crate) struct DoneGuard<'s> {
    pub(crate) shared: &'s ThreadSync,
    pub(crate) rank: u32,
}

impl Drop for DoneGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.failed.store(true, Ordering::Relaxed);
        }
        let last = self.shared.working.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && self.rank != 0 {
            self.shared.first.get().inspect(|first| first.unpark());
        }
    }
}

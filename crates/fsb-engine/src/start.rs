//! How threads wait for each other: before the clock for the word to start, after it for the last one to finish.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

/// What sleeping threads are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Go,
    Leave,
}

#[derive(Debug, Default)]
struct Start {
    answered: u32,
    unequipped: bool,
    word: Option<Word>,
}

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
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

impl Shared {
    pub(crate) fn new(threads: u32) -> Shared {
        Shared {
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

    /// Waits until every thread has answered; whether all of them are equipped.
    pub(crate) fn all_equipped(&self) -> bool {
        let waiting = |start: &mut Start| start.answered < self.threads;
        let start = self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        !start.unequipped
    }

    pub(crate) fn give(&self, word: Word) {
        self.lock().word = Some(word);
        self.changed.notify_all();
    }

    /// Sleeps until the word is given.
    pub(crate) fn word(&self) -> Word {
        let waiting = |start: &mut Start| start.word.is_none();
        let start = self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        start.word.unwrap_or(Word::Leave)
    }

    pub(crate) fn wait_for_others(&self) {
        while self.working.load(Ordering::Acquire) > 0 {
            thread::park();
        }
    }
}

/// Tells, when it is dropped, whether a thread could be equipped: also when it could not because of a panic.
pub(crate) struct Answer<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) equipped: bool,
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        let mut start = self.shared.lock();
        start.answered += 1;
        start.unequipped |= !self.equipped;
        self.shared.changed.notify_all();
    }
}

/// Counts a thread out when it is dropped.
pub(crate) struct Leaving<'s> {
    pub(crate) shared: &'s Shared,
    pub(crate) rank: u32,
}

impl Drop for Leaving<'_> {
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

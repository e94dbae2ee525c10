//! What several that start and stop together share: a few numbers, in memory that processes can share too.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex::{self, Timespec};

/// How long somebody sleeps before it looks whether it is still wanted.
const NAP: Duration = Duration::from_millis(50);

/// The shared numbers. All zeros at first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct StartBarrier {
    /// How many have prepared, or failed to.
    answered: AtomicU32,
    /// How many of them failed.
    failed: AtomicU32,
    /// One of the words below.
    word: AtomicU32,
    /// How many were told to get set, and are awake.
    set: AtomicU32,
    /// Set by the first to finish.
    stone: AtomicU32,
}

/// Stay awake, the next word is near: waking one after another takes longer than a small file.
const SET: u32 = 1;
const GO: u32 = 2;
const LEAVE: u32 = 3;

impl StartBarrier {
    /// Says that one more is ready, or never will be.
    pub(super) fn answer(&self, ready: bool) {
        self.failed.fetch_add(u32::from(!ready), Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::AcqRel);
        wake(&self.answered);
    }

    /// Waits until `count` workers have answered, and tells whether all of them are ready. `gone` is asked now and then
    /// whether that is in vain.
    fn all_ready(&self, count: u32, gone: &mut impl FnMut() -> bool) -> bool {
        counted(&self.answered, count, gone) && self.failed.load(Ordering::Relaxed) == 0
    }

    /// Waits until `count` workers are ready and lets them start; if not all of them are, lets them leave.
    pub(super) fn start(&self, count: u32, mut gone: impl FnMut() -> bool) -> Instant {
        let ready = self.all_ready(count, &mut gone) && {
            self.give(SET);
            counted(&self.set, count, &mut gone)
        };
        let start = Instant::now();
        self.give(if ready { GO } else { LEAVE });
        start
    }

    fn give(&self, word: u32) {
        self.word.store(word, Ordering::Release);
        wake(&self.word);
    }

    /// Waits for the word; whether to start.
    pub(super) fn word(&self, interrupted: &AtomicBool) -> bool {
        let mut awake = false;
        while !interrupted.load(Ordering::Relaxed) {
            match self.word.load(Ordering::Acquire) {
                GO => return true,
                LEAVE => return false,
                SET if awake => std::thread::yield_now(),
                SET => {
                    awake = true;
                    self.set.fetch_add(1, Ordering::AcqRel);
                    wake(&self.set);
                }
                waiting => nap(&self.word, waiting),
            }
        }
        false
    }

    /// The first to finish tells the others.
    pub(super) fn finish(&self) {
        self.stone.store(1, Ordering::Release);
    }

    /// Whether somebody has finished.
    #[inline]
    pub(super) fn finished(&self) -> bool {
        self.stone.load(Ordering::Relaxed) != 0
    }
}

/// Waits until a number has reached a count; whether it did before it was in vain.
fn counted(number: &AtomicU32, count: u32, gone: &mut impl FnMut() -> bool) -> bool {
    loop {
        let seen = number.load(Ordering::Acquire);
        if seen >= count {
            return true;
        }
        if gone() {
            return false;
        }
        nap(number, seen);
    }
}

/// The kernel's wait-and-wake on a number that may lie in shared memory. It may wake early: callers look again.
fn nap(number: &AtomicU32, seen: u32) {
    let time = Timespec { tv_sec: 0, tv_nsec: NAP.subsec_nanos().into() };
    let _ = futex::wait(number, futex::Flags::empty(), seen, Some(&time));
}

fn wake(number: &AtomicU32) {
    // The only error would be a number that is not there.
    let _ = futex::wake(number, futex::Flags::empty(), i32::MAX as u32);
}

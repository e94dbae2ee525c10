//! The barriers of workers: one where all start together, and one where they meet between rounds.
//!
//! Both are atomic numbers that futexes wait on, so they serve threads and, in shared memory, processes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex::{self, Timespec};

/// The interval at which a waiting thread checks whether its wait is in vain.
const NAP: Duration = Duration::from_millis(50);

/// The start of several workers. Each answers when it is ready, and then either all start or none does. Initially all
/// zeros.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct StartBarrier {
    /// Workers that are ready or have failed to get ready.
    answered: AtomicU32,
    /// Workers that have failed to get ready.
    failed: AtomicU32,
    /// One of the signals below; 0 before the first one.
    signal: AtomicU32,
    /// Workers that were woken and wait without sleeping.
    awake: AtomicU32,
}

/// Wait without sleeping, because the start is near. Waking one thread after another takes longer than writing a small
/// file.
const WAKE: u32 = 1;
const RUN: u32 = 2;
const ABORT: u32 = 3;

impl StartBarrier {
    /// Answers for one worker.
    pub(crate) fn answer(&self, ready: bool) {
        self.failed.fetch_add(u32::from(!ready), Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::AcqRel);
        wake(&self.answered);
    }

    /// Waits until `count` workers have answered. Returns whether all of them are ready. `in_vain` is asked every 50 ms
    /// whether a worker will never answer.
    pub(crate) fn all_ready(&self, count: u32, in_vain: impl FnMut() -> bool) -> bool {
        reaches(&self.answered, count, in_vain) && self.failed.load(Ordering::Relaxed) == 0
    }

    /// Starts `count` workers that are ready. If there are several, all are awake before the first one starts. Aborts
    /// if `in_vain` reports that a worker has ended. Returns the time of the start.
    pub(crate) fn run(&self, count: u32, in_vain: impl FnMut() -> bool) -> Instant {
        if count > 1 {
            self.give(WAKE);
            if !reaches(&self.awake, count, in_vain) {
                self.abort();
                return Instant::now();
            }
        }
        let start = Instant::now();
        self.give(RUN);
        start
    }

    /// Lets the workers end without having run.
    pub(crate) fn abort(&self) {
        self.give(ABORT);
    }

    fn give(&self, signal: u32) {
        self.signal.store(signal, Ordering::Release);
        wake(&self.signal);
    }

    /// Waits for the start. Returns whether to run. Without an interrupt flag, a worker sleeps until the signal, so
    /// that it does not interfere with other measurements.
    pub(crate) fn wait(&self, interrupted: Option<&AtomicBool>) -> bool {
        let mut is_awake = false;
        while !interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed)) {
            match self.signal.load(Ordering::Acquire) {
                RUN => return true,
                ABORT => return false,
                WAKE if is_awake => std::thread::yield_now(),
                WAKE => {
                    is_awake = true;
                    self.awake.fetch_add(1, Ordering::AcqRel);
                    wake(&self.awake);
                }
                none => sleep(&self.signal, none, interrupted.map(|_| NAP)),
            }
        }
        false
    }
}

/// The barrier where workers meet between rounds.
#[derive(Debug, Default)]
pub(crate) struct RoundBarrier {
    arrived: AtomicU32,
    /// The number of meetings.
    met: AtomicU32,
}

impl RoundBarrier {
    /// Waits until `parties` workers have arrived. The last one runs `last` while the others still wait.
    pub(crate) fn wait(&self, parties: u32, last: impl FnOnce()) {
        let met = self.met.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == parties {
            last();
            self.arrived.store(0, Ordering::Relaxed);
            self.met.store(met.wrapping_add(1), Ordering::Release);
            if parties > 1 {
                wake(&self.met);
            }
            return;
        }
        while self.met.load(Ordering::Acquire) == met {
            sleep(&self.met, met, None);
        }
    }
}

/// Waits until a number has reached `count`. Returns whether it did so before `in_vain` returned true.
fn reaches(number: &AtomicU32, count: u32, mut in_vain: impl FnMut() -> bool) -> bool {
    loop {
        let seen = number.load(Ordering::Acquire);
        if seen >= count {
            return true;
        }
        if in_vain() {
            return false;
        }
        sleep(number, seen, Some(NAP));
    }
}

/// Sleeps while a number has the value `seen`, for at most `limit`. It may return early, so callers check again.
fn sleep(number: &AtomicU32, seen: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| Timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() });
    let _ = futex::wait(number, futex::Flags::empty(), seen, limit.as_ref());
}

fn wake(number: &AtomicU32) {
    // The only error is an address that is not mapped.
    let _ = futex::wake(number, futex::Flags::empty(), i32::MAX as u32);
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Returns the number of workers that ran.
    fn started(ready: &[bool]) -> usize {
        let (barrier, count) = (StartBarrier::default(), ready.len() as u32);
        thread::scope(|scope| {
            let worker = |&ready: &bool| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.answer(ready);
                    ready && barrier.wait(None)
                })
            };
            let workers: Vec<_> = ready.iter().map(worker).collect();
            match barrier.all_ready(count, || false) {
                true => drop(barrier.run(count, || false)),
                false => barrier.abort(),
            }
            workers.into_iter().filter_map(|worker| worker.join().unwrap().then_some(())).count()
        })
    }

    #[test]
    fn all_workers_start_or_none_does() {
        for count in [1, 2, 7] {
            assert_eq!(started(&vec![true; count]), count);
        }
        assert_eq!(started(&[true, false, true]), 0);
    }

    #[test]
    fn a_worker_that_ended_lets_no_other_start() {
        let barrier = StartBarrier::default();
        thread::scope(|scope| {
            let alone = scope.spawn(|| barrier.wait(None));
            barrier.run(2, || true);
            assert!(!alone.join().unwrap());
        });
    }

    #[test]
    fn an_interrupted_worker_waits_for_no_signal() {
        assert!(!StartBarrier::default().wait(Some(&AtomicBool::new(true))));
    }
}

//! The meeting point of the workers of one measurement, which are threads or forked processes.
//! Workers wait here for each other and add up their results.
//!
//! A round is one sample that all workers take together. Each worker stores when it began and ended
//! and how many bytes it has moved so far. The first worker that finishes adds up the bytes that
//! all workers show at that moment. This is the figure that IOzone's manual calls stonewalled: the
//! work done while all workers were active. If several rounds follow each other, the workers meet
//! before and after each one, outside the clock, and the last one to arrive adds up the round.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex::{self, Timespec};

use crate::error::EngineError;
use crate::memory::SharedMemory;
use crate::task::Stonewall;

// The barriers of workers: one where all start together, and one where they meet between rounds.
//
// Both are atomic numbers that futexes wait on, so they serve threads and, in shared memory,
// processes.

/// The interval at which a waiting thread checks whether its wait is in vain.
const NAP: Duration = Duration::from_millis(50);

/// The start of several workers. Each answers when it is ready, and then either all start or none
/// does. Initially all zeros.
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

/// Wait without sleeping, because the start is near. Waking one thread after another takes longer
/// than writing a small file.
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

    /// Waits until `count` workers have answered. Returns whether all of them are ready. `in_vain`
    /// is asked every 50 ms whether a worker will never answer.
    pub(crate) fn all_ready(&self, count: u32, in_vain: impl FnMut() -> bool) -> bool {
        reaches(&self.answered, count, in_vain) && self.failed.load(Ordering::Relaxed) == 0
    }

    /// Starts `count` workers that are ready. If there are several, all are awake before the first
    /// one starts. Aborts if `in_vain` reports that a worker has ended. Returns the time of the
    /// start.
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

    /// Waits for the start. Returns whether to run. Without an interrupt flag, a worker sleeps
    /// until the signal, so that it does not interfere with other measurements.
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
    /// Waits until `parties` workers have arrived. The last one runs `last` while the others still
    /// wait.
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

/// Waits until a number has reached `count`. Returns whether it did so before `in_vain` returned
/// true.
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

/// Sleeps while a number has the value `seen`, for at most `limit`. It may return early, so callers
/// check again.
fn sleep(number: &AtomicU32, seen: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| Timespec {
        tv_sec: 0,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let _ = futex::wait(number, futex::Flags::empty(), seen, limit.as_ref());
}

fn wake(number: &AtomicU32) {
    // The only error is an address that is not mapped.
    let _ = futex::wake(number, futex::Flags::empty(), i32::MAX as u32);
}

/// The maximum number of workers, which is the number of slots.
const MOST_WORKERS: usize = 1024;

/// The rendezvous of one measurement.
pub(crate) struct Rendezvous {
    workers: u32,
    /// Whether the clock is a fake one. The progress of others at a moment of real time then means
    /// nothing.
    fake: bool,
    common: SharedMemory<SharedRounds>,
}

/// The content of the shared memory.
struct SharedRounds {
    barrier: RoundBarrier,
    slots: [WorkerSlot; MOST_WORKERS],
    /// Whether a worker has finished this round.
    through: AtomicBool,
    /// The bytes that all workers had moved at that moment, since the beginning.
    shown: AtomicU64,
    /// Whether there is another round.
    more: AtomicBool,
    /// Nanoseconds of all rounds, from the first start to the last stop of each.
    timed: AtomicU64,
    wall_bytes: AtomicU64,
    wall_ns: AtomicU64,
}

/// One worker's slot, on separate cache lines.
#[repr(align(128))]
#[derive(Default)]
struct WorkerSlot {
    /// Bytes moved since the beginning. It changes while the clock runs.
    progress: AtomicU64,
    /// Progress when the round began.
    before: AtomicU64,
    /// The round's start and stop.
    start: AtomicU64,
    stop: AtomicU64,
    state: AtomicU32,
}

/// The state of a worker at the end of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundState {
    /// The worker has finished all its work.
    Done = 0,
    /// The worker has work left.
    More = 1,
    /// The time is up or the worker has failed, so no worker continues.
    Over = 2,
}

impl Rendezvous {
    pub(crate) fn new(workers: u32, fake: bool) -> Result<Rendezvous, EngineError> {
        let round = SharedRounds {
            barrier: RoundBarrier::default(),
            slots: std::array::from_fn(|_| WorkerSlot::default()),
            through: AtomicBool::new(false),
            shown: AtomicU64::new(0),
            more: AtomicBool::new(true),
            timed: AtomicU64::new(0),
            wall_bytes: AtomicU64::new(0),
            wall_ns: AtomicU64::new(0),
        };
        Ok(Rendezvous {
            workers,
            fake,
            common: SharedMemory::new(round)?,
        })
    }

    /// Returns the counter in which a worker shows its progress.
    pub(crate) fn progress(&self, rank: u32) -> &AtomicU64 {
        &self.common.slots[rank as usize].progress
    }

    /// Waits for the others, outside the clock.
    pub(crate) fn wait(&self) {
        self.common.barrier.wait(self.workers, || {});
    }

    /// Stores the result of a worker's round, which lasted from `start` to `stop`.
    pub(crate) fn finish(&self, rank: u32, (start, stop): (u64, u64), state: RoundState) {
        let slot = &self.common.slots[rank as usize];
        slot.start.store(start, Ordering::Relaxed);
        slot.stop.store(stop, Ordering::Relaxed);
        slot.state.store(state as u32, Ordering::Relaxed);
        // A worker that had no work in this round must not end the stonewalled interval.
        if self.workers > 1 && slot.moved() > 0 && !self.common.through.swap(true, Ordering::AcqRel)
        {
            let shown = self
                .slots()
                .iter()
                .map(|slot| slot.progress.load(Ordering::Relaxed))
                .sum();
            self.common.shown.store(shown, Ordering::Release);
        }
    }

    /// Waits for the others after a round. Returns whether there is another one.
    pub(crate) fn end_round(&self) -> bool {
        self.common.barrier.wait(self.workers, || self.add_up());
        self.common.more.load(Ordering::Acquire)
    }

    /// Adds up a round that all workers have finished, and prepares the next one.
    pub(crate) fn add_up(&self) {
        let round = &*self.common;
        let working = || self.slots().iter().filter(|slot| slot.moved() > 0);
        let first = working().map(WorkerSlot::start).min().unwrap_or(0);
        let last = working().map(WorkerSlot::stop).max().unwrap_or(first);
        let wall = working().map(WorkerSlot::stop).min().unwrap_or(first);
        round.timed.fetch_add(last - first, Ordering::Relaxed);
        round.wall_ns.fetch_add(wall - first, Ordering::Relaxed);
        let bytes = if self.fake {
            working().map(|slot| slot.moved_until(wall)).sum()
        } else {
            let before: u64 = self
                .slots()
                .iter()
                .map(|slot| slot.before.load(Ordering::Relaxed))
                .sum();
            round.shown.load(Ordering::Acquire).saturating_sub(before)
        };
        round.wall_bytes.fetch_add(bytes, Ordering::Relaxed);
        let any = |state| {
            self.slots()
                .iter()
                .any(|slot| slot.state.load(Ordering::Relaxed) == state as u32)
        };
        round.more.store(
            any(RoundState::More) && !any(RoundState::Over),
            Ordering::Release,
        );
        round.through.store(false, Ordering::Release);
        for slot in self.slots() {
            slot.before
                .store(slot.progress.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Returns the bytes that all workers moved in the current round, before it is added up.
    pub(crate) fn moved(&self) -> u64 {
        self.slots().iter().map(WorkerSlot::moved).sum()
    }

    /// Returns the nanoseconds of all rounds that are added up, each from the first start to the
    /// last stop.
    pub(crate) fn timed_ns(&self) -> u64 {
        self.common.timed.load(Ordering::Acquire)
    }

    /// Returns the work done while all workers were active, or `None` for a single worker.
    pub(crate) fn stonewall(&self) -> Option<Stonewall> {
        let [bytes, timed_ns] =
            [&self.common.wall_bytes, &self.common.wall_ns].map(|sum| sum.load(Ordering::Acquire));
        (self.workers > 1).then_some(Stonewall { bytes, timed_ns })
    }

    fn slots(&self) -> &[WorkerSlot] {
        &self.common.slots[..self.workers as usize]
    }
}

impl WorkerSlot {
    fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }

    fn stop(&self) -> u64 {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the bytes moved in this round.
    fn moved(&self) -> u64 {
        self.progress.load(Ordering::Relaxed) - self.before.load(Ordering::Relaxed)
    }

    /// Returns the bytes moved in this round until `moment`, assuming a constant rate.
    fn moved_until(&self, moment: u64) -> u64 {
        let (start, stop) = (self.start(), self.stop());
        let share = moment.saturating_sub(start) as f64 / stop.saturating_sub(start).max(1) as f64;
        (self.moved() as f64 * share.min(1.0)) as u64
    }
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
            workers
                .into_iter()
                .filter_map(|worker| worker.join().unwrap().then_some(()))
                .count()
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

    #[test]
    fn a_round_lasts_from_the_first_start_to_the_last_stop() {
        let rendezvous = Rendezvous::new(2, false).unwrap();
        for (rank, bytes) in [(0, 100), (1, 60)] {
            rendezvous.progress(rank).store(bytes, Ordering::Relaxed);
        }
        // The first is through while the second has shown 60 of its 100 bytes.
        rendezvous.finish(0, (10, 110), RoundState::More);
        rendezvous.progress(1).store(100, Ordering::Relaxed);
        rendezvous.finish(1, (20, 220), RoundState::More);
        assert_eq!(rendezvous.moved(), 200);
        rendezvous.add_up();
        assert_eq!((rendezvous.timed_ns(), rendezvous.moved()), (210, 0));
        assert_eq!(
            rendezvous.stonewall(),
            Some(Stonewall {
                bytes: 160,
                timed_ns: 100
            })
        );
    }

    #[test]
    fn on_a_fake_clock_progress_is_even() {
        let rendezvous = Rendezvous::new(2, true).unwrap();
        (0..2).for_each(|rank| rendezvous.progress(rank).store(100, Ordering::Relaxed));
        rendezvous.finish(1, (0, 200), RoundState::More);
        rendezvous.finish(0, (0, 100), RoundState::More);
        rendezvous.add_up();
        assert_eq!(
            rendezvous.stonewall(),
            Some(Stonewall {
                bytes: 150,
                timed_ns: 100
            })
        );
    }

    #[test]
    fn workers_meet_round_after_round_until_one_has_enough() {
        let rendezvous = Rendezvous::new(4, false).unwrap();
        let rounds: Vec<u32> = thread::scope(|scope| {
            let worker = |rank: u32| {
                let rendezvous = &rendezvous;
                scope.spawn(move || {
                    let mut rounds = 0;
                    loop {
                        rendezvous.wait();
                        rounds += 1;
                        rendezvous.progress(rank).fetch_add(1, Ordering::Relaxed);
                        let now = u64::from(rounds) * 10;
                        rendezvous.finish(
                            rank,
                            (now, now + 5),
                            if rank > 0 || rounds < 100 {
                                RoundState::More
                            } else {
                                RoundState::Over
                            },
                        );
                        if !rendezvous.end_round() {
                            return rounds;
                        }
                    }
                })
            };
            let workers: Vec<_> = (0..4).map(worker).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .collect()
        });
        assert_eq!(rounds, [100; 4]);
        assert_eq!(rendezvous.timed_ns(), 500);
    }
}

//! Where threads of a flow wait for each other: counters that are waited for by futex.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::{Timespec, futex};

/// Nobody sleeps longer without looking whether the work is over.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
/// Operations that a thread takes at once from those that are left.
const BATCH: u64 = 8;

/// Operations that are left to be done: threads take them a few at a time.
#[derive(Debug)]
pub(super) struct OperationBudget {
    taken: CachePadded<AtomicU64>,
    total: u64,
}

/// On a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct CachePadded<T>(pub(super) T);

impl OperationBudget {
    pub(super) fn new(total: u64) -> OperationBudget {
        OperationBudget { taken: CachePadded(AtomicU64::new(0)), total }
    }

    /// Takes up to `wanted`; 0 when there are none.
    #[inline]
    pub(super) fn take(&self, wanted: u64) -> u64 {
        let wanted = wanted.clamp(1, BATCH);
        let before = self.taken.0.fetch_add(wanted, Ordering::Relaxed);
        self.total.saturating_sub(before).min(wanted)
    }

    /// How many were taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken.0.load(Ordering::Relaxed).min(self.total)
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

/// A counter that somebody waits for, and how many do.
#[derive(Debug, Default)]
pub(super) struct Counter {
    value: AtomicU32,
    sleepers: AtomicU32,
}

impl Counter {
    pub(super) fn value(&self) -> u32 {
        self.value.load(Ordering::SeqCst)
    }

    fn add(&self, more: u32) {
        self.value.fetch_add(more, Ordering::SeqCst);
        self.wake();
    }

    /// Takes `wanted`, or nothing and says how many there are.
    fn try_take(&self, wanted: u32) -> Result<(), u32> {
        let take = |found: u32| found.checked_sub(wanted);
        self.value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).map(drop)
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // The only error is an address that is none.
            let _ = futex::wake(&self.value, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// Sleeps while it has this value, but not for long, and not longer than `most`.
    pub(super) fn sleep(&self, seen: u32, most: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let most = most.min(LONGEST_SLEEP);
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        // Woken for nothing, not put to sleep, or the time is up: the waiting thread looks again.
        let _ = futex::wait(&self.value, futex::Flags::PRIVATE, seen, Some(&timeout));
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A semaphore of filebench's: posts that are taken many at once, and room for threads that would rather wait than post
/// too many.
#[derive(Debug)]
pub(super) struct Semaphore {
    pub(super) posts: CachePadded<Counter>,
    pub(super) room: Counter,
    value: u32,
}

impl Semaphore {
    pub(super) fn new((value, high_water): (u32, u32)) -> Semaphore {
        let room = Counter { value: AtomicU32::new(high_water), ..Counter::default() };
        Semaphore { posts: CachePadded::default(), room, value }
    }

    /// A thread comes to wait: as many more may be posted.
    pub(super) fn arrive(&self) {
        self.room.add(self.value);
    }

    /// Takes what is waited for, or says how many posts there are.
    pub(super) fn try_take(&self) -> Result<(), u32> {
        self.posts.0.try_take(self.value)
    }

    /// Posts, or says how much room there is: only a `blocking` post needs any.
    pub(super) fn try_post(&self, posts: u32, blocking: bool) -> Result<(), u32> {
        if blocking {
            self.room.try_take(posts)?;
        }
        let before = self.posts.0.value.fetch_add(posts, Ordering::SeqCst);
        if before < self.value && before.saturating_add(posts) >= self.value {
            self.posts.0.wake();
        }
        Ok(())
    }
}

/// What ends the work of all.
#[derive(Debug, Default)]
pub(super) struct StopFlag {
    over: AtomicBool,
    /// For threads that sleep until a moment.
    sleep: Counter,
}

impl StopFlag {
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Nobody begins anything any more.
    pub(super) fn finish(&self) {
        if !self.over.swap(true, Ordering::SeqCst) {
            self.sleep.add(1);
        }
    }

    /// Sleeps until then, or a little less.
    pub(super) fn sleep(&self, nanoseconds: u64) {
        if !self.is_over() {
            self.sleep.sleep(0, Duration::from_nanos(nanoseconds));
        }
    }
}

/// Steps that others wake.
#[derive(Debug, Default)]
pub(super) struct WakeEvent(pub(super) Counter);

impl WakeEvent {
    pub(super) fn wake(&self) {
        self.0.add(1);
    }
}

/// Events come at a rate from the start of the clock on; a thread reserves those that it needs and waits until they
/// have come.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// Nanoseconds of one event in 2^20 parts, so that MiB and events are reserved alike.
    part_ns: f64,
    reserved: CachePadded<AtomicU64>,
    /// When the first thread started its clock.
    origin: AtomicU64,
}

/// The parts of an event: a bandwidth limit books bytes.
pub(super) const PARTS: u64 = 1 << 20;

impl RateLimiter {
    pub(super) fn new(rate: f64) -> RateLimiter {
        RateLimiter { part_ns: 1e9 / rate / PARTS as f64, reserved: CachePadded::default(), origin: AtomicU64::new(0) }
    }

    /// Reserves parts of events; when they will have come.
    pub(super) fn reserve(&self, parts: u64, now: u64) -> u64 {
        let origin = match self.origin.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => now,
            Err(origin) => origin,
        };
        let before = self.reserved.0.fetch_add(parts, Ordering::Relaxed);
        origin + ((before + parts) as f64 * self.part_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn no_more_tickets_are_given_than_there_are() {
        let budget = OperationBudget::new(1001);
        let taken: u64 = thread::scope(|scope| {
            let taker = || std::iter::from_fn(|| Some(budget.take(5)).filter(|&taken| taken > 0)).sum::<u64>();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(taker)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((taken, budget.taken(), budget.take(1)), (1001, 1001, 0));
    }

    #[test]
    fn posts_are_taken_together_and_blocking_ones_need_room() {
        let semaphore = Semaphore::new((3, 2));
        assert_eq!(semaphore.try_post(1, true), Ok(()));
        assert_eq!(semaphore.try_post(1, true), Ok(()));
        assert_eq!(semaphore.try_post(1, true), Err(0), "two are the most before somebody waits");
        assert_eq!(semaphore.try_take(), Err(2));
        semaphore.arrive();
        assert_eq!(semaphore.try_post(1, true), Ok(()));
        assert_eq!(semaphore.try_take(), Ok(()));
        assert_eq!((semaphore.try_post(9, false), semaphore.posts.0.value()), (Ok(()), 9));
    }

    #[test]
    fn who_sleeps_is_woken_by_a_post() {
        let semaphore = Semaphore::new((2, 100));
        thread::scope(|scope| {
            scope.spawn(|| assert!((0..2000).all(|_| semaphore.try_post(1, false).is_ok())));
            for _ in 0..1000 {
                while let Err(seen) = semaphore.try_take() {
                    semaphore.posts.0.sleep(seen, LONGEST_SLEEP);
                }
            }
        });
        assert_eq!(semaphore.posts.0.value(), 0);
    }

    #[test]
    fn events_come_at_their_rate() {
        let rate_limiter = RateLimiter::new(1000.0);
        assert_eq!(rate_limiter.reserve(PARTS, 50), 1_000_050);
        assert_eq!(rate_limiter.reserve(2 * PARTS, 99), 3_000_050);
    }
}

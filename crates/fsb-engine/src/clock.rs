//! The clock that times the calls: CLOCK_MONOTONIC, or a fake one that makes whole runs exact.
//!
//! It is read once an operation: the end of one is the start of the next. The fake clock does not
//! measure. Each reading advances it by a plausible time, which is drawn from a hash of its seed,
//! the thread and the number of the reading. A run on the null backend is therefore the same to the
//! last digit on every machine. Only IEEE additions and multiplications are used for it, which
//! round alike everywhere.

use fsb_model::{CacheState, Durability};
use rustix::time::{ClockId, clock_gettime};

use crate::hash::{Stream, hash, mix, unit};
use crate::task::ClockSpec;

/// The operation that a timed interval covers. The fake clock's times depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Read,
    Write,
    Create,
    Stat,
    /// A whole directory; its "bytes" are its entries.
    Readdir,
    Rename,
    Delete,
    /// Permissions, owner, times or extended attributes of a file.
    Attributes,
    Close,
    /// The fsync or syncfs at the end; the bytes are all that was written.
    Sync,
}

/// Cache state and durability, which decide how long the fake clock lets a call take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) cache: CacheState,
    pub(crate) durability: Durability,
}

/// One thread's clock.
#[derive(Debug)]
pub(crate) enum Clock {
    Monotonic,
    Fake(Fake),
    #[cfg(any(test, feature = "injected-slowdown"))]
    Slowed(Slowed),
}

impl Clock {
    pub(crate) fn new(spec: ClockSpec, rank: u32, circumstances: Circumstances) -> Clock {
        match spec {
            ClockSpec::Monotonic => Clock::Monotonic,
            ClockSpec::Fake {
                seed,
                slowdown,
                noise,
                sample,
            } => Clock::Fake(Fake::new(
                (seed, sample),
                (slowdown, noise),
                rank,
                circumstances,
            )),
            #[cfg(any(test, feature = "injected-slowdown"))]
            ClockSpec::Slowed { share } => Clock::Slowed(Slowed {
                share,
                read: std::cell::Cell::new(0),
            }),
        }
    }

    /// Returns the current time in nanoseconds. Reading the fake clock does not advance it.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Clock::Monotonic => monotonic_ns(),
            Clock::Fake(fake) => fake.now,
            #[cfg(any(test, feature = "injected-slowdown"))]
            Clock::Slowed(slowed) => slowed.now(),
        }
    }

    /// Advances the fake clock to at least `ns`, because a thread slept until then. The real clock
    /// advances by itself.
    pub(crate) fn pass_until(&mut self, ns: u64) {
        if let Clock::Fake(fake) = self {
            fake.now = fake.now.max(ns);
        }
    }

    /// Returns the time in nanoseconds at the end of an operation of `kind` over `bytes`.
    #[inline]
    pub(crate) fn after(&mut self, kind: OperationKind, bytes: u64) -> u64 {
        match self {
            Clock::Monotonic => monotonic_ns(),
            Clock::Fake(fake) => fake.advance(kind, bytes),
            #[cfg(any(test, feature = "injected-slowdown"))]
            Clock::Slowed(slowed) => slowed.after(),
        }
    }
}

#[inline]
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the cost of one clock reading in nanoseconds: the minimum over several batches, because
/// interruptions only add to it.
pub(crate) fn cost_ns(spec: ClockSpec) -> f64 {
    const BATCHES: u32 = 16;
    const READINGS: u32 = 256;
    match spec {
        ClockSpec::Fake { .. } => 25.0,
        _ => (0..BATCHES)
            .map(|_| {
                let start = monotonic_ns();
                let stop = (0..READINGS).fold(start, |_, _| monotonic_ns());
                (stop - start) as f64 / f64::from(READINGS)
            })
            .fold(f64::INFINITY, f64::min),
    }
}

/// The real clock on a thread that busy-waits after each operation for a share of the operation's
/// time. It simulates a target that is slower by a known amount, for calibration.
#[cfg(any(test, feature = "injected-slowdown"))]
#[derive(Debug)]
pub(crate) struct Slowed {
    share: f64,
    /// The last reading, at which the current operation began.
    read: std::cell::Cell<u64>,
}

#[cfg(any(test, feature = "injected-slowdown"))]
impl Slowed {
    fn now(&self) -> u64 {
        self.read.set(monotonic_ns());
        self.read.get()
    }

    fn after(&self) -> u64 {
        let done = monotonic_ns();
        let until = done + ((done - self.read.get().min(done)) as f64 * self.share) as u64;
        while self.now() < until {
            std::hint::spin_loop();
        }
        self.read.get()
    }
}

/// A clock that computes its times from a hash.
#[derive(Debug)]
pub(crate) struct Fake {
    now: u64,
    key: u64,
    readings: u64,
    circumstances: Circumstances,
    /// The slowdown times the random factor of the trial.
    factor: f64,
}

impl Fake {
    fn new(
        (seed, sample): (u64, u64),
        (slowdown, noise): (f64, f64),
        rank: u32,
        circumstances: Circumstances,
    ) -> Fake {
        // Four uniform numbers summed and scaled to a standard deviation of 1: the luck of the
        // trial.
        let luck: f64 = (0..4)
            .map(|i| unit(hash(seed, Stream::FakeTrial, i)) - 0.5)
            .sum::<f64>()
            * 1.732_050_8;
        Fake {
            // Threads are woken one after another.
            now: 1_000_000_000 + u64::from(rank) * 2_000,
            key: hash(seed, Stream::FakeCall, u64::from(rank) + (sample << 16)),
            readings: 0,
            circumstances,
            factor: slowdown * (1.0 + noise * luck).max(0.1),
        }
    }

    fn advance(&mut self, kind: OperationKind, bytes: u64) -> u64 {
        let bits = mix(self.key ^ self.readings);
        self.readings += 1;
        // Half to one and a half times the base, and one call in 64 up to five times that: a tail
        // for percentiles.
        let mut share = 0.5 + unit(bits);
        if bits.is_multiple_of(64) {
            share *= 1.0 + 4.0 * unit(mix(bits));
        }
        self.now += (self.base_ns(kind, bytes) * share * self.factor).max(1.0) as u64;
        self.now
    }

    /// Nanoseconds of a call on a usual solid-state disk, roughly.
    fn base_ns(&self, kind: OperationKind, bytes: u64) -> f64 {
        let cold = self.circumstances.cache.begins_cold();
        let (fixed, per_byte) = match kind {
            OperationKind::Read if cold => (80_000.0, 0.5),
            OperationKind::Read => (400.0, 0.1),
            OperationKind::Write => (600.0, 0.25),
            OperationKind::Create => (12_000.0, 0.25),
            OperationKind::Stat if cold => (15_000.0, 0.0),
            OperationKind::Stat => (600.0, 0.0),
            OperationKind::Readdir if cold => (90_000.0, 500.0),
            OperationKind::Readdir => (1_500.0, 60.0),
            OperationKind::Rename => (4_000.0, 0.0),
            OperationKind::Delete => (6_000.0, 0.0),
            OperationKind::Attributes => (2_500.0, 0.0),
            OperationKind::Close => (900.0, 0.0),
            OperationKind::Sync => (5_000_000.0, 0.4),
        };
        let durable_each = self.circumstances.durability == Durability::Each;
        let flush = match kind {
            OperationKind::Write
            | OperationKind::Create
            | OperationKind::Rename
            | OperationKind::Delete
            | OperationKind::Attributes
                if durable_each =>
            {
                150_000.0
            }
            _ => 0.0,
        };
        fixed + flush + per_byte * bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(seed: u64, slowdown: f64) -> Clock {
        let circumstances = Circumstances {
            cache: CacheState::Warm,
            durability: Durability::None,
        };
        Clock::new(
            ClockSpec::Fake {
                seed,
                slowdown,
                noise: 0.05,
                sample: 0,
            },
            0,
            circumstances,
        )
    }

    fn total(seed: u64, slowdown: f64) -> f64 {
        let mut clock = fake(seed, slowdown);
        let start = clock.now();
        let stop = (0..1000)
            .map(|_| clock.after(OperationKind::Read, 4096))
            .last()
            .unwrap();
        (stop - start) as f64
    }

    #[test]
    fn fake_time_repeats_and_differs_by_seed_as_trials_do() {
        assert_eq!(total(1, 1.0), total(1, 1.0));
        assert!((total(1, 1.1) / total(1, 1.0) - 1.1).abs() < 0.001);
        let totals: Vec<f64> = (0..200).map(|seed| total(seed, 1.0).ln()).collect();
        let mean = totals.iter().sum::<f64>() / 200.0;
        let deviation = (totals.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / 199.0).sqrt();
        assert!((0.04..0.06).contains(&deviation), "{deviation}");
    }

    #[test]
    fn a_slowed_clock_adds_its_share_to_every_operation() {
        let circumstances = Circumstances {
            cache: CacheState::Warm,
            durability: Durability::None,
        };
        let mut clock = Clock::new(ClockSpec::Slowed { share: 3.0 }, 0, circumstances);
        let start = clock.now();
        let done = loop {
            let now = monotonic_ns();
            if now - start >= 100_000 {
                break now;
            }
        };
        assert!(clock.after(OperationKind::Write, 1) - start >= (done - start) * 4);
    }

    #[test]
    fn the_real_clock_goes_forward_and_costs_something() {
        let clock = Clock::Monotonic;
        assert!(clock.now() <= clock.now());
        let cost = cost_ns(ClockSpec::Monotonic);
        assert!(cost > 0.0 && cost < 1e6, "{cost}");
    }
}

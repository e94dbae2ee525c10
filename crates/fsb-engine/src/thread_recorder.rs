//! The recorder of one thread while the clock runs, and the CPU time of threads and processes.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fsb_model::timeline::Timeline;
use fsb_model::trial::WorkerSpan;
use hdrhistogram::Histogram;
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};

use crate::clock::{Clock, OperationKind};
use crate::latency::{self, LatencyCounts};

/// One thread's clock, histogram and counters. All memory is reserved at construction.
#[derive(Debug)]
pub(crate) struct ThreadRecorder<'t> {
    pub(crate) rank: u32,
    clock: Clock,
    latencies: LatencyCounts,
    /// Durations of the syncs at the end of a sample.
    syncs: Histogram<u64>,
    bins: Bins,
    started: Option<u64>,
    /// The start of the current sample.
    interval_start: u64,
    running: bool,
    /// Nanoseconds of the samples that have ended.
    timed: u64,
    last: u64,
    operations: u64,
    bytes: u64,
    /// Nanoseconds after the start at which to stop.
    limit: u64,
    deadline: u64,
    /// The earlier one of the deadline and the end of the current bin.
    checkpoint: u64,
    /// Nanoseconds after the first start whose records are discarded.
    ramp: u64,
    /// CPU seconds of this thread when the ramp began.
    before_ramp: [f64; 2],
    /// CPU seconds, in user mode and in the kernel, of work while the clock was stopped.
    untimed: [f64; 2],
    failed: &'t AtomicBool,
    /// A counter of moved bytes that other threads may read.
    progress: Option<&'t AtomicU64>,
}

#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) span: WorkerSpan,
    /// Durations of its operations.
    pub(crate) histogram: Histogram<u64>,
    /// Durations of the syncs at the end of samples.
    pub(crate) syncs: Histogram<u64>,
    /// The timeline. Absent if the trial was short or its clock is fake.
    pub(crate) timeline: Option<Timeline>,
}

impl<'t> ThreadRecorder<'t> {
    /// Creates a recorder. `failed` is set when another thread has failed, and then this thread
    /// stops. Other threads read `progress`.
    pub(crate) fn new(
        rank: u32,
        clock: Clock,
        until_seconds: Option<f64>,
        failed: &'t AtomicBool,
        progress: Option<&'t AtomicU64>,
    ) -> ThreadRecorder<'t> {
        let limit = until_seconds.map_or(u64::MAX, |seconds| (seconds.max(0.0) * 1e9) as u64);
        ThreadRecorder {
            rank,
            clock,
            latencies: LatencyCounts::new(),
            syncs: latency::touched(),
            bins: Bins::new(),
            started: None,
            interval_start: 0,
            running: false,
            timed: 0,
            last: 0,
            operations: 0,
            bytes: 0,
            limit,
            deadline: 0,
            checkpoint: 0,
            ramp: 0,
            before_ramp: [0.0; 2],
            untimed: [0.0; 2],
            failed,
            progress,
        }
    }

    /// Returns the recorder with a ramp: the records of its first `seconds` are discarded, and then
    /// the clock starts again.
    pub(crate) fn with_ramp(self, seconds: Option<f64>) -> ThreadRecorder<'t> {
        ThreadRecorder {
            ramp: seconds.map_or(0, |seconds| (seconds.max(0.0) * 1e9) as u64),
            ..self
        }
    }

    /// Starts the clock, or restarts it after work that belongs to no operation.
    pub(crate) fn start(&mut self) {
        self.last = self.clock.now();
        self.bins.start(self.last);
        if !self.running {
            (self.interval_start, self.running) = (self.last, true);
        }
        if self.started.is_none() {
            self.started = Some(self.last);
            self.deadline =
                self.last
                    .saturating_add(if self.ramp > 0 { self.ramp } else { self.limit });
            if self.ramp > 0 {
                self.before_ramp = usage_of_thread();
            }
        }
        self.checkpoint = self.deadline.min(self.bins.end);
    }

    /// Runs work that is not measured, while the clock is stopped. Its CPU time is not counted.
    pub(crate) fn untimed<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let before = usage_of_thread();
        let result = act();
        let after = usage_of_thread();
        for (sum, (after, before)) in self.untimed.iter_mut().zip(after.into_iter().zip(before)) {
            *sum += after - before;
        }
        result
    }

    /// Returns the CPU seconds of work while the clock was stopped.
    pub(crate) fn untimed_usage(&self) -> [f64; 2] {
        self.untimed
    }

    /// Ends the sample that [`ThreadRecorder::start`] began. Returns the start of the sample.
    pub(crate) fn pause(&mut self) -> u64 {
        if self.running {
            self.timed += self.last - self.interval_start;
        }
        self.running = false;
        self.interval_start
    }

    /// Ends an operation and begins the next one. Returns whether to continue.
    #[inline(always)]
    pub(crate) fn lap(&mut self, kind: OperationKind, bytes: u64) -> bool {
        let started = self.last;
        self.tick(kind, bytes);
        self.complete(started, bytes)
    }

    /// Reads the clock after an operation of this kind.
    #[inline(always)]
    pub(crate) fn tick(&mut self, kind: OperationKind, bytes: u64) {
        self.last = self.clock.after(kind, bytes);
    }

    /// Runs a sync inside the clock. It does not count as an operation, but its duration is
    /// recorded.
    pub(crate) fn sync<E>(
        &mut self,
        bytes: u64,
        act: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        // The thread may have waited for others since it read the clock.
        let begun = self.clock.now().max(self.last);
        act()?;
        self.tick(OperationKind::Sync, bytes);
        self.syncs
            .saturating_record(self.last.saturating_sub(begun));
        Ok(())
    }

    /// Records an operation that began at `started` and ended when the clock was last read; returns
    /// whether to go on.
    #[inline(always)]
    pub(crate) fn complete(&mut self, started: u64, bytes: u64) -> bool {
        let ns = self.last - started;
        self.latencies.record(ns);
        self.operations += 1;
        self.bytes += bytes;
        if let Some(progress) = self.progress {
            progress.store(self.bytes, Ordering::Relaxed);
        }
        if self.last >= self.checkpoint {
            return self.pass_checkpoint(ns);
        }
        self.bins.record(self.last, ns);
        !self.failed()
    }

    /// Ends the current bin, the ramp or the sample with an operation that took `ns` nanoseconds.
    /// Returns whether to go on.
    #[cold]
    fn pass_checkpoint(&mut self, ns: u64) -> bool {
        if self.last >= self.bins.end {
            self.bins.pass(self.last);
        }
        self.bins.record(self.last, ns);
        if self.last >= self.deadline && self.ramp > 0 {
            self.end_ramp();
        }
        self.checkpoint = self.deadline.min(self.bins.end);
        !self.over()
    }

    /// Discards the records of the ramp, and starts the clock again.
    #[cold]
    fn end_ramp(&mut self) {
        self.ramp = 0;
        for ((sum, after), before) in self
            .untimed
            .iter_mut()
            .zip(usage_of_thread())
            .zip(self.before_ramp)
        {
            *sum += after - before;
        }
        self.forget();
        self.start();
    }

    /// Waits for a think time, at most until the time is up. It belongs to no operation but to the
    /// sample. Returns whether to continue.
    pub(crate) fn think(&mut self, ns: u64) -> bool {
        self.wait_within_time(self.last.saturating_add(ns))
    }

    /// Waits until the clock shows this time, at most until the time is up. Returns whether to
    /// continue.
    pub(crate) fn wait_within_time(&mut self, ns: u64) -> bool {
        self.resume_at(ns.min(self.deadline));
        !self.over()
    }

    /// Returns whether the records are still those of the ramp.
    pub(crate) fn is_ramping(&self) -> bool {
        self.ramp > 0
    }

    /// Waits until the clock shows this time and reads it: the next operation begins then. If the
    /// time has passed, the operation begins at once. Returns its start.
    pub(crate) fn resume_at(&mut self, ns: u64) -> u64 {
        self.wait_until(ns);
        self.last = self.clock.now().max(self.last);
        self.last
    }

    /// Returns whether the time is up, or another thread has failed.
    #[inline]
    pub(crate) fn over(&self) -> bool {
        (self.last >= self.deadline && self.ramp == 0) || self.failed()
    }

    /// Returns whether the time is up, by a new reading of the clock. For threads that wait and
    /// read it no other way.
    pub(crate) fn is_late(&self) -> bool {
        self.started.is_some() && self.clock.now() >= self.deadline
    }

    /// Returns the current time without counting a reading for an operation.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns whether the clock is the fake one.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.clock, Clock::Fake(_))
    }

    /// Waits until the clock shows this time. The fake clock advances to it at once. If the time
    /// has passed, returns at once.
    pub(crate) fn wait_until(&mut self, ns: u64) {
        self.clock.pass_until(ns);
        while self.clock.now() < ns {
            let time = Timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as i64,
            };
            // If a signal wakes the thread, it checks the time again.
            let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
        }
    }

    /// Advances the fake clock to `ns`, because a thread slept until then.
    pub(crate) fn pass_until(&mut self, ns: u64) {
        self.clock.pass_until(ns);
    }

    /// Returns the last clock reading.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns whether another thread has failed.
    #[inline]
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns the bytes moved so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Discards all records so far, which were warm-up.
    pub(crate) fn forget(&mut self) {
        self.latencies.reset();
        self.syncs.reset();
        self.bins.clear();
        (self.operations, self.bytes, self.started) = (0, 0, None);
        (self.timed, self.running) = (0, false);
    }

    pub(crate) fn finish(self) -> Recording {
        let start_ns = self.started.unwrap_or(self.last);
        let stop_ns = self.last.max(start_ns);
        let span = WorkerSpan {
            rank: self.rank,
            start_ns,
            stop_ns,
            // A thread that never pauses is timed from end to end.
            timed_ns: if self.timed > 0 {
                self.timed
            } else {
                stop_ns - start_ns
            },
            operations: self.operations,
            bytes: self.bytes,
        };
        let timeline = self
            .bins
            .finish()
            .filter(|_| !matches!(self.clock, Clock::Fake(_)));
        Recording {
            span,
            histogram: self.latencies.into_histogram(),
            syncs: self.syncs,
            timeline,
        }
    }
}

/// The initial length of a bin in nanoseconds.
const BIN_NS: u64 = 20_000_000;
/// The number of bins: 20 s at the initial length.
const MOST: usize = 1024;
/// The fewest bins of a timeline. A shorter trial has none.
const FEWEST: usize = 10;

/// The bins of one thread.
///
/// All memory is reserved and touched before the clock starts. If a trial fills the bins, pairs of
/// bins are merged and the length doubles, so that a trial of any length keeps between half and all
/// of the bins.
#[derive(Debug)]
struct Bins {
    bins: Box<[Bin]>,
    /// Nanoseconds of a bin.
    width: u64,
    /// The number of the first bin, counted from the clock's zero.
    first: u64,
    /// The place of the current bin, what it holds beside [`Bins::bins`], and its end.
    at: usize,
    current: Bin,
    end: u64,
    /// The measured time that is not yet counted in a bin: its start, and its end at the last
    /// record.
    since: u64,
    until: u64,
    began: bool,
    /// The result. It is reserved because a worker's thread allocates nothing once the clock has
    /// started.
    rates: Vec<Option<u64>>,
    longest_us: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Bin {
    operations: u64,
    longest_ns: u64,
    /// Nanoseconds of the bin that were measured.
    timed: u64,
}

impl Bin {
    fn add(&mut self, other: Bin) {
        self.operations += other.operations;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.timed += other.timed;
    }
}

const EMPTY: Bin = Bin {
    operations: 0,
    longest_ns: 0,
    timed: 0,
};

impl Bins {
    /// Returns empty bins whose memory was touched.
    fn new() -> Bins {
        // Zeroed memory alone would not be backed by pages yet.
        let bins = vec![
            Bin {
                operations: u64::MAX,
                ..EMPTY
            };
            MOST
        ]
        .into_boxed_slice();
        let (rates, longest_us) = (Vec::with_capacity(MOST), Vec::with_capacity(MOST));
        let mut bins = Bins {
            bins,
            width: BIN_NS,
            first: 0,
            at: 0,
            current: EMPTY,
            end: u64::MAX,
            since: 0,
            until: 0,
            began: false,
            rates,
            longest_us,
        };
        bins.clear();
        bins
    }

    /// Discards everything.
    fn clear(&mut self) {
        self.bins.fill(EMPTY);
        (self.width, self.at, self.end, self.began) = (BIN_NS, 0, u64::MAX, false);
        (self.current, self.since, self.until) = (EMPTY, 0, 0);
    }

    /// Starts or restarts the clock.
    fn start(&mut self, now: u64) {
        if !self.began {
            self.began = true;
            self.first = now / self.width;
            self.end = (self.first + 1) * self.width;
        }
        self.count_until(self.until);
        if now >= self.end {
            self.move_to(now);
        }
        (self.since, self.until) = (now, now);
    }

    /// Records the end of an operation that took `nanoseconds`, in the current bin.
    #[inline(always)]
    fn record(&mut self, now: u64, nanoseconds: u64) {
        self.current.operations += 1;
        self.current.longest_ns = self.current.longest_ns.max(nanoseconds);
        self.until = now;
    }

    /// Counts the time up to `now` in the current bin.
    fn count_until(&mut self, now: u64) {
        self.current.timed += now.saturating_sub(self.since);
        self.since = now;
    }

    /// Counts measured time up to the bin that contains `now`.
    fn pass(&mut self, now: u64) {
        while now >= self.end {
            self.count_until(self.end);
            self.move_to(self.end);
        }
        self.until = now;
    }

    /// Adds the current bin to its place.
    fn store(&mut self) {
        let current = std::mem::replace(&mut self.current, EMPTY);
        self.bins[self.at].add(current);
    }

    /// Makes the bin that contains `now` the current one.
    fn move_to(&mut self, now: u64) {
        self.store();
        let mut place = now / self.width - self.first;
        while place as usize >= MOST {
            self.halve();
            place = now / self.width - self.first;
        }
        self.at = place as usize;
        self.end = (self.first + place + 1) * self.width;
    }

    /// Merges pairs of bins. Each bin begins at a multiple of its length.
    fn halve(&mut self) {
        let odd = (self.first % 2) as usize;
        for at in 0..MOST {
            let bin = std::mem::replace(&mut self.bins[at], EMPTY);
            self.bins[(at + odd) / 2].add(bin);
        }
        self.at = (self.at + odd) / 2;
        self.first /= 2;
        self.width *= 2;
        self.end = (self.first + self.at as u64 + 1) * self.width;
    }

    /// Returns the timeline, or `None` for a short trial.
    fn finish(mut self) -> Option<Timeline> {
        self.count_until(self.until);
        self.store();
        let bins = &self.bins[..=self.at];
        if !self.began || bins.len() < FEWEST {
            return None;
        }
        // A bin of which less than half was measured has no rate.
        self.rates.extend(bins.iter().map(|bin| {
            (bin.timed * 2 >= self.width)
                .then(|| (bin.operations as f64 * 1e9 / bin.timed as f64).round() as u64)
        }));
        self.longest_us
            .extend(bins.iter().map(|bin| bin.longest_ns.div_ceil(1000)));
        let Bins {
            rates, longest_us, ..
        } = self;
        Some(Timeline {
            start_ns: self.first * self.width,
            bin_ns: self.width,
            rates,
            longest_us,
            device: None,
        })
    }
}

/// Returns the CPU seconds of this process so far, in user mode and in the kernel.
pub(crate) fn usage_of_process() -> [f64; 2] {
    usage(libc::RUSAGE_SELF)
}

/// Returns the CPU seconds of this process and of its children that have ended.
pub(crate) fn usage_with_children() -> f64 {
    [usage(libc::RUSAGE_SELF), usage(libc::RUSAGE_CHILDREN)]
        .iter()
        .flatten()
        .sum()
}

/// Returns the CPU seconds of this thread so far, in user mode and in the kernel.
fn usage_of_thread() -> [f64; 2] {
    usage(libc::RUSAGE_THREAD)
}

fn usage(whom: libc::c_int) -> [f64; 2] {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole rusage, and zeros are a valid one should the call
    // fail.
    let usage = unsafe {
        libc::getrusage(whom, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
}

#[cfg(test)]
mod tests {
    use fsb_model::{CacheState, Durability};
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Circumstances;
    use crate::task::ClockSpec;

    fn recorder(failed: &AtomicBool, until: Option<f64>) -> ThreadRecorder<'_> {
        let circumstances = Circumstances {
            cache: CacheState::Warm,
            durability: Durability::None,
        };
        ThreadRecorder::new(
            3,
            Clock::new(
                ClockSpec::Fake {
                    seed: 1,
                    slowdown: 1.0,
                    noise: 0.05,
                    sample: 0,
                },
                3,
                circumstances,
            ),
            until,
            failed,
            None,
        )
    }

    #[test]
    fn every_operation_is_counted_once_and_the_span_covers_them() {
        let failed = AtomicBool::new(false);
        let mut recorder = recorder(&failed, None);
        recorder.start();
        let more = (0..500).all(|_| recorder.lap(OperationKind::Read, 4096));
        assert!(more);
        let Recording {
            span, histogram, ..
        } = recorder.finish();
        assert_eq!(
            (span.rank, span.operations, span.bytes),
            (3, 500, 500 * 4096)
        );
        assert_eq!(histogram.len(), 500);
        let sum = histogram.mean() * 500.0;
        assert!((sum / (span.stop_ns - span.start_ns) as f64 - 1.0).abs() < 0.01);
    }

    #[test]
    fn time_and_others_failures_end_it() {
        let failed = AtomicBool::new(false);
        let mut short = recorder(&failed, Some(1e-5));
        short.start();
        let laps = (0..1000)
            .take_while(|_| short.lap(OperationKind::Read, 4096))
            .count();
        assert!((5..50).contains(&laps), "{laps}");
        let mut recorder = recorder(&failed, None);
        recorder.start();
        failed.store(true, Ordering::Relaxed);
        assert!(!recorder.lap(OperationKind::Read, 4096));
    }

    #[test]
    fn the_records_of_the_ramp_are_discarded_and_the_time_begins_after_it() {
        let failed = AtomicBool::new(false);
        let mut recorder = recorder(&failed, Some(1e-4)).with_ramp(Some(2e-4));
        recorder.start();
        let begun = recorder.last();
        while recorder.lap(OperationKind::Read, 4096) {}
        let total = recorder.last() - begun;
        let Recording {
            span, histogram, ..
        } = recorder.finish();
        assert!(total >= 300_000, "{total}");
        assert!(
            (100_000..150_000).contains(&(span.stop_ns - span.start_ns)),
            "{span:?}"
        );
        assert_eq!(
            (histogram.len(), span.bytes),
            (span.operations, span.operations * 4096)
        );
    }

    #[test]
    fn a_think_time_belongs_to_the_sample_but_to_no_operation() {
        let failed = AtomicBool::new(false);
        let mut recorder = recorder(&failed, Some(0.01));
        recorder.start();
        assert!(recorder.lap(OperationKind::Read, 4096) && recorder.think(1_000_000));
        assert!(recorder.lap(OperationKind::Read, 4096) && !recorder.think(u64::MAX));
        let Recording {
            span, histogram, ..
        } = recorder.finish();
        assert_eq!((span.operations, span.timed_ns), (2, 10_000_000));
        assert!(histogram.max() < 500_000, "{}", histogram.max());
    }

    #[test]
    fn a_sync_is_timed_and_no_operation() {
        let failed = AtomicBool::new(false);
        let mut recorder = recorder(&failed, None);
        recorder.start();
        recorder.lap(OperationKind::Write, 4096);
        let before = recorder.last();
        recorder.sync(4096, || Ok::<(), ()>(())).unwrap();
        recorder.sync(4096, || Err(())).unwrap_err();
        let took = recorder.last() - before;
        let Recording {
            span,
            histogram,
            syncs,
            ..
        } = recorder.finish();
        assert_eq!((span.operations, histogram.len(), syncs.len()), (1, 1, 1));
        assert!((syncs.mean() / took as f64 - 1.0).abs() < 0.01);
    }

    #[test]
    fn pauses_are_not_timed() {
        let (failed, progress) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut recorder = ThreadRecorder {
            progress: Some(&progress),
            ..recorder(&failed, None)
        };
        for _ in 0..3 {
            recorder.start();
            assert!(recorder.lap(OperationKind::Read, 4096));
            recorder.pause();
            recorder.tick(OperationKind::Sync, 0);
        }
        assert_eq!(progress.load(Ordering::Relaxed), 3 * 4096);
        let Recording {
            span, histogram, ..
        } = recorder.finish();
        assert!((histogram.mean() * 3.0 / span.timed_ns as f64 - 1.0).abs() < 0.01);
        assert!(span.stop_ns - span.start_ns > 10 * span.timed_ns);
    }

    #[test]
    fn a_lane_that_never_started_spans_nothing() {
        let failed = AtomicBool::new(false);
        let span = recorder(&failed, None).finish().span;
        assert_eq!((span.start_ns, span.stop_ns), (0, 0));
    }

    const MS: u64 = 1_000_000;

    /// Records an operation as the recorder does.
    fn record(bins: &mut Bins, now: u64, ns: u64) {
        if now >= bins.end {
            bins.pass(now);
        }
        bins.record(now, ns);
    }

    #[test]
    fn rates_follow_the_clock_and_pauses_are_no_stalls() {
        let mut bins = Bins::new();
        let mut now = 7 * BIN_NS + BIN_NS / 2;
        bins.start(now);
        // A thousand a second for 200 ms, then 100 ms without an operation, then one operation of
        // 90 ms.
        for _ in 0..200 {
            now += MS;
            record(&mut bins, now, MS);
        }
        now += 100 * MS;
        bins.start(now);
        now += 95 * MS;
        record(&mut bins, now, 95 * MS);
        let line = bins.finish().unwrap();
        assert_eq!(
            (line.start_ns, line.bin_ns, line.len()),
            (7 * BIN_NS, BIN_NS, 21)
        );
        // An operation belongs to the bin in which it ends.
        assert_eq!((line.rates[0], line.rates[10]), (Some(900), Some(1100)));
        assert_eq!(line.rates[1..10], [Some(1000); 9]);
        assert_eq!(line.rates[11..15], [None; 4]);
        assert_eq!(line.rates[15..20], [Some(0); 5]);
        assert_eq!((line.rates[20], line.longest_us[20]), (None, 95_000));
    }

    #[test]
    fn short_samples_have_no_timeline() {
        let mut bins = Bins::new();
        bins.start(0);
        (1..=9).for_each(|at| record(&mut bins, at * BIN_NS - 1, MS));
        assert_eq!(bins.finish(), None);
        assert_eq!(Bins::new().finish(), None);
    }

    proptest! {
        /// However long it takes and wherever it begins, no operation and no time is lost.
        #[test]
        fn nothing_is_lost(begin in 0u64..1 << 40, steps in prop::collection::vec(1u64..2_000_000_000, 20..400)) {
            let mut bins = Bins::new();
            let mut now = begin;
            bins.start(now);
            for step in &steps {
                now += step;
                record(&mut bins, now, *step);
            }
            bins.count_until(now);
            bins.store();
            let (operations, timed) = bins.bins.iter().fold((0, 0), |sum, bin| (sum.0 + bin.operations, sum.1 + bin.timed));
            prop_assert_eq!(operations, steps.len() as u64);
            prop_assert_eq!(timed, now - begin);
            if let Some(line) = bins.finish() {
                prop_assert!(line.start_ns <= begin && begin < line.start_ns + line.bin_ns);
                let last = line.start_ns + line.len() as u64 * line.bin_ns;
                prop_assert!(last - line.bin_ns <= now && now < last);
                let longest = steps.iter().max().unwrap().div_ceil(1000);
                prop_assert_eq!(line.longest_us.iter().max(), Some(&longest));
            }
        }
    }
}

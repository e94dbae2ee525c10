//! Threads that start together.
//!
//! All threads are spawned and prepared before the step reports that it is ready: files are open,
//! memory is reserved and touched. Then the threads sleep until the start signal. From then on they
//! share only a flag that is set when a thread fails, and, where a sync ends the sample, a counter
//! from which the first thread learns that all are done.

use std::collections::BTreeMap;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use fsb_model::timeline::Timeline;
use fsb_model::trial::WorkerSpan;
use hdrhistogram::Histogram;

use crate::clock::{self, Circumstances, Clock};
use crate::error::EngineError;
use crate::io_loop::OpenFileSet;
use crate::latency;
use crate::profile::Profile;
use crate::rendezvous::StartBarrier;
use crate::task::{self, ClockSpec, Context, Gate, Live, Measurement, Ready};
use crate::thread_recorder::{self, Recording, ThreadRecorder};

/// The name, among operations, of the syncs at the end of a sample.
pub(crate) const SYNC: &str = "sync-at-end";

/// The work of a job's threads.
pub(crate) trait ThreadJob: Sync {
    /// The state of one thread. It never leaves its thread.
    type ThreadState;

    /// The result of one thread besides its recorder.
    type Report: Send;

    /// Returns the files that each thread accesses through its own client of a network file system.
    /// Returns `None` if the work uses one client alone
    /// ([`Job::one_client`](crate::workload::Job::one_client)).
    fn set(&self) -> Option<&OpenFileSet> {
        None
    }

    /// Creates the state. Called in the thread itself, before the clock starts.
    fn init(&self, rank: u32) -> Result<Self::ThreadState, EngineError>;

    /// Does the thread's share against the clock: calls [`ThreadRecorder::start`] first, then
    /// [`ThreadRecorder::lap`] after each operation.
    fn run(
        &self,
        state: &mut Self::ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError>;

    /// Returns a counter of the bytes that the thread has moved, for other threads to read.
    fn progress(&self, _rank: u32) -> Option<&AtomicU64> {
        None
    }

    /// Returns the progress of all threads. An idle thread asks for it while they run.
    fn live_progress(&self) -> Option<Live> {
        None
    }

    /// Returns the thread's report, once it is done.
    fn report(&self, state: Self::ThreadState) -> Self::Report;

    /// Encodes the report as text, if a process must send it to its parent.
    fn encode_report(&self, _report: Self::Report) -> Option<String> {
        None
    }

    /// Decodes the report that a process sent.
    fn decode_report(&self, _text: &str) -> Result<Option<Self::Report>, EngineError> {
        Ok(None)
    }

    /// Returns whether [`ThreadJob::sync_at_end`] has anything to do.
    fn syncs_at_end(&self) -> bool {
        false
    }

    /// Ends the sample with a sync. Called in the first thread when all threads are done, with the
    /// bytes of all.
    fn sync_at_end(
        &self,
        _state: &mut Self::ThreadState,
        _bytes: u64,
        _recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The results of the threads.
pub(crate) struct WorkerOutcome<R> {
    spans: Vec<WorkerSpan>,
    pub(crate) histogram: Histogram<u64>,
    pub(crate) syncs: Histogram<u64>,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) reports: Vec<R>,
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    clock_cost_ns: f64,
}

impl<R> WorkerOutcome<R> {
    /// Returns an outcome without any recording.
    pub(crate) fn new(clock_cost_ns: f64) -> WorkerOutcome<R> {
        let (spans, reports) = (Vec::new(), Vec::new());
        WorkerOutcome {
            spans,
            histogram: latency::empty(),
            syncs: latency::empty(),
            timeline: None,
            reports,
            user_seconds: 0.0,
            system_seconds: 0.0,
            clock_cost_ns,
        }
    }

    /// Adds the recording of a thread.
    pub(crate) fn add(&mut self, recording: Recording) {
        let Recording {
            span,
            histogram,
            syncs,
            timeline,
        } = recording;
        self.spans.push(span);
        self.histogram
            .add(histogram)
            .expect("histograms of one size add up");
        self.syncs
            .add(syncs)
            .expect("histograms of one size add up");
        match (&mut self.timeline, timeline) {
            (Some(all), Some(one)) => all.join(one),
            (all @ None, one) => *all = one,
            (Some(_), None) => {}
        }
    }

    /// Replaces CPU times if the clock is fake. They would be the only numbers that differ from run
    /// to run.
    pub(crate) fn simulate_usage(mut self, clock: ClockSpec) -> WorkerOutcome<R> {
        if let ClockSpec::Fake { .. } = clock {
            let busy: u64 = self
                .spans
                .iter()
                .map(|span| span.stop_ns - span.start_ns)
                .sum();
            self.user_seconds = busy as f64 * 0.1e-9;
            self.system_seconds = busy as f64 * 0.5e-9;
        }
        self
    }

    /// Returns the outcome as the answer to the task.
    pub(crate) fn measurement(&self, operation: &str) -> Measurement {
        let mut latency =
            BTreeMap::from([(operation.to_owned(), latency::encode(&self.histogram))]);
        if !self.syncs.is_empty() {
            latency.insert(SYNC.to_owned(), latency::encode(&self.syncs));
        }
        Measurement {
            workers: self.spans.clone(),
            timed_ns: WorkerSpan::elapsed_ns(&self.spans),
            operations: self.spans.iter().map(|span| span.operations).sum(),
            bytes: self.spans.iter().map(|span| span.bytes).sum(),
            stonewall: None,
            latency,
            user_seconds: self.user_seconds,
            system_seconds: self.system_seconds,
            resident_after: None,
            file_bytes_after: 0,
            clock_cost_ns: self.clock_cost_ns,
            samples: Vec::new(),
            cycle_spans_ns: Vec::new(),
            rates: BTreeMap::new(),
            counts: BTreeMap::new(),
            timeline: self.timeline.clone(),
            printed: BTreeMap::new(),
            output: None,
            peak_memory: None,
            shell_start: None,
        }
    }
}

/// Returns the measurement of operations that the agent performed itself, one after the other: the
/// duration of each, and the CPU seconds of all in user mode and in the kernel.
pub fn measured_by_agent(
    operation: &str,
    durations: &[Duration],
    cpu_seconds: [f64; 2],
) -> Measurement {
    let mut outcome = WorkerOutcome::<()>::new(clock::cost_ns(ClockSpec::Monotonic));
    let nanoseconds = durations.iter().map(|time| time.as_nanos() as u64);
    nanoseconds
        .clone()
        .for_each(|ns| outcome.histogram.saturating_record(ns));
    let (timed_ns, stop_ns) = (nanoseconds.sum(), Clock::Monotonic.now());
    let operations = durations.len() as u64;
    outcome.spans.push(WorkerSpan {
        rank: 0,
        start_ns: stop_ns.saturating_sub(timed_ns),
        stop_ns,
        timed_ns,
        operations,
        bytes: 0,
    });
    [outcome.user_seconds, outcome.system_seconds] = cpu_seconds;
    outcome.measurement(operation)
}

/// Runs the job: starts its threads, waits at the gate, lets them run, and collects their
/// recordings. If the job is `helped`, threads of the C library make its calls, so the descriptor
/// table stays shared.
pub(crate) fn run<C: ThreadJob>(
    job: &C,
    context: &Context,
    profile: &Profile,
    ready: Ready,
    helped: bool,
    gate: &mut dyn Gate,
) -> Result<WorkerOutcome<C::Report>, EngineError> {
    let clock_cost_ns = clock::cost_ns(context.clock);
    let until = context.until_seconds.filter(|_| profile.divisible);
    let ramp = context.ramp_seconds.filter(|_| profile.divisible);
    let circumstances = Circumstances {
        cache: profile.cache,
        durability: profile.durability,
    };
    let shared = ThreadSync::new(profile.threads, context.ends.clone().unwrap_or_default());
    let (results, before) = thread::scope(|scope| {
        let mut threads = Vec::new();
        for rank in 0..profile.threads {
            let shared = &shared;
            let clock = Clock::new(context.clock, rank, circumstances);
            match thread::Builder::new()
                .name(format!("fsb-{rank}"))
                .spawn_scoped(scope, move || {
                    let own_table = !helped && own_descriptor_table();
                    let recorder =
                        ThreadRecorder::new(rank, clock, until, &shared.failed, job.progress(rank));
                    thread_main(job, shared, recorder.with_ramp(ramp), own_table)
                }) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.start.abort();
                    let what = format!("start thread {} of {}", rank + 1, profile.threads);
                    let refusal = EngineError::spawn(what, &error);
                    return (vec![Err(refusal)], [0.0; 2]);
                }
            }
        }
        let all_ready = shared.start.all_ready(profile.threads, || false);
        let opened = if all_ready { gate.ready(ready) } else { Ok(()) };
        let before = thread_recorder::usage_of_process();
        if all_ready && opened.is_ok() {
            shared.start.run(profile.threads, || false);
            tell(job, gate, || {
                threads.iter().all(thread::ScopedJoinHandle::is_finished)
            });
        } else {
            shared.start.abort();
        }
        let mut results: Vec<_> = opened.err().map(Err).into_iter().collect();
        for thread in threads {
            results.push(
                thread
                    .join()
                    .unwrap_or_else(|payload| panic::resume_unwind(payload)),
            );
        }
        (results, before)
    });
    let mut outcome = WorkerOutcome::new(clock_cost_ns);
    let (mut used, mut untimed) = ([0.0f64; 2], [0.0; 2]);
    for result in results {
        let Some(recorded) = result? else { continue };
        for mode in [0, 1] {
            // The thread that ends last has seen the CPU time of all.
            used[mode] = used[mode].max(recorded.usage[mode] - before[mode]);
            untimed[mode] += recorded.untimed[mode];
        }
        outcome.add(recorded.recording);
        outcome.reports.push(recorded.report);
    }
    [outcome.user_seconds, outcome.system_seconds] =
        [0, 1].map(|mode| (used[mode] - untimed[mode]).max(0.0));
    Ok(outcome.simulate_usage(context.clock))
}

/// Reports the job's progress at intervals until it is done. The working threads take no part in
/// it.
fn tell<C: ThreadJob>(job: &C, gate: &mut dyn Gate, done: impl Fn() -> bool) {
    let (mut slept, nap) = (Duration::ZERO, Duration::from_millis(10));
    // Without live progress the loop ends at once and the caller just joins the threads.
    while job.live_progress().is_some() && !done() {
        thread::sleep(nap);
        slept += nap;
        if slept >= task::EVERY {
            slept = Duration::ZERO;
            job.live_progress()
                .into_iter()
                .for_each(|live| gate.tell(live));
        }
    }
}

struct Recorded<R> {
    recording: Recording,
    report: R,
    /// CPU seconds of the process when the thread was done. Closing its files and freeing its
    /// memory come later and are not counted.
    usage: [f64; 2],
    /// CPU seconds of the thread while its clock was stopped.
    untimed: [f64; 2],
}

/// The main function of one thread.
fn thread_main<C: ThreadJob>(
    job: &C,
    shared: &ThreadSync,
    mut recorder: ThreadRecorder<'_>,
    own_table: bool,
) -> Result<Option<Recorded<C::Report>>, EngineError> {
    if recorder.rank == 0 {
        shared.first.get_or_init(thread::current);
    }
    let mut ready_guard = ReadyGuard {
        shared,
        ready: false,
    };
    job.set()
        .map_or(Ok(()), |set| set.use_client(recorder.rank, own_table))?;
    let mut state = job.init(recorder.rank)?;
    ready_guard.ready = true;
    drop(ready_guard);
    if !shared.start.wait(None) {
        return Ok(None);
    }
    // Counts this thread as done, however it ends. A panic must not leave the first thread waiting.
    let done_guard = DoneGuard {
        shared,
        rank: recorder.rank,
    };
    let mut result = job.run(&mut state, &mut recorder);
    if result.is_err() {
        shared.failed.store(true, Ordering::Relaxed);
    }
    shared.bytes.fetch_add(recorder.bytes(), Ordering::Relaxed);
    drop(done_guard);
    if recorder.rank == 0 && job.syncs_at_end() {
        shared.wait_for_others();
        if result.is_ok() && !shared.failed.load(Ordering::Relaxed) {
            result = job.sync_at_end(
                &mut state,
                shared.bytes.load(Ordering::Acquire),
                &mut recorder,
            );
        }
    }
    result?;
    let (usage, untimed) = (
        thread_recorder::usage_of_process(),
        recorder.untimed_usage(),
    );
    Ok(Some(Recorded {
        recording: recorder.finish(),
        report: job.report(state),
        usage,
        untimed,
    }))
}

/// Gives this thread its own descriptor table. In a shared one each call that takes a descriptor
/// changes the file's user count twice. A single-threaded program is spared these two atomic
/// operations, and several threads would contend for them. Returns false if the kernel refuses.
fn own_descriptor_table() -> bool {
    // SAFETY: existing descriptors stay valid in the copy under their numbers. Those that this
    // thread opens from here on never leave it, because the state of a thread stays in it. If the
    // kernel refuses, the work is a little slower and still correct.
    unsafe { libc::unshare(libc::CLONE_FILES) == 0 }
}

/// The state that the threads share.
#[derive(Debug)]
struct ThreadSync {
    start: StartBarrier,
    /// Whether all threads end: one has failed, or the measurement ends early.
    failed: Arc<AtomicBool>,
    /// Threads that have not finished their work.
    working: AtomicU32,
    /// Bytes moved by the threads that have finished.
    bytes: AtomicU64,
    /// The first thread, which waits for the others if a sync ends the sample.
    first: OnceLock<Thread>,
}

impl ThreadSync {
    fn new(threads: u32, failed: Arc<AtomicBool>) -> ThreadSync {
        ThreadSync {
            start: StartBarrier::default(),
            failed,
            working: AtomicU32::new(threads),
            bytes: AtomicU64::new(0),
            first: OnceLock::new(),
        }
    }

    fn wait_for_others(&self) {
        while self.working.load(Ordering::Acquire) > 0 {
            thread::park();
        }
    }
}

/// Reports, when dropped, whether a thread is ready, also after a panic.
struct ReadyGuard<'s> {
    shared: &'s ThreadSync,
    ready: bool,
}

impl Drop for ReadyGuard<'_> {
    fn drop(&mut self) {
        self.shared.start.answer(self.ready);
    }
}

/// Counts a thread as done when dropped.
struct DoneGuard<'s> {
    shared: &'s ThreadSync,
    rank: u32,
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

#[cfg(test)]
mod tests {
    use fsb_model::WorkloadSpec;

    use super::*;
    use crate::clock::OperationKind;
    use crate::task::{Step, Task};
    use crate::workload;
    use crate::workload::testing::{SIZING, task};

    /// The behaviour of a thread in the test.
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Works,
        CannotBeEquipped,
        Fails,
    }

    struct Fated(Vec<Fate>);

    impl ThreadJob for Fated {
        type ThreadState = u32;
        type Report = u32;

        fn init(&self, rank: u32) -> Result<u32, EngineError> {
            match self.0[rank as usize] {
                Fate::CannotBeEquipped => Err(EngineError::new("no state")),
                _ => Ok(rank),
            }
        }

        fn run(
            &self,
            state: &mut u32,
            recorder: &mut ThreadRecorder<'_>,
        ) -> Result<(), EngineError> {
            recorder.start();
            if self.0[*state as usize] == Fate::Fails {
                return Err(EngineError::new("broken"));
            }
            // With a failing thread, the others run until they see the failure.
            let laps = if self.0.contains(&Fate::Fails) {
                u64::MAX
            } else {
                10
            };
            (0..laps)
                .take_while(|_| recorder.lap(OperationKind::Read, 1))
                .for_each(drop);
            Ok(())
        }

        fn report(&self, state: u32) -> u32 {
            state
        }

        fn syncs_at_end(&self) -> bool {
            true
        }

        fn sync_at_end(
            &self,
            _state: &mut u32,
            bytes: u64,
            recorder: &mut ThreadRecorder<'_>,
        ) -> Result<(), EngineError> {
            assert_eq!(
                bytes,
                10 * self.0.len() as u64,
                "all threads are done before the end"
            );
            recorder.tick(OperationKind::Sync, bytes);
            Ok(())
        }
    }

    struct Counted(u32);

    impl Gate for Counted {
        fn ready(&mut self, _ready: Ready) -> Result<(), EngineError> {
            self.0 += 1;
            Ok(())
        }
    }

    fn run_fated(fates: &[Fate], gate: &mut Counted) -> Result<WorkerOutcome<u32>, EngineError> {
        let params = BTreeMap::from([("threads".to_owned(), fates.len().into())]);
        let spec = WorkloadSpec::new("read", params);
        let profile = workload::parse(&spec, &SIZING).unwrap().profile();
        let clock = ClockSpec::Fake {
            seed: 1,
            slowdown: 1.0,
            noise: 0.05,
            sample: 0,
        };
        let task = Task {
            clock,
            ..task(Step::Measure, &spec, "/nowhere".as_ref(), 1)
        };
        let context = Context::new(&task).unwrap();
        run(
            &Fated(fates.to_vec()),
            &context,
            &profile,
            Ready::default(),
            false,
            gate,
        )
    }

    #[test]
    fn operations_of_the_agent_are_one_worker() {
        let durations = [2, 3].map(Duration::from_millis);
        let measured = measured_by_agent("fsck", &durations, [0.5, 0.25]);
        assert_eq!(
            (
                measured.operations,
                measured.timed_ns,
                measured.workers.len()
            ),
            (2, 5_000_000, 1)
        );
        assert_eq!(
            (measured.user_seconds, measured.system_seconds),
            (0.5, 0.25)
        );
        assert_eq!(latency::count(&measured.latency["fsck"]), Some(2));
    }

    #[test]
    fn the_first_thread_ends_the_sample_when_all_are_done() {
        for _ in 0..50 {
            let mut gate = Counted(0);
            let outcome = run_fated(&[Fate::Works; 4], &mut gate).unwrap();
            assert_eq!((gate.0, outcome.reports.clone()), (1, vec![0, 1, 2, 3]));
            let measured = outcome.measurement("read");
            assert_eq!((measured.operations, measured.bytes), (40, 40));
            let stops: Vec<u64> = measured
                .workers
                .iter()
                .map(|worker| worker.stop_ns)
                .collect();
            assert!(
                stops[1..].iter().all(|&stop| stop < stops[0]),
                "the sync is on the first thread's clock"
            );
        }
    }

    #[test]
    fn who_cannot_be_equipped_keeps_the_gate_shut() {
        let mut gate = Counted(0);
        let error = run_fated(
            &[Fate::Works, Fate::CannotBeEquipped, Fate::Works],
            &mut gate,
        )
        .err()
        .unwrap();
        assert_eq!((gate.0, error.message.as_str()), (0, "no state"));
    }

    #[test]
    fn one_failure_stops_all() {
        for failing in 0..3 {
            let mut fates = [Fate::Works; 3];
            fates[failing] = Fate::Fails;
            let error = run_fated(&fates, &mut Counted(0)).err().unwrap();
            assert_eq!(error.message, "broken");
        }
    }
}

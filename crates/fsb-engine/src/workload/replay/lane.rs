//! One thread of a replay.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fsb_trace::{Call, CallKind, Totals};
use rustix::thread::futex;
use rustix::thread::futex::Flags;
use rustix::time::Timespec;

use super::calls::{Batch, ReplayStep};
use super::calls::{Buffers, Target};
use super::feeder::Feeder;
use super::options::Options;
use crate::context::Context;
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;
use crate::{EngineError, clock};

/// A thread sleeps through longer think times until this many nanoseconds before their end. From then on it polls the
/// clock, because the recorded program was on a processor.
const AWAKE_NS: u64 = 80_000;

/// Buffers of a lane, each of [`largest`] bytes.
pub(super) const BUFFERS: u64 = 2;

/// Returns the bytes of the largest call, limited to the bytes that a replay moves.
pub(super) fn largest(totals: &Totals) -> usize {
    totals.largest.clamp(4096, super::calls::MOST_MOVED).next_multiple_of(4096) as usize
}

/// Returns the bytes that a replayed call moved. If no call is made, `result` is the recorded one and may be any
/// number, so it is limited to the most that Linux moves in one call (0x7ffff000 bytes, write(2)).
fn moved_bytes(call: &Call, result: i64) -> u64 {
    const LARGEST: u64 = 0x7fff_f000;
    Call { result, ..*call }.moved().min(LARGEST)
}

/// The report of one thread.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Calls with another result than the recorded one.
    pub(super) others: u64,
    pub(super) first: Option<Other>,
}

/// A call with another result.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) start_ns: u64,
    kind: CallKind,
    name: Box<str>,
    recorded: i64,
    result: i64,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A trace may contain any number, and not every number has a negative.
        let said = |result: i64| match result.checked_neg().and_then(|number| i32::try_from(number).ok()) {
            Some(number) if number > 0 => fsb_model::errno::describe(number),
            _ => result.to_string(),
        };
        write!(f, "{}{}: {} instead of {}", self.kind.name(), self.name, said(self.result), said(self.recorded))
    }
}

/// All threads of a replay.
pub(super) struct Replay<'r> {
    target: &'r dyn Target,
    feeder: &'r Feeder,
    turns: Turns,
    pace: f64,
    largest: usize,
    context: &'r Context,
}

impl<'r> Replay<'r> {
    pub(super) fn new(
        target: &'r dyn Target,
        feeder: &'r Feeder,
        options: &Options,
        context: &'r Context,
        totals: &Totals,
    ) -> Replay<'r> {
        let turns = Turns::new(totals.lanes);
        Replay { target, feeder, turns, pace: options.pace.0, largest: largest(totals), context }
    }

    /// Returns the time at which a think time of `ns` nanoseconds since `from_ns` ends, according to the pace.
    fn thought(&self, from_ns: u64, ns: u64) -> u64 {
        from_ns.saturating_add((ns as f64 * self.pace) as u64)
    }

    /// Waits until the think time of the program ends.
    fn think(&self, recorder: &mut ThreadRecorder<'_>, until: u64) {
        if recorder.is_simulated() {
            return recorder.pass_until(until);
        }
        while recorder.now() < until {
            let left = until - recorder.now().min(until);
            if left > 2 * AWAKE_NS {
                recorder.wait_until(until - AWAKE_NS);
            }
            if recorder.failed() {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Waits for calls of other lanes. Returns the time at which the last of them ended, as far as that matters, or
    /// `None` if another thread has failed.
    fn wait_for(&self, step: &ReplayStep, batch: &Batch, recorder: &ThreadRecorder<'_>) -> Option<u64> {
        let waits = &batch.waits[step.waits.start as usize..step.waits.end as usize];
        let mut ended = waits.iter().map(|(lane, number)| self.turns.wait(*lane, *number, || recorder.failed()));
        ended.try_fold(0, |latest, ended| {
            Some(match ended? {
                Ended::At(ended_ns) => latest.max(ended_ns),
                Ended::Before => latest,
                Ended::Meanwhile => recorder.now(),
            })
        })
    }

    /// Performs one call in its turn. Returns false if another thread has failed.
    fn step(&self, step: &ReplayStep, batch: &Batch, state: &mut State, recorder: &mut ThreadRecorder<'_>) -> bool {
        let ReplayStep { call, .. } = step;
        state.number += 1;
        let waits = !step.waits.is_empty();
        let waited = if waits { self.wait_for(step, batch, recorder) } else { Some(0) };
        let Some(others_ns) = waited else { return false };
        let thinks = self.pace > 0.0 && step.think_ns.max(step.after_ns) > 0;
        if thinks {
            let own_ns = self.thought(state.ended_ns, step.think_ns);
            let others_ns = if waits { self.thought(others_ns, step.after_ns) } else { 0 };
            self.think(recorder, own_ns.max(others_ns));
        }
        if !step.is_made() {
            state.ended_ns = recorder.now();
            self.turns.end(call.lane, state.number, state.ended_ns);
            return true;
        }
        if thinks || waits {
            recorder.start();
        }
        let result = if step.unopened { call.result } else { self.target.call(step, &mut state.buffers) };
        recorder.lap(kind(call.kind), moved_bytes(call, result));
        state.ended_ns = recorder.last();
        self.turns.end(call.lane, state.number, state.ended_ns);
        if !step.agrees(result) && !self.target.is_nothing() {
            state.other(call, result, self.target);
        }
        !recorder.failed()
    }
}

/// The state of one thread.
pub(super) struct State {
    rank: u32,
    number: u32,
    ended_ns: u64,
    buffers: Buffers,
    report: Report,
}

impl State {
    #[cold]
    fn other(&mut self, call: &Call, result: i64, target: &dyn Target) {
        self.report.others += 1;
        if self.report.first.is_none() {
            let name = target.name(call);
            let (start_ns, kind, recorded) = (call.start_ns, call.kind, call.result);
            self.report.first = Some(Other { start_ns, kind, name, recorded, result });
        }
    }
}

impl ThreadJob for Replay<'_> {
    type ThreadState = State;
    type Report = Report;

    fn init(&self, rank: u32) -> Result<State, EngineError> {
        super::calls::wake_exactly();
        let largest = if self.target.is_nothing() { 4096 } else { self.largest };
        let buffers = Buffers::new(self.context.data(), rank, largest);
        Ok(State { rank, number: 0, ended_ns: 0, buffers, report: Report::default() })
    }

    fn run(&self, state: &mut State, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        recorder.start();
        state.ended_ns = recorder.last();
        let mut done: Option<Batch> = None;
        while let Some(batch) = self.feeder.next(state.rank, done.as_ref(), || recorder.failed()) {
            for step in &batch.steps {
                if !self.step(step, &batch, state, recorder) {
                    return Ok(());
                }
            }
            done = Some(batch);
        }
        Ok(())
    }

    fn report(&self, state: State) -> Report {
        state.report
    }
}

/// Returns the clock's kind of a call.
fn kind(kind: CallKind) -> clock::OperationKind {
    match kind.about().family {
        "read" | "copy" => clock::OperationKind::Read,
        "write" => clock::OperationKind::Write,
        "open" | "make" => clock::OperationKind::Create,
        "list" => clock::OperationKind::Readdir,
        "rename" => clock::OperationKind::Rename,
        "remove" => clock::OperationKind::Delete,
        "close" => clock::OperationKind::Close,
        "sync" => clock::OperationKind::Sync,
        _ => clock::OperationKind::Stat,
    }
}

/// Number of polls before a lane sleeps.
const LOOKS: u32 = 200;
/// The longest sleep before a lane checks whether another has failed.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Calls that a lane has ended, on a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Progress {
    ended: AtomicU32,
    sleepers: AtomicU32,
    /// End times of the last call and of the one before it, by the parity of their numbers.
    ended_ns: [AtomicU64; 2],
}

/// The end of a call that another lane waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// The call ended at this time.
    At(u64),
    /// The call ended before the wait, and its lane has ended further calls since.
    Before,
    /// The call ended during the wait, and its lane has ended further calls since.
    Meanwhile,
}

/// The progress of all lanes.
#[derive(Debug)]
struct Turns(Box<[Progress]>);

impl Turns {
    fn new(lanes: u32) -> Turns {
        Turns((0..lanes.max(1)).map(|_| Progress::default()).collect())
    }

    /// Records that the lane has ended its call `number` at `now_ns`.
    #[inline]
    fn end(&self, lane: u32, number: u32, now_ns: u64) {
        let Some(progress) = self.0.get(lane as usize) else { return };
        progress.ended_ns[number as usize & 1].store(now_ns, Ordering::Release);
        progress.ended.store(number, Ordering::SeqCst);
        if progress.sleepers.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(&progress.ended, Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// Waits until the lane has ended `number` calls; `None` if `given_up` ends the wait.
    #[inline]
    fn wait(&self, lane: u32, number: u32, given_up: impl Fn() -> bool) -> Option<Ended> {
        let Some(progress) = self.0.get(lane as usize) else { return Some(Ended::Before) };
        let before = progress.ended.load(Ordering::Acquire);
        if before < number && !self.reach(progress, number, given_up) {
            return None;
        }
        let ended_ns = progress.ended_ns[number as usize & 1].load(Ordering::Acquire);
        // Only the next call but one overwrites the time: while `ended` is this number, it is the time of this call.
        Some(match progress.ended.load(Ordering::Acquire) {
            ended if ended == number => Ended::At(ended_ns),
            _ if before < number => Ended::Meanwhile,
            _ => Ended::Before,
        })
    }

    #[inline]
    fn reach(&self, progress: &Progress, number: u32, given_up: impl Fn() -> bool) -> bool {
        for _ in 0..LOOKS {
            if progress.ended.load(Ordering::Acquire) >= number {
                return true;
            }
            std::hint::spin_loop();
        }
        progress.sleepers.fetch_add(1, Ordering::SeqCst);
        let reached = loop {
            let ended = progress.ended.load(Ordering::SeqCst);
            if ended >= number {
                break true;
            }
            if given_up() {
                break false;
            }
            let _ = futex::wait(&progress.ended, Flags::PRIVATE, ended, Some(&NAP));
        };
        progress.sleepers.fetch_sub(1, Ordering::SeqCst);
        reached
    }
}

//! The threads of a flow. A thread goes through its steps, with one call of `next_step` each.
//!
//! A step never sleeps. If a thread has to wait, the result of the step contains the condition, and
//! the caller suspends the thread. It suspends a real thread on a futex, and a simulated one until
//! the clock of another thread has advanced that far.
//!
//! On the fake clock one thread simulates all. The thread whose clock is furthest behind takes the
//! next step. A waiting thread wakes at the time of the thread that fulfilled its condition. So
//! semaphores, limits and the order in which threads take files are the same every time.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use fsb_model::Durability;
use fsb_model::flow::{Op, Quit};
use fsb_model::metric::{CREATE_RATE, DELETE_RATE, READ_RATE, WRITE_RATE};
use fsb_model::trial::NO_FILES;
use hdrhistogram::Histogram;
use io_uring::{opcode, types};
use rustix::io::Errno;

use super::entries::{self, LONGEST_PATH, PathBuffer};
use super::shared::{
    CompiledStep, Counter, FileRing, FlowShared, FlowSlot, OpResult, PARTS, Program,
};
use crate::backend::uring::Ring;
use crate::backend::{Completion, Session, SessionSetup};
use crate::clock::{self, Circumstances, Clock};
use crate::data::Data;
use crate::error::EngineError;
use crate::hash::{Stream, hash, mix};
use crate::latency;
use crate::memory::Memory;
use crate::profile::Profile;
use crate::task::{Context, Gate, Live, Measurement, Rate, Ready};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{ThreadJob, WorkerOutcome};

/// Nanoseconds that a thread waits while others use all suitable files, before it returns an error.
const STARVATION_NS: u64 = 2_000_000_000;
/// Loops of a hog step that count as one nanosecond on the fake clock.
const TURNS_A_NANOSECOND: u64 = 4;

/// The result of a step.
enum StepResult<'s> {
    /// The step is done.
    Moved,
    /// The thread must sleep until this time.
    Sleep(u64),
    /// The thread must wait while the counter has this value.
    Wait(&'s Counter, u32),
    /// Other threads use the files that the step needs; they may release one soon.
    Yield,
    /// There is nothing more to do.
    Finished,
}

/// The state of one thread.
pub(super) struct FlowThread {
    pub(super) rank: u32,
    pub(super) program: usize,
    pub(super) instance: u32,
    at: usize,
    /// Number of times that the current step was done.
    iteration: u64,
    /// Operations that the thread has taken and not done yet.
    held: u64,
    /// Whether the clock must be read before the next operation, because it was not read while the
    /// thread waited.
    stale: bool,
    waiting: Waiting,
    /// Time since which the thread finds no suitable file.
    starving_since: Option<u64>,
    /// Operations and bytes that limits have charged, by step.
    charged: Vec<u64>,
    drawn: u64,
    seed: u64,
    pub(super) session: Box<dyn Session>,
    pub(super) slots: Vec<FlowSlot>,
    pub(super) rings: Vec<FileRing>,
    pub(super) aio: Option<AsyncWrites>,
    pub(super) data: Data,
    pub(super) memory: Memory,
    pub(super) listing: Vec<std::mem::MaybeUninit<u8>>,
    pub(super) path_buffer: Box<PathBuffer>,
    pub(super) report: Report,
}

/// The progress of a thread in a step that waits.
#[derive(Default)]
struct Waiting {
    /// Time at which it may continue.
    due: Option<u64>,
    /// The count of the wake-up event when the thread began to wait for it.
    seen: Option<u32>,
    arrived: bool,
    /// Semaphores that were posted to.
    posted: usize,
}

impl FlowThread {
    fn new(shared: &FlowShared, rank: u32) -> Result<FlowThread, EngineError> {
        let (program, instance) = shared.role(rank);
        let Program {
            steps,
            largest: [read, write],
            under_way,
            ..
        } = &shared.programs[program];
        let most = steps
            .iter()
            .flat_map(|step| [Some(step.fd), step.from])
            .flatten()
            .max()
            .unwrap_or(0);
        let records = steps
            .iter()
            .filter(|step| step.op == Op::AioWrite)
            .map(|step| entries::largest_size(&step.size))
            .max();
        let real = shared.backend.capabilities().real;
        let in_rings = shared.programs[program]
            .rings
            .iter()
            .map(|&ring| shared.set_of(&steps[ring]).files.len());
        let files = most + 1 + in_rings.sum::<u64>() as usize;
        let mut thread = FlowThread {
            rank,
            program,
            instance,
            at: 0,
            iteration: 0,
            held: 0,
            stale: false,
            waiting: Waiting::default(),
            starving_since: None,
            charged: vec![0; steps.len()],
            drawn: 0,
            seed: hash(
                shared.source.seed,
                Stream::Draw,
                u64::from(shared.repetition) << 32 | u64::from(rank),
            ),
            session: shared.backend.session(&SessionSetup::plain(files))?,
            slots: (0..=most).map(|_| FlowSlot::default()).collect(),
            rings: Vec::new(),
            aio: records
                .filter(|_| real)
                .map(|record| AsyncWrites::new(*under_way, record))
                .transpose()?,
            data: Data::new(
                shared.source,
                *if shared.verify {
                    write.max(read)
                } else {
                    write
                } as usize,
            ),
            memory: Memory::new(*read as usize),
            listing: vec![
                std::mem::MaybeUninit::uninit();
                if steps.iter().any(|step| step.op == Op::List) {
                    32 << 10
                } else {
                    0
                }
            ],
            path_buffer: Box::new([0; LONGEST_PATH]),
            report: Report::new(&shared.programs[program]),
        };
        thread.open_beforehand(shared)?;
        Ok(thread)
    }

    /// Returns a pseudo-random number of 64 bits.
    #[inline]
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed ^ mix(self.drawn))
    }

    /// Does the next step, or returns the condition that it waits for.
    #[inline]
    fn next_step<'s>(
        &mut self,
        shared: &'s FlowShared,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<StepResult<'s>, EngineError> {
        let step = &shared.programs[self.program].steps[self.at];
        if step.op.is_counted() {
            return self.work(step, shared, recorder);
        }
        if shared.end.is_over() {
            return Ok(StepResult::Finished);
        }
        let turn = self.control(step, shared, recorder);
        match turn {
            StepResult::Moved => self.advance(step, shared),
            _ => self.stale = true,
        }
        Ok(turn)
    }

    /// Performs an operation on files, against the clock.
    #[inline]
    fn work<'s>(
        &mut self,
        step: &'s CompiledStep,
        shared: &'s FlowShared,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<StepResult<'s>, EngineError> {
        if self.held == 0 {
            self.held = shared.budget.take(step.ahead - self.iteration);
            if self.held == 0 {
                shared.end.finish();
                return Ok(StepResult::Finished);
            }
        }
        if self.stale {
            recorder.start();
            self.stale = false;
        }
        let begun = recorder.last();
        match self.perform(step, shared)? {
            OpResult::Done(kind, bytes) => {
                recorder.tick(kind, bytes);
                self.starving_since = None;
                self.held -= 1;
                self.report
                    .record(step.title, recorder.last() - begun, bytes);
                self.report.tally.operations += 1;
                let more = recorder.complete(begun, bytes);
                shared.show(self.rank, self.report.tally.operations, recorder.bytes());
                self.advance(step, shared);
                Ok(if more {
                    StepResult::Moved
                } else {
                    StepResult::Finished
                })
            }
            OpResult::Skipped if shared.end.is_over() || recorder.is_late() => {
                Ok(StepResult::Finished)
            }
            OpResult::Skipped => {
                self.advance(step, shared);
                Ok(StepResult::Yield)
            }
            OpResult::Nothing { there } => self.no_file_available(there, step, shared, recorder),
        }
    }

    /// Decides how a thread continues that found no suitable file.
    #[cold]
    fn no_file_available<'s>(
        &mut self,
        there: bool,
        step: &CompiledStep,
        shared: &'s FlowShared,
        recorder: &ThreadRecorder<'_>,
    ) -> Result<StepResult<'s>, EngineError> {
        match shared.quit {
            Quit::FirstDone if !there => {
                shared.end.finish();
                Ok(StepResult::Finished)
            }
            Quit::AllDone if !there => Ok(StepResult::Finished),
            _ if shared.end.is_over() || recorder.is_late() => Ok(StepResult::Finished),
            _ => {
                let since = *self.starving_since.get_or_insert(recorder.now());
                self.stale = true;
                // A single thread would wait for itself.
                if shared.threads > 1 && recorder.now() - since < STARVATION_NS {
                    return Ok(StepResult::Yield);
                }
                Err(self.starved(step, shared))
            }
        }
    }

    /// Builds the error of a thread that finds no suitable file.
    pub(super) fn starved(&self, step: &CompiledStep, shared: &FlowShared) -> EngineError {
        let Some(set) = step.set.map(|set| &shared.sets[set].shape) else {
            return EngineError::new(format!("{}: no file", step.op.name()));
        };
        let why = match step.op {
            Op::Create | Op::MakeDirectory => "all of them exist already, or are being made",
            Op::Delete | Op::RemoveDirectory => "those that exist are open or being deleted",
            _ => "those that exist are being made or deleted",
        };
        let (what, count) = match step.op {
            Op::MakeDirectory | Op::RemoveDirectory => ("directories", set.directories),
            _ => ("files", set.files),
        };
        EngineError::new(format!(
            "too few files: {} finds none among the {count} {what} of the set {}: {why}; {} threads need a larger set \
             (files), or use fewer threads (threads)",
            step.op.name(),
            set.name,
            shared.threads
        ))
        .coded(&NO_FILES)
    }

    /// Returns the current step of the thread, for errors.
    fn current<'s>(&self, shared: &'s FlowShared) -> &'s CompiledStep {
        &shared.programs[self.program].steps[self.at]
    }

    /// Advances to the next step, or to the next iteration of this one.
    #[inline]
    fn advance(&mut self, step: &CompiledStep, shared: &FlowShared) {
        self.iteration += 1;
        if self.iteration < step.iterations {
            return;
        }
        self.iteration = 0;
        self.at += 1;
        if self.at == shared.programs[self.program].steps.len() {
            self.at = 0;
        }
    }

    /// Performs a step that does not work on files: limits, think time, hogs, and waiting for other
    /// threads.
    fn control<'s>(
        &mut self,
        step: &CompiledStep,
        shared: &'s FlowShared,
        recorder: &mut ThreadRecorder<'_>,
    ) -> StepResult<'s> {
        match step.op {
            Op::EventLimit | Op::OperationLimit | Op::IoLimit | Op::BandwidthLimit => {
                self.limit(step, shared, recorder)
            }
            Op::Delay => {
                let due = *self
                    .waiting
                    .due
                    .get_or_insert(recorder.now() + step.nanoseconds);
                self.until(due, recorder)
            }
            Op::Hog => {
                let mut cell = 0u8;
                for _ in 0..if recorder.is_simulated() {
                    0
                } else {
                    step.value
                } {
                    // SAFETY: a byte of this function's own.
                    unsafe { std::ptr::write_volatile(&raw mut cell, 1) };
                }
                recorder.pass_until(recorder.now() + step.value / TURNS_A_NANOSECOND);
                self.stale = true;
                StepResult::Moved
            }
            Op::Block => {
                let event = &shared.wake_events[step.targets[0]].0;
                let seen = *self.waiting.seen.get_or_insert(event.value());
                if event.value() == seen {
                    return StepResult::Wait(event, seen);
                }
                self.waiting.seen = None;
                StepResult::Moved
            }
            Op::Wake => {
                step.targets
                    .iter()
                    .for_each(|&event| shared.wake_events[event].wake());
                StepResult::Moved
            }
            Op::SemaphoreWait => {
                let semaphore = &shared.semaphores[step.targets[self.instance as usize]];
                if !std::mem::replace(&mut self.waiting.arrived, true) {
                    semaphore.arrive();
                }
                match semaphore.try_take() {
                    Err(seen) => StepResult::Wait(&semaphore.posts.0, seen),
                    Ok(()) => {
                        self.waiting.arrived = false;
                        StepResult::Moved
                    }
                }
            }
            Op::SemaphorePost => self.post(step, shared),
            Op::FinishOnCount | Op::FinishOnBytes => self.finish(step, shared),
            _ => StepResult::Moved,
        }
    }

    fn until<'s>(&mut self, due: u64, recorder: &ThreadRecorder<'_>) -> StepResult<'s> {
        if recorder.now() < due {
            return StepResult::Sleep(due);
        }
        self.waiting.due = None;
        self.stale = true;
        StepResult::Moved
    }

    fn limit<'s>(
        &mut self,
        step: &CompiledStep,
        shared: &'s FlowShared,
        recorder: &ThreadRecorder<'_>,
    ) -> StepResult<'s> {
        let Some(rate_limiter) = &shared.rate_limiter else {
            return StepResult::Moved;
        };
        let due = match self.waiting.due {
            Some(due) => due,
            None => {
                let tally = &self.report.tally;
                let bytes = tally.bytes_read + tally.bytes_written;
                let (now, parts) = match (step.op, step.target) {
                    (Op::EventLimit, _) => (self.charged[self.at] + 1, PARTS),
                    (Op::BandwidthLimit, _) => (bytes, 1),
                    (_, Some(target)) => (
                        self.report
                            .count(shared.programs[self.program].steps[target].title),
                        PARTS,
                    ),
                    (Op::IoLimit, None) => (tally.transfers, PARTS),
                    (_, None) => (tally.operations, PARTS),
                };
                let more = now - std::mem::replace(&mut self.charged[self.at], now);
                *self
                    .waiting
                    .due
                    .insert(rate_limiter.reserve(more * parts, recorder.now()))
            }
        };
        self.until(due, recorder)
    }

    fn post<'s>(&mut self, step: &CompiledStep, shared: &'s FlowShared) -> StepResult<'s> {
        let posts = u32::try_from(step.value).unwrap_or(u32::MAX / 4);
        while let Some(&number) = step.targets.get(self.waiting.posted) {
            let semaphore = &shared.semaphores[number];
            if let Err(seen) = semaphore.try_post(posts, step.blocking) {
                return StepResult::Wait(&semaphore.room, seen);
            }
            self.waiting.posted += 1;
        }
        self.waiting.posted = 0;
        StepResult::Moved
    }

    fn finish<'s>(&mut self, step: &CompiledStep, shared: &'s FlowShared) -> StepResult<'s> {
        let [operations, bytes] = shared.shown();
        let tally = &self.report.tally;
        let reached = match (step.op, step.target) {
            (Op::FinishOnCount, Some(target)) => {
                self.report
                    .count(shared.programs[self.program].steps[target].title)
                    >= step.value
            }
            (Op::FinishOnCount, None) => operations >= step.value,
            (_, Some(_)) => tally.bytes_read + tally.bytes_written > step.value,
            (_, None) => bytes > step.value,
        };
        if reached {
            shared.end.finish();
            return StepResult::Finished;
        }
        StepResult::Moved
    }
}

/// The threads of a flow.
pub(super) struct FlowThreads<'s> {
    pub(super) shared: &'s FlowShared,
    pub(super) durability: Durability,
}

impl ThreadJob for FlowThreads<'_> {
    type ThreadState = FlowThread;
    type Report = Report;

    fn init(&self, rank: u32) -> Result<FlowThread, EngineError> {
        FlowThread::new(self.shared, rank)
    }

    fn run(
        &self,
        thread: &mut FlowThread,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        let result = self.run_thread(thread, recorder);
        // Other threads must not wait for one that failed.
        if result.is_err() {
            self.shared.end.finish();
        }
        result.and(thread.leave(self.shared))
    }

    fn report(&self, thread: FlowThread) -> Report {
        thread.report
    }

    fn syncs_at_end(&self) -> bool {
        self.durability == Durability::End
    }

    fn sync_at_end(
        &self,
        _thread: &mut FlowThread,
        bytes: u64,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let FlowShared {
            backend,
            root,
            path,
            ..
        } = self.shared;
        let synced = recorder.sync(bytes, || backend.namespace().sync_file_system(root));
        synced.map_err(|errno| EngineError::call("syncfs of", path, errno))
    }

    fn live_progress(&self) -> Option<Live> {
        let of = self.shared.budget.total();
        Some(Live {
            done: self.shared.budget.taken(),
            of: if of == u64::MAX { 0 } else { of },
        })
    }
}

impl FlowThreads<'_> {
    fn run_thread(
        &self,
        thread: &mut FlowThread,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let shared = self.shared;
        loop {
            match thread.next_step(shared, recorder)? {
                StepResult::Moved => continue,
                StepResult::Finished => return Ok(()),
                StepResult::Sleep(due) => shared.end.sleep(due.saturating_sub(recorder.now())),
                StepResult::Wait(counter, seen) => counter.sleep(seen, Duration::MAX),
                StepResult::Yield => thread::yield_now(),
            }
            if recorder.failed() || shared.end.is_over() || recorder.is_late() {
                return Ok(());
            }
        }
    }

    /// Runs the threads like [`crate::threads::run`], on a fake clock.
    pub(super) fn simulate(
        &self,
        context: &Context,
        profile: &Profile,
        ready: Ready,
        gate: &mut dyn Gate,
    ) -> Result<WorkerOutcome<Report>, EngineError> {
        let mut outcome = WorkerOutcome::new(clock::cost_ns(context.clock));
        let circumstances = Circumstances {
            cache: profile.cache,
            durability: profile.durability,
        };
        let failed = std::sync::atomic::AtomicBool::new(false);
        let mut threads = Vec::new();
        for rank in 0..profile.threads {
            let clock = Clock::new(context.clock, rank, circumstances);
            let recorder = ThreadRecorder::new(rank, clock, context.until_seconds, &failed, None);
            threads.push(SimulatedThread {
                thread: FlowThread::new(self.shared, rank)?,
                recorder,
                state: State::Runs,
            });
        }
        gate.ready(ready)?;
        threads
            .iter_mut()
            .for_each(|thread| thread.recorder.start());
        let result = self.simulate_all(&mut threads);
        let left: Result<Vec<()>, _> = threads
            .iter_mut()
            .map(|thread| thread.thread.leave(self.shared))
            .collect();
        result.and(left.map(drop))?;
        if self.syncs_at_end() {
            let bytes = threads.iter().map(|thread| thread.recorder.bytes()).sum();
            let last = threads
                .iter()
                .map(|thread| thread.recorder.last())
                .max()
                .unwrap_or(0);
            let SimulatedThread {
                thread, recorder, ..
            } = &mut threads[0];
            recorder.pass_until(last);
            self.sync_at_end(thread, bytes, recorder)?;
        }
        for SimulatedThread {
            thread, recorder, ..
        } in threads
        {
            outcome.add(recorder.finish());
            outcome.reports.push(self.report(thread));
        }
        Ok(outcome.simulate_usage(context.clock))
    }

    fn simulate_all(&self, threads: &mut [SimulatedThread<'_>]) -> Result<(), EngineError> {
        loop {
            let next = threads
                .iter_mut()
                .filter(|thread| thread.is_running())
                .min_by_key(|thread| thread.time());
            let Some(thread) = next else { break };
            if let State::Sleeps(due) = thread.state {
                thread.recorder.pass_until(due);
            }
            thread.state = State::Runs;
            match thread.thread.next_step(self.shared, &mut thread.recorder)? {
                StepResult::Moved => {
                    // This step may fulfil the condition of a waiting thread.
                    let now = thread.recorder.now();
                    for other in threads
                        .iter_mut()
                        .filter(|other| other.state == State::Waits)
                    {
                        other.state = State::Runs;
                        other.recorder.pass_until(now);
                    }
                }
                StepResult::Sleep(due) => thread.state = State::Sleeps(due),
                StepResult::Wait(..) | StepResult::Yield => thread.state = State::Waits,
                StepResult::Finished => thread.state = State::Ended,
            }
        }
        match threads.iter().find(|thread| thread.state == State::Waits) {
            // If the time of some threads is up, it is also up for those that wait for them.
            Some(thread)
                if !self.shared.end.is_over()
                    && !threads.iter().any(|other| other.state == State::Ended) =>
            {
                let step = thread.thread.current(self.shared);
                if step.op.is_counted() {
                    return Err(thread.thread.starved(step, self.shared));
                }
                Err(EngineError::new(format!(
                    "deadlock: all threads wait for each other, thread {} of {} at {}",
                    thread.thread.instance + 1,
                    self.shared.programs[thread.thread.program].name,
                    step.op.name()
                )))
            }
            _ => Ok(()),
        }
    }
}

struct SimulatedThread<'l> {
    thread: FlowThread,
    recorder: ThreadRecorder<'l>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Sleeps(u64),
    Waits,
    Ended,
}

impl SimulatedThread<'_> {
    fn is_running(&self) -> bool {
        matches!(self.state, State::Runs | State::Sleeps(_))
    }

    /// Returns the time of its next step. Among threads with the same time, the first one takes
    /// precedence.
    fn time(&self) -> u64 {
        match self.state {
            State::Sleeps(due) => due.max(self.recorder.now()),
            _ => self.recorder.now(),
        }
    }
}

/// One thread's writes.
pub(super) struct AsyncWrites {
    // The first field, because it is dropped first; dropping it waits for the writes in flight.
    ring: Ring,
    memory: Memory,
    slots: Vec<WriteSlot>,
    free: Vec<u32>,
    record: usize,
}

/// The file that a write goes to, and the offset at which the write ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WriteSlot {
    pub(super) set: usize,
    pub(super) file: u64,
    pub(super) end: u64,
    length: usize,
}

impl WriteSlot {
    /// Returns a slot for a write to a file that ends at `end`.
    pub(super) fn new(set: usize, file: u64, end: u64) -> WriteSlot {
        WriteSlot {
            set,
            file,
            end,
            length: 0,
        }
    }
}

/// A write that failed.
type Failed = (WriteSlot, Errno);

impl AsyncWrites {
    /// Allows `writes` writes at once, of at most `record` bytes each.
    fn new(writes: u32, record: u64) -> Result<AsyncWrites, EngineError> {
        let record = (record as usize).max(1).next_multiple_of(crate::data::PAGE);
        Ok(AsyncWrites {
            ring: Ring::new(writes.next_power_of_two())?,
            memory: Memory::new(record * writes as usize),
            slots: vec![WriteSlot::default(); writes as usize],
            free: (0..writes).collect(),
            record,
        })
    }

    /// Starts a write of bytes that `fill` puts into memory. If the maximum is in flight, waits for
    /// one of them.
    pub(super) fn write(
        &mut self,
        fd: BorrowedFd<'_>,
        (slot, offset, length): (WriteSlot, u64, usize),
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Failed> {
        while self.free.is_empty() {
            self.reap(1)?;
        }
        let Some(number) = self.free.pop() else {
            return Err((slot, Errno::BUSY));
        };
        let length = length.min(self.record);
        let start = number as usize * self.record;
        let memory = &mut self.memory.as_mut()[start..start + length];
        fill(memory);
        let entry = opcode::Write::new(types::Fd(fd.as_raw_fd()), memory.as_ptr(), length as u32)
            .offset(offset);
        let entry = entry.build().user_data(u64::from(number));
        self.slots[number as usize] = WriteSlot { length, ..slot };
        // SAFETY: the memory is this slot's until the write is reaped, and outlives the ring, which
        // waits for all. The descriptor is open until then, or its number is not used by another.
        if !unsafe { self.ring.push(&entry) } {
            self.free.push(number);
            return Err((slot, Errno::BUSY));
        }
        self.ring.enter(0).map_err(|errno| (slot, errno))
    }

    /// Waits for all writes.
    pub(super) fn wait(&mut self, mut done: impl FnMut(WriteSlot)) -> Result<(), Failed> {
        let mut failed = None;
        while self.free.len() < self.slots.len() {
            let before = self.free.len();
            match self.reap(1) {
                Ok(()) => self.free[before..]
                    .iter()
                    .for_each(|&number| done(self.slots[number as usize])),
                Err(error) => drop(failed.get_or_insert(error)),
            }
            // After an error of the ring itself there is nothing more to wait for. A signal is not
            // an error.
            if failed.is_some() && self.free.len() == before {
                break;
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn reap(&mut self, least: usize) -> Result<(), Failed> {
        self.ring
            .enter(least)
            .map_err(|errno| (WriteSlot::default(), errno))?;
        let (slots, free) = (&self.slots, &mut self.free);
        let mut failed = Ok(());
        self.ring.take_finished(|Completion { tag, result }| {
            let slot = slots[tag as usize];
            free.push(tag);
            match result {
                Err(errno) => failed = Err((slot, errno)),
                // A synchronous writer would get the reason from its next call. An asynchronous
                // write has no next call.
                Ok(moved) if moved < slot.length => failed = Err((slot, Errno::NOSPC)),
                Ok(_) => {}
            }
        });
        failed
    }
}

/// The report of one thread.
#[derive(Debug, Default)]
pub(super) struct Report {
    histograms: Vec<Histogram<u64>>,
    /// Bytes that each kind of operation has moved.
    moved: Vec<u64>,
    pub(super) tally: Tally,
}

/// Counts of the work on files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) created: u64,
    pub(super) deleted: u64,
    pub(super) directories_made: u64,
    pub(super) directories_removed: u64,
    bytes_read: u64,
    bytes_written: u64,
    pub(super) operations: u64,
    /// Reads and writes.
    transfers: u64,
}

impl Tally {
    #[inline]
    pub(super) fn read(&mut self, bytes: u64) {
        self.bytes_read += bytes;
        self.transfers += 1;
    }

    #[inline]
    pub(super) fn wrote(&mut self, bytes: u64) {
        self.bytes_written += bytes;
        self.transfers += 1;
    }
}

impl Report {
    /// Returns an empty report whose memory was touched.
    fn new(program: &Program) -> Report {
        let histograms = program.titles.iter().map(|_| latency::touched()).collect();
        let moved = vec![0; program.titles.len()];
        Report {
            histograms,
            moved,
            tally: Tally::default(),
        }
    }

    /// Records an operation: its nanoseconds, and the bytes that it moved.
    #[inline]
    pub(super) fn record(&mut self, title: usize, ns: u64, bytes: u64) {
        self.histograms[title].saturating_record(ns);
        self.moved[title] += bytes;
    }

    /// Returns the number of operations with this title.
    pub(super) fn count(&self, title: usize) -> u64 {
        self.histograms[title].len()
    }
}

/// Returns the sum of all tallies.
pub(super) fn sum_reports<'r>(reports: impl IntoIterator<Item = &'r Report>) -> Tally {
    let mut sum = Tally::default();
    for Report { tally, .. } in reports {
        sum.created += tally.created;
        sum.deleted += tally.deleted;
        sum.directories_made += tally.directories_made;
        sum.directories_removed += tally.directories_removed;
        sum.bytes_read += tally.bytes_read;
        sum.bytes_written += tally.bytes_written;
        sum.operations += tally.operations;
        sum.transfers += tally.transfers;
    }
    sum
}

/// Adds the work of the threads to a measurement. Reports come in the order of programs and
/// instances.
pub(super) fn add_reports(
    programs: &[&Program],
    reports: &[Report],
    left: u64,
    measurement: &mut Measurement,
) {
    let mut by_title: Vec<(&str, Histogram<u64>, u64)> = Vec::new();
    for (program, report) in programs.iter().zip(reports) {
        for ((title, histogram), moved) in program
            .titles
            .iter()
            .zip(&report.histograms)
            .zip(&report.moved)
        {
            match by_title.iter_mut().find(|(known, ..)| known == title) {
                Some((_, sum, bytes)) => {
                    sum.add(histogram).expect("histograms of one size add up");
                    *bytes += moved;
                }
                None => by_title.push((title, histogram.clone(), *moved)),
            }
        }
    }
    for (title, histogram, moved) in by_title {
        if !histogram.is_empty() {
            measurement
                .latency
                .insert(title.to_owned(), latency::encode(&histogram));
        }
        if moved > 0 {
            measurement.counts.insert(format!("{title}_bytes"), moved);
        }
    }
    let tally = sum_reports(reports);
    let timed_ns = measurement.timed_ns;
    let rates = [
        (&READ_RATE, tally.bytes_read),
        (&WRITE_RATE, tally.bytes_written),
        (&CREATE_RATE, tally.created),
        (&DELETE_RATE, tally.deleted),
    ];
    for (kind, amount) in rates {
        if amount > 0 {
            measurement
                .rates
                .insert(kind.name.to_owned(), Rate { amount, timed_ns });
        }
    }
    let counts = [
        ("files_created", tally.created),
        ("files_deleted", tally.deleted),
        ("files_left", left),
        ("directories_made", tally.directories_made),
        ("directories_removed", tally.directories_removed),
        ("bytes_read", tally.bytes_read),
        ("bytes_written", tally.bytes_written),
    ];
    let counts = counts
        .into_iter()
        .filter(|(name, count)| *count > 0 || !name.starts_with("directories"));
    measurement
        .counts
        .extend(counts.map(|(name, count)| (name.to_owned(), count)));
}

//! The threads of a flow: real ones, or pretended ones on a fake clock.
//!
//! On the fake clock one thread simulates all: the one whose clock is furthest behind takes the next step, and a
//! waiting one is woken at the time of the thread that gave it what it waited for. So semaphores, limits and the order
//! in which files are taken are the same every time.

use std::thread;
use std::time::Duration;

use super::report::Report;
use super::shared::FlowShared;
use super::thread::{FlowThread, StepResult};
use crate::EngineError;
use crate::clock::{self, Circumstances, Clock};
use crate::context::Context;
use crate::profile::Profile;
use crate::progress::Live;
use crate::task::{Gate, Ready};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{Outcome, ThreadJob};
use fsb_model::Durability;

/// The threads.
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

    fn run(&self, thread: &mut FlowThread, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        recorder.start();
        let result = self.run_thread(thread, recorder);
        // Whatever happened, nobody waits for this thread.
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
        let FlowShared { backend, root, path, .. } = self.shared;
        let synced = recorder.sync(bytes, || backend.namespace().sync_file_system(root));
        synced.map_err(|errno| EngineError::call("syncfs of", path, errno))
    }

    fn live_progress(&self) -> Option<Live> {
        let of = self.shared.budget.total();
        Some(Live { done: self.shared.budget.taken(), of: if of == u64::MAX { 0 } else { of } })
    }
}

impl FlowThreads<'_> {
    fn run_thread(&self, thread: &mut FlowThread, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
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

    /// As [`crate::threads::run`], on a fake clock.
    pub(super) fn simulate(
        &self,
        context: &Context,
        profile: &Profile,
        ready: Ready,
        gate: &mut dyn Gate,
    ) -> Result<Outcome<Report>, EngineError> {
        let mut outcome = Outcome::new(clock::cost_ns(context.clock));
        let circumstances = Circumstances { cache: profile.cache, durability: profile.durability };
        let failed = std::sync::atomic::AtomicBool::new(false);
        let mut threads = Vec::new();
        for rank in 0..profile.threads {
            let clock = Clock::new(context.clock, rank, circumstances);
            let recorder = ThreadRecorder::new(rank, clock, context.until_seconds, &failed, None);
            threads.push(SimulatedThread { thread: FlowThread::new(self.shared, rank)?, recorder, state: State::Runs });
        }
        gate.ready(ready)?;
        threads.iter_mut().for_each(|thread| thread.recorder.start());
        let result = self.simulate_all(&mut threads);
        let left: Result<Vec<()>, _> = threads.iter_mut().map(|thread| thread.thread.leave(self.shared)).collect();
        result.and(left.map(drop))?;
        if self.syncs_at_end() {
            let bytes = threads.iter().map(|thread| thread.recorder.bytes()).sum();
            let last = threads.iter().map(|thread| thread.recorder.last()).max().unwrap_or(0);
            let SimulatedThread { thread, recorder, .. } = &mut threads[0];
            recorder.pass_until(last);
            self.sync_at_end(thread, bytes, recorder)?;
        }
        for SimulatedThread { thread, recorder, .. } in threads {
            outcome.add(recorder.finish());
            outcome.reports.push(self.report(thread));
        }
        Ok(outcome.simulate_usage(context.clock))
    }

    fn simulate_all(&self, threads: &mut [SimulatedThread<'_>]) -> Result<(), EngineError> {
        loop {
            let next = threads.iter_mut().filter(|thread| thread.is_running()).min_by_key(|thread| thread.time());
            let Some(thread) = next else { break };
            if let State::Sleeps(due) = thread.state {
                thread.recorder.pass_until(due);
            }
            thread.state = State::Runs;
            match thread.thread.next_step(self.shared, &mut thread.recorder)? {
                StepResult::Moved => {
                    // What was done may be what others wait for.
                    let now = thread.recorder.now();
                    for other in threads.iter_mut().filter(|other| other.state == State::Waits) {
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
            // Where the time of some threads is up, so it would be of those that wait for them.
            Some(thread) if !self.shared.end.is_over() && !threads.iter().any(|other| other.state == State::Ended) => {
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

    /// When its next turn is; of those whose turn is at once, the first one comes first.
    fn time(&self) -> u64 {
        match self.state {
            State::Sleeps(due) => due.max(self.recorder.now()),
            _ => self.recorder.now(),
        }
    }
}

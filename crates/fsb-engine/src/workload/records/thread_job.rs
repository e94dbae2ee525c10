//! The workers that move records: each its share, pass by pass or in one go.
//!
//! Where something must be restored before a pass or done after it, each pass is a round: the files are closed, opened,
//! made anew outside the clock, all workers start together, and what belongs to the work (a flush, a close, a lock) is
//! inside the clock of each. Elsewhere passes follow each other without a pause, and nothing is shared while they do.

use std::sync::atomic::AtomicU64;

use fsb_model::Durability;

use super::definition::RecordAction;
use super::job::{RecordsJob, Restore};
use crate::EngineError;
use crate::backend::Purpose;
use crate::clock::Kind;
use crate::context::Context;
use crate::hash::{Stream, hash, unit};
use crate::io_loop::{IoLoop, IoOptions, OpenFileSet};
use crate::order::Visits;
use crate::rendezvous::{Rendezvous, RoundState};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// The threads of one measurement.
pub(super) struct RecordThreads<'s> {
    pub(super) job: &'s RecordsJob,
    pub(super) set: &'s OpenFileSet,
    pub(super) context: &'s Context,
    pub(super) rendezvous: &'s Rendezvous,
}

/// What one worker works with.
pub(super) struct ThreadState<'s> {
    io: IoLoop<'s>,
    /// Writes, where the other one reads.
    writer: Option<IoLoop<'s>>,
    visits: Visits,
    /// Decides which operations of a mix read.
    seed: u64,
    /// Operations of a mix so far.
    turns: u64,
    /// The files are closed.
    closed: bool,
}

impl<'s> RecordThreads<'s> {
    fn visits(&self, rank: u32) -> Visits {
        let visits = self.job.spec.visits(self.context, rank);
        let visits = self.job.options.stride.map_or(visits.clone(), |stride| visits.with_stride(stride));
        if self.job.in_rounds() { visits.resting() } else { visits }
    }

    fn io(&self, purpose: Purpose, rank: u32) -> Result<IoLoop<'s>, EngineError> {
        let job = self.job;
        let io_options = IoOptions {
            // Files that are created before the clock are not what is measured.
            kind: if purpose == Purpose::Read { Kind::Read } else { Kind::Write },
            hold: true,
            verify: job.options.verify,
            lock: job.options.lock,
            ..job.spec.io_options(purpose, rank)
        };
        IoLoop::new(self.set, io_options)
    }

    /// Visits every record of this worker once, without a clock.
    fn visit_once(&self, state: &mut ThreadState<'s>, rank: u32) -> Result<(), EngineError> {
        let spec = &self.job.spec;
        let mut whole = self.context.clone();
        whole.operations = spec.items();
        state.io.pass_over(spec.visits(&whole, rank))
    }

    fn each_loop(
        state: &mut ThreadState<'s>,
        mut act: impl FnMut(&mut IoLoop<'s>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        act(&mut state.io)?;
        state.writer.as_mut().map_or(Ok(()), act)
    }

    /// Brings the state of the first pass back.
    fn restore(&self, state: &mut ThreadState<'s>, rank: u32) -> Result<(), EngineError> {
        let restore = self.job.restore();
        if restore == Restore::Nothing && !state.closed {
            return Ok(());
        }
        if !state.closed {
            Self::each_loop(state, IoLoop::close_held)?;
        }
        if restore == Restore::Anew {
            state.io.unlink_held()?;
        }
        Self::each_loop(state, IoLoop::open_held)?;
        if restore == Restore::Anew && self.job.spec.durability != Durability::None {
            // The removal must not be part of the next flush.
            state.io.sync_set()?;
        }
        state.closed = false;
        if self.job.member.again { self.visit_once(state, rank) } else { Ok(()) }
    }

    /// Moves what is left, or what is left of the pass.
    fn go(&self, state: &mut ThreadState<'s>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        if let Some(rate) = self.job.options.rate {
            return self.keep_pace(state, recorder, rate);
        }
        if state.writer.is_none() {
            return state.io.run(&mut state.visits, recorder);
        }
        recorder.start();
        while let Some(item) = state.visits.next() {
            let kind = self.step(state, item)?;
            if !recorder.lap(kind, self.job.spec.block_size) {
                break;
            }
        }
        Self::each_loop(state, IoLoop::close_current)
    }

    /// Starts operations at even times, whether those before were done in time or not, and counts the time of each from when
    /// it should have started: who waits behind a stall has waited.
    fn keep_pace(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
        rate: u64,
    ) -> Result<(), EngineError> {
        let (workers, rank) = (f64::from(self.job.spec.workers()), f64::from(recorder.rank));
        let apart = 1e9 / rate as f64;
        // Refused nowhere; with the usual slack a thread is woken some 50 us late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        recorder.start();
        let begun = recorder.last();
        let mut turn = 0.0;
        while let Some(item) = state.visits.next() {
            let due = begun + ((turn * workers + rank) * apart) as u64;
            turn += 1.0;
            recorder.wait_until(due);
            let kind = self.step(state, item)?;
            recorder.tick(kind, self.job.spec.block_size);
            if !recorder.complete(due, self.job.spec.block_size) {
                break;
            }
        }
        Self::each_loop(state, IoLoop::close_current)
    }

    /// Moves one record: which way, the seed says where both are.
    fn step(&self, state: &mut ThreadState<'s>, item: u64) -> Result<Kind, EngineError> {
        let ThreadState { io, writer, seed, turns, .. } = state;
        let Some(writer) = writer else {
            io.step(item)?;
            return Ok(if self.job.member.action == RecordAction::Read { Kind::Read } else { Kind::Write });
        };
        *turns += 1;
        let reads = unit(hash(*seed, Stream::Mix, *turns)) < self.job.options.reads();
        let (io, kind) = if reads { (io, Kind::Read) } else { (writer, Kind::Write) };
        io.step(item)?;
        Ok(kind)
    }

    /// One pass with all that belongs to it, against the clock.
    fn round(&self, state: &mut ThreadState<'s>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let spec = &self.job.spec;
        let before = recorder.bytes();
        recorder.start();
        Self::each_loop(state, IoLoop::lock_files)?;
        self.go(state, recorder)?;
        Self::each_loop(state, IoLoop::unlock_files)?;
        if spec.durability == Durability::End && spec.threads == 1 {
            recorder.sync(recorder.bytes() - before, || Self::each_writer(state, IoLoop::flush_all))?;
        }
        if self.job.options.close && spec.threads == 1 {
            self.close(state, recorder)?;
        }
        Ok(())
    }

    /// What threads that share files do at the end of a pass when all of them are there: the first brings everything
    /// onto the device, and each closes its files.
    fn finish_shared(&self, state: &mut ThreadState<'s>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        if self.job.spec.durability == Durability::End && recorder.rank == 0 {
            recorder.sync(self.rendezvous.moved(), || Self::each_writer(state, IoLoop::flush_all))?;
        }
        if self.job.options.close { self.close(state, recorder) } else { Ok(()) }
    }

    fn close(&self, state: &mut ThreadState<'s>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        state.closed = true;
        Self::each_loop(state, IoLoop::close_held)?;
        recorder.tick(Kind::Close, 0);
        Ok(())
    }

    /// The loop that writes: nothing that was read needs flushing.
    fn each_writer(
        state: &mut ThreadState<'s>,
        act: impl FnOnce(&mut IoLoop<'s>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        act(state.writer.as_mut().unwrap_or(&mut state.io))
    }

    /// Round after round until everything is done, the time is up or a worker has failed. One that has failed still
    /// comes to each barrier, or the others would wait for ever.
    fn rounds(&self, state: &mut ThreadState<'s>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let shared = self.job.spec.threads > 1;
        let mut result = Ok(());
        for round in 0u64.. {
            if round > 0 {
                let rank = recorder.rank;
                result = recorder.untimed(|| self.restore(state, rank));
            }
            self.rendezvous.wait();
            if result.is_ok() {
                result = self.round(state, recorder);
            }
            if shared {
                self.rendezvous.wait();
                if result.is_ok() {
                    result = self.finish_shared(state, recorder);
                }
            }
            let state = match result {
                Err(_) => RoundState::Over,
                Ok(()) if recorder.over() => RoundState::Over,
                Ok(()) if state.visits.more() => RoundState::More,
                Ok(()) => RoundState::Done,
            };
            let start = recorder.pause();
            self.rendezvous.finish(recorder.rank, (start, recorder.last()), state);
            if !self.rendezvous.end_round() {
                break;
            }
        }
        result
    }
}

impl<'s> ThreadJob for RecordThreads<'s> {
    type ThreadState = ThreadState<'s>;
    type Report = ();

    fn init(&self, rank: u32) -> Result<ThreadState<'s>, EngineError> {
        let (purpose, second) = self.job.purposes();
        let mut state = ThreadState {
            io: self.io(purpose, rank)?,
            writer: second.map(|purpose| self.io(purpose, rank)).transpose()?,
            visits: self.visits(rank),
            seed: hash(self.context.seed, Stream::Mix, u64::from(self.context.repetition) << 32 | u64::from(rank)),
            turns: 0,
            closed: false,
        };
        if purpose == Purpose::Create && self.job.spec.durability != Durability::None {
            state.io.sync_set()?;
        }
        if self.job.member.again {
            self.visit_once(&mut state, rank)?;
        }
        Ok(state)
    }

    fn run(&self, state: &mut ThreadState<'s>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        if self.job.in_rounds() {
            return self.rounds(state, recorder);
        }
        let result = self.go(state, recorder);
        let start = recorder.pause();
        self.rendezvous.finish(recorder.rank, (start, recorder.last()), RoundState::Done);
        result
    }

    fn progress(&self, rank: u32) -> Option<&AtomicU64> {
        Some(self.rendezvous.progress(rank))
    }

    fn report(&self, _state: ThreadState<'s>) {}
}

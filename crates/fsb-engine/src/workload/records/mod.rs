//! Workloads that move the records of files. Each of these members of the registry is a constant of one type.
//!
//! A member defines the order of the records, the direction of the data, the content of the files beforehand, and the
//! backends that it accepts. Everything else is a parameter.
//!
//! Each worker moves its share, pass by pass or in one go. If a pass needs a restored state or ends with other work,
//! it is a round. Outside the clock, the workers close, open or recreate the files. Then all workers start together,
//! and the clock of each includes the calls that belong to the work (a flush, a close, a lock). Otherwise passes follow
//! each other without a pause, and workers share nothing meanwhile.

#[cfg(test)]
mod call_log;
mod options;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;

use fsb_model::metric::LATENCY_P99;
use fsb_model::{Access, CacheState, Durability, Params};

use super::job::{Job, Unit, Workload};
use super::measure::{Subject, measure_set};
use super::parameter::{Parameter, ParameterDefault, ParameterGroup, group};
use super::params::Reader;
use super::spec::Spec;
use super::unit::{self, Change};
use crate::backend::{Backend, Purpose, Verb};
use crate::clock::OperationKind;
use crate::context::Context;
use crate::fileset::{self, Content, Interest};
use crate::hash::{Stream, hash, unit};
use crate::io_loop::{HELD_FILES, IoLoop, IoOptions, Lock, OpenFileSet};
use crate::order::Visits;
use crate::profile::{Profile, Renewal};
use crate::rendezvous::{Rendezvous, RoundState};
use crate::task::{ClockSpec, Gate, Measurement};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;
use crate::{EngineError, ParamError, Sizing};
use options::Options;
pub(super) use options::{Before, RecordAction, RecordWorkload};

/// The fewest operations for a 99th percentile: a hundred of them are beyond it.
const FEWEST_FOR_P99: u64 = 10_000;

impl RecordWorkload {
    /// Parses the job that the parameters describe.
    pub(super) fn job(&self, params: &Params, sizing: &Sizing) -> Result<RecordsJob, ParamError> {
        let mut reader = Reader::new(self.name, self.parameters(), params, sizing)?;
        let spec = Spec::read(self.rules(), &mut reader)?;
        let written = match self.before {
            Before::New => false,
            Before::Written => true,
            Before::Asked => overwrite(&spec, &mut reader)?,
        };
        let options = Options::read(self, &spec, written, &mut reader)?;
        let (out, durable) = (spec.cache == CacheState::Out, spec.durability != Durability::None);
        if out && self.action != RecordAction::Read && !durable {
            let message = "writes out of cache must be durable: without a flush the last records stay in memory";
            return Err(reader.error("durability", message));
        }
        reader.finish();
        Ok(RecordsJob { member: *self, spec, written, options })
    }
}

/// Reads whether the work overwrites files. Random writes do, or they would measure how holes are filled.
fn overwrite(spec: &Spec, reader: &mut Reader<'_>) -> Result<bool, ParamError> {
    let random = spec.access == Access::Random;
    let overwrite = reader.flag_or("overwrite", random)?;
    if random && !overwrite {
        return Err(reader.error("overwrite", "random writes overwrite fully written files: use true"));
    }
    if !overwrite && spec.cache == CacheState::Cold {
        return Err(reader.error("cache", "new files are never cold: leave it out, or set overwrite"));
    }
    Ok(overwrite)
}

impl Workload for RecordWorkload {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn example(&self) -> Params {
        let mut params = super::params::of([("file_size", "64K".into()), ("block_size", "4K".into())]);
        if self.action != RecordAction::Read {
            params.insert("durability".to_owned(), "end".into());
        }
        params
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.rules().parameters();
        if self.before == Before::Asked {
            let random = ParameterDefault::Derived("true if access is random");
            let overwrite = Parameter::flag("overwrite", "write over fully written files instead of into new ones");
            all.extend(group(ParameterGroup::Work, [overwrite.default(random)]));
        }
        all.extend(options::parameters(self));
        all
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(self.job(params, sizing)?))
    }
}

impl RecordsJob {
    /// `random read 4K`, and for a stride or a mix that is not the usual one its number.
    fn words(&self) -> String {
        let operation = self.member.operation.replace('_', " ");
        let verb = match self.member.before {
            Before::Asked if self.written && self.spec.access == Access::Sequential => "overwrite",
            _ => &operation,
        };
        let random = self.spec.access == Access::Random && !verb.starts_with("random");
        if random { format!("random {verb}") } else { verb.to_owned() }
    }
}

impl Job for RecordsJob {
    fn profile(&self) -> Profile {
        let mut profile = self.spec.profile(self.member.operation, self.spec.data_label(&self.words()));
        if !self.spec.has_own_label() {
            profile.label += &self.options.label();
        }
        if let Some(rate) = self.options.rate {
            profile.rate = Some(rate);
            profile.primary = &LATENCY_P99;
            profile.fewest = FEWEST_FOR_P99;
        }
        profile.only_writes = matches!(self.member.action, RecordAction::Write | RecordAction::Append);
        let restore = self.restore();
        let again_inside = self.options.close && self.member.again && !self.spec.cache.begins_cold();
        if restore != Restore::Nothing || again_inside {
            profile.renewal = Renewal::Inside;
        } else if !self.written {
            profile.renewal = Renewal::Recreate;
        }
        // A part of a file may fit into memory.
        profile.divisible &= self.spec.cache != CacheState::Out;
        if !self.written {
            profile.repeats_in_place = restore == Restore::Anew;
        }
        profile.cold_bytes_per_operation = match self.member.action {
            RecordAction::Read => profile.cold_bytes_per_operation,
            // The seed decides which operations are reads, so there may be a few fewer than their share.
            RecordAction::Mix => (profile.cold_bytes_per_operation as f64 * self.options.reads() * 0.9) as u64,
            // Whole blocks are replaced without being read.
            RecordAction::Write | RecordAction::Append => 0,
        };
        profile
    }

    fn params(&self) -> Params {
        let mut params = self.spec.params();
        if self.member.before == Before::Asked {
            params.insert("overwrite".to_owned(), self.written.into());
        }
        self.options.add_to(&mut params);
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.spec.backend
    }

    fn unit(&self) -> Option<Unit> {
        // A rate that is kept for a twentieth of a second shows no stalls.
        if self.options.rate.is_some() {
            return None;
        }
        let change = match self.member.action {
            _ if !self.written => Change::Grown,
            RecordAction::Read => Change::Nothing,
            RecordAction::Write | RecordAction::Append | RecordAction::Mix => Change::Overwritten,
        };
        let parse = |params: &Params| self.member.job(params, &Sizing { size: 0, cpus: 1 }).ok();
        let unit = unit::of_set(self, &self.spec, change, parse)?;
        // In a smaller file the frequent records have another share of the visits, so the work is not divided.
        (self.options.distribution.is_none() || unit.params == self.params()).then_some(unit)
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.prepare(context, self.content())
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let set = self.spec.open_set(context)?;
        let rendezvous = Rendezvous::new(self.spec.workers(), matches!(context.clock, ClockSpec::Fake { .. }))?;
        let threads = RecordThreads { job: self, set: &set, context, rendezvous: &rendezvous };
        let verb = if self.member.action == RecordAction::Read { Verb::Read } else { Verb::Write };
        let subject = Subject { interest: Interest::Data, content: self.content(), verb: Some(verb) };
        let (mut measurement, _) = measure_set(&threads, &set, subject, &self.profile(), context, gate)?;
        if !self.in_rounds() {
            rendezvous.add_up();
        }
        measurement.timed_ns = rendezvous.timed_ns();
        measurement.stonewall = rendezvous.stonewall();
        if self.options.verify && verb == Verb::Write && set.backend.capabilities().real {
            fileset::verify(&set.path, &set.layout, context.data())?;
        }
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

/// The threads of one measurement.
struct RecordThreads<'s> {
    job: &'s RecordsJob,
    set: &'s OpenFileSet,
    context: &'s Context,
    rendezvous: &'s Rendezvous,
}

/// The state of one worker.
struct ThreadState<'s> {
    io: IoLoop<'s>,
    /// The loop that writes, if the other one reads.
    writer: Option<IoLoop<'s>>,
    visits: Visits,
    /// Decides which operations of a mix read.
    seed: u64,
    /// Operations of a mix so far.
    turns: u64,
    /// Whether the files are closed.
    closed: bool,
}

impl<'s> RecordThreads<'s> {
    fn visits(&self, rank: u32) -> Visits {
        let visits = self.job.spec.visits(self.context, rank);
        let visits = self.job.options.stride.map_or(visits.clone(), |stride| visits.with_stride(stride));
        let visits = match &self.job.options.distribution {
            Some(distribution) => visits.with_distribution(distribution, self.context.seed),
            None => visits,
        };
        if self.job.in_rounds() { visits.resting() } else { visits }
    }

    fn io(&self, purpose: Purpose, rank: u32) -> Result<IoLoop<'s>, EngineError> {
        let job = self.job;
        let io_options = IoOptions {
            // The measurement does not include files that are created before the clock.
            kind: if purpose == Purpose::Read { OperationKind::Read } else { OperationKind::Write },
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

    /// Restores the state of the first pass.
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

    /// Moves the remaining records, or those that remain in the pass.
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

    /// Starts operations at even intervals, whether the earlier ones were done in time or not. Measures the latency of
    /// each from its due time, so that an operation that waits behind a stall includes the wait.
    fn keep_pace(
        &self,
        state: &mut ThreadState<'s>,
        recorder: &mut ThreadRecorder<'_>,
        rate: u64,
    ) -> Result<(), EngineError> {
        let (workers, rank) = (f64::from(self.job.spec.workers()), f64::from(recorder.rank));
        let apart = 1e9 / rate as f64;
        // Never refused; with the default slack a thread wakes some 50 us late.
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

    /// Moves one record. In a mix the seed decides the direction.
    fn step(&self, state: &mut ThreadState<'s>, item: u64) -> Result<OperationKind, EngineError> {
        let ThreadState { io, writer, seed, turns, .. } = state;
        let Some(writer) = writer else {
            io.step(item)?;
            return Ok(if self.job.member.action == RecordAction::Read {
                OperationKind::Read
            } else {
                OperationKind::Write
            });
        };
        *turns += 1;
        let reads = unit(hash(*seed, Stream::Mix, *turns)) < self.job.options.reads();
        let (io, kind) = if reads { (io, OperationKind::Read) } else { (writer, OperationKind::Write) };
        io.step(item)?;
        Ok(kind)
    }

    /// Performs one pass with all calls that belong to it, against the clock.
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

    /// Ends a pass of threads that share files, once all of them have arrived. The first one flushes everything to the
    /// device, and each closes its files.
    fn finish_shared(&self, state: &mut ThreadState<'s>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        if self.job.spec.durability == Durability::End && recorder.rank == 0 {
            recorder.sync(self.rendezvous.moved(), || Self::each_writer(state, IoLoop::flush_all))?;
        }
        if self.job.options.close { self.close(state, recorder) } else { Ok(()) }
    }

    fn close(&self, state: &mut ThreadState<'s>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        state.closed = true;
        Self::each_loop(state, IoLoop::close_held)?;
        recorder.tick(OperationKind::Close, 0);
        Ok(())
    }

    /// Calls `act` for the loop that writes: data that was read needs no flush.
    fn each_writer(
        state: &mut ThreadState<'s>,
        act: impl FnOnce(&mut IoLoop<'s>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        act(state.writer.as_mut().unwrap_or(&mut state.io))
    }

    /// Performs rounds until everything is done, the time is up or a worker has failed. A failed worker still comes to
    /// each barrier, or the others would wait for ever.
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

/// The worker itself recreates new files of up to this number of bytes, between two passes. Larger ones take long
/// enough for one process per repetition, before which the target is idle.
const RENEWED_INSIDE: u64 = 64 << 20;

/// The way in which a worker restores the state before the next pass, outside the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restore {
    /// There is nothing to restore, or the worker does not restore it.
    Nothing,
    /// Closes the files and opens them again.
    Reopen,
    /// Removes them and creates them again.
    Anew,
}

/// A workload that moves records, with its parameters.
pub(crate) struct RecordsJob {
    member: RecordWorkload,
    spec: Spec,
    /// Whether the files are fully written before.
    written: bool,
    options: Options,
}

impl RecordsJob {
    fn restore(&self) -> Restore {
        let Spec { layout, threads, backend, .. } = &self.spec;
        let files = self.spec.files_per_process();
        let small = files <= HELD_FILES && files * layout.file_size <= RENEWED_INSIDE;
        match self.member.action {
            RecordAction::Append => Restore::Nothing,
            // A cold state requires a remount, which a worker does not do.
            _ if self.spec.cache.begins_cold() => Restore::Nothing,
            // Threads that share a file would have to agree on which of them removes it.
            RecordAction::Write if !self.written && *threads == 1 && small => Restore::Anew,
            RecordAction::Write if !self.written => Restore::Nothing,
            _ if files > HELD_FILES => Restore::Nothing,
            _ if self.options.close => Restore::Reopen,
            // Reading or writing again through the same open file would be another workload.
            _ if backend.capabilities().remembers && !self.member.again => Restore::Reopen,
            _ => Restore::Nothing,
        }
    }

    /// Returns whether each pass is a round of its own, with work before or after it.
    fn in_rounds(&self) -> bool {
        let locked = self.options.lock == Some(Lock::File);
        self.restore() != Restore::Nothing || self.options.close || self.spec.durability == Durability::End || locked
    }

    fn content(&self) -> Content {
        match self.restore() {
            _ if self.written => Content::Full,
            Restore::Anew => Content::Directories,
            _ => Content::Empty,
        }
    }

    fn purposes(&self) -> (Purpose, Option<Purpose>) {
        match self.member.action {
            RecordAction::Read => (Purpose::Read, None),
            RecordAction::Append => (Purpose::Append, None),
            RecordAction::Write if self.restore() == Restore::Anew => (Purpose::Create, None),
            RecordAction::Write => (Purpose::Write, None),
            RecordAction::Mix => (Purpose::Read, Some(Purpose::Write)),
        }
    }
}

//! Workloads that move the records of files: one type, of which each member of the registry is a constant.
//!
//! A member says in which order records are visited, which way data goes, what the files hold before, and which
//! backends it is about. What it leaves open is a parameter.

#[cfg(test)]
mod call_log;
mod options;
#[cfg(test)]
mod tests;
mod thread_job;

use fsb_model::metric::LATENCY_P99;
use fsb_model::{Access, CacheState, Durability, Params};

use super::measure::{Subject, measure_set};
use super::parameter::{Parameter, ParameterDefault, ParameterGroup, group};
use super::params::Reader;
use super::spec::{Records, Rules, Spec};
use super::unit::{self, Change, Unit};
use super::{Job, Workload};
use crate::backend::Backend;
use crate::backend::{Purpose, Verb};
use crate::context::Context;
use crate::fileset::{self, Content, Interest};
use crate::io_loop::HELD_FILES;
use crate::profile::{Profile, Renewal};
use crate::rendezvous::Rendezvous;
use crate::task::{ClockSpec, Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};
use options::Options;
use thread_job::RecordThreads;

/// New files of up to this number of bytes are made anew by the worker itself, between two passes. Larger ones take
/// long enough for a process a repetition, before which the target is settled.
const RENEWED_INSIDE: u64 = 64 << 20;

/// A hundred of them lie beyond the 99th percentile.
const FEWEST_FOR_P99: u64 = 10_000;

/// What is done to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordAction {
    Read,
    Write,
    /// Written at the end, wherever that is.
    Append,
    /// Read or written, as the seed decides.
    Mix,
}

/// What the files hold before the first pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing: they are new.
    New,
    /// All their bytes.
    Written,
    /// One or the other: the parameter `overwrite` says which.
    Asked,
}

/// A member of the registry.
#[derive(Clone, Copy)]
pub(super) struct RecordWorkload {
    /// In plans.
    pub(super) name: &'static str,
    /// In records.
    pub(super) operation: &'static str,
    pub(super) about: &'static str,
    pub(super) action: RecordAction,
    pub(super) before: Before,
    /// The first one is the default.
    pub(super) access: &'static [Access],
    /// Each record was visited once through the same open file before the clock.
    pub(super) again: bool,
    /// The backends that it is about, the usual one first; any of them where there are none.
    pub(super) backends: &'static [&'static str],
    pub(super) file_size: &'static str,
    /// The usual record, where it does not follow from the access.
    pub(super) block_size: Option<&'static str>,
}

impl RecordWorkload {
    /// A member to tell others from.
    pub(super) const BASE: RecordWorkload = RecordWorkload {
        name: "",
        operation: "",
        about: "",
        action: RecordAction::Read,
        before: Before::Written,
        access: &[Access::Sequential],
        again: false,
        backends: &[],
        file_size: "size/8",
        block_size: None,
    };

    fn rules(&self) -> Rules {
        use CacheState::{Any, Cold, Out, Warm};
        let cache: &[CacheState] = match (self.action, self.before) {
            (RecordAction::Read, _) if self.again => &[Warm, Any, Out],
            (RecordAction::Read | RecordAction::Mix, _) => &[Warm, Cold, Any, Out],
            (RecordAction::Append, _) => &[Any],
            // One record, which is in memory once it was written, whatever may lie there beside it.
            (RecordAction::Write, _) if self.access == [Access::Same] => &[Any, Cold, Warm],
            (RecordAction::Write, Before::New) => &[Any, Warm, Out],
            (RecordAction::Write, Before::Written | Before::Asked) => CacheState::ALL,
        };
        let durability = if self.action == RecordAction::Read { &[Durability::None] } else { Durability::ALL };
        let RecordWorkload { name, file_size, block_size, access, backends, .. } = *self;
        let records = Records::Each;
        Rules { name, files: "1", file_size, block_size, records, access, durability, cache, backends }
    }

    /// The job that the parameters describe.
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
            let message = "what is written out of cache is durable: without a flush the last of it stays in memory";
            return Err(reader.error("durability", message));
        }
        reader.finish();
        Ok(RecordsJob { member: *self, spec, written, options })
    }
}

/// Whether files are written over. Random writes are: or they would measure how holes are filled.
fn overwrite(spec: &Spec, reader: &mut Reader<'_>) -> Result<bool, ParamError> {
    let random = spec.access == Access::Random;
    let overwrite = reader.flag_or("overwrite", random)?;
    if random && !overwrite {
        return Err(reader.error("overwrite", "random writes go over fully written files, so it cannot be false"));
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

/// How a worker restores the state before the next pass, outside the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restore {
    /// There is nothing to restore, or others do it.
    Nothing,
    /// Closes the files and opens them again.
    Reopen,
    /// Removes them and creates them again.
    Anew,
}

pub(super) struct RecordsJob {
    member: RecordWorkload,
    spec: Spec,
    /// The files hold all their bytes before.
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
            // What begins cold begins with a remount, which is not a worker's to make.
            _ if self.spec.cache.begins_cold() => Restore::Nothing,
            // Threads that share a file would have to agree on which of them removes it.
            RecordAction::Write if !self.written && *threads == 1 && small => Restore::Anew,
            RecordAction::Write if !self.written => Restore::Nothing,
            _ if files > HELD_FILES => Restore::Nothing,
            _ if self.options.close => Restore::Reopen,
            // What was read or written again through the same open file would be another workload.
            _ if backend.capabilities().remembers && !self.member.again => Restore::Reopen,
            _ => Restore::Nothing,
        }
    }

    /// Whether each pass is a stretch of its own, with something to do before or after it.
    fn in_rounds(&self) -> bool {
        let locked = self.options.lock == Some(crate::io_loop::Lock::File);
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
        // A part of a file may well fit memory.
        profile.divisible &= self.spec.cache != CacheState::Out;
        if !self.written {
            profile.repeats_in_place = restore == Restore::Anew;
        }
        profile.cold_bytes_per_operation = match self.member.action {
            RecordAction::Read => profile.cold_bytes_per_operation,
            // The seed decides which operations are reads: a few less than their share.
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
        // A rate that is kept for a twentieth of a second tells nothing of stalls.
        if self.options.rate.is_some() {
            return None;
        }
        let change = match self.member.action {
            _ if !self.written => Change::Grown,
            RecordAction::Read => Change::Nothing,
            RecordAction::Write | RecordAction::Append | RecordAction::Mix => Change::Overwritten,
        };
        unit::of_set(self, &self.spec, change, |params| self.member.job(params, &Sizing { size: 0, cpus: 1 }).ok())
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

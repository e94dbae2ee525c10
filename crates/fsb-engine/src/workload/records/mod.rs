//! Workloads that move the records of files: one type, of which each member of the registry is a constant.
//!
//! A member says in which order records are visited, which way data goes, what the files hold before, and which
//! backends it is about. What it leaves open is a parameter.

#[cfg(test)]
mod call_log;
mod definition;
mod job;
mod options;
#[cfg(test)]
mod tests;
mod thread_job;

use fsb_model::metric::LATENCY_P99;
use fsb_model::{Access, CacheState, Durability, Params};

use super::job::{Job, Unit, Workload};
use super::measure::{Subject, measure_set};
use super::parameter::{Parameter, ParameterDefault, ParameterGroup, group};
use super::params::Reader;
use super::spec::Spec;
use super::unit::{self, Change};
use crate::backend::Backend;
use crate::backend::Verb;
use crate::context::Context;
use crate::fileset::{self, Interest};
use crate::profile::{Profile, Renewal};
use crate::rendezvous::Rendezvous;
use crate::task::{ClockSpec, Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};
pub(super) use definition::{Before, RecordAction, RecordWorkload};
use job::{RecordsJob, Restore};
use options::Options;
use thread_job::RecordThreads;

/// A hundred of them lie beyond the 99th percentile.
const FEWEST_FOR_P99: u64 = 10_000;

impl RecordWorkload {
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
            let message = "writes out of cache must be durable: without a flush the last records stay in memory";
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

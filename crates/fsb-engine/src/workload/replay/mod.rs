//! A trace of a program's file calls, replayed: the files that it found are made, then its threads do what they did.
//!
//! Order is kept where files, names or descriptors depend on it, as `fsb_trace::Order` says, and thought between calls takes
//! as long as it took, or a multiple of that, or none. What is timed is the whole, from the first call to the last one, with
//! those syncs that the program asked for. Every result is compared with the recorded one.

mod calls;
mod example;
mod feeder;
mod initial;
mod lane;
mod options;
mod slots;
mod source;
mod step;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::BTreeMap;

use fsb_model::Params;
use fsb_model::metric::REPLAY_TIME;
use fsb_trace::Totals;

use super::job::{Job, Workload};
use super::parameter::Parameter;
use super::params;
use crate::backend::{self, Backend};
use crate::context::Context;
use crate::profile::Profile;
use crate::task::{Gate, Measurement, Ready};
use crate::{EngineError, ParamError, Sizing, fileset, threads};
use calls::{Kernel, Nothing, Target};
use feeder::Feeder;
use lane::Replay;
use options::Options;

/// What a call is counted as.
const OPERATION: &str = "call";
/// A replay of which a larger share had other results is none.
const MOST_OTHERS: f64 = 0.01;

/// The member.
pub(super) struct AnyTrace;

impl Workload for AnyTrace {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn about(&self) -> &'static str {
        "a program's file calls as 'fsb record' recorded them, with their threads, order and think times"
    }

    fn example(&self) -> Params {
        params::of([("trace", source::EXAMPLE.into()), ("pace", "none".into())])
    }

    fn parameters(&self) -> Vec<Parameter> {
        options::parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(ReplayJob(Options::parse(self.name(), params, sizing)?)))
    }
}

struct ReplayJob(Options);

impl Job for ReplayJob {
    fn profile(&self) -> Profile {
        let Options { totals, cache, .. } = &self.0;
        Profile {
            threads: totals.lanes.max(1),
            cache: *cache,
            operations: totals.replayed,
            reaches_device: true,
            space: totals.space,
            inodes: totals.inodes + 1,
            // No durability is added: the syncs of the program are part of the measured work.
            ..Profile::base(OPERATION, &REPLAY_TIME, self.0.label())
        }
    }

    fn own_data(&self) -> Option<&'static str> {
        Some("a trace has no data, so a replay writes incompressible data")
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        backend::CALLS
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        let set = context.set();
        fileset::make_anew(&set)?;
        let skimmed = self.0.source.skim()?;
        initial::make(&set, &skimmed, context)?;
        fileset::sync(&set)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let real = context.backend(backend::CALLS).capabilities().real;
        let skimmed = self.0.source.skim()?;
        if real {
            check_memory(&skimmed.totals)?;
        }
        let target: Box<dyn Target> = match real {
            true => Box::new(Kernel::new(&context.set(), &skimmed)?),
            false => Box::new(Nothing),
        };
        let feeder = Feeder::new(&self.0, &skimmed)?;
        feeder.fill()?;
        let replay = Replay::new(&*target, &feeder, &self.0, context, &skimmed.totals);
        let outcome = std::thread::scope(|scope| {
            let feeding = std::thread::Builder::new().spawn_scoped(scope, || feeder.feed());
            let feeding =
                feeding.map_err(|error| EngineError::spawn("start the thread that reads the trace", &error))?;
            let outcome = threads::run(&replay, context, &self.profile(), Ready::default(), true, gate);
            feeder.stop();
            let fed = feeding.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload));
            outcome.and_then(|outcome| fed.map(|()| outcome))
        })?;
        let mut measurement = outcome.measurement(OPERATION);
        measurement.counts = check(&outcome.reports, measurement.operations, feeder.unopened())?;
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

/// Refuses a trace whose threads need more memory for data than this machine can spare.
fn check_memory(totals: &Totals) -> Result<(), EngineError> {
    /// Data may fill this fraction of the machine's memory: a quarter.
    const SHARE: u64 = 4;
    let machine = rustix::system::sysinfo();
    let spare = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit)) / SHARE;
    let needed = lane::largest(totals) as u64 * lane::BUFFERS * u64::from(totals.lanes.max(1));
    if needed <= spare {
        return Ok(());
    }
    let shown = |bytes: u64| fsb_model::units::show_bytes(bytes as f64);
    Err(EngineError::new(format!(
        "the {} threads of the trace need {} of memory for calls of up to {}, but {} are available",
        totals.lanes,
        shown(needed),
        shown(lane::largest(totals) as u64),
        shown(spare)
    )))
}

/// How many results were others; too many are an error, which says what was the first.
fn check(reports: &[lane::Report], calls: u64, unopened: u64) -> Result<BTreeMap<String, u64>, EngineError> {
    let others: u64 = reports.iter().map(|report| report.others).sum();
    let first = reports.iter().filter_map(|report| report.first.as_ref()).min_by_key(|first| first.start_ns);
    let all = others + unopened;
    if let Some(first) = first.filter(|_| all as f64 > MOST_OTHERS * calls as f64) {
        return Err(EngineError::new(format!(
            "{others} of {calls} calls had another result than recorded; the first: {first}"
        )));
    }
    if unopened as f64 > MOST_OTHERS * calls as f64 {
        return Err(EngineError::new(format!(
            "{unopened} of {calls} calls are on descriptors that the trace never opens"
        )));
    }
    let counts = [("other_results", others), ("calls_before_their_opens", unopened)];
    Ok(counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect())
}

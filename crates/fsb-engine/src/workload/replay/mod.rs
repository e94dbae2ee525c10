//! Replays a trace of a program's file calls: makes the files that the program found, then repeats the calls of its
//! threads.
//!
//! The replay keeps the order of calls where files, names or descriptors depend on it (`fsb_trace::Order`). The think
//! time between calls is the recorded one, a multiple of it, or none. The clock covers everything from the first call
//! to the last one, with the syncs of the program. The replay compares every result with the recorded one.

mod calls;
mod feeder;
mod lane;
mod options;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsb_model::Params;
use fsb_model::metric::REPLAY_TIME;
use fsb_trace::{Initial, Skimmed, State, Totals, is_inside};

use super::job::{Job, Workload};
use super::parameter::Parameter;
use super::params;
use crate::backend::{self, Backend};
use crate::context::Context;
use crate::data::Data;
use crate::profile::Profile;
use crate::task::{Gate, Measurement, Ready};
use crate::{EngineError, ParamError, Sizing, fileset, threads};
use calls::{Kernel, Nothing, Target};
use feeder::Feeder;
use lane::Replay;
use options::Options;

/// The name of the operation that a call counts as.
const OPERATION: &str = "call";
/// A replay is invalid if a larger share of its calls had other results.
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
        params::of([("trace", options::EXAMPLE.into()), ("pace", "none".into())])
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
        make(&set, &skimmed, context)?;
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

/// Counts the results that differ from the recorded ones, and the calls on unopened descriptors. Too many are an error,
/// which contains the first different result, if there is one.
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

/// Bytes of one write.
const PIECE: u64 = 1 << 20;

/// Makes all files of the trace below an empty directory.
fn make(set: &Path, skimmed: &Skimmed, context: &Context) -> Result<(), EngineError> {
    check_room(set, skimmed)?;
    let mut data = Data::new(context.data(), PIECE as usize);
    let mut address = 0;
    let path = |name: u32| {
        let name = skimmed.names.get(name);
        // The reader has refused names that lead out of the directory. This is a second check.
        is_inside(name).then(|| set.join(OsStr::from_bytes(name)))
    };
    // Links last: no name of the trace leads through one while files are made.
    let later = |initial: &Initial| matches!(initial.state, State::Link { .. } | State::Same { .. });
    let (last, first): (Vec<_>, Vec<_>) = skimmed.initial.iter().partition(|initial| later(initial));
    for Initial { name, state } in first.into_iter().chain(last) {
        let Some(path) = path(*name).filter(|path| path != set) else { continue };
        let made = above(&path).and_then(|()| match state {
            State::Directory => fs::create_dir_all(&path),
            State::File { size, data: pieces } => file(&path, *size, pieces.as_deref(), &mut data, &mut address),
            State::Link { to } => std::os::unix::fs::symlink(OsStr::from_bytes(to), &path),
            State::Same { name } => {
                self::path_of(set, skimmed, *name).map_or(Ok(()), |first| fs::hard_link(first, &path))
            }
        });
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(EngineError::io("make", &path, &error));
            }
            _ => context.progress.add(1),
        }
    }
    Ok(())
}

fn path_of(set: &Path, skimmed: &Skimmed, name: u32) -> Option<PathBuf> {
    let name = skimmed.names.get(name);
    is_inside(name).then(|| set.join(OsStr::from_bytes(name)))
}

/// Makes the directories above a file: the trace of another tool does not always contain them.
fn above(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn file(path: &Path, size: u64, pieces: Option<&[(u64, u64)]>, data: &mut Data, address: &mut u64) -> io::Result<()> {
    let file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let whole = [(0, size)];
    for (offset, length) in pieces.unwrap_or(&whole) {
        let mut at = 0;
        while at < *length {
            let piece = (length - at).min(PIECE);
            file.write_all_at(data.window(*address, piece as usize), offset + at)?;
            at += piece;
            *address += piece.next_multiple_of(4096);
        }
    }
    file.set_len(size)
}

/// Refuses sizes that no file system has, or that this one has no room for, before anything is made.
fn check_room(set: &Path, skimmed: &Skimmed) -> Result<(), EngineError> {
    let mut needed: u64 = 0;
    for Initial { state, .. } in &skimmed.initial {
        if let State::File { size, data } = state {
            if *size > i64::MAX as u64 {
                return Err(EngineError::new(format!(
                    "the trace has a file of {size} bytes, larger than any file can be"
                )));
            }
            let held = data.as_ref().map_or(*size, |data| data.iter().map(|(_, length)| *length).sum());
            needed = needed.saturating_add(held);
        }
    }
    let free = rustix::fs::statvfs(set).map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize));
    if needed > free {
        let shown = fsb_model::units::show_bytes;
        return Err(EngineError::new(format!(
            "the files of the trace hold {}, but the target has room for {}: use a larger --size",
            shown(needed as f64),
            shown(free as f64)
        )));
    }
    Ok(())
}

//! Replays a trace of a program's file calls: makes the files that the program found, then repeats
//! the calls of its threads.
//!
//! The replay keeps the order of calls where files, names or descriptors depend on it
//! (`fsb_trace::Order`). The think time between calls is the recorded one, a multiple of it, or
//! none. The clock covers everything from the first call to the last one, with the syncs of the
//! program. The replay compares every result with the recorded one.

mod calls;
mod feeder;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{fmt, io};

use calls::{Batch, Buffers, Kernel, Nothing, ReplayStep, Target};
use feeder::{Feeder, ReplayOptions};
use fsb_model::Params;
use fsb_model::metric::REPLAY_TIME;
use fsb_model::units::show_size;
use fsb_trace::{Call, CallKind, Initial, Skimmed, State, Totals, is_inside};
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

use super::job::{Job, Workload};
use super::parameter::Parameter;
use super::params;
use crate::backend::{self, Backend};
use crate::data::Data;
use crate::error::{EngineError, ParamError};
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement, Ready, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};
use crate::{clock, fileset};

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
        params::from_pairs([("trace", feeder::EXAMPLE.into()), ("pace", "none".into())])
    }

    fn parameters(&self) -> Vec<Parameter> {
        feeder::parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(ReplayJob(ReplayOptions::parse(
            self.name(),
            params,
            sizing,
        )?)))
    }
}

struct ReplayJob(ReplayOptions);

impl Job for ReplayJob {
    fn profile(&self) -> Profile {
        let ReplayOptions { totals, cache, .. } = &self.0;
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
            let feeding = feeding.map_err(|error| {
                EngineError::spawn("start the thread that reads the trace", &error)
            })?;
            let outcome = threads::run(
                &replay,
                context,
                &self.profile(),
                Ready::default(),
                !is_alone(&skimmed.totals),
                gate,
            );
            feeder.stop();
            let fed = feeding
                .join()
                .unwrap_or_else(|payload| std::panic::resume_unwind(payload));
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

/// Returns whether one thread makes all calls. It then has a descriptor table of its own, as a
/// program with one thread has, and closes there what the trace leaves open.
fn is_alone(totals: &Totals) -> bool {
    totals.lanes <= 1
}

/// Refuses a trace whose threads need more memory for data than this machine can spare.
fn check_memory(totals: &Totals) -> Result<(), EngineError> {
    /// Data may fill this fraction of the machine's memory: a quarter.
    const SHARE: u64 = 4;
    let machine = rustix::system::sysinfo();
    let spare = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit)) / SHARE;
    let needed = largest(totals) as u64 * BUFFERS * u64::from(totals.lanes.max(1));
    if needed <= spare {
        return Ok(());
    }
    Err(EngineError::new(format!(
        "the {} threads of the trace need {} of memory for calls of up to {}, but {} are available",
        totals.lanes,
        show_size(needed),
        show_size(largest(totals) as u64),
        show_size(spare)
    )))
}

/// Counts the results that differ from the recorded ones, and the calls on unopened descriptors.
/// Too many are an error, which contains the first different result, if there is one.
fn check(
    reports: &[Report],
    calls: u64,
    unopened: u64,
) -> Result<BTreeMap<String, u64>, EngineError> {
    let others: u64 = reports.iter().map(|report| report.others).sum();
    let first = reports
        .iter()
        .filter_map(|report| report.first.as_ref())
        .min_by_key(|first| first.start_ns);
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
    let counts = [
        ("other_results", others),
        ("calls_before_their_opens", unopened),
    ];
    Ok(counts
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count))
        .collect())
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
    let (last, first): (Vec<_>, Vec<_>) = skimmed
        .initial
        .iter()
        .partition(|initial| matches!(initial.state, State::Link { .. } | State::Same { .. }));
    for Initial { name, state } in first.into_iter().chain(last) {
        let Some(path) = path(*name).filter(|path| path != set) else {
            continue;
        };
        let made = above(&path).and_then(|()| match state {
            State::Directory => fs::create_dir_all(&path),
            State::File { size, data: pieces } => {
                file(&path, *size, pieces.as_deref(), &mut data, &mut address)
            }
            State::Link { to } => std::os::unix::fs::symlink(OsStr::from_bytes(to), &path),
            State::Same { name } => self::path_of(set, skimmed, *name)
                .map_or(Ok(()), |first| fs::hard_link(first, &path)),
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

fn file(
    path: &Path,
    size: u64,
    pieces: Option<&[(u64, u64)]>,
    data: &mut Data,
    address: &mut u64,
) -> io::Result<()> {
    let file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
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

/// Refuses sizes that no file system has, or that this one has no room for, before anything is
/// made.
fn check_room(set: &Path, skimmed: &Skimmed) -> Result<(), EngineError> {
    let mut needed: u64 = 0;
    for Initial { state, .. } in &skimmed.initial {
        if let State::File { size, data } = state {
            if *size > i64::MAX as u64 {
                return Err(EngineError::new(format!(
                    "the trace has a file of {size} bytes, larger than any file can be"
                )));
            }
            let held = data
                .as_ref()
                .map_or(*size, |data| data.iter().map(|(_, length)| *length).sum());
            needed = needed.saturating_add(held);
        }
    }
    let reported = fsb_sys::space::FreeSpace::at(set)
        .ok()
        .and_then(|space| space.bytes);
    if let Some(free) = reported.filter(|free| needed > *free) {
        let shown = fsb_model::units::show_bytes;
        return Err(EngineError::new(format!(
            "the files of the trace hold {}, but the target has room for {}: use a larger --size",
            shown(needed as f64),
            shown(free as f64)
        )));
    }
    Ok(())
}

/// A thread sleeps through longer think times until this many nanoseconds before their end. From
/// then on it polls the clock, because the recorded program was on a processor.
const AWAKE_NS: u64 = 80_000;

/// Buffers of a lane, each of [`largest`] bytes.
const BUFFERS: u64 = 2;

/// Returns the bytes of the largest call, limited to the bytes that a replay moves.
pub(super) fn largest(totals: &Totals) -> usize {
    totals
        .largest
        .clamp(4096, calls::MOST_MOVED)
        .next_multiple_of(4096) as usize
}

/// Returns the bytes that a replayed call moved. If no call is made, `result` is the recorded one
/// and may be any number, so it is limited to the most that Linux moves in one call (0x7ffff000
/// bytes, write(2)).
fn moved_bytes(call: &Call, result: i64) -> u64 {
    const LARGEST: u64 = 0x7fff_f000;
    Call { result, ..*call }.moved().min(LARGEST)
}

/// The report of one thread.
#[derive(Debug, Default)]
struct Report {
    /// Calls with another result than the recorded one.
    others: u64,
    first: Option<Other>,
}

/// A call with another result.
#[derive(Debug)]
struct Other {
    start_ns: u64,
    /// The name of the call.
    call: &'static str,
    name: Box<str>,
    recorded: i64,
    result: i64,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A trace may contain any number, and not every number has a negative.
        fn said(result: i64) -> String {
            match result
                .checked_neg()
                .and_then(|number| i32::try_from(number).ok())
            {
                Some(number) if number > 0 => fsb_model::errno::describe(number),
                _ => result.to_string(),
            }
        }
        write!(
            f,
            "{}{}: {} instead of {}",
            self.call,
            self.name,
            said(self.result),
            said(self.recorded)
        )
    }
}

/// All threads of a replay.
struct Replay<'r> {
    target: &'r dyn Target,
    feeder: &'r Feeder,
    turns: Turns,
    pace: f64,
    largest: usize,
    is_alone: bool,
    context: &'r Context,
}

impl<'r> Replay<'r> {
    fn new(
        target: &'r dyn Target,
        feeder: &'r Feeder,
        options: &ReplayOptions,
        context: &'r Context,
        totals: &Totals,
    ) -> Replay<'r> {
        let turns = Turns::new(totals.lanes);
        Replay {
            target,
            feeder,
            turns,
            pace: options.pace.0,
            largest: largest(totals),
            is_alone: is_alone(totals),
            context,
        }
    }

    /// Returns the time at which a think time of `ns` nanoseconds since `from_ns` ends, according
    /// to the pace.
    fn think_ns(&self, from_ns: u64, ns: u64) -> u64 {
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

    /// Waits for calls of other lanes. Returns the time at which the last of them ended, as far as
    /// that matters, or `None` if another thread has failed.
    fn wait_for(
        &self,
        step: &ReplayStep,
        batch: &Batch,
        recorder: &ThreadRecorder<'_>,
    ) -> Option<u64> {
        let waits = &batch.waits[step.waits.start as usize..step.waits.end as usize];
        let mut ended = waits
            .iter()
            .map(|(lane, number)| self.turns.wait(*lane, *number, || recorder.failed()));
        ended.try_fold(0, |latest, ended| {
            Some(match ended? {
                Ended::At(ended_ns) => latest.max(ended_ns),
                Ended::Before => latest,
                Ended::Meanwhile => recorder.now(),
            })
        })
    }

    /// Performs one call in its turn. Returns false if another thread has failed.
    fn step(
        &self,
        step: &ReplayStep,
        batch: &Batch,
        state: &mut LaneState<'_>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> bool {
        let ReplayStep { call, .. } = step;
        state.number += 1;
        let waits = !step.waits.is_empty();
        let waited = if waits {
            self.wait_for(step, batch, recorder)
        } else {
            Some(0)
        };
        let Some(others_ns) = waited else {
            return false;
        };
        let thinks = self.pace > 0.0 && step.think_ns.max(step.after_ns) > 0;
        if thinks {
            let own_ns = self.think_ns(state.ended_ns, step.think_ns);
            let others_ns = if waits {
                self.think_ns(others_ns, step.after_ns)
            } else {
                0
            };
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
        let result = if step.unopened {
            call.result
        } else {
            self.target.call(step, &mut state.buffers)
        };
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
struct LaneState<'r> {
    /// The target, if this thread closes its descriptors.
    closes: Option<&'r dyn Target>,
    rank: u32,
    number: u32,
    ended_ns: u64,
    buffers: Buffers,
    report: Report,
}

impl Drop for LaneState<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.closes {
            target.close_all();
        }
    }
}

impl LaneState<'_> {
    #[cold]
    fn other(&mut self, call: &Call, result: i64, target: &dyn Target) {
        self.report.others += 1;
        if self.report.first.is_none() {
            let name = target.name(call);
            let (start_ns, recorded) = (call.start_ns, call.result);
            self.report.first = Some(Other {
                start_ns,
                call: call.name(),
                name,
                recorded,
                result,
            });
        }
    }
}

impl<'r> ThreadJob for Replay<'r> {
    type ThreadState = LaneState<'r>;
    type Report = Report;

    fn init(&self, rank: u32) -> Result<LaneState<'r>, EngineError> {
        calls::wake_exactly();
        let largest = if self.target.is_nothing() {
            4096
        } else {
            self.largest
        };
        let buffers = Buffers::new(self.context.data(), rank, largest);
        Ok(LaneState {
            closes: self.is_alone.then_some(self.target),
            rank,
            number: 0,
            ended_ns: 0,
            buffers,
            report: Report::default(),
        })
    }

    fn run(
        &self,
        state: &mut LaneState<'r>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        state.ended_ns = recorder.last();
        let mut done: Option<Batch> = None;
        while let Some(batch) = self
            .feeder
            .next(state.rank, done.as_ref(), || recorder.failed())
        {
            for step in &batch.steps {
                if !self.step(step, &batch, state, recorder) {
                    return Ok(());
                }
            }
            done = Some(batch);
        }
        Ok(())
    }

    fn report(&self, mut state: LaneState<'r>) -> Report {
        std::mem::take(&mut state.report)
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
const NAP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

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
        let Some(progress) = self.0.get(lane as usize) else {
            return;
        };
        progress.ended_ns[number as usize & 1].store(now_ns, Ordering::Release);
        progress.ended.store(number, Ordering::SeqCst);
        if progress.sleepers.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(&progress.ended, Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// Waits until the lane has ended `number` calls; `None` if `given_up` ends the wait.
    #[inline]
    fn wait(&self, lane: u32, number: u32, given_up: impl Fn() -> bool) -> Option<Ended> {
        let Some(progress) = self.0.get(lane as usize) else {
            return Some(Ended::Before);
        };
        let before = progress.ended.load(Ordering::Acquire);
        if before < number && !self.reach(progress, number, given_up) {
            return None;
        }
        let ended_ns = progress.ended_ns[number as usize & 1].load(Ordering::Acquire);
        // Only the next call but one overwrites the time: while `ended` is this number, it is the
        // time of this call.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    use fsb_model::WorkloadSpec;
    use fsb_trace::{Call, CallKind, Gap, Header, Initial, State, Totals, Unseen, Writer, flags};

    use crate::task::{Measurement, Step};
    use crate::worker;
    use crate::workload::testing::{Open, Pairs, label, run_once, task, with};

    /// Writes a trace of these files and calls; calls follow each other a microsecond apart.
    fn trace(
        directory: &Path,
        files: &[(&str, State)],
        calls: &[(Option<&str>, Call)],
        known: Totals,
    ) -> PathBuf {
        let mut out = Writer::new(
            Vec::new(),
            &Header {
                by: "test".to_owned(),
                ..Header::default()
            },
        )
        .unwrap();
        for (name, state) in files {
            let name = out.name(name.as_bytes()).unwrap();
            out.initial(Initial {
                name,
                state: state.clone(),
            })
            .unwrap();
        }
        for (at, (name, call)) in calls.iter().enumerate() {
            let name = name.map_or(0, |name| out.name(name.as_bytes()).unwrap());
            out.call(&Call {
                name,
                start_ns: at as u64 * 1000,
                ..*call
            })
            .unwrap();
        }
        let path = directory.join("a.trace");
        fs::write(&path, out.finish(known).unwrap().0).unwrap();
        path
    }

    fn spec(trace: &Path, pairs: Pairs<'_>) -> WorkloadSpec {
        let mut spec = with("replay", pairs);
        spec.params
            .insert("trace".to_owned(), trace.to_str().unwrap().into());
        spec
    }

    fn open(handle: u32, flags: u32) -> Call {
        Call {
            handle,
            flags,
            length: 0o644,
            ..Call::new(CallKind::Open)
        }
    }

    fn read(handle: u32, result: i64) -> Call {
        Call {
            handle,
            length: 100,
            result,
            ..Call::new(CallKind::Read)
        }
    }

    fn file(size: u64) -> State {
        State::File { size, data: None }
    }

    fn replay(trace: &Path, pairs: Pairs<'_>) -> Result<Measurement, String> {
        let root = tempfile::tempdir().unwrap();
        run_once(&spec(trace, pairs), root.path(), |_| {}).map_err(|error| error.to_string())
    }

    #[test]
    fn initial_files_are_made_with_holes_and_links() {
        let root = tempfile::tempdir().unwrap();
        let holes = State::File {
            size: 1 << 40,
            data: Some(vec![(4096, 4096)]),
        };
        let files = [
            ("d/e", State::Directory),
            ("d/e/whole", file(5000)),
            ("holes", holes),
            (
                "d/link",
                State::Link {
                    to: b"e/whole".to_vec(),
                },
            ),
            ("d/again", State::Same { name: 2 }),
        ];
        let calls = [(Some("holes"), Call::new(CallKind::StatName))];
        let path = trace(root.path(), &files, &calls, Totals::default());
        let spec = spec(&path, &[]);
        worker::perform(
            &task(Step::Prepare, &spec, root.path(), 1),
            &mut Open::default(),
        )
        .unwrap();
        let at = |name: &str| root.path().join("fsb-set").join(name);
        let found = fs::metadata(at("holes")).unwrap();
        assert_eq!(found.len(), 1 << 40);
        assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
        assert_eq!(fs::read(at("d/link")).unwrap().len(), 5000);
        assert_eq!(
            fs::metadata(at("d/again")).unwrap().ino(),
            fs::metadata(at("d/e/whole")).unwrap().ino()
        );
        assert!(
            fs::read(at("d/e/whole"))
                .unwrap()
                .iter()
                .any(|byte| *byte != 0),
            "no holes that were none"
        );
    }

    #[test]
    fn descriptors_stand_where_the_program_left_them() {
        let root = tempfile::tempdir().unwrap();
        let calls = [
            (Some("f"), open(1, flags::READ)),
            (None, read(1, 100)),
            (
                None,
                Call {
                    other: 1,
                    ..Call {
                        handle: 2,
                        ..Call::new(CallKind::Duplicate)
                    }
                },
            ),
            (
                None,
                Call {
                    handle: 1,
                    ..Call::new(CallKind::Close)
                },
            ),
            (None, read(2, 50)),
            (
                None,
                Call {
                    handle: 2,
                    offset: 120,
                    result: 120,
                    ..Call::new(CallKind::Seek)
                },
            ),
            (None, read(2, 30)),
            (
                None,
                Call {
                    handle: 2,
                    ..Call::new(CallKind::Close)
                },
            ),
            (
                Some("f"),
                Call {
                    result: -17,
                    ..Call::new(CallKind::MakeDirectory)
                },
            ),
        ];
        let path = trace(root.path(), &[("f", file(150))], &calls, Totals::default());
        let measured = replay(&path, &[("pace", "none".into())]).unwrap();
        assert_eq!(
            (measured.operations, measured.counts["other_results"]),
            (9, 0)
        );
    }

    #[test]
    fn other_results_are_told_with_the_first_of_them() {
        let root = tempfile::tempdir().unwrap();
        let calls = [(Some("f"), open(1, flags::READ)), (None, read(1, 100))];
        let path = trace(root.path(), &[("f", file(60))], &calls, Totals::default());
        let said = replay(&path, &[]).unwrap_err();
        assert_eq!(
            said,
            "1 of 2 calls had another result than recorded; the first: read at 0 of descriptor 1: 60 instead of 100"
        );
        let missing = [(Some("none"), open(1, flags::READ))];
        let path = trace(root.path(), &[], &missing, Totals::default());
        let said = replay(&path, &[]).unwrap_err();
        assert!(
            said.ends_with("open none: No such file or directory (ENOENT) instead of 0"),
            "{said}"
        );
    }

    #[test]
    fn files_are_opened_with_the_recorded_durability() {
        let root = tempfile::tempdir().unwrap();
        let durable = |given: u32| {
            let flags = super::calls::open_flags(flags::WRITE | flags::CREATE | given);
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let file = rustix::fs::open(root.path().join("f"), flags, mode).unwrap();
            rustix::fs::fcntl_getfl(&file).unwrap().bits() as i32 & libc::O_SYNC
        };
        assert_eq!(durable(0), 0);
        assert_eq!(durable(flags::DATA_SYNC), libc::O_DSYNC);
        assert_eq!(durable(flags::SYNC | flags::DATA_SYNC), libc::O_SYNC);
    }

    /// dpkg makes directories without permissions and sets them afterwards.
    #[test]
    fn workers_can_enter_directories_whose_permissions_change() {
        let change = Call {
            flags: flags::MODE,
            ..Call::new(CallKind::AttributesName)
        };
        let calls = [
            (Some("d"), Call::new(CallKind::MakeDirectory)),
            (Some("d"), change),
            (Some("d/f"), open(1, flags::WRITE | flags::CREATE)),
        ];
        let (measured, root) = replayed_set(&calls, &[]);
        assert_eq!(measured.counts["other_results"], 0);
        // Root may enter every directory, so the permissions count.
        let directory = fs::metadata(root.path().join("fsb-set/d")).unwrap();
        assert_eq!(directory.permissions().mode() & 0o777, 0o755);
    }

    /// The files of the last replay are in the set until it is removed.
    fn replayed_file(
        calls: &[(Option<&str>, Call)],
        files: &[(&str, State)],
        name: &str,
    ) -> (Measurement, Vec<u8>) {
        let (measured, root) = replayed_set(calls, files);
        let content = fs::read(root.path().join("fsb-set").join(name)).unwrap();
        (measured, content)
    }

    fn replayed_set(
        calls: &[(Option<&str>, Call)],
        files: &[(&str, State)],
    ) -> (Measurement, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let path = trace(root.path(), files, calls, Totals::default());
        let spec = spec(&path, &[("pace", "none".into())]);
        let mut open = Open::default();
        worker::perform(&task(Step::Prepare, &spec, root.path(), 1), &mut open).unwrap();
        let measured = worker::perform(&task(Step::Measure, &spec, root.path(), 1), &mut open)
            .unwrap()
            .whole()
            .unwrap();
        (measured, root)
    }

    /// The kernel made such a call without memory of the program. The replay has a buffer of a
    /// mebibyte.
    #[test]
    fn data_from_outside_is_written_in_pieces() {
        let copied = |kind: CallKind, offset: u64, length: u64| Call {
            handle: 1,
            offset,
            length,
            result: length as i64,
            flags: flags::COPIED,
            ..Call::new(kind)
        };
        let calls = [
            (
                Some("f"),
                open(1, flags::WRITE | flags::READ | flags::CREATE),
            ),
            (None, copied(CallKind::Write, 0, 3_000_000)),
            (None, copied(CallKind::WriteAt, 4_000_000, 2_500_000)),
            (None, copied(CallKind::ReadAt, 0, 2_000_000)),
            (None, copied(CallKind::Write, 3_000_000, 0)),
        ];
        let (measured, bytes) = replayed_file(&calls, &[], "f");
        assert_eq!(
            (
                measured.counts["other_results"],
                measured.bytes,
                bytes.len()
            ),
            (0, 7_500_000, 6_500_000)
        );
    }

    #[test]
    fn copies_use_the_recorded_offsets() {
        let copy = |flags: u32, offset: u64, target: u64, length: u64| Call {
            handle: 1,
            other: 2,
            offset,
            target,
            length,
            result: length as i64,
            flags,
            ..Call::new(CallKind::Copy)
        };
        let failed = Call {
            result: -i64::from(libc::EOPNOTSUPP),
            ..copy(flags::CLONE, 0, 0, 0)
        };
        let calls = [
            (Some("a"), open(1, flags::READ)),
            (
                Some("b"),
                open(2, flags::WRITE | flags::READ | flags::CREATE),
            ),
            (None, failed),
            (
                None,
                copy(flags::FROM_OFFSET | flags::TO_OFFSET, 1000, 5000, 100),
            ),
            (None, copy(0, 0, 0, 200)),
            (None, copy(flags::SEND | flags::FROM_OFFSET, 3000, 200, 300)),
            (
                None,
                Call {
                    handle: 2,
                    length: 10,
                    result: 10,
                    ..Call::new(CallKind::Write)
                },
            ),
        ];
        let (measured, bytes) = replayed_file(&calls, &[("a", file(4000))], "b");
        assert_eq!((measured.counts["other_results"], bytes.len()), (0, 5100));
        assert!(
            bytes[500..510].iter().any(|byte| *byte != 0)
                && bytes[510..5000].iter().all(|byte| *byte == 0)
        );
    }

    #[test]
    fn durable_writes_attributes_and_syncs_of_mappings_are_made() {
        let write = |flags: u32, kind: CallKind| Call {
            handle: 1,
            length: 100,
            result: 100,
            flags,
            ..Call::new(kind)
        };
        let attribute = |flags: u32, length: u64, kind: CallKind| Call {
            handle: 1,
            second: 1,
            length,
            flags,
            ..Call::new(kind)
        };
        let calls = [
            (
                Some("f"),
                open(1, flags::WRITE | flags::CREATE | flags::DATA_SYNC),
            ),
            (None, write(flags::DATA_SYNC, CallKind::Write)),
            (None, write(flags::SYNC, CallKind::WriteAt)),
            (None, write(flags::APPEND, CallKind::WriteAt)),
            (
                Some("f"),
                Call {
                    flags: flags::WAIT,
                    ..Call::new(CallKind::SyncMapping)
                },
            ),
            (Some("f"), attribute(1, 30, CallKind::SetAttributeName)),
            (None, attribute(2, 20, CallKind::SetAttribute)),
            (
                Some("f"),
                attribute(flags::REMOVE, 0, CallKind::SetAttributeName),
            ),
        ];
        let (measured, bytes) = replayed_file(&calls, &[], "f");
        assert_eq!((measured.counts["other_results"], bytes.len()), (0, 200));
    }

    #[test]
    fn closing_what_could_not_be_opened_is_an_error_of_the_call() {
        let root = tempfile::tempdir().unwrap();
        let calls = [
            (Some("none"), open(1, flags::READ)),
            (
                None,
                Call {
                    handle: 1,
                    ..Call::new(CallKind::Close)
                },
            ),
        ];
        let path = trace(root.path(), &[], &calls, Totals::default());
        assert!(
            replay(&path, &[])
                .unwrap_err()
                .starts_with("2 of 2 calls had another result than recorded")
        );
    }

    #[test]
    fn thought_takes_its_time_and_can_be_left_out() {
        let root = tempfile::tempdir().unwrap();
        let calls = vec![(Some("f"), Call::new(CallKind::StatName)); 50];
        let path = trace(root.path(), &[("f", file(1))], &calls, Totals::default());
        // 49 think times of a microsecond, times a thousand.
        let slow = replay(&path, &[("pace", 1000.into())]).unwrap().timed_ns;
        let fast = replay(&path, &[("pace", "none".into())]).unwrap().timed_ns;
        assert!(slow >= 49_000_000, "{slow}");
        assert!(fast < slow / 4, "{fast} {slow}");
    }

    #[test]
    fn traces_that_cannot_be_replayed_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let refusal =
            |path: &Path, pairs: Pairs<'_>| label(&spec(path, pairs)).unwrap_err().to_string();
        assert!(
            refusal(&root.path().join("none"), &[]).contains("No such file"),
            "no trace"
        );
        let calls = [(
            Some("f"),
            Call {
                result: -2,
                ..Call::new(CallKind::StatName)
            },
        )];
        let incomplete = Totals {
            incomplete: vec![Gap::new(Unseen::Uring, 1).into()],
            ..Totals::default()
        };
        let path = trace(root.path(), &[], &calls, incomplete);
        assert!(refusal(&path, &[]).contains("is incomplete: requests of io_uring"));
        assert_eq!(
            label(&spec(&path, &[("force", true.into())])).unwrap(),
            "replay of a, incomplete"
        );
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        assert!(refusal(&path, &[]).contains("it is cut off after"));
        fs::write(&path, [b"fsbtrace\x09\x00", &whole[10..]].concat()).unwrap();
        assert!(refusal(&path, &[]).contains("a trace of version 9, and this fsb reads version 1"));
        let path = trace(
            root.path(),
            &[],
            &[(Some("../../etc/passwd"), Call::new(CallKind::StatName))],
            Totals::default(),
        );
        assert!(
            refusal(&path, &[]).contains("its name '../../etc/passwd' leads out of the target")
        );
        assert!(refusal(&path, &[("pace", "fast".into())]).contains("neither recorded nor none"));
        let path = trace(
            root.path(),
            &[],
            &[(None, Call::new(CallKind::Exit))],
            Totals::default(),
        );
        assert!(refusal(&path, &[]).contains("holds no call that fsb can replay"));
    }

    #[test]
    fn sizes_of_exabytes_and_descriptors_from_nowhere_are_told() {
        let root = tempfile::tempdir().unwrap();
        let calls = [(Some("f"), Call::new(CallKind::StatName))];
        let path = trace(
            root.path(),
            &[("f", file(1 << 60))],
            &calls,
            Totals::default(),
        );
        let said = replay(&path, &[]).unwrap_err();
        assert!(
            said.contains("hold 1024 PiB, but the target has room for"),
            "{said}"
        );
        let path = trace(
            root.path(),
            &[("f", file(u64::MAX))],
            &calls,
            Totals::default(),
        );
        assert!(
            replay(&path, &[])
                .unwrap_err()
                .contains("larger than any file can be")
        );
        let path = trace(root.path(), &[], &[(None, read(7, 100))], Totals::default());
        let said = replay(&path, &[]).unwrap_err();
        assert_eq!(
            said,
            "1 of 1 calls are on descriptors that the trace never opens"
        );
        // A write at the largest offset fails as it does for every program, and the replay reports
        // it.
        let far = Call {
            handle: 1,
            offset: u64::MAX - 10,
            length: 10,
            result: 10,
            ..Call::new(CallKind::WriteAt)
        };
        let path = trace(
            root.path(),
            &[],
            &[
                (Some("f"), open(1, flags::WRITE | flags::CREATE)),
                (None, far),
            ],
            Totals::default(),
        );
        assert!(replay(&path, &[]).unwrap_err().contains("instead of 10"));
    }

    #[test]
    fn a_recorded_result_may_be_any_number() {
        let root = tempfile::tempdir().unwrap();
        let calls = [(
            Some("f"),
            Call {
                result: i64::MIN,
                ..Call::new(CallKind::StatName)
            },
        )];
        let path = trace(root.path(), &[("f", file(1))], &calls, Totals::default());
        assert!(
            replay(&path, &[])
                .unwrap_err()
                .ends_with("stat f: 0 instead of -9223372036854775808")
        );
    }

    #[test]
    fn bytes_are_counted_as_they_were_moved_not_as_they_were_recorded() {
        let root = tempfile::tempdir().unwrap();
        let whole = Call {
            length: i64::MAX as u64,
            result: i64::MAX,
            ..read(1, 0)
        };
        let mut calls = vec![(Some("f"), open(1, flags::READ))];
        calls.extend([(None, read(1, 100)), (None, read(1, 50)), (None, whole)]);
        calls.extend([(None, read(1, 0)); 100]);
        let path = trace(root.path(), &[("f", file(150))], &calls, Totals::default());
        assert_eq!(replay(&path, &[]).unwrap().bytes, 150);
        // The replay makes no call on a descriptor that the trace never opened: its results are the
        // recorded ones.
        let calls = [[(None, whole); 3].as_slice(), &[(None, read(2, 0)); 400]].concat();
        let path = trace(root.path(), &[], &calls, Totals::default());
        assert!(
            replay(&path, &[])
                .unwrap_err()
                .contains("descriptors that the trace never opens")
        );
    }

    #[test]
    fn threads_that_need_more_memory_than_there_is_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let huge = |lane| Call {
            lane,
            length: 1 << 40,
            result: 1 << 40,
            ..read(1, 0)
        };
        let calls: Vec<_> = (0..1024).map(|lane| (None, huge(lane))).collect();
        let path = trace(root.path(), &[], &calls, Totals::default());
        let said = replay(&path, &[]).unwrap_err();
        assert!(
            said.starts_with(
                "the 1024 threads of the trace need 128 GiB of memory for calls of up to 64"
            ),
            "{said}"
        );
    }

    /// Links of a hand-made trace do not lead out of the target, whatever their text.
    #[test]
    fn nothing_leads_out_through_links() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("outside"), "mine").unwrap();
        let files = [
            (
                "l",
                State::Link {
                    to: b"../outside".to_vec(),
                },
            ),
            (
                "m",
                State::Link {
                    to: b"/etc/passwd".to_vec(),
                },
            ),
        ];
        let calls = [
            (
                Some("l"),
                Call {
                    result: -2,
                    ..open(1, flags::WRITE | flags::TRUNCATE)
                },
            ),
            (
                Some("m"),
                Call {
                    result: -2,
                    ..open(1, flags::READ)
                },
            ),
        ];
        let path = trace(root.path(), &files, &calls, Totals::default());
        let measured = run_once(&spec(&path, &[]), root.path(), |_| {}).unwrap();
        assert_eq!(measured.counts["other_results"], 0);
        assert_eq!(
            fs::read_to_string(root.path().join("outside")).unwrap(),
            "mine"
        );
    }

    /// The trace has more blocks than the feeder loads before the clock starts.
    #[test]
    fn a_long_trace_follows_in_pieces() {
        let root = tempfile::tempdir().unwrap();
        let mut out = Writer::new(Vec::new(), &Header::default()).unwrap();
        let name = out.name(b"f").unwrap();
        let count: u64 = 20 * 65_536 + 5;
        for at in 0..count {
            let call = Call {
                lane: (at % 3) as u32,
                name,
                result: -2,
                start_ns: at * 10,
                took_ns: 5,
                ..Call::new(CallKind::StatName)
            };
            out.call(&call).unwrap();
        }
        let path = root.path().join("long.trace");
        fs::write(&path, out.finish(Totals::default()).unwrap().0).unwrap();
        let workload = spec(&path, &[("pace", "none".into())]);
        let mut step = task(Step::Measure, &workload, Path::new("/nowhere"), count);
        step.backend = Some("null".to_owned());
        let measured = worker::perform(&step, &mut Open::default())
            .unwrap()
            .whole()
            .unwrap();
        assert_eq!((measured.operations, measured.workers.len()), (count, 3));
    }
}

//! The workers go through the phases together, unpack each entry of an archive as tar does, and record the start and
//! the end of each phase and the latencies of its operations.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::Durability;
use fsb_model::metric::{COMPILE_RATE, MetricKind, READ_FILES_RATE, REMOVE_RATE, STAT_RATE, UNPACK_RATE};
use hdrhistogram::Histogram;
use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::index::{self, EntryKind, Index, Item};
use super::options::{Options, Phase};
use crate::backend::{Backend, Directory, Namespace, OpenFlags, Session, Setup};
use crate::data::Data;
use crate::memory::Memory;
use crate::rendezvous::Rendezvous;
use crate::task::{Measurement, Rate};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;
use crate::workload::phase_times::PhaseTimes;
use crate::{EngineError, clock, latency, order};

/// The buffer size of cat and cp.
const READ: usize = 128 << 10;
/// The buffer size of glibc's readdir.
const LISTING: usize = 32 << 10;

/// The data that all workers share.
pub(super) struct UntarThreads<'s> {
    pub(super) options: &'s Options,
    pub(super) set: &'s Path,
    /// The backend that makes the calls.
    pub(super) backend: &'static dyn Backend,
    /// The directory that is unpacked into.
    pub(super) root: &'s Directory,
    pub(super) index: &'s Index,
    /// `None` on a backend that writes nothing.
    pub(super) archive: Option<&'s [u8]>,
    /// The sources to compile.
    pub(super) sources: Vec<&'s Item>,
    /// The objects of the compiler, to remove with the tree.
    pub(super) objects: Vec<CString>,
    pub(super) rendezvous: &'s Rendezvous,
    /// Whether a worker has failed; the others check it after they have met at the rendezvous.
    pub(super) failed: AtomicBool,
}

/// The state of one worker.
pub(super) struct ThreadState {
    /// Its share of the items, and of all directories, beginning with the one that is unpacked into.
    items: Range<usize>,
    directories: Range<usize>,
    memory: Memory,
    listing: Vec<MaybeUninit<u8>>,
    session: Box<dyn Session>,
    report: Report,
}

/// unlink or rmdir.
type Removal = fn(&(dyn Namespace + 'static), &Directory, &CStr) -> Result<(), Errno>;

impl UntarThreads<'_> {
    /// Returns whether another worker has failed. Then this one stops, and the failed one returns the error.
    #[inline]
    fn over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Does a part of a phase and waits until all workers have done theirs. A failed worker still comes to the
    /// rendezvous, or the others would wait for it.
    fn together(&self, result: &mut Result<(), EngineError>, act: impl FnOnce() -> Result<(), EngineError>) {
        if result.is_ok() && !self.over() {
            *result = act();
            self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
        }
        self.rendezvous.wait();
    }

    fn lap(
        &self,
        phase: Phase,
        kind: clock::OperationKind,
        bytes: u64,
        report: &mut Report,
        recorder: &mut ThreadRecorder<'_>,
    ) {
        let begun = recorder.last();
        recorder.lap(kind, bytes);
        report.record(phase, recorder.last() - begun);
    }

    fn unpack_items(
        &self,
        items: &[Item],
        which: impl Fn(&EntryKind) -> bool,
        (session, report): (&mut (dyn Session + 'static), &mut Report),
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        for item in items.iter().filter(|item| which(&item.kind)) {
            if self.over() {
                break;
            }
            let calls = (self.backend.namespace(), &mut *session);
            let made = unpack(calls, self.root, item, self.archive, self.options.block_size as usize);
            made.map_err(|refusal| refused(self.set, &item.name, refusal))?;
            let bytes = if let EntryKind::File { size, .. } = item.kind { size } else { 0 };
            self.lap(Phase::Unpack, clock::OperationKind::Create, bytes, report, recorder);
        }
        Ok(())
    }

    fn unpack(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>, result: &mut Result<(), EngineError>) {
        let all = &self.index.items[..];
        let ThreadState { items, session, report, .. } = state;
        if self.options.threads == 1 {
            // In the order of the archive.
            self.together(result, || self.unpack_items(all, |_| true, (&mut **session, report), recorder));
        } else {
            let first = recorder.rank == 0;
            let own = |mine: bool| if mine { all } else { &[] };
            let links = |kind: &EntryKind| matches!(kind, EntryKind::Symbolic(_) | EntryKind::Hard(_));
            self.together(result, || {
                self.unpack_items(own(first), |kind| *kind == EntryKind::Directory, (&mut **session, report), recorder)
            });
            let files = |kind: &EntryKind| matches!(kind, EntryKind::File { .. });
            self.together(result, || self.unpack_items(&all[items.clone()], files, (&mut **session, report), recorder));
            self.together(result, || self.unpack_items(own(first), links, (&mut **session, report), recorder));
        }
        self.together(result, || {
            if recorder.rank > 0 {
                return Ok(());
            }
            for &directory in self.index.directories.iter().rev() {
                let item = &all[directory];
                let set = finish(self.backend.namespace(), self.root, item);
                set.map_err(|refusal| refused(self.set, &item.name, refusal))?;
            }
            recorder.tick(clock::OperationKind::Close, 0);
            Ok(())
        });
    }

    /// Lists each directory and reads the attributes of its entries.
    fn stat(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        recorder.start();
        for number in state.directories.clone() {
            let expected = self.index.children[number];
            let name = match number {
                0 => c".",
                _ => self.index.items[self.index.directories[number - 1]].name.as_c_str(),
            };
            let namespace = self.backend.namespace();
            let directory = namespace.open_directory(self.root, name);
            let directory = directory.map_err(|errno| refused(self.set, name, ("open", errno)))?;
            let (mut seen, mut failure) = (0, None);
            let mut visit = |entry: &CStr| {
                if let Err(errno) = namespace.stat(&directory, entry) {
                    let within = self.set.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
                    failure = Some(refused(&within, entry, ("stat", errno)));
                    return ControlFlow::Break(());
                }
                seen += 1;
                self.lap(Phase::Stat, clock::OperationKind::Stat, 0, &mut state.report, recorder);
                ControlFlow::Continue(())
            };
            let listed = namespace.list(&directory, &mut state.listing, expected, &mut visit);
            listed.map_err(|errno| refused(self.set, name, ("list", errno)))?;
            failure.map_or(Ok(()), Err)?;
            // A directory that hides files would look fast.
            if seen != expected {
                let path = self.set.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
                let message = format!("list {}: {seen} entries came instead of {expected}", path.display());
                return Err(EngineError { path: Some(path), ..EngineError::new(message) });
            }
        }
        Ok(())
    }

    fn read(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        recorder.start();
        for item in &self.index.items[state.items.clone()] {
            let EntryKind::File { offset, size } = item.kind else { continue };
            if self.over() {
                break;
            }
            self.read_one(item, (offset, size), state)?;
            self.lap(Phase::Read, clock::OperationKind::Read, size, &mut state.report, recorder);
        }
        Ok(())
    }

    fn read_one(
        &self,
        item: &Item,
        (offset, size): (u64, u64),
        ThreadState { session, memory, .. }: &mut ThreadState,
    ) -> Result<(), EngineError> {
        let failed = |refusal| refused(self.set, &item.name, refusal);
        let file = session.open(self.root, &item.name, OpenFlags::READ, size);
        let file = file.map_err(|errno| failed(("open", errno)))?;
        let mut wrong = None;
        let read = session.read_to_end(file, memory.as_mut(), size, &mut |done, found| {
            let begin = (offset + done) as usize;
            let verified = self.archive.filter(|_| self.options.verify && done + found.len() as u64 <= size);
            // A file that is too long is reported below.
            let expected = verified.and_then(|archive| archive.get(begin..begin + found.len()));
            let place = expected.and_then(|expected| Some((expected, Data::difference(expected, found)?)));
            wrong = place.map(|(expected, place)| (done + place as u64, expected[place], found[place]));
            if wrong.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let done = read.map_err(|errno| failed(("read", errno)))?;
        if let Some((at, expected, found)) = wrong {
            let path = self.set.join(std::ffi::OsStr::from_bytes(item.name.as_bytes()));
            return Err(EngineError::corrupted(&path, at, expected, found));
        }
        session.close(file).map_err(|errno| failed(("close", errno)))?;
        if done == size {
            return Ok(());
        }
        let path = self.set.join(std::ffi::OsStr::from_bytes(item.name.as_bytes()));
        let message = format!("{} has {done} bytes, and in the archive it has {size}", path.display());
        Err(EngineError { path: Some(path), ..EngineError::new(message) })
    }

    fn compile(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        if recorder.rank > 0 {
            return Ok(());
        }
        recorder.start();
        if !self.backend.capabilities().real {
            self.sources
                .iter()
                .for_each(|_| self.lap(Phase::Compile, clock::OperationKind::Sync, 0, &mut state.report, recorder));
            return Ok(());
        }
        let begun = recorder.last();
        let taken = index::run(&self.sources, self.options.jobs, self.set)?;
        recorder.tick(clock::OperationKind::Sync, 0);
        // Each began within the phase; the recorder's own histogram only counts them.
        for ns in taken {
            recorder.complete(begun.max(recorder.last().saturating_sub(ns)), 0);
            state.report.record(Phase::Compile, ns);
        }
        Ok(())
    }

    fn remove_one(
        &self,
        name: &CStr,
        remove: Removal,
        report: &mut Report,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let removed = remove(self.backend.namespace(), self.root, name);
        removed.map_err(|errno| refused(self.set, name, ("remove", errno)))?;
        self.lap(Phase::Remove, clock::OperationKind::Delete, 0, report, recorder);
        Ok(())
    }

    fn remove(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>, result: &mut Result<(), EngineError>) {
        let (all, report) = (&self.index.items[..], &mut state.report);
        self.together(result, || {
            recorder.start();
            let objects = if recorder.rank == 0 { &self.objects[..] } else { &[] };
            objects.iter().try_for_each(|name| self.remove_one(name, <dyn Namespace>::unlink, report, recorder))?;
            let files = all[state.items.clone()].iter().rev().filter(|item| item.kind != EntryKind::Directory);
            for item in files.take_while(|_| !self.over()) {
                self.remove_one(&item.name, <dyn Namespace>::unlink, report, recorder)?;
            }
            Ok(())
        });
        // Directories come before their entries, so the worker removes them in reverse order.
        self.together(result, || {
            let directories = if recorder.rank == 0 { &self.index.directories[..] } else { &[] };
            if !directories.is_empty() {
                recorder.start();
            }
            directories
                .iter()
                .rev()
                .try_for_each(|&at| self.remove_one(&all[at].name, <dyn Namespace>::remove_directory, report, recorder))
        });
    }

    /// Syncs the writes of a phase to the device.
    fn sync(&self, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        if recorder.rank > 0 {
            return Ok(());
        }
        recorder.start();
        let synced = recorder.sync(0, || self.backend.namespace().sync_file_system(self.root));
        synced.map_err(|errno| EngineError::call("syncfs of", self.set, errno))
    }
}

impl ThreadJob for UntarThreads<'_> {
    type ThreadState = ThreadState;
    type Report = Report;

    fn init(&self, rank: u32) -> Result<ThreadState, EngineError> {
        let share = |all: usize| {
            let share = order::share(all as u64, all as u64, rank, self.options.threads);
            share.first as usize..(share.first + share.length) as usize
        };
        Ok(ThreadState {
            items: share(self.index.items.len()),
            directories: share(self.index.children.len()),
            memory: Memory::new(READ),
            listing: vec![MaybeUninit::new(0); LISTING],
            session: self.backend.session(&Setup::plain(2))?,
            report: Report::new(),
        })
    }

    fn run(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let mut result = Ok(());
        for phase in self.options.phases() {
            self.rendezvous.wait();
            if !self.over() {
                recorder.start();
                state.report.begun(phase, recorder.last());
            }
            match phase {
                Phase::Unpack => self.unpack(state, recorder, &mut result),
                Phase::Stat => self.together(&mut result, || self.stat(state, recorder)),
                Phase::Read => self.together(&mut result, || self.read(state, recorder)),
                Phase::Compile => self.together(&mut result, || self.compile(state, recorder)),
                Phase::Remove => self.remove(state, recorder, &mut result),
            }
            if self.options.durability == Durability::End && matches!(phase, Phase::Unpack | Phase::Remove) {
                self.together(&mut result, || self.sync(recorder));
            }
            state.report.ended(phase, recorder.last());
            recorder.pause();
        }
        result
    }

    fn report(&self, state: ThreadState) -> Report {
        state.report
    }
}

const NEW_FILE: OpenFlags = OpenFlags::WRITE.creating(0o600).with(OFlags::NOFOLLOW);

/// The verb of a failed call, and its error.
type Refusal = (&'static str, Errno);

/// Unpacks an entry as tar does: makes it, writes its bytes by `piece`, and sets its permissions and its time.
pub(super) fn unpack(
    (namespace, session): (&dyn Namespace, &mut (dyn Session + 'static)),
    root: &Directory,
    item: &Item,
    archive: Option<&[u8]>,
    piece: usize,
) -> Result<(), Refusal> {
    match &item.kind {
        // A directory's time changes with each entry that is made in it, so `finish` sets it at the end.
        EntryKind::Directory => {
            let made = namespace.make_directory(root, &item.name, Mode::from_raw_mode(0o700));
            made.map_err(|errno| ("make directory", errno))
        }
        EntryKind::Symbolic(target) => {
            namespace.symbolic_link(root, target, &item.name).map_err(|errno| ("link", errno))
        }
        EntryKind::Hard(target) => namespace.link(root, target, &item.name).map_err(|errno| ("link", errno)),
        EntryKind::File { offset, size } => {
            let file = session.open(root, &item.name, NEW_FILE, *size).map_err(|errno| ("create", errno))?;
            let bytes = match archive {
                None => &[],
                // An archive may have changed since it was indexed.
                Some(archive) => {
                    let bytes = archive.get(*offset as usize..).and_then(|rest| rest.get(..*size as usize));
                    bytes.ok_or(("find in the archive", Errno::NODATA))?
                }
            };
            for piece in bytes.chunks(piece) {
                let mut written = 0;
                while written < piece.len() {
                    match session.write(file, &piece[written..]).map_err(|errno| ("write to", errno))? {
                        0 => return Err(("write to", Errno::NOSPC)),
                        wrote => written += wrote,
                    }
                }
            }
            session.set_times(file, &times(item)).map_err(|errno| ("set the time of", errno))?;
            let mode = Mode::from_raw_mode(item.mode as rustix::fs::RawMode);
            session.set_mode(file, mode).map_err(|errno| ("set the permissions of", errno))?;
            // A file system may report a failed write only now.
            session.close(file).map_err(|errno| ("close", errno))
        }
    }
}

/// Sets the permissions and the time of a complete directory.
pub(super) fn finish(namespace: &dyn Namespace, root: &Directory, item: &Item) -> Result<(), Refusal> {
    let set = namespace.set_times(root, &item.name, &times(item));
    set.map_err(|errno| ("set the time of", errno))?;
    let mode = Mode::from_raw_mode(item.mode as rustix::fs::RawMode);
    namespace.set_mode(root, &item.name, mode).map_err(|errno| ("set the permissions of", errno))
}

/// Returns the current time for the last access, as tar does, and the archive's time for the last modification.
fn times(item: &Item) -> Timestamps {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let last_modification = Timespec { tv_sec: item.mtime.min(i32::MAX as u64) as i64, tv_nsec: 0 };
    Timestamps { last_access: now, last_modification }
}

pub(super) fn refused(set: &Path, name: &CStr, (call, errno): Refusal) -> EngineError {
    EngineError::call(call, set.join(std::ffi::OsStr::from_bytes(name.to_bytes())), errno)
}

/// The report of one worker.
#[derive(Debug, Clone)]
pub(super) struct Report {
    phase_times: PhaseTimes<5>,
    histograms: [Histogram<u64>; 5],
}

fn rate(phase: Phase) -> &'static MetricKind {
    match phase {
        Phase::Unpack => &UNPACK_RATE,
        Phase::Stat => &STAT_RATE,
        Phase::Read => &READ_FILES_RATE,
        Phase::Compile => &COMPILE_RATE,
        Phase::Remove => &REMOVE_RATE,
    }
}

impl Report {
    /// Returns an empty report whose memory was touched.
    pub(super) fn new() -> Report {
        Report { phase_times: PhaseTimes::new(), histograms: std::array::from_fn(|_| latency::touched()) }
    }

    #[inline]
    fn record(&mut self, phase: Phase, ns: u64) {
        self.histograms[phase as usize].saturating_record(ns);
    }

    pub(super) fn begun(&mut self, phase: Phase, ns: u64) {
        self.phase_times.begun(phase as usize, ns);
    }

    fn ended(&mut self, phase: Phase, ns: u64) {
        self.phase_times.ended(phase as usize, ns);
    }

    /// Adds to a measurement: the time of all phases, each from the first start to the last end, the rates, and the
    /// latencies.
    pub(super) fn add_to(reports: &[Report], options: &Options, measurement: &mut Measurement) {
        measurement.timed_ns = 0;
        let durations = PhaseTimes::of_all(reports.iter().map(|report| report.phase_times)).durations();
        let phases = options.phases();
        for &phase in &phases {
            let timed_ns = durations[phase as usize];
            measurement.timed_ns += timed_ns;
            let mut histogram = latency::empty();
            for report in reports {
                histogram.add(&report.histograms[phase as usize]).expect("histograms of one size add up");
            }
            let amount = Rate { amount: histogram.len(), timed_ns };
            measurement.rates.insert(rate(phase).name.to_owned(), amount);
            measurement.latency.insert(phase.name().to_owned(), latency::encode(&histogram));
        }
        let totals = &options.totals;
        let mut count = |name: &str, count| measurement.counts.insert(name.to_owned(), count);
        if phases.contains(&Phase::Unpack) {
            count("files_unpacked", totals.files);
            count("directories_made", totals.directories);
            count("bytes_written", totals.bytes);
        }
        if phases.contains(&Phase::Read) {
            count("bytes_read", totals.bytes);
        }
        if phases.contains(&Phase::Compile) {
            count("sources_compiled", totals.sources);
        }
        if phases.contains(&Phase::Remove) {
            count("entries_removed", options.operations(Phase::Remove));
        }
    }
}

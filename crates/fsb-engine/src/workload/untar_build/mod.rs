//! Unpacks a source tree from an archive, reads its attributes and its files, and removes it.
//!
//! These are the phases of the Andrew benchmark (Howard and others, "Scale and performance in a
//! distributed file system", 1988). Its last phase, compiling, is optional, because it measures the
//! processor. The archive is in memory, so that the workers wait for nothing but the target. By
//! default unpacking and removing are durable at the end of their phases. One repetition does the
//! whole tree once, and the report compares targets by the time that it takes.

mod index;
mod options;

use std::ffi::{CStr, CString};
use std::io::{Cursor, Read};
use std::mem::MaybeUninit;
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::metric::{
    COMPILE_RATE, MetricKind, READ_FILES_RATE, REMOVE_RATE, STAT_RATE, TREE_TIME, UNPACK_RATE,
};
use fsb_model::{Durability, Params};
use hdrhistogram::Histogram;
use index::{EntryKind, Index, Item, SourceContent};
use options::{Phase, TreeSource, UntarBuildOptions, scaled};
use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::job::{Job, Workload};
use super::measure::{PhaseTimes, check_operations};
use super::parameter::Parameter;
use super::params;
use crate::backend::{self, Backend, Directory, Namespace, OpenFlags, Session, SessionSetup};
use crate::data::Data;
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, NOTE};
use crate::hash::{Stream, hash};
use crate::memory::{Memory, check_room};
use crate::profile::Profile;
use crate::rendezvous::Rendezvous;
use crate::task::{ClockSpec, Context, Gate, Measurement, Rate, Ready, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};
use crate::{clock, latency, order};

/// Bytes of an object, estimated generously.
const OBJECT: u64 = 1 << 20;
/// The name of the operation that all calls count as.
const OPERATION: &str = "untar-build";

/// The member.
pub(super) struct UntarBuild;

impl Workload for UntarBuild {
    fn name(&self) -> &'static str {
        "untar-build"
    }

    fn about(&self) -> &'static str {
        "unpack a source tree, stat all, read all, remove it: the Andrew benchmark; compile = true measures the CPU too"
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("files", 40.into()),
            ("threads", 2.into()),
            ("verify", true.into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        options::parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(UntarBuildJob(UntarBuildOptions::parse(
            self.name(),
            params,
            sizing,
        )?)))
    }
}

struct UntarBuildJob(UntarBuildOptions);

impl UntarBuildJob {
    fn is_real(&self, context: &Context) -> bool {
        context.backend(self.0.backend).capabilities().real
    }

    /// Returns the archive in memory, and its index. On a backend that touches nothing the archive
    /// is empty.
    fn archive(&self, context: &Context) -> Result<(Vec<u8>, Index), EngineError> {
        match &self.0.source {
            TreeSource::Recipe {
                files,
                scale,
                content,
            } => {
                let planned = index::tree(scaled(*files, *scale));
                if !self.is_real(context) {
                    return Ok((Vec::new(), Index::of_plan(&planned)));
                }
                check_room(
                    "the archive",
                    planned
                        .iter()
                        .map(|one| one.size.unwrap_or(0).next_multiple_of(512) + 512)
                        .sum(),
                )?;
                let mut data = Data::new(context.data(), 1 << 20);
                let (seed, mut address) = (hash(context.seed, Stream::Data, 1), 0);
                let fill = |bytes: &mut Vec<u8>, number, size: u64| match content {
                    SourceContent::Text => index::write_source(bytes, seed, number, size),
                    SourceContent::Random => {
                        let mut left = size;
                        while left > 0 {
                            let length = left.min(1 << 20);
                            bytes.extend_from_slice(data.window(address, length as usize));
                            (address, left) = (address + length, left - length);
                        }
                        // The next file begins at a new block.
                        address = address.next_multiple_of(4096);
                    }
                };
                let archive = index::archive(&planned, fill).map_err(|error| {
                    EngineError::new(format!("make the archive in memory: {error}"))
                })?;
                let index = Index::read(Cursor::new(&archive))?;
                Ok((archive, index))
            }
            TreeSource::Archive(path) => {
                let failed =
                    |error: std::io::Error| EngineError::io("read the archive", path, &error);
                let mut file = fsb_store::input::open(path).map_err(failed)?;
                let mut archive = Vec::new();
                if self.is_real(context) {
                    check_room("the archive", file.metadata().map_err(failed)?.len())?;
                    file.read_to_end(&mut archive).map_err(failed)?;
                    let index = Index::read(Cursor::new(&archive))?;
                    return Ok((archive, index));
                }
                let index = Index::read(std::io::BufReader::new(file))?;
                Ok((archive, index))
            }
        }
    }
}

impl Job for UntarBuildJob {
    fn profile(&self) -> Profile {
        let UntarBuildOptions {
            totals,
            threads,
            durability,
            ..
        } = &self.0;
        let objects = if self.0.phases().contains(&Phase::Compile) {
            totals.sources
        } else {
            0
        };
        let inodes = totals.entries + objects + 1;
        let writes = self
            .0
            .phases()
            .iter()
            .any(|phase| matches!(phase, Phase::Unpack | Phase::Remove));
        Profile {
            files: totals.files,
            file_size: totals.bytes / totals.files,
            threads: *threads,
            backend: self.0.backend.name().to_owned(),
            durability: *durability,
            operations: self
                .0
                .phases()
                .into_iter()
                .map(|phase| self.0.operations(phase))
                .sum(),
            reaches_device: writes && *durability != Durability::None,
            space: totals.blocks + inodes * NOTE + objects * OBJECT,
            inodes,
            ..Profile::base(OPERATION, &TREE_TIME, self.0.label())
        }
    }

    fn own_data(&self) -> Option<&'static str> {
        let random = matches!(
            self.0.source,
            TreeSource::Recipe {
                content: SourceContent::Random,
                ..
            }
        );
        (!random)
            .then_some("its archive has a content of its own; content = \"random\" can be mixed")
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        self.0.backend
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        let set = context.set();
        fileset::make_anew(&set)?;
        let root = fileset::open(&set)?;
        if self.0.is_unpacked_before() {
            let (archive, index) = self.archive(context)?;
            let backend = backend::plain(context.backend(self.0.backend));
            let (namespace, mut session) = (
                backend.namespace(),
                backend.session(&SessionSetup::plain(1))?,
            );
            for item in &index.items {
                let made = unpack(
                    (namespace, &mut *session),
                    &root,
                    item,
                    Some(&archive),
                    1 << 20,
                );
                made.map_err(|refusal| refused(&set, &item.name, refusal))?;
            }
            for &directory in index.directories.iter().rev() {
                let item = &index.items[directory];
                let set_to = finish(namespace, &root, item);
                set_to.map_err(|refusal| refused(&set, &item.name, refusal))?;
            }
        }
        fileset::sync_through(&root, &set)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        check_operations(&profile, context.operations)?;
        let set = context.set();
        let backend = context.backend(self.0.backend);
        let root = backend
            .namespace()
            .open_root(&set)
            .map_err(|errno| EngineError::call("open", &set, errno))?;
        let (archive, index) = self.archive(context)?;
        let phases = self.0.phases();
        let sources = || index.sources().take(self.0.totals.sources as usize);
        let rendezvous = Rendezvous::new(
            self.0.threads,
            matches!(context.clock, ClockSpec::Fake { .. }),
        )?;
        let threads = UntarThreads {
            options: &self.0,
            set: &set,
            backend,
            root: &root,
            index: &index,
            archive: Some(&archive[..]).filter(|_| self.is_real(context)),
            sources: if phases.contains(&Phase::Compile) {
                sources().collect()
            } else {
                Vec::new()
            },
            objects: if self.0.has_objects() {
                sources()
                    .map(|source| {
                        CString::new(index::object(source).into_vec()).unwrap_or_default()
                    })
                    .collect()
            } else {
                Vec::new()
            },
            rendezvous: &rendezvous,
            failed: AtomicBool::new(false),
        };
        let outcome = threads::run(&threads, context, &profile, Ready::default(), false, gate)?;
        if self.is_real(context) && phases.contains(&Phase::Remove) {
            fileset::expect_nothing(&set)?;
        }
        let mut measurement = outcome.measurement(OPERATION);
        Report::add_to(&outcome.reports, &self.0, &mut measurement);
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

// The workers go through the phases together, unpack each entry of an archive as tar does, and
// record the start and the end of each phase and the latencies of its operations.

/// The buffer size of cat and cp.
const READ: usize = 128 << 10;
/// The buffer size of glibc's readdir.
const LISTING: usize = 32 << 10;

/// The data that all workers share.
struct UntarThreads<'s> {
    options: &'s UntarBuildOptions,
    set: &'s Path,
    /// The backend that makes the calls.
    backend: &'static dyn Backend,
    /// The directory that is unpacked into.
    root: &'s Directory,
    index: &'s Index,
    /// `None` on a backend that writes nothing.
    archive: Option<&'s [u8]>,
    /// The sources to compile.
    sources: Vec<&'s Item>,
    /// The objects of the compiler, to remove with the tree.
    objects: Vec<CString>,
    rendezvous: &'s Rendezvous,
    /// Whether a worker has failed; the others check it after they have met at the rendezvous.
    failed: AtomicBool,
}

/// The state of one worker.
struct ThreadState {
    /// The share of the items, and of all directories, beginning with the one that is unpacked
    /// into.
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
    /// Returns whether another worker has failed. Then this one stops, and the failed one returns
    /// the error.
    #[inline]
    fn over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Does a part of a phase and waits until all workers have done theirs. A failed worker still
    /// comes to the rendezvous, or the others would wait for it.
    fn together(
        &self,
        result: &mut Result<(), EngineError>,
        act: impl FnOnce() -> Result<(), EngineError>,
    ) {
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
            let made = unpack(
                calls,
                self.root,
                item,
                self.archive,
                self.options.block_size as usize,
            );
            made.map_err(|refusal| refused(self.set, &item.name, refusal))?;
            let bytes = if let EntryKind::File { size, .. } = item.kind {
                size
            } else {
                0
            };
            self.lap(
                Phase::Unpack,
                clock::OperationKind::Create,
                bytes,
                report,
                recorder,
            );
        }
        Ok(())
    }

    fn unpack(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
        result: &mut Result<(), EngineError>,
    ) {
        let all = &self.index.items[..];
        let ThreadState {
            items,
            session,
            report,
            ..
        } = state;
        if self.options.threads == 1 {
            // In the order of the archive.
            self.together(result, || {
                self.unpack_items(all, |_| true, (&mut **session, report), recorder)
            });
        } else {
            let first = recorder.rank == 0;
            let own = |mine: bool| if mine { all } else { &[] };
            self.together(result, || {
                self.unpack_items(
                    own(first),
                    |kind| *kind == EntryKind::Directory,
                    (&mut **session, report),
                    recorder,
                )
            });
            self.together(result, || {
                self.unpack_items(
                    &all[items.clone()],
                    |kind| matches!(kind, EntryKind::File { .. }),
                    (&mut **session, report),
                    recorder,
                )
            });
            self.together(result, || {
                self.unpack_items(
                    own(first),
                    |kind| matches!(kind, EntryKind::Symbolic(_) | EntryKind::Hard(_)),
                    (&mut **session, report),
                    recorder,
                )
            });
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
    fn stat(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        for number in state.directories.clone() {
            let expected = self.index.children[number];
            let name = match number {
                0 => c".",
                _ => self.index.items[self.index.directories[number - 1]]
                    .name
                    .as_c_str(),
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
                self.lap(
                    Phase::Stat,
                    clock::OperationKind::Stat,
                    0,
                    &mut state.report,
                    recorder,
                );
                ControlFlow::Continue(())
            };
            let listed = namespace.list(&directory, &mut state.listing, expected, &mut visit);
            listed.map_err(|errno| refused(self.set, name, ("list", errno)))?;
            failure.map_or(Ok(()), Err)?;
            // A directory that hides files would look fast.
            if seen != expected {
                let path = self.set.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
                let message = format!(
                    "list {}: {seen} entries came instead of {expected}",
                    path.display()
                );
                return Err(EngineError {
                    path: Some(path),
                    ..EngineError::new(message)
                });
            }
        }
        Ok(())
    }

    fn read(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        for item in &self.index.items[state.items.clone()] {
            let EntryKind::File { offset, size } = item.kind else {
                continue;
            };
            if self.over() {
                break;
            }
            self.read_one(item, (offset, size), state)?;
            self.lap(
                Phase::Read,
                clock::OperationKind::Read,
                size,
                &mut state.report,
                recorder,
            );
        }
        Ok(())
    }

    fn read_one(
        &self,
        item: &Item,
        (offset, size): (u64, u64),
        ThreadState {
            session, memory, ..
        }: &mut ThreadState,
    ) -> Result<(), EngineError> {
        let failed = |refusal| refused(self.set, &item.name, refusal);
        let file = session.open(self.root, &item.name, OpenFlags::READ, size);
        let file = file.map_err(|errno| failed(("open", errno)))?;
        let mut wrong = None;
        let read = session.read_to_end(file, memory.as_mut(), size, &mut |done, found| {
            let begin = (offset + done) as usize;
            let verified = self
                .archive
                .filter(|_| self.options.verify && done + found.len() as u64 <= size);
            // A file that is too long is reported below.
            let expected = verified.and_then(|archive| archive.get(begin..begin + found.len()));
            let place =
                expected.and_then(|expected| Some((expected, Data::difference(expected, found)?)));
            wrong =
                place.map(|(expected, place)| (done + place as u64, expected[place], found[place]));
            if wrong.is_none() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let done = read.map_err(|errno| failed(("read", errno)))?;
        if let Some((at, expected, found)) = wrong {
            let path = self
                .set
                .join(std::ffi::OsStr::from_bytes(item.name.as_bytes()));
            return Err(EngineError::corrupted(&path, at, expected, found));
        }
        session
            .close(file)
            .map_err(|errno| failed(("close", errno)))?;
        if done == size {
            return Ok(());
        }
        let path = self
            .set
            .join(std::ffi::OsStr::from_bytes(item.name.as_bytes()));
        let message = format!(
            "{} has {done} bytes, and in the archive it has {size}",
            path.display()
        );
        Err(EngineError {
            path: Some(path),
            ..EngineError::new(message)
        })
    }

    fn compile(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        if recorder.rank > 0 {
            return Ok(());
        }
        recorder.start();
        if !self.backend.capabilities().real {
            self.sources.iter().for_each(|_| {
                self.lap(
                    Phase::Compile,
                    clock::OperationKind::Sync,
                    0,
                    &mut state.report,
                    recorder,
                )
            });
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
        self.lap(
            Phase::Remove,
            clock::OperationKind::Delete,
            0,
            report,
            recorder,
        );
        Ok(())
    }

    fn remove(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
        result: &mut Result<(), EngineError>,
    ) {
        let (all, report) = (&self.index.items[..], &mut state.report);
        self.together(result, || {
            recorder.start();
            let objects = if recorder.rank == 0 {
                &self.objects[..]
            } else {
                &[]
            };
            objects.iter().try_for_each(|name| {
                self.remove_one(name, <dyn Namespace>::unlink, report, recorder)
            })?;
            let files = all[state.items.clone()]
                .iter()
                .rev()
                .filter(|item| item.kind != EntryKind::Directory);
            for item in files.take_while(|_| !self.over()) {
                self.remove_one(&item.name, <dyn Namespace>::unlink, report, recorder)?;
            }
            Ok(())
        });
        // Directories come before their entries, so the worker removes them in reverse order.
        self.together(result, || {
            let directories = if recorder.rank == 0 {
                &self.index.directories[..]
            } else {
                &[]
            };
            if !directories.is_empty() {
                recorder.start();
            }
            directories.iter().rev().try_for_each(|&at| {
                self.remove_one(
                    &all[at].name,
                    <dyn Namespace>::remove_directory,
                    report,
                    recorder,
                )
            })
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
            session: self.backend.session(&SessionSetup::plain(2))?,
            report: Report::new(),
        })
    }

    fn run(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
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
            if self.options.durability == Durability::End
                && matches!(phase, Phase::Unpack | Phase::Remove)
            {
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

/// Unpacks an entry as tar does: makes it, writes its bytes by `piece`, and sets its permissions
/// and its time.
fn unpack(
    (namespace, session): (&dyn Namespace, &mut (dyn Session + 'static)),
    root: &Directory,
    item: &Item,
    archive: Option<&[u8]>,
    piece: usize,
) -> Result<(), Refusal> {
    match &item.kind {
        // A directory's time changes with each entry that is made in it, so `finish` sets it at the
        // end.
        EntryKind::Directory => {
            let made = namespace.make_directory(root, &item.name, Mode::from_raw_mode(0o700));
            made.map_err(|errno| ("make directory", errno))
        }
        EntryKind::Symbolic(target) => namespace
            .symbolic_link(root, target, &item.name)
            .map_err(|errno| ("link", errno)),
        EntryKind::Hard(target) => namespace
            .link(root, target, &item.name)
            .map_err(|errno| ("link", errno)),
        EntryKind::File { offset, size } => {
            let file = session
                .open(root, &item.name, NEW_FILE, *size)
                .map_err(|errno| ("create", errno))?;
            let bytes = match archive {
                None => &[],
                // An archive may have changed since it was indexed.
                Some(archive) => {
                    let bytes = archive
                        .get(*offset as usize..)
                        .and_then(|rest| rest.get(..*size as usize));
                    bytes.ok_or(("find in the archive", Errno::NODATA))?
                }
            };
            for piece in bytes.chunks(piece) {
                let mut written = 0;
                while written < piece.len() {
                    match session
                        .write(file, &piece[written..])
                        .map_err(|errno| ("write to", errno))?
                    {
                        0 => return Err(("write to", Errno::NOSPC)),
                        wrote => written += wrote,
                    }
                }
            }
            session
                .set_times(file, &times(item))
                .map_err(|errno| ("set the time of", errno))?;
            let mode = Mode::from_raw_mode(item.mode as rustix::fs::RawMode);
            session
                .set_mode(file, mode)
                .map_err(|errno| ("set the permissions of", errno))?;
            // A file system may report a failed write only now.
            session.close(file).map_err(|errno| ("close", errno))
        }
    }
}

/// Sets the permissions and the time of a complete directory.
fn finish(namespace: &dyn Namespace, root: &Directory, item: &Item) -> Result<(), Refusal> {
    let set = namespace.set_times(root, &item.name, &times(item));
    set.map_err(|errno| ("set the time of", errno))?;
    let mode = Mode::from_raw_mode(item.mode as rustix::fs::RawMode);
    namespace
        .set_mode(root, &item.name, mode)
        .map_err(|errno| ("set the permissions of", errno))
}

/// Returns the current time for the last access, as tar does, and the archive's time for the last
/// modification.
fn times(item: &Item) -> Timestamps {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    let last_modification = Timespec {
        tv_sec: item.mtime.min(i32::MAX as u64) as i64,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: now,
        last_modification,
    }
}

fn refused(set: &Path, name: &CStr, (call, errno): Refusal) -> EngineError {
    EngineError::call(
        call,
        set.join(std::ffi::OsStr::from_bytes(name.to_bytes())),
        errno,
    )
}

/// The report of one worker.
#[derive(Debug, Clone)]
struct Report {
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
    fn new() -> Report {
        Report {
            phase_times: PhaseTimes::new(),
            histograms: std::array::from_fn(|_| latency::touched()),
        }
    }

    #[inline]
    fn record(&mut self, phase: Phase, ns: u64) {
        self.histograms[phase as usize].saturating_record(ns);
    }

    fn begun(&mut self, phase: Phase, ns: u64) {
        self.phase_times.begun(phase as usize, ns);
    }

    fn ended(&mut self, phase: Phase, ns: u64) {
        self.phase_times.ended(phase as usize, ns);
    }

    /// Adds to a measurement: the time of all phases, each from the first start to the last end,
    /// the rates, and the latencies.
    fn add_to(reports: &[Report], options: &UntarBuildOptions, measurement: &mut Measurement) {
        measurement.timed_ns = 0;
        let durations =
            PhaseTimes::of_all(reports.iter().map(|report| report.phase_times)).durations();
        let phases = options.phases();
        for &phase in &phases {
            let timed_ns = durations[phase as usize];
            measurement.timed_ns += timed_ns;
            let mut histogram = latency::empty();
            for report in reports {
                histogram
                    .add(&report.histograms[phase as usize])
                    .expect("histograms of one size add up");
            }
            let amount = Rate {
                amount: histogram.len(),
                timed_ns,
            };
            measurement
                .rates
                .insert(rate(phase).name.to_owned(), amount);
            measurement
                .latency
                .insert(phase.name().to_owned(), latency::encode(&histogram));
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use fsb_model::WorkloadSpec;

    use super::*;
    use crate::latency;
    use crate::workload::testing::{Pairs, SIZING, label, run_once, with};

    fn spec(pairs: Pairs<'_>) -> WorkloadSpec {
        with("untar-build", pairs)
    }

    fn latencies(measured: &Measurement) -> Vec<(String, u64)> {
        let of = |(name, text): (&String, &String)| (name.clone(), latency::count(text).unwrap());
        measured.latency.iter().map(of).collect()
    }

    #[test]
    fn the_phases_follow_each_other_and_are_told_apart() {
        for threads in [1, 3] {
            let root = tempfile::tempdir().unwrap();
            let workload = spec(&[
                ("files", 100.into()),
                ("threads", threads.into()),
                ("verify", true.into()),
            ]);
            let measured = run_once(&workload, root.path(), |_| {}).unwrap();
            // 100 files in 6 directories.
            assert_eq!(measured.operations, 3 * 106 + 100);
            let ops = [("read", 100), ("remove", 106), ("stat", 106)];
            // Unpacking and removing end with a sync each.
            let expected = [
                &ops[..],
                &[("sync-at-end", 2), ("unpack", 106), ("untar-build", 418)],
            ]
            .concat();
            let expected: [_; 6] = expected.try_into().unwrap();
            assert_eq!(
                latencies(&measured),
                expected.map(|(name, count)| (name.to_owned(), count))
            );
            let rates = ["read_files_rate", "remove_rate", "stat_rate", "unpack_rate"];
            assert_eq!(measured.rates.keys().collect::<Vec<_>>(), rates);
            let phases: u64 = measured.rates.values().map(|rate| rate.timed_ns).sum();
            assert_eq!(
                measured.timed_ns, phases,
                "the time of the tree is the time of its phases"
            );
            assert_eq!(
                (
                    measured.counts["files_unpacked"],
                    measured.counts["entries_removed"]
                ),
                (100, 106)
            );
            assert_eq!(
                measured.counts["bytes_written"],
                measured.counts["bytes_read"]
            );
            assert_eq!(measured.bytes, 2 * measured.counts["bytes_read"]);
            assert_eq!(
                fs::read_dir(root.path().join("fsb-set")).unwrap().count(),
                0
            );
        }
    }

    #[test]
    fn each_phase_alone_finds_the_tree_that_it_needs() {
        for (phase, operations, left) in [
            ("unpack", 106, 1),
            ("stat", 106, 1),
            ("read", 100, 1),
            ("remove", 106, 0),
        ] {
            let root = tempfile::tempdir().unwrap();
            let workload = spec(&[
                ("files", 100.into()),
                ("phase", phase.into()),
                ("durability", "none".into()),
            ]);
            let measured = run_once(&workload, root.path(), |_| {}).unwrap();
            assert_eq!(measured.operations, operations, "{phase}");
            assert_eq!(
                fs::read_dir(root.path().join("fsb-set")).unwrap().count(),
                left,
                "{phase}"
            );
        }
    }

    /// The result is the same as with the tar program.
    #[test]
    fn an_archive_of_somebodys_is_unpacked_as_tar_does_it() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let outside = tempfile::tempdir().unwrap();
        let tree = outside.path().join("project");
        fs::create_dir_all(tree.join("src/deep")).unwrap();
        fs::write(tree.join("src/deep/main.c"), [7; 70_000]).unwrap();
        fs::write(tree.join("run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(tree.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("src/deep/main.c", tree.join("main")).unwrap();
        fs::hard_link(tree.join("run.sh"), tree.join("zz-again.sh")).unwrap();
        let path = outside.path().join("project.tar");
        let mut builder = tar::Builder::new(fs::File::create(&path).unwrap());
        builder.follow_symlinks(false);
        builder.append_dir_all("project", &tree).unwrap();
        builder.into_inner().unwrap();
        for threads in [1, 3] {
            let root = tempfile::tempdir().unwrap();
            let archive = path.to_str().unwrap();
            let workload = spec(&[
                ("archive", archive.into()),
                ("phase", "unpack".into()),
                ("threads", threads.into()),
            ]);
            let measured = run_once(&workload, root.path(), |_| {}).unwrap();
            assert_eq!(measured.operations, 7);
            let made = root.path().join("fsb-set/project");
            assert_eq!(fs::read(made.join("src/deep/main.c")).unwrap(), [7; 70_000]);
            assert_eq!(
                fs::read_link(made.join("main")).unwrap(),
                Path::new("src/deep/main.c")
            );
            for name in ["run.sh", "src", "src/deep/main.c"] {
                let [made, original] =
                    [&made, &tree].map(|tree| fs::metadata(tree.join(name)).unwrap());
                assert_eq!(
                    (made.mtime(), made.mode() & 0o700),
                    (original.mtime(), original.mode() & 0o700),
                    "{name}"
                );
            }
            let whole = spec(&[
                ("archive", archive.into()),
                ("threads", threads.into()),
                ("verify", true.into()),
            ]);
            assert!(run_once(&whole, root.path(), |_| {}).unwrap().counts["entries_removed"] == 7);
        }
        assert!(
            tree.join("src/deep/main.c").exists(),
            "the archive's own tree is left alone"
        );
    }

    #[test]
    fn compiling_is_asked_for_and_its_objects_go_too() {
        if index::find().is_none() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let workload = spec(&[
            ("files", 12.into()),
            ("compile", true.into()),
            ("jobs", 2.into()),
            ("verify", true.into()),
        ]);
        let job = crate::workload::parse(&workload, &SIZING).unwrap();
        let sources = job.profile().operations;
        assert!(
            job.profile().label.contains("(CPU), 2 jobs"),
            "{}",
            job.profile().label
        );
        let measured = run_once(&workload, root.path(), |_| {}).unwrap();
        let compiled = measured.counts["sources_compiled"];
        assert!(
            compiled > 3 && measured.operations == sources,
            "{measured:?}"
        );
        assert_eq!(latencies(&measured)[0], ("compile".to_owned(), compiled));
        assert_eq!(measured.counts["entries_removed"], 13 + compiled);
        assert_eq!(
            fs::read_dir(root.path().join("fsb-set")).unwrap().count(),
            0
        );
    }

    #[test]
    fn a_tree_that_was_damaged_or_hides_something_ends_the_trial() {
        type Harm = fn(&Path);
        let cases: [(&str, Harm, &str); 5] = [
            (
                "read",
                |file| {
                    fs::write(file, vec![0; fs::metadata(file).unwrap().len() as usize]).unwrap()
                },
                "corrupted: ",
            ),
            (
                "read",
                |file| {
                    fs::OpenOptions::new()
                        .write(true)
                        .open(file)
                        .unwrap()
                        .set_len(3)
                        .unwrap()
                },
                "has 3 bytes, and",
            ),
            (
                "read",
                |file| fs::remove_file(file).unwrap(),
                "No such file or directory (ENOENT)",
            ),
            (
                "stat",
                |file| fs::remove_file(file).unwrap(),
                "entries came instead of",
            ),
            ("remove", |file| fs::remove_file(file).unwrap(), "remove "),
        ];
        for (phase, harm, said) in cases {
            for threads in [1, 3] {
                let root = tempfile::tempdir().unwrap();
                let mut pairs = vec![
                    ("files", 30.into()),
                    ("phase", phase.into()),
                    ("threads", threads.into()),
                ];
                if phase == "read" {
                    pairs.push(("verify", true.into()));
                }
                let source = root.path().join("fsb-set/source");
                let harm = |_| {
                    let files = fs::read_dir(&source)
                        .unwrap()
                        .map(|entry| entry.unwrap().path());
                    harm(&files.filter(|path| path.is_file()).min().unwrap());
                };
                let error = run_once(&spec(&pairs), root.path(), harm).unwrap_err();
                assert!(error.message.contains(said), "{phase}: {error}");
            }
        }
        // An existing directory has the name of an entry.
        let root = tempfile::tempdir().unwrap();
        let in_the_way = |_| fs::create_dir(root.path().join("fsb-set/source")).unwrap();
        let error = run_once(&spec(&[("files", 30.into())]), root.path(), in_the_way).unwrap_err();
        assert!(
            error.message.contains("source: File exists (EEXIST)"),
            "{error}"
        );
    }

    #[test]
    fn labels_say_how_and_parameters_that_make_no_sense_are_refused() {
        let label = |pairs: Pairs<'_>| label(&spec(pairs));
        assert_eq!(label(&[]).unwrap(), "untar-build, 20000 files, durable");
        let part = [
            ("phase", "unpack".into()),
            ("scale", 0.5.into()),
            ("content", "text".into()),
            ("threads", 2.into()),
        ];
        assert_eq!(
            label(&part).unwrap(),
            "unpack 10000 files of text, durable, 2 threads"
        );
        let outside = tempfile::tempdir().unwrap();
        let packed = outside.path().join("linux.tar.gz");
        fs::write(&packed, b"\x1f\x8b\x08nonsense").unwrap();
        let packed = packed.to_str().unwrap();
        for (pairs, said) in [
            (
                vec![("archive", "/gone.tar".into())],
                "/gone.tar cannot be read: No such file",
            ),
            (vec![("archive", "/".into())], "/ is not a file"),
            (
                vec![("archive", packed.into())],
                "is compressed: unpack it first, with gunzip",
            ),
            (
                vec![("archive", packed.into()), ("scale", 0.5.into())],
                "scale: it does not apply with archive",
            ),
            (
                vec![("archive", packed.into()), ("compile", true.into())],
                "compile: it does not apply with archive",
            ),
            (
                vec![("phase", "compile".into())],
                "this phase needs compile = true",
            ),
            (
                vec![("compile", true.into()), ("content", "random".into())],
                "compiling needs source text",
            ),
            (
                vec![("phase", "stat".into()), ("verify", true.into())],
                "this phase reads no files",
            ),
            (
                vec![("jobs", 2.into())],
                "jobs: it applies only with compile = true",
            ),
            (
                vec![("durability", "each".into())],
                "durability: 'each' is not allowed",
            ),
        ] {
            let error = label(&pairs).unwrap_err().to_string();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}

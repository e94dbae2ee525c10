//! Copies a tree of files into the target, copies it within the target, or deletes it.
//!
//! One repetition does the whole tree once. The report compares targets by the time that it takes,
//! until all of it is on the device. The source of a copy is in memory; the source of a copy into
//! the target is nowhere else. Contents are incompressible and a function of the seed and the file,
//! as in all workloads.

mod options;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT, TREE_TIME};
use fsb_model::shape::Shape;
use fsb_model::units::show_bytes;
use fsb_model::{Durability, Params};
use options::{CopyMethod, FiletreeOptions, Operation};
use rustix::fs::{MemfdFlags, Mode};
use rustix::io::Errno;

use super::job::{Job, Workload};
use super::measure::check_operations;
use super::parameter::Parameter;
use super::params;
use crate::backend::{Backend, Directory, FileSlot, OpenFlags, Session, SessionSetup, files};
use crate::clock::OperationKind;
use crate::data::{Data, DataSource, PAGE};
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, BLOCK, EXAMINED_FILES, NOTE};
use crate::memory::{Memory, check_room, resident_bytes};
use crate::order;
use crate::profile::Profile;
use crate::rendezvous::Rendezvous;
use crate::task::{ClockSpec, Context, Gate, Measurement, Rate, Ready, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};

/// The names of the existing tree and of its copy.
const TREES: [&str; 2] = ["source", "copy"];

/// The member.
pub(super) struct FileTree;

impl Workload for FileTree {
    fn name(&self) -> &'static str {
        "filetree"
    }

    fn about(&self) -> &'static str {
        "copy a tree of files into the target or within it, or delete it: sets of 2008, or the shape of a directory"
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("operation", "copy-within".into()),
            ("shape", "-:100,5000;0:;1:0,300000;0:4096".into()),
            ("threads", 2.into()),
            ("verify", true.into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        options::parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(FileTreeJob(FiletreeOptions::parse(
            self.name(),
            params,
            sizing,
        )?)))
    }
}

struct FileTreeJob(FiletreeOptions);

impl FileTreeJob {
    /// Returns whether there is a tree on the target before the clock starts.
    fn has_source(&self) -> bool {
        self.0.operation != Operation::CopyInto
    }
}

impl Job for FileTreeJob {
    fn profile(&self) -> Profile {
        let FiletreeOptions {
            operation,
            shape,
            threads,
            durability,
            ..
        } = &self.0;
        let trees = if *operation == Operation::CopyWithin {
            2
        } else {
            1
        };
        let inodes = (shape.entries() + 1) * trees + 1;
        let data: u64 = shape.sizes().map(|size| size.next_multiple_of(BLOCK)).sum();
        Profile {
            files: shape.files(),
            file_size: shape.bytes() / shape.files(),
            threads: *threads,
            backend: self.0.backend.name().to_owned(),
            durability: *durability,
            operations: shape.files(),
            reaches_device: *durability != Durability::None,
            space: data * trees + inodes * NOTE,
            inodes,
            // Any state of the cache: the work itself checks that the source is in memory.
            ..Profile::base(operation.name(), &TREE_TIME, self.0.label())
        }
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
        if self.0.operation != Operation::Delete {
            let backend = context.backend(self.0.backend);
            probe(
                self.0.copy,
                self.has_source(),
                backend,
                &fileset::open(&set)?,
                &set,
            )?;
        }
        if self.has_source() {
            let (leaves, _) = leaves(&self.0.shape);
            build(
                &set,
                &TreeNames::new(&self.0.shape, TREES[0]),
                &leaves,
                context.data(),
            )?;
        }
        fileset::sync(&set)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        check_operations(&profile, context.operations)?;
        let backend = context.backend(self.0.backend);
        let real = backend.capabilities().real;
        let set = context.set();
        let [from, to] = TREES.map(|name| TreeNames::new(&self.0.shape, name));
        let (leaves, whole) = leaves(&self.0.shape);
        let root = backend
            .namespace()
            .open_root(&set)
            .map_err(|errno| EngineError::call("open", &set, errno))?;
        let (mut memory, mut ready) = (None, Ready::default());
        if real {
            match self.0.operation {
                Operation::CopyInto => {
                    let source = in_memory(&leaves, whole, context.data())?;
                    ready = prove_in_memory(&source, whole, &leaves)?;
                    memory = Some(source);
                }
                Operation::CopyWithin => ready = warm(&set, &from, &leaves)?,
                Operation::Delete => look_at(&set, &from)?,
            }
        }
        let rendezvous = Rendezvous::new(
            self.0.threads,
            matches!(context.clock, ClockSpec::Fake { .. }),
        )?;
        let threads = TreeThreads {
            options: &self.0,
            set: &set,
            backend,
            root: &root,
            from: &from,
            to: &to,
            leaves: &leaves,
            memory: memory.as_ref(),
            rendezvous: &rendezvous,
            failed: AtomicBool::new(false),
        };
        let outcome = threads::run(&threads, context, &profile, ready, false, gate)?;
        if real {
            match self.0.operation {
                Operation::Delete => fileset::expect_nothing(&set)?,
                _ => check(&set, &to, &leaves, context.data(), self.0.verify)?,
            }
        }
        let mut measurement = outcome.measurement(profile.operation);
        self.count(&mut measurement);
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

impl FileTreeJob {
    /// Adds the rates and the counts of the work to a measurement.
    fn count(&self, measurement: &mut Measurement) {
        let timed_ns = measurement.timed_ns;
        let mut rate = |name: &str, amount| {
            measurement
                .rates
                .insert(name.to_owned(), Rate { amount, timed_ns })
        };
        rate(OPERATION_RATE.name, measurement.operations);
        if measurement.bytes > 0 {
            rate(THROUGHPUT.name, measurement.bytes);
        }
        let directories = self.0.shape.directories().len() as u64;
        let counts = match self.0.operation {
            Operation::Delete => [
                ("files_deleted", measurement.operations),
                ("directories_deleted", directories),
            ],
            _ => [
                ("files_copied", measurement.operations),
                ("directories_made", directories),
            ],
        };
        measurement
            .counts
            .extend(counts.map(|(name, count)| (name.to_owned(), count)));
    }
}

/// The state that all workers read.
struct TreeThreads<'s> {
    options: &'s FiletreeOptions,
    set: &'s Path,
    /// The backend that makes the calls.
    backend: &'static dyn Backend,
    /// The directory that contains the trees.
    root: &'s Directory,
    /// The existing tree.
    from: &'s TreeNames,
    /// The copy.
    to: &'s TreeNames,
    leaves: &'s [TreeFile],
    /// The source, if it is in memory.
    memory: Option<&'s File>,
    rendezvous: &'s Rendezvous,
    /// Whether a worker has failed; the others check it after they have met at the rendezvous.
    failed: AtomicBool,
}

/// The state of one worker.
struct ThreadState {
    files: Range<usize>,
    memory: Memory,
    session: Box<dyn Session>,
    source: Option<FileSlot>,
}

impl TreeThreads<'_> {
    fn refused(&self, call: &str, name: &std::ffi::CString, errno: Errno) -> EngineError {
        EngineError::call(call, TreeNames::path(self.set, name), errno)
    }

    /// Makes the directories of this range, which belong to no file.
    fn make_directories(
        &self,
        directories: Range<usize>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        for name in &self.to.directories[directories] {
            let made = self.backend.namespace().make_directory(
                self.root,
                name,
                Mode::from_raw_mode(0o755),
            );
            made.map_err(|errno| self.refused("make directory", name, errno))?;
            recorder.tick(OperationKind::Create, 0);
        }
        Ok(())
    }

    fn copy(
        &self,
        file: usize,
        ThreadState {
            memory,
            session,
            source,
            ..
        }: &mut ThreadState,
    ) -> Result<(), EngineError> {
        let (leaf, to) = (&self.leaves[file], &self.to.files[file]);
        let from = match *source {
            Some(slot) => CopySource {
                slot,
                offset: leaf.address,
                length: leaf.size,
            },
            None => {
                let from = &self.from.files[file];
                let opened = session.open(self.root, from, OpenFlags::READ, leaf.size);
                let slot = opened.map_err(|errno| self.refused("open", from, errno))?;
                CopySource {
                    slot,
                    offset: 0,
                    length: leaf.size,
                }
            }
        };
        let copy = session.open(self.root, to, OpenFlags::WRITE.creating(0o644), leaf.size);
        let copy = copy.map_err(|errno| self.refused("create", to, errno))?;
        let copied = copy_file(
            self.options.copy,
            &mut **session,
            from,
            copy,
            memory.as_mut(),
        );
        copied.map_err(|(call, errno)| self.refused(call, to, errno))?;
        // A file system may report a failed write only now.
        session
            .close(copy)
            .map_err(|errno| self.refused("close", to, errno))?;
        match source {
            Some(_) => Ok(()),
            None => session
                .close(from.slot)
                .map_err(|errno| self.refused("close", &self.from.files[file], errno)),
        }
    }

    fn copy_all(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        // A single thread makes a directory before its first file, as cp does. With several threads
        // all directories must exist before.
        let alone = self.options.threads == 1;
        let all = self.to.directories.len();
        let mut made = 0;
        recorder.start();
        if !alone {
            let result = if recorder.rank == 0 {
                self.make_directories(0..all, recorder)
            } else {
                Ok(())
            };
            // A failed thread still comes to the rendezvous, or the others would wait for it.
            self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
            self.rendezvous.wait();
            result?;
            if self.failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            if recorder.rank > 0 {
                recorder.start();
            }
        }
        for file in state.files.clone() {
            let leaf = &self.leaves[file];
            if alone && made <= leaf.directory {
                self.make_directories(made..leaf.directory + 1, recorder)?;
                made = leaf.directory + 1;
            }
            self.copy(file, state)?;
            if !recorder.lap(OperationKind::Create, leaf.size) {
                break;
            }
        }
        if alone {
            self.make_directories(made..all, recorder)?;
        }
        Ok(())
    }

    fn delete_files(
        &self,
        state: &ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        for name in &self.from.files[state.files.clone()] {
            let removed = self.backend.namespace().unlink(self.root, name);
            removed.map_err(|errno| self.refused("remove", name, errno))?;
            if !recorder.lap(OperationKind::Delete, 0) {
                break;
            }
        }
        Ok(())
    }

    fn delete_all(
        &self,
        state: &ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        let result = self.delete_files(state, recorder);
        self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
        self.rendezvous.wait();
        result?;
        // If a directory is not empty because another worker failed, that worker returns the error.
        if recorder.rank > 0 || self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        for name in self.from.directories.iter().rev() {
            let removed = self.backend.namespace().remove_directory(self.root, name);
            removed.map_err(|errno| self.refused("remove directory", name, errno))?;
            recorder.tick(OperationKind::Delete, 0);
        }
        Ok(())
    }
}

impl ThreadJob for TreeThreads<'_> {
    type ThreadState = ThreadState;
    type Report = ();

    fn init(&self, rank: u32) -> Result<ThreadState, EngineError> {
        let files = self.leaves.len() as u64;
        let share = order::share(files, files, rank, self.options.threads);
        let first = share.first as usize;
        let mut session = self.backend.session(&SessionSetup::plain(3))?;
        let source = self
            .memory
            .map(|file| {
                let file = file.try_clone().map_err(|error| files::errno_of(&error))?;
                session.adopt(file.into(), OpenFlags::READ)
            })
            .transpose();
        let source =
            source.map_err(|errno| EngineError::system("open the source in memory", errno))?;
        let memory = Memory::new(self.options.block_size as usize);
        Ok(ThreadState {
            files: first..first + share.length as usize,
            memory,
            session,
            source,
        })
    }

    fn run(
        &self,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        match self.options.operation {
            Operation::Delete => self.delete_all(state, recorder),
            Operation::CopyInto | Operation::CopyWithin => self.copy_all(state, recorder),
        }
    }

    fn report(&self, _state: ThreadState) {}

    fn syncs_at_end(&self) -> bool {
        self.options.durability == Durability::End
    }

    fn sync_at_end(
        &self,
        _state: &mut ThreadState,
        bytes: u64,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let synced = recorder.sync(bytes, || {
            self.backend.namespace().sync_file_system(self.root)
        });
        synced.map_err(|errno| EngineError::call("syncfs of", self.set, errno))
    }
}

/// The part of a file that is copied.
#[derive(Debug, Clone, Copy)]
struct CopySource {
    slot: FileSlot,
    offset: u64,
    length: u64,
}

/// Copies the bytes of a source into a new, empty file. The error contains the verb of the call.
fn copy_file(
    how: CopyMethod,
    session: &mut dyn Session,
    source: CopySource,
    destination: FileSlot,
    memory: &mut [u8],
) -> Result<(), (&'static str, Errno)> {
    match how {
        CopyMethod::ReadWrite => read_write(session, source, destination, memory),
        CopyMethod::CopyFileRange => in_kernel(session, source, destination),
        CopyMethod::Reflink => session
            .share_blocks(source.slot, destination)
            .map_err(|errno| ("share the blocks of", errno)),
    }
}

fn read_write(
    session: &mut dyn Session,
    CopySource {
        slot,
        offset,
        length,
    }: CopySource,
    destination: FileSlot,
    memory: &mut [u8],
) -> Result<(), (&'static str, Errno)> {
    let mut done = 0;
    while done < length {
        let wanted = (memory.len() as u64).min(length - done) as usize;
        let read = session.read_at(slot, &mut memory[..wanted], offset + done, offset + length);
        let read = read.map_err(|errno| ("read", errno))?;
        if read == 0 {
            // The source is shorter than it was made.
            return Err(("read", Errno::NODATA));
        }
        let mut written = 0;
        while written < read {
            let wrote = session.write(destination, &memory[written..read]);
            written += wrote.map_err(|errno| ("write", errno))?;
        }
        done += read as u64;
    }
    Ok(())
}

fn in_kernel(
    session: &mut dyn Session,
    CopySource {
        slot,
        offset,
        length,
    }: CopySource,
    destination: FileSlot,
) -> Result<(), (&'static str, Errno)> {
    const CALL: &str = "copy_file_range to";
    let mut done = 0;
    while done < length {
        let left = (length - done).min(1 << 30) as usize;
        match session.copy_range(slot, offset + done, destination, left) {
            Ok(0) => return Err((CALL, Errno::NODATA)),
            Ok(copied) => done += copied as u64,
            Err(errno) => return Err((CALL, errno)),
        }
    }
    Ok(())
}

/// Copies one block as all files will be copied. If the file system cannot do so, the workload does
/// not apply.
fn probe(
    how: CopyMethod,
    within: bool,
    backend: &dyn Backend,
    root: &Directory,
    set: &Path,
) -> Result<(), EngineError> {
    const SIZE: u64 = 4096;
    if how == CopyMethod::ReadWrite {
        return Ok(());
    }
    let flags = OpenFlags::READ_WRITE.creating(0o644);
    let mut session = backend.session(&SessionSetup::plain(2))?;
    let create = |session: &mut dyn Session, name| {
        let opened = session.open(root, name, flags, SIZE);
        opened.map_err(|errno| EngineError::call("create a file in", set, errno))
    };
    let slot = if within {
        create(&mut *session, c"probe-source")?
    } else {
        let refused = |errno| EngineError::system("make a file in memory", errno);
        let file = rustix::fs::memfd_create(c"fsb-probe", MemfdFlags::CLOEXEC).map_err(refused)?;
        session
            .adopt(file, OpenFlags::READ_WRITE)
            .map_err(refused)?
    };
    let mut block = [7; SIZE as usize];
    let written = session.write_at(slot, &block, 0);
    written.map_err(|errno| EngineError::call("write to a file in", set, errno))?;
    let destination = create(&mut *session, c"probe-copy")?;
    let source = CopySource {
        slot,
        offset: 0,
        length: SIZE,
    };
    let copied = copy_file(how, &mut *session, source, destination, &mut block);
    drop(session);
    for name in [c"probe-source", c"probe-copy"]
        .into_iter()
        .skip(usize::from(!within))
    {
        let gone = backend.namespace().unlink(root, name);
        gone.map_err(|errno| EngineError::call("remove a file from", set, errno))?;
    }
    match copied {
        Ok(()) => Ok(()),
        Err((_, Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS)) => {
            let why = match (how, within) {
                (CopyMethod::Reflink, _) => {
                    "this file system shares no blocks between files: reflink is not supported"
                }
                (_, true) => "this kernel or file system does not know copy_file_range",
                (_, false) => {
                    "the kernel does not copy from memory into another file system by copy_file_range"
                }
            };
            Err(EngineError {
                inapplicable: true,
                ..EngineError::new(why)
            })
        }
        Err((call, errno)) => Err(EngineError::call(format!("{call} a file in"), set, errno)),
    }
}

// A tree on a file system and in memory: names, builds, warms and checks it.

/// Bytes of one call outside the clock.
const CHUNK: u64 = 1 << 20;
/// Share of the source that must be in memory before it is copied.
const WARM: f64 = 0.99;

/// One file of a tree.
#[derive(Debug)]
struct TreeFile {
    /// The number of its directory.
    directory: usize,
    size: u64,
    /// The address of its first byte among the bytes of the tree; files share no page.
    address: u64,
}

/// Returns the files of a shape, directory by directory, and the end of their addresses.
fn leaves(shape: &Shape) -> (Vec<TreeFile>, u64) {
    let mut address = 0;
    let mut leaves = Vec::new();
    for (directory, found) in shape.directories().iter().enumerate() {
        for &size in &found.files {
            leaves.push(TreeFile {
                directory,
                size,
                address,
            });
            address += size.next_multiple_of(PAGE as u64);
        }
    }
    (leaves, address)
}

/// The paths of everything in a tree, relative to the directory that contains the tree.
#[derive(Debug)]
struct TreeNames {
    directories: Vec<CString>,
    files: Vec<CString>,
}

impl TreeNames {
    /// Names everything in a tree whose top directory is called `root`.
    fn new(shape: &Shape, root: &str) -> TreeNames {
        let mut paths: Vec<String> = Vec::with_capacity(shape.directories().len());
        let mut files = Vec::new();
        for (number, directory) in shape.directories().iter().enumerate() {
            let path = match number {
                0 => root.to_owned(),
                _ => format!("{}/d{number}", paths[directory.parent]),
            };
            files
                .extend((0..directory.files.len()).map(|file| c_string(format!("{path}/f{file}"))));
            paths.push(path);
        }
        TreeNames {
            directories: paths.into_iter().map(c_string).collect(),
            files,
        }
    }

    fn path(set: &Path, name: &CString) -> PathBuf {
        set.join(std::ffi::OsStr::from_bytes(name.as_bytes()))
    }
}

fn c_string(text: String) -> CString {
    CString::new(text).expect("names hold no zero")
}

/// Makes the tree with all its bytes.
fn build(
    set: &Path,
    names: &TreeNames,
    leaves: &[TreeFile],
    source: DataSource,
) -> Result<(), EngineError> {
    for name in &names.directories {
        let path = TreeNames::path(set, name);
        fs::create_dir(&path).map_err(|error| EngineError::io("make directory", &path, &error))?;
    }
    let mut data = Data::new(source, CHUNK as usize);
    for (leaf, name) in leaves.iter().zip(&names.files) {
        let path = TreeNames::path(set, name);
        let file =
            File::create_new(&path).map_err(|error| EngineError::io("create", &path, &error))?;
        write(&file, leaf, 0, &mut data)
            .map_err(|error| EngineError::io("write to", &path, &error))?;
    }
    Ok(())
}

/// Writes a file's bytes from `offset` on.
fn write(file: &File, leaf: &TreeFile, offset: u64, data: &mut Data) -> std::io::Result<()> {
    let mut done = 0;
    while done < leaf.size {
        let length = CHUNK.min(leaf.size - done);
        file.write_all_at(
            data.window(leaf.address + done, length as usize),
            offset + done,
        )?;
        done += length;
    }
    Ok(())
}

/// Creates a file without a name on the kernel's own tmpfs (a memfd) that holds the bytes of all
/// files, so that they are in memory and nowhere else.
fn in_memory(leaves: &[TreeFile], whole: u64, source: DataSource) -> Result<File, EngineError> {
    check_room("the source", whole)?;
    let file = File::from(
        rustix::fs::memfd_create(c"fsb-source", MemfdFlags::CLOEXEC)
            .map_err(|errno| EngineError::system("make a file in memory", errno))?,
    );
    fn failed(error: std::io::Error) -> EngineError {
        EngineError::new(format!("write the source into memory: {error}"))
    }
    file.set_len(whole).map_err(failed)?;
    let mut data = Data::new(source, CHUNK as usize);
    leaves
        .iter()
        .try_for_each(|leaf| write(&file, leaf, leaf.address, &mut data))
        .map_err(failed)?;
    Ok(file)
}

/// Proves that the source is in memory, and returns its size and the resident bytes.
fn prove_in_memory(file: &File, whole: u64, leaves: &[TreeFile]) -> Result<Ready, EngineError> {
    // Between files nothing was written, and there are no pages.
    let written: u64 = leaves
        .iter()
        .map(|leaf| leaf.size.next_multiple_of(PAGE as u64))
        .sum();
    proved(resident_bytes(file, whole), written)
}

/// Reads a tree on the file system into the page cache, and proves that it is there by a sample of
/// files.
fn warm(set: &Path, names: &TreeNames, leaves: &[TreeFile]) -> Result<Ready, EngineError> {
    let mut memory = Memory::new(CHUNK as usize);
    for name in &names.files {
        let path = TreeNames::path(set, name);
        let mut file = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        while file
            .read(memory.as_mut())
            .map_err(|error| EngineError::io("read from", &path, &error))?
            > 0
        {}
    }
    let (mut resident, mut whole) = (Some(0), 0);
    let examined = (leaves.len() as u64).min(EXAMINED_FILES);
    for index in 0..examined {
        let at = (index * leaves.len() as u64 / examined) as usize;
        let path = TreeNames::path(set, &names.files[at]);
        let file = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        resident = resident
            .zip(resident_bytes(&file, leaves[at].size))
            .map(|(sum, bytes)| sum + bytes);
        whole += leaves[at].size;
    }
    proved(resident, whole)
}

/// Returns an error if too little of the source is in memory. An unknown residency is accepted and
/// recorded as unknown.
fn proved(resident: Option<u64>, whole: u64) -> Result<Ready, EngineError> {
    match resident {
        Some(bytes) if (bytes as f64) < whole as f64 * WARM => {
            let [bytes, whole] = [bytes, whole].map(|bytes| show_bytes(bytes as f64));
            Err(EngineError::new(format!(
                "the source was not in memory: {bytes} of {whole} were cached at the start"
            )))
        }
        _ => Ok(Ready {
            resident_bytes: resident,
            file_bytes: whole,
            direct: None,
        }),
    }
}

/// Reads the attributes of everything in a tree, so that a deletion finds them in memory.
fn look_at(set: &Path, names: &TreeNames) -> Result<(), EngineError> {
    names
        .directories
        .iter()
        .chain(&names.files)
        .try_for_each(|name| {
            let path = TreeNames::path(set, name);
            fs::symlink_metadata(&path)
                .map(drop)
                .map_err(|error| EngineError::io("stat", &path, &error))
        })
}

/// Checks that a copy has the directories and files of its source, with the same sizes. With
/// `verify` it also compares their contents.
fn check(
    set: &Path,
    names: &TreeNames,
    leaves: &[TreeFile],
    source: DataSource,
    verify: bool,
) -> Result<(), EngineError> {
    for name in &names.directories {
        let path = TreeNames::path(set, name);
        fs::symlink_metadata(&path).map_err(|error| EngineError::io("stat", &path, &error))?;
    }
    let mut data = Data::new(source, CHUNK as usize);
    let mut memory = Memory::new(CHUNK as usize);
    for (leaf, name) in leaves.iter().zip(&names.files) {
        let path = TreeNames::path(set, name);
        let size = fs::symlink_metadata(&path)
            .map_err(|error| EngineError::io("stat", &path, &error))?
            .len();
        if size != leaf.size {
            let message = format!(
                "{} has {size} bytes, but its source has {}",
                path.display(),
                leaf.size
            );
            return Err(EngineError {
                path: Some(path),
                ..EngineError::new(message)
            });
        }
        if verify {
            compare(&path, leaf, &mut data, memory.as_mut())?;
        }
    }
    Ok(())
}

fn compare(
    path: &Path,
    leaf: &TreeFile,
    data: &mut Data,
    memory: &mut [u8],
) -> Result<(), EngineError> {
    let file = File::open(path).map_err(|error| EngineError::io("open", path, &error))?;
    let mut offset = 0;
    while offset < leaf.size {
        let found = &mut memory[..CHUNK.min(leaf.size - offset) as usize];
        file.read_exact_at(found, offset)
            .map_err(|error| EngineError::io("read from", path, &error))?;
        let expected = data.window(leaf.address + offset, found.len());
        if let Some(place) = Data::difference(expected, found) {
            return Err(EngineError::corrupted(
                path,
                offset + place as u64,
                expected[place],
                found[place],
            ));
        }
        offset += found.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use fsb_model::WorkloadSpec;

    use super::*;
    use crate::workload::testing::{Pairs, label, run_once, with};

    const SHAPE: &str = "-:100,5000;0:;1:0,300000;0:4096,1";

    fn spec(pairs: Pairs<'_>) -> WorkloadSpec {
        with("filetree", pairs)
    }

    /// Returns every file below a directory, by its path, with its contents.
    fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                found.push((name.clone() + "/", Vec::new()));
                found.extend(
                    contents(&path)
                        .into_iter()
                        .map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)),
                );
            } else {
                found.push((name, fs::read(&path).unwrap()));
            }
        }
        found.sort();
        found
    }

    #[test]
    fn copies_hold_what_the_source_held_however_they_were_made() {
        for threads in [1, 3] {
            let mut copies = Vec::new();
            for (operation, copy) in [
                ("copy-into", "read-write"),
                ("copy-within", "read-write"),
                ("copy-within", "copy_file_range"),
            ] {
                let root = tempfile::tempdir().unwrap();
                let workload = spec(&[
                    ("shape", SHAPE.into()),
                    ("operation", operation.into()),
                    ("copy", copy.into()),
                    ("block_size", 1000.into()),
                    ("threads", threads.into()),
                ]);
                let mut ready = Ready::default();
                let measured = run_once(&workload, root.path(), |found| ready = found).unwrap();
                assert_eq!(
                    (measured.operations, measured.bytes),
                    (6, 100 + 5000 + 300_000 + 4096 + 1)
                );
                assert_eq!(measured.counts["files_copied"], 6);
                assert_eq!(measured.counts["directories_made"], 4);
                assert_eq!(
                    ready.resident_bytes.map(|bytes| bytes >= ready.file_bytes),
                    Some(true),
                    "{operation}: {ready:?}"
                );
                let copy = contents(&root.path().join("fsb-set/copy"));
                if operation == "copy-within" {
                    assert_eq!(copy, contents(&root.path().join("fsb-set/source")));
                }
                copies.push(copy);
            }
            assert_eq!(copies[0].len(), 9, "six files in three directories");
            assert!(copies.iter().all(|copy| *copy == copies[0]));
        }
    }

    #[test]
    fn deleted_trees_are_gone_and_counted() {
        for threads in [1, 3] {
            let root = tempfile::tempdir().unwrap();
            let workload = spec(&[
                ("shape", SHAPE.into()),
                ("operation", "delete".into()),
                ("threads", threads.into()),
            ]);
            let mut there = 0;
            let measured = run_once(&workload, root.path(), |_| {
                there = contents(&root.path().join("fsb-set")).len()
            })
            .unwrap();
            assert_eq!(there, 10);
            assert_eq!(
                fs::read_dir(root.path().join("fsb-set")).unwrap().count(),
                0
            );
            assert_eq!(
                (
                    measured.counts["files_deleted"],
                    measured.counts["directories_deleted"]
                ),
                (6, 4)
            );
        }
    }

    #[test]
    fn a_source_that_was_damaged_a_file_that_vanished_and_one_in_the_way_end_the_trial() {
        let workload = spec(&[
            ("shape", SHAPE.into()),
            ("operation", "copy-within".into()),
            ("verify", true.into()),
        ]);
        let file = "fsb-set/source/d1/d2/f1";
        type Harm = fn(&Path);
        let cases: [(Harm, &str); 4] = [
            (
                |path| {
                    use std::os::unix::fs::FileExt;
                    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                    file.write_all_at(&[0x55; 3], 70_000).unwrap();
                },
                "corrupted: ",
            ),
            (
                |path| fs::remove_file(path).unwrap(),
                "f1: No such file or directory (ENOENT)",
            ),
            (
                |path| {
                    fs::OpenOptions::new()
                        .write(true)
                        .open(path)
                        .unwrap()
                        .set_len(7)
                        .unwrap()
                },
                "(ENODATA)",
            ),
            (
                |path| fs::create_dir(path.ancestors().nth(4).unwrap().join("copy")).unwrap(),
                "copy: File exists (EEXIST)",
            ),
        ];
        for (harm, said) in cases {
            let root = tempfile::tempdir().unwrap();
            let error =
                run_once(&workload, root.path(), |_| harm(&root.path().join(file))).unwrap_err();
            assert!(error.message.contains(said), "{said}: {error}");
            assert!(!error.inapplicable);
        }
    }

    #[test]
    fn reflinks_are_not_applicable_where_the_file_system_has_none() {
        // A file system in memory shares no blocks.
        let root = tempfile::tempdir_in("/dev/shm").unwrap();
        let workload = spec(&[
            ("shape", SHAPE.into()),
            ("operation", "copy-within".into()),
            ("copy", "reflink".into()),
        ]);
        let error = run_once(&workload, root.path(), |_| {}).unwrap_err();
        assert!(
            error.inapplicable && error.message.contains("reflink is not supported"),
            "{error}"
        );
        assert_eq!(
            fs::read_dir(root.path().join("fsb-set")).unwrap().count(),
            0,
            "the probe is gone"
        );
    }

    #[test]
    fn labels_say_how_and_parameters_that_make_no_sense_are_refused() {
        let label = |pairs: Pairs<'_>| label(&spec(pairs));
        assert_eq!(label(&[]).unwrap(), "copy music into, read-write, durable");
        let within = [
            ("set", "iso".into()),
            ("operation", "copy-within".into()),
            ("copy", "reflink".into()),
        ];
        assert_eq!(label(&within).unwrap(), "copy iso within, reflink, durable");
        let recorded = [
            ("shape", SHAPE.into()),
            ("tree", "linux".into()),
            ("operation", "delete".into()),
            ("durability", "none".into()),
        ];
        assert_eq!(label(&recorded).unwrap(), "delete linux");
        for (pairs, said) in [
            (
                vec![("copy", "reflink".into())],
                "needs operation = \"copy-within\"",
            ),
            (
                vec![("operation", "delete".into()), ("copy", "reflink".into())],
                "copy: it applies only with operation = copy-into or copy-within",
            ),
            (
                vec![("operation", "delete".into()), ("verify", true.into())],
                "verify: it applies only with operation",
            ),
            (
                vec![("set", "iso".into()), ("shape", SHAPE.into())],
                "shape: it does not apply with set",
            ),
            (vec![("shape", "-:;0:".into())], "the tree has no files"),
            (vec![("shape", "nonsense".into())], "has no ':'"),
            (
                vec![("tree", "linux".into())],
                "tree: it applies only with shape: give shape too",
            ),
            (vec![("scale", 0.into())], "scale: 0 is not a number from"),
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

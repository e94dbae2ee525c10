//! The calls that move the records of a phase: read and write, streams, mapped files and
//! asynchronous requests.
//!
//! * Calls: pread and pwrite if IOzone seeks first, otherwise read and write.
//! * Streams: fopen, fwrite, fread and fclose of the C library, with a buffer of one record.
//! * Mappings: loads and stores through a mapping of the file.
//! * Asynchronous: POSIX requests of the C library, a fixed number of them in flight. A request has
//!   its own memory. With IOzone's `-H` each record is copied: from the caller's record before a
//!   write, into it after a read.

use std::ffi::CString;
use std::fs::FileType;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::phase::{Corruption, IoMethod, Msync, Operation, Phase, PhaseError, RecordContent};
use crate::backend::aio::ControlBlock;
use crate::backend::mmap::{self, Mapping};
use crate::backend::stdio::Stream;
use crate::backend::{RangeLock, Verb, files as calls};
use crate::error::EngineError;
use crate::memory::Memory;

/// Opens the file of a phase. `together` is whether it is one of several that run at once.
pub(super) fn open(phase: &Phase, together: bool) -> Result<Box<dyn Records + '_>, PhaseError> {
    match phase.operation {
        Operation::Write if !together => make_anew(&phase.path)?,
        Operation::Pwrite if together => empty(&phase.path)?,
        _ => {}
    }
    if phase.operation.is_stream() {
        return Ok(Box::new(StreamFile::open(phase)?));
    }
    let file = open_for(phase, together)?;
    let is_write = matches!(phase.operation, Operation::Write | Operation::Rewrite);
    let mixes = phase.mix && is_write && !together;
    if let IoMethod::Mapping(msync) = phase.method {
        let written =
            phase.operation.writes() || (phase.operation == Operation::RandomRead && !together);
        let mapped = MappedFile::new(phase, file, written, msync)?;
        if mixes {
            write_page(phase, &mapped.file)?;
        }
        return Ok(Box::new(mapped));
    }
    if mixes {
        write_page(phase, &file)?;
    }
    Ok(match phase.method {
        IoMethod::Asynchronous { depth, copy } => {
            Box::new(Asynchronous::new(phase, file, depth, copy))
        }
        IoMethod::Calls | IoMethod::Mapping(_) => Box::new(Calls::new(phase, file)),
    })
}

fn refused_by(phase: &Phase, call: &str, errno: Errno) -> EngineError {
    EngineError::call(call, &phase.path, errno)
}

/// Writes the first page of the file by write(2), and seeks to its start again.
fn write_page(phase: &Phase, file: &OwnedFd) -> Result<(), PhaseError> {
    let content = RecordContent::new(phase.check, phase.rank);
    let mut page = Memory::new(rustix::param::page_size());
    content.fill(page.as_mut());
    let moved = rustix::io::write(file, page.as_mut());
    Fault::whole(WRITE, moved, page.as_mut().len()).map_err(|fault| fault.at(phase, 0))?;
    rustix::fs::seek(file, SeekFrom::Start(0)).map_err(|errno| refused_by(phase, "seek", errno))?;
    Ok(())
}

struct StreamFile<'p> {
    phase: &'p Phase,
    file: Stream,
    content: RecordContent,
    record: Memory,
}

impl<'p> StreamFile<'p> {
    fn open(phase: &'p Phase) -> Result<StreamFile<'p>, PhaseError> {
        let mode = match phase.operation {
            Operation::Fread => c"r",
            Operation::Fwrite if !phase.path.exists() => c"w+",
            _ => c"r+",
        };
        let refused = |errno| EngineError::call("open", &phase.path, errno);
        let name =
            CString::new(phase.path.as_os_str().as_bytes()).map_err(|_| refused(Errno::INVAL))?;
        let file = Stream::open(&name, mode).map_err(refused)?;
        let content = RecordContent::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        Ok(StreamFile {
            phase,
            file,
            content,
            record,
        })
    }

    fn refused(&self, call: &str, errno: Errno) -> PhaseError {
        EngineError::call(call, &self.phase.path, errno).into()
    }

    fn fsync(&self) -> Result<(), PhaseError> {
        rustix::fs::fsync(self.file.descriptor()).map_err(|errno| self.refused("fsync", errno))
    }
}

impl Records for StreamFile<'_> {
    fn prime(&mut self, _fsync: bool, _first: bool) -> Result<(), PhaseError> {
        if self.phase.operation.writes() {
            self.fsync()?;
        } else {
            // IOzone syncs through a descriptor of its own here.
            let other = open_file(&self.phase.path, OFlags::RDONLY, Mode::empty())?;
            flush(&self.phase.path, &other)?;
            close(&self.phase.path, other)?;
        }
        let size = self.record.as_mut().len();
        self.file
            .set_buffer(size)
            .map_err(|errno| EngineError::call("setvbuf", &self.phase.path, errno).into())
    }

    fn lock(&mut self, _locked: bool) -> Result<(), PhaseError> {
        Ok(()) // IOzone locks no streams.
    }

    #[inline]
    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        Fault::whole(READ, self.file.read(record), record.len())?;
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        Fault::whole(WRITE, self.file.write(record), record.len())
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        self.file
            .flush()
            .map_err(|errno| EngineError::call("fflush", &self.phase.path, errno))?;
        if self.phase.operation.writes() {
            self.fsync()
        } else {
            Ok(())
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), PhaseError> {
        let closed = self.file.close();
        closed.map_err(|errno| self.refused("fclose", errno))
    }
}

/// Loads and stores through a mapping of the file.
struct MappedFile<'p> {
    phase: &'p Phase,
    file: OwnedFd,
    content: RecordContent,
    record: Memory,
    map: Mapping,
    /// After each record that was stored.
    msync: Option<MsyncFlags>,
}

impl<'p> MappedFile<'p> {
    /// `written` is whether the file is open for writing; IOzone maps it so for random reads too.
    fn new(
        phase: &'p Phase,
        file: OwnedFd,
        written: bool,
        msync: Msync,
    ) -> Result<MappedFile<'p>, PhaseError> {
        let content = RecordContent::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        if matches!(
            phase.operation,
            Operation::Write | Operation::Rewrite | Operation::RecordRewrite | Operation::Pwrite
        ) {
            // A mapping cannot make a file longer: writing its last record does.
            let last = phase.file_size - phase.record_size;
            content.renew(last, record.as_mut());
            let moved = calls::write_at(&file, record.as_mut(), last);
            Fault::whole(WRITE, moved, record.as_mut().len())
                .map_err(|fault| fault.at(phase, last))?;
        }
        mmap::install_handler();
        let refused = |errno| EngineError::call("map", &phase.path, errno);
        let length = rustix::fs::fstat(&file).map_err(refused)?.st_size as u64;
        if length < phase.file_size {
            return Err(Fault::Short("map", length as usize).at(phase, 0));
        }
        // Shared where stores must reach the file; IOzone maps privately for loads.
        let (protection, flags) = match written {
            true => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED),
            false => (ProtFlags::READ, MapFlags::PRIVATE),
        };
        let map =
            Mapping::new(&file, phase.file_size as usize, protection, flags).map_err(refused)?;
        let msync = match msync {
            Msync::Never => None,
            Msync::Async => Some(MsyncFlags::ASYNC),
            Msync::Sync => Some(MsyncFlags::SYNC),
        };
        Ok(MappedFile {
            phase,
            file,
            content,
            record,
            map,
            msync,
        })
    }
}

/// Builds the fault of a failed load or store. These have no result, so `moved` is the result of
/// the same transfer by a call, which fails for the same reason, unless the cause no longer exists.
#[cold]
fn failed(call: &'static str, moved: Result<usize, Errno>, length: usize) -> Fault {
    Fault::whole(call, moved, length)
        .err()
        .unwrap_or(Fault::Mapping(call))
}

impl Records for MappedFile<'_> {
    fn prime(&mut self, fsync: bool, first: bool) -> Result<(), PhaseError> {
        prime(self.phase, &self.file, self.record.as_mut(), fsync, first)
    }

    fn lock(&mut self, locked: bool) -> Result<(), PhaseError> {
        Ok(lock(self.phase, &self.file, locked)?)
    }

    #[inline]
    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        let length = record.len();
        // SAFETY: the record is in the mapping (the file of a phase has a whole number of records,
        // and is as long), and the other side is memory of our own; the handler is installed. A
        // mapping that failed is not used again: the pass ends.
        if !unsafe { self.map.load(offset as usize, record.as_mut_ptr(), length) } {
            return Err(failed(
                READ,
                calls::read_at(&self.file, record, offset),
                length,
            ));
        }
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        // SAFETY: as in `read`; operations that write have a writable mapping.
        if !unsafe {
            self.map
                .store(record.as_ptr(), offset as usize, record.len())
        } {
            let moved = calls::write_at(&self.file, record, offset);
            return Err(failed(WRITE, moved, record.len()));
        }
        match self.msync {
            Some(flags) => self
                .map
                .sync(offset as usize, record.len(), flags)
                .map_err(|errno| Fault::Call("msync", errno)),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        let synced = self.map.sync(0, self.map.len(), MsyncFlags::SYNC);
        Ok(synced.map_err(|errno| EngineError::call("msync", &self.phase.path, errno))?)
    }

    fn close(self: Box<Self>) -> Result<(), PhaseError> {
        let MappedFile {
            phase, file, map, ..
        } = *self;
        drop(map);
        Ok(close(&phase.path, file)?)
    }
}

/// POSIX asynchronous requests, by the C library, a fixed number of them in flight.
///
/// A request has its own memory. If IOzone copies (`-H`), each record is copied: from a record of
/// the caller before a write, into it after a read.
struct Asynchronous<'p> {
    phase: &'p Phase,
    /// Before the file, so that no request is in flight when the file is closed.
    requests: Vec<QueuedRecord>,
    file: OwnedFd,
    content: RecordContent,
    /// The caller's record.
    record: Memory,
    copy: bool,
    /// The oldest queued request.
    next: usize,
}

/// A request and its memory. The control block must not move while the request is in flight.
struct QueuedRecord {
    block: Box<ControlBlock>,
    memory: Memory,
    offset: u64,
    pending: bool,
    reads: bool,
}

impl<'p> Asynchronous<'p> {
    fn new(phase: &'p Phase, file: OwnedFd, depth: u32, copy: bool) -> Asynchronous<'p> {
        let content = RecordContent::new(phase.check, phase.rank);
        let size = phase.record_size as usize;
        let mut record = Memory::new(size);
        content.fill(record.as_mut());
        let most = (phase.file_size / phase.record_size).min(u64::from(depth));
        let request = |_| {
            let mut memory = Memory::new(size);
            content.fill(memory.as_mut());
            let block = Box::new(ControlBlock::new());
            QueuedRecord {
                block,
                memory,
                offset: 0,
                pending: false,
                reads: false,
            }
        };
        let requests = (0..most).map(request).collect();
        Asynchronous {
            phase,
            requests,
            file,
            content,
            record,
            copy,
            next: 0,
        }
    }

    /// Waits for the oldest queued request, and queues a record in its place.
    fn queue(&mut self, offset: u64, reads: bool) -> Result<(), Fault> {
        let index = self.next;
        self.next = (self.next + 1) % self.requests.len();
        self.finish(index)?;
        let request = &mut self.requests[index];
        let memory = request.memory.as_mut();
        if !reads {
            if self.copy {
                let record = self.record.as_mut();
                self.content.renew(offset, record);
                memory.copy_from_slice(record);
            } else {
                self.content.renew(offset, memory);
            }
        }
        (request.offset, request.reads) = (offset, reads);
        let verb = if reads { Verb::Read } else { Verb::Write };
        let bytes = (memory.as_mut_ptr(), memory.len());
        // SAFETY: the block and the memory that it names stay where they are until the request is
        // finished: `finish` is called before either is used again, and `drop` before either goes
        // away. The descriptor lives longer.
        let queued = unsafe { request.block.submit(self.file.as_fd(), verb, bytes, offset) };
        queued.map_err(|errno| Fault::Call(if reads { READ } else { WRITE }, errno))?;
        request.pending = true;
        Ok(())
    }

    /// Waits for a request and checks the record that it read.
    fn finish(&mut self, index: usize) -> Result<(), Fault> {
        let request = &mut self.requests[index];
        if !request.pending {
            return Ok(());
        }
        let call = if request.reads { READ } else { WRITE };
        request.pending = false;
        Fault::whole(call, request.block.wait(), request.memory.as_mut().len())?;
        if !request.reads {
            return Ok(());
        }
        if self.copy {
            self.record
                .as_mut()
                .copy_from_slice(request.memory.as_mut());
        }
        let record = if self.copy {
            self.record.as_mut()
        } else {
            request.memory.as_mut()
        };
        Ok(self
            .content
            .check(&self.phase.path, request.offset, record)?)
    }
}

impl Records for Asynchronous<'_> {
    fn prime(&mut self, fsync: bool, first: bool) -> Result<(), PhaseError> {
        prime(self.phase, &self.file, self.record.as_mut(), fsync, first)
    }

    fn lock(&mut self, locked: bool) -> Result<(), PhaseError> {
        Ok(lock(self.phase, &self.file, locked)?)
    }

    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        self.queue(offset, true)
    }

    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        self.queue(offset, false)
    }

    fn drain(&mut self) -> Result<(), Fault> {
        for step in 0..self.requests.len() {
            self.finish((self.next + step) % self.requests.len())?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        Ok(flush(&self.phase.path, &self.file)?)
    }

    fn close(mut self: Box<Self>) -> Result<(), PhaseError> {
        self.drain().map_err(|fault| fault.at(self.phase, 0))?;
        Ok(close(&self.phase.path, self.file)?)
    }
}

impl Drop for QueuedRecord {
    fn drop(&mut self) {
        if self.pending {
            // Its memory is freed next. The error that led here is returned already, so the result
            // does not matter.
            let _ = self.block.wait();
        }
    }
}

struct Calls<'p> {
    phase: &'p Phase,
    file: OwnedFd,
    content: RecordContent,
    record: Memory,
    /// From the start to the end, so that the kernel may keep the place.
    sequential: bool,
}

impl<'p> Calls<'p> {
    fn new(phase: &'p Phase, file: OwnedFd) -> Calls<'p> {
        let content = RecordContent::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        let sequential = matches!(
            phase.operation,
            Operation::Write | Operation::Rewrite | Operation::Read
        );
        Calls {
            phase,
            file,
            content,
            record,
            sequential,
        }
    }
}

impl Records for Calls<'_> {
    fn prime(&mut self, fsync: bool, first: bool) -> Result<(), PhaseError> {
        prime(self.phase, &self.file, self.record.as_mut(), fsync, first)
    }

    fn lock(&mut self, locked: bool) -> Result<(), PhaseError> {
        Ok(lock(self.phase, &self.file, locked)?)
    }

    #[inline]
    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        let moved = match self.sequential {
            true => calls::read(&self.file, record),
            false => calls::read_at(&self.file, record, offset),
        };
        Fault::whole(READ, moved, record.len())?;
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        let moved = match self.sequential {
            true => calls::write(&self.file, record),
            false => calls::write_at(&self.file, record, offset),
        };
        Fault::whole(WRITE, moved, record.len())
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        Ok(flush(&self.phase.path, &self.file)?)
    }

    fn close(self: Box<Self>) -> Result<(), PhaseError> {
        Ok(close(&self.phase.path, self.file)?)
    }
}

/// The error of a record that was not moved. Small, because it is returned against the clock.
#[derive(Debug)]
pub(super) enum Fault {
    /// The kernel refused: `read from`, `write to`.
    Call(&'static str, Errno),
    /// Fewer bytes were moved than a record has.
    Short(&'static str, usize),
    /// A load or store failed with a signal, but the call that should give the reason succeeded.
    Mapping(&'static str),
    /// The bytes that were read are wrong.
    Corrupt(Box<Corruption>),
}

impl From<Box<Corruption>> for Fault {
    fn from(corruption: Box<Corruption>) -> Fault {
        Fault::Corrupt(corruption)
    }
}

impl Fault {
    /// Builds the complete error.
    #[cold]
    pub(super) fn at(self, phase: &Phase, offset: u64) -> PhaseError {
        let (path, record) = (&phase.path, phase.record_size);
        match self {
            Fault::Call(call, errno) => {
                EngineError::call(format!("{call} (record of {record} bytes at {offset})"), path, errno).into()
            }
            Fault::Short(call, moved) => EngineError::new(format!(
                "{call} {}: {moved} of {record} bytes at {offset}; the file is shorter than its tests need, or the file system is full",
                path.display()
            ))
            .into(),
            Fault::Mapping(call) => EngineError::new(format!(
                "{call} {}: the kernel refused it through the mapping (SIGBUS; record of {record} bytes at {offset}) and allowed it by a call right after; the device fails at times, or the file system is full",
                path.display()
            ))
            .into(),
            Fault::Corrupt(corruption) => PhaseError::Corrupt(*corruption),
        }
    }

    /// Checks that a call has moved a whole record.
    #[inline]
    fn whole(call: &'static str, moved: Result<usize, Errno>, record: usize) -> Result<(), Fault> {
        match moved {
            Ok(moved) if moved == record => Ok(()),
            Ok(moved) => Err(Fault::Short(call, moved)),
            Err(errno) => Err(Fault::Call(call, errno)),
        }
    }
}

/// The name of a refused read in messages.
const READ: &str = "read from";
/// The name of a refused write in messages.
const WRITE: &str = "write to";

/// An open file whose records can be moved.
pub(super) trait Records {
    /// Prepares the file between its opening and the clock: fsync, and reading the first record
    /// once.
    fn prime(&mut self, fsync: bool, first: bool) -> Result<(), PhaseError>;

    /// Locks or unlocks the file.
    fn lock(&mut self, locked: bool) -> Result<(), PhaseError>;

    /// Reads the record at an offset and checks it.
    fn read(&mut self, offset: u64) -> Result<(), Fault>;

    fn write(&mut self, offset: u64) -> Result<(), Fault>;

    /// Waits for the requests in flight.
    fn drain(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Returns when the file is on the device.
    fn flush(&mut self) -> Result<(), PhaseError>;

    /// Closes the file.
    fn close(self: Box<Self>) -> Result<(), PhaseError>;
}

/// [`Records::prime`] of a descriptor. IOzone reads the first record before the clock of sequential
/// reads, to warm the processor up.
fn prime(
    phase: &Phase,
    file: &OwnedFd,
    record: &mut [u8],
    fsync: bool,
    first: bool,
) -> Result<(), PhaseError> {
    if fsync {
        flush(&phase.path, file)?;
    }
    if first {
        let moved = calls::read_at(file, record, 0);
        Fault::whole(READ, moved, record.len()).map_err(|fault| fault.at(phase, 0))?;
    }
    Ok(())
}

/// The state of a path: absent, or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Nothing,
    /// A file of this number of bytes.
    File(u64),
}

/// Checks that a file may be created or overwritten at a path, and returns the state of the path.
///
/// # Errors
/// The path is a directory, a device, a pipe or a socket, or a symbolic link to one of these. The
/// path is a symbolic link to a file or to nothing: the test would overwrite the file and remove
/// the link. The directory of the file does not exist. The message names the path.
pub fn examine(path: &Path) -> Result<Existing, EngineError> {
    let shown = path.display();
    fn refused(message: String) -> EngineError {
        EngineError::new(message)
    }
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => match std::fs::read_link(path) {
            Err(_) => Ok(Existing::File(metadata.len())),
            Ok(_) => {
                let target = path
                    .canonicalize()
                    .map_err(|error| refused(format!("{shown}: {error}")))?;
                let target = target.display();
                Err(refused(format!(
                    "{shown} is a symbolic link to {target}: the tests would overwrite that file and remove the link. \
                     If that file is meant, name {target}"
                )))
            }
        },
        Ok(metadata) => Err(refused(format!(
            "{shown} is {}: name a file",
            kind(metadata.file_type())
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if path.symlink_metadata().is_ok() {
                return Err(refused(format!(
                    "{shown} is a dangling symbolic link: name a file"
                )));
            }
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            match std::fs::metadata(parent) {
                Ok(metadata) if metadata.is_dir() => Ok(Existing::Nothing),
                Ok(_) => Err(refused(format!(
                    "{} is not a directory: name a file in a directory",
                    parent.display()
                ))),
                Err(error) => Err(refused(format!(
                    "the directory {} cannot be used: {error}; name a file in a directory that exists",
                    parent.display()
                ))),
            }
        }
        Err(error) => Err(refused(format!("{shown}: {error}"))),
    }
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_block_device() => "a block device",
        kind if kind.is_char_device() => "a character device",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "no file",
    }
}

/// Removes a file. Returns whether it existed.
///
/// # Errors
/// The kernel's reason.
pub fn remove(path: &Path) -> Result<bool, EngineError> {
    match rustix::fs::unlink(path) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(EngineError::call("remove", path, errno)),
    }
}

/// The mode of files, as in IOzone.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP);

/// Opens a file. Checks that it is a regular file, because another program may have replaced it
/// since [`examine`].
fn open_file(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, EngineError> {
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, mode)
        .map_err(|errno| EngineError::call("open", path, errno))?;
    let stat =
        rustix::fs::fstat(&file).map_err(|errno| EngineError::call("examine", path, errno))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(EngineError::new(format!(
            "{} is not a regular file any more",
            path.display()
        )));
    }
    Ok(file)
}

/// Recreates a file as IOzone does before its first write: opens it without any permission, empties
/// and removes it, and creates it anew. A file system that cannot do that fails here, before it is
/// measured.
fn make_anew(path: &Path) -> Result<(), EngineError> {
    let file = open_file(path, OFlags::WRONLY | OFlags::CREATE, Mode::empty())?;
    rustix::fs::ftruncate(&file, 0).map_err(|errno| EngineError::call("truncate", path, errno))?;
    close(path, file)?;
    remove(path)?;
    empty(path)
}

/// creat(2).
fn empty(path: &Path) -> Result<(), EngineError> {
    close(
        path,
        open_file(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, MODE)?,
    )
}

/// Opens a file for a phase, with IOzone's flags. `together` is whether the phase is one of several
/// that run at once: those create the file when they open it.
pub(super) fn open_for(phase: &Phase, together: bool) -> Result<OwnedFd, EngineError> {
    fn sync(flag: bool, flags: OFlags) -> OFlags {
        if flag { flags } else { OFlags::empty() }
    }
    let written = OFlags::RDWR
        | sync(phase.sync, OFlags::SYNC)
        | sync(phase.data_sync, fsb_sys::open_flags::DSYNC);
    let flags = match phase.operation {
        Operation::Write if together => written | OFlags::CREATE,
        Operation::Pwrite => written | OFlags::CREATE,
        Operation::RandomRead if together => OFlags::RDONLY,
        Operation::RandomRead | Operation::RandomWrite | Operation::RecordRewrite => {
            written | OFlags::CREATE
        }
        operation if operation.writes() => written,
        _ => OFlags::RDONLY,
    };
    open_file(
        &phase.path,
        flags | sync(phase.direct, OFlags::DIRECT),
        MODE,
    )
}

/// Locks or unlocks the whole file (`fcntl`).
pub(super) fn lock(phase: &Phase, file: &OwnedFd, locked: bool) -> Result<(), EngineError> {
    if !phase.lock {
        return Ok(());
    }
    let operation = match (locked, phase.operation.writes()) {
        (false, _) => RangeLock::Release,
        (true, true) => RangeLock::Exclusive,
        (true, false) => RangeLock::Shared,
    };
    calls::lock(file, operation, 0, 0)
        .map_err(|errno| EngineError::call("lock", &phase.path, errno))
}

/// Closes a file and returns the error that close reports.
fn close(path: &Path, file: OwnedFd) -> Result<(), EngineError> {
    calls::close(file).map_err(|errno| EngineError::call("close", path, errno))
}

/// Syncs a file to the device after repetitions that left the sync to the last one.
///
/// # Errors
/// The kernel's reason.
pub fn bring_to_rest(path: &Path) -> Result<(), EngineError> {
    let file = open_file(path, OFlags::RDONLY, Mode::empty())?;
    flush(path, &file)?;
    close(path, file)
}

/// fsync.
fn flush(path: &Path, file: &OwnedFd) -> Result<(), EngineError> {
    rustix::fs::fsync(file).map_err(|errno| EngineError::call("fsync", path, errno))
}

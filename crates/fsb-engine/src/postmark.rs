//! PostMark's calls. A [`Pool`] chooses the files, and this module performs the operations on them.
//!
//! The calls are those of PostMark 1.53, with the same flags, sizes and order. They are streams of
//! the C library as PostMark opens them, or plain calls. The last plain call of a transfer moves
//! the rest that does not fill a block, even if that rest is empty. Tests compare the calls with
//! traces of the real tool. Errors that PostMark overlooks (a full disk, a file that vanished) end
//! a run here.
//!
//! [`run`] is for `fsb postmark`. The workload of the registry does the same with a latency for
//! each operation.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::postmark::{Act, Draw, FileName, Operation, Pool};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::backend::{self, Backend, Directory, FileSlot, Flush, OpenFlags, Session, SessionSetup};
use crate::clock::Clock;
use crate::data::{Data, DataSource};
use crate::error::EngineError;
use crate::memory::Memory;

/// The options of a run.
#[derive(Debug)]
pub struct RunOptions<'r> {
    /// The directories of the files, as many as the pool's shape has weights. If empty, files are
    /// in the working directory.
    pub locations: Vec<PathBuf>,
    /// Bytes of one read.
    pub read_block: u32,
    /// Bytes of one write.
    pub write_block: u32,
    /// Whether to use streams of the C library instead of plain calls.
    pub buffered: bool,
    /// The text that files are filled with, as many bytes as the largest has. If absent, their
    /// bytes depend on the file and on the offset in it, and read data is compared with them.
    pub text: Option<&'r [u8]>,
}

/// A progress event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// The run is about to create the directories.
    MakingDirectories,
    /// The directories exist.
    MadeDirectories,
    /// The run is about to create the first files.
    Creating,
    /// The files exist, and the transactions begin.
    Transacting,
    /// A tenth of the transactions is done.
    Tenth,
    /// All transactions are done.
    Transacted,
    /// No file is left for another transaction.
    OutOfFiles,
    /// The run is about to delete the remaining files.
    Deleting,
    /// The files are deleted.
    Deleted,
    /// The run is about to remove the directories.
    RemovingDirectories,
    /// The directories are removed.
    RemovedDirectories,
}

/// The durations of the stages, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// From the first file's creation to the last one's deletion.
    pub total: u64,
    /// Creating the first files.
    pub creation: u64,
    pub transactions: u64,
    /// Deleting the remaining files.
    pub deletion: u64,
    /// Files deleted after the transactions.
    pub deleted_alone: u64,
    /// Whether some of the transactions had no files.
    pub out_of_files: bool,
}

/// The reason why a run was aborted. Its files are removed, as far as that was possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Ended {
    /// The caller set the `interrupted` flag.
    #[error("interrupted")]
    Interrupted,
    /// A system call failed, or a file does not hold the bytes that were written to it.
    #[error(transparent)]
    Failed(#[from] EngineError),
    /// As before, and some of the files could not be removed either.
    #[error("{first}; and its files are not all removed: {second}")]
    Left {
        first: Box<Ended>,
        /// The error that kept files from being removed.
        second: EngineError,
    },
}

impl Ended {
    /// Returns the name of the kernel's error, if a system call failed.
    pub fn errno_name(&self) -> Option<&'static str> {
        match self {
            Ended::Interrupted => None,
            Ended::Failed(error) => error.errno_name(),
            Ended::Left { first, second } => first.errno_name().or_else(|| second.errno_name()),
        }
    }
}

/// Performs a run. It calls `tell` for progress events while the clock runs, because PostMark
/// prints while its clock runs.
///
/// # Errors
/// Returns the first call that fails, or `Interrupted` if `interrupted` is set. The run checks it
/// before each operation.
pub fn run<D: Draw>(
    options: &RunOptions<'_>,
    pool: &mut Pool<D>,
    interrupted: &AtomicBool,
    tell: &mut dyn FnMut(Moment),
) -> Result<Times, Ended> {
    let shape = pool.shape();
    let names = PoolNames::new(&options.locations, shape.subdirectories);
    let largest = shape.size_high;
    let ops_options = FileOpsOptions {
        backend: if options.buffered {
            backend::STREAMS
        } else {
            backend::CALLS
        },
        read_block: options.read_block,
        write_block: options.write_block,
        sync: false,
        verify: options.text.is_none(),
    };
    let content = match options.text {
        Some(text) => FileContent::Text(text),
        None => FileContent::addressed(
            0.into(),
            largest,
            options.read_block.max(options.write_block),
            0,
        ),
    };
    let ops = FileOps::new(names, ops_options, content, largest)?;
    let mut run = PostmarkRun {
        ops,
        pool,
        interrupted,
        last: None,
    };
    run.stages(tell).map_err(|ended| run.clear(ended))
}

struct PostmarkRun<'r, D> {
    ops: FileOps<'r>,
    pool: &'r mut Pool<D>,
    interrupted: &'r AtomicBool,
    /// The last operation, whether it succeeded or failed.
    last: Option<Operation>,
}

impl<D: Draw> PostmarkRun<'_, D> {
    fn stages(&mut self, tell: &mut dyn FnMut(Moment)) -> Result<Times, Ended> {
        let clock = Clock::Monotonic;
        let directories = self.pool.shape().subdirectories > 1;
        if directories {
            tell(Moment::MakingDirectories);
            self.ops.names().make_directories()?;
            tell(Moment::MadeDirectories);
        }
        let mut times = Times::default();
        let start = clock.now();
        tell(Moment::Creating);
        for _ in 0..self.pool.shape().number {
            let operation = self.pool.create();
            self.perform(operation)?;
        }
        tell(Moment::Transacting);
        let created = clock.now();
        times.out_of_files = !self.transactions(tell)?;
        let transacted = clock.now();
        tell(if times.out_of_files {
            Moment::OutOfFiles
        } else {
            Moment::Transacted
        });
        tell(Moment::Deleting);
        let before = self.pool.tally().deleted;
        while let Some(operation) = self.pool.remove_next() {
            self.perform(Some(operation))?;
        }
        tell(Moment::Deleted);
        let end = clock.now();
        times.deleted_alone = self.pool.tally().deleted - before;
        (times.total, times.creation) = (end - start, created - start);
        (times.transactions, times.deletion) = (transacted - created, end - transacted);
        if directories {
            tell(Moment::RemovingDirectories);
            self.ops.names().remove_directories()?;
            tell(Moment::RemovedDirectories);
        }
        Ok(times)
    }

    /// Performs the transactions. Returns whether there were files for all of them.
    fn transactions(&mut self, tell: &mut dyn FnMut(Moment)) -> Result<bool, Ended> {
        let (transactions, tenth) = (self.pool.shape().transactions, self.pool.shape().tenth());
        for transaction in 0..transactions {
            if self.pool.is_exhausted() {
                return Ok(false);
            }
            let operation = self.pool.use_one();
            self.perform(operation)?;
            let operation = self.pool.exchange();
            self.perform(operation)?;
            if transaction % tenth == 0 {
                tell(Moment::Tenth);
            }
        }
        Ok(true)
    }

    #[inline]
    fn perform(&mut self, operation: Option<Operation>) -> Result<(), Ended> {
        if self.interrupted.load(Ordering::Relaxed) {
            self.last = operation;
            return Err(Ended::Interrupted);
        }
        if let Some(operation) = operation {
            self.last = Some(operation);
            self.ops.perform(&operation)?;
        }
        Ok(())
    }

    /// Removes the created files, and the file whose deletion the pool has counted already.
    fn clear(&mut self, ended: Ended) -> Ended {
        let mut failed = None;
        let mut keep = |result: Result<(), EngineError>| {
            if let Err(error) = result {
                failed.get_or_insert(error);
            }
        };
        if let Some(last) = self.last {
            keep(self.ops.clear(last.file));
        }
        while let Some(operation) = self.pool.remove_next() {
            keep(self.ops.clear(operation.file));
        }
        keep(self.ops.names().remove_directories());
        match failed {
            Some(second) => Ended::Left {
                first: Box::new(ended),
                second,
            },
            None => ended,
        }
    }
}

// The operations of PostMark, and the names of its files: a number, in one of its directories, in
// one of its locations.

/// The content of files.
#[derive(Debug)]
pub(crate) enum FileContent<'c> {
    /// As in PostMark: the same text from its beginning, in each file and after each append.
    Text(&'c [u8]),
    /// Bytes from [`Data`] that depend on the file and on the offset in it.
    Addressed {
        /// The source of the bytes.
        data: Data,
        /// The distance from one file's first byte to the next one's.
        stride: u64,
        /// Address of the first file's first byte.
        first: u64,
    },
}

impl FileContent<'_> {
    /// Returns bytes by address, for files of up to `largest` bytes that are moved in blocks of up
    /// to `block`.
    pub(crate) fn addressed(
        source: DataSource,
        largest: u32,
        block: u32,
        rank: u32,
    ) -> FileContent<'static> {
        let data = Data::new(source, block.min(largest) as usize);
        // Whole blocks, so that no two files share one. Ranks are further apart than any number of
        // files.
        FileContent::Addressed {
            data,
            stride: u64::from(largest).next_multiple_of(4096),
            first: u64::from(rank) << 50,
        }
    }

    /// Returns bytes of a file from `offset` on, for an operation that began at `at`.
    #[inline]
    fn window(&mut self, file: FileName, at: u32, offset: u32, length: usize) -> &[u8] {
        match self {
            FileContent::Text(text) => &text[(offset - at) as usize..][..length],
            FileContent::Addressed {
                data,
                stride,
                first,
            } => {
                let begin = first.wrapping_add(u64::from(file.number).wrapping_mul(*stride));
                data.window(begin.wrapping_add(u64::from(offset)), length)
            }
        }
    }
}

/// The options of the operations on files.
#[derive(Clone, Copy)]
pub(crate) struct FileOpsOptions {
    /// Sessions of this backend make the calls.
    pub(crate) backend: &'static dyn Backend,
    /// Bytes of one read and of one write.
    pub(crate) read_block: u32,
    pub(crate) write_block: u32,
    /// Whether created or extended files are synced before they are closed.
    pub(crate) sync: bool,
    /// Whether read data is compared with the written data.
    pub(crate) verify: bool,
}

/// fopen's "w" and "a", for streams.
const STREAM_FLAGS: [OpenFlags; 2] = [
    flags(OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::TRUNC)),
    flags(OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::APPEND)),
];
/// The flags of PostMark without streams.
const CALL_FLAGS: [OpenFlags; 2] = [
    flags(OFlags::RDWR.union(OFlags::CREATE)),
    flags(OFlags::RDWR.union(OFlags::APPEND)),
];
/// The flags for reading, with and without streams.
const READ_FLAGS: OpenFlags = flags(OFlags::RDONLY);

const fn flags(flags: OFlags) -> OpenFlags {
    OpenFlags {
        flags,
        mode: Mode::from_raw_mode(0o644),
    }
}

/// Performs operations one after another. It does not allocate, but the C library does for each
/// stream.
pub(crate) struct FileOps<'c> {
    names: PoolNames,
    options: FileOpsOptions,
    content: FileContent<'c>,
    memory: Memory,
    session: Box<dyn Session>,
    /// The flags for creating a file and for appending to it.
    write_flags: [OpenFlags; 2],
}

/// The base of relative names: the working directory.
const HERE: Directory = Directory(None);

impl<'c> FileOps<'c> {
    /// `largest` is the size of the largest file.
    pub(crate) fn new(
        names: PoolNames,
        options: FileOpsOptions,
        content: FileContent<'c>,
        largest: u32,
    ) -> Result<FileOps<'c>, EngineError> {
        let memory = Memory::new(options.read_block.min(largest) as usize);
        let session = options.backend.session(&SessionSetup::plain(1))?;
        let write_flags = if options.backend.name() == "stdio" {
            STREAM_FLAGS
        } else {
            CALL_FLAGS
        };
        Ok(FileOps {
            names,
            options,
            content,
            memory,
            session,
            write_flags,
        })
    }

    /// Returns the names and directories of the files.
    pub(crate) fn names(&mut self) -> &mut PoolNames {
        &mut self.names
    }

    #[inline]
    pub(crate) fn perform(&mut self, operation: &Operation) -> Result<(), EngineError> {
        let Operation { act, file, bytes } = *operation;
        match act {
            Act::Create => self.write(("create", self.write_flags[0]), file, 0, bytes),
            Act::Append { at } => {
                self.write(("open to append to", self.write_flags[1]), file, at, bytes)
            }
            Act::Read => self.read(file, bytes),
            Act::Delete => self.delete(file),
        }
    }

    fn open(
        &mut self,
        call: &str,
        flags: OpenFlags,
        file: FileName,
        size: u32,
    ) -> Result<FileSlot, EngineError> {
        let opened = self
            .session
            .open(&HERE, self.names.get(file), flags, u64::from(size));
        opened.map_err(|errno| self.refused(call, file, errno))
    }

    /// Writes whole blocks, then the rest, even if the rest is empty.
    fn write(
        &mut self,
        (call, flags): (&str, OpenFlags),
        file: FileName,
        at: u32,
        bytes: u32,
    ) -> Result<(), EngineError> {
        let slot = self.open(call, flags, file, at + bytes)?;
        let block = self.options.write_block;
        let mut moved = 0;
        loop {
            let length = block.min(bytes - moved);
            let window = self.content.window(file, at, at + moved, length as usize);
            if let Err(errno) = write_all(&mut *self.session, slot, window) {
                return Err(self.give_up("write to", file, slot, errno));
            }
            moved += length;
            if length < block {
                break;
            }
        }
        if self.options.sync
            && let Err(errno) = self.session.flush(slot, Flush::All)
        {
            return Err(self.give_up("fsync", file, slot, errno));
        }
        // A stream writes its last bytes only now.
        self.session
            .close(slot)
            .map_err(|errno| self.refused("write to", file, errno))
    }

    fn read(&mut self, file: FileName, bytes: u32) -> Result<(), EngineError> {
        let slot = self.open("open to read", READ_FLAGS, file, bytes)?;
        let block = self.options.read_block;
        let mut moved = 0;
        loop {
            let length = block.min(bytes - moved);
            let memory = &mut self.memory.as_mut()[..length as usize];
            match read_all(&mut *self.session, slot, memory) {
                Ok(true) => {}
                Ok(false) => {
                    let _ = self.session.close(slot);
                    return Err(self.too_short(file, bytes));
                }
                Err(errno) => return Err(self.give_up("read from", file, slot, errno)),
            }
            if self.options.verify {
                self.compare(file, moved, length as usize)?;
            }
            moved += length;
            if length < block {
                break;
            }
        }
        self.session
            .close(slot)
            .map_err(|errno| self.refused("close", file, errno))
    }

    fn delete(&mut self, file: FileName) -> Result<(), EngineError> {
        let removed = self
            .options
            .backend
            .namespace()
            .unlink(&HERE, self.names.get(file));
        removed.map_err(|errno| self.refused("delete", file, errno))
    }

    /// Removes a file of an aborted run. A missing file is not an error, so that the others are
    /// removed, too.
    fn clear(&mut self, file: FileName) -> Result<(), EngineError> {
        match self.delete(file) {
            Err(error) if error.errno == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    /// Compares one block that was read with the expected bytes.
    fn compare(&mut self, file: FileName, offset: u32, length: usize) -> Result<(), EngineError> {
        let found = &self.memory.as_ref()[..length];
        let expected = self.content.window(file, 0, offset, length);
        match Data::difference(expected, found) {
            None => Ok(()),
            Some(at) => {
                let (expected, found) = (expected[at], found[at]);
                Err(EngineError::corrupted(
                    &self.path(file),
                    u64::from(offset) + at as u64,
                    expected,
                    found,
                ))
            }
        }
    }

    /// Closes a file after a refused call on it, ignores the result of the close, and returns the
    /// error.
    #[cold]
    fn give_up(&mut self, call: &str, file: FileName, slot: FileSlot, errno: Errno) -> EngineError {
        let _ = self.session.close(slot);
        self.refused(call, file, errno)
    }

    #[cold]
    fn refused(&mut self, call: &str, file: FileName, errno: Errno) -> EngineError {
        EngineError::call(call, self.path(file), errno)
    }

    #[cold]
    fn too_short(&mut self, file: FileName, bytes: u32) -> EngineError {
        let path = self.path(file);
        let message = format!(
            "read from {}: it ended before the {bytes} bytes that were written",
            path.display()
        );
        EngineError {
            path: Some(path),
            ..EngineError::new(message)
        }
    }

    #[cold]
    fn path(&mut self, file: FileName) -> PathBuf {
        PathBuf::from(std::ffi::OsStr::from_bytes(self.names.get(file).to_bytes()))
    }
}

/// Writes all bytes in one call, or in several if the kernel takes fewer.
#[inline]
fn write_all(session: &mut dyn Session, slot: FileSlot, bytes: &[u8]) -> Result<(), Errno> {
    let mut written = session.write(slot, bytes)?;
    while written < bytes.len() {
        match session.write(slot, &bytes[written..])? {
            0 => return Err(Errno::NOSPC),
            more => written += more,
        }
    }
    Ok(())
}

/// Fills the memory in one call, or in several if fewer bytes arrive. Returns whether the file has
/// that many.
#[inline]
fn read_all(session: &mut dyn Session, slot: FileSlot, memory: &mut [u8]) -> Result<bool, Errno> {
    let mut came = session.read(slot, memory)?;
    while came < memory.len() {
        match session.read(slot, &mut memory[came..])? {
            0 => return Ok(false),
            more => came += more,
        }
    }
    Ok(true)
}

/// The mode of created directories.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// The maximum number of digits of a 32-bit number.
const DIGITS: usize = 10;

/// Builds paths in memory that is reserved in advance.
#[derive(Debug)]
pub(crate) struct PoolNames {
    /// Each with its slash. A single empty one if files are in the working directory.
    locations: Vec<Vec<u8>>,
    /// The number in each location, or 0 if files are in the location itself.
    subdirectories: u32,
    /// Directories that this run created.
    made: Vec<PathBuf>,
    text: Vec<u8>,
}

impl PoolNames {
    /// Returns names in locations with subdirectories. As in PostMark, a single subdirectory counts
    /// as none.
    pub(crate) fn new(locations: &[PathBuf], subdirectories: u32) -> PoolNames {
        let mut locations: Vec<_> = locations
            .iter()
            .map(|path| [path.as_os_str().as_bytes(), b"/"].concat())
            .collect();
        if locations.is_empty() {
            locations.push(Vec::new());
        }
        let longest = locations.iter().map(Vec::len).max().unwrap_or(0);
        let subdirectories = if subdirectories > 1 {
            subdirectories
        } else {
            0
        };
        PoolNames {
            locations,
            subdirectories,
            made: Vec::new(),
            text: Vec::with_capacity(longest + 2 * DIGITS + 3),
        }
    }

    /// Returns the path of a file. It is valid until the next call.
    #[inline]
    fn get(&mut self, file: FileName) -> &CStr {
        self.text.clear();
        self.text
            .extend_from_slice(&self.locations[file.location as usize]);
        if self.subdirectories > 0 {
            self.text.push(b's');
            self.push_number(file.subdirectory);
            self.text.push(b'/');
        }
        self.push_number(file.number);
        self.text.push(0);
        // The locations hold no NUL, because the command language refuses it.
        CStr::from_bytes_until_nul(&self.text).unwrap_or_default()
    }

    #[inline]
    fn push_number(&mut self, mut number: u32) {
        let mut digits = [0; DIGITS];
        let mut first = DIGITS;
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.text.extend_from_slice(&digits[first..]);
    }

    /// Creates the subdirectories of all locations. A location that is named twice gets them once.
    pub(crate) fn make_directories(&mut self) -> Result<(), EngineError> {
        let mut known = Vec::new();
        for location in &self.locations {
            let location = if location.is_empty() {
                b"."
            } else {
                location.as_slice()
            };
            let location = Path::new(std::ffi::OsStr::from_bytes(location));
            let found = rustix::fs::stat(location)
                .map_err(|errno| EngineError::call("stat", location, errno))?;
            let place = (found.st_dev, found.st_ino);
            if known.contains(&place) {
                continue;
            }
            known.push(place);
            for number in 0..self.subdirectories {
                let path = location.join(format!("s{number}"));
                rustix::fs::mkdir(&path, DIRECTORY_MODE)
                    .map_err(|errno| EngineError::call("make directory", &path, errno))?;
                self.made.push(path);
            }
        }
        Ok(())
    }

    /// Removes the directories that this run created.
    fn remove_directories(&mut self) -> Result<(), EngineError> {
        for path in std::mem::take(&mut self.made) {
            rustix::fs::rmdir(&path)
                .map_err(|errno| EngineError::call("remove directory", &path, errno))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_as_postmark_calls_them() {
        let file = FileName {
            number: 4_294_967_295,
            location: 1,
            subdirectory: 10,
        };
        let mut names = PoolNames::new(&["/a".into(), "b".into()], 11);
        assert_eq!(names.get(file), c"b/s10/4294967295");
        let capacity = names.text.capacity();
        names.get(FileName {
            number: 1,
            location: 0,
            subdirectory: 0,
        });
        assert_eq!((names.get(file), capacity), (c"b/s10/4294967295", capacity));
        let first = FileName {
            number: 1,
            location: 0,
            subdirectory: 0,
        };
        assert_eq!(PoolNames::new(&[], 1).get(first), c"1");
        assert_eq!(PoolNames::new(&["/x".into()], 0).get(first), c"/x/1");
    }
}

//! The interface of a backend: its capabilities, a thread's session with open files and requests,
//! and the calls on names. Also temporary files with which backends probe the capabilities of a
//! file system.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fsb_model::observed::Direct;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    Advice, AtFlags, CWD, Dir, FallocateFlags, FileType, Gid, Mode, OFlags, RawDir, RenameFlags,
    ResolveFlags, SeekFrom, StatxFlags, Timestamps, Uid, XattrFlags, fadvise,
};
use rustix::io::Errno;

use super::files::{self, Directory, FileSlot, Flush, OpenFlags, RangeLock, SessionSetup};
use crate::error::EngineError;

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// From the file.
    Read,
    /// Into the file.
    Write,
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
pub struct IoRequest {
    /// The file.
    pub slot: FileSlot,
    /// The direction.
    pub verb: Verb,
    /// The offset in the file. Ignored for files that are open for appending.
    pub offset: u64,
    pub memory: *mut u8,
    pub length: usize,
    /// Returned with the completion. It is below
    /// [`SessionSetup::depth`](super::SessionSetup::depth), and no two requests in flight share
    /// one.
    pub tag: u32,
}

/// The result of queueing a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// The request is finished; this number of bytes was moved.
    Done(usize),
    /// The request is in flight and will be reaped.
    Pending,
    /// The queue is full: reap, then queue the request again.
    Busy,
}

/// A finished request.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// The request's tag.
    pub tag: u32,
    /// Bytes moved, or the error.
    pub result: Result<usize, Errno>,
}

/// One thread's open files, and the calls on them. No method may allocate, lock or log, because all
/// of them run against the clock.
///
/// A session over descriptors returns the descriptor of a file ([`Session::descriptor`]), and the
/// calls that are the same for all backends use it. If a call takes the size that a file has or
/// should have, only a session that touches no files uses it, because otherwise the kernel knows
/// the size.
///
/// Dropping a session waits for the requests in flight, because their memory is freed after it.
pub trait Session {
    /// Opens a file, relative to a directory. `size` is the present or future size of the file.
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        size: u64,
    ) -> Result<FileSlot, Errno>;

    /// Closes the file and returns the kernel's result.
    fn close(&mut self, slot: FileSlot) -> Result<(), Errno>;

    /// Starts a transfer.
    ///
    /// # Safety
    ///
    /// `request.memory` must be valid for `request.length` bytes, and for writing if the verb is
    /// [`Verb::Read`]. It must not be used otherwise until the request is finished: until this call
    /// returns [`Queued::Done`] or an error, or until its completion was reaped.
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno>;

    /// Announces that no more requests follow before the next [`Session::reap`]. The session
    /// submits everything to the kernel now, or with the call that reaps.
    fn commit(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    /// Appends finished requests to `done` and waits until there are at least `least`.
    fn reap(&mut self, _least: usize, _done: &mut Vec<Completion>) -> Result<(), Errno> {
        Ok(())
    }

    /// Returns when the file is on the device.
    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno>;

    /// Returns the number of calls that would have waited and were made again. 0 for sessions whose
    /// calls may wait.
    fn would_wait(&self) -> u64 {
        0
    }

    /// Returns the descriptor of a file, for the calls below.
    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno>;

    /// Takes over an open file, at its start.
    fn adopt(&mut self, _file: OwnedFd, _flags: OpenFlags) -> Result<FileSlot, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Reads at an offset and returns the number of bytes. For sessions of depth 1.
    fn read_at(
        &mut self,
        slot: FileSlot,
        memory: &mut [u8],
        offset: u64,
        _size: u64,
    ) -> Result<usize, Errno> {
        files::read_at(self.descriptor(slot)?, memory, offset)
    }

    /// Writes at an offset and returns the number of bytes. For sessions of depth 1.
    fn write_at(&mut self, slot: FileSlot, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        files::write_at(self.descriptor(slot)?, bytes, offset)
    }

    /// Reads at the file's own position and returns the number of bytes.
    fn read(&mut self, slot: FileSlot, memory: &mut [u8]) -> Result<usize, Errno> {
        files::read(self.descriptor(slot)?, memory)
    }

    /// Writes at the file's own position and returns the number of bytes.
    fn write(&mut self, slot: FileSlot, bytes: &[u8]) -> Result<usize, Errno> {
        files::write(self.descriptor(slot)?, bytes)
    }

    /// Moves the file's own position to its end, where `size` bytes should be. Returns the new
    /// position.
    fn seek_to_end(&mut self, slot: FileSlot, _size: u64) -> Result<u64, Errno> {
        rustix::fs::seek(self.descriptor(slot)?, SeekFrom::End(0))
    }

    /// Reads a file from its own position to its end, `memory` by `memory`, and calls `visit` with
    /// each piece and where it begins: how many bytes came.
    fn read_to_end(
        &mut self,
        slot: FileSlot,
        memory: &mut [u8],
        _size: u64,
        visit: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<u64, Errno> {
        let mut bytes = 0;
        loop {
            match self.read(slot, memory)? {
                0 => return Ok(bytes),
                count => {
                    if visit(bytes, &memory[..count]).is_break() {
                        return Ok(bytes);
                    }
                    bytes += count as u64;
                }
            }
        }
    }

    /// Sets the file's own position to its start.
    fn rewind(&mut self, slot: FileSlot) -> Result<(), Errno> {
        rustix::fs::seek(self.descriptor(slot)?, SeekFrom::Start(0)).map(drop)
    }

    /// Returns the size of the file, which should be `size`.
    fn size(&mut self, slot: FileSlot, _size: u64) -> Result<u64, Errno> {
        Ok(rustix::fs::fstat(self.descriptor(slot)?)?.st_size as u64)
    }

    /// Allocates, frees, zeroes or removes a range of a file's bytes: fallocate.
    fn allocate(
        &mut self,
        slot: FileSlot,
        how: FallocateFlags,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        files::allocate(self.descriptor(slot)?, how, offset, length)
    }

    /// Sets the size of the file: ftruncate.
    fn truncate(&mut self, slot: FileSlot, size: u64) -> Result<(), Errno> {
        files::truncate(self.descriptor(slot)?, size)
    }

    /// Copies a range of one file to the other one's own position, within the kernel. Returns the
    /// number of bytes.
    fn copy_range(
        &mut self,
        from: FileSlot,
        offset: u64,
        to: FileSlot,
        length: usize,
    ) -> Result<usize, Errno> {
        files::copy_range(self.descriptor(from)?, offset, self.descriptor(to)?, length)
    }

    /// Makes an empty file share all blocks of another one.
    fn share_blocks(&mut self, from: FileSlot, to: FileSlot) -> Result<(), Errno> {
        rustix::fs::ioctl_ficlone(self.descriptor(to)?, self.descriptor(from)?)
    }

    /// Makes a range of a file share the blocks of the same range of another one: FICLONERANGE.
    fn share_range(
        &mut self,
        from: FileSlot,
        to: FileSlot,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        files::share_range(self.descriptor(from)?, self.descriptor(to)?, offset, length)
    }

    /// Creates a file without a name in a directory: O_TMPFILE. It is open for writing.
    fn open_unnamed(
        &mut self,
        at: &Directory,
        directory: &CStr,
        mode: Mode,
    ) -> Result<FileSlot, Errno> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(at.fd(), directory, flags, mode)?;
        self.adopt(file, OpenFlags::WRITE)
    }

    /// Gives a file without a name its first name.
    fn link_unnamed(&mut self, slot: FileSlot, at: &Directory, name: &CStr) -> Result<(), Errno> {
        let file = self.descriptor(slot)?;
        rustix::fs::linkat(file, c"", at.fd(), name, AtFlags::EMPTY_PATH)
    }

    /// Sets the expected life of the file's data, one of RWH_WRITE_LIFE_*: F_SET_RW_HINT.
    fn set_write_hint(&mut self, slot: FileSlot, hint: u64) -> Result<(), Errno> {
        files::set_write_hint(self.descriptor(slot)?, hint)
    }

    /// Makes the file, which is open for reading, immutable under a Merkle tree of SHA-256 over
    /// blocks of 4 KiB: FS_IOC_ENABLE_VERITY.
    fn enable_verity(&mut self, slot: FileSlot) -> Result<(), Errno> {
        files::enable_verity(self.descriptor(slot)?)
    }

    /// Advises the kernel about the access to a range of the file: posix_fadvise. A length of 0
    /// means up to the end.
    fn advise(
        &mut self,
        slot: FileSlot,
        offset: u64,
        length: u64,
        advice: Advice,
    ) -> Result<(), Errno> {
        fadvise(self.descriptor(slot)?, offset, NonZero::new(length), advice)
    }

    /// Sets the times of the last access and change.
    fn set_times(&mut self, slot: FileSlot, times: &Timestamps) -> Result<(), Errno> {
        rustix::fs::futimens(self.descriptor(slot)?, times)
    }

    /// Sets the file's permissions.
    fn set_mode(&mut self, slot: FileSlot, mode: Mode) -> Result<(), Errno> {
        rustix::fs::fchmod(self.descriptor(slot)?, mode)
    }

    /// Takes or releases an fcntl lock on a range of the file. A length of 0 means the whole file.
    fn lock(
        &mut self,
        slot: FileSlot,
        lock: RangeLock,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        files::lock(self.descriptor(slot)?, lock, offset, length)
    }
}

/// The capabilities of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the backend touches files. A backend that does not is for tests, and no files are
    /// prepared or removed for it.
    pub real: bool,
    /// The maximum number of requests in flight. 1 means synchronous.
    pub depth: u32,
    /// Whether it bypasses the page cache. Data is then never warm, and timed calls wait for the
    /// device.
    pub direct: bool,
    /// Whether the page cache holds data only until its call, or its writeback, is done. Data is
    /// then never warm.
    pub uncached: bool,
    /// Whether written data is on the device when the call returns.
    pub synced: bool,
    /// Whether it can write at the end of a file, wherever that is.
    pub appends: bool,
    /// Records must be a multiple of this number of bytes.
    pub granule: u64,
    /// Whether an open file is faster the second time, because it keeps state. A mapping keeps its
    /// pages.
    pub remembers: bool,
    /// Whether other threads of this process make the calls. A descriptor must then mean the same
    /// file in all of them.
    pub helped: bool,
    /// Whether the session makes all calls itself, also those at a file's own position, and others
    /// see the effects at once. Such a session serves workloads that make any call.
    pub sequential: bool,
}

impl Capabilities {
    /// Returns whether the page cache holds no data of the files after the work.
    pub fn keeps_nothing(&self) -> bool {
        self.direct || self.uncached
    }

    /// The capabilities of plain calls through the page cache, from which others are derived.
    pub const PLAIN: Capabilities = Capabilities {
        real: true,
        depth: 1,
        direct: false,
        uncached: false,
        synced: false,
        appends: true,
        granule: 1,
        remembers: false,
        helped: false,
        sequential: true,
    };
}

/// The directory, file and requests that direct I/O is tried for.
#[derive(Debug, Clone, Copy)]
pub struct ProbeTarget<'p> {
    /// The directory above all files. A trial may create a file in it if it removes it again.
    pub directory: &'p Path,
    /// One of the files, or `None` if none of them exists yet.
    pub file: Option<&'p Path>,
    /// The direction.
    pub verb: Verb,
    /// Bytes of a record.
    pub record_size: u64,
}

/// A backend in the registry.
pub trait Backend: Sync {
    /// Returns the name in plans, records and tables.
    fn name(&self) -> &'static str;

    /// Returns one line on what it does.
    fn about(&self) -> &'static str;

    /// Returns its capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Returns the backend that makes calls on the same files for work that is not measured.
    /// Returns `None` for the plain calls of psync.
    fn plain(&self) -> Option<&'static dyn Backend> {
        None
    }

    /// Returns the calls on names.
    fn namespace(&self) -> &'static dyn Namespace {
        &KernelNamespace
    }

    /// Checks a place before the clock starts. Returns an error with the reason if the backend
    /// cannot serve it. A direct backend returns the properties that it found out. Others return
    /// `None`.
    fn examine(&self, _place: &ProbeTarget<'_>) -> Result<Option<Direct>, EngineError> {
        Ok(None)
    }

    /// Creates the session that one thread moves its data through. Called in that thread, before
    /// the clock starts.
    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError>;
}

/// Calls on names, relative to an open directory. None of them may allocate, lock or log.
pub trait Namespace: Sync {
    /// Opens a directory by its path.
    fn open_root(&self, path: &Path) -> Result<Directory, Errno>;
    /// Opens a directory below another one.
    fn open_directory(&self, at: &Directory, name: &CStr) -> Result<Directory, Errno>;
    /// Calls stat on a file.
    fn stat(&self, at: &Directory, name: &CStr) -> Result<(), Errno>;
    /// Calls statx on a file for its basic attributes.
    fn statx(&self, at: &Directory, name: &CStr) -> Result<(), Errno> {
        let (flags, mask) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
        rustix::fs::statx(at.fd(), name, flags, mask).map(drop)
    }
    /// Opens a file for reading by openat2, whose path may not lead out of the directory, and
    /// closes it.
    fn open_beneath(&self, at: &Directory, name: &CStr) -> Result<(), Errno> {
        let (flags, mode) = (OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        rustix::fs::openat2(at.fd(), name, flags, mode, ResolveFlags::BENEATH).map(drop)
    }
    /// Exchanges the names of two files: renameat2 with RENAME_EXCHANGE.
    fn exchange(&self, at: &Directory, one: &CStr, other: &CStr) -> Result<(), Errno> {
        rustix::fs::renameat_with(at.fd(), one, at.fd(), other, RenameFlags::EXCHANGE)
    }
    /// Renames a file.
    fn rename(&self, at: &Directory, from: &CStr, to: &CStr) -> Result<(), Errno>;
    /// Removes a file.
    fn unlink(&self, at: &Directory, name: &CStr) -> Result<(), Errno>;
    fn make_directory(&self, at: &Directory, name: &CStr, mode: Mode) -> Result<(), Errno> {
        rustix::fs::mkdirat(at.fd(), name, mode)
    }
    /// Removes an empty directory.
    fn remove_directory(&self, at: &Directory, name: &CStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(at.fd(), name, AtFlags::REMOVEDIR)
    }
    /// Creates a hard link to an existing file.
    fn link(&self, at: &Directory, there: &CStr, name: &CStr) -> Result<(), Errno> {
        rustix::fs::linkat(at.fd(), there, at.fd(), name, AtFlags::empty())
    }
    /// Creates a symbolic link.
    fn symbolic_link(&self, at: &Directory, target: &CStr, name: &CStr) -> Result<(), Errno> {
        rustix::fs::symlinkat(target, at.fd(), name)
    }
    /// Sets the times of the last access and change.
    fn set_times(&self, at: &Directory, name: &CStr, times: &Timestamps) -> Result<(), Errno> {
        rustix::fs::utimensat(at.fd(), name, times, AtFlags::empty())
    }
    /// Sets the permissions.
    fn set_mode(&self, at: &Directory, name: &CStr, mode: Mode) -> Result<(), Errno> {
        rustix::fs::chmodat(at.fd(), name, mode, AtFlags::empty())
    }
    /// Sets the owner and the group.
    fn set_owner(&self, at: &Directory, name: &CStr, owner: Uid, group: Gid) -> Result<(), Errno> {
        rustix::fs::chownat(at.fd(), name, Some(owner), Some(group), AtFlags::empty())
    }
    /// Reads the target of a symbolic link and returns its length, which should be `expected`.
    fn read_link(
        &self,
        at: &Directory,
        name: &CStr,
        target: &mut [MaybeUninit<u8>],
        _expected: usize,
    ) -> Result<usize, Errno> {
        rustix::fs::readlinkat_raw(at.fd(), name, target).map(|(target, _)| target.len())
    }
    /// Sets an extended attribute. Like the three calls below, it takes a path from the root or
    /// from the working directory, because Linux before 6.13 has no form of it that takes a
    /// directory.
    fn set_attribute(&self, path: &CStr, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        rustix::fs::setxattr(path, name, value, XattrFlags::empty())
    }
    /// Reads an extended attribute and returns its length, which should be `expected`.
    fn get_attribute(
        &self,
        path: &CStr,
        name: &CStr,
        value: &mut [MaybeUninit<u8>],
        _expected: usize,
    ) -> Result<usize, Errno> {
        rustix::fs::getxattr(path, name, value).map(|(value, _)| value.len())
    }
    /// Lists the names of the extended attributes and returns their length, which should be
    /// `expected`.
    fn list_attributes(
        &self,
        path: &CStr,
        names: &mut [MaybeUninit<u8>],
        _expected: usize,
    ) -> Result<usize, Errno> {
        rustix::fs::listxattr(path, names).map(|(names, _)| names.len())
    }
    /// Asks for the sizes and the free space of the file system: statfs.
    fn file_system(&self, path: &CStr) -> Result<(), Errno> {
        rustix::fs::statfs(path).map(drop)
    }
    /// Calls `visit` with the name of each entry except `.` and `..` until `visit` breaks off.
    /// `expected` is the number of entries. Only an implementation that touches no files uses it.
    fn list(
        &self,
        directory: &Directory,
        buffer: &mut [MaybeUninit<u8>],
        expected: u64,
        visit: &mut dyn FnMut(&CStr) -> ControlFlow<()>,
    ) -> Result<(), Errno>;
    /// Returns when the directory itself is on the device.
    fn sync_directory(&self, directory: &Directory) -> Result<(), Errno>;
    /// Returns when everything on the file system of the directory is on the device.
    fn sync_file_system(&self, directory: &Directory) -> Result<(), Errno>;
}

/// The kernel's usual calls.
#[derive(Debug)]
pub struct KernelNamespace;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// From linux/magic.h.
const FUSE_SUPER_MAGIC: rustix::fs::FsWord = 0x6573_5546;

impl Directory {
    /// Returns the descriptor, or that of the working directory if there is none.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().map_or(CWD, |fd| fd.as_fd())
    }
}

impl Namespace for KernelNamespace {
    fn open_root(&self, path: &Path) -> Result<Directory, Errno> {
        rustix::fs::open(path, DIRECTORY, Mode::empty()).map(|fd| Directory(Some(fd)))
    }

    fn open_directory(&self, at: &Directory, name: &CStr) -> Result<Directory, Errno> {
        rustix::fs::openat(at.fd(), name, DIRECTORY, Mode::empty()).map(|fd| Directory(Some(fd)))
    }

    fn stat(&self, at: &Directory, name: &CStr) -> Result<(), Errno> {
        rustix::fs::statat(at.fd(), name, AtFlags::SYMLINK_NOFOLLOW).map(drop)
    }

    fn rename(&self, at: &Directory, from: &CStr, to: &CStr) -> Result<(), Errno> {
        rustix::fs::renameat(at.fd(), from, at.fd(), to)
    }

    fn unlink(&self, at: &Directory, name: &CStr) -> Result<(), Errno> {
        match &at.0 {
            Some(directory) => rustix::fs::unlinkat(directory, name, AtFlags::empty()),
            None => rustix::fs::unlink(name),
        }
    }

    fn list(
        &self,
        directory: &Directory,
        buffer: &mut [MaybeUninit<u8>],
        _expected: u64,
        visit: &mut dyn FnMut(&CStr) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let mut entries = RawDir::new(directory.fd(), buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." && visit(name).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn sync_directory(&self, directory: &Directory) -> Result<(), Errno> {
        rustix::fs::fsync(directory.fd())
    }

    fn sync_file_system(&self, directory: &Directory) -> Result<(), Errno> {
        rustix::fs::syncfs(directory.fd())?;
        // syncfs writes what the kernel holds to a FUSE server, and sends it no request to make the
        // data durable (Linux 6.18: only virtiofs and fuseblk get FUSE_SYNCFS). A sync of a file
        // does.
        let over_fuse = rustix::fs::fstatfs(directory.fd())?.f_type == FUSE_SUPER_MAGIC;
        if over_fuse {
            sync_tree(directory.fd())
        } else {
            Ok(())
        }
    }
}

/// Syncs every file below a directory, then the directories from the bottom up. Leaves out what was
/// removed meanwhile and what this user may not open.
fn sync_tree(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    const NO_WAIT: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK);
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |found| {
                    FileType::from_raw_mode(found.st_mode)
                }),
            known => known,
        };
        let open =
            |flags: OFlags| rustix::fs::openat(directory, name, flags | NO_WAIT, Mode::empty());
        let synced = match kind {
            FileType::Directory => open(DIRECTORY).and_then(|below| sync_tree(below.as_fd())),
            FileType::RegularFile => {
                open(OFlags::RDONLY | OFlags::CLOEXEC).and_then(rustix::fs::fsync)
            }
            _ => Ok(()),
        };
        match synced {
            Ok(()) | Err(Errno::NOENT | Errno::ACCESS) => {}
            Err(errno) => return Err(errno),
        }
    }
    rustix::fs::fsync(directory)
}

/// A file that exists, or a temporary one that is removed on drop.
#[derive(Debug)]
pub(super) struct ProbeFile {
    path: PathBuf,
    ours: bool,
}

impl ProbeFile {
    /// Returns the place's own file, or creates a temporary one.
    pub(super) fn create(place: &ProbeTarget<'_>) -> Result<ProbeFile, EngineError> {
        match place.file {
            Some(path) => Ok(ProbeFile {
                path: path.to_owned(),
                ours: false,
            }),
            None => ProbeFile::new(place.directory, "trial").map(|(trial, _)| trial),
        }
    }

    /// Creates a new file. Returns it with a descriptor for reading and writing.
    pub(super) fn new(directory: &Path, name: &str) -> Result<(ProbeFile, File), EngineError> {
        let path = directory.join(name);
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = opened.map_err(|error| EngineError::io("create", &path, &error))?;
        Ok((ProbeFile { path, ours: true }, file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for a direction, always with read access, because a mapping needs it.
    pub(super) fn open(&self, verb: Verb, flags: OFlags) -> io::Result<File> {
        let writes = verb == Verb::Write;
        OpenOptions::new()
            .read(true)
            .write(writes)
            .custom_flags(flags.bits() as i32)
            .open(&self.path)
    }
}

impl Drop for ProbeFile {
    fn drop(&mut self) {
        if self.ours {
            // The error is ignored, because the rest is removed with the set.
            let _ = fs::remove_file(&self.path);
        }
    }
}

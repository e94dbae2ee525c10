//! The arguments of calls, and common parts of sessions over descriptors: a table of open files,
//! and the calls on descriptors.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;

use rustix::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// The resources that a session reserves before the clock starts.
#[derive(Debug, Clone)]
pub struct SessionSetup {
    /// The maximum number of files open at once.
    pub files: usize,
    /// Whether files are opened before the clock starts and stay open. Their registration then
    /// stays, too.
    pub held: bool,
    /// The maximum number of requests in flight.
    pub depth: u32,
    /// The maximum bytes of a request.
    pub record_size: u64,
    /// All memory that requests will point into, for backends that register it with the kernel.
    pub memory: Vec<(*mut u8, usize)>,
}

/// A directory that a backend opened, or `None` for a backend that does not touch files.
#[derive(Debug)]
pub struct Directory(pub Option<OwnedFd>);

/// A file that a session opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSlot(pub u32);

/// Flags of open(2). A backend adds flags of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFlags {
    pub flags: OFlags,
    /// The permissions of a file that is created.
    pub mode: Mode,
}

impl OpenFlags {
    pub const READ: OpenFlags = OpenFlags {
        flags: OFlags::RDONLY.union(OFlags::CLOEXEC),
        mode: Mode::empty(),
    };
    /// Writing, without the right to read.
    pub const WRITE: OpenFlags = OpenFlags {
        flags: OFlags::WRONLY.union(OFlags::CLOEXEC),
        mode: Mode::empty(),
    };
    pub const READ_WRITE: OpenFlags = OpenFlags {
        flags: OFlags::RDWR.union(OFlags::CLOEXEC),
        mode: Mode::empty(),
    };
    /// Writing at the end.
    pub const APPEND: OpenFlags = OpenFlags::WRITE.with(OFlags::APPEND);

    /// Returns the flags with further ones.
    pub const fn with(self, more: OFlags) -> OpenFlags {
        OpenFlags {
            flags: self.flags.union(more),
            ..self
        }
    }

    /// Adds the flags to create the file, which must not exist, with these permissions.
    pub const fn creating(self, mode: u32) -> OpenFlags {
        OpenFlags {
            mode: Mode::from_raw_mode(mode),
            ..self.with(OFlags::CREATE.union(OFlags::EXCL))
        }
    }

    /// Returns whether the file can be written to.
    pub fn writes(self) -> bool {
        !(self.flags & (OFlags::WRONLY | OFlags::RDWR)).is_empty()
    }
}

impl From<Purpose> for OpenFlags {
    fn from(purpose: Purpose) -> OpenFlags {
        match purpose {
            Purpose::Read => OpenFlags::READ,
            Purpose::Write => OpenFlags::WRITE,
            Purpose::Create => OpenFlags::WRITE.creating(0o644),
            Purpose::Append => OpenFlags::APPEND,
            Purpose::Both => OpenFlags::READ_WRITE,
        }
    }
}

/// The part of a file that must be on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// The data and what is needed to find it: fdatasync.
    Data,
    /// Everything: fsync.
    All,
    /// The pages of a range, without metadata: sync_file_range.
    Range(FlushRange),
}

/// A range of a file, and the steps of sync_file_range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushRange {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE and SYNC_FILE_RANGE_WAIT_AFTER.
    pub flags: u32,
}

impl SessionSetup {
    /// Returns a setup for one request at a time, on up to `files` files.
    pub const fn plain(files: usize) -> SessionSetup {
        SessionSetup {
            files,
            held: false,
            depth: 1,
            record_size: 0,
            memory: Vec::new(),
        }
    }
}

/// A request to take or release a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeLock {
    /// Other processes may take a shared lock.
    Shared,
    /// No other process may take a lock.
    Exclusive,
    /// The lock is released.
    Release,
}

/// The purpose of opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Read,
    /// Overwriting it, or writing to an empty file.
    Write,
    /// Creating it, which must not exist, and writing to it.
    Create,
    /// Writing at its end.
    Append,
    /// Reading and overwriting it through one descriptor.
    Both,
}

/// The open files, by slot. Its size is fixed, so it never allocates.
#[derive(Debug)]
pub(super) struct SlotTable<T>(Vec<Option<T>>);

impl<T> SlotTable<T> {
    pub(super) fn new(setup: &SessionSetup) -> SlotTable<T> {
        SlotTable((0..setup.files).map(|_| None).collect())
    }

    /// Returns an empty slot. Returns `MFILE` if there is none.
    pub(super) fn free(&self) -> Result<FileSlot, Errno> {
        let free = self
            .0
            .iter()
            .position(Option::is_none)
            .ok_or(Errno::MFILE)?;
        Ok(FileSlot(free as u32))
    }

    /// Fills a slot that was [free](SlotTable::free).
    pub(super) fn put(&mut self, slot: FileSlot, value: T) {
        self.0[slot.0 as usize] = Some(value);
    }

    #[inline]
    pub(super) fn get(&self, slot: FileSlot) -> Result<&T, Errno> {
        self.0
            .get(slot.0 as usize)
            .and_then(Option::as_ref)
            .ok_or(Errno::BADF)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: FileSlot) -> Result<&mut T, Errno> {
        self.0
            .get_mut(slot.0 as usize)
            .and_then(Option::as_mut)
            .ok_or(Errno::BADF)
    }

    /// Empties a slot and returns its content.
    pub(super) fn take(&mut self, slot: FileSlot) -> Result<T, Errno> {
        self.0
            .get_mut(slot.0 as usize)
            .and_then(Option::take)
            .ok_or(Errno::BADF)
    }
}

pub(crate) fn open(
    at: &Directory,
    path: &CStr,
    OpenFlags { flags, mode }: OpenFlags,
) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(at.fd(), path, flags, mode))
}

/// Closes a descriptor and returns the kernel's result.
pub(crate) fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was owned, and `into_raw_fd` gave it up, so no other code closes or
    // uses it.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }
}

/// Returns when the file is on the device.
pub(crate) fn flush(file: impl AsFd, what: Flush) -> Result<(), Errno> {
    retry_on_intr(|| match what {
        Flush::Data => rustix::fs::fdatasync(&file),
        Flush::All => rustix::fs::fsync(&file),
        Flush::Range(FlushRange {
            offset,
            length,
            flags,
        }) => {
            let file = file.as_fd().as_raw_fd();
            // SAFETY: the call takes no pointer, and the descriptor is open.
            match unsafe {
                libc::sync_file_range(
                    file,
                    offset as libc::off64_t,
                    length as libc::off64_t,
                    flags,
                )
            } {
                0 => Ok(()),
                _ => Err(last_errno()),
            }
        }
    })
}

/// read(2).
#[inline]
pub(crate) fn read(file: impl AsFd, memory: &mut [u8]) -> Result<usize, Errno> {
    retry_on_intr(|| rustix::io::read(&file, &mut *memory))
}

/// write(2).
#[inline]
pub(crate) fn write(file: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    retry_on_intr(|| rustix::io::write(&file, bytes))
}

/// pread(2).
#[inline]
pub(crate) fn read_at(file: impl AsFd, memory: &mut [u8], offset: u64) -> Result<usize, Errno> {
    retry_on_intr(|| rustix::io::pread(&file, &mut *memory, offset))
}

/// pwrite(2).
#[inline]
pub(crate) fn write_at(file: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    retry_on_intr(|| rustix::io::pwrite(&file, bytes, offset))
}

/// fallocate(2).
pub(crate) fn allocate(
    file: impl AsFd,
    how: FallocateFlags,
    offset: u64,
    length: u64,
) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::fallocate(&file, how, offset, length))
}

/// ftruncate(2).
pub(crate) fn truncate(file: impl AsFd, size: u64) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::ftruncate(&file, size))
}

/// copy_file_range(2), to the second file's own position.
pub(crate) fn copy_range(
    from: impl AsFd,
    offset: u64,
    to: impl AsFd,
    length: usize,
) -> Result<usize, Errno> {
    retry_on_intr(|| {
        let mut offset = offset;
        rustix::fs::copy_file_range(&from, Some(&mut offset), &to, None, length)
    })
}

/// The argument of FICLONERANGE (`struct file_clone_range` of linux/fs.h).
#[repr(C)]
struct CloneRange {
    source: i64,
    source_offset: u64,
    length: u64,
    offset: u64,
}

/// The argument of FS_IOC_ENABLE_VERITY (`struct fsverity_enable_arg` of linux/fsverity.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct EnableVerity {
    version: u32,
    hash_algorithm: u32,
    block_size: u32,
    salt_size: u32,
    salt: u64,
    signature_size: u32,
    reserved: u32,
    signature: u64,
    reserved_too: [u64; 11],
}

/// FS_IOC_ENABLE_VERITY: `_IOW('f', 133, struct fsverity_enable_arg)`.
const ENABLE_VERITY: Opcode = opcode::write::<EnableVerity>(b'f', 133);
/// FICLONERANGE: `_IOW(0x94, 13, struct file_clone_range)`.
const CLONE_RANGE: Opcode = opcode::write::<CloneRange>(0x94, 13);
/// The command of fcntl(2) that sets the expected life of a file's data (linux/fcntl.h).
const F_SET_RW_HINT: libc::c_int = 1036;
/// FS_VERITY_HASH_ALG_SHA256.
const SHA256: u32 = 1;

/// Makes a range of a file share the blocks of the same range of another one.
pub(crate) fn share_range(
    from: impl AsFd,
    to: impl AsFd,
    offset: u64,
    length: u64,
) -> Result<(), Errno> {
    let range = CloneRange {
        source: from.as_fd().as_raw_fd().into(),
        source_offset: offset,
        length,
        offset,
    };
    // SAFETY: the kernel reads a `CloneRange`, whose descriptor is open until the call returns.
    unsafe { ioctl(to, Setter::<CLONE_RANGE, CloneRange>::new(range)) }
}

/// Enables fs-verity on a file that is open for reading: SHA-256 over blocks of 4 KiB.
pub(crate) fn enable_verity(file: impl AsFd) -> Result<(), Errno> {
    let arguments = EnableVerity {
        version: 1,
        hash_algorithm: SHA256,
        block_size: 4096,
        ..EnableVerity::default()
    };
    // SAFETY: the kernel reads an `EnableVerity`, which points to nothing.
    retry_on_intr(|| unsafe { ioctl(&file, Setter::<ENABLE_VERITY, EnableVerity>::new(arguments)) })
}

/// Sets the expected life of a file's data.
pub(crate) fn set_write_hint(file: impl AsFd, hint: u64) -> Result<(), Errno> {
    // SAFETY: the kernel reads the hint, which lives longer than the call.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), F_SET_RW_HINT, &raw const hint) };
    match result {
        0.. => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Takes or releases an fcntl lock on a range. Waits until the lock is available.
pub(crate) fn lock(
    file: impl AsFd,
    lock: RangeLock,
    offset: u64,
    length: u64,
) -> Result<(), Errno> {
    let kind = match lock {
        RangeLock::Shared => libc::F_RDLCK,
        RangeLock::Exclusive => libc::F_WRLCK,
        RangeLock::Release => libc::F_UNLCK,
    };
    // SAFETY: zeros are a valid flock, whose other fields are set below.
    let mut range: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    (range.l_start, range.l_len) = (offset as libc::off_t, length as libc::off_t);
    retry_on_intr(|| {
        // SAFETY: the descriptor is open, and the pointer is valid for the call.
        match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLKW, &range) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    })
}

/// Returns the error number of an error that came from the kernel.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Returns the error of the C library's last failing call in this thread.
pub(crate) fn last_errno() -> Errno {
    errno_of(&io::Error::last_os_error())
}

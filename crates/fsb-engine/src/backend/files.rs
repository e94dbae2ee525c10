//! Common parts of sessions over descriptors: a table of open files, and the calls on descriptors.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;

use rustix::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, retry_on_intr};

use super::{Directory, Flush, OpenFlags, RangeLock, Setup, Slot};

/// The open files, by slot. Its size is fixed, so it never allocates.
#[derive(Debug)]
pub(super) struct Table<T>(Vec<Option<T>>);

impl<T> Table<T> {
    pub(super) fn new(setup: &Setup) -> Table<T> {
        Table((0..setup.files).map(|_| None).collect())
    }

    /// Returns an empty slot. Returns `MFILE` if there is none.
    pub(super) fn free(&self) -> Result<Slot, Errno> {
        let free = self.0.iter().position(Option::is_none).ok_or(Errno::MFILE)?;
        Ok(Slot(free as u32))
    }

    /// Fills a slot that was [free](Table::free).
    pub(super) fn put(&mut self, slot: Slot, value: T) {
        self.0[slot.0 as usize] = Some(value);
    }

    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Result<&T, Errno> {
        self.0.get(slot.0 as usize).and_then(Option::as_ref).ok_or(Errno::BADF)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> Result<&mut T, Errno> {
        self.0.get_mut(slot.0 as usize).and_then(Option::as_mut).ok_or(Errno::BADF)
    }

    /// Empties a slot and returns its content.
    pub(super) fn take(&mut self, slot: Slot) -> Result<T, Errno> {
        self.0.get_mut(slot.0 as usize).and_then(Option::take).ok_or(Errno::BADF)
    }
}

pub(crate) fn open(at: &Directory, path: &CStr, OpenFlags { flags, mode }: OpenFlags) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(at.fd(), path, flags, mode))
}

/// Closes a descriptor and returns the kernel's result.
pub(crate) fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was owned, and `into_raw_fd` gave it up, so no other code closes or uses it.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }
}

/// Returns when the file is on the device.
pub(crate) fn flush(file: impl AsFd, what: Flush) -> Result<(), Errno> {
    retry_on_intr(|| match what {
        Flush::Data => rustix::fs::fdatasync(&file),
        Flush::All => rustix::fs::fsync(&file),
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
pub(crate) fn allocate(file: impl AsFd, how: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::fallocate(&file, how, offset, length))
}

/// ftruncate(2).
pub(crate) fn truncate(file: impl AsFd, size: u64) -> Result<(), Errno> {
    retry_on_intr(|| rustix::fs::ftruncate(&file, size))
}

/// copy_file_range(2), to the second file's own position.
pub(crate) fn copy_range(from: impl AsFd, offset: u64, to: impl AsFd, length: usize) -> Result<usize, Errno> {
    retry_on_intr(|| {
        let mut offset = offset;
        rustix::fs::copy_file_range(&from, Some(&mut offset), &to, None, length)
    })
}

/// Takes or releases an fcntl lock on a range. Waits until the lock is available.
pub(crate) fn lock(file: impl AsFd, lock: RangeLock, offset: u64, length: u64) -> Result<(), Errno> {
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

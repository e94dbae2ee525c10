//! What sessions over descriptors have in common: a table of what is open, and the calls that open, close and flush.

use std::ffi::CStr;
use std::io;

use rustix::fd::{AsFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::{Directory, Flush, Purpose, Setup, Slot};

/// What is open, by slot. Its size is fixed: it never allocates.
#[derive(Debug)]
pub(super) struct Table<T>(Vec<Option<T>>);

impl<T> Table<T> {
    pub(super) fn new(setup: &Setup) -> Table<T> {
        Table((0..setup.files).map(|_| None).collect())
    }

    /// A slot that nothing is in.
    pub(super) fn free(&self) -> Result<Slot, Errno> {
        let free = self.0.iter().position(Option::is_none).ok_or(Errno::MFILE)?;
        Ok(Slot(free as u32))
    }

    /// Puts something into a slot that was [free](Table::free).
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

    /// Takes out what is in a slot.
    pub(super) fn take(&mut self, slot: Slot) -> Result<T, Errno> {
        self.0.get_mut(slot.0 as usize).and_then(Option::take).ok_or(Errno::BADF)
    }
}

/// The flags of `open` for a purpose. Who writes gets no right to read.
pub(super) fn open_flags(purpose: Purpose) -> OFlags {
    OFlags::CLOEXEC
        | match purpose {
            Purpose::Read => OFlags::RDONLY,
            Purpose::Write => OFlags::WRONLY,
            Purpose::Create => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            Purpose::Append => OFlags::WRONLY | OFlags::APPEND,
        }
}

/// Opens a file; one that is made may be written by its owner and read by everybody.
pub(super) fn open(at: &Directory, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    retry_on_intr(|| rustix::fs::openat(at.fd(), path, flags, mode))
}

/// Closes a descriptor and reports what the kernel says about that.
pub(super) fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was owned, and `into_raw_fd` gave it up: nobody uses it afterwards.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }
}

/// Returns when the file is on the device.
pub(super) fn flush(file: impl AsFd, what: Flush) -> Result<(), Errno> {
    retry_on_intr(|| match what {
        Flush::Data => rustix::fs::fdatasync(&file),
        Flush::All => rustix::fs::fsync(&file),
    })
}

/// The number of an error that came from the kernel.
pub(super) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// What the C library's last failing call in this thread says.
pub(super) fn last_errno() -> Errno {
    errno_of(&io::Error::last_os_error())
}

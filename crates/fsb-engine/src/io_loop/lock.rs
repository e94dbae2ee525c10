//! Locks around what is read and written: those of fcntl, which the kernel keeps for a process and a range of bytes.
//!
//! They are taken through descriptors of their own, so that no backend must know of them.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{IoOptions, OpenFileSet};
use crate::EngineError;
use crate::backend::Verb;

/// What is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Each record while it is moved.
    Record,
    /// The file during a pass.
    File,
}

impl Lock {
    /// In the order in which help lists them.
    pub(crate) const ALL: &'static [Lock] = &[Lock::Record, Lock::File];

    /// The word in plans.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lock::Record => "record",
            Lock::File => "file",
        }
    }
}

/// One I/O loop's locks.
pub(super) struct Locks {
    lock: Lock,
    verb: Verb,
    /// The file that the first descriptor is of.
    first: u64,
    /// None where the backend touches no files.
    files: Vec<OwnedFd>,
}

impl Locks {
    /// Opens what the locks are taken through.
    pub(super) fn open(lock: Lock, set: &OpenFileSet, io_options: &IoOptions) -> Result<Locks, EngineError> {
        let IoOptions { verb, files, .. } = *io_options;
        let flags = match verb {
            Verb::Read => OFlags::RDONLY,
            Verb::Write => OFlags::RDWR,
        };
        let open = |file| {
            rustix::fs::openat(set.root.fd(), set.names.path(file), flags | OFlags::CLOEXEC, Mode::empty())
                .map_err(|errno| set.refused("open", file, errno))
        };
        let real = set.backend.capabilities().real;
        let descriptors = files.all().filter(|_| real).map(open).collect::<Result<_, _>>()?;
        Ok(Locks { lock, verb, first: files.first, files: descriptors })
    }

    /// Whether each record is locked for itself.
    #[inline]
    pub(super) fn by_record(&self) -> bool {
        self.lock == Lock::Record
    }

    /// Locks or unlocks all files, where they are locked as wholes.
    pub(super) fn all(&self, set: &OpenFileSet, take: bool) -> Result<(), EngineError> {
        if self.by_record() {
            return Ok(());
        }
        (self.first..).zip(&self.files).try_for_each(|(file, _)| self.range(set, file, (0, 0), take))
    }

    /// Waits for the lock on a range of a file, or gives it back. A length of 0 is all of the file.
    pub(super) fn range(
        &self,
        set: &OpenFileSet,
        file: u64,
        (offset, length): (u64, u64),
        take: bool,
    ) -> Result<(), EngineError> {
        let Some(descriptor) = self.files.get(file.wrapping_sub(self.first) as usize) else { return Ok(()) };
        let kind = match self.verb {
            _ if !take => libc::F_UNLCK,
            Verb::Read => libc::F_RDLCK,
            Verb::Write => libc::F_WRLCK,
        };
        // SAFETY: zeros are a valid flock, whose other fields are set below.
        let mut range: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
        range.l_type = kind as libc::c_short;
        range.l_whence = libc::SEEK_SET as libc::c_short;
        (range.l_start, range.l_len) = (offset as libc::off_t, length as libc::off_t);
        loop {
            // SAFETY: the descriptor is open, and the pointer is valid for the call.
            if unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETLKW, &range) } == 0 {
                return Ok(());
            }
            let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
            if errno != Errno::INTR {
                return Err(set.refused(if take { "lock" } else { "unlock" }, file, errno));
            }
        }
    }
}

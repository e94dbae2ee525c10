//! Arguments of the calls of a session.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// The resources that a session reserves before the clock starts.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The maximum number of files open at once.
    pub files: usize,
    /// Whether files are opened before the clock starts and stay open. Their registration then stays, too.
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
pub struct Slot(pub u32);

/// Flags of open(2). A backend adds flags of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFlags {
    pub flags: OFlags,
    /// The permissions of a file that is created.
    pub mode: Mode,
}

impl OpenFlags {
    pub const READ: OpenFlags = OpenFlags { flags: OFlags::RDONLY.union(OFlags::CLOEXEC), mode: Mode::empty() };
    /// Writing, without the right to read.
    pub const WRITE: OpenFlags = OpenFlags { flags: OFlags::WRONLY.union(OFlags::CLOEXEC), mode: Mode::empty() };
    pub const READ_WRITE: OpenFlags = OpenFlags { flags: OFlags::RDWR.union(OFlags::CLOEXEC), mode: Mode::empty() };
    /// Writing at the end.
    pub const APPEND: OpenFlags = OpenFlags::WRITE.with(OFlags::APPEND);

    /// Returns the flags with further ones.
    pub const fn with(self, more: OFlags) -> OpenFlags {
        OpenFlags { flags: self.flags.union(more), ..self }
    }

    /// Adds the flags to create the file, which must not exist, with these permissions.
    pub const fn creating(self, mode: u32) -> OpenFlags {
        OpenFlags { mode: Mode::from_raw_mode(mode), ..self.with(OFlags::CREATE.union(OFlags::EXCL)) }
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
}

impl Setup {
    /// Returns a setup for one request at a time, on up to `files` files.
    pub const fn plain(files: usize) -> Setup {
        Setup { files, held: false, depth: 1, record_size: 0, memory: Vec::new() }
    }
}

/// A request to take or release a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeLock {
    /// Others may read.
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
}

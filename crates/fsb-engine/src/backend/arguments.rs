//! Arguments of the calls of a session.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// The resources that a session needs: they are reserved before the clock starts.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Files open at once, at most.
    pub files: usize,
    /// They are opened before the clock and stay open: what is registered once need not be taken back.
    pub held: bool,
    /// Requests under way at once, at most.
    pub depth: u32,
    /// Bytes of a request, at most.
    pub record_size: u64,
    /// All memory that requests will point into, for backends that register it with the kernel.
    pub memory: Vec<(*mut u8, usize)>,
}

/// A directory that a backend opened; nothing for one that does not touch files.
#[derive(Debug)]
pub struct Directory(pub Option<OwnedFd>);

/// A file that a session opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u32);

/// Flags of open(2). A backend adds flags of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFlags {
    pub flags: OFlags,
    /// The permissions of a file that is made.
    pub mode: Mode,
}

impl OpenFlags {
    pub const READ: OpenFlags = OpenFlags { flags: OFlags::RDONLY.union(OFlags::CLOEXEC), mode: Mode::empty() };
    /// Writing, without the right to read.
    pub const WRITE: OpenFlags = OpenFlags { flags: OFlags::WRONLY.union(OFlags::CLOEXEC), mode: Mode::empty() };
    pub const READ_WRITE: OpenFlags = OpenFlags { flags: OFlags::RDWR.union(OFlags::CLOEXEC), mode: Mode::empty() };
    /// Writing at the end.
    pub const APPEND: OpenFlags = OpenFlags::WRITE.with(OFlags::APPEND);

    /// With further flags.
    pub const fn with(self, more: OFlags) -> OpenFlags {
        OpenFlags { flags: self.flags.union(more), ..self }
    }

    /// Makes the file, which must not exist, with these permissions.
    pub const fn creating(self, mode: u32) -> OpenFlags {
        OpenFlags { mode: Mode::from_raw_mode(mode), ..self.with(OFlags::CREATE.union(OFlags::EXCL)) }
    }

    /// Whether the file can be written to.
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
    /// For requests that go one at a time, on up to `files` files.
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
    /// It is given back.
    Release,
}

/// The purpose that a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Read,
    /// Writing over what is there, or into an empty file.
    Write,
    /// Creating it, which must not exist, and writing into it.
    Create,
    /// Writing at its end.
    Append,
}

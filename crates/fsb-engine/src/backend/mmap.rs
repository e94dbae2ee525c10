//! Loads and stores in a shared mapping of the file.
//!
//! The backends differ in the `msync` after each written record and are constants of one type. A whole file is mapped
//! when it is opened. For writing, the file first gets its full size, because a mapping cannot make a file longer.

use std::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::files::{self, Table};
use super::map::Mapping;
use super::session::ProbeFile;
use super::{
    Backend, Capabilities, Direct, Directory, Flush, IoRequest, OpenFlags, ProbeTarget, Queued, Session, Setup, Slot,
    Verb, map,
};
use crate::EngineError;
use crate::memory::PAGE;

/// A backend of mapped files.
#[derive(Debug)]
pub(crate) struct Mmap {
    name: &'static str,
    about: &'static str,
    after_record: Option<MsyncFlags>,
    capabilities: Capabilities,
}

const CAPABILITIES: Capabilities =
    Capabilities { appends: false, remembers: true, sequential: false, ..Capabilities::PLAIN };

/// The kernel writes pages back at its own time.
pub(crate) static MMAP: Mmap = Mmap {
    name: "mmap",
    about: "copies to and from a shared mapping; msync and fsync where durability is asked for",
    after_record: None,
    capabilities: CAPABILITIES,
};

/// With an asynchronous msync after each record.
pub(crate) static MMAP_ASYNC: Mmap = Mmap {
    name: "mmap-async",
    about: "as mmap, with msync(MS_ASYNC) after each written record, which on Linux checks its arguments and no more",
    after_record: Some(MsyncFlags::ASYNC),
    capabilities: CAPABILITIES,
};

/// With a synchronous msync after each record.
pub(crate) static MMAP_SYNC: Mmap = Mmap {
    name: "mmap-sync",
    about: "as mmap, with msync(MS_SYNC) after each written record, which returns when its data is durable",
    after_record: Some(MsyncFlags::SYNC),
    capabilities: Capabilities { synced: true, ..CAPABILITIES },
};

impl Backend for Mmap {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Some file systems cannot map a file for writing, some not at all.
    fn examine(&self, place: &ProbeTarget<'_>) -> Result<Option<Direct>, EngineError> {
        let trial = ProbeFile::of(place)?;
        let opened = trial.open(place.verb, OFlags::empty());
        let file = opened.map_err(|error| EngineError::io("open", trial.path(), &error))?;
        shared(&file, PAGE, place.verb == Verb::Write).map(|_| None).map_err(|errno| {
            let mut refusal = EngineError::call("map into memory", trial.path(), errno);
            refusal.message += ": this file system does not support mmap; use another backend";
            refusal
        })
    }

    fn session(&self, setup: &Setup) -> Result<Box<dyn Session>, EngineError> {
        map::install();
        Ok(Box::new(MmapSession { files: Table::new(setup), after_record: self.after_record }))
    }
}

struct MmapSession {
    files: Table<Mapped>,
    after_record: Option<MsyncFlags>,
}

impl Session for MmapSession {
    fn open(&mut self, at: &Directory, path: &CStr, flags: OpenFlags, size: u64) -> Result<Slot, Errno> {
        let slot = self.files.free()?;
        if flags.flags.contains(OFlags::APPEND) {
            return Err(Errno::OPNOTSUPP);
        }
        let writes = flags.writes();
        // A shared mapping for writing needs a file that can be read too.
        let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = OpenFlags { flags: flags.flags.difference(OFlags::RWMODE).union(access), ..flags };
        let file = files::open(at, path, flags)?;
        if writes && (rustix::fs::fstat(&file)?.st_size as u64) < size {
            retry_on_intr(|| rustix::fs::ftruncate(&file, size))?;
        }
        let length = usize::try_from(size).map_err(|_| Errno::FBIG)?;
        self.files.put(slot, Mapped::new(file, length, writes)?);
        Ok(slot)
    }

    fn close(&mut self, slot: Slot) -> Result<(), Errno> {
        self.files.take(slot)?.close()
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let mapping = self.files.get_mut(request.slot)?;
        // SAFETY: the caller vouches for the memory until this call returns.
        let moved = unsafe { mapping.copy(request) }?;
        if let (Verb::Write, Some(how)) = (request.verb, self.after_record) {
            mapping.sync(request.offset as usize, moved, how)?;
        }
        Ok(Queued::Done(moved))
    }

    fn flush(&mut self, slot: Slot, what: Flush) -> Result<(), Errno> {
        let mapping = self.files.get(slot)?;
        mapping.sync(0, mapping.mapping.len(), MsyncFlags::SYNC)?;
        if what == Flush::All { files::flush(&mapping.file, what) } else { Ok(()) }
    }

    fn descriptor(&self, slot: Slot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(|mapped| mapped.file.as_fd())
    }
}

/// A file and its mapping.
#[derive(Debug)]
struct Mapped {
    mapping: Mapping,
    file: OwnedFd,
    /// Whether a page could not be read or written. The mapping then no longer shows the file.
    broken: bool,
}

impl Mapped {
    /// Maps the first `length` bytes.
    fn new(file: OwnedFd, length: usize, writes: bool) -> Result<Mapped, Errno> {
        Ok(Mapped { mapping: shared(&file, length, writes)?, file, broken: false })
    }

    /// Moves a record, or the part of it that is in the mapping.
    ///
    /// # Safety
    ///
    /// As of [`Session::queue`].
    #[inline]
    unsafe fn copy(&mut self, request: &IoRequest) -> Result<usize, Errno> {
        let offset = usize::try_from(request.offset).map_err(|_| Errno::FBIG)?;
        let length = request.length.min(self.mapping.len().saturating_sub(offset));
        if self.broken {
            return Err(Errno::IO);
        }
        // SAFETY: the mapping has `length` bytes there, and the caller vouches for the other side. The session
        // installed the handler, and a mapping that failed is not used again.
        let copied = unsafe {
            match request.verb {
                Verb::Read => self.mapping.load(offset, request.memory, length),
                Verb::Write => self.mapping.store(request.memory, offset, length),
            }
        };
        if copied {
            return Ok(length);
        }
        self.broken = true;
        // SAFETY: as above.
        unsafe { self.explain(request) }
    }

    /// Makes an ordinary call to find out from the kernel why a record cannot be accessed.
    ///
    /// # Safety
    ///
    /// As of [`Session::queue`].
    #[cold]
    unsafe fn explain(&self, request: &IoRequest) -> Result<usize, Errno> {
        // SAFETY: the caller vouches for the memory.
        let memory = unsafe { std::slice::from_raw_parts_mut(request.memory, request.length) };
        let moved = match request.verb {
            Verb::Read => files::read_at(&self.file, memory, request.offset)?,
            Verb::Write => files::write_at(&self.file, memory, request.offset)?,
        };
        // A short read is returned as such. If the ordinary call succeeds, the access through the mapping still failed.
        if request.verb == Verb::Read && moved < request.length { Ok(moved) } else { Err(Errno::IO) }
    }

    /// Writes the pages of a range to the device, synchronously or in the background, depending on `how`.
    fn sync(&self, offset: usize, length: usize, how: MsyncFlags) -> Result<(), Errno> {
        if self.broken {
            return Err(Errno::IO);
        }
        self.mapping.sync(offset, length, how)
    }

    /// Unmaps and closes the file, and returns the kernel's result.
    fn close(self) -> Result<(), Errno> {
        let Mapped { mapping, file, .. } = self;
        drop(mapping);
        files::close(file)
    }
}

fn shared(file: impl AsFd, length: usize, writes: bool) -> Result<Mapping, Errno> {
    let access = if writes { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
    Mapping::new(file, length, access, MapFlags::SHARED)
}

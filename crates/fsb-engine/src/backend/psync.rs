//! `pread` and `pwrite`: a call, an answer; and their relatives that scatter and gather.
//!
//! Relatives that differ in the flags of `open` alone are constants of [`FileBackend`].

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::slice;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};

use super::call_flag::CallFlag;
use super::files::{self, SlotTable};
use super::{
    Backend, Capabilities, Directory, FileBackend, FileSlot, Flush, IoRequest, OpenFlags, Queued,
    Session, SessionSetup, Verb, direct,
};
use crate::error::EngineError;

/// The usual one: through the page cache.
pub(crate) static PSYNC: FileBackend = FileBackend {
    name: "psync",
    about: "pread and pwrite through the page cache, one call per operation",
    flags: OFlags::empty(),
    call_flag: CallFlag::None,
    capabilities: Capabilities::PLAIN,
    session: open_session,
};

/// Past the page cache.
pub(crate) static DIRECT: FileBackend = FileBackend {
    name: "direct",
    about: "pread and pwrite past the page cache (O_DIRECT)",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::None,
    capabilities: direct::CAPABILITIES,
    session: open_session,
};

/// Each write waits for data and metadata.
pub(crate) static OSYNC: FileBackend = FileBackend {
    name: "osync",
    about: "pread and pwrite through the page cache; each write returns when data and attributes are durable (O_SYNC)",
    flags: OFlags::SYNC,
    call_flag: CallFlag::None,
    capabilities: Capabilities {
        synced: true,
        ..Capabilities::PLAIN
    },
    session: open_session,
};

/// Each write waits for data.
pub(crate) static DSYNC: FileBackend = FileBackend {
    name: "dsync",
    about: "pread and pwrite through the page cache; each write returns when its data is durable (O_DSYNC)",
    flags: fsb_sys::open_flags::DSYNC,
    call_flag: CallFlag::None,
    capabilities: Capabilities {
        synced: true,
        ..Capabilities::PLAIN
    },
    session: open_session,
};

/// Opens a session whose files are opened with the flags of the backend.
fn open_session(
    backend: &FileBackend,
    setup: &SessionSetup,
) -> Result<Box<dyn Session>, EngineError> {
    Ok(Box::new(PsyncSession {
        files: SlotTable::new(setup),
        flags: backend.flags,
    }))
}

#[derive(Debug)]
struct PsyncSession {
    files: SlotTable<OwnedFd>,
    flags: OFlags,
}

impl Session for PsyncSession {
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        _size: u64,
    ) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        self.files
            .put(slot, files::open(at, path, flags.with(self.flags))?);
        Ok(slot)
    }

    fn adopt(&mut self, file: OwnedFd, _flags: OpenFlags) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        self.files.put(slot, file);
        Ok(slot)
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        files::close(self.files.take(slot)?)
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let file = self.files.get(request.slot)?;
        // SAFETY: the caller vouches for the memory until this call returns.
        let memory = unsafe { slice::from_raw_parts_mut(request.memory, request.length) };
        let moved = match request.verb {
            Verb::Read => retry_on_intr(|| rustix::io::pread(file, &mut *memory, request.offset))?,
            Verb::Write => retry_on_intr(|| rustix::io::pwrite(file, memory, request.offset))?,
        };
        Ok(Queued::Done(moved))
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        files::flush(self.files.get(slot)?, what)
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(OwnedFd::as_fd)
    }
}

/// Parts of a record: as many as IOzone takes.
const PARTS: usize = 16;

/// The member.
#[derive(Debug)]
pub(crate) struct Psyncv;

impl Backend for Psyncv {
    fn name(&self) -> &'static str {
        "psyncv"
    }

    fn about(&self) -> &'static str {
        "preadv and pwritev through the page cache: one call per operation, its memory in sixteen parts"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            sequential: false,
            ..Capabilities::PLAIN
        }
    }

    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(PsyncvSession {
            files: SlotTable::new(setup),
        }))
    }
}

#[derive(Debug)]
struct PsyncvSession {
    files: SlotTable<OwnedFd>,
}

impl Session for PsyncvSession {
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        _size: u64,
    ) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        self.files.put(slot, files::open(at, path, flags)?);
        Ok(slot)
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        files::close(self.files.take(slot)?)
    }

    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let file = self.files.get(request.slot)?;
        let part = request.length.div_ceil(PARTS).max(1);
        // SAFETY: the caller vouches for the memory until this call returns.
        let memory = unsafe { slice::from_raw_parts_mut(request.memory, request.length) };
        let moved = match request.verb {
            Verb::Read => {
                let mut parts =
                    [const { None }; PARTS].map(|_: Option<()>| IoSliceMut::new(&mut []));
                let count = parts
                    .iter_mut()
                    .zip(memory.chunks_mut(part))
                    .map(|(to, part)| *to = IoSliceMut::new(part))
                    .count();
                retry_on_intr(|| rustix::io::preadv(file, &mut parts[..count], request.offset))?
            }
            Verb::Write => {
                let mut parts = [IoSlice::new(&[]); PARTS];
                let count = parts
                    .iter_mut()
                    .zip(memory.chunks(part))
                    .map(|(to, part)| *to = IoSlice::new(part))
                    .count();
                retry_on_intr(|| rustix::io::pwritev(file, &parts[..count], request.offset))?
            }
        };
        Ok(Queued::Done(moved))
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        files::flush(self.files.get(slot)?, what)
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(OwnedFd::as_fd)
    }
}

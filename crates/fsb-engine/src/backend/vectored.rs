//! `preadv2` and `pwritev2` with one part: the calls of fio's engine `pvsync2`.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::slice;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::files::{self, SlotTable};
use super::{
    Capabilities, Directory, FileBackend, FileSlot, Flush, IoRequest, OpenFlags, Queued, Session,
    SessionSetup, Verb, direct,
};
use crate::error::EngineError;

/// Through the page cache.
pub(crate) static PREADV2: FileBackend = FileBackend {
    name: "preadv2",
    about: "preadv2 and pwritev2 through the page cache, one call per operation, its memory in one part",
    flags: OFlags::empty(),
    capabilities: Capabilities {
        sequential: false,
        ..Capabilities::PLAIN
    },
    session: |flags, setup| open_session(flags, setup, CallFlags::NONE),
};

/// Past the page cache.
pub(crate) static PREADV2_DIRECT: FileBackend = FileBackend {
    name: "preadv2-direct",
    about: "preadv2 and pwritev2 past the page cache (O_DIRECT)",
    flags: OFlags::DIRECT,
    capabilities: direct::CAPABILITIES,
    session: |flags, setup| open_session(flags, setup, CallFlags::NONE),
};

/// Past the page cache; the kernel polls for the completion if the device has queues for it.
pub(crate) static PREADV2_HIPRI: FileBackend = FileBackend {
    name: "preadv2-hipri",
    about: "preadv2 and pwritev2 past the page cache (O_DIRECT) with RWF_HIPRI: the kernel polls where the device can",
    flags: OFlags::DIRECT,
    capabilities: direct::CAPABILITIES,
    session: |flags, setup| open_session(flags, setup, CallFlags::both(ReadWriteFlags::HIPRI)),
};

/// The flags of the calls of each direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallFlags {
    pub(super) read: ReadWriteFlags,
    pub(super) write: ReadWriteFlags,
}

impl CallFlags {
    /// Returns the flags of a direction.
    #[inline]
    fn of(self, verb: Verb) -> ReadWriteFlags {
        match verb {
            Verb::Read => self.read,
            Verb::Write => self.write,
        }
    }

    const NONE: CallFlags = CallFlags::both(ReadWriteFlags::empty());

    /// Returns the same flags for both directions.
    pub(super) const fn both(flags: ReadWriteFlags) -> CallFlags {
        CallFlags {
            read: flags,
            write: flags,
        }
    }
}

/// Opens a session whose files are opened with `flags`, and whose calls have the flags `calls`.
pub(super) fn open_session(
    flags: OFlags,
    setup: &SessionSetup,
    calls: CallFlags,
) -> Result<Box<dyn Session>, EngineError> {
    Ok(Box::new(VectoredSession {
        files: SlotTable::new(setup),
        flags,
        calls,
        would_wait: 0,
    }))
}

#[derive(Debug)]
struct VectoredSession {
    files: SlotTable<OwnedFd>,
    flags: OFlags,
    calls: CallFlags,
    would_wait: u64,
}

impl VectoredSession {
    /// Makes the call of a request with flags, and returns the number of bytes.
    ///
    /// # Safety
    ///
    /// As for [`Session::queue`].
    #[inline]
    unsafe fn transfer(&self, request: &IoRequest, flags: ReadWriteFlags) -> Result<usize, Errno> {
        let file = self.files.get(request.slot)?;
        // SAFETY: the caller vouches for the memory until this call returns.
        let memory = unsafe { slice::from_raw_parts_mut(request.memory, request.length) };
        retry_on_intr(|| match request.verb {
            Verb::Read => {
                let parts = &mut [IoSliceMut::new(memory)];
                rustix::io::preadv2(file, parts, request.offset, flags)
            }
            Verb::Write => {
                rustix::io::pwritev2(file, &[IoSlice::new(memory)], request.offset, flags)
            }
        })
    }
}

impl Session for VectoredSession {
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

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        files::close(self.files.take(slot)?)
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        // SAFETY: the caller vouches for the memory until this call returns.
        let moved = unsafe { self.transfer(request, self.calls.of(request.verb)) };
        if !self.calls.of(request.verb).contains(ReadWriteFlags::NOWAIT) {
            return moved.map(Queued::Done);
        }
        let moved = match moved {
            Err(Errno::AGAIN) => 0,
            moved => moved?,
        };
        if moved == request.length {
            return Ok(Queued::Done(moved));
        }
        self.would_wait += 1;
        let rest = IoRequest {
            offset: request.offset + moved as u64,
            memory: request.memory.wrapping_add(moved),
            length: request.length - moved,
            ..*request
        };
        // SAFETY: as above; it is the end of that memory.
        let more = unsafe { self.transfer(&rest, ReadWriteFlags::empty()) }?;
        Ok(Queued::Done(moved + more))
    }

    fn would_wait(&self) -> u64 {
        self.would_wait
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        files::flush(self.files.get(slot)?, what)
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(OwnedFd::as_fd)
    }
}

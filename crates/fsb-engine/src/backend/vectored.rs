//! `preadv2` and `pwritev2` with one part: the calls of fio's engine `pvsync2`.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::slice;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::call_flag::CallFlag;
use super::files::{self, SlotTable};
use super::{
    Capabilities, Directory, FileBackend, FileSlot, Flush, IoRequest, OpenFlags, Queued, Session,
    SessionSetup, Verb, atomic, direct, nowait, uncached,
};
use crate::error::EngineError;

/// Through the page cache.
pub(crate) static PREADV2: FileBackend = FileBackend {
    name: "preadv2",
    about: "preadv2 and pwritev2 through the page cache, one call per operation, its memory in one part",
    flags: OFlags::empty(),
    call_flag: CallFlag::None,
    capabilities: Capabilities {
        sequential: false,
        ..Capabilities::PLAIN
    },
    session: open_session,
};

/// Past the page cache.
pub(crate) static PREADV2_DIRECT: FileBackend = FileBackend {
    name: "preadv2-direct",
    about: "preadv2 and pwritev2 past the page cache (O_DIRECT)",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::None,
    capabilities: direct::CAPABILITIES,
    session: open_session,
};

/// Past the page cache; the kernel polls for the completion if the device has queues for it.
pub(crate) static PREADV2_HIPRI: FileBackend = FileBackend {
    name: "preadv2-hipri",
    about: "preadv2 and pwritev2 past the page cache (O_DIRECT) with RWF_HIPRI: the kernel polls where the device can",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::Hipri,
    capabilities: direct::CAPABILITIES,
    session: open_session,
};

/// Through the page cache, which keeps nothing.
pub(crate) static UNCACHED: FileBackend = FileBackend {
    name: "uncached",
    about: "preadv2 and pwritev2 with RWF_DONTCACHE: through the page cache, which keeps nothing",
    flags: OFlags::empty(),
    call_flag: CallFlag::Uncached,
    capabilities: uncached::CAPABILITIES,
    session: open_session,
};

/// Past the page cache; a crash leaves a write whole or undone.
pub(crate) static ATOMIC: FileBackend = FileBackend {
    name: "atomic",
    about: "preadv2 and pwritev2 past the page cache (O_DIRECT); writes with RWF_ATOMIC, which a crash leaves whole or undone",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::Atomic,
    capabilities: atomic::CAPABILITIES,
    session: open_session,
};

/// Through the page cache, without waiting.
pub(crate) static NOWAIT: FileBackend = FileBackend {
    name: "nowait",
    about: "preadv2 and pwritev2 with RWF_NOWAIT through the page cache; calls that would wait are counted and made again without it",
    flags: OFlags::empty(),
    call_flag: CallFlag::Nowait,
    capabilities: nowait::CAPABILITIES,
    session: open_session,
};

/// Opens a session whose files and calls have the flags of the backend.
fn open_session(
    backend: &FileBackend,
    setup: &SessionSetup,
) -> Result<Box<dyn Session>, EngineError> {
    Ok(Box::new(VectoredSession {
        files: SlotTable::new(setup),
        flags: backend.flags,
        call_flag: backend.call_flag,
        would_wait: 0,
    }))
}

#[derive(Debug)]
struct VectoredSession {
    files: SlotTable<OwnedFd>,
    flags: OFlags,
    call_flag: CallFlag,
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
        let flags = self.call_flag.bits(request.verb);
        // SAFETY: the caller vouches for the memory until this call returns.
        let result = unsafe { self.transfer(request, flags) };
        if self.call_flag != CallFlag::Nowait {
            return result.map(Queued::Done);
        }
        let Some(moved) = nowait::moved_of_unfinished(request, result) else {
            return result.map(Queued::Done);
        };
        self.would_wait += 1;
        let rest = nowait::rest_of(request, moved);
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

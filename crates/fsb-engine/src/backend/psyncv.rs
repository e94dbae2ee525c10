//! `preadv` and `pwritev`: a call moves a record in parts.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::slice;

use rustix::io::{Errno, retry_on_intr};

use super::files::{self, Table};
use super::{Backend, Capabilities, Directory, Flush, IoRequest, OpenFlags, Queued, Session, Setup, Slot, Verb};
use crate::EngineError;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

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
        "preadv and pwritev through the page cache: one call an operation, its memory in sixteen parts"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { sequential: false, ..Capabilities::PLAIN }
    }

    fn session(&self, setup: &Setup) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(PsyncvSession { files: Table::new(setup) }))
    }
}

#[derive(Debug)]
struct PsyncvSession {
    files: Table<OwnedFd>,
}

impl Session for PsyncvSession {
    fn open(&mut self, at: &Directory, path: &CStr, flags: OpenFlags, _size: u64) -> Result<Slot, Errno> {
        let slot = self.files.free()?;
        self.files.put(slot, files::open(at, path, flags)?);
        Ok(slot)
    }

    fn close(&mut self, slot: Slot) -> Result<(), Errno> {
        files::close(self.files.take(slot)?)
    }

    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let file = self.files.get(request.slot)?;
        let part = request.length.div_ceil(PARTS).max(1);
        // SAFETY: the caller vouches for the memory until this call returns.
        let memory = unsafe { slice::from_raw_parts_mut(request.memory, request.length) };
        let moved = match request.verb {
            Verb::Read => {
                let mut parts = [const { None }; PARTS].map(|_: Option<()>| IoSliceMut::new(&mut []));
                let count =
                    parts.iter_mut().zip(memory.chunks_mut(part)).map(|(to, part)| *to = IoSliceMut::new(part)).count();
                retry_on_intr(|| rustix::io::preadv(file, &mut parts[..count], request.offset))?
            }
            Verb::Write => {
                let mut parts = [IoSlice::new(&[]); PARTS];
                let count =
                    parts.iter_mut().zip(memory.chunks(part)).map(|(to, part)| *to = IoSlice::new(part)).count();
                retry_on_intr(|| rustix::io::pwritev(file, &parts[..count], request.offset))?
            }
        };
        Ok(Queued::Done(moved))
    }

    fn flush(&mut self, slot: Slot, what: Flush) -> Result<(), Errno> {
        files::flush(self.files.get(slot)?, what)
    }

    fn descriptor(&self, slot: Slot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(OwnedFd::as_fd)
    }
}

//! `pread` and `pwrite`: a call, an answer.
//!
//! Relatives that differ in the flags of `open` alone (O_DIRECT, O_SYNC) are other constants of the same type.

use std::ffi::CStr;
use std::slice;

use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::{Backend, Capabilities, Flush, Handle, Purpose, Queued, Request, Session, Setup, Slot, Verb};
use crate::EngineError;

/// A backend of synchronous calls with an offset.
#[derive(Debug)]
pub(crate) struct Psync {
    name: &'static str,
    about: &'static str,
    flags: OFlags,
    capabilities: Capabilities,
}

/// The usual one: through the page cache.
pub(crate) static PSYNC: Psync = Psync {
    name: "psync",
    about: "pread and pwrite through the page cache, one call an operation",
    flags: OFlags::empty(),
    capabilities: Capabilities { real: true, depth: 1, direct: false, appends: true, granule: 1 },
};

impl Backend for Psync {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn session(&self, setup: &Setup) -> Result<Box<dyn Session>, EngineError> {
        let files = (0..setup.files).map(|_| None).collect();
        Ok(Box::new(PsyncSession { files, flags: self.flags }))
    }
}

#[derive(Debug)]
struct PsyncSession {
    files: Vec<Option<OwnedFd>>,
    flags: OFlags,
}

impl PsyncSession {
    #[inline]
    fn file(&self, slot: Slot) -> Result<&OwnedFd, Errno> {
        self.files.get(slot.0 as usize).and_then(Option::as_ref).ok_or(Errno::BADF)
    }
}

/// The flags of `open` for a purpose.
pub(super) fn open_flags(purpose: Purpose) -> OFlags {
    OFlags::CLOEXEC
        | match purpose {
            Purpose::Read => OFlags::RDONLY,
            Purpose::Write => OFlags::WRONLY,
            Purpose::Create => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            Purpose::Append => OFlags::WRONLY | OFlags::APPEND,
        }
}

impl Session for PsyncSession {
    fn open(&mut self, at: &Handle, path: &CStr, purpose: Purpose, _size: u64) -> Result<Slot, Errno> {
        let free = self.files.iter().position(Option::is_none).ok_or(Errno::MFILE)?;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        self.files[free] = Some(rustix::fs::openat(at.fd(), path, self.flags | open_flags(purpose), mode)?);
        Ok(Slot(free as u32))
    }

    fn close(&mut self, slot: Slot) -> Result<(), Errno> {
        let file = self.files.get_mut(slot.0 as usize).and_then(Option::take).ok_or(Errno::BADF)?;
        // SAFETY: the descriptor was owned by this session alone, and `into_raw_fd` gave it up.
        unsafe { rustix::io::try_close(file.into_raw_fd()) }
    }

    #[inline]
    unsafe fn queue(&mut self, request: &Request) -> Result<Queued, Errno> {
        let file = self.file(request.slot)?;
        // SAFETY: the caller vouches for the memory until this call returns.
        let memory = unsafe { slice::from_raw_parts_mut(request.memory, request.length) };
        let moved = match request.verb {
            Verb::Read => retry_on_intr(|| rustix::io::pread(file, &mut *memory, request.offset))?,
            Verb::Write => retry_on_intr(|| rustix::io::pwrite(file, memory, request.offset))?,
        };
        Ok(Queued::Done(moved))
    }

    fn flush(&mut self, slot: Slot, what: Flush) -> Result<(), Errno> {
        let file = self.file(slot)?;
        match what {
            Flush::Data => rustix::fs::fdatasync(file),
            Flush::All => rustix::fs::fsync(file),
        }
    }
}

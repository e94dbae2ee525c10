//! A backend that touches nothing: every call succeeds at once. It shows what the engine itself costs, and with the
//! fake clock it makes whole runs exact.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::Path;

use rustix::io::Errno;

use super::{Backend, Capabilities, Flush, Handle, Purpose, Queued, Request, Session, Setup, Slot, Tree};
use crate::EngineError;

/// The member.
#[derive(Debug)]
pub(crate) struct Null;

impl Backend for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn about(&self) -> &'static str {
        "touches nothing: shows what the engine itself costs"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { real: false, ..Capabilities::PLAIN }
    }

    fn tree(&self) -> &'static dyn Tree {
        &Null
    }

    fn session(&self, _setup: &Setup) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(NullSession { next: 0 }))
    }
}

struct NullSession {
    next: u32,
}

impl Session for NullSession {
    fn open(&mut self, _at: &Handle, _path: &CStr, _purpose: Purpose, _size: u64) -> Result<Slot, Errno> {
        self.next = self.next.wrapping_add(1);
        Ok(Slot(self.next))
    }

    fn close(&mut self, _slot: Slot) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn queue(&mut self, request: &Request) -> Result<Queued, Errno> {
        Ok(Queued::Done(request.length))
    }

    fn flush(&mut self, _slot: Slot, _what: Flush) -> Result<(), Errno> {
        Ok(())
    }
}

impl Tree for Null {
    fn open_root(&self, _path: &Path) -> Result<Handle, Errno> {
        Ok(Handle(None))
    }

    fn open_directory(&self, _at: &Handle, _name: &CStr) -> Result<Handle, Errno> {
        Ok(Handle(None))
    }

    fn stat(&self, _at: &Handle, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn rename(&self, _at: &Handle, _from: &CStr, _to: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn unlink(&self, _at: &Handle, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn list(
        &self,
        _directory: &Handle,
        _buffer: &mut [MaybeUninit<u8>],
        expected: u64,
        visit: &mut dyn FnMut(&CStr) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        for _ in 0..expected {
            if visit(c"null").is_break() {
                break;
            }
        }
        Ok(())
    }

    fn sync_directory(&self, _directory: &Handle) -> Result<(), Errno> {
        Ok(())
    }

    fn sync_file_system(&self, _directory: &Handle) -> Result<(), Errno> {
        Ok(())
    }
}

//! A backend that touches nothing: every call succeeds at once. It shows what the engine itself costs, and with the
//! fake clock it makes whole runs exact.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::Path;

use rustix::io::Errno;

use super::{Backend, Capabilities, Directory, Flush, IoRequest, Namespace, Purpose, Queued, Session, Setup, Slot};
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

    fn namespace(&self) -> &'static dyn Namespace {
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
    fn open(&mut self, _at: &Directory, _path: &CStr, _purpose: Purpose, _size: u64) -> Result<Slot, Errno> {
        self.next = self.next.wrapping_add(1);
        Ok(Slot(self.next))
    }

    fn close(&mut self, _slot: Slot) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        Ok(Queued::Done(request.length))
    }

    fn flush(&mut self, _slot: Slot, _what: Flush) -> Result<(), Errno> {
        Ok(())
    }
}

impl Namespace for Null {
    fn open_root(&self, _path: &Path) -> Result<Directory, Errno> {
        Ok(Directory(None))
    }

    fn open_directory(&self, _at: &Directory, _name: &CStr) -> Result<Directory, Errno> {
        Ok(Directory(None))
    }

    fn stat(&self, _at: &Directory, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn rename(&self, _at: &Directory, _from: &CStr, _to: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn unlink(&self, _at: &Directory, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn list(
        &self,
        _directory: &Directory,
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

    fn sync_directory(&self, _directory: &Directory) -> Result<(), Errno> {
        Ok(())
    }

    fn sync_file_system(&self, _directory: &Directory) -> Result<(), Errno> {
        Ok(())
    }
}

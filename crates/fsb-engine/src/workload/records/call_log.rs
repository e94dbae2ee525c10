//! A backend for tests that touches nothing and logs its calls.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use rustix::fd::BorrowedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::EngineError;
use crate::backend::{
    Backend, Capabilities, Directory, Flush, IoRequest, Namespace, OpenFlags, Queued, Session, Setup, Slot, Verb,
};

/// The backend, and its calls since the last query. Like all backends it lives as long as the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallLog(&'static Mutex<Vec<String>>);

impl CallLog {
    pub(super) fn leaked() -> &'static CallLog {
        Box::leak(Box::new(CallLog(Box::leak(Box::default()))))
    }

    fn note(&self, call: String) {
        self.0.lock().unwrap().push(call);
    }

    /// Returns the calls in order, and clears the log.
    pub(super) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Backend for CallLog {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn about(&self) -> &'static str {
        "writes down what it is asked"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { real: false, ..Capabilities::PLAIN }
    }

    fn plain(&self) -> Option<&'static dyn Backend> {
        Some(Box::leak(Box::new(*self)))
    }

    fn namespace(&self) -> &'static dyn Namespace {
        Box::leak(Box::new(*self))
    }

    fn session(&self, _setup: &Setup) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(CallLogSession(*self)))
    }
}

struct CallLogSession(CallLog);

impl Session for CallLogSession {
    fn open(&mut self, _at: &Directory, _path: &CStr, flags: OpenFlags, _size: u64) -> Result<Slot, Errno> {
        self.0.note(if flags.flags.contains(OFlags::CREATE) { "create" } else { "open" }.to_owned());
        Ok(Slot(0))
    }

    fn close(&mut self, _slot: Slot) -> Result<(), Errno> {
        self.0.note("close".to_owned());
        Ok(())
    }

    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let verb = if request.verb == Verb::Read { "r" } else { "w" };
        self.0.note(format!("{verb}{}", request.offset / request.length as u64));
        Ok(Queued::Done(request.length))
    }

    fn flush(&mut self, _slot: Slot, what: Flush) -> Result<(), Errno> {
        self.0.note(if what == Flush::All { "fsync" } else { "fdatasync" }.to_owned());
        Ok(())
    }

    fn descriptor(&self, _slot: Slot) -> Result<BorrowedFd<'_>, Errno> {
        Err(Errno::BADF)
    }
}

impl Namespace for CallLog {
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
        self.note("unlink".to_owned());
        Ok(())
    }

    fn list(
        &self,
        _directory: &Directory,
        _buffer: &mut [MaybeUninit<u8>],
        _expected: u64,
        _visit: &mut dyn FnMut(&CStr) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        Ok(())
    }

    fn sync_directory(&self, _directory: &Directory) -> Result<(), Errno> {
        Ok(())
    }

    fn sync_file_system(&self, _directory: &Directory) -> Result<(), Errno> {
        self.note("syncfs".to_owned());
        Ok(())
    }
}

//! `lseek`, `read` and `write`: transfers at the file's own position.
//!
//! As in fio's engine `sync`, a record that begins where the last one ended needs no `lseek`.

use std::ffi::CStr;
use std::slice;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::call_flag::CallFlag;
use super::files::{self, SlotTable};
use super::{
    Capabilities, Directory, FileBackend, FileSlot, Flush, IoRequest, OpenFlags, Queued, Session,
    SessionSetup, Verb, direct,
};
use crate::error::EngineError;

/// Through the page cache. It cannot append: at the end of a file there is nothing to seek.
pub(crate) static LSEEK: FileBackend = FileBackend {
    name: "lseek",
    about: "read and write through the page cache, after an lseek if the record does not follow the last one",
    flags: OFlags::empty(),
    call_flag: CallFlag::None,
    capabilities: Capabilities {
        appends: false,
        sequential: false,
        ..Capabilities::PLAIN
    },
    session: open_session,
};

/// Past the page cache.
pub(crate) static LSEEK_DIRECT: FileBackend = FileBackend {
    name: "lseek-direct",
    about: "read and write past the page cache (O_DIRECT), after an lseek if the record does not follow the last one",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::None,
    capabilities: Capabilities {
        appends: false,
        ..direct::CAPABILITIES
    },
    session: open_session,
};

/// Opens a session whose files are opened with the flags of the backend.
fn open_session(
    backend: &FileBackend,
    setup: &SessionSetup,
) -> Result<Box<dyn Session>, EngineError> {
    Ok(Box::new(LseekSession {
        files: SlotTable::new(setup),
        flags: backend.flags,
    }))
}

#[derive(Debug)]
struct LseekSession {
    files: SlotTable<Positioned>,
    flags: OFlags,
}

/// An open file.
#[derive(Debug)]
struct Positioned {
    file: OwnedFd,
    /// The file's own position; `None` after an error.
    position: Option<u64>,
}

impl Session for LseekSession {
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        _size: u64,
    ) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        let file = files::open(at, path, flags.with(self.flags))?;
        self.files.put(
            slot,
            Positioned {
                file,
                position: Some(0),
            },
        );
        Ok(slot)
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        files::close(self.files.take(slot)?.file)
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let Positioned { file, position } = self.files.get_mut(request.slot)?;
        if position.take() != Some(request.offset) {
            rustix::fs::seek(&*file, SeekFrom::Start(request.offset))?;
        }
        // SAFETY: the caller vouches for the memory until this call returns.
        let memory = unsafe { slice::from_raw_parts_mut(request.memory, request.length) };
        let moved = match request.verb {
            Verb::Read => files::read(&*file, memory)?,
            Verb::Write => files::write(&*file, memory)?,
        };
        *position = Some(request.offset + moved as u64);
        Ok(Queued::Done(moved))
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        files::flush(&self.files.get(slot)?.file, what)
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(|open| open.file.as_fd())
    }
}

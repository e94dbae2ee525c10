//! A backend that touches nothing: every call succeeds at once. It shows the overhead of the
//! engine, and with the fake clock whole runs are exactly reproducible.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::Path;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Advice, FallocateFlags, Gid, Mode, Timestamps, Uid};
use rustix::io::Errno;

use super::{
    Backend, Capabilities, Directory, FileSlot, Flush, IoRequest, Namespace, OpenFlags, Queued,
    RangeLock, Session, SessionSetup,
};
use crate::error::EngineError;

/// The registry entry.
#[derive(Debug)]
pub(crate) struct Null;

impl Backend for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn about(&self) -> &'static str {
        "makes no calls: measures the cost of the engine itself"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            real: false,
            ..Capabilities::PLAIN
        }
    }

    fn plain(&self) -> Option<&'static dyn Backend> {
        Some(&Null)
    }

    fn namespace(&self) -> &'static dyn Namespace {
        &Null
    }

    fn session(&self, _setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(NullSession { next: 0 }))
    }
}

struct NullSession {
    next: u32,
}

/// Every call succeeds at once, and files have the size that the caller passes.
impl Session for NullSession {
    fn open(
        &mut self,
        _at: &Directory,
        _path: &CStr,
        _flags: OpenFlags,
        _size: u64,
    ) -> Result<FileSlot, Errno> {
        self.next = self.next.wrapping_add(1);
        Ok(FileSlot(self.next))
    }

    fn close(&mut self, _slot: FileSlot) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        Ok(Queued::Done(request.length))
    }

    fn flush(&mut self, _slot: FileSlot, _what: Flush) -> Result<(), Errno> {
        Ok(())
    }

    /// All that would need one is below.
    fn descriptor(&self, _slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        Err(Errno::BADF)
    }

    fn advise(
        &mut self,
        _slot: FileSlot,
        _offset: u64,
        _length: u64,
        _advice: Advice,
    ) -> Result<(), Errno> {
        Ok(())
    }

    fn adopt(&mut self, _file: OwnedFd, _flags: OpenFlags) -> Result<FileSlot, Errno> {
        self.next = self.next.wrapping_add(1);
        Ok(FileSlot(self.next))
    }

    fn read_at(
        &mut self,
        _slot: FileSlot,
        memory: &mut [u8],
        offset: u64,
        size: u64,
    ) -> Result<usize, Errno> {
        Ok((memory.len() as u64).min(size.saturating_sub(offset)) as usize)
    }

    fn write_at(&mut self, _slot: FileSlot, bytes: &[u8], _offset: u64) -> Result<usize, Errno> {
        Ok(bytes.len())
    }

    fn read(&mut self, _slot: FileSlot, memory: &mut [u8]) -> Result<usize, Errno> {
        Ok(memory.len())
    }

    fn write(&mut self, _slot: FileSlot, bytes: &[u8]) -> Result<usize, Errno> {
        Ok(bytes.len())
    }

    fn seek_to_end(&mut self, _slot: FileSlot, size: u64) -> Result<u64, Errno> {
        Ok(size)
    }

    fn read_to_end(
        &mut self,
        _slot: FileSlot,
        _memory: &mut [u8],
        size: u64,
        _visit: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<u64, Errno> {
        Ok(size)
    }

    fn rewind(&mut self, _slot: FileSlot) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&mut self, _slot: FileSlot, size: u64) -> Result<u64, Errno> {
        Ok(size)
    }

    fn allocate(
        &mut self,
        _slot: FileSlot,
        _how: FallocateFlags,
        _offset: u64,
        _length: u64,
    ) -> Result<(), Errno> {
        Ok(())
    }

    fn truncate(&mut self, _slot: FileSlot, _size: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn copy_range(
        &mut self,
        _from: FileSlot,
        _offset: u64,
        _to: FileSlot,
        length: usize,
    ) -> Result<usize, Errno> {
        Ok(length)
    }

    fn share_blocks(&mut self, _from: FileSlot, _to: FileSlot) -> Result<(), Errno> {
        Ok(())
    }

    fn share_range(
        &mut self,
        _from: FileSlot,
        _to: FileSlot,
        _offset: u64,
        _length: u64,
    ) -> Result<(), Errno> {
        Ok(())
    }

    fn open_unnamed(
        &mut self,
        _at: &Directory,
        _directory: &CStr,
        _mode: Mode,
    ) -> Result<FileSlot, Errno> {
        self.next = self.next.wrapping_add(1);
        Ok(FileSlot(self.next))
    }

    fn link_unnamed(
        &mut self,
        _slot: FileSlot,
        _at: &Directory,
        _name: &CStr,
    ) -> Result<(), Errno> {
        Ok(())
    }

    fn set_write_hint(&mut self, _slot: FileSlot, _hint: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn enable_verity(&mut self, _slot: FileSlot) -> Result<(), Errno> {
        Ok(())
    }

    fn set_times(&mut self, _slot: FileSlot, _times: &Timestamps) -> Result<(), Errno> {
        Ok(())
    }

    fn set_mode(&mut self, _slot: FileSlot, _mode: Mode) -> Result<(), Errno> {
        Ok(())
    }

    fn lock(
        &mut self,
        _slot: FileSlot,
        _lock: RangeLock,
        _offset: u64,
        _length: u64,
    ) -> Result<(), Errno> {
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

    fn statx(&self, _at: &Directory, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn open_beneath(&self, _at: &Directory, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn exchange(&self, _at: &Directory, _one: &CStr, _other: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn rename(&self, _at: &Directory, _from: &CStr, _to: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn unlink(&self, _at: &Directory, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn make_directory(&self, _at: &Directory, _name: &CStr, _mode: Mode) -> Result<(), Errno> {
        Ok(())
    }

    fn remove_directory(&self, _at: &Directory, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn link(&self, _at: &Directory, _there: &CStr, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn symbolic_link(&self, _at: &Directory, _target: &CStr, _name: &CStr) -> Result<(), Errno> {
        Ok(())
    }

    fn set_times(&self, _at: &Directory, _name: &CStr, _times: &Timestamps) -> Result<(), Errno> {
        Ok(())
    }

    fn set_mode(&self, _at: &Directory, _name: &CStr, _mode: Mode) -> Result<(), Errno> {
        Ok(())
    }

    fn set_owner(
        &self,
        _at: &Directory,
        _name: &CStr,
        _owner: Uid,
        _group: Gid,
    ) -> Result<(), Errno> {
        Ok(())
    }

    fn read_link(
        &self,
        _at: &Directory,
        _name: &CStr,
        _target: &mut [MaybeUninit<u8>],
        expected: usize,
    ) -> Result<usize, Errno> {
        Ok(expected)
    }

    fn set_attribute(&self, _path: &CStr, _name: &CStr, _value: &[u8]) -> Result<(), Errno> {
        Ok(())
    }

    fn get_attribute(
        &self,
        _path: &CStr,
        _name: &CStr,
        _value: &mut [MaybeUninit<u8>],
        expected: usize,
    ) -> Result<usize, Errno> {
        Ok(expected)
    }

    fn list_attributes(
        &self,
        _path: &CStr,
        _names: &mut [MaybeUninit<u8>],
        expected: usize,
    ) -> Result<usize, Errno> {
        Ok(expected)
    }

    fn file_system(&self, _path: &CStr) -> Result<(), Errno> {
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

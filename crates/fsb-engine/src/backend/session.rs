//! What a thread calls: its open files, and the requests on them.

use std::ffi::CStr;
use std::ops::ControlFlow;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, SeekFrom, Timestamps};
use rustix::io::Errno;

use super::arguments::{Directory, Flush, OpenFlags, RangeLock, Slot};
use super::files;

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// From the file.
    Read,
    /// Into the file.
    Write,
}

/// One transfer.
#[derive(Debug, Clone, Copy)]
pub struct IoRequest {
    /// The file.
    pub slot: Slot,
    /// The direction.
    pub verb: Verb,
    /// Where in the file; ignored for files that are open for appending.
    pub offset: u64,
    pub memory: *mut u8,
    pub length: usize,
    /// Comes back with the completion; below [`Setup::depth`](super::Setup::depth), and of one request under way at a time.
    pub tag: u32,
}

/// What became of a queued request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// The request is finished; this number of bytes was moved.
    Done(usize),
    /// It will be reaped.
    Pending,
    /// There is no room; reap, then queue it again.
    Busy,
}

/// A finished request.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// The request's tag.
    pub tag: u32,
    /// Bytes moved, or the error.
    pub result: Result<usize, Errno>,
}

/// One thread's open files, and the calls on them. Nothing here may allocate, lock or log: all of it runs against the
/// clock.
///
/// A session over descriptors says which one a file has ([`Session::descriptor`]); the calls that are the same for all
/// backends go through it. Where a call takes the size that a file has or should have, only a session that touches no
/// files goes by it: the kernel knows better.
///
/// Dropping a session waits for the requests that are under way, for their memory is freed after it.
pub trait Session {
    /// Opens a file, relative to a directory. `size` is what the file has or will have.
    fn open(&mut self, at: &Directory, path: &CStr, flags: OpenFlags, size: u64) -> Result<Slot, Errno>;

    /// Closes it and reports what the kernel says about that.
    fn close(&mut self, slot: Slot) -> Result<(), Errno>;

    /// Starts a transfer.
    ///
    /// # Safety
    ///
    /// `request.memory` must be valid for `request.length` bytes, for writing if the verb is [`Verb::Read`], and must
    /// not be used otherwise until the request is finished: until this call returns [`Queued::Done`] or an error, or
    /// until its completion was reaped.
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno>;

    /// Says that no more is queued before the next [`Session::reap`]: everything is handed to the kernel now, or with
    /// the call that reaps.
    fn commit(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    /// Appends finished requests to `done`, waiting until there are at least `least`.
    fn reap(&mut self, _least: usize, _done: &mut Vec<Completion>) -> Result<(), Errno> {
        Ok(())
    }

    /// Returns when the file is on the device.
    fn flush(&mut self, slot: Slot, what: Flush) -> Result<(), Errno>;

    /// The descriptor of a file, for the calls below.
    fn descriptor(&self, slot: Slot) -> Result<BorrowedFd<'_>, Errno>;

    /// Takes over a file that is open already, at its start.
    fn adopt(&mut self, _file: OwnedFd, _flags: OpenFlags) -> Result<Slot, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Reads at a place: how many bytes came. Of a session at depth 1.
    fn read_at(&mut self, slot: Slot, memory: &mut [u8], offset: u64, _size: u64) -> Result<usize, Errno> {
        files::read_at(self.descriptor(slot)?, memory, offset)
    }

    /// Writes at a place: how many bytes were taken. Of a session at depth 1.
    fn write_at(&mut self, slot: Slot, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        files::write_at(self.descriptor(slot)?, bytes, offset)
    }

    /// Reads where the file's own position is: how many bytes came.
    fn read(&mut self, slot: Slot, memory: &mut [u8]) -> Result<usize, Errno> {
        files::read(self.descriptor(slot)?, memory)
    }

    /// Writes where the file's own position is: how many bytes were taken.
    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Errno> {
        files::write(self.descriptor(slot)?, bytes)
    }

    /// Sets the file's own position to its end, where `size` bytes should be: where that is.
    fn seek_to_end(&mut self, slot: Slot, _size: u64) -> Result<u64, Errno> {
        rustix::fs::seek(self.descriptor(slot)?, SeekFrom::End(0))
    }

    /// Reads a file from its own position to its end, `memory` by `memory`, and calls `visit` with each piece and where
    /// it begins: how many bytes came.
    fn read_to_end(
        &mut self,
        slot: Slot,
        memory: &mut [u8],
        _size: u64,
        visit: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<u64, Errno> {
        let mut bytes = 0;
        loop {
            match self.read(slot, memory)? {
                0 => return Ok(bytes),
                count => {
                    if visit(bytes, &memory[..count]).is_break() {
                        return Ok(bytes);
                    }
                    bytes += count as u64;
                }
            }
        }
    }

    /// Sets the file's own position to its start.
    fn rewind(&mut self, slot: Slot) -> Result<(), Errno> {
        rustix::fs::seek(self.descriptor(slot)?, SeekFrom::Start(0)).map(drop)
    }

    /// Bytes of the file, which should be `size`.
    fn size(&mut self, slot: Slot, _size: u64) -> Result<u64, Errno> {
        Ok(rustix::fs::fstat(self.descriptor(slot)?)?.st_size as u64)
    }

    /// Allocates, frees, zeroes or takes out a range of a file's bytes: fallocate.
    fn allocate(&mut self, slot: Slot, how: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
        files::allocate(self.descriptor(slot)?, how, offset, length)
    }

    /// Copies a range of one file to where the other one's own position is, within the kernel: how many bytes were
    /// copied.
    fn copy_range(&mut self, from: Slot, offset: u64, to: Slot, length: usize) -> Result<usize, Errno> {
        files::copy_range(self.descriptor(from)?, offset, self.descriptor(to)?, length)
    }

    /// Makes an empty file share all blocks of another one.
    fn share_blocks(&mut self, from: Slot, to: Slot) -> Result<(), Errno> {
        rustix::fs::ioctl_ficlone(self.descriptor(to)?, self.descriptor(from)?)
    }

    /// Sets when the file was used and changed last.
    fn set_times(&mut self, slot: Slot, times: &Timestamps) -> Result<(), Errno> {
        rustix::fs::futimens(self.descriptor(slot)?, times)
    }

    /// Sets its permissions.
    fn set_mode(&mut self, slot: Slot, mode: Mode) -> Result<(), Errno> {
        rustix::fs::fchmod(self.descriptor(slot)?, mode)
    }

    /// Waits for the lock of fcntl on a range of the file; a length of 0 is all of it.
    fn lock(&mut self, slot: Slot, lock: RangeLock, offset: u64, length: u64) -> Result<(), Errno> {
        files::lock(self.descriptor(slot)?, lock, offset, length)
    }
}

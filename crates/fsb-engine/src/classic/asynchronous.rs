//! POSIX asynchronous requests, by the C library, a fixed number of them under way.
//!
//! A request has memory of its own. Where IOzone copies (`-H`), each record passes through one record of the caller on
//! its way: from it before a write, into it after a read.

use std::mem;
use std::os::fd::AsRawFd;

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::calls::prime;
use super::content::Content;
use super::files;
use super::phase::{Phase, PhaseError};
use super::records::{Fault, READ, Records, WRITE};
use crate::data::Memory;

pub(super) struct Asynchronous<'p> {
    phase: &'p Phase,
    /// Before the file, so that none is under way when that is closed.
    requests: Vec<Request>,
    file: OwnedFd,
    content: Content,
    /// The caller's record.
    record: Memory,
    copy: bool,
    /// The request that was queued longest ago.
    next: usize,
}

/// A request and its memory. The control block must not move while it is under way.
struct Request {
    block: Box<libc::aiocb>,
    memory: Memory,
    offset: u64,
    pending: bool,
    reads: bool,
}

impl<'p> Asynchronous<'p> {
    pub(super) fn new(phase: &'p Phase, file: OwnedFd, depth: u32, copy: bool) -> Asynchronous<'p> {
        let content = Content::new(phase.check, phase.rank);
        let size = phase.record_size as usize;
        let mut record = Memory::new(size);
        content.fill(record.as_mut());
        let most = (phase.file_size / phase.record_size).min(u64::from(depth));
        let request = |_| {
            let mut memory = Memory::new(size);
            content.fill(memory.as_mut());
            // SAFETY: all bits zero are a valid control block, and the one that aio(7) asks to start from.
            let block = Box::new(unsafe { mem::zeroed() });
            Request { block, memory, offset: 0, pending: false, reads: false }
        };
        let requests = (0..most).map(request).collect();
        Asynchronous { phase, requests, file, content, record, copy, next: 0 }
    }

    /// Queues a record in the place of the one that was queued longest ago, which is waited for.
    fn queue(&mut self, offset: u64, reads: bool) -> Result<(), Fault> {
        let index = self.next;
        self.next = (self.next + 1) % self.requests.len();
        self.finish(index)?;
        let request = &mut self.requests[index];
        let memory = request.memory.as_mut();
        if !reads {
            if self.copy {
                let record = self.record.as_mut();
                self.content.renew(offset, record);
                memory.copy_from_slice(record);
            } else {
                self.content.renew(offset, memory);
            }
        }
        request.block.aio_fildes = self.file.as_raw_fd();
        request.block.aio_buf = memory.as_mut_ptr().cast();
        request.block.aio_nbytes = memory.len();
        request.block.aio_offset = offset as libc::off_t;
        (request.offset, request.reads) = (offset, reads);
        let block: *mut libc::aiocb = &mut *request.block;
        // SAFETY: the block and the memory that it names stay where they are until the request is finished: `finish` is
        // called before either is used again, and `drop` before either goes away. The descriptor lives longer.
        let queued = unsafe { if reads { libc::aio_read(block) } else { libc::aio_write(block) } };
        if queued != 0 {
            return Err(Fault::Call(if reads { READ } else { WRITE }, errno()));
        }
        request.pending = true;
        Ok(())
    }

    /// Waits for a request and looks at what it read.
    fn finish(&mut self, index: usize) -> Result<(), Fault> {
        let request = &mut self.requests[index];
        if !request.pending {
            return Ok(());
        }
        let call = if request.reads { READ } else { WRITE };
        Fault::whole(call, request.wait(), request.memory.as_mut().len())?;
        if !request.reads {
            return Ok(());
        }
        if self.copy {
            self.record.as_mut().copy_from_slice(request.memory.as_mut());
        }
        let record = if self.copy { self.record.as_mut() } else { request.memory.as_mut() };
        Ok(self.content.check(&self.phase.path, request.offset, record)?)
    }
}

impl Request {
    /// Waits until the request is finished: the bytes that it moved.
    fn wait(&mut self) -> Result<usize, Errno> {
        let block: *mut libc::aiocb = &mut *self.block;
        loop {
            // SAFETY: the block was queued and not yet returned.
            match unsafe { libc::aio_error(block) } {
                libc::EINPROGRESS => {
                    let list = [block.cast_const()];
                    // SAFETY: a list of one block that is under way. A signal that interrupts it only makes it be asked
                    // again.
                    unsafe { libc::aio_suspend(list.as_ptr(), 1, std::ptr::null()) };
                }
                error => {
                    self.pending = false;
                    // SAFETY: the request is finished, and this is asked once.
                    let moved = unsafe { libc::aio_return(block) };
                    return if error == 0 { Ok(moved as usize) } else { Err(Errno::from_raw_os_error(error)) };
                }
            }
        }
    }
}

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Records for Asynchronous<'_> {
    fn prime(&mut self, fsync: bool, first: bool) -> Result<(), PhaseError> {
        if fsync {
            files::flush(&self.phase.path, &self.file)?;
        }
        if first {
            prime(self.phase, &self.file, self.record.as_mut())?;
        }
        Ok(())
    }

    fn lock(&mut self, locked: bool) -> Result<(), PhaseError> {
        Ok(files::lock(self.phase, &self.file, locked)?)
    }

    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        self.queue(offset, true)
    }

    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        self.queue(offset, false)
    }

    fn drain(&mut self) -> Result<(), Fault> {
        for step in 0..self.requests.len() {
            self.finish((self.next + step) % self.requests.len())?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        Ok(files::flush(&self.phase.path, &self.file)?)
    }

    fn close(mut self: Box<Self>) -> Result<(), PhaseError> {
        self.drain().map_err(|fault| fault.of(self.phase, 0))?;
        Ok(files::close(&self.phase.path, self.file)?)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.pending {
            // Its memory goes away next; what became of it, the error that led here tells already.
            let _ = self.wait();
        }
    }
}

//! POSIX asynchronous requests, by the C library, a fixed number of them under way.
//!
//! A request has memory of its own. Where IOzone copies (`-H`), each record passes through one record of the caller on
//! its way: from it before a write, into it after a read.

use rustix::fd::{AsFd, OwnedFd};

use super::content::RecordContent;
use super::files;
use super::phase::{Phase, PhaseError};
use super::records::{Fault, READ, Records, WRITE, prime};
use crate::backend::Verb;
use crate::backend::aio::ControlBlock;
use crate::memory::Memory;

pub(super) struct Asynchronous<'p> {
    phase: &'p Phase,
    /// Before the file, so that none is under way when that is closed.
    requests: Vec<QueuedRecord>,
    file: OwnedFd,
    content: RecordContent,
    /// The caller's record.
    record: Memory,
    copy: bool,
    /// The request that was queued longest ago.
    next: usize,
}

/// A request and its memory. The control block must not move while it is under way.
struct QueuedRecord {
    block: Box<ControlBlock>,
    memory: Memory,
    offset: u64,
    pending: bool,
    reads: bool,
}

impl<'p> Asynchronous<'p> {
    pub(super) fn new(phase: &'p Phase, file: OwnedFd, depth: u32, copy: bool) -> Asynchronous<'p> {
        let content = RecordContent::new(phase.check, phase.rank);
        let size = phase.record_size as usize;
        let mut record = Memory::new(size);
        content.fill(record.as_mut());
        let most = (phase.file_size / phase.record_size).min(u64::from(depth));
        let request = |_| {
            let mut memory = Memory::new(size);
            content.fill(memory.as_mut());
            let block = Box::new(ControlBlock::new());
            QueuedRecord { block, memory, offset: 0, pending: false, reads: false }
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
        (request.offset, request.reads) = (offset, reads);
        let verb = if reads { Verb::Read } else { Verb::Write };
        let bytes = (memory.as_mut_ptr(), memory.len());
        // SAFETY: the block and the memory that it names stay where they are until the request is finished: `finish` is
        // called before either is used again, and `drop` before either goes away. The descriptor lives longer.
        let queued = unsafe { request.block.submit(self.file.as_fd(), verb, bytes, offset) };
        queued.map_err(|errno| Fault::Call(if reads { READ } else { WRITE }, errno))?;
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
        request.pending = false;
        Fault::whole(call, request.block.wait(), request.memory.as_mut().len())?;
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

impl Drop for QueuedRecord {
    fn drop(&mut self) {
        if self.pending {
            // Its memory goes away next; what became of it, the error that led here tells already.
            let _ = self.block.wait();
        }
    }
}

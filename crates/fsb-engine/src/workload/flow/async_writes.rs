//! Asynchronous writes through io_uring. Each write has its own memory until it is done.

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{opcode, types};
use rustix::io::Errno;

use crate::EngineError;
use crate::backend::Completion;
use crate::backend::uring::Ring;
use crate::memory::Memory;

/// One thread's writes.
pub(super) struct AsyncWrites {
    // The first field, because it is dropped first; dropping it waits for the writes in flight.
    ring: Ring,
    memory: Memory,
    slots: Vec<WriteSlot>,
    free: Vec<u32>,
    record: usize,
}

/// The file that a write goes to, and the offset at which the write ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WriteSlot {
    pub(super) set: usize,
    pub(super) file: u64,
    pub(super) end: u64,
    length: usize,
}

impl WriteSlot {
    /// Returns a slot for a write to a file that ends at `end`.
    pub(super) fn new(set: usize, file: u64, end: u64) -> WriteSlot {
        WriteSlot { set, file, end, length: 0 }
    }
}

/// A write that failed.
pub(super) type Failed = (WriteSlot, Errno);

impl AsyncWrites {
    /// Allows `writes` writes at once, of at most `record` bytes each.
    pub(super) fn new(writes: u32, record: u64) -> Result<AsyncWrites, EngineError> {
        let record = (record as usize).max(1).next_multiple_of(crate::data::PAGE);
        Ok(AsyncWrites {
            ring: Ring::new(writes.next_power_of_two())?,
            memory: Memory::new(record * writes as usize),
            slots: vec![WriteSlot::default(); writes as usize],
            free: (0..writes).collect(),
            record,
        })
    }

    /// Starts a write of bytes that `fill` puts into memory. If the maximum is in flight, waits for one of them.
    pub(super) fn write(
        &mut self,
        fd: BorrowedFd<'_>,
        (slot, offset, length): (WriteSlot, u64, usize),
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Failed> {
        while self.free.is_empty() {
            self.reap(1)?;
        }
        let Some(number) = self.free.pop() else { return Err((slot, Errno::BUSY)) };
        let length = length.min(self.record);
        let start = number as usize * self.record;
        let memory = &mut self.memory.as_mut()[start..start + length];
        fill(memory);
        let entry = opcode::Write::new(types::Fd(fd.as_raw_fd()), memory.as_ptr(), length as u32).offset(offset);
        let entry = entry.build().user_data(u64::from(number));
        self.slots[number as usize] = WriteSlot { length, ..slot };
        // SAFETY: the memory is this slot's until the write is reaped, and outlives the ring, which waits for all. The
        // descriptor is open until then, or its number is not used by another.
        if !unsafe { self.ring.push(&entry) } {
            self.free.push(number);
            return Err((slot, Errno::BUSY));
        }
        self.ring.enter(0).map_err(|errno| (slot, errno))
    }

    /// Waits for all writes.
    pub(super) fn wait(&mut self, mut done: impl FnMut(WriteSlot)) -> Result<(), Failed> {
        let mut failed = None;
        while self.free.len() < self.slots.len() {
            let before = self.free.len();
            match self.reap(1) {
                Ok(()) => self.free[before..].iter().for_each(|&number| done(self.slots[number as usize])),
                Err(error) => drop(failed.get_or_insert(error)),
            }
            // After an error of the ring itself there is nothing more to wait for. A signal is not an error.
            if failed.is_some() && self.free.len() == before {
                break;
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn reap(&mut self, least: usize) -> Result<(), Failed> {
        self.ring.enter(least).map_err(|errno| (WriteSlot::default(), errno))?;
        let (slots, free) = (&self.slots, &mut self.free);
        let mut failed = Ok(());
        self.ring.take_finished(|Completion { tag, result }| {
            let slot = slots[tag as usize];
            free.push(tag);
            match result {
                Err(errno) => failed = Err((slot, errno)),
                // A synchronous writer would get the reason from its next call. An asynchronous write has no next call.
                Ok(moved) if moved < slot.length => failed = Err((slot, Errno::NOSPC)),
                Ok(_) => {}
            }
        });
        failed
    }
}

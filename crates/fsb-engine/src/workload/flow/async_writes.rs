//! Writes that are not waited for, through io_uring: each has memory of its own until it is done.

use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use crate::EngineError;
use crate::backend::make_ring;
use crate::memory::Memory;

/// One thread's writes.
pub(super) struct AsyncWrites {
    // First, for it is dropped first; nothing is under way then.
    ring: IoUring,
    memory: Memory,
    slots: Vec<Slot>,
    free: Vec<u32>,
    record: usize,
}

/// What is being written where.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) set: usize,
    pub(super) file: u64,
    pub(super) end: u64,
    length: usize,
}

impl Slot {
    /// A write to a file that ends there.
    pub(super) fn new(set: usize, file: u64, end: u64) -> Slot {
        Slot { set, file, end, length: 0 }
    }
}

/// A write that failed.
pub(super) type Failed = (Slot, Errno);

impl AsyncWrites {
    /// For so many writes at once, of so many bytes at most.
    pub(super) fn new(writes: u32, record: u64) -> Result<AsyncWrites, EngineError> {
        let record = (record as usize).max(1).next_multiple_of(crate::data::PAGE);
        Ok(AsyncWrites {
            ring: make_ring(writes.next_power_of_two())?,
            memory: Memory::new(record * writes as usize),
            slots: vec![Slot::default(); writes as usize],
            free: (0..writes).collect(),
            record,
        })
    }

    /// Starts a write of bytes that `fill` puts into memory. Where as many are under way as may be, it waits for one.
    pub(super) fn write(
        &mut self,
        fd: BorrowedFd<'_>,
        (slot, offset, length): (Slot, u64, usize),
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
        self.slots[number as usize] = Slot { length, ..slot };
        // SAFETY: the memory is this slot's until the write is reaped, and outlives the ring's use of it: whoever drops
        // this waits for all before. The descriptor is open until then, or its number is not used by another.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            self.free.push(number);
            return Err((slot, Errno::BUSY));
        }
        match self.ring.submit() {
            Ok(_) => Ok(()),
            Err(error) => Err((slot, errno_of(&error))),
        }
    }

    /// Waits for all.
    pub(super) fn wait(&mut self, mut done: impl FnMut(Slot)) -> Result<(), Failed> {
        let mut failed = None;
        while self.free.len() < self.slots.len() {
            let before = self.free.len();
            match self.reap(1) {
                Ok(()) => self.free[before..].iter().for_each(|&number| done(self.slots[number as usize])),
                Err(error) => drop(failed.get_or_insert(error)),
            }
            if self.free.len() == before {
                break;
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn reap(&mut self, least: usize) -> Result<(), Failed> {
        loop {
            match self.ring.submit_and_wait(least) {
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err((Slot::default(), errno_of(&error))),
            }
        }
        let mut failed = Ok(());
        for completion in self.ring.completion() {
            let number = completion.user_data() as u32;
            let slot = self.slots[number as usize];
            self.free.push(number);
            let result = completion.result();
            if result < 0 {
                failed = Err((slot, Errno::from_raw_os_error(-result)));
            } else if (result as usize) < slot.length {
                // The next call would say why; of a write that is not waited for there is none.
                failed = Err((slot, Errno::NOSPC));
            }
        }
        failed
    }
}

impl Drop for AsyncWrites {
    fn drop(&mut self) {
        // The kernel must not read memory that is somebody else's.
        let _ = self.wait(|_| {});
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

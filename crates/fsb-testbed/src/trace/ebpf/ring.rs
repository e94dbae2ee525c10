//! The ring that the kernel writes records into, as in the kernel's `bpf_ringbuf`.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A call, as the programs write it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) result: i64,
    /// The task, and above it its process.
    pub(super) task: u64,
    pub(super) registers: [u64; 8],
}

/// A record that is still being written, and one that is to be left out.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// What stands before each record.
const HEAD: u64 = 8;

/// Our side of it: the first page says how far it was read, the second how far it was written; then the records, mapped
/// twice in a row so that none is cut.
#[derive(Debug)]
pub(super) struct Ring {
    read: *mut u8,
    written: *mut u8,
    page: usize,
    size: usize,
}

impl Ring {
    pub(super) fn map(ring: &impl AsRawFd, size: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let map = |length, protection, at: usize| {
            // SAFETY: a new mapping where the kernel likes; failure is looked at.
            let address = unsafe {
                libc::mmap(null_mut(), length, protection, libc::MAP_SHARED, ring.as_raw_fd(), at as libc::off_t)
            };
            if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address.cast::<u8>()) }
        };
        let read = map(page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let written = map(page + 2 * size, libc::PROT_READ, page).inspect_err(|_| {
            // SAFETY: the mapping above.
            unsafe { libc::munmap(read.cast(), page) };
        })?;
        Ok(Ring { read, written, page, size })
    }

    /// Takes out what was written before this was called.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Record)) {
        // SAFETY: the counters are at the beginning of pages that are mapped as long as this lives, and so are records below
        // `until`; the kernel writes no record again before the reader's counter has passed it.
        unsafe {
            let read = &*self.read.cast::<AtomicU64>();
            let until = (*self.written.cast::<AtomicU64>()).load(Ordering::Acquire);
            let mut at = read.load(Ordering::Relaxed);
            while at < until {
                let head = self.written.add(self.page + (at as usize & (self.size - 1)));
                let mut length = (*head.cast::<AtomicU32>()).load(Ordering::Acquire);
                while length & BUSY != 0 {
                    // Another processor is between two instructions of the program.
                    std::thread::yield_now();
                    length = (*head.cast::<AtomicU32>()).load(Ordering::Acquire);
                }
                if length & DISCARDED == 0 {
                    each(head.add(HEAD as usize).cast::<Record>().read());
                }
                at += (u64::from(length & !DISCARDED) + HEAD).next_multiple_of(8);
                read.store(at, Ordering::Release);
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our own mappings, of these lengths.
        unsafe {
            libc::munmap(self.read.cast(), self.page);
            libc::munmap(self.written.cast(), self.page + 2 * self.size);
        }
    }
}

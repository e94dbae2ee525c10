//! Memory buffers for file data.

use std::alloc::{self, Layout};
use std::ptr;
use std::slice;

use fsb_model::units::show_bytes;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::EngineError;

/// The granularity of memory, and the strictest alignment that direct I/O asks for.
pub(crate) const PAGE: usize = 4096;
/// The size of a huge page, on the machines where huge pages matter.
const HUGE: usize = 2 << 20;

/// Page-aligned memory that was touched, so that its first page faults are not timed.
///
/// It is a separate mapping, in huge pages where it is large and the kernel has some. Reused memory is scattered over
/// small pages differently in each run, and that changes the speed at which the kernel copies.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The start of the mapping.
    map: *mut u8,
    mapped: usize,
    /// The first aligned address in the mapping.
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping is owned like that of a box: the owner of the value is the only owner of the memory.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(length: usize) -> Memory {
        let boundary = if length >= HUGE / 2 { HUGE } else { PAGE };
        let usable = length.next_multiple_of(boundary).max(boundary);
        let mapped = usable + boundary - PAGE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let map = match unsafe { mmap_anonymous(ptr::null_mut(), mapped, access, MapFlags::PRIVATE) } {
            Ok(map) => map.cast::<u8>(),
            Err(_) => alloc::handle_alloc_error(Layout::array::<u8>(length).unwrap_or(Layout::new::<u8>())),
        };
        let start = map.wrapping_add(map.align_offset(boundary));
        if boundary == HUGE {
            // Advice: where there are no huge pages, small ones do.
            // SAFETY: the range lies in the mapping, whose content it leaves alone.
            let _ = unsafe { madvise(start.cast(), usable, Advice::LinuxHugepage) };
        }
        let mut memory = Memory { map, mapped, start, length };
        memory.as_mut().fill(0xa5);
        memory
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `length` bytes from there on, all of them written, and is borrowed with `self`.
        unsafe { slice::from_raw_parts_mut(self.start, self.length) }
    }

    pub(crate) fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `as_mut`.
        unsafe { slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and no pointer into it is left. Unmapping a whole existing mapping
        // cannot fail.
        let _ = unsafe { munmap(self.map.cast(), self.mapped) };
    }
}

/// Refuses to keep `whole` bytes in memory if fewer are available. `what` names the consumer in the message.
pub(crate) fn check_room(what: &str, whole: u64) -> Result<(), EngineError> {
    match available().filter(|available| *available < whole) {
        None => Ok(()),
        Some(available) => {
            let [whole, available] = [whole, available].map(|bytes| show_bytes(bytes as f64));
            let message = format!(
                "{what} needs {whole} of memory, but {available} are available: use a smaller \
                --scale"
            );
            Err(EngineError::new(message))
        }
    }
}

/// Returns the bytes that programs may still allocate, or `None` if the kernel does not report them.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_larger_than_memory_are_refused() {
        check_room("the source", 0).unwrap();
        let error = check_room("the source", u64::MAX).unwrap_err();
        assert!(error.message.starts_with("the source needs "), "{error}");
    }

    #[test]
    fn memory_starts_on_a_boundary() {
        for (length, boundary) in
            [(0, PAGE), (1, PAGE), (4096, PAGE), (100_000, PAGE), (1 << 20, HUGE), (5 << 20, HUGE)]
        {
            let mut memory = Memory::new(length);
            assert_eq!(memory.as_mut().as_ptr() as usize % boundary, 0);
            assert_eq!(memory.as_mut().len(), length);
            assert!(memory.as_ref().iter().all(|&byte| byte == 0xa5));
        }
    }
}

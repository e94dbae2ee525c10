//! Memory that data is moved to and from.

use std::alloc::{self, Layout};
use std::ptr;
use std::slice;

use fsb_model::units::show_bytes;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::EngineError;

/// The granularity of memory, and the strictest alignment that direct I/O asks for.
pub(crate) const PAGE: usize = 4096;
/// What the processor translates in one go, on the machines where it matters.
const HUGE: usize = 2 << 20;

/// Memory that starts on a page and was touched, so that no first use of it falls into a timed stretch.
///
/// It is a mapping of its own, in huge pages where it is large and the kernel has some: how memory that was used before
/// is scattered over small pages would differ from run to run, and with it the speed at which the kernel copies.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What is mapped.
    map: *mut u8,
    mapped: usize,
    /// Where it begins on a boundary.
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
        // SAFETY: the mapping was made by `new`, and nobody points into it any more. Unmapping the whole of a mapping
        // that exists cannot fail.
        let _ = unsafe { munmap(self.map.cast(), self.mapped) };
    }
}

/// Refuses to keep `whole` bytes in memory where fewer are left; `what` takes them.
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

/// Bytes that programs may still take; `None` where the kernel does not tell.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_memory_is_refused() {
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

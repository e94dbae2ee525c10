//! Anonymous memory that is touched page by page.

use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::Refusal;

/// Anonymous memory that is unmapped with its owner.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps memory, in huge pages if there are any.
    pub fn new(length: usize) -> Result<Mapping, Refusal> {
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let start = start.map_err(|errno| crate::error::describe(&errno.into()))?;
        let start = NonNull::new(start.cast()).ok_or("mmap answered null")?;
        let mapping = Mapping { start, length };
        // SAFETY: exactly our mapping. Advice: where there are no huge pages, small ones do.
        let _ = unsafe { madvise(mapping.start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// Writes one byte a page, all processors at once.
    pub fn touch(&mut self) {
        let page = rustix::param::page_size();
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        // SAFETY: the mapping is ours, of that length, readable and writable, and zeroed by the kernel.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) };
        let share = (self.length / page).div_ceil(threads).max(1) * page;
        let parts = Mutex::new(bytes.chunks_mut(share));
        let work = || {
            loop {
                let Some(part) = parts.lock().unwrap_or_else(PoisonError::into_inner).next() else { return };
                part.iter_mut().step_by(page).for_each(|byte| *byte = 1);
            }
        };
        std::thread::scope(|scope| {
            // Fewer do as well: the caller is one of them.
            (1..threads).for_each(|_| drop(std::thread::Builder::new().spawn_scoped(scope, work)));
            work();
        });
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly our mapping, which nothing refers to any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_a_mapping_is_touched() {
        let mut mapping = Mapping::new(8 << 20).unwrap();
        mapping.touch();
        let mut resident = vec![0u8; (8 << 20) / rustix::param::page_size()];
        // SAFETY: our mapping, and a vector with one byte a page.
        let answer = unsafe { libc::mincore(mapping.start.as_ptr().cast(), mapping.length, resident.as_mut_ptr()) };
        assert_eq!(answer, 0);
        assert!(resident.iter().all(|page| page & 1 == 1));
    }
}

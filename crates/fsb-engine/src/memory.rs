//! Memory buffers for file data, memory that processes share, and the bytes of a file that the page
//! cache holds.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::{mem, slice};

use fsb_model::units::show_bytes;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;

use crate::error::EngineError;

/// The granularity of memory, and the strictest alignment that direct I/O asks for.
pub(crate) const PAGE: usize = 4096;
/// The size of a huge page, on the machines where huge pages matter.
const HUGE: usize = 2 << 20;

/// Page-aligned memory that was touched, so that its first page faults are not timed.
///
/// It is a separate mapping, in huge pages where it is large and the kernel has some. Reused memory
/// is scattered over small pages differently in each run, and that changes the speed at which the
/// kernel copies.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The start of the mapping.
    map: *mut u8,
    mapped: usize,
    /// The first aligned address in the mapping.
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping is owned like that of a box: the owner of the value is the only owner of the
// memory.
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
        let map =
            match unsafe { mmap_anonymous(ptr::null_mut(), mapped, access, MapFlags::PRIVATE) } {
                Ok(map) => map.cast::<u8>(),
                Err(_) => alloc::handle_alloc_error(
                    Layout::array::<u8>(length).unwrap_or(Layout::new::<u8>()),
                ),
            };
        let start = map.wrapping_add(map.align_offset(boundary));
        if boundary == HUGE {
            // Advice: where there are no huge pages, small ones do.
            // SAFETY: the range lies in the mapping, whose content it leaves alone.
            let _ = unsafe { madvise(start.cast(), usable, Advice::LinuxHugepage) };
        }
        let mut memory = Memory {
            map,
            mapped,
            start,
            length,
        };
        memory.as_mut().fill(0xa5);
        memory
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `length` bytes from there on, all of them written, and is
        // borrowed with `self`.
        unsafe { slice::from_raw_parts_mut(self.start, self.length) }
    }

    pub(crate) fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `as_mut`.
        unsafe { slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and no pointer into it is left. Unmapping a whole
        // existing mapping cannot fail.
        let _ = unsafe { munmap(self.map.cast(), self.mapped) };
    }
}

/// Refuses to keep `whole` bytes in memory if fewer are available. `what` names the consumer in the
/// message.
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

/// Returns the bytes that programs may still allocate, or `None` if the kernel does not report
/// them.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// A value in shared memory. Parent and children see the same value after a fork, as do all
/// processes that map one file. It is never dropped, so it should hold only atomics.
#[derive(Debug)]
pub(crate) struct SharedMemory<T> {
    value: NonNull<T>,
}

impl<T> SharedMemory<T> {
    /// Returns a value in anonymous memory.
    pub(crate) fn new(value: T) -> Result<SharedMemory<T>, EngineError> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let map = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                mem::size_of::<T>().max(1),
                protection,
                flags,
            )
        };
        let value_at = mapped(map)?;
        // SAFETY: the mapping is as large as a value, starts on a page, and no other thread has its
        // address yet.
        unsafe { value_at.write(value) };
        Ok(SharedMemory { value: value_at })
    }

    /// Returns the value that a file of its size holds.
    ///
    /// # Safety
    /// The bytes of the file are a value of the type, and only processes that map it so use the
    /// file.
    pub(crate) unsafe fn of_file(file: impl AsFd) -> Result<SharedMemory<T>, EngineError> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: as above.
        let map = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                mem::size_of::<T>(),
                protection,
                flags,
                file,
                0,
            )
        };
        Ok(SharedMemory {
            value: mapped(map)?,
        })
    }
}

fn mapped<T>(map: Result<*mut c_void, Errno>) -> Result<NonNull<T>, EngineError> {
    let map = map
        .map_err(|errno| EngineError::new(format!("map memory to share with workers: {errno}")))?;
    NonNull::new(map.cast::<T>()).ok_or_else(|| EngineError::new("memory was mapped at nothing"))
}

impl<T> Deref for SharedMemory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the memory holds a value from its creation on, stays mapped until it is dropped,
        // and is never handed out mutably.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for SharedMemory<T> {
    fn drop(&mut self) {
        // SAFETY: this is a mapping of that size, and no reference outlives `self`. A failure to
        // unmap it would only waste memory.
        let _ =
            unsafe { rustix::mm::munmap(self.value.as_ptr().cast(), mem::size_of::<T>().max(1)) };
    }
}

// SAFETY: the type gives out shared references only, so it may be sent wherever a shared reference
// may be.
unsafe impl<T: Sync> Send for SharedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedMemory<T> {}

/// Bytes of a file that one mapping covers.
const MAPPED: u64 = 1 << 30;

/// Returns the bytes of a file that the page cache holds, according to mincore. Returns `None` if a
/// call fails.
pub(crate) fn resident_bytes(file: &File, size: u64) -> Option<u64> {
    let mut resident = 0;
    let page = page_size() as u64;
    let mut pages = vec![0u8; size.min(MAPPED).div_ceil(page) as usize];
    let mut offset = 0;
    while offset < size {
        let length = MAPPED.min(size - offset);
        let flags = pages_in_core(file, offset, length as usize, &mut pages)?;
        for (index, flag) in flags.iter().enumerate() {
            if flag & 1 == 1 {
                resident += (length - index as u64 * page).min(page);
            }
        }
        offset += length;
    }
    Some(resident)
}

/// Writes one flag per page to `pages` and returns them. Returns `None` if a call fails.
fn pages_in_core<'p>(
    file: &File,
    offset: u64,
    length: usize,
    pages: &'p mut [u8],
) -> Option<&'p [u8]> {
    let count = length.div_ceil(page_size());
    let pages = pages.get_mut(..count)?;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory. Nothing
    // is read through it, and it is removed again. The call `mincore` writes one byte a page of the
    // mapping, for which `pages` has room.
    let told = unsafe {
        let offset = libc::off_t::try_from(offset).ok()?;
        let map = libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset,
        );
        if map == libc::MAP_FAILED {
            return None;
        }
        let told = libc::mincore(map, length, pages.as_mut_ptr()) == 0;
        libc::munmap(map, length);
        told
    };
    told.then_some(pages)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn buffers_larger_than_memory_are_refused() {
        check_room("the source", 0).unwrap();
        let error = check_room("the source", u64::MAX).unwrap_err();
        assert!(error.message.starts_with("the source needs "), "{error}");
    }

    #[test]
    fn memory_starts_on_a_boundary() {
        for (length, boundary) in [
            (0, PAGE),
            (1, PAGE),
            (4096, PAGE),
            (100_000, PAGE),
            (1 << 20, HUGE),
            (5 << 20, HUGE),
        ] {
            let mut memory = Memory::new(length);
            assert_eq!(memory.as_mut().as_ptr() as usize % boundary, 0);
            assert_eq!(memory.as_mut().len(), length);
            assert!(memory.as_ref().iter().all(|&byte| byte == 0xa5));
        }
    }

    #[test]
    fn a_file_just_read_is_resident_to_the_last_byte() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        // FUSE keeps no partly written pages.
        file.rewind().unwrap();
        file.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(resident_bytes(&file, 10_000), Some(10_000));
        assert_eq!(resident_bytes(&file, 0), Some(0));
    }
}

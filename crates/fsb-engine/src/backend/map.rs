//! Where in memory a file is mapped.
//!
//! The page cache keeps a file in folios of up to [`SPAN`] bytes. The first store to a page faults. Linux then maps the
//! whole folio at once, unless it does not lie in one page table; then each of its pages faults by itself, and the file
//! system looks at the whole folio each time. Which of the two a mapping gets depends on its address, which is random in
//! each process: a file of 1 MiB in one folio has one fault or 256, and is stored to a fifty times faster or slower. So
//! no mapping here crosses the border of a page table where it need not.

use std::ffi::c_void;
use std::ptr;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::data::PAGE;

/// What one page table maps where pages have 4 KiB.
const SPAN: usize = 2 << 20;

/// Maps the first `length` bytes of a file, at least one.
///
/// # Errors
/// The kernel's reason.
pub(crate) fn map(file: &OwnedFd, length: usize, access: ProtFlags, flags: MapFlags) -> Result<*mut u8, Errno> {
    let place = if length > PAGE { free_place(length)? } else { ptr::null_mut() };
    // SAFETY: a new mapping that replaces none disturbs no other memory: the place is a wish. Should another thread have
    // taken it in between, the kernel chooses.
    let start = unsafe { rustix::mm::mmap(place, length, access, flags, file, 0)? };
    Ok(start.cast())
}

/// An address where a page table begins, and where nothing is mapped: there was room for more than is needed.
fn free_place(length: usize) -> Result<*mut c_void, Errno> {
    let room = length.checked_add(SPAN).ok_or(Errno::NOMEM)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: as in `map`; nobody knows of the mapping before it is gone again.
    unsafe {
        let first = rustix::mm::mmap_anonymous(ptr::null_mut(), room, ProtFlags::empty(), flags)?;
        rustix::mm::munmap(first, room)?;
        Ok(first.map_addr(|address| address.next_multiple_of(SPAN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn crosses(start: usize, length: usize) -> bool {
        let before = start % SPAN;
        if length >= SPAN { before != 0 } else { before + length > SPAN }
    }

    /// The kernel puts one below the other, so that without care some would cross, whatever the first address was.
    #[test]
    fn no_mapping_crosses_and_all_show_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 300 * 1024]).unwrap();
        let file = OwnedFd::from(file);
        for length in [300 * 1024, 1, PAGE, 3 * PAGE + 5] {
            let places: Vec<*mut u8> = (0..64)
                .map(|_| map(&file, length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED).unwrap())
                .collect();
            for place in places {
                assert!(!crosses(place.addr(), length), "{place:?} + {length}");
                // SAFETY: the mapping has so many bytes, of a file that is at least as long.
                unsafe {
                    assert_eq!((place.read(), place.add(length - 1).read()), (7, 7));
                    rustix::mm::munmap(place.cast(), length).unwrap();
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(map(&reader, 4096, ProtFlags::READ, MapFlags::SHARED), Err(Errno::NODEV));
        assert_eq!(map(&reader, 5000, ProtFlags::READ, MapFlags::SHARED), Err(Errno::NODEV));
    }
}

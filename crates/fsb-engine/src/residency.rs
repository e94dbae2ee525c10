//! The number of bytes of a file in the page cache.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

use rustix::param::page_size;

/// Bytes of a file that one mapping covers.
const MAPPED: u64 = 1 << 30;

/// Returns the bytes of a file that the page cache holds, according to mincore. Returns `None` if a call fails.
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
fn pages_in_core<'p>(file: &File, offset: u64, length: usize, pages: &'p mut [u8]) -> Option<&'p [u8]> {
    let count = length.div_ceil(page_size());
    let pages = pages.get_mut(..count)?;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory. Nothing is read through it,
    // and it is removed again. The call `mincore` writes one byte a page of the mapping, for which `pages` has room.
    let told = unsafe {
        let offset = libc::off_t::try_from(offset).ok()?;
        let map = libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset);
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
    use super::*;
    use std::io::{Read, Seek, Write};

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

//! Shared mappings of files: memory that is the page cache of a file.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use rustix::param::page_size;

/// A shared mapping of a file's first bytes, for reading. Dropping it unmaps it.
///
/// The kernel sends SIGBUS to a process that touches a page that the file system fails to provide.
#[derive(Debug)]
pub struct FileMapping {
    start: NonNull<u8>,
    length: usize,
}

impl FileMapping {
    /// Maps the first `length` bytes of a file that is open for reading. The file must have them.
    ///
    /// # Errors
    /// `ENODEV` if the file system maps no files, and other errors of mmap(2).
    pub fn new(file: impl AsFd, length: usize) -> Result<FileMapping, Errno> {
        map(file, length, ProtFlags::READ)
    }

    /// Reads one byte of each page, so that all pages are in the page cache.
    pub fn touch(&self) {
        for offset in (0..self.length).step_by(page_size()) {
            // SAFETY: the offset is in the mapping. Other processes may write the byte, so that the
            // read is volatile and the value is not used.
            unsafe { self.start.as_ptr().add(offset).read_volatile() };
        }
    }

    /// Returns the number of pages that the page cache holds. It counts pages that this process has
    /// not touched, too.
    ///
    /// # Errors
    /// Fails if mincore(2) does.
    pub fn resident_pages(&self) -> Result<usize, Errno> {
        let mut pages = vec![0u8; self.length.div_ceil(page_size())];
        // SAFETY: the range is the mapping, and the vector has one byte per page.
        let answer =
            unsafe { libc::mincore(self.start.as_ptr().cast(), self.length, pages.as_mut_ptr()) };
        match answer {
            0 => Ok(pages.iter().filter(|page| **page & 1 == 1).count()),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
}

/// Writes `byte` to the first `length` bytes of a file through a shared mapping, and syncs the
/// mapping (MS_SYNC). The file must be open for reading and writing, and have the bytes.
///
/// # Errors
/// Fails if the file system does not map files, or cannot write a page.
pub fn write_mapped(file: impl AsFd, length: usize, byte: u8) -> Result<(), Errno> {
    let mapping = map(file, length, ProtFlags::READ | ProtFlags::WRITE)?;
    // SAFETY: the range is the mapping, which is writable.
    unsafe {
        mapping.start.as_ptr().write_bytes(byte, length);
        msync(mapping.start.as_ptr().cast(), length, MsyncFlags::SYNC)
    }
}

fn map(file: impl AsFd, length: usize, access: ProtFlags) -> Result<FileMapping, Errno> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { mmap(ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)? };
    let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
    Ok(FileMapping { start, length })
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: exactly our mapping, which nothing refers to any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn bytes_written_to_a_mapping_are_in_the_file_and_resident() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(3 * 4096).unwrap();
        write_mapped(&file, 3 * 4096, 7).unwrap();
        let mapping = FileMapping::new(&file, 3 * 4096).unwrap();
        mapping.touch();
        let pages = (3 * 4096_usize).div_ceil(page_size());
        assert_eq!(mapping.resident_pages().unwrap(), pages);
        drop(mapping);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, vec![7; 3 * 4096]);
    }

    #[test]
    fn a_pipe_cannot_be_mapped() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert!(FileMapping::new(&reader, 4096).is_err());
    }
}

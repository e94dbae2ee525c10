//! Shared mappings of files: memory that is the page cache of a file.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use rustix::param::page_size;

/// A shared mapping of a file's first bytes. Dropping it unmaps it.
///
/// The kernel sends SIGBUS to a process that touches a page that the file system fails to provide.
#[derive(Debug)]
pub struct FileMapping {
    start: NonNull<u8>,
    length: usize,
}

impl FileMapping {
    /// Maps the first `length` bytes of a file that is open for reading and writing. The file must
    /// have them, and no other process may shorten it.
    ///
    /// # Errors
    /// `ENODEV` if the file system maps no files, and other errors of mmap(2).
    pub fn new(file: impl AsFd, length: usize) -> Result<FileMapping, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap(ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        Ok(FileMapping { start, length })
    }

    /// Reads one byte of each page, so that all pages are in the page cache.
    pub fn touch(&self) {
        for offset in (0..self.length).step_by(page_size()) {
            // SAFETY: the offset is in the mapping. Other processes may write the byte, so that the
            // read is volatile and the value is not used.
            unsafe { self.start.as_ptr().add(offset).read_volatile() };
        }
    }

    /// Writes `byte` to the whole mapping.
    pub fn fill(&mut self, byte: u8) {
        // SAFETY: the range is the mapping, which is writable.
        unsafe { self.start.as_ptr().write_bytes(byte, self.length) };
    }

    /// Writes changed pages to the file (MS_SYNC).
    ///
    /// # Errors
    /// Fails if the file system cannot write a page.
    pub fn sync(&self) -> Result<(), Errno> {
        // SAFETY: the range is the mapping.
        unsafe { msync(self.start.as_ptr().cast(), self.length, MsyncFlags::SYNC) }
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
        let mut mapping = FileMapping::new(&file, 3 * 4096).unwrap();
        mapping.fill(7);
        mapping.touch();
        mapping.sync().unwrap();
        assert_eq!(
            mapping.resident_pages().unwrap(),
            (3 * 4096_usize).div_ceil(page_size())
        );
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

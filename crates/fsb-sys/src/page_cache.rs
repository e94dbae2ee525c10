//! The pages of a file that the page cache holds, and how many of them are not yet on the device:
//! cachestat(2), since Linux 6.5.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use crate::file_mapping::FileMapping;

/// The number of cachestat on all architectures but alpha (asm-generic/unistd.h of Linux 6.5).
const CACHESTAT: libc::c_long = 451;

/// The range of a file, as the kernel reads it. A length of 0 means up to the end.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// The pages of a file in the page cache (`struct cachestat` of Linux).
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CachedPages {
    /// Pages in the cache.
    pub cached: u64,
    /// Pages that were changed and are not being written.
    pub dirty: u64,
    /// Pages that are being written.
    pub writeback: u64,
    /// Pages that were evicted.
    pub evicted: u64,
    /// Pages that were evicted a short time ago.
    pub recently_evicted: u64,
}

impl CachedPages {
    /// Returns the pages that are not on the device.
    pub fn unwritten(&self) -> u64 {
        self.dirty + self.writeback
    }
}

/// Returns the pages of a file, or of a block device, that the page cache holds.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` if the file belongs to another user; `EOPNOTSUPP` if the
/// kernel counts none although a mapping of the file has pages. That is so on overlay, which passes
/// reads, writes and mappings on to the file of a layer: the kernel counts the pages of the
/// overlay's own file, which has none.
pub fn of_file(file: impl AsFd) -> Result<CachedPages, Errno> {
    let found = count(&file)?;
    if found == CachedPages::default() && is_mapped_elsewhere(&file) {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(found)
}

/// Returns whether a mapping of a regular file has pages in memory.
fn is_mapped_elsewhere(file: &impl AsFd) -> bool {
    let size = rustix::fs::fstat(file).map_or(0, |found| found.st_size);
    // A device has no size here. A file that cannot be mapped shows nothing.
    usize::try_from(size)
        .ok()
        .filter(|size| *size > 0)
        .and_then(|size| FileMapping::new(file, size).ok())
        .and_then(|mapping| mapping.resident_pages().ok())
        .is_some_and(|pages| pages > 0)
}

/// Makes the call.
fn count(file: &impl AsFd) -> Result<CachedPages, Errno> {
    let range = Range {
        offset: 0,
        length: 0,
    };
    let mut found = CachedPages::default();
    // SAFETY: the kernel reads `range` and writes `found`, and both live longer than the call.
    let result = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_fd().as_raw_fd(),
            &raw const range,
            &raw mut found,
            0,
        )
    };
    match result {
        0 => Ok(found),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn written_pages_are_dirty_until_they_are_synced() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&[1; 65_536]).unwrap();
        match of_file(&file) {
            Err(Errno::NOSYS) => eprintln!("this kernel has no cachestat"),
            found => assert!(found.unwrap().cached >= 16),
        }
        file.sync_all().unwrap();
        if let Ok(found) = of_file(&file) {
            assert_eq!(found.unwritten(), 0, "{found:?}");
        }
    }
}

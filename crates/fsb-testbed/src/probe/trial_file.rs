//! The files of a probe.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags, open, unlink};
use rustix::io::Errno;

/// Bytes of a file, unless a cell needs another size.
pub(super) const LENGTH: usize = 256 << 10;
/// The alignment of memory that direct I/O accepts everywhere.
const ALIGNMENT: usize = 4096;

/// The number of names that each cell has. No name is used twice, because davfs2 refuses to make a
/// file whose name was removed a moment ago (EACCES).
const NAMES_PER_CELL: usize = 4;

/// The number of the next name.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Gives the files of a cell other names than those of the other cells.
pub(super) fn begin_cell(index: usize) {
    NEXT.store(index * NAMES_PER_CELL, Ordering::Relaxed);
}

/// Returns a name in the working directory that no other file of the probe has.
pub(super) fn new_name() -> String {
    name(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn name(number: usize) -> String {
    format!("file-{number}")
}

/// A file in the working directory. Dropping it removes it.
///
/// It is opened again by descriptor, because another user may be able to exchange the name.
pub(super) struct TrialFile {
    name: String,
    /// Opened with O_PATH, so that the file system does not see it as open.
    place: OwnedFd,
}

impl TrialFile {
    /// Creates a file with flags, and returns it open.
    pub fn create(flags: OFlags) -> Result<(TrialFile, File), Errno> {
        let name = new_name();
        let flags = flags | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(open(&name, flags, Mode::RUSR | Mode::WUSR)?);
        match open_again(&file, OFlags::PATH) {
            Ok(place) => Ok((TrialFile { name, place }, file)),
            Err(errno) => {
                drop(file);
                let _ = unlink(&name);
                Err(errno)
            }
        }
    }

    /// Creates a file with `length` bytes, and closes it.
    pub fn with_bytes(length: usize) -> Result<TrialFile, Errno> {
        let (trial, file) = TrialFile::create(OFlags::empty())?;
        write(&file, &incompressible(length), 0)?;
        Ok(trial)
    }

    /// Returns its name in the working directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens it for reading and writing.
    pub fn open(&self, flags: OFlags) -> Result<File, Errno> {
        open_again(&self.place, flags | OFlags::RDWR).map(File::from)
    }

    /// Opens it for reading.
    pub fn open_to_read(&self) -> Result<File, Errno> {
        open_again(&self.place, OFlags::RDONLY).map(File::from)
    }
}

impl Drop for TrialFile {
    fn drop(&mut self) {
        // If the file system has died, nothing can be removed.
        let _ = unlink(&self.name);
    }
}

fn open_again(file: &impl AsRawFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

/// Removes what a killed process, or a server, left in the working directory. `cells` is the number
/// of cells.
pub(super) fn remove_all(cells: usize) {
    match std::fs::read_dir(".") {
        Ok(entries) => entries.flatten().for_each(|entry| {
            let _ = unlink(entry.path());
        }),
        // davfs2 cannot list directories on new kernels.
        Err(_) => (0..cells * NAMES_PER_CELL).for_each(|number| {
            let _ = unlink(name(number));
        }),
    }
}

/// Writes all bytes at an offset.
pub(super) fn write(file: &File, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    file.write_all_at(bytes, offset)
        .map_err(|error| number_of(&error))
}

/// Reads all bytes of the buffer at an offset.
pub(super) fn read(file: &File, bytes: &mut [u8], offset: u64) -> Result<(), Errno> {
    file.read_exact_at(bytes, offset)
        .map_err(|error| number_of(&error))
}

/// Returns the kernel's number of an error of the standard library. A file that is too short counts
/// as an I/O error.
fn number_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Bytes in memory that direct I/O can use.
pub(super) struct AlignedBytes {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBytes {
    pub fn new(length: usize) -> AlignedBytes {
        let mut memory = incompressible(length + ALIGNMENT);
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        memory.truncate(start + length);
        AlignedBytes { memory, start }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

/// Returns bytes that no file system can make smaller.
pub(super) fn incompressible(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        // Xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_direct_io_is_aligned() {
        for length in [100, 4096, 10_000] {
            let bytes = AlignedBytes::new(length);
            assert_eq!(bytes.as_slice().len(), length);
            assert_eq!(bytes.as_slice().as_ptr() as usize % ALIGNMENT, 0);
        }
    }
}

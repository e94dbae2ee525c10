//! The operations of PostMark, and the names of its files: a number, in one of its directories, in one of its locations.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fsb_model::postmark::{Act, FileName, Operation};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::EngineError;
use crate::backend::{Backend, Directory, Flush, OpenFlags, Session, Setup, Slot};
use crate::data::{Data, DataSource};
use crate::memory::Memory;

/// The content of files.
#[derive(Debug)]
pub(crate) enum FileContent<'c> {
    /// As in PostMark: the same text from its beginning, in each file and after each append.
    Text(&'c [u8]),
    /// Bytes from [`Data`] that depend on the file and on the offset in it.
    Addressed {
        /// The source of the bytes.
        data: Data,
        /// The distance from one file's first byte to the next one's.
        stride: u64,
        /// Address of the first file's first byte.
        first: u64,
    },
}

impl FileContent<'_> {
    /// Returns bytes by address, for files of up to `largest` bytes that are moved in blocks of up to `block`.
    pub(crate) fn addressed(source: DataSource, largest: u32, block: u32, rank: u32) -> FileContent<'static> {
        let data = Data::new(source, block.min(largest) as usize);
        // Whole blocks, so that no two files share one. Ranks are further apart than any number of files.
        FileContent::Addressed { data, stride: u64::from(largest).next_multiple_of(4096), first: u64::from(rank) << 50 }
    }

    /// Returns bytes of a file from `offset` on, for an operation that began at `at`.
    #[inline]
    fn window(&mut self, file: FileName, at: u32, offset: u32, length: usize) -> &[u8] {
        match self {
            FileContent::Text(text) => &text[(offset - at) as usize..][..length],
            FileContent::Addressed { data, stride, first } => {
                let begin = first.wrapping_add(u64::from(file.number).wrapping_mul(*stride));
                data.window(begin.wrapping_add(u64::from(offset)), length)
            }
        }
    }
}

/// The options of the operations on files.
#[derive(Clone, Copy)]
pub(crate) struct FileOpsOptions {
    /// Sessions of this backend make the calls.
    pub(crate) backend: &'static dyn Backend,
    /// Bytes of one read and of one write.
    pub(crate) read_block: u32,
    pub(crate) write_block: u32,
    /// Whether created or extended files are synced before they are closed.
    pub(crate) sync: bool,
    /// Whether read data is compared with the written data.
    pub(crate) verify: bool,
}

/// fopen's "w" and "a", for streams.
const STREAM_FLAGS: [OpenFlags; 2] = [
    flags(OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::TRUNC)),
    flags(OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::APPEND)),
];
/// The flags of PostMark without streams.
const CALL_FLAGS: [OpenFlags; 2] =
    [flags(OFlags::RDWR.union(OFlags::CREATE)), flags(OFlags::RDWR.union(OFlags::APPEND))];
/// The flags for reading, with and without streams.
const READ_FLAGS: OpenFlags = flags(OFlags::RDONLY);

const fn flags(flags: OFlags) -> OpenFlags {
    OpenFlags { flags, mode: Mode::from_raw_mode(0o644) }
}

/// Performs operations one after another. It does not allocate, but the C library does for each stream.
pub(crate) struct FileOps<'c> {
    names: PoolNames,
    options: FileOpsOptions,
    content: FileContent<'c>,
    memory: Memory,
    session: Box<dyn Session>,
    /// The flags for creating a file and for appending to it.
    write_flags: [OpenFlags; 2],
}

/// The base of relative names: the working directory.
const HERE: Directory = Directory(None);

impl<'c> FileOps<'c> {
    /// `largest` is the size of the largest file.
    pub(crate) fn new(
        names: PoolNames,
        options: FileOpsOptions,
        content: FileContent<'c>,
        largest: u32,
    ) -> Result<FileOps<'c>, EngineError> {
        let memory = Memory::new(options.read_block.min(largest) as usize);
        let session = options.backend.session(&Setup::plain(1))?;
        let write_flags = if options.backend.name() == "stdio" { STREAM_FLAGS } else { CALL_FLAGS };
        Ok(FileOps { names, options, content, memory, session, write_flags })
    }

    /// Returns the names and directories of the files.
    pub(crate) fn names(&mut self) -> &mut PoolNames {
        &mut self.names
    }

    #[inline]
    pub(crate) fn perform(&mut self, operation: &Operation) -> Result<(), EngineError> {
        let Operation { act, file, bytes } = *operation;
        match act {
            Act::Create => self.write(("create", self.write_flags[0]), file, 0, bytes),
            Act::Append { at } => self.write(("open to append to", self.write_flags[1]), file, at, bytes),
            Act::Read => self.read(file, bytes),
            Act::Delete => self.delete(file),
        }
    }

    fn open(&mut self, call: &str, flags: OpenFlags, file: FileName, size: u32) -> Result<Slot, EngineError> {
        let opened = self.session.open(&HERE, self.names.of(file), flags, u64::from(size));
        opened.map_err(|errno| self.refused(call, file, errno))
    }

    /// Writes whole blocks, then the rest, even if the rest is empty.
    fn write(
        &mut self,
        (call, flags): (&str, OpenFlags),
        file: FileName,
        at: u32,
        bytes: u32,
    ) -> Result<(), EngineError> {
        let slot = self.open(call, flags, file, at + bytes)?;
        let block = self.options.write_block;
        let mut moved = 0;
        loop {
            let length = block.min(bytes - moved);
            let window = self.content.window(file, at, at + moved, length as usize);
            if let Err(errno) = write_all(&mut *self.session, slot, window) {
                return Err(self.give_up("write to", file, slot, errno));
            }
            moved += length;
            if length < block {
                break;
            }
        }
        if self.options.sync
            && let Err(errno) = self.session.flush(slot, Flush::All)
        {
            return Err(self.give_up("fsync", file, slot, errno));
        }
        // A stream writes its last bytes only now.
        self.session.close(slot).map_err(|errno| self.refused("write to", file, errno))
    }

    fn read(&mut self, file: FileName, bytes: u32) -> Result<(), EngineError> {
        let slot = self.open("open to read", READ_FLAGS, file, bytes)?;
        let block = self.options.read_block;
        let mut moved = 0;
        loop {
            let length = block.min(bytes - moved);
            let memory = &mut self.memory.as_mut()[..length as usize];
            match read_all(&mut *self.session, slot, memory) {
                Ok(true) => {}
                Ok(false) => {
                    let _ = self.session.close(slot);
                    return Err(self.too_short(file, bytes));
                }
                Err(errno) => return Err(self.give_up("read from", file, slot, errno)),
            }
            if self.options.verify {
                self.compare(file, moved, length as usize)?;
            }
            moved += length;
            if length < block {
                break;
            }
        }
        self.session.close(slot).map_err(|errno| self.refused("close", file, errno))
    }

    fn delete(&mut self, file: FileName) -> Result<(), EngineError> {
        let removed = self.options.backend.namespace().unlink(&HERE, self.names.of(file));
        removed.map_err(|errno| self.refused("delete", file, errno))
    }

    /// Removes a file of an aborted run. A missing file is not an error, so that the others are removed, too.
    pub(crate) fn clear(&mut self, file: FileName) -> Result<(), EngineError> {
        match self.delete(file) {
            Err(error) if error.errno == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    /// Compares one block that was read with the expected bytes.
    fn compare(&mut self, file: FileName, offset: u32, length: usize) -> Result<(), EngineError> {
        let found = &self.memory.as_ref()[..length];
        let expected = self.content.window(file, 0, offset, length);
        match Data::difference(expected, found) {
            None => Ok(()),
            Some(at) => {
                let (expected, found) = (expected[at], found[at]);
                Err(EngineError::corrupted(&self.path(file), u64::from(offset) + at as u64, expected, found))
            }
        }
    }

    /// Closes a file after a refused call on it, ignores the result of the close, and returns the error.
    #[cold]
    fn give_up(&mut self, call: &str, file: FileName, slot: Slot, errno: Errno) -> EngineError {
        let _ = self.session.close(slot);
        self.refused(call, file, errno)
    }

    #[cold]
    fn refused(&mut self, call: &str, file: FileName, errno: Errno) -> EngineError {
        EngineError::call(call, self.path(file), errno)
    }

    #[cold]
    fn too_short(&mut self, file: FileName, bytes: u32) -> EngineError {
        let path = self.path(file);
        let message = format!("read from {}: it ended before the {bytes} bytes that were written", path.display());
        EngineError { message, errno: None, path: Some(path), inapplicable: false }
    }

    #[cold]
    fn path(&mut self, file: FileName) -> PathBuf {
        PathBuf::from(std::ffi::OsStr::from_bytes(self.names.of(file).to_bytes()))
    }
}

/// Writes all bytes in one call, or in several if the kernel takes fewer.
#[inline]
fn write_all(session: &mut dyn Session, slot: Slot, bytes: &[u8]) -> Result<(), Errno> {
    let mut written = session.write(slot, bytes)?;
    while written < bytes.len() {
        match session.write(slot, &bytes[written..])? {
            0 => return Err(Errno::NOSPC),
            more => written += more,
        }
    }
    Ok(())
}

/// Fills the memory in one call, or in several if fewer bytes arrive. Returns whether the file has that many.
#[inline]
fn read_all(session: &mut dyn Session, slot: Slot, memory: &mut [u8]) -> Result<bool, Errno> {
    let mut came = session.read(slot, memory)?;
    while came < memory.len() {
        match session.read(slot, &mut memory[came..])? {
            0 => return Ok(false),
            more => came += more,
        }
    }
    Ok(true)
}

/// The mode of created directories.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// The maximum number of digits of a 32-bit number.
const DIGITS: usize = 10;

/// Builds paths in memory that is reserved in advance.
#[derive(Debug)]
pub(crate) struct PoolNames {
    /// Each with its slash. A single empty one if files are in the working directory.
    locations: Vec<Vec<u8>>,
    /// The number in each location, or 0 if files are in the location itself.
    subdirectories: u32,
    /// Directories that this run created.
    made: Vec<PathBuf>,
    text: Vec<u8>,
}

impl PoolNames {
    /// Returns names in locations with subdirectories. As in PostMark, a single subdirectory counts as none.
    pub(crate) fn new(locations: &[PathBuf], subdirectories: u32) -> PoolNames {
        let with_slash = |path: &PathBuf| [path.as_os_str().as_bytes(), b"/"].concat();
        let mut locations: Vec<_> = locations.iter().map(with_slash).collect();
        if locations.is_empty() {
            locations.push(Vec::new());
        }
        let longest = locations.iter().map(Vec::len).max().unwrap_or(0);
        let subdirectories = if subdirectories > 1 { subdirectories } else { 0 };
        PoolNames { locations, subdirectories, made: Vec::new(), text: Vec::with_capacity(longest + 2 * DIGITS + 3) }
    }

    /// Returns the path of a file. It is valid until the next call.
    #[inline]
    pub(crate) fn of(&mut self, file: FileName) -> &CStr {
        self.text.clear();
        self.text.extend_from_slice(&self.locations[file.location as usize]);
        if self.subdirectories > 0 {
            self.text.push(b's');
            self.push_number(file.subdirectory);
            self.text.push(b'/');
        }
        self.push_number(file.number);
        self.text.push(0);
        // The locations hold no NUL, because the command language refuses it.
        CStr::from_bytes_until_nul(&self.text).unwrap_or_default()
    }

    #[inline]
    fn push_number(&mut self, mut number: u32) {
        let mut digits = [0; DIGITS];
        let mut first = DIGITS;
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.text.extend_from_slice(&digits[first..]);
    }

    /// Creates the subdirectories of all locations. A location that is named twice gets them once.
    pub(crate) fn make_directories(&mut self) -> Result<(), EngineError> {
        let mut known = Vec::new();
        for location in &self.locations {
            let location = if location.is_empty() { b"." } else { location.as_slice() };
            let location = Path::new(std::ffi::OsStr::from_bytes(location));
            let found = rustix::fs::stat(location).map_err(|errno| EngineError::call("stat", location, errno))?;
            let place = (found.st_dev, found.st_ino);
            if known.contains(&place) {
                continue;
            }
            known.push(place);
            for number in 0..self.subdirectories {
                let path = location.join(format!("s{number}"));
                rustix::fs::mkdir(&path, DIRECTORY_MODE)
                    .map_err(|errno| EngineError::call("make directory", &path, errno))?;
                self.made.push(path);
            }
        }
        Ok(())
    }

    /// Removes the directories that this run created.
    pub(crate) fn remove_directories(&mut self) -> Result<(), EngineError> {
        for path in std::mem::take(&mut self.made) {
            rustix::fs::rmdir(&path).map_err(|errno| EngineError::call("remove directory", &path, errno))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_as_postmark_calls_them() {
        let file = FileName { number: 4_294_967_295, location: 1, subdirectory: 10 };
        let mut names = PoolNames::new(&["/a".into(), "b".into()], 11);
        assert_eq!(names.of(file), c"b/s10/4294967295");
        let capacity = names.text.capacity();
        names.of(FileName { number: 1, location: 0, subdirectory: 0 });
        assert_eq!((names.of(file), capacity), (c"b/s10/4294967295", capacity));
        let first = FileName { number: 1, location: 0, subdirectory: 0 };
        assert_eq!(PoolNames::new(&[], 1).of(first), c"1");
        assert_eq!(PoolNames::new(&["/x".into()], 0).of(first), c"/x/1");
    }
}

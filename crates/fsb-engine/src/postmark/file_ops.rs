//! Doing one operation.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use fsb_model::postmark::{Act, FileName, Operation};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::names::PoolNames;
use crate::EngineError;
use crate::backend::{Backend, Directory, Flush, OpenFlags, Session, Setup, Slot};
use crate::data::{Data, DataSource};
use crate::memory::Memory;

/// What files are filled with.
#[derive(Debug)]
pub(crate) enum FileContent<'c> {
    /// As of PostMark: the same text from its beginning, in each file and after each append.
    Text(&'c [u8]),
    /// Bytes that depend on the file and the place in it, of [`Data`].
    Addressed {
        /// Where they come from.
        data: Data,
        /// From one file's first byte to the next one's.
        stride: u64,
        /// Address of the first file's first byte.
        first: u64,
    },
}

impl FileContent<'_> {
    /// Bytes by address, of files of up to `largest` bytes that are moved in blocks of up to `block`.
    pub(crate) fn addressed(source: DataSource, largest: u32, block: u32, rank: u32) -> FileContent<'static> {
        let data = Data::new(source, block.min(largest) as usize);
        // Whole blocks, so that no two files share one; ranks are further apart than any number of files.
        FileContent::Addressed { data, stride: u64::from(largest).next_multiple_of(4096), first: u64::from(rank) << 50 }
    }

    /// The bytes of a file from `offset` on, of which an operation that began at `at` moves some.
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

/// How files are touched.
#[derive(Clone, Copy)]
pub(crate) struct FileOpsOptions {
    /// Sessions of this backend make the calls.
    pub(crate) backend: &'static dyn Backend,
    /// Bytes of one read and of one write.
    pub(crate) read_block: u32,
    pub(crate) write_block: u32,
    /// What was created or appended to is brought onto the device before it is closed.
    pub(crate) sync: bool,
    /// What is read is compared with what was written.
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
/// How both open a file to read it.
const READ_FLAGS: OpenFlags = flags(OFlags::RDONLY);

const fn flags(flags: OFlags) -> OpenFlags {
    OpenFlags { flags, mode: Mode::from_raw_mode(0o644) }
}

/// Does operations, one after another. It allocates nothing of its own; the C library does for each stream.
pub(crate) struct FileOps<'c> {
    names: PoolNames,
    options: FileOpsOptions,
    content: FileContent<'c>,
    memory: Memory,
    session: Box<dyn Session>,
    /// How files are opened to be created, and to be appended to.
    write_flags: [OpenFlags; 2],
}

/// What names are relative to, unless they begin with a slash.
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

    /// The directories.
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

    /// Blocks, then what does not fill one, even where that is nothing.
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

    /// Removes a file of a run that did not reach its end: one that is not there is no reason to leave the others.
    pub(crate) fn clear(&mut self, file: FileName) -> Result<(), EngineError> {
        match self.delete(file) {
            Err(error) if error.errno == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    /// What a stream reads ahead or behind is not seen: each block is compared as it came.
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

    /// A call on a file that is open was refused: nobody is told what becomes of it when it is closed.
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

/// Writes all bytes in one call, or in more where the kernel takes fewer.
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

/// Fills the memory in one call, or in more where fewer bytes come; whether the file has that many.
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

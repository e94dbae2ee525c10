//! Doing one operation.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use fsb_model::postmark::{Act, FileName, Operation};
use rustix::io::Errno;

pub(crate) use super::file::Means;
use super::file::{File, Purpose};
use super::names::Names;
use crate::EngineError;
use crate::data::{Data, Memory};

/// What files are filled with.
#[derive(Debug)]
pub(crate) enum Content<'c> {
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

impl Content<'_> {
    /// Bytes by address, of files of up to `largest` bytes that are moved in blocks of up to `block`.
    pub(crate) fn addressed(seed: u64, largest: u32, block: u32, rank: u32) -> Content<'static> {
        let data = Data::new(seed, block.min(largest) as usize);
        // Whole sectors, so that no two files share one; ranks are further apart than any number of files.
        Content::Addressed { data, stride: u64::from(largest).next_multiple_of(512), first: u64::from(rank) << 50 }
    }

    /// The bytes of a file from `offset` on, of which an operation that began at `at` moves some.
    #[inline]
    fn window(&mut self, file: FileName, at: u32, offset: u32, length: usize) -> &[u8] {
        match self {
            Content::Text(text) => &text[(offset - at) as usize..][..length],
            Content::Addressed { data, stride, first } => {
                let begin = first.wrapping_add(u64::from(file.number).wrapping_mul(*stride));
                data.window(begin.wrapping_add(u64::from(offset)), length)
            }
        }
    }
}

/// How files are touched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileOpsOptions {
    pub(crate) means: Means,
    /// Bytes of one read and of one write.
    pub(crate) read_block: u32,
    pub(crate) write_block: u32,
    /// What was created or appended to is brought onto the device before it is closed.
    pub(crate) sync: bool,
    /// What is read is compared with what was written.
    pub(crate) verify: bool,
}

/// Does operations, one after another. It allocates nothing of its own; the C library does for each stream.
#[derive(Debug)]
pub(crate) struct FileOps<'c> {
    names: Names,
    options: FileOpsOptions,
    content: Content<'c>,
    memory: Memory,
}

impl<'c> FileOps<'c> {
    /// `largest` is the size of the largest file.
    pub(crate) fn new(names: Names, options: FileOpsOptions, content: Content<'c>, largest: u32) -> FileOps<'c> {
        FileOps { names, options, content, memory: Memory::new(options.read_block.min(largest) as usize) }
    }

    /// The directories.
    pub(crate) fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Does it.
    #[inline]
    pub(crate) fn perform(&mut self, operation: &Operation) -> Result<(), EngineError> {
        let Operation { act, file, bytes } = *operation;
        match act {
            Act::Create => self.write(Purpose::Create, file, 0, bytes),
            Act::Append { at } => self.write(Purpose::Append, file, at, bytes),
            Act::Read => self.read(file, bytes),
            Act::Delete => self.delete(file),
        }
    }

    fn open(&mut self, purpose: Purpose, file: FileName) -> Result<File, EngineError> {
        let opened = File::open(self.options.means, self.names.of(file), purpose);
        let call = match purpose {
            Purpose::Create => "create",
            Purpose::Read => "open to read",
            Purpose::Append => "open to append to",
        };
        opened.map_err(|errno| self.refused(call, file, errno))
    }

    /// Blocks, then what does not fill one, even where that is nothing.
    fn write(&mut self, purpose: Purpose, file: FileName, at: u32, bytes: u32) -> Result<(), EngineError> {
        let mut open = self.open(purpose, file)?;
        let block = self.options.write_block;
        let mut moved = 0;
        loop {
            let length = block.min(bytes - moved);
            let window = self.content.window(file, at, at + moved, length as usize);
            if let Err(errno) = open.write(window) {
                return Err(self.refused("write to", file, errno));
            }
            moved += length;
            if length < block {
                break;
            }
        }
        if self.options.sync
            && let Err(errno) = open.sync()
        {
            return Err(self.refused("fsync", file, errno));
        }
        // A stream writes its last bytes only now.
        open.close().map_err(|errno| self.refused("write to", file, errno))
    }

    fn read(&mut self, file: FileName, bytes: u32) -> Result<(), EngineError> {
        let mut open = self.open(Purpose::Read, file)?;
        let block = self.options.read_block;
        let mut moved = 0;
        loop {
            let length = block.min(bytes - moved);
            let memory = &mut self.memory.as_mut()[..length as usize];
            match open.read(memory) {
                Ok(came) if came == memory.len() => {}
                Ok(_) => return Err(self.too_short(file, bytes)),
                Err(errno) => return Err(self.refused("read from", file, errno)),
            }
            if self.options.verify {
                self.compare(file, moved, length as usize)?;
            }
            moved += length;
            if length < block {
                break;
            }
        }
        open.close().map_err(|errno| self.refused("close", file, errno))
    }

    fn delete(&mut self, file: FileName) -> Result<(), EngineError> {
        if self.options.means == Means::Nothing {
            return Ok(());
        }
        let removed = rustix::fs::unlink(self.names.of(file));
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

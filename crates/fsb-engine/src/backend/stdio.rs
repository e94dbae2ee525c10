//! The C library's streams: `fread` and `fwrite` with the buffer that the library chooses.
//!
//! Written data is in the library's buffer until the buffer is full, flushed or closed, so a device
//! error may be reported that late. A stream has its own position, so `fseeko` runs only for a
//! record that does not begin at the end of the last one. The call discards the buffer.

use std::ffi::CStr;
use std::ptr::NonNull;

use rustix::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::{OFlags, Timestamps};
use rustix::io::Errno;

use super::files::{self, SlotTable};
use super::{
    Backend, Capabilities, Directory, FileSlot, Flush, IoRequest, OpenFlags, Queued, Session,
    SessionSetup, Verb,
};
use crate::error::EngineError;

/// The registry entry.
#[derive(Debug)]
pub(crate) struct Stdio;

/// The open flags of fopen's "r", "w" and "a".
const OPENED: [(OFlags, &CStr); 3] = [
    (OFlags::RDONLY, c"r"),
    (
        OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::TRUNC),
        c"w",
    ),
    (
        OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::APPEND),
        c"a",
    ),
];

impl Backend for Stdio {
    fn name(&self) -> &'static str {
        "stdio"
    }

    fn about(&self) -> &'static str {
        "fread and fwrite of the C library, with the buffer that it chooses"
    }

    fn capabilities(&self) -> Capabilities {
        // Other streams see the data that one stream has written only later.
        Capabilities {
            sequential: false,
            ..Capabilities::PLAIN
        }
    }

    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(StdioSession {
            files: SlotTable::new(setup),
        }))
    }
}

struct StdioSession {
    files: SlotTable<Positioned>,
}

/// An open stream and its position.
struct Positioned {
    stream: Stream,
    /// The offset of the next byte, if it is known.
    position: Option<u64>,
    appends: bool,
}

impl StdioSession {
    fn put(&mut self, slot: FileSlot, stream: Stream, appends: bool) -> FileSlot {
        let position = if appends { None } else { Some(0) };
        self.files.put(
            slot,
            Positioned {
                stream,
                position,
                appends,
            },
        );
        slot
    }
}

impl Session for StdioSession {
    /// Uses fopen if it has such flags and the path needs no directory, otherwise open and fdopen.
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        _size: u64,
    ) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        let appends = flags.flags.contains(OFlags::APPEND);
        let named = OPENED
            .iter()
            .find(|(known, _)| at.0.is_none() && *known == flags.flags);
        let stream = match named {
            Some((_, mode)) => Stream::open(path, mode)?,
            None => return self.adopt(files::open(at, path, flags)?, flags),
        };
        Ok(self.put(slot, stream, appends))
    }

    fn adopt(
        &mut self,
        file: OwnedFd,
        OpenFlags { flags, .. }: OpenFlags,
    ) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        let appends = flags.contains(OFlags::APPEND);
        let mode = match flags & OFlags::RWMODE {
            _ if appends => c"a",
            // `fdopen` does not truncate. `open` has done that.
            OFlags::WRONLY => c"w",
            OFlags::RDWR => c"r+",
            _ => c"r",
        };
        Ok(self.put(slot, Stream::from_descriptor(file, mode)?, appends))
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        self.files.take(slot)?.stream.close()
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let file = self.files.get_mut(request.slot)?;
        file.seek(request.offset)?;
        // SAFETY: the caller vouches for the memory until this call returns.
        let memory = unsafe { std::slice::from_raw_parts_mut(request.memory, request.length) };
        match request.verb {
            Verb::Read => file.read(memory),
            Verb::Write => file.write(memory),
        }
        .map(Queued::Done)
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        let file = self.files.get_mut(slot)?;
        file.flush()?;
        files::flush(file.stream.descriptor(), what)
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(|file| file.stream.descriptor())
    }

    fn read_at(
        &mut self,
        slot: FileSlot,
        memory: &mut [u8],
        offset: u64,
        _size: u64,
    ) -> Result<usize, Errno> {
        let file = self.files.get_mut(slot)?;
        file.seek(offset)?;
        file.read(memory)
    }

    fn write_at(&mut self, slot: FileSlot, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let file = self.files.get_mut(slot)?;
        file.seek(offset)?;
        file.write(bytes)
    }

    #[inline]
    fn read(&mut self, slot: FileSlot, memory: &mut [u8]) -> Result<usize, Errno> {
        self.files.get_mut(slot)?.read(memory)
    }

    #[inline]
    fn write(&mut self, slot: FileSlot, bytes: &[u8]) -> Result<usize, Errno> {
        self.files.get_mut(slot)?.write(bytes)
    }

    fn seek_to_end(&mut self, slot: FileSlot, _size: u64) -> Result<u64, Errno> {
        let file = self.files.get_mut(slot)?;
        let end = file.stream.seek(0, libc::SEEK_END)?;
        file.position = (!file.appends).then_some(end);
        Ok(end)
    }

    /// Flushes first. Otherwise a later write of the buffer would change the time again.
    fn set_times(&mut self, slot: FileSlot, times: &Timestamps) -> Result<(), Errno> {
        let file = self.files.get_mut(slot)?;
        file.flush()?;
        rustix::fs::futimens(file.stream.descriptor(), times)
    }

    /// Flushes first. Otherwise a later write of the buffer would make the file longer again.
    fn truncate(&mut self, slot: FileSlot, size: u64) -> Result<(), Errno> {
        let file = self.files.get_mut(slot)?;
        file.flush()?;
        files::truncate(file.stream.descriptor(), size)
    }

    fn rewind(&mut self, slot: FileSlot) -> Result<(), Errno> {
        self.files.get_mut(slot)?.seek(0)
    }
}

impl Positioned {
    #[inline]
    fn seek(&mut self, offset: u64) -> Result<(), Errno> {
        if self.appends || self.position == Some(offset) {
            return Ok(());
        }
        self.position = None;
        let wanted = libc::off_t::try_from(offset).map_err(|_| Errno::FBIG)?;
        self.position = Some(self.stream.seek(wanted, libc::SEEK_SET)?);
        Ok(())
    }

    #[inline]
    fn read(&mut self, memory: &mut [u8]) -> Result<usize, Errno> {
        let moved = self.stream.read(memory);
        self.moved(moved)
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let moved = self.stream.write(bytes);
        self.moved(moved)
    }

    fn flush(&mut self) -> Result<(), Errno> {
        let flushed = self.stream.flush();
        if flushed.is_err() {
            self.position = None;
        }
        flushed
    }

    /// Advances the position. After an error the position is unknown, because part of the buffer
    /// may have been written.
    #[inline]
    fn moved(&mut self, moved: Result<usize, Errno>) -> Result<usize, Errno> {
        self.position = self
            .position
            .zip(moved.ok())
            .map(|(position, moved)| position + moved as u64);
        moved
    }
}

/// An open `FILE`. If it is dropped without [`Stream::close`], it is closed and write errors are
/// lost.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Absent once it is closed.
    file: Option<NonNull<libc::FILE>>,
    /// The memory of the library's buffer, if `set_buffer` has supplied one.
    _buffer: Vec<u8>,
}

impl Stream {
    /// fopen(3).
    pub(crate) fn open(path: &CStr, mode: &CStr) -> Result<Stream, Errno> {
        // SAFETY: two C strings that live until the call returns.
        let file = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
        let file = NonNull::new(file).ok_or_else(files::last_errno)?;
        Ok(Stream {
            file: Some(file),
            _buffer: Vec::new(),
        })
    }

    /// fdopen(3), for a descriptor that was opened in a way that fits the mode.
    fn from_descriptor(descriptor: OwnedFd, mode: &CStr) -> Result<Stream, Errno> {
        // SAFETY: the descriptor is open and owned here. If the library does not take it, it is
        // closed on return.
        let file = unsafe { libc::fdopen(descriptor.as_raw_fd(), mode.as_ptr()) };
        let file = NonNull::new(file).ok_or_else(files::last_errno)?;
        // The library owns the descriptor now.
        let _ = descriptor.into_raw_fd();
        Ok(Stream {
            file: Some(file),
            _buffer: Vec::new(),
        })
    }

    /// Returns the stream, which is open until [`Stream::close`] or the end of `self`.
    #[inline]
    fn file(&self) -> *mut libc::FILE {
        self.file.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the stream is open, and its descriptor with it, as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(libc::fileno(self.file())) }
    }

    /// setvbuf(3): a buffer of `size` bytes.
    pub(crate) fn set_buffer(&mut self, size: usize) -> Result<(), Errno> {
        let mut buffer = vec![0u8; size];
        // SAFETY: the stream is open and nothing was read or written yet; the buffer's memory does
        // not move when the vector does, and is kept until the stream is closed.
        let set =
            unsafe { libc::setvbuf(self.file(), buffer.as_mut_ptr().cast(), libc::_IOFBF, size) };
        self._buffer = buffer;
        if set == 0 {
            Ok(())
        } else {
            Err(files::last_errno())
        }
    }

    /// fread(3) until the memory is full or the file ends.
    #[inline]
    pub(crate) fn read(&mut self, memory: &mut [u8]) -> Result<usize, Errno> {
        let mut moved = 0;
        while moved < memory.len() {
            let rest = &mut memory[moved..];
            // SAFETY: the stream is open, and the memory is ours to write to.
            let count =
                unsafe { libc::fread(rest.as_mut_ptr().cast(), 1, rest.len(), self.file()) };
            moved += count;
            if moved < memory.len() && !self.goes_on()? {
                break;
            }
        }
        Ok(moved)
    }

    /// fwrite(3).
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut moved = 0;
        while moved < bytes.len() {
            let rest = &bytes[moved..];
            // SAFETY: the stream is open, and the bytes are initialised.
            let count = unsafe { libc::fwrite(rest.as_ptr().cast(), 1, rest.len(), self.file()) };
            moved += count;
            if moved < bytes.len() && !self.goes_on()? {
                break;
            }
        }
        Ok(moved)
    }

    /// Returns whether to continue after a short transfer. Returns `false` at the end of the file.
    #[cold]
    fn goes_on(&mut self) -> Result<bool, Errno> {
        let errno = files::last_errno();
        // SAFETY: the stream is open.
        let failed = unsafe { libc::ferror(self.file()) } != 0;
        // SAFETY: as above.
        unsafe { libc::clearerr(self.file()) };
        match errno {
            _ if !failed => Ok(false),
            Errno::INTR => Ok(true),
            errno => Err(errno),
        }
    }

    /// fseeko(3). Returns the new position.
    fn seek(&mut self, offset: libc::off_t, whence: libc::c_int) -> Result<u64, Errno> {
        // SAFETY: the stream is open.
        self.again_if_interrupted(|file| unsafe { libc::fseeko(file, offset, whence) })?;
        match whence {
            libc::SEEK_SET => Ok(offset as u64),
            _ => {
                // SAFETY: the stream is open.
                let place = unsafe { libc::ftello(self.file()) };
                u64::try_from(place).map_err(|_| files::last_errno())
            }
        }
    }

    /// fflush(3).
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        // SAFETY: the stream is open.
        self.again_if_interrupted(|file| unsafe { libc::fflush(file) })
    }

    /// Repeats the call if a signal interrupts it. Clears the stream's error state after any error.
    fn again_if_interrupted(
        &mut self,
        call: impl Fn(*mut libc::FILE) -> libc::c_int,
    ) -> Result<(), Errno> {
        while call(self.file()) != 0 {
            let errno = files::last_errno();
            // SAFETY: the stream is open.
            unsafe { libc::clearerr(self.file()) };
            if errno != Errno::INTR {
                return Err(errno);
            }
        }
        Ok(())
    }

    /// fclose(3): writes the rest of the buffer, closes the stream and returns the library's
    /// result.
    pub(crate) fn close(&mut self) -> Result<(), Errno> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        // SAFETY: the stream is open, and `take` makes sure that it is closed once.
        if unsafe { libc::fclose(file.as_ptr()) } == 0 {
            Ok(())
        } else {
            Err(files::last_errno())
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A stream that is dropped while open has failed before, and the caller reports that
        // earlier error.
        let _ = self.close();
    }
}

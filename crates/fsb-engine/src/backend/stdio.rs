//! The C library's streams: `fread` and `fwrite` with the buffer that the library chooses.
//!
//! What is written lies in the library's buffer until that is full, or until it is flushed or closed: an error of the
//! device may come that late. A stream has a position of its own, so only a record that does not begin where the last
//! one ended costs an `fseeko`, which throws the buffer away.

use std::ffi::CStr;

use rustix::fd::{BorrowedFd, IntoRawFd};
use rustix::io::Errno;

use super::files::{self, Table, open_flags};
use super::{Backend, Capabilities, Directory, Flush, IoRequest, Purpose, Queued, Session, Setup, Slot, Verb};
use crate::EngineError;

/// The member.
#[derive(Debug)]
pub(crate) struct Stdio;

impl Backend for Stdio {
    fn name(&self) -> &'static str {
        "stdio"
    }

    fn about(&self) -> &'static str {
        "fread and fwrite of the C library, with the buffer that it chooses"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PLAIN
    }

    fn session(&self, setup: &Setup) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(StdioSession { streams: Table::new(setup) }))
    }
}

struct StdioSession {
    streams: Table<Stream>,
}

impl Session for StdioSession {
    fn open(&mut self, at: &Directory, path: &CStr, purpose: Purpose, _size: u64) -> Result<Slot, Errno> {
        let slot = self.streams.free()?;
        let mode = match purpose {
            Purpose::Read => c"r",
            // `fdopen` truncates nothing: that was for `open` to do.
            Purpose::Write | Purpose::Create => c"w",
            Purpose::Append => c"a",
        };
        let file = files::open(at, path, open_flags(purpose))?.into_raw_fd();
        // SAFETY: the descriptor is open and nobody else's; the mode fits the flags that it was opened with.
        let stream = unsafe { libc::fdopen(file, mode.as_ptr()) };
        if stream.is_null() {
            let errno = files::last_errno();
            // SAFETY: the library did not take the descriptor.
            let _ = unsafe { rustix::io::try_close(file) };
            return Err(errno);
        }
        let position = if purpose == Purpose::Append { None } else { Some(0) };
        self.streams.put(slot, Stream { stream, position, appends: purpose == Purpose::Append });
        Ok(slot)
    }

    fn close(&mut self, slot: Slot) -> Result<(), Errno> {
        self.streams.take(slot)?.close()
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let stream = self.streams.get_mut(request.slot)?;
        stream.seek(request.offset)?;
        // SAFETY: the caller vouches for the memory until this call returns.
        unsafe { stream.transfer(request) }.map(Queued::Done)
    }

    fn flush(&mut self, slot: Slot, what: Flush) -> Result<(), Errno> {
        self.streams.get_mut(slot)?.flush(what)
    }
}

/// An open stream.
#[derive(Debug)]
struct Stream {
    stream: *mut libc::FILE,
    /// Where the next byte goes or comes from, where that is known.
    position: Option<u64>,
    appends: bool,
}

impl Stream {
    #[inline]
    fn seek(&mut self, offset: u64) -> Result<(), Errno> {
        if self.appends || self.position == Some(offset) {
            return Ok(());
        }
        let wanted = libc::off_t::try_from(offset).map_err(|_| Errno::FBIG)?;
        // SAFETY: the stream is open.
        self.again_if_interrupted(|stream| unsafe { libc::fseeko(stream, wanted, libc::SEEK_SET) })?;
        self.position = Some(offset);
        Ok(())
    }

    /// Moves the record, or as much of it as there is.
    ///
    /// # Safety
    ///
    /// As of [`Session::queue`].
    #[inline]
    unsafe fn transfer(&mut self, request: &IoRequest) -> Result<usize, Errno> {
        let mut moved = 0;
        while moved < request.length {
            let (memory, rest) = (request.memory.wrapping_add(moved).cast(), request.length - moved);
            // SAFETY: the stream is open, and the caller vouches for the memory.
            let count = unsafe {
                match request.verb {
                    Verb::Read => libc::fread(memory, 1, rest, self.stream),
                    Verb::Write => libc::fwrite(memory, 1, rest, self.stream),
                }
            };
            moved += count;
            if count < rest && !self.goes_on()? {
                break;
            }
        }
        self.position = self.position.map(|position| position + moved as u64);
        Ok(moved)
    }

    /// After a transfer that did less than it was asked to: whether to go on, which the end of the file ends.
    #[cold]
    fn goes_on(&mut self) -> Result<bool, Errno> {
        let errno = files::last_errno();
        // SAFETY: the stream is open.
        if unsafe { libc::ferror(self.stream) } != 0 {
            return self.forgive(errno).map(|()| true);
        }
        // SAFETY: as above.
        unsafe { libc::clearerr(self.stream) };
        Ok(false)
    }

    /// Makes the stream usable again after an error; signals are forgiven.
    #[cold]
    fn forgive(&mut self, errno: Errno) -> Result<(), Errno> {
        // SAFETY: the stream is open.
        unsafe { libc::clearerr(self.stream) };
        if errno == Errno::INTR {
            return Ok(());
        }
        // Nobody knows how much of the buffer got through.
        self.position = None;
        Err(errno)
    }

    fn flush(&mut self, what: Flush) -> Result<(), Errno> {
        // SAFETY: the stream is open.
        self.again_if_interrupted(|stream| unsafe { libc::fflush(stream) })?;
        // SAFETY: the descriptor is the stream's, which stays open for as long as it is borrowed.
        let file = unsafe { BorrowedFd::borrow_raw(libc::fileno(self.stream)) };
        files::flush(file, what)
    }

    fn again_if_interrupted(&mut self, call: impl Fn(*mut libc::FILE) -> libc::c_int) -> Result<(), Errno> {
        while call(self.stream) != 0 {
            self.forgive(files::last_errno())?;
        }
        Ok(())
    }

    /// Writes what is left, closes the stream and reports what the library says about that.
    fn close(self) -> Result<(), Errno> {
        let stream = std::mem::ManuallyDrop::new(self).stream;
        // SAFETY: the stream is open, and is given up whatever comes back.
        if unsafe { libc::fclose(stream) } == 0 { Ok(()) } else { Err(files::last_errno()) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open. Who drops it does not ask what became of the rest.
        unsafe { libc::fclose(self.stream) };
    }
}

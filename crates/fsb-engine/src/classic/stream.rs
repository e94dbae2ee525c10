//! C stdio, the real one: fopen, fwrite, fread, fclose, with a buffer of one record.

use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::content::Content;
use super::files;
use super::phase::{Operation, Phase, PhaseError};
use super::records::{Fault, READ, Records, WRITE};
use crate::EngineError;
use crate::data::Memory;

pub(super) struct Stream<'p> {
    phase: &'p Phase,
    file: File,
    content: Content,
    record: Memory,
}

/// A FILE and the buffer that it was given, which must live as long.
struct File {
    stream: Option<NonNull<libc::FILE>>,
    _buffer: Vec<u8>,
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl File {
    fn open(path: &Path, mode: &std::ffi::CStr) -> Result<File, Errno> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
        // SAFETY: two C strings that live until the call returns.
        let stream = unsafe { libc::fopen(name.as_ptr(), mode.as_ptr()) };
        let stream = NonNull::new(stream).ok_or_else(last_error)?;
        Ok(File { stream: Some(stream), _buffer: Vec::new() })
    }

    /// The stream; it is open until [`File::close`] or the end of `self`.
    fn stream(&self) -> *mut libc::FILE {
        self.stream.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the stream is open, and its descriptor with it, as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(libc::fileno(self.stream())) }
    }

    fn set_buffer(&mut self, size: usize) -> Result<(), Errno> {
        let mut buffer = vec![0u8; size];
        // SAFETY: the stream is open and nothing was read or written yet; the buffer's memory does not move when the
        // vector does, and is kept until the stream is closed.
        let set = unsafe { libc::setvbuf(self.stream(), buffer.as_mut_ptr().cast(), libc::_IOFBF, size) };
        self._buffer = buffer;
        if set == 0 { Ok(()) } else { Err(last_error()) }
    }

    fn flush(&mut self) -> Result<(), Errno> {
        // SAFETY: the stream is open.
        if unsafe { libc::fflush(self.stream()) } == 0 { Ok(()) } else { Err(last_error()) }
    }

    fn close(&mut self) -> Result<(), Errno> {
        let Some(stream) = self.stream.take() else { return Ok(()) };
        // SAFETY: the stream is open, and `take` makes sure that it is closed once.
        if unsafe { libc::fclose(stream.as_ptr()) } == 0 { Ok(()) } else { Err(last_error()) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Only a pass that failed still has its stream; its own error is the one to tell.
        let _ = self.close();
    }
}

impl<'p> Stream<'p> {
    pub(super) fn open(phase: &'p Phase) -> Result<Stream<'p>, PhaseError> {
        let mode = match phase.operation {
            Operation::Fread => c"r",
            Operation::Fwrite if !phase.path.exists() => c"w+",
            _ => c"r+",
        };
        let file = File::open(&phase.path, mode).map_err(|errno| EngineError::call("open", &phase.path, errno))?;
        let content = Content::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        Ok(Stream { phase, file, content, record })
    }

    fn refused(&self, call: &str, errno: Errno) -> PhaseError {
        EngineError::call(call, &self.phase.path, errno).into()
    }

    fn fsync(&self) -> Result<(), PhaseError> {
        rustix::fs::fsync(self.file.descriptor()).map_err(|errno| self.refused("fsync", errno))
    }
}

impl Records for Stream<'_> {
    fn prime(&mut self, _fsync: bool, _first: bool) -> Result<(), PhaseError> {
        if self.phase.operation.writes() {
            self.fsync()?;
        } else {
            // IOzone syncs through a descriptor of its own here.
            let other = files::open(&self.phase.path, OFlags::RDONLY, Mode::empty())?;
            files::flush(&self.phase.path, &other)?;
            files::close(&self.phase.path, other)?;
        }
        let size = self.record.as_mut().len();
        self.file.set_buffer(size).map_err(|errno| EngineError::call("setvbuf", &self.phase.path, errno).into())
    }

    fn lock(&mut self, _locked: bool) -> Result<(), PhaseError> {
        Ok(()) // IOzone locks no streams.
    }

    #[inline]
    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        // SAFETY: the stream is open, and the record is ours to write to.
        let whole = unsafe { libc::fread(record.as_mut_ptr().cast(), record.len(), 1, self.file.stream()) };
        if whole != 1 {
            // SAFETY: the stream is open. At the end of the file no error is set.
            let ended = unsafe { libc::feof(self.file.stream()) } != 0;
            return Err(if ended { Fault::Short(READ, 0) } else { Fault::Call(READ, last_error()) });
        }
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        // SAFETY: the stream is open, and the record is initialised.
        let whole = unsafe { libc::fwrite(record.as_ptr().cast(), record.len(), 1, self.file.stream()) };
        if whole == 1 { Ok(()) } else { Err(Fault::Call(WRITE, last_error())) }
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        self.file.flush().map_err(|errno| EngineError::call("fflush", &self.phase.path, errno))?;
        if self.phase.operation.writes() { self.fsync() } else { Ok(()) }
    }

    fn close(mut self: Box<Self>) -> Result<(), PhaseError> {
        let closed = self.file.close();
        closed.map_err(|errno| self.refused("fclose", errno))
    }
}

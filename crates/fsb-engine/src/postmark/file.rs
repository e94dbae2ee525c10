//! An open file: a stream of the C library, a descriptor, or nothing at all.

use std::ffi::CStr;
use std::io;
use std::ptr::NonNull;

use rustix::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

/// How calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// `fopen`, `fread`, `fwrite`, `fclose`.
    Streams,
    /// `open`, `read`, `write`, `close`.
    Calls,
    /// None are: everything succeeds at once.
    Nothing,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Create,
    Read,
    Append,
}

/// An open file. Dropped without [`File::close`] it is closed, and nobody is told what became of its data.
#[derive(Debug)]
pub(super) enum File {
    Stream(Stream),
    Descriptor(OwnedFd),
    Nothing,
}

/// A stream that is open.
#[derive(Debug)]
pub(super) struct Stream(NonNull<libc::FILE>);

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl File {
    #[inline]
    pub(super) fn open(means: Means, path: &CStr, purpose: Purpose) -> Result<File, Errno> {
        match means {
            Means::Streams => {
                let mode = match purpose {
                    Purpose::Create => c"w",
                    Purpose::Read => c"r",
                    Purpose::Append => c"a",
                };
                // SAFETY: two C strings that live until the call returns.
                let stream = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
                NonNull::new(stream).map(|stream| File::Stream(Stream(stream))).ok_or_else(last_errno)
            }
            Means::Calls => {
                let flags = match purpose {
                    Purpose::Create => OFlags::RDWR | OFlags::CREATE,
                    Purpose::Read => OFlags::RDONLY,
                    Purpose::Append => OFlags::RDWR | OFlags::APPEND,
                };
                rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o644)).map(File::Descriptor)
            }
            Means::Nothing => Ok(File::Nothing),
        }
    }

    /// Writes all bytes in one call, or in more where the kernel takes fewer.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        match self {
            // What does not fill a block may be nothing: a stream does nothing then, and a descriptor is called.
            File::Stream(stream) if !bytes.is_empty() => stream.write(bytes),
            File::Descriptor(descriptor) => {
                let written = rustix::io::retry_on_intr(|| rustix::io::write(&*descriptor, bytes))?;
                if written < bytes.len() { write_rest(descriptor, &bytes[written..]) } else { Ok(()) }
            }
            File::Stream(_) | File::Nothing => Ok(()),
        }
    }

    /// Reads until the memory is full or the file ends: how many bytes came.
    #[inline]
    pub(super) fn read(&mut self, memory: &mut [u8]) -> Result<usize, Errno> {
        match self {
            File::Stream(stream) if !memory.is_empty() => stream.read(memory),
            File::Descriptor(descriptor) => {
                let came = rustix::io::retry_on_intr(|| rustix::io::read(&*descriptor, &mut *memory))?;
                if came < memory.len() && came > 0 {
                    return Ok(came + read_rest(descriptor, &mut memory[came..])?);
                }
                Ok(came)
            }
            File::Stream(_) | File::Nothing => Ok(memory.len()),
        }
    }

    /// Returns when the file is on the device.
    pub(super) fn sync(&mut self) -> Result<(), Errno> {
        match self {
            File::Stream(stream) => {
                // SAFETY: the stream is open.
                if unsafe { libc::fflush(stream.0.as_ptr()) } != 0 {
                    return Err(last_errno());
                }
                // SAFETY: the descriptor is the stream's, which stays open for as long as it is borrowed.
                rustix::fs::fsync(unsafe { BorrowedFd::borrow_raw(libc::fileno(stream.0.as_ptr())) })
            }
            File::Descriptor(descriptor) => rustix::fs::fsync(descriptor.as_fd()),
            File::Nothing => Ok(()),
        }
    }

    #[inline]
    pub(super) fn close(self) -> Result<(), Errno> {
        match self {
            File::Stream(stream) => {
                let stream = std::mem::ManuallyDrop::new(stream).0;
                // SAFETY: the stream is open, and is given up whatever comes back.
                if unsafe { libc::fclose(stream.as_ptr()) } == 0 { Ok(()) } else { Err(last_errno()) }
            }
            // SAFETY: the descriptor is open and nobody else's; it is given up whatever comes back.
            File::Descriptor(descriptor) => unsafe { rustix::io::try_close(descriptor.into_raw_fd()) },
            File::Nothing => Ok(()),
        }
    }
}

impl Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        // SAFETY: the stream is open, and the bytes are initialised.
        let whole = unsafe { libc::fwrite(bytes.as_ptr().cast(), bytes.len(), 1, self.0.as_ptr()) };
        if whole == 1 { Ok(()) } else { Err(last_errno()) }
    }

    #[inline]
    fn read(&mut self, memory: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the stream is open, and the memory is ours to write to.
        let whole = unsafe { libc::fread(memory.as_mut_ptr().cast(), memory.len(), 1, self.0.as_ptr()) };
        if whole == 1 {
            return Ok(memory.len());
        }
        let errno = last_errno();
        // SAFETY: the stream is open.
        if unsafe { libc::ferror(self.0.as_ptr()) } != 0 {
            return Err(errno);
        }
        // The file ended; how much of the last piece came is not told, and any less is too little.
        Ok(0)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open.
        unsafe { libc::fclose(self.0.as_ptr()) };
    }
}

#[cold]
fn write_rest(descriptor: &OwnedFd, mut rest: &[u8]) -> Result<(), Errno> {
    while !rest.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(descriptor, rest))?;
        if written == 0 {
            return Err(Errno::NOSPC);
        }
        rest = &rest[written..];
    }
    Ok(())
}

#[cold]
fn read_rest(descriptor: &OwnedFd, memory: &mut [u8]) -> Result<usize, Errno> {
    let mut came = 0;
    while came < memory.len() {
        match rustix::io::retry_on_intr(|| rustix::io::read(descriptor, &mut memory[came..]))? {
            0 => break,
            more => came += more,
        }
    }
    Ok(came)
}

//! POSIX asynchronous I/O: `aio_read`, `aio_write`, `aio_suspend`.
//!
//! The C library makes the calls in threads of its own (glibc: one file's requests one after another in one thread), so
//! a depth costs switches between threads and gains little on one file. That is what is measured here. Its lists grow as
//! they are needed: a session uses as many requests as it may ever have once before the clock.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::files::{self, Table, open_flags};
use super::{
    Backend, Capabilities, Completion, Directory, Flush, IoRequest, Purpose, Queued, Session, Setup, Slot, Verb,
};
use crate::EngineError;

/// The member.
#[derive(Debug)]
pub(crate) struct PosixAio;

impl Backend for PosixAio {
    fn name(&self) -> &'static str {
        "posix-aio"
    }

    fn about(&self) -> &'static str {
        "aio_read and aio_write of the C library, which makes the calls in threads of its own"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { depth: 1024, helped: true, ..Capabilities::PLAIN }
    }

    fn session(&self, setup: &Setup) -> Result<Box<dyn Session>, EngineError> {
        let depth = setup.depth.max(1) as usize;
        // SAFETY: all zeros are a valid control block: no descriptor is used before it was set.
        let blocks = (0..depth).map(|_| UnsafeCell::new(unsafe { std::mem::zeroed() })).collect();
        let under_way = Vec::with_capacity(depth);
        let mut session = AioSession { files: Table::new(setup), blocks, under_way };
        session.warm_up().map_err(|errno| EngineError::system("start asynchronous I/O (aio_read)", errno))?;
        Ok(Box::new(session))
    }
}

struct AioSession {
    files: Table<OwnedFd>,
    /// One a tag. The library keeps pointers to them: they never move.
    blocks: Box<[UnsafeCell<libc::aiocb>]>,
    /// The blocks that the library has.
    under_way: Vec<*const libc::aiocb>,
}

impl AioSession {
    /// Has every request that there may be under way once, on a file in memory.
    fn warm_up(&mut self) -> Result<(), Errno> {
        let file = rustix::fs::memfd_create("fsb", MemfdFlags::CLOEXEC)?;
        let depth = self.blocks.len();
        let mut memory = vec![0; depth];
        let mut done = Vec::with_capacity(depth);
        for (tag, byte) in memory.iter_mut().enumerate() {
            let request =
                IoRequest { slot: Slot(0), verb: Verb::Read, offset: 0, memory: byte, length: 1, tag: tag as u32 };
            // SAFETY: each request has a byte of its own, and all of them are waited for below, also after an error.
            if let Err(errno) = unsafe { self.start(file.as_raw_fd(), &request) } {
                self.wait_for_all();
                return Err(errno);
            }
        }
        self.reap(depth, &mut done)
    }

    /// Hands a request to the library.
    ///
    /// # Safety
    ///
    /// As of [`Session::queue`].
    #[inline]
    unsafe fn start(&mut self, file: i32, request: &IoRequest) -> Result<Queued, Errno> {
        let offset = libc::off_t::try_from(request.offset).map_err(|_| Errno::FBIG)?;
        let block = self.blocks.get(request.tag as usize).ok_or(Errno::INVAL)?.get();
        // SAFETY: the block lives as long as the session, and the library does not have it: its tag is of one request at
        // a time. The caller vouches for the memory.
        let refused = unsafe {
            (*block).aio_fildes = file;
            (*block).aio_buf = request.memory.cast();
            (*block).aio_nbytes = request.length;
            (*block).aio_offset = offset;
            (*block).aio_sigevent.sigev_notify = libc::SIGEV_NONE;
            match request.verb {
                Verb::Read => libc::aio_read(block) != 0,
                Verb::Write => libc::aio_write(block) != 0,
            }
        };
        if !refused {
            self.under_way.push(block);
            return Ok(Queued::Pending);
        }
        match files::last_errno() {
            Errno::AGAIN if !self.under_way.is_empty() => Ok(Queued::Busy),
            errno => Err(errno),
        }
    }

    /// Takes what is finished.
    fn take_finished(&mut self, mut each: impl FnMut(Completion)) {
        let first = self.blocks.as_ptr().cast();
        self.under_way.retain(|&block| {
            // SAFETY: the block was handed to the library and not taken back yet.
            let errno = match unsafe { libc::aio_error(block) } {
                libc::EINPROGRESS => return true,
                errno => errno,
            };
            // SAFETY: it is finished, and this is the one time that its result is asked for.
            let moved = unsafe { libc::aio_return(block.cast_mut()) };
            let result = if errno == 0 { Ok(moved as usize) } else { Err(Errno::from_raw_os_error(errno)) };
            // SAFETY: both point into the blocks of this session.
            let tag = unsafe { block.offset_from(first) } as u32;
            each(Completion { tag, result });
            false
        });
    }

    /// Sleeps until something is finished.
    fn suspend(&self) -> Result<(), Errno> {
        let (list, length) = (self.under_way.as_ptr(), self.under_way.len() as libc::c_int);
        // SAFETY: the list holds so many pointers to blocks that the library has.
        if unsafe { libc::aio_suspend(list, length, ptr::null()) } == 0 {
            return Ok(());
        }
        match files::last_errno() {
            Errno::INTR => Ok(()),
            errno => Err(errno),
        }
    }

    fn wait_for_all(&mut self) {
        loop {
            self.take_finished(drop);
            if self.under_way.is_empty() {
                return;
            }
            if self.suspend().is_err() {
                // The library may write into memory that is about to be freed: there is no way on.
                std::process::abort();
            }
        }
    }
}

impl Session for AioSession {
    fn open(&mut self, at: &Directory, path: &CStr, purpose: Purpose, _size: u64) -> Result<Slot, Errno> {
        let slot = self.files.free()?;
        self.files.put(slot, files::open(at, path, open_flags(purpose))?);
        Ok(slot)
    }

    fn close(&mut self, slot: Slot) -> Result<(), Errno> {
        files::close(self.files.take(slot)?)
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let file = self.files.get(request.slot)?.as_raw_fd();
        // SAFETY: the caller vouches for the memory until the request is reaped; dropping the session waits for it.
        unsafe { self.start(file, request) }
    }

    fn reap(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let wanted = done.len() + least.min(self.under_way.len());
        loop {
            self.take_finished(|completion| done.push(completion));
            if done.len() >= wanted {
                return Ok(());
            }
            self.suspend()?;
        }
    }

    fn flush(&mut self, slot: Slot, what: Flush) -> Result<(), Errno> {
        files::flush(self.files.get(slot)?, what)
    }
}

impl Drop for AioSession {
    fn drop(&mut self) {
        self.wait_for_all();
    }
}

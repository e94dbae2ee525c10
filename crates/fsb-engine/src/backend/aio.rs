//! POSIX asynchronous I/O: `aio_read`, `aio_write`, `aio_suspend`.
//!
//! The C library makes the calls in its own threads (glibc: one thread per file, one request after
//! another). A depth therefore costs context switches and gains little on one file. The benchmark
//! measures exactly that. The library's lists grow on demand, so a session issues its maximum
//! number of requests once before the clock starts.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::files::{self, SlotTable};
use super::{
    Backend, Capabilities, Completion, Directory, FileSlot, Flush, IoRequest, OpenFlags, Queued,
    Session, SessionSetup, Verb,
};
use crate::error::EngineError;

/// The registry entry.
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
        Capabilities {
            depth: 1024,
            helped: true,
            sequential: false,
            ..Capabilities::PLAIN
        }
    }

    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        let depth = setup.depth.max(1) as usize;
        let blocks = (0..depth).map(|_| ControlBlock::new()).collect();
        let under_way = Vec::with_capacity(depth);
        let mut session = AioSession {
            files: SlotTable::new(setup),
            blocks,
            under_way,
        };
        session
            .warm_up()
            .map_err(|errno| EngineError::system("start asynchronous I/O (aio_read)", errno))?;
        Ok(Box::new(session))
    }
}

/// A control block of the C library. It must not move while the library uses it.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct ControlBlock(UnsafeCell<libc::aiocb>);

impl ControlBlock {
    pub(crate) fn new() -> ControlBlock {
        // SAFETY: all zeros are a valid control block, and the one that aio(7) asks to start from.
        ControlBlock(UnsafeCell::new(unsafe { std::mem::zeroed() }))
    }

    /// Submits a request to the library: aio_read or aio_write.
    ///
    /// # Safety
    ///
    /// The library does not use this block. Block, memory and descriptor stay in place until
    /// [`ControlBlock::finished`] has returned `Some`.
    #[inline]
    pub(crate) unsafe fn submit(
        &self,
        file: BorrowedFd<'_>,
        verb: Verb,
        (memory, length): (*mut u8, usize),
        offset: u64,
    ) -> Result<(), Errno> {
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::FBIG)?;
        let block = self.0.get();
        // SAFETY: the conditions of this function guarantee that the library does not use the block
        // and that all stays in place.
        let refused = unsafe {
            (*block).aio_fildes = file.as_raw_fd();
            (*block).aio_buf = memory.cast();
            (*block).aio_nbytes = length;
            (*block).aio_offset = offset;
            (*block).aio_sigevent.sigev_notify = libc::SIGEV_NONE;
            match verb {
                Verb::Read => libc::aio_read(block) != 0,
                Verb::Write => libc::aio_write(block) != 0,
            }
        };
        if refused {
            Err(files::last_errno())
        } else {
            Ok(())
        }
    }

    /// Returns the number of bytes moved, or `None` while the request is in flight. After it has
    /// returned `Some`, a further call returns an error.
    #[inline]
    fn finished(&self) -> Option<Result<usize, Errno>> {
        // SAFETY: the block is a valid one.
        match unsafe { libc::aio_error(self.0.get()) } {
            libc::EINPROGRESS => None,
            // SAFETY: the request is finished, and this is the only time that its result is read.
            0 => Some(Ok(unsafe { libc::aio_return(self.0.get()) } as usize)),
            errno => {
                // SAFETY: as above; the library then forgets the request.
                unsafe { libc::aio_return(self.0.get()) };
                Some(Err(Errno::from_raw_os_error(errno)))
            }
        }
    }

    /// Sleeps until the request is finished. Returns its result.
    pub(crate) fn wait(&self) -> Result<usize, Errno> {
        loop {
            if let Some(result) = self.finished() {
                return result;
            }
            suspend(&[self.0.get().cast_const()])?;
        }
    }
}

/// Sleeps until one of the requests is finished, or a signal arrives.
fn suspend(under_way: &[*const libc::aiocb]) -> Result<(), Errno> {
    // SAFETY: all pointers of the list are to blocks that the library has.
    if unsafe {
        libc::aio_suspend(
            under_way.as_ptr(),
            under_way.len() as libc::c_int,
            ptr::null(),
        )
    } == 0
    {
        return Ok(());
    }
    match files::last_errno() {
        Errno::INTR => Ok(()),
        errno => Err(errno),
    }
}

struct AioSession {
    files: SlotTable<OwnedFd>,
    /// One block per tag. The library keeps pointers to them, so they never move.
    blocks: Box<[ControlBlock]>,
    /// Pointers into `blocks`: the blocks that the library uses at present.
    under_way: Vec<*const libc::aiocb>,
}

impl AioSession {
    /// Issues the maximum number of requests at once, on a file in memory.
    fn warm_up(&mut self) -> Result<(), Errno> {
        let file = rustix::fs::memfd_create("fsb", MemfdFlags::CLOEXEC)?;
        let depth = self.blocks.len();
        let mut memory = vec![0; depth];
        let mut done = Vec::with_capacity(depth);
        for (tag, byte) in memory.iter_mut().enumerate() {
            let request = IoRequest {
                slot: FileSlot(0),
                verb: Verb::Read,
                offset: 0,
                memory: byte,
                length: 1,
                tag: tag as u32,
            };
            // SAFETY: each request has a byte of its own, and the code below waits for all of them,
            // also after an error.
            if let Err(errno) = unsafe { self.start(file.as_raw_fd(), &request) } {
                self.wait_for_all();
                return Err(errno);
            }
        }
        self.reap(depth, &mut done)
    }

    /// Submits a request to the library.
    ///
    /// # Safety
    ///
    /// As for [`Session::queue`]. The descriptor stays open until then, too.
    #[inline]
    unsafe fn start(&mut self, file: RawFd, request: &IoRequest) -> Result<Queued, Errno> {
        let block = self.blocks.get(request.tag as usize).ok_or(Errno::INVAL)?;
        // SAFETY: the block lives as long as the session, and the library does not have it: its tag
        // is of one request at a time. The caller vouches for the memory and the descriptor.
        let started = unsafe {
            let file = BorrowedFd::borrow_raw(file);
            block.submit(
                file,
                request.verb,
                (request.memory, request.length),
                request.offset,
            )
        };
        match started {
            Ok(()) => {
                self.under_way.push(block.0.get());
                Ok(Queued::Pending)
            }
            Err(Errno::AGAIN) if !self.under_way.is_empty() => Ok(Queued::Busy),
            Err(errno) => Err(errno),
        }
    }

    fn take_finished(&mut self, mut each: impl FnMut(Completion)) {
        let (blocks, first) = (&self.blocks, self.blocks.as_ptr().cast::<libc::aiocb>());
        self.under_way.retain(|&block| {
            // SAFETY: both point into the blocks of this session, which have nothing beside the
            // library's.
            let tag = unsafe { block.offset_from(first) } as u32;
            match blocks[tag as usize].finished() {
                None => true,
                Some(result) => {
                    each(Completion { tag, result });
                    false
                }
            }
        });
    }

    fn wait_for_all(&mut self) {
        loop {
            self.take_finished(drop);
            if self.under_way.is_empty() {
                return;
            }
            if suspend(&self.under_way).is_err() {
                // The library may write into memory that is about to be freed, so the process
                // cannot continue.
                std::process::abort();
            }
        }
    }
}

impl Session for AioSession {
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        _size: u64,
    ) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        self.files.put(slot, files::open(at, path, flags)?);
        Ok(slot)
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        files::close(self.files.take(slot)?)
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let file = self.files.get(request.slot)?.as_raw_fd();
        // SAFETY: the caller vouches for the memory until the request is reaped; dropping the
        // session waits for it.
        unsafe { self.start(file, request) }
    }

    fn reap(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let wanted = done.len() + least.min(self.under_way.len());
        loop {
            self.take_finished(|completion| done.push(completion));
            if done.len() >= wanted {
                return Ok(());
            }
            suspend(&self.under_way)?;
        }
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        files::flush(self.files.get(slot)?, what)
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(OwnedFd::as_fd)
    }
}

impl Drop for AioSession {
    fn drop(&mut self) {
        self.wait_for_all();
    }
}

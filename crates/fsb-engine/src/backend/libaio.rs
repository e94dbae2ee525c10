//! Linux's asynchronous I/O: `io_submit` and `io_getevents`, the calls of the library libaio.
//!
//! Past the page cache, the kernel submits the requests and returns. Through the page cache,
//! `io_submit` itself moves the data, and a depth gains nothing. The calls are made directly, as
//! the library only wraps them. A session submits all queued requests with one call.

use std::ffi::CStr;
use std::ptr;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::call_flag::CallFlag;
use super::files::{self, SlotTable};
use super::nowait::{self, RequestsWithoutWaiting};
use super::{
    Capabilities, Completion, Directory, FileBackend, FileSlot, Flush, IoRequest, OpenFlags,
    Queued, Session, SessionSetup, Verb, atomic, direct, uncached,
};
use crate::error::EngineError;

const DEPTH: u32 = 4096;

/// Through the page cache.
pub(crate) static LIBAIO: FileBackend = FileBackend {
    name: "libaio",
    about: "io_submit and io_getevents through the page cache: the kernel moves the data before io_submit returns",
    flags: OFlags::empty(),
    call_flag: CallFlag::None,
    capabilities: Capabilities {
        depth: DEPTH,
        sequential: false,
        ..Capabilities::PLAIN
    },
    session: open_session,
};

/// Past the page cache.
pub(crate) static LIBAIO_DIRECT: FileBackend = FileBackend {
    name: "libaio-direct",
    about: "io_submit and io_getevents past the page cache (O_DIRECT), in batches",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::None,
    capabilities: Capabilities {
        depth: DEPTH,
        ..direct::CAPABILITIES
    },
    session: open_session,
};

/// Through the page cache, which keeps nothing.
pub(crate) static LIBAIO_UNCACHED: FileBackend = FileBackend {
    name: "libaio-uncached",
    about: "io_submit and io_getevents with RWF_DONTCACHE: through the page cache, which keeps nothing",
    flags: OFlags::empty(),
    call_flag: CallFlag::Uncached,
    capabilities: Capabilities {
        depth: DEPTH,
        ..uncached::CAPABILITIES
    },
    session: open_session,
};

/// Past the page cache; a crash leaves a write whole or undone.
pub(crate) static LIBAIO_ATOMIC: FileBackend = FileBackend {
    name: "libaio-atomic",
    about: "io_submit and io_getevents past the page cache (O_DIRECT); writes with RWF_ATOMIC, which a crash leaves whole or undone",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::Atomic,
    capabilities: Capabilities {
        depth: DEPTH,
        ..atomic::CAPABILITIES
    },
    session: open_session,
};

/// Through the page cache, without waiting.
pub(crate) static LIBAIO_NOWAIT: FileBackend = FileBackend {
    name: "libaio-nowait",
    about: "io_submit and io_getevents with RWF_NOWAIT through the page cache; requests that would wait are counted and made again without it",
    flags: OFlags::empty(),
    call_flag: CallFlag::Nowait,
    capabilities: Capabilities {
        depth: DEPTH,
        ..nowait::CAPABILITIES
    },
    session: open_session,
};

/// Opens a session whose files and calls have the flags of the backend.
fn open_session(
    backend: &FileBackend,
    setup: &SessionSetup,
) -> Result<Box<dyn Session>, EngineError> {
    let depth = setup.depth.max(1) as usize;
    Ok(Box::new(AioSession {
        context: AioContext::new(depth)?,
        files: SlotTable::new(setup),
        flags: backend.flags,
        call_flag: backend.call_flag,
        unwaiting: RequestsWithoutWaiting::new(backend.call_flag == CallFlag::Nowait, setup),
        queued: Vec::with_capacity(depth),
        pointers: Vec::with_capacity(depth),
        events: vec![Event::default(); depth].into(),
    }))
}

/// A request as the kernel reads it: `struct iocb` of linux/aio_abi.h.
#[derive(Debug, Default)]
#[repr(C)]
struct ControlBlock {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    /// Flags of the call (RWF_*).
    call_flags: u32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    memory: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// A finished request: `struct io_event` of linux/aio_abi.h.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    second_result: i64,
}

/// The values of [`ControlBlock::opcode`]: `IOCB_CMD_PREAD` and `IOCB_CMD_PWRITE`.
const READ: u16 = 0;
const WRITE: u16 = 1;

/// A context of the kernel, and the number of its requests in flight.
struct AioContext {
    id: libc::c_ulong,
    under_way: usize,
}

impl AioContext {
    fn new(depth: usize) -> Result<AioContext, EngineError> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number to the pointer, which is valid for the
        // call.
        if unsafe { libc::syscall(libc::SYS_io_setup, depth as libc::c_uint, &raw mut id) } == 0 {
            return Ok(AioContext { id, under_way: 0 });
        }
        let errno = files::last_errno();
        let mut error = EngineError::system("set up asynchronous I/O (io_setup)", errno);
        error.message += match errno {
            Errno::AGAIN => {
                ": too many requests are reserved (sysctl fs.aio-max-nr); raise it or use a smaller depth"
            }
            Errno::NOSYS => {
                ": the kernel lacks io_submit, or a container's filter forbids it; use another backend"
            }
            Errno::PERM | Errno::ACCESS => {
                ": a filter of this process denies it (seccomp), as those of containers do; use another backend"
            }
            _ => "",
        };
        Err(error)
    }

    /// Submits requests to the kernel and returns how many it accepted: at least one of them.
    ///
    /// # Safety
    ///
    /// The pointers are to valid control blocks, whose memory stays valid until the requests are
    /// finished.
    unsafe fn submit(&mut self, blocks: &[*mut ControlBlock]) -> Result<usize, Errno> {
        // SAFETY: the caller vouches for the blocks; the kernel copies them during the call.
        let accepted =
            unsafe { libc::syscall(libc::SYS_io_submit, self.id, blocks.len(), blocks.as_ptr()) };
        let accepted = usize::try_from(accepted).map_err(|_| files::last_errno())?;
        self.under_way += accepted;
        Ok(accepted)
    }

    /// Waits for at least `least` finished requests and returns how many there are. A signal ends
    /// the wait.
    fn wait(&mut self, least: usize, events: &mut [Event]) -> Result<usize, Errno> {
        let least = least.min(self.under_way);
        // SAFETY: the kernel writes at most as many events as the slice has.
        let taken = unsafe {
            let forever = ptr::null_mut::<libc::timespec>();
            libc::syscall(
                libc::SYS_io_getevents,
                self.id,
                least,
                events.len(),
                events.as_mut_ptr(),
                forever,
            )
        };
        let taken = match usize::try_from(taken) {
            Ok(taken) => taken,
            Err(_) => match files::last_errno() {
                Errno::INTR => 0,
                errno => return Err(errno),
            },
        };
        self.under_way -= taken;
        Ok(taken)
    }
}

impl Drop for AioContext {
    fn drop(&mut self) {
        let mut events = [Event::default(); 64];
        while self.under_way > 0 {
            if self.wait(1, &mut events).is_err() {
                // The kernel may write into memory that is about to be freed, so the process cannot
                // continue.
                std::process::abort();
            }
        }
        // SAFETY: the context exists, and none of its requests is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

struct AioSession {
    // Dropped first, because it waits for requests on the files.
    context: AioContext,
    files: SlotTable<OwnedFd>,
    flags: OFlags,
    call_flag: CallFlag,
    unwaiting: RequestsWithoutWaiting,
    /// The requests that the kernel does not have yet, in their order.
    queued: Vec<ControlBlock>,
    /// The memory for pointers to them.
    pointers: Vec<*mut ControlBlock>,
    /// The memory for finished requests.
    events: Box<[Event]>,
}

impl AioSession {
    /// Submits the queued requests, as far as the kernel accepts them. One that it refuses is
    /// finished with the error.
    fn submit(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        while !self.queued.is_empty() {
            self.pointers.clear();
            self.pointers
                .extend(self.queued.iter_mut().map(ptr::from_mut));
            // SAFETY: the pointers are to the queued blocks, and the callers of `queue` vouch for
            // the memory.
            match unsafe { self.context.submit(&self.pointers) } {
                Ok(accepted) => drop(self.queued.drain(..accepted)),
                Err(Errno::AGAIN) if self.context.under_way > 0 => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => {
                    let block = self.queued.remove(0);
                    done.push(Completion {
                        tag: block.data as u32,
                        result: Err(errno),
                    });
                }
            }
        }
        Ok(())
    }

    /// Queues a request.
    #[inline]
    fn push(&mut self, request: &IoRequest, flag: CallFlag) -> Result<(), Errno> {
        let file = self.files.get(request.slot)?.as_raw_fd();
        self.queued.push(ControlBlock {
            data: u64::from(request.tag),
            opcode: if request.verb == Verb::Read {
                READ
            } else {
                WRITE
            },
            file: file as u32,
            call_flags: flag.bits(request.verb).bits(),
            memory: request.memory as u64,
            length: request.length as u64,
            offset: i64::try_from(request.offset).map_err(|_| Errno::FBIG)?,
            ..ControlBlock::default()
        });
        Ok(())
    }

    /// Takes finished requests and waits for at least `least`. Queues those again that would have
    /// waited.
    fn take_finished(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let mut next = done.len();
        let taken = self.context.wait(least, &mut self.events)?;
        done.extend(self.events[..taken].iter().map(|event| {
            Completion {
                tag: event.data as u32,
                result: usize::try_from(event.result)
                    .map_err(|_| Errno::from_raw_os_error(-event.result as i32)),
            }
        }));
        while let Some(rest) = self.unwaiting.next_rest(&mut next, done) {
            self.push(&rest, CallFlag::None)?;
        }
        Ok(())
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
        self.files
            .put(slot, files::open(at, path, flags.with(self.flags))?);
        Ok(slot)
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        files::close(self.files.take(slot)?)
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        if self.context.under_way + self.queued.len() == self.events.len() {
            return Ok(Queued::Busy);
        }
        self.push(request, self.call_flag)?;
        self.unwaiting.note(request);
        Ok(Queued::Pending)
    }

    fn reap(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let wanted = done.len() + least.min(self.context.under_way + self.queued.len());
        loop {
            self.submit(done)?;
            let missing = wanted.saturating_sub(done.len());
            // Requests that the kernel did not accept need the place of a finished one.
            let least = if self.queued.is_empty() {
                missing
            } else {
                missing.max(1)
            };
            self.take_finished(least, done)?;
            if done.len() >= wanted && self.queued.is_empty() {
                return Ok(());
            }
        }
    }

    fn would_wait(&self) -> u64 {
        self.unwaiting.would_wait()
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        files::flush(self.files.get(slot)?, what)
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(OwnedFd::as_fd)
    }
}

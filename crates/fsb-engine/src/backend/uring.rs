//! io_uring: requests are written into memory that is shared with the kernel, and submitted in
//! batches, one call each.
//!
//! Files that stay open and all memory are registered, so that the kernel need not look up files
//! and pin memory for each request. Only the thread that created a ring uses it, which saves the
//! kernel its locks. The kernel processes completions when the thread asks for them and does not
//! interrupt it. On older kernels the ring works without these options.

use std::ffi::CStr;

use fsb_model::Bytes;
use io_uring::{Builder, IoUring, opcode, squeue, types};
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
pub(crate) static URING: FileBackend = FileBackend {
    name: "uring",
    about: "io_uring through the page cache, with registered files and memory, submitted and reaped in batches",
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
pub(crate) static URING_DIRECT: FileBackend = FileBackend {
    name: "uring-direct",
    about: "io_uring past the page cache (O_DIRECT), with registered files and memory, in batches",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::None,
    capabilities: Capabilities {
        depth: DEPTH,
        ..direct::CAPABILITIES
    },
    session: open_session,
};

/// Through the page cache, which keeps nothing.
pub(crate) static URING_UNCACHED: FileBackend = FileBackend {
    name: "uring-uncached",
    about: "io_uring with RWF_DONTCACHE: through the page cache, which keeps nothing",
    flags: OFlags::empty(),
    call_flag: CallFlag::Uncached,
    capabilities: Capabilities {
        depth: DEPTH,
        ..uncached::CAPABILITIES
    },
    session: open_session,
};

/// Past the page cache; a crash leaves a write whole or undone.
pub(crate) static URING_ATOMIC: FileBackend = FileBackend {
    name: "uring-atomic",
    about: "io_uring past the page cache (O_DIRECT); writes with RWF_ATOMIC, which a crash leaves whole or undone",
    flags: OFlags::DIRECT,
    call_flag: CallFlag::Atomic,
    capabilities: Capabilities {
        depth: DEPTH,
        ..atomic::CAPABILITIES
    },
    session: open_session,
};

/// Through the page cache, without waiting.
pub(crate) static URING_NOWAIT: FileBackend = FileBackend {
    name: "uring-nowait",
    about: "io_uring with RWF_NOWAIT through the page cache; requests that would wait are counted and made again without it",
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
    let ring = Ring::new(setup.depth)?;
    let mut session = UringSession {
        files: SlotTable::new(setup),
        flags: backend.flags,
        call_flag: backend.call_flag,
        unwaiting: RequestsWithoutWaiting::new(backend.call_flag == CallFlag::Nowait, setup),
        registers: setup.held,
        memory: Vec::with_capacity(setup.memory.len()),
        ring,
    };
    // The kernel takes an atomic write from one piece of memory of the process, and refuses
    // registered memory with EINVAL (generic_atomic_write_valid, Linux 6.18).
    if backend.call_flag != CallFlag::Atomic {
        session.register_memory(setup)?;
    }
    // Spares a lookup in each call, where the kernel has it.
    let _ = session.ring.ring.submitter().register_ring_fd();
    if setup.held {
        session.register_slots(setup.files)?;
    }
    Ok(Box::new(session))
}

/// Returns a ring of the newest kind that the kernel knows.
fn make_ring(depth: u32) -> Result<IoUring, EngineError> {
    // Linux 6.6, 6.1, 5.19 and before.
    let kinds: [fn(&mut Builder) -> &mut Builder; 4] = [
        |ring| {
            ring.setup_submit_all()
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_no_sqarray()
        },
        |ring| {
            ring.setup_submit_all()
                .setup_single_issuer()
                .setup_defer_taskrun()
        },
        |ring| ring.setup_submit_all().setup_coop_taskrun(),
        |ring| ring,
    ];
    let mut refusal = Errno::INVAL;
    for kind in kinds {
        match kind(&mut IoUring::builder()).build(depth) {
            Ok(ring) => return Ok(ring),
            Err(error) => refusal = files::errno_of(&error),
        }
        if refusal != Errno::INVAL {
            break;
        }
    }
    let mut error = EngineError::system("set up io_uring", refusal);
    if refusal == Errno::NOMEM {
        error.message += &locked_memory("its queues do not fit", "depth");
    }
    error.message += &match refusal {
        Errno::PERM | Errno::ACCESS => denied(sysctl().as_deref()),
        Errno::NOSYS => {
            ": the kernel lacks io_uring, or a container's filter forbids it; use another backend"
                .to_owned()
        }
        _ => String::new(),
    };
    Err(error)
}

/// Returns the value of the sysctl that disables io_uring: 1 for users without privileges, 2 for
/// all. Returns `None` if the kernel has no such setting.
fn sysctl() -> Option<String> {
    let value = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?;
    Some(value.trim().to_owned())
}

/// Returns the cause of a denied io_uring_setup, given the value of the sysctl.
fn denied(sysctl: Option<&str>) -> String {
    match sysctl {
        Some(value @ ("1" | "2")) => format!(
            ": the sysctl kernel.io_uring_disabled is {value}; set it to 0 or use another backend"
        ),
        _ => {
            ": the sysctl allows it, but a filter of this process denies it (seccomp), as Docker's \
              does by default; allow io_uring_setup, io_uring_enter and io_uring_register, or use \
              another backend"
                .to_owned()
        }
    }
}

/// Explains a lack of locked memory. The limit holds for all memory that the processes of a user
/// lock together, so a request far below it fails if others have used it up.
fn locked_memory(what: &str, parameters: &str) -> String {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let limit = limit
        .map(|bytes| format!(" of {}", Bytes(bytes)))
        .unwrap_or_default();
    format!(
        ": {what} within the limit{limit} on locked memory (ulimit -l), which all processes of this user share; wait for \
         the others, raise it, or use a smaller {parameters}"
    )
}

/// A ring and its requests in flight. Dropping it waits for them, because the kernel may write into
/// memory until then.
pub(crate) struct Ring {
    ring: IoUring,
    /// Requests that were queued and not reaped.
    under_way: usize,
}

impl Ring {
    /// Creates a ring with the newest options that the kernel supports.
    pub(crate) fn new(depth: u32) -> Result<Ring, EngineError> {
        Ok(Ring {
            ring: make_ring(depth)?,
            under_way: 0,
        })
    }

    /// Queues a request. Returns whether there was space.
    ///
    /// # Safety
    ///
    /// The memory that the entry points to stays valid until its completion is reaped, or until
    /// this value is dropped.
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: guaranteed by the caller; `drop` waits for requests in flight.
        let pushed = unsafe { self.ring.submission().push(entry) }.is_ok();
        self.under_way += usize::from(pushed);
        pushed
    }

    /// Reaps finished requests: tags and results.
    #[inline]
    pub(crate) fn take_finished(&mut self, mut each: impl FnMut(Completion)) {
        let mut taken = 0;
        for finished in self.ring.completion() {
            let result = match finished.result() {
                moved @ 0.. => Ok(moved as usize),
                error => Err(Errno::from_raw_os_error(-error)),
            };
            each(Completion {
                tag: finished.user_data() as u32,
                result,
            });
            taken += 1;
        }
        self.under_way -= taken;
    }

    /// Submits the queued requests to the kernel and waits until `wanted` requests are finished.
    pub(crate) fn enter(&mut self, wanted: usize) -> Result<(), Errno> {
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => Ok(()),
            Err(error) => match files::errno_of(&error) {
                // A signal arrived, or finished requests must be taken first.
                Errno::INTR | Errno::BUSY => Ok(()),
                errno => Err(errno),
            },
        }
    }

    fn wait_for_all(&mut self) {
        while self.under_way > 0 {
            if self.enter(1).is_err() {
                // The kernel may write into memory that is about to be freed, so the process cannot
                // continue.
                std::process::abort();
            }
            self.take_finished(drop);
        }
    }

    /// Returns the number of requests in flight.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.wait_for_all();
    }
}

struct UringSession {
    // First, for it is dropped first: what the kernel still holds of files and memory goes with it.
    ring: Ring,
    files: SlotTable<OwnedFd>,
    flags: OFlags,
    call_flag: CallFlag,
    unwaiting: RequestsWithoutWaiting,
    /// Files are registered under their slots.
    registers: bool,
    /// Beginnings and ends of registered memory, by its number.
    memory: Vec<(usize, usize)>,
}

/// The kernel registers no larger piece.
const LARGEST_PIECE: usize = 1 << 30;

impl UringSession {
    /// Pins the memory. Pieces that are too large for it are used as they are.
    fn register_memory(&mut self, setup: &SessionSetup) -> Result<(), EngineError> {
        let pieces = setup
            .memory
            .iter()
            .filter(|(_, length)| (1..=LARGEST_PIECE).contains(length));
        let vectors: Vec<_> = pieces
            .map(|&(start, length)| libc::iovec {
                iov_base: start.cast(),
                iov_len: length,
            })
            .collect();
        if vectors.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller that makes a session vouches for its memory until the session is
        // dropped.
        unsafe { self.ring.ring.submitter().register_buffers(&vectors) }.map_err(|error| {
            let errno = files::errno_of(&error);
            let mut refusal = EngineError::system("register memory with io_uring", errno);
            if errno == Errno::NOMEM {
                let bytes: usize = vectors.iter().map(|vector| vector.iov_len).sum();
                let what = format!("{} more do not fit", Bytes(bytes as u64));
                refusal.message += &locked_memory(&what, "depth or block_size");
            }
            refusal
        })?;
        self.memory.extend(vectors.iter().map(|vector| {
            let start = vector.iov_base as usize;
            (start, start + vector.iov_len)
        }));
        Ok(())
    }

    /// Makes room for files.
    fn register_slots(&mut self, files: usize) -> Result<(), EngineError> {
        let submitter = self.ring.ring.submitter();
        let none = vec![-1; files];
        // Before Linux 5.19 there was no other word for "none".
        let registered = submitter
            .register_files_sparse(files as u32)
            .or_else(|_| submitter.register_files(&none));
        registered.map_err(|error| {
            EngineError::system("register files with io_uring", files::errno_of(&error))
        })
    }

    /// Puts a descriptor, or -1 for none, into a slot of the kernel's table.
    fn register(&mut self, slot: FileSlot, file: i32) -> Result<(), Errno> {
        if !self.registers {
            return Ok(());
        }
        let updated = self
            .ring
            .ring
            .submitter()
            .register_files_update(slot.0, &[file]);
        updated.map(drop).map_err(|error| files::errno_of(&error))
    }

    /// Returns the request as the kernel wants it.
    #[inline]
    fn entry(&self, request: &IoRequest, flag: CallFlag) -> Result<squeue::Entry, Errno> {
        let call_flags = flag.bits(request.verb).bits() as i32;
        let file = self.files.get(request.slot)?;
        let (number, flags) = match self.registers {
            true => (request.slot.0 as i32, squeue::Flags::FIXED_FILE),
            false => (file.as_raw_fd(), squeue::Flags::empty()),
        };
        let (file, start, length) = (types::Fd(number), request.memory, request.length as u32);
        let entry = match (
            request.verb,
            self.memory.iter().position(|&(begin, end)| {
                begin <= start as usize && start as usize + request.length <= end
            }),
        ) {
            (Verb::Read, Some(piece)) => opcode::ReadFixed::new(file, start, length, piece as u16)
                .offset(request.offset)
                .rw_flags(call_flags)
                .build(),
            (Verb::Write, Some(piece)) => {
                opcode::WriteFixed::new(file, start, length, piece as u16)
                    .offset(request.offset)
                    .rw_flags(call_flags)
                    .build()
            }
            (Verb::Read, None) => opcode::Read::new(file, start, length)
                .offset(request.offset)
                .rw_flags(call_flags)
                .build(),
            (Verb::Write, None) => opcode::Write::new(file, start, length)
                .offset(request.offset)
                .rw_flags(call_flags)
                .build(),
        };
        Ok(entry.flags(flags).user_data(u64::from(request.tag)))
    }

    /// Takes finished requests, and queues those again that would have waited.
    fn take_finished(&mut self, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let mut next = done.len();
        self.ring.take_finished(|completion| done.push(completion));
        while let Some(rest) = self.unwaiting.next_rest(&mut next, done) {
            let entry = self.entry(&rest, CallFlag::None)?;
            // SAFETY: it is the end of the memory of a request that was not reaped. The queue has
            // room for it, because it holds as many entries as requests may be in flight.
            if !unsafe { self.ring.push(&entry) } {
                return Err(Errno::BUSY);
            }
        }
        Ok(())
    }
}

impl Session for UringSession {
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        _size: u64,
    ) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        let file = files::open(at, path, flags.with(self.flags))?;
        self.register(slot, file.as_raw_fd())?;
        self.files.put(slot, file);
        Ok(slot)
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        let file = self.files.take(slot)?;
        self.register(slot, -1)?;
        files::close(file)
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let entry = self.entry(request, self.call_flag)?;
        // SAFETY: the caller vouches for the memory until the request is reaped, and dropping the
        // session waits for it.
        if !unsafe { self.ring.push(&entry) } {
            return Ok(Queued::Busy);
        }
        self.unwaiting.note(request);
        Ok(Queued::Pending)
    }

    fn reap(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let wanted = done.len() + least.min(self.ring.under_way());
        self.take_finished(done)?;
        while done.len() < wanted || !self.ring.ring.submission().is_empty() {
            self.ring.enter(wanted.saturating_sub(done.len()))?;
            self.take_finished(done)?;
        }
        Ok(())
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

impl Drop for UringSession {
    fn drop(&mut self) {
        self.ring.wait_for_all();
        // The kernel takes a ring apart some time later: files would be open, and a file system
        // busy, until then.
        if self.registers {
            let _ = self.ring.ring.submitter().unregister_files();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sysctl_that_denies_is_blamed() {
        assert!(denied(Some("2")).contains("io_uring_disabled is 2"));
        for allowed in [Some("0"), None] {
            let text = denied(allowed);
            assert!(
                text.contains("seccomp") && !text.contains("io_uring_disabled"),
                "{text}"
            );
        }
    }
}

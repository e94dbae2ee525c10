//! A skeleton to copy. It is compiled and run with the tests of the engine, so it cannot become
//! outdated. Builds do not include it.
//!
//! To add a backend:
//!
//! 1. Copy this file to `backend/NAME.rs`, and add `mod NAME;` and `&NAME::Name` to
//!    `backend/mod.rs`.
//! 2. Say what it can do in `capabilities`. Everything a workload asks for is checked against that,
//!    nowhere else.
//! 3. Reserve all it needs in `session`: once the clock runs nothing may allocate, lock or log.
//! 4. Keep to the life of a request: `queue` it, `commit` what was queued, `reap` what is finished.
//!    A synchronous backend answers `Queued::Done` from `queue` and leaves the other two out.
//! 5. Run the tests. The conformance tests of workloads and backends include it by themselves.
//!
//! This one keeps up to three requests, executes them in `commit`, and returns the newest ones
//! first, one more than asked. An asynchronous backend may do all of this to its caller.

use std::ffi::CStr;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use super::psync::PSYNC;
use super::{
    Backend, Capabilities, Completion, Direct, Directory, FileSlot, Flush, IoRequest, OpenFlags,
    ProbeTarget, Queued, Session, SessionSetup, Verb,
};
use crate::error::EngineError;

/// The registry entry: a constant without state. Per-thread state is in the session.
#[derive(Debug)]
pub(crate) struct Skeleton;

impl Backend for Skeleton {
    /// Returns the name in plans: lower case, one word.
    fn name(&self) -> &'static str {
        "skeleton"
    }

    /// Returns one line for `fsb list backends`.
    fn about(&self) -> &'static str {
        "a backend to copy"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            depth: 4,
            direct: true,
            appends: false,
            granule: 512,
            sequential: false,
            ..Capabilities::PLAIN
        }
    }

    /// Checks the properties that only the file itself has: the alignment for direct I/O, a file
    /// system without mmap.
    fn examine(&self, place: &ProbeTarget<'_>) -> Result<Option<Direct>, EngineError> {
        if place.record_size > 1 << 30 {
            let ProbeTarget {
                directory,
                record_size,
                ..
            } = place;
            return Err(EngineError::new(format!(
                "{}: records of {record_size} bytes",
                directory.display()
            )));
        }
        Ok(None)
    }

    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        let depth = setup.depth as usize;
        Ok(Box::new(SkeletonSession {
            files: PSYNC.session(setup)?,
            queued: Vec::with_capacity(depth),
            finished: Vec::with_capacity(depth),
        }))
    }
}

struct SkeletonSession {
    /// A session that opens, closes and moves data: a real backend makes its own calls here.
    files: Box<dyn Session>,
    queued: Vec<IoRequest>,
    finished: Vec<Completion>,
}

impl Session for SkeletonSession {
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        size: u64,
    ) -> Result<FileSlot, Errno> {
        self.files.open(at, path, flags, size)
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        self.files.close(slot)
    }

    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        // One less than its depth, because callers must cope with full queues.
        if self.queued.len() + self.finished.len() >= 3 {
            return Ok(Queued::Busy);
        }
        self.queued.push(*request);
        Ok(Queued::Pending)
    }

    fn commit(&mut self) -> Result<(), Errno> {
        for mut request in self.queued.drain(..) {
            // Half of the length, if that leaves whole sectors, because callers must cope with
            // short writes, too.
            let halves = request.length.is_multiple_of(1024) && request.offset.is_multiple_of(8192);
            if request.verb == Verb::Write && halves {
                request.length /= 2;
            }
            // SAFETY: the caller of `queue` keeps the request's memory until it is reaped.
            let result = match unsafe { self.files.queue(&request) } {
                Ok(Queued::Done(moved)) => Ok(moved),
                Ok(Queued::Pending | Queued::Busy) => Err(Errno::IO),
                Err(errno) => Err(errno),
            };
            self.finished.push(Completion {
                tag: request.tag,
                result,
            });
        }
        Ok(())
    }

    fn reap(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let keep = self.finished.len().saturating_sub(least + 1);
        done.extend(self.finished.drain(keep..).rev());
        Ok(())
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        self.files.flush(slot, what)
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.descriptor(slot)
    }
}

//! The flags of single calls (RWF_*). A backend carries at most one, however its calls reach the
//! kernel: preadv2 and pwritev2, libaio and io_uring take the same flags, and the kernel checks
//! them in one place. So one examination of the file system serves all backends with a flag.

use fsb_model::observed::Direct;
use fsb_sys::call_flags::{ATOMIC, DONTCACHE};
use rustix::io::ReadWriteFlags;

use super::session::ProbeTarget;
use super::{Verb, atomic, direct, nowait, uncached};
use crate::error::EngineError;

/// The flag of each call that moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallFlag {
    /// Calls without a flag.
    None,
    /// RWF_HIPRI: the kernel polls for the completion if the device has queues for it.
    Hipri,
    /// RWF_DONTCACHE.
    Uncached,
    /// RWF_ATOMIC, which only writes have.
    Atomic,
    /// RWF_NOWAIT.
    Nowait,
}

impl CallFlag {
    /// Returns the flag as calls of this direction take it.
    #[inline]
    pub(super) fn bits(self, verb: Verb) -> ReadWriteFlags {
        match (self, verb) {
            (CallFlag::None, _) | (CallFlag::Atomic, Verb::Read) => ReadWriteFlags::empty(),
            (CallFlag::Hipri, _) => ReadWriteFlags::HIPRI,
            (CallFlag::Uncached, _) => DONTCACHE,
            (CallFlag::Atomic, Verb::Write) => ATOMIC,
            (CallFlag::Nowait, _) => ReadWriteFlags::NOWAIT,
        }
    }

    /// Refuses a place whose file system does not take the flag. `bypasses` says whether the files
    /// are opened with O_DIRECT, which is examined as well.
    pub(super) fn examine(
        self,
        place: &ProbeTarget<'_>,
        bypasses: bool,
    ) -> Result<Option<Direct>, EngineError> {
        match self {
            CallFlag::Uncached => return uncached::examine(place).map(Some),
            CallFlag::Atomic => atomic::examine(place)?,
            CallFlag::Nowait => nowait::examine(place)?,
            CallFlag::None | CallFlag::Hipri => {}
        }
        match bypasses {
            true => direct::examine(place).map(Some),
            false => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::io::Errno;

    use super::*;
    use crate::backend::{
        Backend, FileBackend, IoRequest, OpenFlags, Queued, SessionSetup, libaio, uring, vectored,
    };
    use crate::data::Memory;

    const RECORD: usize = 4096;

    /// Makes one call of a session on a new file, and returns its result.
    fn call(backend: &FileBackend, root: &Path, verb: Verb) -> Result<usize, Errno> {
        std::fs::write(root.join("file"), [1; RECORD]).unwrap();
        let mut memory = Memory::new(RECORD);
        let setup = SessionSetup {
            memory: vec![(memory.as_mut().as_mut_ptr(), RECORD)],
            record_size: RECORD as u64,
            ..SessionSetup::plain(1)
        };
        let mut session = backend.session(&setup).unwrap();
        let directory = backend.namespace().open_root(root).unwrap();
        let slot = session
            .open(&directory, c"file", OpenFlags::READ_WRITE, RECORD as u64)
            .unwrap();
        let request = IoRequest {
            slot,
            verb,
            offset: 0,
            memory: memory.as_mut().as_mut_ptr(),
            length: RECORD,
            tag: 0,
        };
        // SAFETY: the memory outlives the request, which is waited for.
        if let Queued::Done(moved) = unsafe { session.queue(&request) }? {
            return Ok(moved);
        }
        let mut done = Vec::with_capacity(1);
        session.commit()?;
        session.reap(1, &mut done)?;
        done[0].result
    }

    /// A file system in memory refuses the flags, so a refused call had its flag.
    #[test]
    fn every_interface_passes_the_flag_to_the_kernel() {
        let memory = fsb_testkit::wants!(fsb_testkit::memory_directory());
        let all = [
            [&vectored::UNCACHED, &vectored::ATOMIC, &vectored::NOWAIT],
            [
                &libaio::LIBAIO_UNCACHED,
                &libaio::LIBAIO_ATOMIC,
                &libaio::LIBAIO_NOWAIT,
            ],
            [
                &uring::URING_UNCACHED,
                &uring::URING_ATOMIC,
                &uring::URING_NOWAIT,
            ],
        ];
        for backend in all.into_iter().flatten() {
            if backend.session(&SessionSetup::plain(1)).is_err() {
                fsb_testkit::left_out(backend.name(), "the kernel denies the interface");
                continue;
            }
            let name = backend.name();
            let refused = Err(Errno::OPNOTSUPP);
            assert_eq!(call(backend, memory.path(), Verb::Write), refused, "{name}");
            let reads = match backend.call_flag {
                CallFlag::Atomic => Ok(RECORD),
                _ => refused,
            };
            assert_eq!(call(backend, memory.path(), Verb::Read), reads, "{name}");
        }
    }

    #[test]
    fn all_backends_with_a_flag_are_refused_for_one_reason() {
        let memory = fsb_testkit::wants!(fsb_testkit::memory_directory());
        let place = ProbeTarget {
            directory: memory.path(),
            file: None,
            verb: Verb::Write,
            record_size: RECORD as u64,
        };
        for alike in [
            [
                &vectored::UNCACHED,
                &libaio::LIBAIO_UNCACHED,
                &uring::URING_UNCACHED,
            ],
            [
                &vectored::ATOMIC,
                &libaio::LIBAIO_ATOMIC,
                &uring::URING_ATOMIC,
            ],
            [
                &vectored::NOWAIT,
                &libaio::LIBAIO_NOWAIT,
                &uring::URING_NOWAIT,
            ],
        ] {
            let reasons = alike.map(|backend| {
                let refusal = backend.examine(&place).unwrap_err();
                assert!(refusal.inapplicable, "{}: {refusal}", backend.name());
                refusal.message
            });
            assert_eq!(reasons[0], reasons[1]);
            assert_eq!(reasons[0], reasons[2]);
        }
        assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0);
    }
}

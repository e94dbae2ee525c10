//! Locks around what is read and written: those of fcntl, which the kernel keeps for a process and a range of bytes.
//!
//! They are taken through descriptors of their own, so that no backend must know of them.

use super::{IoOptions, Lock, OpenFileSet};
use crate::EngineError;
use crate::backend::{self, OpenFlags, RangeLock, Session, Setup, Slot, Verb};

/// One I/O loop's locks.
pub(super) struct Locks {
    lock: Lock,
    verb: Verb,
    /// The file that the first slot is of.
    first: u64,
    /// What the locks are taken through.
    session: Box<dyn Session>,
    slots: Vec<Slot>,
}

impl Locks {
    /// Opens what the locks are taken through.
    pub(super) fn open(lock: Lock, set: &OpenFileSet, io_options: &IoOptions) -> Result<Locks, EngineError> {
        let IoOptions { verb, files, .. } = *io_options;
        let flags = match verb {
            Verb::Read => OpenFlags::READ,
            Verb::Write => OpenFlags::READ_WRITE,
        };
        let mut session = backend::plain(set.backend).session(&Setup::plain(files.count as usize))?;
        let open = |file| {
            let opened = session.open(&set.root, set.names.path(file), flags, set.layout.file_size);
            opened.map_err(|errno| set.refused("open", file, errno))
        };
        let slots = files.all().map(open).collect::<Result<_, _>>()?;
        Ok(Locks { lock, verb, first: files.first, session, slots })
    }

    /// Whether each record is locked for itself.
    #[inline]
    pub(super) fn by_record(&self) -> bool {
        self.lock == Lock::Record
    }

    /// Locks or unlocks all files, where they are locked as wholes.
    pub(super) fn all(&mut self, set: &OpenFileSet, take: bool) -> Result<(), EngineError> {
        if self.by_record() {
            return Ok(());
        }
        let files = self.first..self.first + self.slots.len() as u64;
        files.into_iter().try_for_each(|file| self.range(set, file, (0, 0), take))
    }

    /// Waits for the lock on a range of a file, or gives it back. A length of 0 is all of the file.
    pub(super) fn range(
        &mut self,
        set: &OpenFileSet,
        file: u64,
        (offset, length): (u64, u64),
        take: bool,
    ) -> Result<(), EngineError> {
        let Some(&slot) = self.slots.get(file.wrapping_sub(self.first) as usize) else { return Ok(()) };
        let lock = match self.verb {
            _ if !take => RangeLock::Release,
            Verb::Read => RangeLock::Shared,
            Verb::Write => RangeLock::Exclusive,
        };
        let locked = self.session.lock(slot, lock, offset, length);
        locked.map_err(|errno| set.refused(if take { "lock" } else { "unlock" }, file, errno))
    }
}

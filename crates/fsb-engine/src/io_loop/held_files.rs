//! Files that stay open: opened before the clock starts, and closed, reopened or created again between two samples.

use rustix::fs::FallocateFlags;

use super::{IoLoop, IoOptions, Locks, SetSession};
use crate::EngineError;
use crate::backend::Flush;
use crate::data::Data;

impl IoLoop<'_> {
    /// Closes the files that stay open.
    pub(crate) fn close_held(&mut self) -> Result<(), EngineError> {
        // Closing any descriptor of a file releases the process's locks on it, so the locks are released first.
        self.locks = None;
        self.session.let_go()
    }

    /// Opens them again.
    pub(crate) fn open_held(&mut self) -> Result<(), EngineError> {
        self.session.hold()?;
        let SetSession { set, io_options, .. } = &self.session;
        self.locks = io_options.lock.map(|lock| Locks::open(lock, set, io_options)).transpose()?;
        Ok(())
    }

    /// Allocates or frees the record of an item, or the first record of its file: fallocate.
    #[inline]
    pub(crate) fn allocate(&mut self, item: u64, how: FallocateFlags, at_start: bool) -> Result<(), EngineError> {
        let IoOptions { record_size, flush_each, .. } = self.session.io_options;
        let (file, record) = self.session.locate(item);
        let slot = self.seek(file)?;
        let offset = if at_start { 0 } else { record * record_size };
        let done = self.session.session.allocate(slot, how, offset, record_size);
        done.map_err(|errno| self.session.set.refused("fallocate", file, errno))?;
        if flush_each { self.flush(slot, file, Flush::Data) } else { Ok(()) }
    }

    /// Cuts the record of an item off the end of its file, or adds it there: ftruncate.
    #[inline]
    pub(crate) fn truncate(&mut self, item: u64, grow: bool) -> Result<(), EngineError> {
        let IoOptions { record_size, flush_each, .. } = self.session.io_options;
        let (file, record) = self.session.locate(item);
        let slot = self.seek(file)?;
        let records = if grow { record + 1 } else { self.session.records_per_file - record - 1 };
        let done = self.session.session.truncate(slot, records * record_size);
        done.map_err(|errno| self.session.set.refused("truncate", file, errno))?;
        if flush_each { self.flush(slot, file, Flush::Data) } else { Ok(()) }
    }

    /// Removes the files, which must be closed, so that they can be created again.
    pub(crate) fn unlink_held(&mut self) -> Result<(), EngineError> {
        let SetSession { set, io_options, .. } = &self.session;
        for file in io_options.files.all() {
            let removed = set.backend.namespace().unlink(&set.root, set.names.path(file));
            removed.map_err(|errno| set.refused("delete", file, errno))?;
        }
        Ok(())
    }

    /// Locks or unlocks a record, if each record is locked separately.
    #[inline(never)]
    pub(super) fn lock_record(&mut self, file: u64, offset: u64, take: bool) -> Result<(), EngineError> {
        let SetSession { set, io_options, .. } = &self.session;
        match self.locks.as_mut().filter(|locks| locks.by_record()) {
            Some(locks) => locks.range(set, file, (offset, io_options.record_size), take),
            None => Ok(()),
        }
    }

    /// Locks the files that are locked as a whole, until [`IoLoop::unlock_files`].
    pub(crate) fn lock_files(&mut self) -> Result<(), EngineError> {
        self.locks.as_mut().map_or(Ok(()), |locks| locks.all(self.session.set, true))
    }

    /// Releases the locks.
    pub(crate) fn unlock_files(&mut self) -> Result<(), EngineError> {
        self.locks.as_mut().map_or(Ok(()), |locks| locks.all(self.session.set, false))
    }
}

impl SetSession<'_> {
    /// Opens all files of this I/O loop.
    pub(super) fn hold(&mut self) -> Result<(), EngineError> {
        for file in self.io_options.files.all() {
            let slot = self.open(file)?;
            self.held.push(slot);
        }
        Ok(())
    }

    fn let_go(&mut self) -> Result<(), EngineError> {
        // The last is closed first.
        for file in self.io_options.files.all().rev() {
            let Some(slot) = self.held.pop() else { break };
            self.session.close(slot).map_err(|errno| self.set.refused("close", file, errno))?;
        }
        Ok(())
    }

    /// Compares a record with the bytes that were written there.
    #[inline(never)]
    pub(super) fn check(&mut self, found: &[u8], file: u64, offset: u64) -> Result<(), EngineError> {
        let address = self.set.layout.address(file) + offset;
        let Some(expected) = self.expected.as_mut().map(|data| data.window(address, found.len())) else {
            return Ok(());
        };
        match Data::difference(expected, found) {
            None => Ok(()),
            Some(place) => {
                let path = self.set.names.show(&self.set.path, file);
                Err(EngineError::corrupted(&path, offset + place as u64, expected[place], found[place]))
            }
        }
    }
}

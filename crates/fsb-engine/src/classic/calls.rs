//! read and write; pread and pwrite where IOzone seeks first.

use rustix::fd::OwnedFd;

use super::content::RecordContent;
use super::files;
use super::phase::{Operation, Phase, PhaseError};
use super::records::{Fault, READ, Records, WRITE, prime};
use crate::backend::files as calls;
use crate::memory::Memory;

pub(super) struct Calls<'p> {
    phase: &'p Phase,
    file: OwnedFd,
    content: RecordContent,
    record: Memory,
    /// From the start to the end, so that the kernel may keep the place.
    sequential: bool,
}

impl<'p> Calls<'p> {
    pub(super) fn new(phase: &'p Phase, file: OwnedFd) -> Calls<'p> {
        let content = RecordContent::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        let sequential = matches!(phase.operation, Operation::Write | Operation::Rewrite | Operation::Read);
        Calls { phase, file, content, record, sequential }
    }
}

impl Records for Calls<'_> {
    fn prime(&mut self, fsync: bool, first: bool) -> Result<(), PhaseError> {
        prime(self.phase, &self.file, self.record.as_mut(), fsync, first)
    }

    fn lock(&mut self, locked: bool) -> Result<(), PhaseError> {
        Ok(files::lock(self.phase, &self.file, locked)?)
    }

    #[inline]
    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        let moved = match self.sequential {
            true => calls::read(&self.file, record),
            false => calls::read_at(&self.file, record, offset),
        };
        Fault::whole(READ, moved, record.len())?;
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        let moved = match self.sequential {
            true => calls::write(&self.file, record),
            false => calls::write_at(&self.file, record, offset),
        };
        Fault::whole(WRITE, moved, record.len())
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        Ok(files::flush(&self.phase.path, &self.file)?)
    }

    fn close(self: Box<Self>) -> Result<(), PhaseError> {
        Ok(files::close(&self.phase.path, self.file)?)
    }
}

//! read and write; pread and pwrite where IOzone seeks first.

use rustix::fd::OwnedFd;
use rustix::io::retry_on_intr;

use super::content::Content;
use super::files;
use super::phase::{Operation, Phase, PhaseError};
use super::records::{Fault, READ, Records, WRITE};
use crate::data::Memory;

pub(super) struct Calls<'p> {
    phase: &'p Phase,
    file: OwnedFd,
    content: Content,
    record: Memory,
    /// From the start to the end, so that the kernel may keep the place.
    sequential: bool,
}

impl<'p> Calls<'p> {
    pub(super) fn new(phase: &'p Phase, file: OwnedFd) -> Calls<'p> {
        let content = Content::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        let sequential = matches!(phase.operation, Operation::Write | Operation::Rewrite | Operation::Read);
        Calls { phase, file, content, record, sequential }
    }
}

impl Records for Calls<'_> {
    fn prime(&mut self, fsync: bool, first: bool) -> Result<(), PhaseError> {
        if fsync {
            files::flush(&self.phase.path, &self.file)?;
        }
        if first {
            prime(self.phase, &self.file, self.record.as_mut())?;
        }
        Ok(())
    }

    fn lock(&mut self, locked: bool) -> Result<(), PhaseError> {
        Ok(files::lock(self.phase, &self.file, locked)?)
    }

    #[inline]
    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        let moved = match self.sequential {
            true => retry_on_intr(|| rustix::io::read(&self.file, &mut *record)),
            false => retry_on_intr(|| rustix::io::pread(&self.file, &mut *record, offset)),
        };
        Fault::whole(READ, moved, record.len())?;
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        let moved = match self.sequential {
            true => retry_on_intr(|| rustix::io::write(&self.file, record)),
            false => retry_on_intr(|| rustix::io::pwrite(&self.file, record, offset)),
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

/// Reads the first record, as IOzone does before the clock of sequential reads, to warm the processor up.
pub(super) fn prime(phase: &Phase, file: &OwnedFd, record: &mut [u8]) -> Result<(), PhaseError> {
    let moved = retry_on_intr(|| rustix::io::pread(file, &mut *record, 0));
    Fault::whole(READ, moved, record.len()).map_err(|fault| fault.of(phase, 0))
}

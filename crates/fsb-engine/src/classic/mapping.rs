//! Loads and stores through a mapping of the file.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::content::RecordContent;
use super::files;
use super::phase::{Msync, Operation, Phase, PhaseError};
use super::records::{Fault, READ, Records, WRITE, prime};
use crate::EngineError;
use crate::backend::files as calls;
use crate::backend::map::Mapping;
use crate::backend::sigbus;
use crate::memory::Memory;

pub(super) struct MappedFile<'p> {
    phase: &'p Phase,
    file: OwnedFd,
    content: RecordContent,
    record: Memory,
    map: Mapping,
    /// After each record that was stored.
    msync: Option<MsyncFlags>,
}

impl<'p> MappedFile<'p> {
    /// `written` is whether the file is open for writing; IOzone maps it so for random reads too.
    pub(super) fn new(
        phase: &'p Phase,
        file: OwnedFd,
        written: bool,
        msync: Msync,
    ) -> Result<MappedFile<'p>, PhaseError> {
        let content = RecordContent::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        if matches!(
            phase.operation,
            Operation::Write | Operation::Rewrite | Operation::RecordRewrite | Operation::Pwrite
        ) {
            // A mapping cannot make a file longer: writing its last record does.
            let last = phase.file_size - phase.record_size;
            content.renew(last, record.as_mut());
            let moved = calls::write_at(&file, record.as_mut(), last);
            Fault::whole(WRITE, moved, record.as_mut().len()).map_err(|fault| fault.of(phase, last))?;
        }
        sigbus::install();
        let refused = |errno| EngineError::call("map", &phase.path, errno);
        let length = rustix::fs::fstat(&file).map_err(refused)?.st_size as u64;
        if length < phase.file_size {
            return Err(Fault::Short("map", length as usize).of(phase, 0));
        }
        // Shared where stores must reach the file; IOzone maps privately for loads.
        let (protection, flags) = match written {
            true => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED),
            false => (ProtFlags::READ, MapFlags::PRIVATE),
        };
        let map = Mapping::new(&file, phase.file_size as usize, protection, flags).map_err(refused)?;
        let msync = match msync {
            Msync::Never => None,
            Msync::Async => Some(MsyncFlags::ASYNC),
            Msync::Sync => Some(MsyncFlags::SYNC),
        };
        Ok(MappedFile { phase, file, content, record, map, msync })
    }
}

/// A load or store has no result: the same by a call tells why it failed, unless the cause is gone by then.
#[cold]
fn failed(call: &'static str, moved: Result<usize, Errno>, length: usize) -> Fault {
    Fault::whole(call, moved, length).err().unwrap_or(Fault::Mapping(call))
}

impl Records for MappedFile<'_> {
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
        let length = record.len();
        // SAFETY: the record lies in the mapping (the file of a phase has a whole number of records, and is as long),
        // and the other side is memory of our own; the handler is installed. A mapping that failed is not used again:
        // the pass ends.
        if !unsafe { self.map.load(offset as usize, record.as_mut_ptr(), length) } {
            return Err(failed(READ, calls::read_at(&self.file, record, offset), length));
        }
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        // SAFETY: as in `read`; operations that write have a writable mapping.
        if !unsafe { self.map.store(record.as_ptr(), offset as usize, record.len()) } {
            let moved = calls::write_at(&self.file, record, offset);
            return Err(failed(WRITE, moved, record.len()));
        }
        match self.msync {
            Some(flags) => {
                self.map.sync(offset as usize, record.len(), flags).map_err(|errno| Fault::Call("msync", errno))
            }
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        let synced = self.map.sync(0, self.map.len(), MsyncFlags::SYNC);
        Ok(synced.map_err(|errno| EngineError::call("msync", &self.phase.path, errno))?)
    }

    fn close(self: Box<Self>) -> Result<(), PhaseError> {
        let MappedFile { phase, file, map, .. } = *self;
        drop(map);
        Ok(files::close(&phase.path, file)?)
    }
}

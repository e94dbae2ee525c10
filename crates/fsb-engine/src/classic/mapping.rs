//! Loads and stores through a mapping of the file.

use rustix::fd::OwnedFd;
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::calls::prime;
use super::content::Content;
use super::files;
use super::phase::{Msync, Operation, Phase, PhaseError};
use super::records::{Fault, READ, Records, WRITE};
use crate::EngineError;
use crate::backend::{map, sigbus};
use crate::data::Memory;

pub(super) struct Mapping<'p> {
    phase: &'p Phase,
    file: OwnedFd,
    content: Content,
    record: Memory,
    map: Map,
    /// After each record that was stored.
    msync: Option<MsyncFlags>,
}

/// A mapping of a whole file.
struct Map {
    start: *mut u8,
    length: usize,
}

impl Map {
    fn new(file: &OwnedFd, length: usize, written: bool) -> Result<Map, Errno> {
        // Shared where stores must reach the file; IOzone maps privately for loads.
        let (protection, flags) = match written {
            true => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED),
            false => (ProtFlags::READ, MapFlags::PRIVATE),
        };
        Ok(Map { start: map::map(file, length, protection, flags)?, length })
    }

    /// Where a record begins.
    fn place(&self, offset: usize, length: usize) -> *mut u8 {
        debug_assert!(offset + length <= self.length);
        // SAFETY: the record lies in the mapping: the file of a phase has a whole number of records, and is as long.
        unsafe { self.start.add(offset) }
    }

    fn whole(&self) -> (*mut u8, usize) {
        (self.start, self.length)
    }

    fn sync(&self, offset: usize, length: usize, flags: MsyncFlags) -> Result<(), Errno> {
        debug_assert!(offset + length <= self.length);
        // msync wants the start of a page, which a record smaller than one may not be.
        let within = offset % crate::data::PAGE;
        // SAFETY: the range lies in the mapping, which lives as long as `self`; its contents stay as they are.
        unsafe { rustix::mm::msync(self.start.add(offset - within).cast(), length + within, flags) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with these values, and nothing points into it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.start.cast(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

impl<'p> Mapping<'p> {
    /// `written` is whether the file is open for writing; IOzone maps it so for random reads too.
    pub(super) fn new(phase: &'p Phase, file: OwnedFd, written: bool, msync: Msync) -> Result<Mapping<'p>, PhaseError> {
        let content = Content::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        if matches!(
            phase.operation,
            Operation::Write | Operation::Rewrite | Operation::RecordRewrite | Operation::Pwrite
        ) {
            // A mapping cannot make a file longer: writing its last record does.
            let last = phase.file_size - phase.record_size;
            content.renew(last, record.as_mut());
            let moved = retry_on_intr(|| rustix::io::pwrite(&file, record.as_mut(), last));
            Fault::whole(WRITE, moved, record.as_mut().len()).map_err(|fault| fault.of(phase, last))?;
        }
        sigbus::install();
        let refused = |errno| EngineError::call("map", &phase.path, errno);
        let length = rustix::fs::fstat(&file).map_err(refused)?.st_size as u64;
        if length < phase.file_size {
            return Err(Fault::Short("map", length as usize).of(phase, 0));
        }
        let map = Map::new(&file, phase.file_size as usize, written).map_err(refused)?;
        let msync = match msync {
            Msync::Never => None,
            Msync::Async => Some(MsyncFlags::ASYNC),
            Msync::Sync => Some(MsyncFlags::SYNC),
        };
        Ok(Mapping { phase, file, content, record, map, msync })
    }
}

/// A load or store has no result: the same by a call tells why it failed, most likely.
#[cold]
fn failed(call: &'static str, moved: Result<usize, Errno>, length: usize) -> Fault {
    Fault::whole(call, moved, length).err().unwrap_or(Fault::Call(call, Errno::IO))
}

impl Records for Mapping<'_> {
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
        let (place, length) = (self.map.place(offset as usize, record.len()), record.len());
        // SAFETY: the record lies in the mapping, which nothing else points into, and the other side is memory of our
        // own; the handler is installed. A mapping that failed is not used again: the pass ends.
        if !unsafe { sigbus::copy(place, record.as_mut_ptr(), length, self.map.whole()) } {
            let moved = retry_on_intr(|| rustix::io::pread(&self.file, &mut *record, offset));
            return Err(failed(READ, moved, length));
        }
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        let (place, length) = (self.map.place(offset as usize, record.len()), record.len());
        // SAFETY: as in `read`; operations that write have a writable mapping.
        if !unsafe { sigbus::copy(record.as_ptr(), place, length, self.map.whole()) } {
            let moved = retry_on_intr(|| rustix::io::pwrite(&self.file, record, offset));
            return Err(failed(WRITE, moved, length));
        }
        match self.msync {
            Some(flags) => {
                self.map.sync(offset as usize, record.len(), flags).map_err(|errno| Fault::Call("msync", errno))
            }
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        let synced = self.map.sync(0, self.map.length, MsyncFlags::SYNC);
        Ok(synced.map_err(|errno| EngineError::call("msync", &self.phase.path, errno))?)
    }

    fn close(self: Box<Self>) -> Result<(), PhaseError> {
        let Mapping { phase, file, map, .. } = *self;
        drop(map);
        Ok(files::close(&phase.path, file)?)
    }
}

//! C stdio, the real one: fopen, fwrite, fread, fclose, with a buffer of one record.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::content::RecordContent;
use super::files;
use super::phase::{Operation, Phase, PhaseError};
use super::records::{Fault, READ, Records, WRITE};
use crate::EngineError;
use crate::backend::stdio::Stream;
use crate::memory::Memory;

pub(super) struct StreamFile<'p> {
    phase: &'p Phase,
    file: Stream,
    content: RecordContent,
    record: Memory,
}

impl<'p> StreamFile<'p> {
    pub(super) fn open(phase: &'p Phase) -> Result<StreamFile<'p>, PhaseError> {
        let mode = match phase.operation {
            Operation::Fread => c"r",
            Operation::Fwrite if !phase.path.exists() => c"w+",
            _ => c"r+",
        };
        let refused = |errno| EngineError::call("open", &phase.path, errno);
        let name = CString::new(phase.path.as_os_str().as_bytes()).map_err(|_| refused(Errno::INVAL))?;
        let file = Stream::open(&name, mode).map_err(refused)?;
        let content = RecordContent::new(phase.check, phase.rank);
        let mut record = Memory::new(phase.record_size as usize);
        content.fill(record.as_mut());
        Ok(StreamFile { phase, file, content, record })
    }

    fn refused(&self, call: &str, errno: Errno) -> PhaseError {
        EngineError::call(call, &self.phase.path, errno).into()
    }

    fn fsync(&self) -> Result<(), PhaseError> {
        rustix::fs::fsync(self.file.descriptor()).map_err(|errno| self.refused("fsync", errno))
    }
}

impl Records for StreamFile<'_> {
    fn prime(&mut self, _fsync: bool, _first: bool) -> Result<(), PhaseError> {
        if self.phase.operation.writes() {
            self.fsync()?;
        } else {
            // IOzone syncs through a descriptor of its own here.
            let other = files::open(&self.phase.path, OFlags::RDONLY, Mode::empty())?;
            files::flush(&self.phase.path, &other)?;
            files::close(&self.phase.path, other)?;
        }
        let size = self.record.as_mut().len();
        self.file.set_buffer(size).map_err(|errno| EngineError::call("setvbuf", &self.phase.path, errno).into())
    }

    fn lock(&mut self, _locked: bool) -> Result<(), PhaseError> {
        Ok(()) // IOzone locks no streams.
    }

    #[inline]
    fn read(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        Fault::whole(READ, self.file.read(record), record.len())?;
        Ok(self.content.check(&self.phase.path, offset, record)?)
    }

    #[inline]
    fn write(&mut self, offset: u64) -> Result<(), Fault> {
        let record = self.record.as_mut();
        self.content.renew(offset, record);
        Fault::whole(WRITE, self.file.write(record), record.len())
    }

    fn flush(&mut self) -> Result<(), PhaseError> {
        self.file.flush().map_err(|errno| EngineError::call("fflush", &self.phase.path, errno))?;
        if self.phase.operation.writes() { self.fsync() } else { Ok(()) }
    }

    fn close(mut self: Box<Self>) -> Result<(), PhaseError> {
        let closed = self.file.close();
        closed.map_err(|errno| self.refused("fclose", errno))
    }
}

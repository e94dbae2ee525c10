//! The seam between a pass and the calls that move its records.

use rustix::io::Errno;

use super::asynchronous::Asynchronous;
use super::calls::Calls;
use super::content::Corruption;
use super::files;
use super::mapping::Mapping;
use super::phase::{IoMethod, Operation, Phase, PhaseError};
use super::stream::Stream;
use crate::EngineError;

/// A record that was not moved. Small, for it is returned against the clock.
#[derive(Debug)]
pub(super) enum Fault {
    /// The kernel refused: `read from`, `write to`.
    Call(&'static str, Errno),
    /// Fewer bytes were moved than a record has.
    Short(&'static str, usize),
    /// What was read is wrong.
    Corrupt(Box<Corruption>),
}

impl From<Box<Corruption>> for Fault {
    fn from(corruption: Box<Corruption>) -> Fault {
        Fault::Corrupt(corruption)
    }
}

impl Fault {
    /// The whole sentence.
    #[cold]
    pub(super) fn of(self, phase: &Phase, offset: u64) -> PhaseError {
        let (path, record) = (&phase.path, phase.record_size);
        match self {
            Fault::Call(call, errno) => {
                EngineError::call(format!("{call} (record of {record} bytes at {offset})"), path, errno).into()
            }
            Fault::Short(call, moved) => EngineError::new(format!(
                "{call} {}: {moved} of {record} bytes at {offset}; the file is shorter than its tests need, or the file system is full",
                path.display()
            ))
            .into(),
            Fault::Corrupt(corruption) => PhaseError::Corrupt(*corruption),
        }
    }

    /// The bytes of a call that should move a whole record.
    #[inline]
    pub(super) fn whole(call: &'static str, moved: Result<usize, Errno>, record: usize) -> Result<(), Fault> {
        match moved {
            Ok(moved) if moved == record => Ok(()),
            Ok(moved) => Err(Fault::Short(call, moved)),
            Err(errno) => Err(Fault::Call(call, errno)),
        }
    }
}

/// What a refused read and write are called.
pub(super) const READ: &str = "read from";
/// See [`READ`].
pub(super) const WRITE: &str = "write to";

/// An open file whose records can be moved.
pub(super) trait Records {
    /// What is done between opening and the clock: fsync, and reading the first record once.
    fn prime(&mut self, fsync: bool, first: bool) -> Result<(), PhaseError>;

    /// Locks or unlocks the file.
    fn lock(&mut self, locked: bool) -> Result<(), PhaseError>;

    /// Reads the record at an offset and looks at it.
    fn read(&mut self, offset: u64) -> Result<(), Fault>;

    /// Writes it.
    fn write(&mut self, offset: u64) -> Result<(), Fault>;

    /// Waits for what is under way.
    fn drain(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Returns when the file is on the device.
    fn flush(&mut self) -> Result<(), PhaseError>;

    /// Closes the file.
    fn close(self: Box<Self>) -> Result<(), PhaseError>;
}

/// Opens the file of a phase. `together` is whether it is one of several that run at once.
pub(super) fn open(phase: &Phase, together: bool) -> Result<Box<dyn Records + '_>, PhaseError> {
    match phase.operation {
        Operation::Write if !together => files::make_anew(&phase.path)?,
        Operation::Pwrite => files::empty(&phase.path)?,
        _ => {}
    }
    if phase.operation.is_stream() {
        return Ok(Box::new(Stream::open(phase)?));
    }
    let file = files::open_for(phase, together)?;
    Ok(match phase.method {
        IoMethod::Calls => Box::new(Calls::new(phase, file)),
        IoMethod::Mapping(msync) => {
            let written = phase.operation.writes() || (phase.operation == Operation::RandomRead && !together);
            Box::new(Mapping::new(phase, file, written, msync)?)
        }
        IoMethod::Asynchronous { depth, copy } => Box::new(Asynchronous::new(phase, file, depth, copy)),
    })
}

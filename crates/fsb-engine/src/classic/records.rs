//! The seam between a pass and the calls that move its records.

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::content::Corruption;
use super::files;
use super::phase::{Phase, PhaseError};
use crate::EngineError;
use crate::backend::files as calls;

/// A record that was not moved. Small, for it is returned against the clock.
#[derive(Debug)]
pub(super) enum Fault {
    /// The kernel refused: `read from`, `write to`.
    Call(&'static str, Errno),
    /// Fewer bytes were moved than a record has.
    Short(&'static str, usize),
    /// A load or store was refused by a signal, and the call that should tell why was not.
    Mapping(&'static str),
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
            Fault::Mapping(call) => EngineError::new(format!(
                "{call} {}: the kernel refused it through the mapping (SIGBUS; record of {record} bytes at {offset}) and allowed it by a call right after; the device fails at times, or the file system is full",
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

/// [`Records::prime`] of a descriptor. IOzone reads the first record before the clock of sequential reads, to warm the
/// processor up.
pub(super) fn prime(
    phase: &Phase,
    file: &OwnedFd,
    record: &mut [u8],
    fsync: bool,
    first: bool,
) -> Result<(), PhaseError> {
    if fsync {
        files::flush(&phase.path, file)?;
    }
    if first {
        let moved = calls::read_at(file, record, 0);
        Fault::whole(READ, moved, record.len()).map_err(|fault| fault.of(phase, 0))?;
    }
    Ok(())
}

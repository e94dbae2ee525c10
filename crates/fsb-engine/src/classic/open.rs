//! Which calls move the records of a phase.

use super::asynchronous::Asynchronous;
use super::calls::Calls;
use super::files;
use super::mapping::MappedFile;
use super::phase::{IoMethod, Operation, Phase, PhaseError};
use super::records::Records;
use super::stream::StreamFile;

/// Opens the file of a phase. `together` is whether it is one of several that run at once.
pub(super) fn open(phase: &Phase, together: bool) -> Result<Box<dyn Records + '_>, PhaseError> {
    match phase.operation {
        Operation::Write if !together => files::make_anew(&phase.path)?,
        Operation::Pwrite => files::empty(&phase.path)?,
        _ => {}
    }
    if phase.operation.is_stream() {
        return Ok(Box::new(StreamFile::open(phase)?));
    }
    let file = files::open_for(phase, together)?;
    Ok(match phase.method {
        IoMethod::Calls => Box::new(Calls::new(phase, file)),
        IoMethod::Mapping(msync) => {
            let written = phase.operation.writes() || (phase.operation == Operation::RandomRead && !together);
            Box::new(MappedFile::new(phase, file, written, msync)?)
        }
        IoMethod::Asynchronous { depth, copy } => Box::new(Asynchronous::new(phase, file, depth, copy)),
    })
}

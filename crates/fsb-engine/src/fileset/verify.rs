//! Reading back what was written.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::layout::Layout;
use crate::EngineError;
use crate::data::{Data, DataSource, Memory};

/// Bytes of one call.
const CHUNK: u64 = 1 << 20;

/// Compares all that the files hold with what is written to them. Files may be shorter than the layout
/// says: a workload that writes new files may end early.
pub(crate) fn verify(set: &Path, layout: &Layout, data: DataSource) -> Result<(), EngineError> {
    let mut data = Data::new(data, CHUNK as usize);
    let mut memory = Memory::new(CHUNK as usize);
    for file in 0..layout.files {
        let path = set.join(layout.path(file));
        let open = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        let size = open.metadata().map_err(|error| EngineError::io("stat", &path, &error))?.len();
        let mut offset = 0;
        while offset < size {
            let found = &mut memory.as_mut()[..CHUNK.min(size - offset) as usize];
            open.read_exact_at(found, offset).map_err(|error| EngineError::io("read from", &path, &error))?;
            let expected = data.window(layout.address(file) + offset, found.len());
            if let Some(place) = Data::difference(expected, found) {
                return Err(EngineError::corrupted(&path, offset + place as u64, expected[place], found[place]));
            }
            offset += CHUNK;
        }
    }
    Ok(())
}

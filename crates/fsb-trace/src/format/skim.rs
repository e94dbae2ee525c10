//! Reads a trace except its calls.

use std::io::{Read, Seek, SeekFrom};

use super::content::{Names, unpack_initial, unpack_names};
use super::reader::Reader;
use super::{CALLS, END, HEADER, Header, INITIAL, NAMES, Totals};
use crate::TraceError;
use crate::initial::Initial;

/// A trace without its calls.
#[derive(Debug, Clone)]
pub struct Skimmed {
    /// The facts that were known when the recording began.
    pub header: Header,
    /// The facts that were known when the recording had ended.
    pub totals: Totals,
    pub names: Names,
    /// The states of names before the first call.
    pub initial: Vec<Initial>,
}

impl Skimmed {
    /// Reads a trace from its beginning and skips the calls.
    ///
    /// # Errors
    /// Fails if the input is not a trace, has another version, is cut off or damaged, or if a name in it leads out of
    /// the target.
    pub fn read(from: impl Read + Seek) -> Result<Skimmed, TraceError> {
        let mut reader = Reader::new(from)?;
        let mut initial = Vec::new();
        loop {
            let head = reader.head()?;
            if head[0] == CALLS {
                let packed = u32::from_le_bytes([head[9], head[10], head[11], head[12]]);
                reader.from.seek(SeekFrom::Current(i64::from(packed)))?;
                continue;
            }
            let section = reader.content(&head)?;
            match head[0] {
                NAMES => unpack_names(&section.content, section.count, &mut reader.names)?,
                INITIAL => initial.extend(unpack_initial(&section.content, section.count, reader.names.len())?),
                END => {
                    let totals: Totals = serde_json::from_slice(&section.content)
                        .map_err(|error| TraceError::damaged(error.to_string()))?;
                    let Reader { header, names, .. } = reader;
                    return Ok(Skimmed { header, totals, names, initial });
                }
                HEADER => return Err(TraceError::damaged("it has two headers")),
                other => return Err(TraceError::damaged(format!("a section of an unknown kind, {other:#04x}"))),
            }
        }
    }
}

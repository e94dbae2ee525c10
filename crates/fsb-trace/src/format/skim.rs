//! Everything of a trace but its calls, without going through them.

use std::io::{Read, Seek, SeekFrom};

use super::content::{Names, unpack_initial, unpack_names};
use super::reader::Reader;
use super::{CALLS, END, HEADER, Header, INITIAL, NAMES, Totals};
use crate::TraceError;
use crate::initial::Initial;

/// A trace without its calls.
#[derive(Debug, Clone)]
pub struct Skimmed {
    /// What was known at the beginning.
    pub header: Header,
    /// What was known at the end.
    pub totals: Totals,
    pub names: Names,
    /// What was there before.
    pub initial: Vec<Initial>,
}

impl Skimmed {
    /// Reads it from the beginning, passing over the calls.
    ///
    /// # Errors
    /// It is none, of another version, cut off or damaged, or a name in it leads out of the target.
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

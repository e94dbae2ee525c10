//! Reading a trace from its beginning to its end, in bounded memory.

use std::io::{self, Read};

use super::codec::Codec;
use super::content::{Names, unpack_initial, unpack_names};
use super::{BLOCK, CALLS, END, HEADER, Header, INITIAL, LARGEST_SECTION, MAGIC, NAMES, Totals, VERSION};
use crate::TraceError;
use crate::call::Call;
use crate::initial::Initial;

/// The next part of a trace.
#[derive(Debug)]
pub enum TracePart {
    /// The states of names before the first call.
    Initial(Vec<Initial>),
    /// Calls, in the order in which they ended.
    Calls(Vec<Call>),
    End(Box<Totals>),
}

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R: Read> {
    pub(super) from: R,
    pub(super) header: Header,
    codec: Codec,
    pub(super) names: Names,
    calls: u64,
    ended: bool,
}

pub(super) struct Section {
    tag: u8,
    pub(super) count: usize,
    pub(super) content: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// Fails if the input is not a trace, has another version, or is damaged.
    pub fn new(mut from: R) -> Result<Reader<R>, TraceError> {
        let mut magic = [0; 10];
        match from.read_exact(&mut magic) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(TraceError::NotATrace),
            read => read?,
        }
        if magic[..8] != MAGIC[..] {
            return Err(TraceError::NotATrace);
        }
        let version = u16::from_le_bytes([magic[8], magic[9]]);
        if !(1..=VERSION).contains(&version) {
            return Err(TraceError::Version(version));
        }
        let mut reader = Reader {
            from,
            header: Header::default(),
            codec: Codec::default(),
            names: Names::default(),
            calls: 0,
            ended: false,
        };
        let section = reader.section()?;
        if section.tag != HEADER {
            return Err(TraceError::damaged("it begins without a header"));
        }
        reader.header =
            serde_json::from_slice(&section.content).map_err(|error| TraceError::damaged(error.to_string()))?;
        Ok(reader)
    }

    /// Returns the facts that were known when the recording began.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns all names so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the next part, or `None` after the end.
    ///
    /// # Errors
    /// Fails if the trace is cut off or damaged, or if a name in it leads out of the target.
    pub fn next_part(&mut self) -> Result<Option<TracePart>, TraceError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let Section { tag, count, content } = self.section()?;
            match tag {
                NAMES => unpack_names(&content, count, &mut self.names)?,
                INITIAL => {
                    return unpack_initial(&content, count, self.names.len()).map(|all| Some(TracePart::Initial(all)));
                }
                CALLS => {
                    let calls = self.codec.unpack(&content, count, self.names.len())?;
                    self.calls += calls.len() as u64;
                    return Ok(Some(TracePart::Calls(calls)));
                }
                END => return self.end(&content).map(Some),
                other => return Err(TraceError::damaged(format!("a section of an unknown kind, {other:#04x}"))),
            }
        }
    }

    fn end(&mut self, content: &[u8]) -> Result<TracePart, TraceError> {
        let totals: Totals = serde_json::from_slice(content).map_err(|error| TraceError::damaged(error.to_string()))?;
        if totals.calls != self.calls {
            let message = format!("{} calls came where its end counts {}", self.calls, totals.calls);
            return Err(TraceError::Damaged(message));
        }
        self.ended = true;
        Ok(TracePart::End(Box::new(totals)))
    }

    fn section(&mut self) -> Result<Section, TraceError> {
        let head = self.head()?;
        self.content(&head)
    }

    /// Reads the head of a section.
    pub(super) fn head(&mut self) -> Result<[u8; 17], TraceError> {
        let mut head = [0; 17];
        self.exactly(&mut head)?;
        Ok(head)
    }

    pub(super) fn content(&mut self, head: &[u8; 17]) -> Result<Section, TraceError> {
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (count, length, packed) = (number(1) as usize, number(5) as usize, number(9) as usize);
        if length > LARGEST_SECTION || packed > LARGEST_SECTION || (head[0] == CALLS && count > BLOCK) {
            return Err(TraceError::damaged("a section larger than any that fsb writes"));
        }
        let mut frame = Vec::new();
        // Memory grows with the data, not with the announced length.
        (&mut self.from).take(packed as u64).read_to_end(&mut frame)?;
        if frame.len() < packed {
            return Err(TraceError::Truncated { calls: self.calls });
        }
        if crc32fast::hash(&frame) != number(13) {
            return Err(TraceError::damaged("a section has the wrong checksum"));
        }
        let content = zstd::bulk::decompress(&frame, length)
            .map_err(|error| TraceError::damaged(format!("a section cannot be unpacked: {error}")))?;
        if content.len() != length {
            return Err(TraceError::damaged("a section has the wrong length"));
        }
        Ok(Section { tag: head[0], count, content })
    }

    fn exactly(&mut self, bytes: &mut [u8]) -> Result<(), TraceError> {
        match self.from.read_exact(bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(TraceError::Truncated { calls: self.calls })
            }
            read => Ok(read?),
        }
    }
}

//! The description of a pass over a file, and its result.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::hash::mix;
use crate::memory::PAGE;

/// The operation on the records of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Writes a new file from its start.
    Write,
    /// Overwrites an existing file from its start.
    Rewrite,
    /// Reads a file from its start.
    Read,
    /// Reads the records in random order, each once.
    RandomRead,
    /// Writes the records in random order, each once.
    RandomWrite,
    /// Reads the records from the last to the first.
    BackwardRead,
    /// Writes the first record as often as the file has records.
    RecordRewrite,
    /// Reads records with a stride.
    StrideRead,
    /// C stdio writes: a new file, or over an existing one.
    Fwrite,
    /// C stdio writes over an existing file.
    Frewrite,
    /// C stdio reads.
    Fread,
    /// pwrite; one of several that run at once empties its file first.
    Pwrite,
    Pread,
}

impl Operation {
    /// Returns whether the operation writes to the file.
    pub fn writes(self) -> bool {
        use Operation::*;
        matches!(
            self,
            Write | Rewrite | RandomWrite | RecordRewrite | Fwrite | Frewrite | Pwrite
        )
    }

    /// Returns whether the operation uses C stdio.
    pub fn is_stream(self) -> bool {
        matches!(
            self,
            Operation::Fwrite | Operation::Frewrite | Operation::Fread
        )
    }
}

/// The calls that move a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMethod {
    /// read and write.
    Calls,
    /// A mapping, and the msync after each record that is stored into it.
    Mapping(Msync),
    /// POSIX asynchronous requests.
    Asynchronous {
        /// Requests in flight at once.
        depth: u32,
        /// Whether each record is copied between the request's memory and a buffer of the caller.
        copy: bool,
    },
}

/// The msync call after each record that is stored into a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Msync {
    /// No call.
    Never,
    /// MS_ASYNC.
    Async,
    /// MS_SYNC.
    Sync,
}

/// The processor's cache, to be emptied before each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purge {
    /// The size in bytes.
    pub cache: usize,
    /// The size of its lines in bytes.
    pub line: usize,
}

/// One pass over one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The operation on the records.
    pub operation: Operation,
    /// The file.
    pub path: PathBuf,
    /// The size in bytes, a multiple of the record's.
    pub file_size: u64,
    /// The record in bytes.
    pub record_size: u64,
    /// For strided reads: the number of records from one to the next.
    pub stride: u64,
    pub method: IoMethod,
    /// Alone and before a write or a rewrite: a page is written by write(2) first, though the
    /// records may go through a mapping.
    pub mix: bool,
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC, if the file is opened for writing.
    pub sync: bool,
    /// O_DSYNC, likewise.
    pub data_sync: bool,
    /// fsync or msync belongs to the time.
    pub include_flush: bool,
    /// close belongs to the time.
    pub include_close: bool,
    /// The whole file is locked meanwhile.
    pub lock: bool,
    /// The content of the file.
    pub check: Check,
    /// Whether the processor's cache is emptied before each record.
    pub purge: Option<Purge>,
    /// The time of each record is kept.
    pub latencies: bool,
    /// Index of this phase in its group, from 0; it also distinguishes the data of the phases in
    /// [`Check::Diagnose`].
    pub rank: u32,
    /// The processor to run on.
    pub cpu: Option<u32>,
    /// The first of several to finish stops the others.
    pub stonewall: bool,
    /// The fsync calls outside the clock.
    pub rest: Rest,
}

/// The fsync calls on a file outside the clock. IOzone calls fsync before and after each pass. A
/// repetition omits the calls that it does not need to find the state of the first pass, because
/// they only take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// Whether fsync is called after the file was opened.
    pub before: bool,
    /// Whether fsync is called after the last record.
    pub after: bool,
}

impl Rest {
    /// As IOzone does it.
    pub const ALWAYS: Rest = Rest {
        before: true,
        after: true,
    };
}

/// The result of a pass.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseResult {
    /// From the first record to the last, or to the stonewall, with the flush and close that belong
    /// to the time.
    pub nanoseconds: u64,
    /// Records moved in that time.
    pub records: u64,
    /// From the first record to the end of the pass; `None` if it did not move all records.
    pub full_nanoseconds: Option<u64>,
    /// Processor time between first and last record, in user mode and in the kernel.
    pub user_nanoseconds: u64,
    /// See `user_nanoseconds`.
    pub system_nanoseconds: u64,
    /// Elapsed time that belongs to the processor time.
    pub wall_nanoseconds: u64,
    /// Offset in bytes and nanoseconds of each record, in order; empty unless [`Phase::latencies`]
    /// is set.
    pub latencies: Vec<(u64, u64)>,
}

/// The error of a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum PhaseError {
    /// A call failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The data that was read differs from the data that was written.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The pass was interrupted, or another pass of its group could not start.
    #[error("interrupted")]
    Interrupted,
}

// Record contents: generates the data that is written, and checks the data that is read.
//
// IOzone writes the same record over and over, and checks the first word of each page when it
// reads. Here it is done the same way at the same cost. IOzone's records are mostly zeros, which
// some file systems compress or leave out. The sampled records here are incompressible. Modes that
// check every byte use one byte everywhere, or a function of the place in the file. The latter also
// detects a record at a wrong place or in a wrong file.

/// The word at the start of each page in [`Check::Sample`].
const MARK: u64 = 0xf5b1_0203_0405_0607;
/// Decides the bytes between the marks, the same in every run.
const SEED: u64 = 0x10_2011;
const WORD: usize = size_of::<u64>();

/// The content of records, and the part of it that is checked when they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Incompressible bytes with a mark at the start of each page; only the marks are checked.
    Sample,
    /// The same byte everywhere; all bytes are checked.
    Pattern(u8),
    /// Bytes that depend on their file and their place in it; all bytes are checked.
    Diagnose,
}

/// A byte that differs from the written one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error(
    "{} is corrupt at byte {offset}: expected {expected:#04x}, found {found:#04x} ({bytes} wrong bytes in the record of {record} bytes at {record_offset})",
    path.display()
)]
pub struct Corruption {
    /// The file.
    pub path: PathBuf,
    /// Offset of the first wrong byte in the file.
    pub offset: u64,
    /// The byte that was written there.
    pub expected: u8,
    pub found: u8,
    /// Offset of the record in the file.
    pub record_offset: u64,
    /// Size of the record in bytes.
    pub record: u64,
    /// Number of wrong bytes in the record, among those that are checked.
    pub bytes: u64,
}

/// The contents of one file.
#[derive(Debug, Clone)]
pub(super) struct RecordContent {
    check: Check,
    key: u64,
}

impl RecordContent {
    pub(super) fn new(check: Check, rank: u32) -> RecordContent {
        RecordContent {
            check,
            key: mix(SEED ^ mix(u64::from(rank) + 1)),
        }
    }

    /// Fills a record before the clock starts.
    pub(super) fn fill(&self, record: &mut [u8]) {
        match self.check {
            Check::Sample => {
                for (index, word) in record.chunks_mut(WORD).enumerate() {
                    word.copy_from_slice(&mix(SEED ^ index as u64).to_le_bytes()[..word.len()]);
                }
                for page in record.chunks_mut(PAGE) {
                    let length = page.len().min(WORD);
                    page[..length].copy_from_slice(&MARK.to_le_bytes()[..length]);
                }
            }
            Check::Pattern(byte) => record.fill(byte),
            Check::Diagnose => self.renew(0, record),
        }
    }

    /// Fills a record that goes to `offset`, where each differs.
    #[inline]
    pub(super) fn renew(&self, offset: u64, record: &mut [u8]) {
        if self.check == Check::Diagnose {
            for (index, word) in record.chunks_mut(WORD).enumerate() {
                word.copy_from_slice(&self.word(offset, index).to_le_bytes()[..word.len()]);
            }
        }
    }

    /// Records start on multiples of a kilobyte, so words never straddle them.
    #[inline]
    fn word(&self, offset: u64, index: usize) -> u64 {
        mix(self.key ^ (offset / WORD as u64 + index as u64))
    }

    /// Checks a record that was read from `offset`.
    #[inline]
    pub(super) fn check(
        &self,
        path: &Path,
        offset: u64,
        record: &[u8],
    ) -> Result<(), Box<Corruption>> {
        let intact = match self.check {
            Check::Sample => record.chunks(PAGE).all(|page| {
                page.first_chunk::<WORD>()
                    .is_none_or(|word| u64::from_le_bytes(*word) == MARK)
            }),
            Check::Pattern(byte) => record.iter().all(|found| *found == byte),
            Check::Diagnose => record
                .chunks_exact(WORD)
                .enumerate()
                .all(|(index, word)| word == self.word(offset, index).to_le_bytes()),
        };
        if intact {
            Ok(())
        } else {
            Err(self.corruption(path, offset, record))
        }
    }

    /// Returns the expected byte at `place` of a record at `offset`, or `None` if that byte is not
    /// checked.
    fn expected(&self, offset: u64, place: usize) -> Option<u8> {
        match self.check {
            Check::Sample => MARK.to_le_bytes().get(place % PAGE).copied(),
            Check::Pattern(byte) => Some(byte),
            Check::Diagnose => Some(self.word(offset, place / WORD).to_le_bytes()[place % WORD]),
        }
    }

    #[cold]
    fn corruption(&self, path: &Path, offset: u64, record: &[u8]) -> Box<Corruption> {
        let wrong = record.iter().enumerate().filter_map(|(place, found)| {
            self.expected(offset, place)
                .filter(|expected| expected != found)
                .map(|expected| (place, expected, *found))
        });
        let mut wrong = wrong.peekable();
        let (place, expected, found) = wrong.peek().copied().unwrap_or_default();
        Box::new(Corruption {
            path: path.to_owned(),
            offset: offset + place as u64,
            expected,
            found,
            record_offset: offset,
            record: record.len() as u64,
            bytes: wrong.count() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn checks() -> impl Strategy<Value = Check> {
        prop_oneof![
            Just(Check::Sample),
            any::<u8>().prop_map(Check::Pattern),
            Just(Check::Diagnose)
        ]
    }

    proptest! {
        #[test]
        fn written_content_is_intact(check in checks(), record in 1usize..40, at in 0u64..1000, rank in 0u32..4) {
            let content = RecordContent::new(check, rank);
            let mut bytes = vec![0; record * 1024];
            let offset = at * bytes.len() as u64;
            content.fill(&mut bytes);
            content.renew(offset, &mut bytes);
            prop_assert_eq!(content.check(Path::new("f"), offset, &bytes), Ok(()));
        }

        #[test]
        fn every_changed_byte_is_found_and_placed(place in 0usize..8192, flip in 1u8..=255, at in 0u64..9, diagnose: bool) {
            let content = RecordContent::new(if diagnose { Check::Diagnose } else { Check::Pattern(0x5a) }, 1);
            let mut bytes = vec![0; 8192];
            content.fill(&mut bytes);
            content.renew(at * 8192, &mut bytes);
            let expected = bytes[place];
            bytes[place] ^= flip;
            let corruption = content.check(Path::new("f"), at * 8192, &bytes).unwrap_err();
            prop_assert_eq!(corruption.offset, at * 8192 + place as u64);
            prop_assert_eq!((corruption.expected, corruption.found, corruption.bytes), (expected, expected ^ flip, 1));
        }
    }

    #[test]
    fn a_record_at_a_wrong_place_or_in_a_wrong_file_is_found_where_all_differ() {
        let content = RecordContent::new(Check::Diagnose, 0);
        let mut bytes = vec![0; 4096];
        content.renew(4096, &mut bytes);
        assert!(content.check(Path::new("f"), 4096, &bytes).is_ok());
        assert!(content.check(Path::new("f"), 8192, &bytes).is_err());
        assert!(
            RecordContent::new(Check::Diagnose, 1)
                .check(Path::new("f"), 4096, &bytes)
                .is_err()
        );
    }

    #[test]
    fn a_sample_looks_at_the_start_of_each_page() {
        let content = RecordContent::new(Check::Sample, 0);
        let mut bytes = vec![0; 12_288];
        content.fill(&mut bytes);
        bytes[5000] ^= 1;
        assert!(content.check(Path::new("f"), 0, &bytes).is_ok());
        bytes[8192 + 7] ^= 1;
        let corruption = content.check(Path::new("f"), 0, &bytes).unwrap_err();
        assert_eq!((corruption.offset, corruption.bytes), (8199, 1));
    }
}

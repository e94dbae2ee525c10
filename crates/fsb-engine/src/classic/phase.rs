//! What a pass over a file is, and what comes of it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::content::{Check, Corruption};
use crate::EngineError;

/// What is done to the records of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A new file is written from its start.
    Write,
    /// An existing one is.
    Rewrite,
    /// A file is read from its start.
    Read,
    /// Records are read in random order, each once.
    RandomRead,
    /// Records are written in random order, each once.
    RandomWrite,
    /// Records are read from the last to the first.
    BackwardRead,
    /// The first record is written as often as the file has records.
    RecordRewrite,
    /// Records are read with a stride.
    StrideRead,
    /// C stdio writes: a new file, or over an existing one.
    Fwrite,
    /// C stdio writes over an existing file.
    Frewrite,
    /// C stdio reads.
    Fread,
    /// pwrite, into an emptied file.
    Pwrite,
    Pread,
}

impl Operation {
    /// Whether data go into the file.
    pub fn writes(self) -> bool {
        use Operation::*;
        matches!(self, Write | Rewrite | RandomWrite | RecordRewrite | Fwrite | Frewrite | Pwrite)
    }

    /// Whether it uses C stdio.
    pub fn is_stream(self) -> bool {
        matches!(self, Operation::Fwrite | Operation::Frewrite | Operation::Fread)
    }
}

/// How a record is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMethod {
    /// read and write.
    Calls,
    /// A mapping, and what follows each record that is stored into it.
    Mapping(Msync),
    /// POSIX asynchronous requests.
    Asynchronous {
        /// Requests under way at once.
        depth: u32,
        /// Each record is copied between the request's memory and one of the caller.
        copy: bool,
    },
}

/// What follows each record that is stored into a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Msync {
    /// Nothing.
    Never,
    /// MS_ASYNC.
    Async,
    /// MS_SYNC.
    Sync,
}

/// The processor's cache, to be emptied before each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purge {
    /// Its size in bytes.
    pub cache: usize,
    /// The size of its lines in bytes.
    pub line: usize,
}

/// One pass over one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// What is done.
    pub operation: Operation,
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes, a multiple of the record's.
    pub file_size: u64,
    /// The record in bytes.
    pub record_size: u64,
    /// For strided reads: how many records further the next one is.
    pub stride: u64,
    pub method: IoMethod,
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC, where the file is opened for writing.
    pub sync: bool,
    /// O_DSYNC, likewise.
    pub data_sync: bool,
    /// fsync or msync belongs to the time.
    pub include_flush: bool,
    /// close belongs to the time.
    pub include_close: bool,
    /// The whole file is locked meanwhile.
    pub lock: bool,
    /// What the file holds.
    pub check: Check,
    /// Whether the processor's cache is emptied before each record.
    pub purge: Option<Purge>,
    /// The time of each record is kept.
    pub latencies: bool,
    /// Which of several this is, from 0; also distinguishes their data in [`Check::Diagnose`].
    pub rank: u32,
    /// The processor to run on.
    pub cpu: Option<u32>,
    /// The first of several to finish stops the others.
    pub stonewall: bool,
    /// Where IOzone calls fsync outside the clock.
    pub rest: Rest,
}

/// When a file is brought to rest outside the clock. IOzone does so before and after each pass; what a repetition does
/// not need to find the state of the first pass would only make it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// After opening it.
    pub before: bool,
    /// After the last record.
    pub after: bool,
}

impl Rest {
    /// As IOzone does it.
    pub const ALWAYS: Rest = Rest { before: true, after: true };
}

/// What came of a pass.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseResult {
    /// From the first record to the last, or to the stonewall, with what belongs to the time.
    pub nanoseconds: u64,
    /// Records moved in that time.
    pub records: u64,
    /// From the first record to the end of all of them, where all were moved.
    pub full_nanoseconds: Option<u64>,
    /// Processor time between first and last record, in user mode and in the kernel.
    pub user_nanoseconds: u64,
    /// See `user_nanoseconds`.
    pub system_nanoseconds: u64,
    /// Elapsed time that belongs to the processor time.
    pub wall_nanoseconds: u64,
    /// Offset in bytes and nanoseconds of each record, in order, where they were to be kept.
    pub latencies: Vec<(u64, u64)>,
}

/// A pass that could not be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum PhaseError {
    /// A call was refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What was read is not what was written.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

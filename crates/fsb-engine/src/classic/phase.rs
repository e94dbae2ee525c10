//! The description of a pass over a file, and its result.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::content::{Check, Corruption};
use crate::EngineError;

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
    /// pwrite, into an emptied file.
    Pwrite,
    Pread,
}

impl Operation {
    /// Returns whether the operation writes to the file.
    pub fn writes(self) -> bool {
        use Operation::*;
        matches!(self, Write | Rewrite | RandomWrite | RecordRewrite | Fwrite | Frewrite | Pwrite)
    }

    /// Returns whether the operation uses C stdio.
    pub fn is_stream(self) -> bool {
        matches!(self, Operation::Fwrite | Operation::Frewrite | Operation::Fread)
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
    /// Its size in bytes.
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
    /// Its size in bytes, a multiple of the record's.
    pub file_size: u64,
    /// The record in bytes.
    pub record_size: u64,
    /// For strided reads: the number of records from one to the next.
    pub stride: u64,
    pub method: IoMethod,
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
    /// Index of this phase in its group, from 0; it also distinguishes the data of the phases in [`Check::Diagnose`].
    pub rank: u32,
    /// The processor to run on.
    pub cpu: Option<u32>,
    /// The first of several to finish stops the others.
    pub stonewall: bool,
    /// The fsync calls outside the clock.
    pub rest: Rest,
}

/// The fsync calls on a file outside the clock. IOzone calls fsync before and after each pass. A repetition omits the
/// calls that it does not need to find the state of the first pass, because they only take time.
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

/// The result of a pass.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseResult {
    /// From the first record to the last, or to the stonewall, with the flush and close that belong to the time.
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
    /// Offset in bytes and nanoseconds of each record, in order; empty unless [`Phase::latencies`] is set.
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

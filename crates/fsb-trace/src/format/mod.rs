//! The format on disk: a header, then sections in the order of the recording, then an end.
//!
//! A file begins with `FSBTRACE` and two bytes of version. Each section is a letter, four numbers and a zstd frame. The
//! numbers are the number of items, the bytes of the content, the bytes of the frame, and a CRC-32 of the frame. Each
//! of them has four bytes, little-endian.
//!
//! Names and initial states come in sections of their own. Calls come in blocks of up to 65,536, column by column.
//! Their numbers are differences from the predicted ones, in LEB128. The predictions continue from block to block, so a
//! trace is read from its beginning.

mod bytes;
mod codec;
mod content;
mod reader;
mod skim;
#[cfg(test)]
mod tests;
mod writer;

use serde::{Deserialize, Serialize};

pub use content::Names;
pub use reader::{Reader, TracePart};
pub use skim::Skimmed;
pub use writer::Writer;

/// The version that is written, and the newest that is read. Version 1 does not record which task woke which.
pub const VERSION: u16 = 2;

const MAGIC: &[u8; 8] = b"FSBTRACE";
/// Calls in a block.
const BLOCK: usize = 65_536;
/// Bytes of a section, unpacked: a block of the longest calls takes some five.
const LARGEST_SECTION: usize = 64 << 20;
/// The most lanes of a trace. No program has more.
pub(crate) const MOST_LANES: u32 = 1 << 16;
/// More descriptors or names than these at once would fill memory.
const MOST_NAMES: u32 = 1 << 26;

const HEADER: u8 = b'H';
const NAMES: u8 = b'N';
const INITIAL: u8 = b'I';
const CALLS: u8 = b'C';
const END: u8 = b'E';

/// The facts that are known when a recording begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The recorded command, as it was typed; empty if names are hidden.
    #[serde(default)]
    pub program: String,
    /// The directory that all names are below; empty if names are hidden.
    #[serde(default)]
    pub root: String,
    /// The method that observed the calls: `ptrace`, `ebpf`, `strace`, …
    pub by: String,
    /// The version of fsb that wrote it.
    #[serde(default)]
    pub fsb: String,
    /// The kernel that it was recorded on.
    #[serde(default)]
    pub kernel: String,
    /// Processors of that machine.
    #[serde(default)]
    pub cpus: u32,
    /// When, in UTC.
    #[serde(default)]
    pub time: String,
    /// Names are replaced by meaningless ones.
    #[serde(default)]
    pub anonymous: bool,
    /// The time that recording added to each call.
    #[serde(default)]
    pub overhead: Overhead,
}

/// The time that recording added, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// To the time that a call took.
    pub call_ns: u64,
    /// To the time between two calls.
    pub gap_ns: u64,
}

/// The facts that are known when a recording has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Calls in the trace.
    pub calls: u64,
    /// Calls that a replay makes.
    pub replayed: u64,
    pub lanes: u32,
    /// Threads and processes.
    pub tasks: u64,
    /// Nanoseconds from the first call to the end of the last one.
    pub duration_ns: u64,
    /// The most that any call asked to move at once, as far as any came.
    pub largest: u64,
    /// Bytes read and written.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Bytes that the initial files hold.
    pub initial_bytes: u64,
    /// Bytes that a replay needs at most.
    #[serde(default)]
    pub space: u64,
    /// Files and directories that a replay needs at most.
    pub inodes: u64,
    /// Most descriptors open at once.
    pub descriptors: u32,
    /// The reasons why the trace lacks some activity; empty if it is complete.
    #[serde(default)]
    pub incomplete: Vec<String>,
    /// Further notes for the user.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Calls on files outside the root.
    #[serde(default)]
    pub outside: u64,
    /// Seconds that the program ran, and the seconds of them that recording took, as far as they are known.
    #[serde(default)]
    pub recording_seconds: f64,
}

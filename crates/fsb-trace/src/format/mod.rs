//! The form on disk: a header, then sections as the recording went on, then an end.
//!
//! `FSBTRACE`, two bytes of version, then sections: a letter, the number of items, the bytes of the content and of its
//! zstd frame, a CRC-32 of the frame, each number in four bytes, little-endian; then the frame. Names and initial states
//! come in sections of their own, calls in blocks of up to 65,536, column by column, numbers as differences from what was to
//! be expected, in LEB128. Where calls go on from block to block so do the expectations: a trace is read from its beginning.

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
pub use reader::{Part, Reader};
pub use skim::Skimmed;
pub use writer::Writer;

/// The version that is written, and the newest that is read. Version 1 does not know who woke whom.
pub const VERSION: u16 = 2;

const MAGIC: &[u8; 8] = b"FSBTRACE";
/// Calls in a block.
const BLOCK: usize = 65_536;
/// Bytes of a section, unpacked: a block of the longest calls takes some five.
const LARGEST_SECTION: usize = 64 << 20;
/// More lanes than these are no program's.
pub(crate) const MOST_LANES: u32 = 1 << 16;
/// More descriptors or names than these at once would fill memory.
const MOST_NAMES: u32 = 1 << 26;

const HEADER: u8 = b'H';
const NAMES: u8 = b'N';
const INITIAL: u8 = b'I';
const CALLS: u8 = b'C';
const END: u8 = b'E';

/// What is known when a recording begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// What was recorded, as it was typed; nothing where names are hidden.
    #[serde(default)]
    pub program: String,
    /// The directory that all names lie below; nothing where names are hidden.
    #[serde(default)]
    pub root: String,
    /// How calls were seen: `ptrace`, `ebpf`, `strace`, …
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
    /// Names tell nothing.
    #[serde(default)]
    pub anonymous: bool,
    /// What recording cost each call.
    #[serde(default)]
    pub overhead: Overhead,
}

/// What recording added, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// To the time that a call took.
    pub call_ns: u64,
    /// To the time between two calls.
    pub gap_ns: u64,
}

/// What is known when a recording has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Calls in the trace.
    pub calls: u64,
    /// Those that a replay makes.
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
    /// Why it does not hold all that was done; empty where it does.
    #[serde(default)]
    pub incomplete: Vec<String>,
    /// What else must be said.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Calls on files outside the root.
    #[serde(default)]
    pub outside: u64,
    /// Seconds that the program ran, and those that recording took of them, as far as it is known.
    #[serde(default)]
    pub recording_seconds: f64,
}

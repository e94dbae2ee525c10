//! The counts of operations.

use serde::{Deserialize, Serialize};

/// Counts of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Files created.
    pub created: u64,
    /// Files read.
    pub read: u64,
    /// Files appended to.
    pub appended: u64,
    /// Files deleted.
    pub deleted: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written, by creating and appending.
    pub bytes_written: u64,
    /// Bytes read as PostMark sums them, in single precision: beyond 16 MiB it rounds with every file.
    pub single_read: f32,
    /// Bytes written as PostMark sums them.
    pub single_written: f32,
}

impl Tally {
    /// Returns the number of files that exist.
    pub fn left(&self) -> u64 {
        self.created - self.deleted
    }

    pub(super) fn reads(&mut self, bytes: u32) {
        self.read += 1;
        self.bytes_read += u64::from(bytes);
        self.single_read += bytes as f32;
    }

    pub(super) fn writes(&mut self, bytes: u32) {
        self.bytes_written += u64::from(bytes);
        self.single_written += bytes as f32;
    }
}

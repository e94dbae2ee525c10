//! PostMark's pool of files, as data: which file is created, read, appended to and deleted next.
//!
//! Only the numbers of a [`Draw`] decide the content of a transaction. With PostMark's own generator, which is in
//! `fsb-compat` because it belongs to the foreign tool, the operations are PostMark's, file by file and byte by byte.
//! With another generator, their number, sizes and shares are the same. Nothing here touches a file.

mod pool;
mod tally;

use serde::{Deserialize, Serialize};

pub use pool::Pool;
pub use tally::Tally;

/// A source of pseudo-random numbers.
pub trait Draw {
    /// Returns the next number, any of 32 bits.
    fn draw(&mut self) -> u32;

    /// Returns a number below `limit`. For a limit of 0, returns 0 and draws nothing.
    #[inline]
    fn below(&mut self, limit: u32) -> u32 {
        if limit == 0 { 0 } else { self.draw() % limit }
    }
}

/// The largest pool: each file has two places of 16 bytes.
pub const MOST_FILES: u32 = 1 << 26;
/// The largest file in bytes.
pub const LARGEST_FILE: u32 = 1 << 30;
/// Never: the bias that switches a half of each transaction off.
pub const OFF: i32 = -1;
/// Always read, or always create.
pub const MOST_BIAS: i32 = 10;

/// The parameters that, with the drawn numbers, decide the operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The least bytes of a new file; never 0.
    pub size_low: u32,
    /// The most bytes of a file; at least `size_low`.
    pub size_high: u32,
    /// Files that are created before the transactions; the pool has room for twice as many.
    pub number: u32,
    /// Transactions.
    pub transactions: u32,
    /// Directories in each location if there is more than one; otherwise files are in the location itself.
    pub subdirectories: u32,
    /// One weight per location. A single location needs no drawing; no location means the working directory.
    pub weights: Vec<u32>,
    /// The number of transactions in ten that read; the others append. [`OFF`] for neither.
    pub bias_read: i32,
    /// The number of transactions in ten that create; the others delete. [`OFF`] for neither.
    pub bias_create: i32,
}

impl Default for Shape {
    /// Returns PostMark's defaults.
    fn default() -> Shape {
        Shape {
            size_low: 500,
            size_high: 10_000,
            number: 500,
            transactions: 500,
            subdirectories: 0,
            weights: Vec::new(),
            bias_read: 5,
            bias_create: 5,
        }
    }
}

impl Shape {
    /// Returns the number of transactions after which PostMark shows a dot: a tenth of all, and at least 1.
    pub fn tenth(&self) -> u32 {
        (self.transactions / 10).max(1)
    }

    /// Returns the number of files that, with near certainty, is never exceeded. The pool drifts with the bias, and
    /// deviates from that by the square root of its steps. The result is at most the number of places of the pool.
    pub fn most_files(&self) -> u64 {
        let number = f64::from(self.number);
        let steps = f64::from(self.transactions);
        let drift = match self.bias_create {
            OFF => 0.0,
            bias => (steps * (f64::from(bias) / 5.0 - 1.0)).max(0.0) + 6.0 * steps.sqrt(),
        };
        (number + drift).min(2.0 * number).ceil() as u64
    }
}

/// The name of a file: its number, location and subdirectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// Files are numbered from 1 in the order of their creation.
    pub number: u32,
    /// The location, from 0.
    pub location: u32,
    /// The subdirectory of the location, from 0; 0 if there are none.
    pub subdirectory: u32,
}

/// An action on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Creates the file with this many bytes.
    Create,
    /// Reads all bytes of the file.
    Read,
    /// Appends bytes to the file.
    Append {
        /// The bytes that the file has before.
        at: u32,
    },
    /// Removes the file.
    Delete,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The action.
    pub act: Act,
    /// The file.
    pub file: FileName,
    /// Bytes written, read or removed.
    pub bytes: u32,
}

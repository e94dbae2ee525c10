//! PostMark's pool of files, as data: which file is created, read, appended to and deleted next.
//!
//! What a transaction does is decided by numbers that a [`Draw`] gives, and by nothing else: with PostMark's own
//! generator (it belongs to the foreign tool, in `fsb-compat`) the operations are PostMark's, file by file and byte by
//! byte; with another one they are as many, of the same sizes and shares. Nothing here touches a file.

mod pool;
mod tally;

use serde::{Deserialize, Serialize};

pub use pool::Pool;
pub use tally::Tally;

/// Where numbers come from that look random.
pub trait Draw {
    /// The next one, any of 32 bits.
    fn draw(&mut self) -> u32;

    /// One below `limit`; for a limit of 0 it is 0, and nothing is drawn.
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

/// What decides, beside the numbers that are drawn, which operations there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Files are created with at least so many bytes; never 0.
    pub size_low: u32,
    /// No file has more bytes than this; at least `size_low`.
    pub size_high: u32,
    /// Files that are created before the transactions; the pool has room for twice as many.
    pub number: u32,
    /// Transactions.
    pub transactions: u32,
    /// Directories in each location, where there are more than one; files lie in the location itself otherwise.
    pub subdirectories: u32,
    /// One weight a location. A single location needs no drawing, and none means the working directory.
    pub weights: Vec<u32>,
    /// Of ten transactions so many read and the others append; [`OFF`] for neither.
    pub bias_read: i32,
    /// Of ten transactions so many create and the others delete; [`OFF`] for neither.
    pub bias_create: i32,
}

impl Default for Shape {
    /// As PostMark starts.
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
    /// After so many transactions PostMark shows a dot: a tenth of them, and never none.
    pub fn tenth(&self) -> u32 {
        (self.transactions / 10).max(1)
    }

    /// How many files there may be at once, with all but certainty: the pool drifts as the bias says and wanders about
    /// that by the root of its steps. Never more than the pool has places.
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

/// What a file is called: its number, and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// Files are numbered from 1 in the order of their creation.
    pub number: u32,
    /// Which location, from 0.
    pub location: u32,
    /// Which subdirectory of it, from 0; 0 where there are none.
    pub subdirectory: u32,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It is created with this many bytes.
    Create,
    /// All its bytes are read.
    Read,
    /// So many bytes are added to those that it has.
    Append {
        /// The bytes that it has.
        at: u32,
    },
    /// It is removed.
    Delete,
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What is done.
    pub act: Act,
    /// To which file.
    pub file: FileName,
    /// Bytes written, read or removed.
    pub bytes: u32,
}

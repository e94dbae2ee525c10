//! How far a long preparation is.

use serde::{Deserialize, Serialize};

/// How far a long preparation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done: `filling the image`.
    pub what: String,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

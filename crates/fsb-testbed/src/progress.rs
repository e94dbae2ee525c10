//! Progress of a long preparation.

use serde::{Deserialize, Serialize};

/// The progress of a long preparation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The present step: `filling the image`.
    pub what: String,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

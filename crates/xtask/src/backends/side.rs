//! The state that each side of a pair starts from, and the cost that each reports.

use std::fs::File;
use std::path::Path;

use anyhow::Context;

/// The cost of one operation on one side of a pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Seconds from the start to the end, divided by the operations.
    pub(super) seconds: f64,
    /// Seconds of all processors, user and kernel.
    pub(super) cpu: f64,
}

/// Writes dirty pages back, so that the next measurement does not pay for them.
pub fn settle(directory: &Path) -> anyhow::Result<()> {
    rustix::fs::syncfs(File::open(directory)?).with_context(|| format!("syncfs of {}", directory.display()))
}

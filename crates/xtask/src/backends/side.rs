//! What both sides of a pair share: the state that each starts from, and the cost that each reports.

use std::fs::File;
use std::path::Path;

use anyhow::Context;

/// What one side of a pair took, for each operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Seconds from the start to the end, divided by the operations.
    pub(super) seconds: f64,
    /// Seconds of all processors, user and kernel.
    pub(super) cpu: f64,
}

/// Writes back what was written so far, which is no business of who measures next.
pub fn settle(directory: &Path) -> anyhow::Result<()> {
    rustix::fs::syncfs(File::open(directory)?).with_context(|| format!("syncfs of {}", directory.display()))
}

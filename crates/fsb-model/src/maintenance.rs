//! Maintenance of a file system: operations on the whole of it, which need root.

use serde::{Deserialize, Serialize};

/// An operation on a whole file system. The agent performs it, because workers are not root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Maintenance {
    /// A check of the unmounted file system that repairs nothing.
    Check,
    /// A freeze and a thaw of the mounted file system: FIFREEZE and FITHAW, as fsfreeze(8).
    Freeze,
}

impl Maintenance {
    /// Every operation.
    pub const ALL: [Maintenance; 2] = [Maintenance::Check, Maintenance::Freeze];

    /// Returns the name in workloads.
    pub fn name(self) -> &'static str {
        match self {
            Maintenance::Check => "fsck",
            Maintenance::Freeze => "freeze",
        }
    }
}

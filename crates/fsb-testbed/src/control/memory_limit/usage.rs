//! What is recorded of a limit.

use serde::{Deserialize, Serialize};

/// What a limit did during a trial, as it stands in its record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// What held it: `cgroup v1`, `cgroup v2` or `locked memory`. Results of different mechanisms are not compared.
    pub mechanism: String,
    /// The limit.
    pub limit_bytes: u64,
    /// The most that was in use; absent where it is not counted.
    #[serde(default)]
    pub peak_bytes: Option<u64>,
    /// Page cache that is charged to it.
    #[serde(default)]
    pub cache_bytes: Option<u64>,
    /// Whether the limit was met; absent where it is not counted.
    #[serde(default)]
    pub reached: Option<bool>,
    /// Processes that were killed for want of memory.
    #[serde(default)]
    pub oom_kills: Option<u64>,
}

impl MemoryUse {
    /// A limit of which nothing is known yet.
    pub(super) fn of(limit_bytes: u64) -> MemoryUse {
        MemoryUse { limit_bytes, ..MemoryUse::default() }
    }
}

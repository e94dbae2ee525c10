//! What holds memory while a target is visited.

use std::sync::Arc;

use super::ballast::MemoryBallast;
use super::cgroup::Cgroup;
use crate::error::{TestbedError, attempt};
use fsb_model::observed::MemoryUse;

/// A limit in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryHold {
    /// Whoever is in it is held.
    Cgroup(Cgroup),
    /// Everybody is.
    Ballast(Arc<MemoryBallast>),
}

impl MemoryHold {
    /// Bytes that may be in use, page cache included.
    pub fn limit(&self) -> u64 {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.limit,
            MemoryHold::Ballast(ballast) => ballast.limit(),
        }
    }

    /// Makes ready for a trial: nothing of an earlier one is left, and the limit still holds.
    pub fn begin_trial(&self) -> Result<(), TestbedError> {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.empty().map_err(|(file, error)| {
                TestbedError::trial("the memory limit is gone").tried(attempt("renew", &file, &error))
            }),
            MemoryHold::Ballast(ballast) => {
                ballast.holds().map_err(|why| TestbedError::trial("the memory limit is gone").tried(why))
            }
        }
    }

    /// Moves a process in, where the limit holds only those that are in it.
    pub fn add(&self, pid: u32) -> Result<(), TestbedError> {
        let MemoryHold::Cgroup(cgroup) = self else { return Ok(()) };
        cgroup.add(pid).map_err(|error| {
            TestbedError::trial("a process cannot be held to the memory limit").tried(attempt(
                "write to",
                &cgroup.processes(),
                &error,
            ))
        })
    }

    /// What it did since the trial began.
    pub fn usage(&self) -> MemoryUse {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.usage(),
            MemoryHold::Ballast(ballast) => ballast.usage(),
        }
    }
}

//! The cgroup that counts the processes of a target's programs.

use std::path::PathBuf;

use crate::error::TestbedError;
use crate::ledger::{Action, EntryHandle, Ledger};
use crate::sys::Roots;
use crate::sys::cgroup::{self, Hierarchy, PROCESSES};

/// The file of a cgroup that holds its limit.
pub(super) const LIMIT: &str = "pids.max";

/// A cgroup of the pids controller, and the ledger entry that removes it.
pub(super) struct ProcessCount {
    path: PathBuf,
    entry: EntryHandle,
}

impl ProcessCount {
    /// Makes one. `None` without a pids controller, or if the unified hierarchy does not hand it down already.
    pub fn make(ledger: &Ledger) -> Option<ProcessCount> {
        let hierarchy = Hierarchy::find(&Roots::default(), PROCESSES).ok().filter(|found| found.enable.is_none())?;
        let path = cgroup::free_name(&hierarchy.parent, ledger.owner().pid);
        let entry = ledger.record(Action::RemoveCgroup { path: path.clone() }).ok()?;
        let count = ProcessCount { path, entry };
        if std::fs::create_dir(&count.path).is_ok() {
            return Some(count);
        }
        let _ = count.remove(ledger);
        None
    }

    /// Allows `most` processes. The file to which a process writes itself to be counted; `None` where the kernel refused the
    /// limit.
    pub fn limit(&self, most: u64) -> Option<PathBuf> {
        cgroup::write(&self.path.join(LIMIT), &most.to_string()).ok()?;
        Some(self.path.join("cgroup.procs"))
    }

    /// Kills what is in it and removes it; why that failed.
    pub fn remove(self, ledger: &Ledger) -> Result<(), TestbedError> {
        ledger.undo(self.entry).map(drop)
    }
}

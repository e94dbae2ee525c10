//! The cgroups in which the controls of a visit start a process.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use fsb_sys::error::{TestbedError, attempt};

use super::Held;
use super::memory_limit::MemoryHold;

/// Makes `command` start in the cgroup of the memory limit, if `held` has one, and in the one whose list is `processes`.
pub fn hold(command: &mut Command, held: &Held, processes: Option<&Path>) -> Result<(), TestbedError> {
    let memory = match &held.memory {
        Some(MemoryHold::Cgroup(cgroup)) => Some(cgroup.processes()),
        _ => None,
    };
    for path in memory.as_deref().into_iter().chain(processes) {
        let file = File::options().write(true).open(path).map_err(|error| {
            TestbedError::trial("a worker cannot be put into its cgroup").tried(attempt("open", path, &error))
        })?;
        fsb_sys::process::start_in_cgroup(command, file);
    }
    Ok(())
}

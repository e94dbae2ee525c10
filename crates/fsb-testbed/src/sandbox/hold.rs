//! Putting a process where the controls of a visit want it, before it is anything of its own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::control::Held;
use crate::control::memory_limit::MemoryHold;
use crate::error::{TestbedError, attempt};

/// Makes `command` start as `held` says, and where `processes` counts it, if it does: every page that it touches from its
/// first instruction on is charged to the memory limit.
pub fn hold(command: &mut Command, held: &Held, processes: Option<&Path>) -> Result<(), TestbedError> {
    let memory = match &held.memory {
        Some(MemoryHold::Cgroup(cgroup)) => Some(cgroup.processes()),
        _ => None,
    };
    for path in memory.as_deref().into_iter().chain(processes) {
        let file = File::options().write(true).open(path).map_err(|error| {
            TestbedError::trial("a worker cannot be put into its cgroup").tried(attempt("open", path, &error))
        })?;
        // SAFETY: one system call on a descriptor that the closure owns, between fork and exec. The number 0 is the writer.
        unsafe {
            command.pre_exec(move || match libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) {
                1 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }
    Ok(())
}

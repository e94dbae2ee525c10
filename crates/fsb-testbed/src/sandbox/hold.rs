//! Putting a process where the controls of a visit want it, before it is anything of its own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::control::Held;
use crate::control::memory_limit::MemoryHold;
use crate::error::{TestbedError, attempt};

/// Makes `command` start as `held` says: every page that it touches from its first instruction on is charged to the
/// memory limit.
pub fn hold(command: &mut Command, held: &Held) -> Result<(), TestbedError> {
    let Some(MemoryHold::Cgroup(cgroup)) = &held.memory else { return Ok(()) };
    let path = cgroup.processes();
    let file = File::options().write(true).open(&path).map_err(|error| {
        TestbedError::trial("a worker cannot be held to the memory limit").tried(attempt("open", &path, &error))
    })?;
    // SAFETY: one system call on a descriptor that the closure owns, between fork and exec. The number 0 is the writer.
    unsafe {
        command.pre_exec(move || match libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) {
            1 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    Ok(())
}

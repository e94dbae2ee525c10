//! The moment between fork and QEMU: a death signal can only be asked for by the process that is to die.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::error::VmError;

/// The first argument of this program where it only waits to become QEMU; [`launch_main`] plays that role.
pub const LAUNCH_ARGUMENT: &str = "__vm-machine";

/// Plays [`LAUNCH_ARGUMENT`], given the arguments after it: asks to die with its parent (the first argument is its
/// process id) and becomes the program that the others name. Returns only why that failed.
pub fn launch_main(arguments: &[OsString]) -> VmError {
    let [parent, program, arguments @ ..] = arguments else {
        return VmError::request("a machine needs its parent and its program");
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return VmError::machine("cannot ask to die with the parent").tried(error.to_string());
    }
    // It may have died before it was asked for.
    let alive = getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if alive.as_deref() != parent.to_str() {
        return VmError::machine("the parent is gone");
    }
    let error = Command::new(program).args(arguments).exec();
    VmError::machine(format!("cannot execute {}", program.display())).tried(error.to_string())
}

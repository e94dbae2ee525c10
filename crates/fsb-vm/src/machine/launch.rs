//! The role between fork and QEMU or virtiofsd: only the process that is to die can request its
//! death signal.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::error::VmError;

/// The first argument of this program if it only becomes QEMU; [`launch_main`] runs that role.
pub const LAUNCH_ARGUMENT: &str = "__vm-machine";

/// Runs the role [`LAUNCH_ARGUMENT`], given the arguments after it. Requests a death signal from
/// its parent, whose process id is the first argument, and executes the program that the others
/// name. Returns only if that failed.
pub fn launch_main(arguments: &[OsString]) -> VmError {
    let [parent, program, arguments @ ..] = arguments else {
        return VmError::request("a machine needs its parent and its program");
    };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return VmError::machine("cannot ask to die with the parent")
            .tried(&std::io::Error::from(error));
    }
    // The parent may have died before the request.
    let alive = getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if alive.as_deref() != parent.to_str() {
        return VmError::machine("the parent is gone");
    }
    let error = Command::new(program).args(arguments).exec();
    VmError::machine(format!("cannot execute {}", program.display())).tried(&error)
}

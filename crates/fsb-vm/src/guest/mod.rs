//! What fsb does as PID 1 of the guest.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;

use crate::error::VmError;

/// The first argument of the one child of the guest's PID 1, which serves the run.
pub const GUEST_ARGUMENT: &str = "__vm-guest";

/// Whether this process is PID 1 of a guest or the child that serves there, from its arguments.
pub fn is_guest(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|argument| argument == GUEST_ARGUMENT)
}

/// Makes the guest ready and gives the stream to the host.
///
/// As PID 1 this never returns: it mounts what Linux programs expect, loads the modules, starts itself again as its
/// one child, then reaps orphans and moves the stream's bytes, and switches the guest off when that child ends. In
/// the child it returns at once. So who serves is an ordinary process, which waits for its children itself.
pub fn begin() -> Result<UnixStream, VmError> {
    Err(VmError::machine("not a guest"))
}

/// Writes everything back and switches the guest off.
pub fn power_off() -> ! {
    loop {
        std::thread::park();
    }
}

//! The process that becomes the program: it gives itself the filter and waits to be watched first.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use fsb_testbed::trace;

use crate::syscalls;

/// The hidden argument that makes the binary play this part.
pub const CHILD_ARGUMENT: &str = "__record-child";

/// What stops, as the first argument.
const ALL: &str = "all";
const SOME: &str = "some";

/// Starts one, stopped, which becomes that program; without one it makes calls that cost nothing, to be measured. All calls
/// on files stop, or only those that must.
pub(crate) fn start(program: &[OsString], all: bool) -> io::Result<Child> {
    let stops = if all { ALL } else { SOME };
    let child = Command::new("/proc/self/exe").args([CHILD_ARGUMENT, stops]).args(program).spawn()?;
    trace::wait_until_stopped(child.id() as i32)?;
    Ok(child)
}

/// Plays the part; returns only what went wrong, or that the calls to be measured are done.
///
/// # Errors
/// There is no such program, or the kernel refuses the filter.
pub fn child_main(arguments: &[OsString]) -> io::Result<()> {
    trace::stop_self();
    let (stops, words) = arguments.split_first().ok_or_else(|| io::Error::other("nobody says what stops"))?;
    trace::install(&syscalls::rules(stops != SOME))?;
    let Some((program, arguments)) = words.split_first() else {
        (0..crate::overhead::CALLS).for_each(|_| trace::fail_cheaply());
        return Ok(());
    };
    Err(Command::new(program).args(arguments).exec())
}

//! What fsb does as PID 1 of the guest.
//!
//! PID 1 only looks after the machine: it mounts, loads modules, moves the bytes between the port and its one child,
//! gives back those of the port that asks whether it lives, reaps whoever is left to it, and switches off. The child is
//! this program again and serves the run; it waits for its own children, which a PID 1 that reaps everybody could not.

mod bridge;
mod ready;
mod root;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{WaitOptions, WaitStatus, wait};
use rustix::system::{RebootCommand, reboot};

use crate::error::VmError;
pub(crate) use ready::{HEARTBEAT_PORT, PORT};
pub(crate) use root::ROOT_TAG;

/// The first argument of the one child of the guest's PID 1, which serves the run.
pub const GUEST_ARGUMENT: &str = "__vm-guest";

/// The word of the kernel's command line that makes fsb, as PID 1, a guest's.
pub(crate) const WORD: &str = "fsb.guest";

/// Where programs of the host's user find the files of the host, beside this guest's own /dev and its like.
pub const ROOT: &str = "/fsb-root";

/// The word that says that the host shares a directory.
pub(crate) const ROOT_WORD: &str = "fsb.root";

/// The word that asks the guest for nothing but [`READY`].
pub(crate) const PROBE_WORD: &str = "fsb.probe";

/// What every line of the guest's own begins with on its console.
pub(crate) const PREFIX: &str = "fsb-guest: ";

/// What it says when it was only asked whether it comes up.
pub(crate) const READY: &str = "ready";

/// The list of modules to load, in the initramfs.
pub(crate) const MODULES: &str = "/etc/fsb/modules";

/// A module of that list: `-` before the path of one that may fail.
pub(crate) fn module_line(path: &str, required: bool) -> String {
    format!("{}{path}\n", if required { "" } else { "-" })
}

/// Whether this process is PID 1 of a guest or the child that serves there, from its arguments.
pub fn is_guest(arguments: &[OsString]) -> bool {
    is_child(arguments) || is_first()
}

fn is_child(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|argument| argument == GUEST_ARGUMENT)
}

/// PID 1 that the kernel itself started: in a container, or in a run's own namespace, PID 1 is somebody else's.
fn is_first() -> bool {
    if std::process::id() != 1 {
        return false;
    }
    // Before anything is mounted there is no /proc to ask; then nobody but the kernel has started this.
    let text = fs::read_to_string("/proc/cmdline");
    text.map_or_else(|_| fs::metadata(MODULES).is_ok(), |text| text.split_whitespace().any(|word| word == WORD))
        && std::env::args_os().next().is_some_and(|name| name == "/init")
}

/// Makes the guest ready and gives the stream to the host.
///
/// As PID 1 this never returns: it mounts what Linux programs expect, loads the modules, starts itself again as its
/// one child, then reaps orphans and moves the stream's bytes, and switches the guest off when that child ends. In
/// the child it returns at once. So who serves is an ordinary process, which waits for its children itself.
pub fn begin() -> Result<UnixStream, VmError> {
    if std::process::id() == 1 {
        if let Err(error) = first() {
            say(&error.to_string());
        }
        power_off();
    }
    take_stream().map_err(|error| VmError::machine("the guest's port is not there").tried(error.to_string()))
}

/// Standard input is the stream, until somebody reads from it by mistake.
fn take_stream() -> io::Result<UnixStream> {
    let stream: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(UnixStream::from(stream))
}

/// PID 1's life.
fn first() -> Result<(), VmError> {
    ready::mount_all()?;
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if line.split_whitespace().any(|word| word == PROBE_WORD) {
        say(READY);
        return Ok(());
    }
    ready::load_modules(MODULES.as_ref())?;
    if line.split_whitespace().any(|word| word == ROOT_WORD) {
        root::mount_root(ROOT.as_ref())?;
    }
    let port = ready::port(PORT)?;
    bridge::give_back(ready::port(HEARTBEAT_PORT)?)?;
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| VmError::machine("no socket pair").tried(error.to_string()))?;
    let child = Command::new("/proc/self/exe")
        .arg(GUEST_ARGUMENT)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")
        .env("HOME", "/root")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(|error| VmError::machine("cannot start the guest's agent").tried(error.to_string()))?;
    let moved = bridge::connect(port, ours)?;
    let status = reap_until(child.id());
    if let Some(how) = status.map_or_else(|| Some("for an unknown reason".into()), unusual) {
        say(&format!("its agent ended: {how}"));
    }
    // The last answer is still on its way.
    moved.wait(Duration::from_secs(5));
    Ok(())
}

/// How a process ended, unless all was well.
fn unusual(status: WaitStatus) -> Option<String> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some(format!("{status:?}")),
    }
}

/// Reaps everybody until that child ends.
fn reap_until(child: u32) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() as u32 == child => return Some(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// A line for the host, which reads the console.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(io::stdout(), "{PREFIX}{text}");
    let _ = io::stdout().flush();
}

/// Writes everything back and switches the guest off.
pub fn power_off() -> ! {
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
    // Where the kernel cannot, the host ends the machine.
    let _ = reboot(RebootCommand::Restart);
    loop {
        std::thread::park();
    }
}

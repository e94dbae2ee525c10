//! Kill-proof by construction, and workers that can write nothing but their target.
//!
//! Three processes, each started by re-executing this program:
//!
//! ```text
//! front ──clone(NEWPID|NEWNS)──▶ supervisor (PID 1) ──▶ agent ──▶ workers
//!   └────────── socket pair (descriptor 3) ────────────────┘
//! ```
//!
//! A worker that runs programs of the user forks once more: see `monitor.rs`.
//!
//! The supervisor dies with the front: the kernel sends it SIGKILL (`PR_SET_PDEATHSIG`), and a pipe that only the
//! front holds open tells it once more. It never changes its user, for that would clear the death signal. When PID 1
//! of a PID namespace dies, the kernel kills everything in it; with the last process goes the mount namespace, with it
//! every mount, and with the mounts the loop devices (autoclear) and images (unlinked). No clean-up code has to run.
//!
//! What the kernel does not take back is undone by one more process, which outlives the front by an instant: see
//! `fsb-testbed/src/watcher.rs`.

mod confine;
mod launch;
mod namespaces;
mod supervise;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

pub use confine::{Confinement, OWN_PROCESSES, Programs, confine};
pub use launch::{Isolation, Launched, launch};
pub use namespaces::join_new_session_keyring;
pub use supervise::{SUPERVISOR, supervise};

use crate::error::{TestbedError, describe};
use crate::magic;
use crate::process::change_descriptors;

/// Where the supervisor and the agent find their end of the socket pair.
const PROTOCOL: RawFd = 3;
/// Where the supervisor finds the read end of the pipe that closes when the front dies.
const LIFELINE: RawFd = 4;
/// Where the agent finds the front's /proc, which shows the whole machine; closed where there is none.
const HOST_PROC: RawFd = 5;

/// The agent's end of the connection to the front: the descriptor that [`launch`] made and [`supervise`] passed on.
/// Can be taken once; afterwards children of this process do not inherit it.
pub fn protocol() -> Result<UnixStream, TestbedError> {
    let missing = |why: String| {
        TestbedError::machine("no connection to the front process")
            .tried(why)
            .advice("this entry point is only for fsb itself: use 'fsb run'")
    };
    // SAFETY: fcntl on a number that may or may not be open: it answers EBADF where it is not.
    let flags = unsafe { libc::fcntl(PROTOCOL, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Err(missing(format!("descriptor {PROTOCOL} was not handed down")));
    }
    // SAFETY: the descriptor is open and came through exec, so nothing in this program owns it yet. It is marked
    // close-on-exec below, which is what the check above recognises a second caller by.
    let owned = unsafe { OwnedFd::from_raw_fd(PROTOCOL) };
    let stream = UnixStream::from(owned);
    stream.peer_addr().map_err(|error| missing(format!("descriptor {PROTOCOL}: {}", describe(&error))))?;
    set_close_on_exec(stream.as_raw_fd()).map_err(|error| missing(describe(&error)))?;
    Ok(stream)
}

/// The front's /proc, which [`launch`] kept open: the agent's own shows only its PID namespace. Absent in processes that
/// were not launched, and on a second call. Children of this process do not inherit it.
pub fn host_proc() -> Option<OwnedFd> {
    // SAFETY: fcntl on a number that may or may not be open.
    let flags = unsafe { libc::fcntl(HOST_PROC, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return None;
    }
    // SAFETY: the descriptor is open and came through exec, so nothing in this program owns it yet.
    let owned = unsafe { OwnedFd::from_raw_fd(HOST_PROC) };
    set_close_on_exec(owned.as_raw_fd()).ok()?;
    (rustix::fs::fstatfs(&owned).ok()?.f_type as u64 == magic::PROC).then_some(owned)
}

/// What a shell would say of a process that ended so.
fn exit_code(status: libc::c_int) -> i32 {
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

fn set_close_on_exec(fd: RawFd) -> std::io::Result<()> {
    // SAFETY: changes only the flag of a descriptor that the caller holds.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Lets no program that this process executes inherit a descriptor but standard input, output and error. What a child is
/// to have is given to it afterwards.
pub fn close_on_exec() {
    // Linux before 5.11 does not know the flag.
    change_descriptors(libc::CLOSE_RANGE_CLOEXEC, |fd| drop(set_close_on_exec(fd)));
}

/// Whether the other end of the lifeline is gone. Async-signal-safe.
fn lifeline_is_cut(fd: RawFd, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
    // SAFETY: one valid pollfd.
    let ready = unsafe { libc::poll(&mut poll, 1, timeout_ms) };
    ready > 0 && poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

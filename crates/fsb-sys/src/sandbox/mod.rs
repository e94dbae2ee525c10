//! Processes that the kernel ends together, and workers that can write only to their target.
//!
//! Three processes, each started by re-executing this program:
//!
//! ```text
//! coordinator ──clone(NEWPID|NEWNS)──▶ supervisor (PID 1) ──▶ agent ──▶ workers
//!   └──────────── socket pair (descriptor 3) ────────────────────┘
//! ```
//!
//! A worker that runs programs of the user forks once more: see `confine.rs`.
//!
//! The supervisor dies with the coordinator: the kernel sends it SIGKILL (`PR_SET_PDEATHSIG`), and a pipe that only the
//! coordinator holds open closes as well. It never changes its user, because that would clear the death signal. When
//! PID 1 of a PID namespace dies, the kernel kills everything in it. With the last process goes the mount namespace,
//! with it every mount, and with the mounts the loop devices (autoclear) and images (unlinked). No clean-up code has to
//! run.
//!
//! One more process, which outlives the coordinator by an instant, undoes what the kernel does not clean up: see
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

/// The descriptor number of the socket to the coordinator, in the supervisor and the agent.
const PROTOCOL: RawFd = 3;
/// The descriptor number of the pipe that closes when the coordinator dies, in the supervisor.
const LIFELINE: RawFd = 4;
/// The descriptor number of the coordinator's /proc, which shows the whole machine, in the agent. Closed if there is
/// none.
const HOST_PROC: RawFd = 5;

/// Returns the agent's end of the connection to the coordinator: the descriptor that [`launch`] made and [`supervise`]
/// passed on. Can be taken once. Children that start afterwards do not inherit it.
pub fn protocol() -> Result<UnixStream, TestbedError> {
    let missing = |why: String| {
        TestbedError::machine("no connection to the coordinator process")
            .tried(why)
            .advice("this entry point is only for fsb itself: use 'fsb run'")
    };
    // SAFETY: fcntl on a number that may or may not be open: it returns EBADF if it is not.
    let flags = unsafe { libc::fcntl(PROTOCOL, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Err(missing(format!("descriptor {PROTOCOL} was not handed down")));
    }
    // SAFETY: the descriptor is open and came through exec, so nothing in this program owns it yet. It is marked
    // close-on-exec below, by which the check above recognises a second call.
    let owned = unsafe { OwnedFd::from_raw_fd(PROTOCOL) };
    let stream = UnixStream::from(owned);
    stream.peer_addr().map_err(|error| missing(format!("descriptor {PROTOCOL}: {}", describe(&error))))?;
    set_close_on_exec(stream.as_raw_fd()).map_err(|error| missing(describe(&error)))?;
    Ok(stream)
}

/// Returns the coordinator's /proc, which [`launch`] kept open: the agent's own shows only its PID namespace. Returns
/// `None` in processes that were not launched, and on a second call. Children of this process do not inherit it.
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

/// Converts a wait status to an exit code as a shell does.
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

/// Marks all descriptors but standard input, output and error close-on-exec. A child gets the descriptors that it needs
/// afterwards.
pub fn close_on_exec() {
    // Linux before 5.11 does not know the flag.
    change_descriptors(libc::CLOSE_RANGE_CLOEXEC, |fd| drop(set_close_on_exec(fd)));
}

/// Returns whether the other end of the lifeline is closed. Async-signal-safe.
fn lifeline_is_cut(fd: RawFd, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
    // SAFETY: one valid pollfd.
    let ready = unsafe { libc::poll(&mut poll, 1, timeout_ms) };
    ready > 0 && poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

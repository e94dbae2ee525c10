//! The supervisor: starts the agent, reaps ended children, and ends with the agent or with the coordinator.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use fsb_model::errno::describe_spawn;

use super::{LIFELINE, PROTOCOL, exit_code, lifeline_is_cut, set_close_on_exec};
use crate::error::TestbedError;

/// The name of the supervisor's process. In the machine's lists of processes, users recognise a run by it.
pub const SUPERVISOR: &CStr = c"fsb-supervisor";
/// The exit code for a process that SIGKILL ended.
const KILLED: i32 = 128 + libc::SIGKILL;

/// Runs this program with `arguments` as the agent and waits for it. Returns the agent's exit code, or 128 + the number
/// of the signal that ended it. Every process that the agent leaves behind ends too. If the supervisor is PID 1 the
/// kernel ends them, otherwise this function does.
///
/// The agent finds its connection with [`protocol`](super::protocol).
pub fn supervise(arguments: &[OsString]) -> Result<i32, TestbedError> {
    let fail = |step: &str, error: &io::Error| {
        TestbedError::machine("the supervisor process cannot work").tried(format!("{step}: {}", describe_spawn(error)))
    };
    die_with_parent();
    // A re-executed process is called `exe`. An error is ignored: only the name is lost.
    let _ = rustix::thread::set_name(SUPERVISOR);
    if lifeline_is_cut(LIFELINE, 0) {
        return Ok(KILLED);
    }
    set_close_on_exec(LIFELINE).map_err(|error| fail("the lifeline is missing", &error))?;
    become_reaper();
    let children = watch_children().map_err(|error| fail("signalfd", &error))?;

    let mut command = Command::new("/proc/self/exe");
    command.args(arguments);
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    // SAFETY: only system calls on our own process between fork and exec.
    unsafe {
        command.pre_exec(|| {
            die_with_parent();
            Ok(())
        });
    }
    let agent = command.spawn().map_err(|error| fail("starting the agent", &error))?.id() as i32;
    // SAFETY: the agent has its own copy; as long as ours is open the coordinator cannot see that the agent is gone.
    // Nothing else in this process owns the number.
    drop(unsafe { OwnedFd::from_raw_fd(PROTOCOL) });

    let status = wait_for(agent, &children);
    end_leftovers();
    Ok(status)
}

fn die_with_parent() {
    // SAFETY: sets a property of our own process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Makes orphans our children even if this process is not PID 1.
fn become_reaper() {
    // SAFETY: sets a property of our own process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Returns a descriptor that becomes readable when a child ends. SIGCHLD stays blocked in this process; `Command`
/// unblocks all signals in its children.
fn watch_children() -> io::Result<OwnedFd> {
    // SAFETY: an initialised signal set on the stack; the new descriptor is ours.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn wait_for(agent: i32, children: &OwnedFd) -> i32 {
    loop {
        if let Some(status) = reap(agent) {
            return status;
        }
        let mut polled = [
            libc::pollfd { fd: children.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: LIFELINE, events: 0, revents: 0 },
        ];
        // SAFETY: two valid pollfds.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
        if polled[1].revents != 0 {
            return KILLED;
        }
        drain(children);
    }
}

/// Reaps every ended child. Returns the agent's exit code if it is among them.
fn reap(agent: i32) -> Option<i32> {
    let mut agent_status = None;
    loop {
        let mut status = 0;
        // SAFETY: waits for any child without blocking; `status` is valid.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            pid if pid <= 0 => return agent_status,
            pid if pid == agent => agent_status = Some(exit_code(status)),
            _ => {}
        }
    }
}

fn drain(children: &OwnedFd) {
    let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>() * 4];
    while rustix::io::read(children, &mut buffer).is_ok_and(|length| length > 0) {}
}

/// Kills the processes that the agent left, if this process is not PID 1. New orphans appear as their parents die, so
/// this repeats until no child is left.
fn end_leftovers() {
    if rustix::process::getpid().is_init() {
        return;
    }
    loop {
        for pid in children_of(rustix::process::getpid().as_raw_nonzero().get()) {
            // SAFETY: our own child, which only we wait for, so the number is still its.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // SAFETY: waits for any child; the status is not needed.
        if unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } < 0 {
            return;
        }
    }
}

fn children_of(parent: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let stat = crate::read_text(format!("/proc/{pid}/stat")).unwrap_or_default();
            crate::process::stat_field(&stat, 4) == Some(parent as u64)
        })
        .collect()
}

//! The watcher: undoes at once the changes that a killed run cannot undo itself.
//!
//! The supervisor and all processes below it die with the coordinator, and with them processes,
//! mounts, loop devices and images disappear. A sysctl keeps the run's value until the undo ledger
//! is replayed. The coordinator therefore starts one more process before anything is changed,
//! outside all namespaces. It holds the read end of a pipe whose other end only the coordinator
//! holds, and sleeps in `read`. When the coordinator has ended, the watcher waits until no process
//! of the run can change anything, replays the entries of that run, removes the file that shows the
//! run to others, and ends. A run that ends by itself ends its watcher.
//!
//! It has a session of its own, so that neither Ctrl-C nor the kill of a process group reaches it.
//! It keeps none of the coordinator's files open: not the lock, not the pipes of a shell, no
//! directory. If it is killed, too (a cgroup, a container), or the power fails, the ledger stays
//! for the next `fsb`.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::{poll_until, process};

use crate::control;
use crate::host;
use crate::ledger::{self, Owner, Replayed};
use crate::lock;

/// The hidden argument of the watcher, before the owner of the entries that it replays.
pub const WATCHER_ARGUMENT: &str = "__watcher";

/// The time limit for the kernel to end the run's processes. The last unmount writes dirty pages
/// back.
const END: Duration = Duration::from_secs(60);

/// The time for which a failed undo is retried, because other users of the resource may be about to
/// end.
const AGAIN: Duration = Duration::from_secs(10);

/// A running watcher. Dropping it ends the process, because the run undid its changes itself,
/// unless [`Watcher::leave`] was called. If this process ends without dropping it, the watcher
/// undoes the changes.
#[derive(Debug)]
pub struct Watcher {
    process: Child,
    /// The kernel closes it when this process ends for any reason.
    _lifeline: OwnedFd,
    left: bool,
}

impl Watcher {
    /// Starts a watcher for the undo entries of this process, the coordinator. Must be called
    /// before the first entry.
    pub fn start() -> Result<Watcher, TestbedError> {
        fn fail(why: Refusal) -> TestbedError {
            TestbedError::machine("this run has no watcher process")
                .tried(why)
                .advice("if the run is killed, run 'fsb clean' afterwards")
        }
        let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| fail(Refusal::call("pipe", &errno.into())))?;
        let owner = serde_json::to_string(&Owner::current())
            .map_err(|error| fail(error.to_string().into()))?;
        let mut command = Command::new("/proc/self/exe");
        command.args([WATCHER_ARGUMENT, &owner]).current_dir("/");
        command
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        process::detach(&mut command);
        let process = command
            .spawn()
            .map_err(|error| fail(Refusal::call("start it", &error)))?;
        Ok(Watcher {
            process,
            _lifeline: ours,
            left: false,
        })
    }

    /// Drops it without ending the process, which undoes the remaining changes when this process
    /// has ended.
    pub fn leave(mut self) {
        self.left = true;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        // A child of this process that was not waited for yet. It sleeps, so it ends at once.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the watcher: waits for the end of the coordinator, `owner`, and undoes the remaining
/// changes of its run. The exit code is 1 if the replay leaves an entry that it could not undo or
/// refused, else 0.
pub fn watch_coordinator(owner: Owner) -> i32 {
    process::close_inherited();
    // The name that process listings show. It would be `exe` otherwise.
    let _ = rustix::thread::set_name(c"fsb-watcher");
    // Returns when the coordinator ends, because it never writes. Any error means the same.
    let _ = std::io::stdin().lock().read(&mut [0]);
    let mut left: Vec<Replayed> = Vec::new();
    if poll_until(END, || !owner.is_alive() && !has_agent(owner)) {
        poll_until(AGAIN, || {
            left = replay(owner);
            !left.iter().any(Replayed::is_open)
        });
        lock::hide(owner);
    }
    i32::from(left.iter().any(Replayed::is_open))
}

fn replay(owner: Owner) -> Vec<Replayed> {
    let place = ledger::default_directory();
    place.map_or_else(
        |_| Vec::new(),
        |place| ledger::replay_only(&place, &host::boot_id(), control::RULES, owner),
    )
}

/// Returns whether a process still runs that writes into the ledger for `owner`: the supervisor or
/// the agent. A dying process has released its memory, and with it its command line, and makes no
/// more changes.
fn has_agent(owner: Owner) -> bool {
    let Ok(owner) = serde_json::to_vec(&owner) else {
        return false;
    };
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Another user's memory may be in a file that never responds to reads.
    let ours = pids
        .filter(|pid| *pid != own && user_of(*pid) == Some(rustix::process::geteuid().as_raw()));
    ours.into_iter().any(|pid| {
        let Ok(mut file) = File::open(format!("/proc/{pid}/cmdline")) else {
            return false;
        };
        let mut line = Vec::new();
        let _ = file.read_to_end(&mut line);
        line.split(|byte| *byte == 0).any(|word| word == owner)
    })
}

/// Returns the real user of a process.
fn user_of(pid: u32) -> Option<u32> {
    let status = fsb_sys::read_text(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| {
        line.strip_prefix("Uid:")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    })
}

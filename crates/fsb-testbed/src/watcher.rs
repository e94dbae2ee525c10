//! The watcher: undoes at once what a killed run cannot undo any more.
//!
//! The supervisor and all below it die with the front, and with them go processes, mounts, loop devices and images. A
//! sysctl stays as the run set it, until somebody replays the undo ledger. So the front starts one more process before
//! anything is changed, outside all namespaces: it holds the read end of a pipe whose other end only the front holds,
//! and sleeps in `read`. When the front is gone it waits until nothing of the run can change anything any more, replays
//! the entries of that run, and ends. A run that ends by itself takes its watcher along.
//!
//! It has a session of its own, so that neither Ctrl-C nor the kill of a process group reaches it, and it keeps nothing
//! of the front's open: not the lock, not the pipes of a shell, no directory. Where it is killed too (a cgroup, a
//! container), or the power fails, the ledger stays for the next `fsb`.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fsb_sys::error::{TestbedError, describe};
use fsb_sys::{poll_until, process};

use crate::control;
use crate::host;
use crate::ledger::{self, Owner, Replayed};

/// The hidden argument of the watcher, before the owner of the entries that it replays.
pub const WATCHER_ARGUMENT: &str = "__watcher";

/// How long the kernel may take to end the run's processes: the last unmount writes back what was dirty.
const END: Duration = Duration::from_secs(60);

/// How long it is tried again to undo what fails at first: whatever still uses a thing is about to go.
const AGAIN: Duration = Duration::from_secs(10);

/// A watcher that runs. Dropping it ends it, for the run undid its changes itself, unless it was left. When this process
/// ends without that, the watcher undoes them.
#[derive(Debug)]
pub struct Watcher {
    process: Child,
    /// Closed by the kernel when this process ends, however it does.
    _lifeline: OwnedFd,
    left: bool,
}

impl Watcher {
    /// Starts one for what this process, the front, will write into the undo ledger. To be called before anything is.
    pub fn start() -> Result<Watcher, TestbedError> {
        let fail = |why: String| {
            TestbedError::machine("this run has no watcher process")
                .tried(why)
                .advice("if the run is killed, run 'fsb clean' afterwards")
        };
        let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| fail(format!("pipe: {}", describe(&errno.into()))))?;
        let owner = serde_json::to_string(&Owner::current()).map_err(|error| fail(error.to_string()))?;
        let mut command = Command::new("/proc/self/exe");
        command.args([WATCHER_ARGUMENT, &owner]).current_dir("/");
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        process::detach(&mut command);
        let process = command.spawn().map_err(|error| fail(format!("start it: {}", describe(&error))))?;
        Ok(Watcher { process, _lifeline: ours, left: false })
    }

    /// Drops it without ending it: when this process has ended, it undoes what could not be undone yet.
    pub fn leave(mut self) {
        self.left = true;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        // Our own child, not waited for yet. It sleeps, so it is gone at once.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the watcher does: waits for the end of the front, `owner`, and undoes what it and its processes left. The exit
/// code says whether all of it was.
pub fn watch_front(owner: Owner) -> i32 {
    process::close_inherited();
    // Seen by those who look for it; it says `exe` otherwise.
    let _ = rustix::thread::set_name(c"fsb-watcher");
    // Nobody writes: it ends with the front. An error would be one of a pipe that is none.
    let _ = std::io::stdin().lock().read(&mut [0]);
    let mut left: Vec<Replayed> = Vec::new();
    if poll_until(END, || !owner.is_alive() && !has_agent(owner)) {
        poll_until(AGAIN, || {
            left = replay(owner);
            !left.iter().any(Replayed::is_open)
        });
    }
    i32::from(left.iter().any(Replayed::is_open))
}

fn replay(owner: Owner) -> Vec<Replayed> {
    let place = ledger::default_directory();
    place.map_or_else(|_| Vec::new(), |place| ledger::replay_only(&place, &host::boot_id(), control::RULES, owner))
}

/// Whether a process still runs that was told to write into the ledger for `owner`: the supervisor or the agent. One
/// that is dying has given its memory up, and with it its command line: it changes nothing any more.
fn has_agent(owner: Owner) -> bool {
    let Ok(owner) = serde_json::to_vec(&owner) else { return false };
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Another user's memory may lie in a file that never answers.
    let ours = pids.filter(|pid| *pid != own && user_of(*pid) == Some(rustix::process::geteuid().as_raw()));
    ours.into_iter().any(|pid| {
        let Ok(mut file) = File::open(format!("/proc/{pid}/cmdline")) else { return false };
        let mut line = Vec::new();
        let _ = file.read_to_end(&mut line);
        line.split(|byte| *byte == 0).any(|word| word == owner)
    })
}

/// The real user of a process.
fn user_of(pid: u32) -> Option<u32> {
    let status = fsb_sys::read_text(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}

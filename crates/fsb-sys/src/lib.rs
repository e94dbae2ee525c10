//! The kernel interfaces that need unsafe code or root: mounts, loop devices, namespaces, ptrace, eBPF.
//!
//! Nothing here knows what a target is, and nothing prints: what a user must read is an error or a note.

#![expect(unsafe_code, reason = "namespaces, mounts, ptrace and ioctls have no safe interface")]

pub mod ballast;
pub mod beside;
pub mod blkpg;
pub mod block;
pub mod caller;
pub mod cgroup;
pub mod dm;
pub mod error;
pub mod fill;
pub mod ioctl;
pub mod loopdev;
pub mod magic;
pub mod mapping;
pub mod md;
pub mod memory;
pub mod mount;
pub mod mountinfo;
pub mod node;
pub mod pinned;
pub mod process;
pub mod program;
pub mod sandbox;
pub mod stack;
pub mod swap;
pub mod systemd;
pub mod trace;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

pub use caller::{Caller, prepare_process};

/// Where /proc and /sys are: elsewhere only in tests, which bring their own trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys") }
    }
}

impl Roots {
    /// The machine as it is seen through a /proc that [`sandbox::host_proc`] kept open. It
    /// must stay open.
    pub fn through(proc: &OwnedFd) -> Roots {
        Roots { proc: PathBuf::from(format!("/proc/self/fd/{}", proc.as_raw_fd())), ..Roots::default() }
    }

    /// `/dev`, which lies beside `/sys`.
    pub fn dev(&self) -> PathBuf {
        self.sys.with_file_name("dev")
    }

    /// A file below /proc, trimmed; absent where it cannot be read or is empty.
    pub fn proc_text(&self, path: &str) -> Option<String> {
        read_trimmed(&self.proc.join(path))
    }

    /// A file below /sys, trimmed; absent where it cannot be read or is empty.
    pub fn sys_text(&self, path: &str) -> Option<String> {
        read_trimmed(&self.sys.join(path))
    }
}

/// The text of a file of /proc or /sys. Names of processes may hold any bytes, which are replaced: those around them count.
pub fn read_text(path: impl AsRef<Path>) -> std::io::Result<String> {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A small file without surrounding white space; absent where it cannot be read or is empty.
pub fn read_trimmed(path: &Path) -> Option<String> {
    let text = read_text(path).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Asks again and again until `done` or the limit; whether it was done.
pub fn poll_until(limit: std::time::Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    let mut pause = std::time::Duration::from_micros(500);
    loop {
        if done() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(std::time::Duration::from_millis(20));
    }
}

/// Enough random hexadecimal digits that nobody else has the name.
pub fn random_name() -> String {
    let uuid = read_trimmed(Path::new("/proc/sys/kernel/random/uuid"));
    // Without /proc, time and process id: a name that exists already is refused where it is used.
    let uuid = uuid.unwrap_or_else(|| {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        format!("{:x}{:x}{:x}", now.tv_sec, now.tv_nsec, std::process::id())
    });
    uuid.chars().filter(char::is_ascii_hexdigit).take(16).collect()
}

/// Returns the local time of a moment in seconds since the epoch; zeros if the time zone cannot tell.
pub fn local_time(seconds: i64) -> libc::tm {
    let time: libc::time_t = seconds;
    // SAFETY: both structures live here; localtime_r fills the second one, or leaves its zeros where it fails.
    unsafe {
        let mut broken: libc::tm = std::mem::zeroed();
        libc::localtime_r(&time, &mut broken);
        broken
    }
}

//! The kernel interfaces that need unsafe code or root: mounts, loop devices, namespaces, the
//! network, ptrace, eBPF.
//!
//! This crate does not know targets and prints nothing. Messages for the user are errors or notes.

#![expect(
    unsafe_code,
    reason = "namespaces, mounts, ptrace and ioctls have no safe interface"
)]

pub mod account;
pub mod ballast;
pub mod blkpg;
pub mod block;
pub mod call_flags;
pub mod cgroup;
pub mod dm;
pub mod encryption;
pub mod error;
pub mod file_mapping;
pub mod invoking_user;
pub mod loopdev;
pub mod magic;
pub mod md;
pub mod memory;
pub mod mount;
pub mod mount_isolation;
pub mod mountinfo;
pub mod network;
pub mod open_flags;
pub mod page_cache;
pub mod pinned;
pub mod process;
pub mod program;
pub mod quota;
pub mod sandbox;
pub mod space;
pub mod stack;
pub mod swap;
pub mod systemd;
pub mod trace;
pub mod zpool;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

pub use invoking_user::{InvokingUser, prepare_process};

/// The locations of /proc and /sys. Tests use their own trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
        }
    }
}

impl Roots {
    /// Returns the roots of the machine whose files are in `directory`, below `proc` and `sys`.
    pub fn below(directory: &Path) -> Roots {
        Roots {
            proc: directory.join("proc"),
            sys: directory.join("sys"),
        }
    }

    /// Returns the roots for a /proc that [`sandbox::host_proc`] kept open and that shows the whole
    /// machine. `proc` must stay open.
    pub fn through(proc: &OwnedFd) -> Roots {
        Roots {
            proc: PathBuf::from(format!("/proc/self/fd/{}", proc.as_raw_fd())),
            ..Roots::default()
        }
    }

    /// Returns `/dev`, which is beside `/sys`.
    pub fn dev(&self) -> PathBuf {
        self.sys.with_file_name("dev")
    }

    /// Reads a file below /proc and trims it. Returns `None` if it cannot be read or is empty.
    pub fn proc_text(&self, path: &str) -> Option<String> {
        read_trimmed(&self.proc.join(path))
    }

    /// Reads a file below /sys and trims it. Returns `None` if it cannot be read or is empty.
    pub fn sys_text(&self, path: &str) -> Option<String> {
        read_trimmed(&self.sys.join(path))
    }
}

/// Returns the kernel's boot id, or `unknown` if it has none.
pub fn boot_id() -> String {
    Roots::default()
        .proc_text("sys/kernel/random/boot_id")
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Reads a file of /proc or /sys. Names of processes may hold any bytes, so invalid UTF-8 is
/// replaced.
pub fn read_text(path: impl AsRef<Path>) -> std::io::Result<String> {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a small file without surrounding white space. Returns `None` if it cannot be read or is
/// empty.
pub fn read_trimmed(path: &Path) -> Option<String> {
    let text = read_text(path).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Calls `done` repeatedly until it returns `true` or `limit` has passed. Returns whether it
/// returned `true`.
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

/// Returns 16 random hexadecimal digits, enough for a unique name.
pub fn random_name() -> String {
    let uuid = read_trimmed(Path::new("/proc/sys/kernel/random/uuid"));
    // Without /proc: time and process id. Such a name may be shorter. The code that uses a name
    // refuses an existing one.
    let uuid = uuid.unwrap_or_else(|| {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        format!("{:x}{:x}{:x}", now.tv_sec, now.tv_nsec, std::process::id())
    });
    uuid.chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect()
}

/// Returns the local time of a moment in seconds since the epoch; zeros if the time zone cannot
/// tell.
pub fn local_time(seconds: i64) -> libc::tm {
    let time: libc::time_t = seconds;
    // SAFETY: both structures live here; localtime_r fills the second one, or leaves its zeros
    // where it fails.
    unsafe {
        let mut broken: libc::tm = std::mem::zeroed();
        libc::localtime_r(&time, &mut broken);
        broken
    }
}

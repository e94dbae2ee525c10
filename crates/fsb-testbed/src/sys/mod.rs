//! The kernel's files and calls, as far as this crate needs them. Nothing here knows what a target is.

pub(crate) mod beside;
pub(crate) mod blkpg;
pub(crate) mod block;
pub(crate) mod cgroup;
#[cfg(any(test, feature = "faults"))]
pub(crate) mod dm;
pub(crate) mod fill;
pub(crate) mod loopdev;
pub(crate) mod magic;
pub(crate) mod md;
pub(crate) mod memory;
pub(crate) mod mount;
pub(crate) mod mountinfo;
pub(crate) mod node;
pub(crate) mod pinned;
pub(crate) mod program;
pub(crate) mod stack;
pub(crate) mod swap;
pub(crate) mod systemd;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

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
    /// The machine as it is seen through a /proc that [`sandbox::host_proc`](crate::sandbox::host_proc) kept open. It
    /// must stay open.
    pub fn through(proc: &OwnedFd) -> Roots {
        Roots { proc: PathBuf::from(format!("/proc/self/fd/{}", proc.as_raw_fd())), ..Roots::default() }
    }

    /// `/dev`, which lies beside `/sys`.
    pub(crate) fn dev(&self) -> PathBuf {
        self.sys.with_file_name("dev")
    }

    /// A file below /proc, trimmed; absent where it cannot be read or is empty.
    pub(crate) fn proc_text(&self, path: &str) -> Option<String> {
        read_trimmed(&self.proc.join(path))
    }

    /// A file below /sys, trimmed; absent where it cannot be read or is empty.
    pub(crate) fn sys_text(&self, path: &str) -> Option<String> {
        read_trimmed(&self.sys.join(path))
    }
}

/// The text of a file of /proc or /sys. Names of processes may hold any bytes, which are replaced: those around them count.
pub(crate) fn read_text(path: impl AsRef<Path>) -> std::io::Result<String> {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A small file without surrounding white space; absent where it cannot be read or is empty.
pub(crate) fn read_trimmed(path: &Path) -> Option<String> {
    let text = read_text(path).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Asks again and again until `done` or the limit; whether it was done.
pub(crate) fn poll_until(limit: std::time::Duration, mut done: impl FnMut() -> bool) -> bool {
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
pub(crate) fn random_name() -> String {
    let uuid = read_trimmed(Path::new("/proc/sys/kernel/random/uuid"));
    // Without /proc, time and process id: a name that exists already is refused where it is used.
    let uuid = uuid.unwrap_or_else(|| {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        format!("{:x}{:x}{:x}", now.tv_sec, now.tv_nsec, std::process::id())
    });
    uuid.chars().filter(char::is_ascii_hexdigit).take(16).collect()
}

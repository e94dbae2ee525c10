//! A process that locks memory until no more than the limit is left for everybody.
//!
//! The way of 2011, for machines without a memory controller. It cannot tell the page cache of the target from that of
//! the rest of the machine, so it holds less well than a cgroup does. It is the first to be killed where memory runs out,
//! and it dies with the process that started it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsb_model::units::show_bytes;

use super::usage::MemoryUse;
use crate::error::describe;
use crate::sys::{Roots, memory, poll_until};

/// Locked at a time: so near the limit is what is left at last.
const CHUNK: usize = 8 << 20;
/// Locking this takes as long as the kernel needs to reclaim it.
const PATIENCE: Duration = Duration::from_secs(300);
/// The kernel takes pages back in batches, and others allocate meanwhile: what is left may be this far from the limit.
const SLACK: u64 = 64 << 20;

/// The process.
#[derive(Debug)]
pub struct Eater {
    pid: i32,
    /// Bytes that were to be left.
    limit: u64,
    /// Bytes that were available when it had eaten.
    left: u64,
    /// It is gone and buried: its number may be somebody else's by now.
    gone: AtomicBool,
}

impl PartialEq for Eater {
    fn eq(&self, other: &Eater) -> bool {
        self.pid == other.pid
    }
}

impl Eq for Eater {}

/// Whether there is anything to eat, and whether it may be eaten; why not.
pub(super) fn possible(limit: u64, roots: &Roots) -> Result<(), String> {
    let show = |bytes: u64| show_bytes(bytes as f64);
    let available = memory::meminfo(roots, "MemAvailable").ok_or("/proc/meminfo does not say what is available")?;
    if available < limit {
        return Err(format!("only {} are available, less than the limit already", show(available)));
    }
    match memory::cgroup_headroom(roots) {
        Some(headroom) if headroom < available - limit => Err(format!(
            "{} would have to be locked, but our own cgroup leaves {}",
            show(available - limit),
            show(headroom)
        )),
        _ => Ok(()),
    }
}

impl Eater {
    /// Locks all memory but `limit` bytes. Caches should have been dropped before.
    pub(super) fn start(limit: u64, roots: &Roots) -> Result<Eater, String> {
        possible(limit, roots)?;
        let available = memory::meminfo(roots, "MemAvailable").unwrap_or(limit);
        let chunks = (available - limit) as usize / CHUNK;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(text)?;
        // SAFETY: the child makes only system calls on memory and descriptors of its own, and never returns.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => return Err(describe(&io::Error::last_os_error())),
            // SAFETY: this is the child.
            0 => unsafe { eat(chunks, writer.as_raw_fd()) },
            _ => {}
        }
        drop(writer);
        let mut eater = Eater { pid, limit, left: available, gone: AtomicBool::new(false) };
        eater.wait_for(&reader, chunks)?;
        eater.left = memory::meminfo(roots, "MemAvailable").unwrap_or(0);
        Ok(eater)
    }

    /// One byte comes for each chunk that is locked; the end of them where no more can be.
    fn wait_for(&self, reader: &OwnedFd, chunks: usize) -> Result<(), String> {
        rustix::fs::fcntl_setfl(reader, rustix::fs::OFlags::NONBLOCK).map_err(text)?;
        let (mut locked, mut over) = (0, false);
        poll_until(PATIENCE, || {
            let mut buffer = [0u8; 256];
            loop {
                match rustix::io::read(reader.as_fd(), &mut buffer) {
                    Ok(0) => over = true,
                    Ok(count) => {
                        locked += count;
                        continue;
                    }
                    Err(_) => {}
                }
                return over || locked >= chunks;
            }
        });
        if locked >= chunks {
            return Ok(());
        }
        let [locked, wanted] = [locked, chunks].map(|count| show_bytes((count * CHUNK) as f64));
        Err(format!("{locked} of {wanted} could be locked: the kernel refuses more"))
    }

    /// The limit.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether it still holds what it ate; why not.
    pub(super) fn holds(&self) -> Result<(), String> {
        // SAFETY: asks after our own child without waiting for it; nothing is written.
        let ended = || unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::WNOHANG) } != 0;
        if self.gone.load(Ordering::Relaxed) || ended() {
            self.gone.store(true, Ordering::Relaxed);
            return Err("the process that locked memory was killed".to_owned());
        }
        Ok(())
    }

    /// What is left for everybody.
    pub(super) fn usage(&self) -> MemoryUse {
        MemoryUse { mechanism: "locked memory".to_owned(), ..MemoryUse::of(self.limit) }
    }

    /// How near the limit is what it left, in words, and whether that is near enough.
    pub(super) fn observed(&self) -> (String, bool) {
        let text = format!("locked memory: {} are left for everybody", show_bytes(self.left as f64));
        (text, self.left.abs_diff(self.limit) <= SLACK)
    }
}

fn text(errno: rustix::io::Errno) -> String {
    describe(&errno.into())
}

impl Drop for Eater {
    fn drop(&mut self) {
        if self.gone.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: our own child, which only we wait for and which was not buried yet, so the number is still its.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// The life of the process: locks chunk after chunk, tells of each, and sleeps.
///
/// # Safety
///
/// To be called in a freshly forked child only: it makes nothing but system calls, and does not return.
unsafe fn eat(chunks: usize, told: i32) -> ! {
    // SAFETY: properties of our own process; constant strings; new mappings that nobody else knows; an open descriptor.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // Nothing of the parent's stays open: its connections and devices end when it closes them.
        libc::dup2(told, 0);
        libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32);
        let score = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if score >= 0 {
            libc::write(score, c"1000".as_ptr().cast(), 4);
            libc::close(score);
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        for _ in 0..chunks {
            let memory = libc::mmap(std::ptr::null_mut(), CHUNK, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if memory == libc::MAP_FAILED || libc::mlock(memory, CHUNK) != 0 {
                break;
            }
            if libc::write(0, c".".as_ptr().cast(), 1) != 1 {
                break;
            }
        }
        libc::close(0);
        loop {
            libc::pause();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that says it has so much.
    fn machine(available: u64) -> (tempfile::TempDir, Roots) {
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(tree.path().join("meminfo"), format!("MemAvailable: {} kB\n", available >> 10)).unwrap();
        let roots = Roots { proc: tree.path().to_owned(), sys: tree.path().join("sys") };
        (tree, roots)
    }

    fn locked(pid: i32) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmLck:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    }

    #[test]
    fn what_is_above_the_limit_is_locked_and_given_back() {
        let (_tree, roots) = machine(96 << 20);
        let eater = Eater::start(64 << 20, &roots).unwrap();
        let pid = eater.pid;
        assert_eq!(locked(pid), Some(32 << 20));
        assert_eq!(eater.holds(), Ok(()));
        assert_eq!(eater.usage().mechanism, "locked memory");
        drop(eater);
        assert_eq!(locked(pid), None);
    }

    #[test]
    fn where_nothing_can_be_eaten_that_is_said() {
        let (_tree, roots) = machine(32 << 20);
        assert!(Eater::start(64 << 20, &roots).unwrap_err().contains("less than the limit already"));
        let (_tree, roots) = machine(1 << 50);
        assert!(possible(1 << 30, &roots).is_ok());
    }

    #[test]
    fn one_that_was_killed_holds_nothing() {
        let (_tree, roots) = machine(72 << 20);
        let eater = Eater::start(64 << 20, &roots).unwrap();
        // SAFETY: our own child.
        unsafe { libc::kill(eater.pid, libc::SIGKILL) };
        assert!(poll_until(Duration::from_secs(10), || eater.holds().is_err()));
    }
}

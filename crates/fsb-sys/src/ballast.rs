//! A process that locks memory until no more than a limit is left for all processes.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fsb_model::observed::MemoryUse;
use fsb_model::units::{show_bytes, show_duration, show_size};

use crate::error::Refusal;
use crate::{Roots, memory};

/// Bytes that one request locks, and so the precision with which the limit is reached.
const CHUNK: usize = 8 << 20;
/// Time limit for one answer. Locking takes as long as the kernel needs to reclaim the memory.
const PATIENCE: Duration = Duration::from_secs(300);
/// Tolerated difference between the available memory and the limit. The kernel reclaims pages in
/// batches, and other processes allocate meanwhile.
const SLACK: u64 = 64 << 20;
/// The number of chunks whose time shows how long all of them take.
const SAMPLE: usize = 16;
/// Maximum number of rounds of reading the available memory and locking the excess. Reclaim and
/// other processes change the available memory while the ballast locks it.
const MOST_ROUNDS: u32 = 8;

/// The process that locks memory. Dropping the value kills it.
#[derive(Debug)]
pub struct MemoryBallast {
    pid: i32,
    /// Bytes that are to remain for all processes.
    limit: u64,
    /// Available bytes as last read by [`MemoryBallast::start`].
    left: u64,
    /// Whether the process has been reaped. Its number may belong to another process by then.
    gone: AtomicBool,
}

impl PartialEq for MemoryBallast {
    fn eq(&self, other: &MemoryBallast) -> bool {
        self.pid == other.pid
    }
}

impl Eq for MemoryBallast {}

/// Checks that there is memory to lock, and that the cgroup of this process allows it.
pub fn possible(limit: u64, roots: &Roots) -> Result<(), Refusal> {
    let available =
        memory::meminfo(roots, "MemAvailable").ok_or("/proc/meminfo has no MemAvailable")?;
    if available < limit {
        return Err(format!(
            "only {} are available, less than the limit already",
            show_size(available)
        )
        .into());
    }
    match memory::cgroup_headroom(roots) {
        Some(headroom) if headroom < available - limit => Err(format!(
            "fsb would have to lock {}, but its own cgroup allows {}",
            show_size(available - limit),
            show_size(headroom)
        )
        .into()),
        _ => Ok(()),
    }
}

/// The reason why memory is not locked.
#[derive(Debug)]
pub enum Unlocked {
    /// It would take longer than the caller's patience.
    Slow(Refusal),
    /// The kernel refuses.
    Refused(Refusal),
}

impl From<Refusal> for Unlocked {
    fn from(why: Refusal) -> Unlocked {
        Unlocked::Refused(why)
    }
}

impl MemoryBallast {
    /// Locks everything above `limit` bytes of the memory that `available` reports. The page cache
    /// should be dropped before. `patience` is the time that locking may take.
    ///
    /// # Errors
    ///
    /// The kernel refuses memory, or the first chunks show that locking would take longer than
    /// `patience`. No memory stays locked then.
    pub fn start(
        limit: u64,
        available: &dyn Fn() -> Option<u64>,
        patience: Duration,
    ) -> Result<MemoryBallast, Unlocked> {
        let (ours, theirs) =
            UnixStream::pair().map_err(|error| Refusal::call("socketpair", &error))?;
        // SAFETY: the child makes only system calls on memory and descriptors of its own, and never
        // returns.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => return Err(Refusal::call("fork", &io::Error::last_os_error()).into()),
            // SAFETY: this is the child.
            0 => unsafe { eat(theirs.as_raw_fd()) },
            _ => {}
        }
        drop(theirs);
        let mut ballast = MemoryBallast {
            pid,
            limit,
            left: u64::MAX,
            gone: AtomicBool::new(false),
        };
        ours.set_read_timeout(Some(PATIENCE))
            .map_err(|error| Refusal::call("setsockopt", &error))?;
        let began = Instant::now();
        for _ in 0..MOST_ROUNDS {
            ballast.left =
                available().ok_or_else(|| Refusal::from("/proc/meminfo has no MemAvailable"))?;
            let chunks = (ballast.left.saturating_sub(limit) / CHUNK as u64) as usize;
            if chunks == 0 {
                break;
            }
            lock(&ours, chunks, patience.saturating_sub(began.elapsed()))?;
        }
        // The connection ends here. The process then only sleeps and keeps its memory locked.
        Ok(ballast)
    }

    /// Returns the number of bytes that are to remain for all processes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Checks that the process still runs and so keeps its memory locked.
    pub fn holds(&self) -> Result<(), Refusal> {
        // SAFETY: queries our own child without waiting for it; nothing is written.
        let ended = || unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::WNOHANG) } != 0;
        if self.gone.load(Ordering::Relaxed) || ended() {
            self.gone.store(true, Ordering::Relaxed);
            return Err("the process that locked memory was killed".into());
        }
        Ok(())
    }

    /// Returns the memory limit for the record of the run.
    pub fn usage(&self) -> MemoryUse {
        MemoryUse {
            mechanism: "locked memory".to_owned(),
            limit_bytes: self.limit,
            ..MemoryUse::default()
        }
    }

    /// Describes the result, and returns whether the available memory is close enough to the limit.
    pub fn observed(&self) -> (String, bool) {
        let near = self.left.abs_diff(self.limit) <= SLACK;
        let how = if near {
            "left for all processes"
        } else {
            "planned for all processes, but not reached"
        };
        (
            format!("locked memory: {} {how}", show_bytes(self.limit as f64)),
            near,
        )
    }
}

/// Requests `chunks` chunks, one byte each, and waits for an answer to each. Fails as soon as the
/// chunks so far show that all of them take longer than `patience`.
fn lock(mut connection: &UnixStream, chunks: usize, patience: Duration) -> Result<(), Unlocked> {
    let mut answer = [0u8; 1];
    let began = Instant::now();
    for locked in 0..chunks {
        if locked >= SAMPLE && locked.is_multiple_of(SAMPLE) {
            let expected = began.elapsed().as_secs_f64() * chunks as f64 / locked as f64;
            if expected > patience.as_secs_f64() {
                let why = format!(
                    "locking {} of memory takes about {}, and the budget leaves {} for it",
                    show_bytes((chunks * CHUNK) as f64),
                    show_duration(Duration::from_secs_f64(expected)),
                    show_duration(patience)
                );
                return Err(Unlocked::Slow(why.into()));
            }
        }
        let done = connection
            .write_all(&[1])
            .and_then(|()| connection.read_exact(&mut answer));
        done.map_err(|_| {
            let [locked, wanted] = [locked, chunks].map(|count| show_bytes((count * CHUNK) as f64));
            Refusal::from(format!(
                "the kernel locked {locked} of {wanted} and refuses more"
            ))
        })?;
    }
    Ok(())
}

impl Drop for MemoryBallast {
    fn drop(&mut self) {
        if self.gone.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: our own child, which only we wait for and which was not reaped yet, so the number
        // is still its.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// The main function of the process. It locks a chunk for each byte that it receives, answers, and
/// sleeps when the connection ends.
///
/// # Safety
///
/// Call this only in a freshly forked child. It makes only system calls and does not return.
unsafe fn eat(connection: i32) -> ! {
    // SAFETY: properties of our own process; constant strings; new mappings that nothing else
    // refers to; an open descriptor.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        // The parent's descriptors must not stay open here: its connections and devices end when it
        // closes them.
        libc::dup2(connection, 0);
        libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32);
        let score = libc::open(
            c"/proc/self/oom_score_adj".as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
        );
        if score >= 0 {
            libc::write(score, c"1000".as_ptr().cast(), 4);
            libc::close(score);
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mut byte = 0u8;
        while libc::read(0, (&raw mut byte).cast(), 1) == 1 {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                CHUNK,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            if memory == libc::MAP_FAILED || libc::mlock(memory, CHUNK) != 0 {
                break;
            }
            if libc::write(0, (&raw const byte).cast(), 1) != 1 {
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

    /// Returns a machine with `available` bytes of free memory.
    fn machine(available: u64) -> (tempfile::TempDir, Roots) {
        let tree = tempfile::tempdir().unwrap();
        std::fs::write(
            tree.path().join("meminfo"),
            format!("MemAvailable: {} kB\n", available >> 10),
        )
        .unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().join("sys"),
        };
        (tree, roots)
    }

    fn locked(pid: i32) -> Option<u64> {
        let status = crate::read_text(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmLck:"))?;
        line.split_whitespace()
            .nth(1)?
            .parse::<u64>()
            .ok()
            .map(|kib| kib << 10)
    }

    #[test]
    fn memory_above_the_limit_is_locked_and_released() {
        // A machine with 96 MiB available, where other processes free 16 MiB before the second
        // reading.
        let asked = std::cell::Cell::new(0);
        let available = || {
            asked.set(asked.get() + 1);
            Some([96u64, 80, 64][asked.get().min(3) - 1] << 20)
        };
        let ballast = MemoryBallast::start(64 << 20, &available, Duration::MAX).unwrap();
        let pid = ballast.pid;
        assert_eq!(locked(pid), Some(48 << 20));
        assert_eq!(ballast.holds(), Ok(()));
        assert_eq!(ballast.usage().mechanism, "locked memory");
        assert_eq!(
            ballast.observed(),
            (
                "locked memory: 64.0 MiB left for all processes".to_owned(),
                true
            )
        );
        drop(ballast);
        assert_eq!(locked(pid), None);
    }

    #[test]
    fn locking_that_takes_longer_than_the_budget_allows_ends_early() {
        let available = (64 << 20) + (SAMPLE as u64 + 4) * CHUNK as u64;
        let refused = MemoryBallast::start(64 << 20, &|| Some(available), Duration::ZERO);
        let Err(Unlocked::Slow(why)) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.to_string().contains("the budget leaves"), "{why}");
        // Fewer chunks than the sample are locked in any time.
        let few = (64 << 20) + (SAMPLE as u64 - 1) * CHUNK as u64;
        let asked = std::cell::Cell::new(false);
        let available = || Some(if asked.replace(true) { 64 << 20 } else { few });
        assert!(MemoryBallast::start(64 << 20, &available, Duration::ZERO).is_ok());
    }

    #[test]
    fn where_nothing_can_be_eaten_that_is_said() {
        let (_tree, roots) = machine(32 << 20);
        assert!(
            possible(64 << 20, &roots)
                .unwrap_err()
                .to_string()
                .contains("less than the limit already")
        );
        let (_tree, roots) = machine(1 << 50);
        assert!(possible(1 << 30, &roots).is_ok());
        let far = MemoryBallast {
            pid: 0,
            limit: 1 << 30,
            left: 2 << 30,
            gone: AtomicBool::new(true),
        };
        assert!(!far.observed().1);
    }

    #[test]
    fn one_that_was_killed_holds_nothing() {
        let ballast = MemoryBallast::start(64 << 20, &|| Some(64 << 20), Duration::MAX).unwrap();
        // SAFETY: our own child.
        unsafe { libc::kill(ballast.pid, libc::SIGKILL) };
        assert!(crate::poll_until(Duration::from_secs(10), || ballast
            .holds()
            .is_err()));
    }
}

//! Processes: their state in /proc, and the preparation of a child before it executes a program.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Signals that are meant for the coordinator, or for everything in its terminal or unit. Detached
/// processes end with the coordinator instead.
const IGNORED: [libc::c_int; 8] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGTERM,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGPIPE,
];

/// Makes a command start in its own session, in which signals of a terminal do not end it.
pub fn detach(command: &mut Command) {
    // SAFETY: only system calls on our own process between fork and exec. Ignored signals stay
    // ignored after exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            IGNORED.iter().for_each(|signal| {
                libc::signal(*signal, libc::SIG_IGN);
            });
            Ok(())
        });
    }
}

/// Enlarges the table in which the kernel finds waiting threads of this process (futex). Linux 6.16
/// and later give it four slots per processor, so that each wake-up of one of thousands of threads
/// searches hundreds of them. Older kernels have one table for all processes and ignore the call.
pub fn enlarge_futex_table(threads: usize) {
    /// From include/uapi/linux/prctl.h.
    const PR_FUTEX_HASH: libc::c_int = 78;
    const PR_FUTEX_HASH_SET_SLOTS: libc::c_ulong = 1;
    const MOST: usize = 1 << 20;
    let slots = threads.next_power_of_two().min(MOST) as libc::c_ulong;
    // SAFETY: the call has numbers for arguments and changes a table of the kernel.
    unsafe { libc::prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, slots, 0, 0) };
}

/// Makes a command start in the cgroup whose list of processes is `file`. The kernel then charges
/// every page that the process touches from its first instruction on to that cgroup.
pub fn start_in_cgroup(command: &mut Command, file: File) {
    // SAFETY: one system call on a descriptor that the closure owns, between fork and exec. The
    // number 0 is the writer.
    unsafe {
        command.pre_exec(
            move || match libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) {
                1 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            },
        );
    }
}

/// Closes all descriptors but standard input, output and error. At exec the kernel closed those
/// that the coordinator opened, but not those that it inherited. The pipe of a shell would not end
/// as long as this process holds it.
pub fn close_inherited() {
    // SAFETY: nothing in this process owns the descriptors, because the process has just begun.
    change_descriptors(0, |fd| _ = unsafe { libc::close(fd) });
}

/// Applies close_range(2) with `flags` to all descriptors but standard input, output and error. If
/// the kernel or a filter of system calls does not know the call, applies `change` to each of them.
pub(crate) fn change_descriptors(flags: libc::c_uint, change: impl FnMut(RawFd)) {
    const FIRST: RawFd = 3;
    // SAFETY: changes only descriptors of this process. The caller ensures that the flags are safe
    // for them.
    if unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags) } == 0 {
        return;
    }
    let open = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    // Collect the numbers first: the directory that is read is closed before the descriptors are
    // changed.
    let open: Vec<RawFd> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    open.into_iter().filter(|fd| *fd >= FIRST).for_each(change);
}

/// Returns the CPU seconds of all children that have ended, in user mode and in the kernel.
pub fn cpu_seconds_of_children() -> [f64; 2] {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole rusage, and zeros are a valid one if the call fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
}

/// Returns the CPU seconds of all threads of a process, also of those that have ended, in user mode
/// and in the kernel. Returns `None` if the process has ended.
pub fn cpu_seconds(id: u32) -> Option<f64> {
    let (mut clock, mut time) = (0, MaybeUninit::<libc::timespec>::zeroed());
    // SAFETY: both pointers are valid, and zeros are a valid timespec.
    let time = unsafe {
        let found = libc::clock_getcpuclockid(libc::pid_t::try_from(id).ok()?, &raw mut clock);
        let is_read = found == 0 && libc::clock_gettime(clock, time.as_mut_ptr()) == 0;
        is_read.then(|| time.assume_init())?
    };
    Some(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
}

/// Returns the fields after the name, which is in parentheses and may itself hold blanks and
/// parentheses.
fn after_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest)
}

/// Returns the state of a process, such as `Z`, from its /proc/PID/stat.
pub fn state(stat: &str) -> Option<char> {
    after_name(stat)?.trim_start().chars().next()
}

/// Returns a numeric field of /proc/PID/stat beyond the third, counted from 1 as in
/// proc_pid_stat(5).
pub fn stat_field(stat: &str, number: usize) -> Option<u64> {
    after_name(stat)?
        .split_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

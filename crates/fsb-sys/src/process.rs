//! Processes: their state in /proc, and what a child is before it executes a program.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Signals that are meant for the front, or for everything in its terminal or its unit: the front's end is what counts.
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

/// Makes a command start in a session of its own, in which signals of a terminal do not end it.
pub fn detach(command: &mut Command) {
    // SAFETY: only system calls on our own process between fork and exec. What is ignored stays so.
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

/// Makes a command start in the cgroup whose list of processes is `file`: every page that it touches from its first
/// instruction on is charged to that cgroup.
pub fn start_in_cgroup(command: &mut Command, file: File) {
    // SAFETY: one system call on a descriptor that the closure owns, between fork and exec. The number 0 is the writer.
    unsafe {
        command.pre_exec(move || match libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) {
            1 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

/// Closes all descriptors but standard input, output and error. exec closed those that the front opened, but not those that it
/// inherited: the pipe of a shell would not end as long as this process holds it.
pub fn close_inherited() {
    // SAFETY: closes descriptors that nothing in this process owns, for it has just begun.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return;
    }
    // Before Linux 5.9, or where a filter of system calls does not know it.
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<libc::c_int> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: as above; the directory that was read is closed already.
        unsafe { libc::close(number) };
    }
}

/// Returns the fields after the name, which is in parentheses and may itself hold blanks and parentheses.
fn after_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest)
}

/// Returns the state of a process, such as `Z`, from its /proc/PID/stat.
pub fn state(stat: &str) -> Option<char> {
    after_name(stat)?.trim_start().chars().next()
}

/// Returns a numeric field of /proc/PID/stat beyond the third, counted from 1 as in proc_pid_stat(5).
pub fn stat_field(stat: &str, number: usize) -> Option<u64> {
    after_name(stat)?.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

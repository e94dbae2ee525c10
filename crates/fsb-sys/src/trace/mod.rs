//! Traces calls of another process with ptrace(2), and with the seccomp filter that limits its stops to chosen calls.
//!
//! These functions are safe wrappers of the system calls. The tracer interprets the stops.

mod ebpf;
mod filter;
mod inherited;

use std::io::{self, IoSliceMut};
use std::os::raw::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

pub use ebpf::{Ended, Event, Watch, Woken};
pub use filter::{HERE, Rule, X32, install};
pub use inherited::leave_keyring_of_others;

/// Options of PTRACE_SEIZE: stops at calls differ from those at signals; new tasks, exec and the filter's stops are
/// events.
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP;
/// Some headers are too old for it.
const GET_SYSCALL_INFO: c_int = 0x420e;

/// The reason of a task's stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The task has ended, with an exit code or by a signal.
    Ended {
        /// The exit code as in `$?` of a shell: 128 + the number of a signal.
        code: i32,
    },
    /// The filter stopped a call at its start.
    Filtered,
    /// A call starts or ends.
    Call,
    /// The task has created another task.
    Made,
    /// The task has executed another program.
    Executed,
    /// The task is new, was interrupted, or was stopped by job control.
    Paused {
        /// Whether job control stopped it, until it is continued.
        job: bool,
    },
    /// A signal is to be delivered.
    Signal(i32),
}

/// Set when SIGINT or SIGTERM asked this process to end.
static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_: c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Makes SIGINT and SIGTERM interrupt the wait for a stop instead of ending this process: see [`asked_to_end`].
pub fn catch_ends() {
    // SAFETY: a zeroed structure with a handler that stores one flag; without SA_RESTART waits are interrupted.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ask as *const () as usize;
        libc::sigaction(libc::SIGINT, &action, null_mut());
        libc::sigaction(libc::SIGTERM, &action, null_mut());
    }
}

/// Returns whether SIGINT or SIGTERM arrived since the last call.
pub fn asked_to_end() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}

/// Set when the timer expired.
static TICKED: AtomicBool = AtomicBool::new(false);

extern "C" fn tick(_: c_int) {
    TICKED.store(true, Ordering::Relaxed);
}

/// Limits each wait for a stop to `milliseconds`. Children do not inherit the timer.
pub fn tick_every(milliseconds: u32) {
    let time = libc::timeval { tv_sec: 0, tv_usec: libc::suseconds_t::from(milliseconds) * 1000 };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: as above.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = tick as *const () as usize;
        libc::sigaction(libc::SIGALRM, &action, null_mut());
        libc::setitimer(libc::ITIMER_REAL, &timer, null_mut());
    }
}

/// Returns nanoseconds on CLOCK_MONOTONIC, which the kernel's events use too.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Waits until any traced task stops.
///
/// # Errors
/// Fails if no traced task is left (ECHILD), if this process was asked to end, or if the timer expired (EINTR).
pub fn wait() -> io::Result<(i32, Stop)> {
    loop {
        let mut status = 0;
        // SAFETY: a pointer to a number of ours.
        let task = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        if task > 0 {
            return Ok((task, meaning(status)));
        }
        let error = io::Error::last_os_error();
        let is_wanted = || ASKED.load(Ordering::Relaxed) || TICKED.swap(false, Ordering::Relaxed);
        if error.kind() != io::ErrorKind::Interrupted || is_wanted() {
            return Err(error);
        }
    }
}

fn meaning(status: c_int) -> Stop {
    if libc::WIFEXITED(status) {
        return Stop::Ended { code: libc::WEXITSTATUS(status) };
    }
    if libc::WIFSIGNALED(status) {
        return Stop::Ended { code: 128 + libc::WTERMSIG(status) };
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Stop::Filtered,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Stop::Made,
        libc::PTRACE_EVENT_EXEC => Stop::Executed,
        libc::PTRACE_EVENT_STOP => Stop::Paused { job: signal != libc::SIGTRAP },
        _ if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        _ => Stop::Signal(signal),
    }
}

/// Waits until a child has stopped itself.
///
/// # Errors
/// Fails if the child ended instead.
pub fn wait_until_stopped(child: i32) -> io::Result<()> {
    let mut status = 0;
    loop {
        // SAFETY: as above.
        let got = unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) };
        if got == child && libc::WIFSTOPPED(status) {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if got == child || error.kind() != io::ErrorKind::Interrupted {
            return Err(if got == child { io::Error::other("it ended before it began") } else { error });
        }
    }
}

/// Starts to trace a task. With `dies`, the kernel kills the task when this process ends.
///
/// # Errors
/// Fails if the kernel refuses it.
pub fn seize(task: i32, dies: bool) -> io::Result<()> {
    let options = OPTIONS | if dies { libc::PTRACE_O_EXITKILL } else { 0 };
    request(libc::PTRACE_SEIZE as c_int, task, 0, options as usize).map(drop)
}

/// Stops a running task that was seized.
///
/// # Errors
/// Fails if the task has ended.
pub fn interrupt(task: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT as c_int, task, 0, 0).map(drop)
}

/// The way in which a stopped task continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Until the filter or an event stops it.
    Event,
    /// Until a call starts or ends.
    Call,
    /// It stays stopped until job control continues it.
    Continued,
    /// Without tracing.
    Free,
}

/// Continues a stopped task, with a signal or none (0).
///
/// # Errors
/// Fails if the task has ended meanwhile (ESRCH).
pub fn resume(task: i32, until: Until, signal: i32) -> io::Result<()> {
    let how = match until {
        Until::Event => libc::PTRACE_CONT,
        Until::Call => libc::PTRACE_SYSCALL,
        Until::Continued => libc::PTRACE_LISTEN,
        Until::Free => libc::PTRACE_DETACH,
    };
    request(how as c_int, task, 0, signal as usize).map(drop)
}

/// Returns the number that belongs to an event: the task that was created, or the one that executed a program.
///
/// # Errors
/// Fails if the task is not stopped at an event.
pub fn event_message(task: i32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG as c_int, task, 0, (&raw mut message) as usize)?;
    Ok(message)
}

/// The call at which a task is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallInfo {
    /// The call starts.
    Entry {
        /// The architecture, as in `linux/audit.h`.
        architecture: u32,
        /// The number of the call.
        number: u64,
        arguments: [u64; 6],
    },
    /// The call has ended.
    Exit {
        /// An amount, or a negative error number.
        result: i64,
    },
    /// The task is not stopped at a call.
    None,
}

/// Asks a stopped task about its call.
///
/// # Errors
/// Fails if the task has ended, or if the kernel is older than 5.3.
pub fn call_info(task: i32) -> io::Result<CallInfo> {
    // struct ptrace_syscall_info: op and architecture, two pointers, then a union of numbers.
    let mut raw = [0u64; 11];
    request(GET_SYSCALL_INFO, task, size_of_val(&raw), raw.as_mut_ptr() as usize)?;
    Ok(match raw[0] as u8 {
        1 | 3 => CallInfo::Entry {
            architecture: (raw[0] >> 32) as u32,
            number: raw[3],
            arguments: [raw[4], raw[5], raw[6], raw[7], raw[8], raw[9]],
        },
        2 => CallInfo::Exit { result: raw[3] as i64 },
        _ => CallInfo::None,
    })
}

fn request(request: c_int, task: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: addresses are numbers, or pointers to memory of ours that is as large as the request writes.
    let answer = unsafe { libc::ptrace(request as _, task, address, data) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i64) }
}

/// Reads memory of another process. Returns the number of bytes read, which may be less than requested.
///
/// # Errors
/// Fails if nothing could be read.
pub fn read_memory(task: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: into.len() };
    let mut local = [IoSliceMut::new(into)];
    // SAFETY: the slice is ours and layout-compatible with an iovec; the other address is only read by the kernel.
    let read = unsafe { libc::process_vm_readv(task, local.as_mut_ptr().cast(), 1, &remote, 1, 0) };
    if read < 0 { Err(io::Error::last_os_error()) } else { Ok(read as usize) }
}

/// Writes eight bytes of a stopped task's memory, even if the task itself may only read them.
///
/// # Errors
/// Fails if the task has ended, or has no memory there.
pub fn write_memory(task: i32, address: u64, word: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEDATA as c_int, task, address as usize, word as usize).map(drop)
}

/// Requests of `linux/ptrace.h` that read and write a set of registers, and the set of the general ones.
const GET_REGISTERS: c_int = 0x4204;
const SET_REGISTERS: c_int = 0x4205;
const GENERAL: usize = 1;
/// The index of a call's first argument in that set.
#[cfg(target_arch = "x86_64")]
const FIRST_ARGUMENT: usize = 14;
/// The index of a call's first argument in that set.
#[cfg(not(target_arch = "x86_64"))]
const FIRST_ARGUMENT: usize = 0;
/// Whether the register still holds the argument, and not the result, when the call has returned.
pub const KEEPS_FIRST_ARGUMENT: bool = cfg!(target_arch = "x86_64");

/// Replaces the first argument of the call at which a task is stopped.
///
/// # Errors
/// Fails if the task has ended.
pub fn set_first_argument(task: i32, value: u64) -> io::Result<()> {
    // Larger than the set of any machine.
    let mut registers = [0u64; 64];
    let mut part = libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of_val(&registers) };
    // The kernel sets the length to that of its set.
    request(GET_REGISTERS, task, GENERAL, (&raw mut part) as usize)?;
    // SAFETY: the array is ours, and lives as long as `part` points to it.
    unsafe { part.iov_base.cast::<u64>().add(FIRST_ARGUMENT).write(value) };
    request(SET_REGISTERS, task, GENERAL, (&raw mut part) as usize).map(drop)
}

/// Stops this process until its parent continues it.
pub fn stop_self() {
    // SAFETY: a signal to ourselves.
    unsafe { libc::raise(libc::SIGSTOP) };
}

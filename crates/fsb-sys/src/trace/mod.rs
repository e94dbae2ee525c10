//! Traces calls of another process with ptrace(2), and with the seccomp filter that limits its
//! stops to chosen calls.
//!
//! These functions are safe wrappers of the system calls. The tracer interprets the stops.

mod bpf;
mod ebpf;
pub mod stacks;

use std::io::{self, IoSliceMut};
use std::os::raw::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sandbox::join_new_session_keyring;

pub use ebpf::{Ended, Event, Watch, Woken};

/// Options of PTRACE_SEIZE. They make stops at calls differ from stops at signals, and report new
/// tasks, exec and stops of the filter as events.
const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP;
/// `PTRACE_GET_SYSCALL_INFO`, which older headers of libc lack.
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
    /// The kernel is about to deliver a signal.
    Signal(i32),
}

/// Set when SIGINT or SIGTERM asked this process to end.
static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_: c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Makes SIGINT and SIGTERM interrupt the wait for a stop instead of ending this process: see
/// [`asked_to_end`].
pub fn catch_ends() {
    // SAFETY: a zeroed structure with a handler that stores one flag; without SA_RESTART waits are
    // interrupted.
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
    let time = libc::timeval {
        tv_sec: 0,
        tv_usec: libc::suseconds_t::from(milliseconds) * 1000,
    };
    let timer = libc::itimerval {
        it_interval: time,
        it_value: time,
    };
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
/// Fails if no traced task is left (ECHILD), if this process was asked to end, or if the timer
/// expired (EINTR).
pub fn wait() -> io::Result<(i32, Stop)> {
    loop {
        let mut status = 0;
        // SAFETY: a pointer to a number of ours.
        let task = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        if task > 0 {
            return Ok((task, meaning(status)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted
            || (ASKED.load(Ordering::Relaxed) || TICKED.swap(false, Ordering::Relaxed))
        {
            return Err(error);
        }
    }
}

fn meaning(status: c_int) -> Stop {
    if libc::WIFEXITED(status) {
        return Stop::Ended {
            code: libc::WEXITSTATUS(status),
        };
    }
    if libc::WIFSIGNALED(status) {
        return Stop::Ended {
            code: 128 + libc::WTERMSIG(status),
        };
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Stop::Filtered,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Stop::Made,
        libc::PTRACE_EVENT_EXEC => Stop::Executed,
        libc::PTRACE_EVENT_STOP => Stop::Paused {
            job: signal != libc::SIGTRAP,
        },
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
            return Err(if got == child {
                io::Error::other("it ended before it began")
            } else {
                error
            });
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
    /// Until job control continues the task.
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

/// Returns the number that belongs to an event: the task that was created, or the one that executed
/// a program.
///
/// # Errors
/// Fails if the task is not stopped at an event.
pub fn event_message(task: i32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(
        libc::PTRACE_GETEVENTMSG as c_int,
        task,
        0,
        (&raw mut message) as usize,
    )?;
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
    request(
        GET_SYSCALL_INFO,
        task,
        size_of_val(&raw),
        raw.as_mut_ptr() as usize,
    )?;
    Ok(match raw[0] as u8 {
        1 | 3 => CallInfo::Entry {
            architecture: (raw[0] >> 32) as u32,
            number: raw[3],
            arguments: [raw[4], raw[5], raw[6], raw[7], raw[8], raw[9]],
        },
        2 => CallInfo::Exit {
            result: raw[3] as i64,
        },
        _ => CallInfo::None,
    })
}

fn request(request: c_int, task: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: addresses are numbers, or pointers to memory of ours that is as large as the request
    // writes.
    let answer = unsafe { libc::ptrace(request as _, task, address, data) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer as i64)
    }
}

/// Reads memory of another process. Returns the number of bytes read, which may be less than
/// requested.
///
/// # Errors
/// Fails if nothing could be read.
pub fn read_memory(task: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let remote = libc::iovec {
        iov_base: address as *mut _,
        iov_len: into.len(),
    };
    let mut local = [IoSliceMut::new(into)];
    // SAFETY: the slice is ours and layout-compatible with an iovec; the other address is only read
    // by the kernel.
    let read = unsafe { libc::process_vm_readv(task, local.as_mut_ptr().cast(), 1, &remote, 1, 0) };
    if read < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(read as usize)
    }
}

/// Writes eight bytes of a stopped task's memory, even if the task itself may only read them.
///
/// # Errors
/// Fails if the task has ended, or has no memory there.
pub fn write_memory(task: i32, address: u64, word: u64) -> io::Result<()> {
    request(
        libc::PTRACE_POKEDATA as c_int,
        task,
        address as usize,
        word as usize,
    )
    .map(drop)
}

/// Requests of `linux/ptrace.h` that read and write a set of registers, and the set of the general
/// ones.
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
    // The array is larger than the set of any machine.
    let mut registers = [0u64; 64];
    let mut part = libc::iovec {
        iov_base: registers.as_mut_ptr().cast(),
        iov_len: size_of_val(&registers),
    };
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

// A seccomp filter in classic BPF: chosen calls stop for the tracer, all others run untouched.

/// A call at which the filter stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The number of the call on this machine.
    pub number: i64,
    /// Stop only if the lower half of this argument is one of these values.
    pub only: Option<(u8, &'static [u32])>,
    /// Do not stop if the lower half of this argument is this value.
    pub except: Option<(u8, u32)>,
}

/// The bit in call numbers of x32 programs, whose `architecture` is the same as that of native
/// ones.
pub const X32: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data` on little-endian machines.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The architecture of this program, as in `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
pub const HERE: u32 = 0xc000_003e;
/// The architecture of this program, as in `linux/audit.h`.
#[cfg(target_arch = "aarch64")]
pub const HERE: u32 = 0xc000_00b7;
/// The layout of calls is unknown on this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const HERE: u32 = 0;

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Skips `equal` statements if the loaded number is `k`, else `other` statements.
fn jump(k: u32, equal: u8, other: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: equal,
        jf: other,
        k,
    }
}

/// Skips `at_least` statements if the loaded number is `k` or more, else `below` statements.
fn jump_unless_below(k: u32, at_least: u8, below: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16,
        jt: at_least,
        jf: below,
        k,
    }
}

fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn answer(action: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, action)
}

fn program(rules: &[Rule]) -> Vec<libc::sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE),
        jump(HERE, 1, 0),
        // The call is of another architecture. The tracer sees that and decides.
        answer(libc::SECCOMP_RET_TRACE),
        load(NUMBER),
        jump_unless_below(X32, 0, 1),
        answer(libc::SECCOMP_RET_TRACE),
    ];
    for rule in rules {
        let number = rule.number as u32;
        let argument = |at: u8| load(ARGUMENTS + 8 * u32::from(at));
        match (rule.only, rule.except) {
            (Some((at, values)), _) => {
                let length = values.len() as u8;
                program.push(jump(number, 0, length + 3));
                program.push(argument(at));
                for (index, value) in values.iter().enumerate() {
                    program.push(jump(*value, length - index as u8, 0));
                }
                program.push(answer(libc::SECCOMP_RET_ALLOW));
                program.push(answer(libc::SECCOMP_RET_TRACE));
            }
            (None, Some((at, value))) => {
                program.push(jump(number, 0, 4));
                program.push(argument(at));
                program.push(jump(value, 0, 1));
                program.push(answer(libc::SECCOMP_RET_ALLOW));
                program.push(answer(libc::SECCOMP_RET_TRACE));
            }
            (None, None) => {
                program.push(jump(number, 0, 1));
                program.push(answer(libc::SECCOMP_RET_TRACE));
            }
        }
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

/// Makes these calls of this process and of all processes that it starts stop for its tracer.
/// Irreversible. The process also gives up gaining new privileges (setuid programs).
///
/// # Errors
/// Fails if the kernel has no seccomp, or refuses it.
pub fn install(rules: &[Rule]) -> io::Result<()> {
    let program = program(rules);
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: properties of our own process; the kernel copies the program.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mode = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
        if libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

// Inheritance from the recorder to the recorded program: the session keyring.

/// Operations of keyctl(2), and the special ID of the session keyring.
const DESCRIBE: libc::c_long = 6;
const SESSION_KEYRING: libc::c_long = -3;

/// Replaces the session keyring by a new, empty one if it belongs to another user than this process
/// runs as. A user's own keyring is kept because programs need its keys (Kerberos, fscrypt).
///
/// # Errors
/// Fails if the kernel refuses a new keyring. The old one then stays.
pub fn leave_keyring_of_others() -> io::Result<()> {
    let mut text = [0u8; 256];
    // SAFETY: the kernel writes no more than the given length.
    let length = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            DESCRIBE,
            SESSION_KEYRING,
            text.as_mut_ptr(),
            text.len(),
        )
    };
    if length < 0 {
        let error = io::Error::last_os_error();
        // Without keyrings, or in a sandbox that forbids keyctl(2), the program cannot read any key
        // either.
        let none = matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
        return if none {
            Ok(())
        } else {
            join_new_session_keyring()
        };
    }
    let owner = owner(&text[..text.len().min(length as usize)]);
    if owner == Some(rustix::process::getuid().as_raw()) {
        Ok(())
    } else {
        join_new_session_keyring()
    }
}

/// Parses the owner from a description such as `keyring;1000;1000;3f030000;_ses`.
fn owner(description: &[u8]) -> Option<u32> {
    std::str::from_utf8(description.split(|byte| *byte == b';').nth(1)?)
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter on a call as the kernel does, and returns its action.
    fn run(program: &[libc::sock_filter], number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) & 7 {
                libc::BPF_RET => return step.k,
                libc::BPF_LD => {
                    held = match step.k {
                        NUMBER => number,
                        ARCHITECTURE => HERE,
                        offset => arguments[(offset - ARGUMENTS) as usize / 8],
                    };
                }
                _ => {
                    let at_least = u32::from(step.code) & 0xf0 == libc::BPF_JGE;
                    let jumps = if at_least {
                        held >= step.k
                    } else {
                        held == step.k
                    };
                    at += usize::from(if jumps { step.jt } else { step.jf });
                }
            }
        }
    }

    #[test]
    fn chosen_calls_stop_and_others_run() {
        let only = Rule {
            number: 72,
            only: Some((1, &[0, 2, 1030])),
            except: None,
        };
        let except = Rule {
            number: 9,
            only: None,
            except: Some((4, u32::MAX)),
        };
        let rules = [
            Rule {
                number: 3,
                only: None,
                except: None,
            },
            only,
            except,
        ];
        let program = program(&rules);
        let stops = |number, arguments| run(&program, number, arguments) == libc::SECCOMP_RET_TRACE;
        assert!(stops(3, [0; 6]) && !stops(4, [0; 6]));
        assert!(
            stops(72, [0, 0, 0, 0, 0, 0])
                && stops(72, [0, 1030, 0, 0, 0, 0])
                && stops(72, [0, 2, 0, 0, 0, 0])
        );
        assert!(!stops(72, [0, 6, 0, 0, 0, 0]));
        assert!(stops(9, [0, 0, 0, 0, 5, 0]) && !stops(9, [0, 0, 0, 0, u32::MAX, 0]));
        assert!(
            stops(X32 | 4, [0; 6]),
            "calls of x32 programs are others than ours"
        );
    }

    #[test]
    fn the_owner_is_the_second_field_of_a_description() {
        assert_eq!(owner(b"keyring;1000;100;3f030000;_ses\0"), Some(1000));
        assert_eq!(owner(b"keyring;-1;100;3f030000;_ses"), None);
        assert_eq!(owner(b""), None);
    }
}

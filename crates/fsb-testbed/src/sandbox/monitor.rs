//! The monitor: the parent of a worker that runs programs of the user.
//!
//! Such a worker is PID 1 of its own PID namespace where the kernel allows one, so that the kernel ends everything that
//! its programs started when the worker ends, and so that those programs can neither stop nor kill it. A process enters a
//! new PID namespace only by being forked into it. The parent stays outside as the monitor: it has no open file, keeps the
//! rights of the agent, kills a worker that was stopped from elsewhere, and ends as the worker ended.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// A worker that is stopped for this number of steps is killed. Steps are counted, not time: while the monitor itself is
/// stopped with the worker, at most one step passes. The remaining ones are long enough for a run that is stopped and
/// continued, where the monitor continues an instant before the worker.
const STOPPED: u32 = 5;
static STEP: libc::timespec = libc::timespec { tv_sec: 1, tv_nsec: 0 };

/// Forks. Returns in the child; the parent becomes the monitor and never returns. The calling process must have one thread.
///
/// # Errors
///
/// The kernel's answer to `fork`: the limit of processes, or no memory.
pub(super) fn fork_below() -> io::Result<()> {
    let heard = signals(&[libc::SIGCHLD, libc::SIGTERM]);
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: this process has one thread by contract. Signals are blocked before the fork, so that a SIGTERM that
    // arrives early is one that the monitor handles.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &heard, before.as_mut_ptr());
        let parent = libc::getpid();
        match libc::fork() {
            -1 => {
                let error = io::Error::last_os_error();
                libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
                Err(error)
            }
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // In a PID namespace of our own the parent has the number 0.
                if ![0, parent].contains(&libc::getppid()) {
                    libc::_exit(127);
                }
                libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
                Ok(())
            }
            worker => watch(worker, &heard),
        }
    }
}

fn signals(numbers: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is initialised before it is read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for number in numbers {
            libc::sigaddset(set.as_mut_ptr(), *number);
        }
        set.assume_init()
    }
}

/// The monitor's whole life. SIGTERM asks it to kill the worker; it ends only after the worker, and as the worker did.
fn watch(worker: libc::pid_t, heard: &libc::sigset_t) -> ! {
    // SAFETY: properties and descriptors of our own process. Standard error stays, for the reason of a kill.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::syscall(libc::SYS_close_range, 0, 1, 0);
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
    let mut steps_left: Option<u32> = None;
    loop {
        let mut status = 0;
        // SAFETY: waits for our own child without blocking; `status` is valid.
        while unsafe { libc::waitpid(worker, &mut status, libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED) } > 0 {
            if libc::WIFSTOPPED(status) {
                steps_left = Some(STOPPED);
            } else if libc::WIFCONTINUED(status) {
                steps_left = None;
            } else {
                end_as(status);
            }
        }
        if steps_left == Some(0) {
            steps_left = None;
            let why = b"it was stopped by a signal and did not continue\n";
            // SAFETY: a valid buffer; our own child, not yet waited for.
            unsafe {
                libc::write(2, why.as_ptr().cast(), why.len());
                libc::kill(worker, libc::SIGKILL);
            }
            continue;
        }
        let time = if steps_left.is_some() { &raw const STEP } else { null() };
        // SAFETY: waits for blocked signals; the time is valid or absent.
        let signal = unsafe { libc::sigtimedwait(heard, null_mut(), time) };
        if signal < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) {
            steps_left = steps_left.map(|left| left - 1);
        }
        if signal == libc::SIGTERM {
            // SAFETY: our own child, not yet waited for.
            unsafe { libc::kill(worker, libc::SIGKILL) };
        }
    }
}

/// Ends this process as its child ended, so that the agent, which waits for it, learns how.
fn end_as(status: libc::c_int) -> ! {
    // SAFETY: signals of our own process; then it ends without running destructors.
    unsafe {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            libc::signal(signal, libc::SIG_DFL);
            libc::sigprocmask(libc::SIG_UNBLOCK, &signals(&[signal]), null_mut());
            libc::raise(signal);
        }
        libc::_exit(super::exit_code(status))
    }
}

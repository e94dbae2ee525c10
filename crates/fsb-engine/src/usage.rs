//! CPU time, as the kernel accounts it.

use std::mem::MaybeUninit;

/// CPU seconds of this process so far, in user mode and in the kernel.
pub(crate) fn of_process() -> [f64; 2] {
    of(libc::RUSAGE_SELF)
}

/// CPU seconds of this thread so far, in user mode and in the kernel.
pub(crate) fn of_thread() -> [f64; 2] {
    of(libc::RUSAGE_THREAD)
}

fn of(whom: libc::c_int) -> [f64; 2] {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a whole rusage, and zeros are a valid one should the call fail.
    let usage = unsafe {
        libc::getrusage(whom, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
}

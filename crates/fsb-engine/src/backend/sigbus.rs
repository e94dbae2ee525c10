//! Copying to and from mapped files, which fail by a signal.
//!
//! A load or a store has no result: where the kernel cannot read a page, or finds no space for one, or the file has
//! become shorter, it sends SIGBUS. The handler here puts empty memory into the place of the mapping from the failing
//! page on, so that the copying comes to its end, and notes that it did; the copier then asks the kernel by an ordinary
//! call what is wrong. Signals from anywhere else go to the handler that was there before.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::data::PAGE;

/// Memory that a thread is copying to or from.
#[derive(Debug, Clone, Copy)]
struct Guard {
    start: usize,
    end: usize,
    failed: bool,
}

const NOTHING: Guard = Guard { start: 0, end: 0, failed: false };

thread_local! {
    // A constant that needs no destructor: the handler may touch it.
    static GUARD: Cell<Guard> = const { Cell::new(NOTHING) };
}

/// The handler before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Makes [`copy`] safe to use in this process, once.
pub(crate) fn install() {
    BEFORE.get_or_init(|| {
        // SAFETY: all zeros are a valid sigaction. The handler touches only what a handler may: a constant of its
        // thread, mmap and errno.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before);
            before
        }
    });
}

/// Copies `length` bytes; whether it went well. If not, everything of `mapped` from the failing page on is no longer
/// the file: it must not be used again.
///
/// # Safety
///
/// As of [`ptr::copy_nonoverlapping`], but that the pages of `mapped`, a part of one shared mapping that begins on a
/// page and that nothing else points into, may have no file behind them. [`install`] was called.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, length: usize, mapped: (*mut u8, usize)) -> bool {
    let start = mapped.0 as usize;
    GUARD.set(Guard { start, end: start + mapped.1, failed: false });
    // The handler runs in this thread: the compiler alone could bring things out of order.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the caller's; a page without a file behind it is replaced by the handler before the copy touches it
    // again.
    unsafe { ptr::copy_nonoverlapping(from, to, length) };
    compiler_fence(Ordering::SeqCst);
    !GUARD.replace(NOTHING).failed
}

extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler that asked for it; of SIGBUS it holds an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let guard = GUARD.get();
    if (guard.start..guard.end).contains(&address) && replace_from(address & !(PAGE - 1), guard.end) {
        GUARD.set(Guard { failed: true, ..guard });
        return;
    }
    hand_on(signal, info, context);
}

/// Puts empty memory where a mapping was.
fn replace_from(start: usize, end: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller of `copy` vouches that this is a part of one mapping that nothing else points into. errno is
    // the interrupted code's and is put back.
    unsafe {
        let errno = *libc::__errno_location();
        let placed = libc::mmap(ptr::without_provenance_mut(start), end - start, access, flags, -1, 0);
        *libc::__errno_location() = errno;
        placed != libc::MAP_FAILED
    }
}

/// Does what would have been done without us.
fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        // SAFETY: with SA_SIGINFO the field holds a function of this type.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(before.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // Back to the old action; the failing instruction runs again and meets it.
        // SAFETY: this is what the kernel gave us.
        unsafe { libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) };
    }
}

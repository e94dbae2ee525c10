//! One of several processes that work together: this program again.
//!
//! Its standard input is the shared memory, its second argument the phase, and what it says on standard output, once,
//! is the result. It dies with the process that started it.

use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::AtomicBool;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::Signal;

use super::perform::perform_with;
use super::phase::{Phase, PhaseError, PhaseResult};
use super::start_barrier::StartBarrier;
use crate::EngineError;

/// The first argument of such a process.
pub const CHILD_ARGUMENT: &str = "__iozone-child";

/// A [`StartBarrier`] in memory that processes share.
pub(super) struct SharedStartBarrier(*const StartBarrier);

// SAFETY: a barrier is made of atomic numbers, and the mapping lives as long as the value.
unsafe impl Sync for SharedStartBarrier {}

impl SharedStartBarrier {
    /// Maps the memory, which must have the size of a barrier.
    pub(super) fn map(memory: impl AsFd) -> Result<SharedStartBarrier, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), size_of::<StartBarrier>(), protection, MapFlags::SHARED, memory, 0)?
        };
        Ok(SharedStartBarrier(start.cast()))
    }
}

impl Deref for SharedStartBarrier {
    type Target = StartBarrier;

    fn deref(&self) -> &StartBarrier {
        // SAFETY: the mapping starts on a page, is as large as a barrier, all zeros at first, and is never unmapped
        // before
        // `self` goes; every process touches it through atomic numbers only.
        unsafe { &*self.0 }
    }
}

impl Drop for SharedStartBarrier {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this size, and no reference outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.0.cast_mut().cast(), size_of::<StartBarrier>()) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Does the phase that the second argument holds, for the process that the first one names: what to say about it.
pub fn child_main(parent: &str, task: &str) -> String {
    let result = serve(parent, task);
    // Results are numbers, and errors text: they can be written down.
    serde_json::to_string(&result).unwrap_or_default()
}

fn serve(parent: &str, task: &str) -> Result<PhaseResult, PhaseError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| EngineError::call("tie this process to", "its parent", errno))?;
    // It may have died before this process asked to follow it.
    if rustix::process::getppid().map(|pid| pid.to_string()).as_deref() != Some(parent) {
        return Err(PhaseError::Interrupted);
    }
    let phase: Phase =
        serde_json::from_str(task).map_err(|error| EngineError::new(format!("the request is not a phase: {error}")))?;
    let barrier = SharedStartBarrier::map(std::io::stdin())
        .map_err(|errno| EngineError::call("map", "the memory shared with other processes", errno))?;
    perform_with(&phase, &AtomicBool::new(false), &barrier, false)
}

//! A counting allocator: how many allocations the engine's threads make.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Set in the main thread: it makes files, encodes answers and prints, and may allocate.
    static EXCUSED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !EXCUSED.try_with(Cell::get).unwrap_or(true) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps to the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the allocator's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Leaves the calling thread out of the count.
pub fn excuse_this_thread() {
    EXCUSED.set(true);
}

/// Allocations so far of all threads that are not excused.
pub fn so_far() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

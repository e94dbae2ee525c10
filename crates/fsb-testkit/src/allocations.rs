//! An allocator that counts the allocations of all threads but those that are excused.

#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, which counts. A program makes it its `#[global_allocator]`.
pub struct CountingAllocator;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static EXCUSED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
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

/// Leaves the calling thread out of the count, for one that makes files, encodes answers or prints.
pub fn excuse_this_thread() {
    EXCUSED.set(true);
}

/// Returns the allocations so far of all threads that are not excused.
pub fn so_far() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

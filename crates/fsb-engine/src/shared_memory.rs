//! Memory that processes share with those that they were forked from.

use std::mem;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags};

use crate::EngineError;

/// A value in anonymous shared memory: the same one after a fork, in parent and children. It is not dropped, so it
/// should hold nothing but atomics.
#[derive(Debug)]
pub(crate) struct SharedMemory<T> {
    value: NonNull<T>,
}

impl<T> SharedMemory<T> {
    pub(crate) fn new(value: T) -> Result<SharedMemory<T>, EngineError> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let map = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), mem::size_of::<T>().max(1), protection, flags) };
        let map = map.map_err(|errno| EngineError::new(format!("map memory to share with workers: {errno}")))?;
        let value_at = NonNull::new(map.cast::<T>()).ok_or_else(|| EngineError::new("memory was mapped at nothing"))?;
        // SAFETY: the mapping is as large as a value, starts on a page, and nobody else knows it yet.
        unsafe { value_at.write(value) };
        Ok(SharedMemory { value: value_at })
    }
}

impl<T> Deref for SharedMemory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it was written when it was made, stays mapped until it is dropped, and is never handed out mutably.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for SharedMemory<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, in the size that it was made, and no reference outlives `self`.
        // That it cannot be unmapped would only cost memory.
        let _ = unsafe { rustix::mm::munmap(self.value.as_ptr().cast(), mem::size_of::<T>().max(1)) };
    }
}

// SAFETY: it gives out shared references only, so it may be where a shared reference may be.
unsafe impl<T: Sync> Send for SharedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedMemory<T> {}

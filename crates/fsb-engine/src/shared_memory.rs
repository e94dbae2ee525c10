//! Memory shared by processes.

use std::ffi::c_void;
use std::mem;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::EngineError;

/// A value in shared memory. Parent and children see the same value after a fork, as do all processes that map one
/// file. It is never dropped, so it should hold only atomics.
#[derive(Debug)]
pub(crate) struct SharedMemory<T> {
    value: NonNull<T>,
}

impl<T> SharedMemory<T> {
    /// Returns a value in anonymous memory.
    pub(crate) fn new(value: T) -> Result<SharedMemory<T>, EngineError> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let map = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), mem::size_of::<T>().max(1), protection, flags) };
        let value_at = mapped(map)?;
        // SAFETY: the mapping is as large as a value, starts on a page, and no other thread has its address yet.
        unsafe { value_at.write(value) };
        Ok(SharedMemory { value: value_at })
    }

    /// Returns the value that a file of its size holds.
    ///
    /// # Safety
    /// The bytes of the file are a value of the type, and only processes that map it so use the file.
    pub(crate) unsafe fn of_file(file: impl AsFd) -> Result<SharedMemory<T>, EngineError> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: as above.
        let map = unsafe { rustix::mm::mmap(ptr::null_mut(), mem::size_of::<T>(), protection, flags, file, 0) };
        Ok(SharedMemory { value: mapped(map)? })
    }
}

fn mapped<T>(map: Result<*mut c_void, Errno>) -> Result<NonNull<T>, EngineError> {
    let map = map.map_err(|errno| EngineError::new(format!("map memory to share with workers: {errno}")))?;
    NonNull::new(map.cast::<T>()).ok_or_else(|| EngineError::new("memory was mapped at nothing"))
}

impl<T> Deref for SharedMemory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the memory holds a value from its creation on, stays mapped until it is dropped, and is never handed
        // out mutably.
        unsafe { self.value.as_ref() }
    }
}

impl<T> Drop for SharedMemory<T> {
    fn drop(&mut self) {
        // SAFETY: this is a mapping of that size, and no reference outlives `self`. A failure to unmap it would only
        // waste memory.
        let _ = unsafe { rustix::mm::munmap(self.value.as_ptr().cast(), mem::size_of::<T>().max(1)) };
    }
}

// SAFETY: the type gives out shared references only, so it may be sent wherever a shared reference may be.
unsafe impl<T: Sync> Send for SharedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedMemory<T> {}

//! The space beneath a sparse image, which programs on a target must not use up.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use fsb_sys::space::FreeSpace;
use fsb_sys::{Roots, magic, memory};

/// The space of the file system that holds a sparse image.
#[derive(Debug, Clone)]
pub struct SpaceBeneath {
    image: Arc<OwnedFd>,
    least: u64,
}

impl SpaceBeneath {
    /// Returns the space beneath an image. Returns `None` if it is not known.
    pub(crate) fn of_image(image: OwnedFd) -> Option<SpaceBeneath> {
        /// Bytes that stay free for everything else on the machine.
        const KEPT: u64 = 1 << 30;
        let free = free_beneath(&image)?;
        Some(SpaceBeneath {
            image: Arc::new(image),
            least: KEPT.min(free / 2),
        })
    }

    /// Returns whether so little is left that programs on the target must end.
    pub fn is_short(&self) -> bool {
        free_beneath(&self.image).is_some_and(|free| free < self.least)
    }
}

/// Returns the free bytes beneath an image: of its file system, or of memory, which has no limit of
/// its own.
fn free_beneath(image: &OwnedFd) -> Option<u64> {
    let reported = FreeSpace::of_file(image).ok()?.bytes;
    if reported.is_none() && magic::is_memory_file(image) {
        let roots = Roots::default();
        let available = memory::meminfo(&roots, "MemAvailable")?;
        return Some(
            memory::cgroup_headroom(&roots).map_or(available, |limit| available.min(limit)),
        );
    }
    reported
}

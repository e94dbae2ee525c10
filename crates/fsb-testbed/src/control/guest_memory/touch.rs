//! Touching free memory, with one thread a processor and huge pages where there are any.

use std::num::NonZero;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::Refusal;
use crate::progress::Progress;
use crate::sys::{Roots, memory};

/// What is mapped at a time; between two, the memory that is left is looked at again.
const CHUNK: u64 = 256 << 20;
/// A first touch that takes this many times a second one is not memory yet: measured were factors from 8 to 28.
const COLD_FACTOR: f64 = 3.0;

/// What came of it.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// A sample was as fast the first time as the second.
    Warm,
    /// What is free was touched, or as much of it as there was time for.
    Touched {
        /// How much.
        bytes: u64,
        /// Of how much.
        free: u64,
        /// How long it took.
        seconds: f64,
    },
    /// Nothing was touched.
    Impossible {
        /// Why.
        why: String,
    },
}

/// Touches a sample of free memory twice, and where the first time was slower, all of it. Everything is given back to
/// the kernel at the end; it stays backed as long as free pages are not reported.
pub(super) fn touch_free_memory(roots: &Roots, patience: Duration, progress: &mut dyn FnMut(Progress)) -> Outcome {
    let start = Instant::now();
    let total = touchable(roots);
    if total < CHUNK {
        return Outcome::Impossible { why: "too little of it is free".to_owned() };
    }
    // The allocator hands out what was used last first, so a small sample would be warm on a cold machine.
    let sample = (total / 16 / CHUNK).clamp(1, 16) * CHUNK;
    let mut held = Vec::new();
    let all = || Duration::MAX;
    let first = match touch(sample, roots, &all, &mut held, &mut |_| {}) {
        Ok(time) => time,
        Err(why) => return Outcome::Impossible { why: why.to_string() },
    };
    held.clear();
    let second = match touch(sample, roots, &all, &mut held, &mut |_| {}) {
        Ok(time) => time,
        Err(why) => return Outcome::Impossible { why: why.to_string() },
    };
    if first.as_secs_f64() < COLD_FACTOR * second.as_secs_f64() {
        return Outcome::Warm;
    }
    let left = || patience.saturating_sub(start.elapsed());
    let mut report = |done: u64| {
        progress(Progress { what: "touching free memory".to_owned(), done: (sample + done).min(total), total });
    };
    // What is held stays held: touching what was just given back would go in circles.
    match touch(total - sample, roots, &left, &mut held, &mut report) {
        Ok(_) => {
            Outcome::Touched { bytes: held.len() as u64 * CHUNK, free: total, seconds: start.elapsed().as_secs_f64() }
        }
        Err(why) => Outcome::Impossible { why: why.to_string() },
    }
}

/// Bytes that may be touched without anybody missing them.
fn touchable(roots: &Roots) -> u64 {
    let total = memory::meminfo(roots, "MemTotal").unwrap_or(0);
    let available = memory::meminfo(roots, "MemAvailable").unwrap_or(0);
    // Page cache counts as available, but is backed already and worth more where it is.
    let free = memory::meminfo(roots, "MemFree").unwrap_or(0).min(available);
    let free = memory::cgroup_headroom(roots).map_or(free, |limit| free.min(limit));
    let margin = (512 << 20).max(total / 20);
    free.saturating_sub(margin)
}

/// Maps and touches `bytes` in chunks and holds them; stops early where memory became scarce or no time is left. The time is
/// that of the touching alone.
fn touch(
    bytes: u64,
    roots: &Roots,
    left: &dyn Fn() -> Duration,
    held: &mut Vec<Mapping>,
    report: &mut dyn FnMut(u64),
) -> Result<Duration, Refusal> {
    let mut time = Duration::ZERO;
    for chunk in 0..bytes / CHUNK {
        if touchable(roots) < CHUNK || left().is_zero() {
            break;
        }
        let mut mapping = Mapping::new(CHUNK as usize)?;
        let start = Instant::now();
        mapping.touch();
        time += start.elapsed();
        held.push(mapping);
        report((chunk + 1) * CHUNK);
    }
    Ok(time)
}

/// Anonymous memory that is unmapped with its owner.
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(length: usize) -> Result<Mapping, Refusal> {
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let start = start.map_err(|errno| crate::error::describe(&errno.into()))?;
        let start = NonNull::new(start.cast()).ok_or("mmap answered null")?;
        let mapping = Mapping { start, length };
        // SAFETY: exactly our mapping. Advice: where there are no huge pages, small ones do.
        let _ = unsafe { madvise(mapping.start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// Writes one byte a page, all processors at once.
    fn touch(&mut self) {
        let page = rustix::param::page_size();
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        // SAFETY: the mapping is ours, of that length, readable and writable, and zeroed by the kernel.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) };
        let share = (self.length / page).div_ceil(threads).max(1) * page;
        std::thread::scope(|scope| {
            for part in bytes.chunks_mut(share) {
                scope.spawn(move || part.iter_mut().step_by(page).for_each(|byte| *byte = 1));
            }
        });
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly our mapping, which nothing refers to any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(meminfo: &str) -> (tempfile::TempDir, Roots) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots { proc: tree.path().to_owned(), sys: tree.path().join("sys") };
        std::fs::write(tree.path().join("meminfo"), meminfo).unwrap();
        (tree, roots)
    }

    #[test]
    fn a_margin_stays_and_page_cache_is_left_alone() {
        let (_keep, roots) = machine("MemTotal: 4194304 kB\nMemFree: 1048576 kB\nMemAvailable: 3145728 kB\n");
        assert_eq!(touchable(&roots), 512 << 20);
        let (_keep, roots) = machine("MemTotal: 104857600 kB\nMemFree: 10485760 kB\nMemAvailable: 10485760 kB\n");
        assert_eq!(touchable(&roots), (10 << 30) - (5 << 30));
    }

    #[test]
    fn where_little_is_free_nothing_is_touched() {
        let (_keep, roots) = machine("MemTotal: 4194304 kB\nMemFree: 600000 kB\nMemAvailable: 4000000 kB\n");
        assert!(matches!(touch_free_memory(&roots, Duration::MAX, &mut |_| {}), Outcome::Impossible { .. }));
    }

    #[test]
    fn every_page_of_a_mapping_is_touched() {
        let mut mapping = Mapping::new(8 << 20).unwrap();
        mapping.touch();
        let mut resident = vec![0u8; (8 << 20) / rustix::param::page_size()];
        // SAFETY: our mapping, and a vector with one byte a page.
        let answer = unsafe { libc::mincore(mapping.start.as_ptr().cast(), mapping.length, resident.as_mut_ptr()) };
        assert_eq!(answer, 0);
        assert!(resident.iter().all(|page| page & 1 == 1));
    }
}

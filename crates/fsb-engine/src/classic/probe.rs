//! What can be known before anything is touched.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::ClockId;

use crate::EngineError;
use crate::clock::Clock;
use crate::memory::Memory;
use crate::residency::resident_bytes;

/// Resolution of the clock that times the passes, in seconds.
pub fn clock_resolution() -> f64 {
    let time = rustix::time::clock_getres(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Writes out everything that is dirty on this machine, as IOzone does before each row.
pub fn sync_all() {
    rustix::fs::sync();
}

/// Processors for `count` workers to run on: those that this process may use, in turn, from `first` on; none if that is
/// not one of them.
pub fn processors(first: u32, count: usize) -> Option<Vec<u32>> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut all: Vec<u32> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u32).collect();
    let start = all.iter().position(|cpu| *cpu == first)?;
    all.rotate_left(start);
    Some(all.into_iter().cycle().take(count).collect())
}

/// Runs this thread on one processor only.
pub(super) fn bind(cpu: u32) -> Result<(), EngineError> {
    let mut set = CpuSet::new();
    if (cpu as usize) < CpuSet::MAX_CPU {
        set.set(cpu as usize);
    }
    sched_setaffinity(None, &set).map_err(|errno| EngineError::call("bind to", format!("processor {cpu}"), errno))
}

/// Tries whether files in `directory` can be written past the page cache in records of `record` bytes, on a file that
/// has no name.
///
/// # Errors
/// Why not: the file system refuses O_DIRECT or the size, or it takes both and caches all the same.
pub fn check_direct(directory: &Path, record: u64) -> Result<(), EngineError> {
    let shown = directory.display();
    let refused = |what: &str, errno: Errno| {
        let error = std::io::Error::from_raw_os_error(errno.raw_os_error());
        EngineError::new(format!("{what} in {shown} with O_DIRECT: {error}"))
    };
    let file = unnamed(directory).map_err(|errno| refused("cannot open a file", errno))?;
    let mut memory = Memory::new(record as usize);
    match rustix::io::pwrite(&file, memory.as_mut(), 0) {
        Ok(moved) if moved as u64 == record => {}
        Ok(moved) => return Err(EngineError::new(format!("only {moved} of {record} bytes can be written in {shown}"))),
        Err(Errno::INVAL) => {
            return Err(EngineError::new(format!(
                "records of {record} bytes cannot be written in {shown} with O_DIRECT: the device wants multiples of its block"
            )));
        }
        Err(errno) => return Err(refused("cannot write", errno)),
    }
    match resident_bytes(&File::from(file), record) {
        Some(cached) if cached > 0 => {
            let message = format!("the file system of {shown} accepts O_DIRECT but uses the page cache");
            Err(EngineError::new(message))
        }
        _ => Ok(()),
    }
}

/// A file that is gone when it is closed: without a name at all, or removed as soon as it is open.
fn unnamed(directory: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let number = crate::mix(Clock::Monotonic.now() ^ (u64::from(std::process::id()) << 32));
            let name = directory.join(format!(".fsb-direct-{number:016x}"));
            let file = rustix::fs::open(&name, flags | OFlags::CREATE | OFlags::EXCL, mode);
            // Some file systems make the file before they refuse the flag. What was there before is somebody else's.
            if !matches!(file, Err(Errno::EXIST)) {
                let _ = rustix::fs::unlink(&name);
            }
            file
        }
        other => other,
    }
}

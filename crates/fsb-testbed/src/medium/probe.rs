//! What the raw device beneath a target does, just before the target is formatted: what its rates can be measured against.
//!
//! Four things, one request at a time, past the page cache, within the first bytes of the part that the target gets: what
//! they write is incompressible, and mkfs writes over it.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use fsb_model::host::DeviceRates;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use rustix::fs::{Mode, OFlags, SeekFrom};

/// Bytes of the device that are used.
const REGION: u64 = 16 << 20;
/// A large record, and a small one.
const LARGE: usize = 1 << 20;
const SMALL: usize = 4096;
/// Each of the four lasts so long.
const LONG: Duration = Duration::from_millis(60);
/// And has so many requests at least, unless it lasts [`LONGEST`].
const FEWEST: u32 = 8;
/// A device that answers once a second is not waited for.
const LONGEST: Duration = Duration::from_secs(2);

/// Probes the device behind that node, which nobody else uses.
pub(crate) fn probe(node: &Path) -> io::Result<DeviceRates> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let device = rustix::fs::open(node, flags, Mode::empty())?;
    let size = rustix::fs::seek(&device, SeekFrom::End(0))?;
    let region = REGION.min(size) / LARGE as u64 * LARGE as u64;
    if region < 2 * LARGE as u64 {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let mut memory = vec![0u8; LARGE + SMALL];
    let start = memory.as_ptr().align_offset(SMALL);
    let buffer = &mut memory[start..start + LARGE];
    // Other bytes each time, or a device could find that it has them already.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let mut random = Pcg64Mcg::seed_from_u64(now);
    random.fill_bytes(buffer);
    let write = |buffer: &[u8], at: u64| rustix::io::pwrite(device.as_fd(), buffer, at).map(drop);
    let mut sequential = (0..).map(|turn: u64| turn * LARGE as u64 % region);
    let mut place = || sequential.next().unwrap_or(0);
    let written = per_second(|| Ok(write(buffer, place())?))?;
    rustix::fs::fdatasync(&device)?;
    let read = per_second(|| Ok(rustix::io::pread(device.as_fd(), &mut *buffer, place()).map(drop)?))?;
    let mut anywhere = || random.next_u64() % (region / SMALL as u64) * SMALL as u64;
    let small = &mut buffer[..SMALL];
    let random_reads = per_second(|| Ok(rustix::io::pread(device.as_fd(), &mut *small, anywhere()).map(drop)?))?;
    let flushed_writes = per_second(|| {
        write(small, anywhere())?;
        Ok(rustix::fs::fdatasync(&device)?)
    })?;
    Ok(DeviceRates { read: read * LARGE as f64, write: written * LARGE as f64, random_reads, flushed_writes })
}

/// How often a second that can be done.
fn per_second(mut act: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let started = Instant::now();
    let mut done = 0;
    loop {
        act()?;
        done += 1;
        let lasted = started.elapsed();
        if lasted >= LONG && done >= FEWEST || lasted >= LONGEST {
            return Ok(f64::from(done) / lasted.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_probed_as_a_device_is() {
        // Where this crate lies, direct I/O is possible.
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        let rates = probe(file.path()).unwrap();
        for rate in [rates.read, rates.write, rates.random_reads, rates.flushed_writes] {
            assert!(rate.is_finite() && rate > 0.0, "{rates:?}");
        }
        let first = &std::fs::read(file.path()).unwrap()[..4096];
        assert!(first.iter().map(|byte| byte.count_ones()).sum::<u32>() > 15_000, "it was written to");
        file.as_file().set_len(1 << 20).unwrap();
        assert!(probe(file.path()).is_err(), "no room");
        assert!(probe(Path::new("/nonexistent")).is_err());
    }
}

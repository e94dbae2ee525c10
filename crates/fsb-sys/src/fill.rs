//! Writes a whole medium once, so that no later write is a first write.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Bytes of one write.
const CHUNK: usize = 8 << 20;
/// Alignment of addresses that is sufficient for O_DIRECT on any device.
const ALIGNMENT: usize = 4096;

/// Writes `size` incompressible bytes to `file` from its start, in large writes, and makes them durable. The bytes are
/// a function of the seed. Calls `progress` with the number of bytes written.
pub fn fill(file: BorrowedFd<'_>, size: u64, seed: u64, mut progress: impl FnMut(u64)) -> io::Result<()> {
    let mut memory = vec![0u8; CHUNK + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut memory[start..start + CHUNK];
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut done = 0;
    progress(0);
    while done < size {
        random.fill_bytes(buffer);
        let length = (size - done).min(CHUNK as u64) as usize;
        write_all_at(file, &buffer[..length], done)?;
        done += length as u64;
        progress(done);
    }
    Ok(rustix::fs::fsync(file)?)
}

fn write_all_at(file: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(file.as_fd(), bytes, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn every_byte_is_written_and_depends_on_the_seed() {
        let size = CHUNK as u64 + 12_288;
        let content = |seed| {
            let mut file = tempfile::tempfile().unwrap();
            let mut heard = Vec::new();
            fill(file.as_fd(), size, seed, |done| heard.push(done)).unwrap();
            assert_eq!(heard, [0, CHUNK as u64, size]);
            let mut bytes = Vec::new();
            io::Seek::rewind(&mut file).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let first = content(1);
        assert_eq!(first.len() as u64, size);
        assert_eq!(first, content(1));
        assert_ne!(first, content(2));
        // No block repeats, so that nothing can be deduplicated, and every bit is set about half the time.
        let blocks: std::collections::HashSet<_> = first.chunks(4096).collect();
        assert_eq!(blocks.len(), first.len().div_ceil(4096));
        let ones: u64 = first.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let share = ones as f64 / (8 * size) as f64;
        assert!((0.499..0.501).contains(&share), "{share}");
    }
}

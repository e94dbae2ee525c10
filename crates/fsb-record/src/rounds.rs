//! Calls on small files that are made alone and recorded, to measure the cost of recording. Some stop among others, and
//! some never do.

use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Rounds that are timed, some seven calls each.
const ROUNDS: usize = 300;
/// The file with the times, in the directory that the calls are about.
pub(crate) const TIMES: &str = "times";
/// Bytes of memory that a round reads between its calls.
const LOOKED_AT: usize = 128 << 10;

/// Reads that do not stop. There are enough of them that the tracer empties the ring meanwhile, which is a large part
/// of their cost.
const READS: usize = 10_000;
/// Batches of reads. The median batch counts.
const BATCHES: usize = 9;

/// The measured times, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) rounds_ns: u64,
    /// One read; 0 if reads stop and were not timed.
    pub(crate) read_ns: u64,
}

/// Runs as the child. `watched` lets the parent begin to trace.
pub(crate) fn be_measured(
    directory: &Path,
    reads_stop: bool,
    watched: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    rounds(directory)?;
    let alone = (rounds(directory)?, reads(directory)?);
    watched()?;
    let traced = (rounds(directory)?, if reads_stop { 0 } else { reads(directory)? });
    fs::write(directory.join(TIMES), format!("{} {} {} {}", alone.0, alone.1, traced.0, traced.1))
}

/// Reads the times that the child stored there: alone, and recorded.
pub(crate) fn took(directory: &Path) -> Option<[Took; 2]> {
    let text = fs::read_to_string(directory.join(TIMES)).ok()?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|time| time.parse().ok()).collect();
    let [alone, alone_read, traced, traced_read] = numbers[..] else { return None };
    let took = |rounds_ns, read_ns| Took { rounds_ns, read_ns };
    Some([took(alone, alone_read), took(traced, traced_read)])
}

/// Returns the nanoseconds of a read.
fn reads(directory: &Path) -> io::Result<u64> {
    let file = File::open(directory.join("file"))?;
    let (mut buffer, mut batches) = ([0; 512], [0; BATCHES]);
    for batch in &mut batches {
        let begun = Instant::now();
        for _ in 0..READS {
            file.read_exact_at(&mut buffer, 512)?;
        }
        *batch = begun.elapsed().as_nanos() as u64 / READS as u64;
    }
    batches.sort_unstable();
    Ok(batches[BATCHES / 2])
}

/// Returns the nanoseconds of all rounds.
fn rounds(directory: &Path) -> io::Result<u64> {
    let path = directory.join("file");
    let (mut buffer, data) = ([0; 512], vec![1u8; LOOKED_AT]);
    let begun = Instant::now();
    for round in 0..ROUNDS {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        file.write_all_at(&buffer, 0)?;
        file.write_all_at(&buffer, 4096)?;
        file.read_exact_at(&mut buffer, 512)?;
        file.metadata()?;
        drop(file);
        fs::metadata(&path)?;
        black_box(data.iter().step_by(64).fold(round, |sum, byte| sum.wrapping_add(usize::from(*byte))));
    }
    Ok(begun.elapsed().as_nanos() as u64)
}

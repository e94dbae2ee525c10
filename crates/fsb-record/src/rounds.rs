//! Calls on small files that are made alone and recorded, to see what recording costs.

use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Rounds that are timed, some seven calls each.
const ROUNDS: usize = 300;
/// Where the two times are left, in the directory that the calls are about.
pub(crate) const TIMES: &str = "times";
/// Bytes that a round looks at between its calls.
const LOOKED_AT: usize = 128 << 10;

/// The child's part: `watched` lets the parent begin to trace.
pub(crate) fn be_measured(directory: &Path, watched: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    rounds(directory)?;
    let alone = rounds(directory)?;
    watched()?;
    let traced = rounds(directory)?;
    fs::write(directory.join(TIMES), format!("{alone} {traced}"))
}

/// Nanoseconds.
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

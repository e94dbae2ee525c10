//! The numbers of statfs and stat: bytes, files, sizes of blocks.

use fsb_model::units::show_bytes;
use rustix::fs::{StatFs, stat, statfs};
use rustix::io::Errno;

use super::property::Answer;
use super::surroundings::Surroundings;

/// Returns bytes, and words for them. A file system that counts no blocks reports none.
fn blocks(count: fn(&StatFs) -> u64) -> Result<Answer, Errno> {
    let found = statfs(".")?;
    if found.f_blocks == 0 {
        return Ok(Answer::number(0, "not counted")
            .so("whether the files of a workload fit is not known before the run"));
    }
    let bytes = count(&found).saturating_mul(found.f_frsize as u64);
    Ok(Answer::number(bytes, show_bytes(bytes as f64)))
}

pub(super) fn size(_: &Surroundings) -> Result<Answer, Errno> {
    blocks(|found| found.f_blocks)
}

pub(super) fn available(_: &Surroundings) -> Result<Answer, Errno> {
    blocks(|found| found.f_bavail)
}

pub(super) fn files(_: &Surroundings) -> Result<Answer, Errno> {
    let found = statfs(".")?;
    Ok(match found.f_files {
        0 => Answer::number(0, "not counted"),
        files => Answer::number(files, files.to_string()),
    })
}

pub(super) fn free_files(_: &Surroundings) -> Result<Answer, Errno> {
    let found = statfs(".")?;
    // The probe has made a directory, so that a file system that counts its files has room.
    Ok(match (found.f_files, found.f_ffree) {
        (0, _) => Answer::number(0, "not counted"),
        (_, 0) => Answer::number(0, "0, but files can be made")
            .so("the number is wrong: how many files fit is not known before the run"),
        (_, free) => Answer::number(free, free.to_string()),
    })
}

pub(super) fn block_size(_: &Surroundings) -> Result<Answer, Errno> {
    let bytes = statfs(".")?.f_bsize as u64;
    Ok(Answer::number(bytes, format!("{bytes} bytes")))
}

pub(super) fn preferred_size(_: &Surroundings) -> Result<Answer, Errno> {
    let bytes = stat(".")?.st_blksize as u64;
    Ok(Answer::number(bytes, format!("{bytes} bytes")))
}

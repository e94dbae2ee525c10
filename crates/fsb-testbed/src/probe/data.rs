//! Calls on the data of a file: allocation, holes, mappings, copies.

use fsb_sys::file_mapping::write_mapped;
use rustix::fs::{FallocateFlags, OFlags, copy_file_range, fallocate, fstat};
use rustix::io::Errno;

use super::property::Answer;
use super::surroundings::Surroundings;
use super::trial_file::{LENGTH, TrialFile, incompressible, read, write};

/// Bytes of the copied file.
const COPIED: usize = 1 << 20;
/// The byte that the probe writes through a mapping.
const MARK: u8 = 0x5a;
/// Part of the file that becomes a hole or zeros.
const PART: u64 = 64 << 10;

pub(super) fn allocate(_: &Surroundings) -> Result<Answer, Errno> {
    let (_trial, file) = TrialFile::create(OFlags::empty())?;
    fallocate(&file, FallocateFlags::empty(), 0, LENGTH as u64)?;
    Ok(match fstat(&file)?.st_size as usize {
        LENGTH => Answer::works(),
        size => Answer::no(format!("returns, but the file has {size} bytes")),
    })
}

pub(super) fn punch(_: &Surroundings) -> Result<Answer, Errno> {
    cleared(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)
}

pub(super) fn zero(_: &Surroundings) -> Result<Answer, Errno> {
    cleared(FallocateFlags::ZERO_RANGE)
}

/// Clears the start of a file and reads it.
fn cleared(flags: FallocateFlags) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    let file = trial.open(OFlags::empty())?;
    fallocate(&file, flags, 0, PART)?;
    let mut bytes = vec![1; PART as usize];
    read(&file, &mut bytes, 0)?;
    Ok(if bytes.iter().all(|byte| *byte == 0) {
        Answer::works()
    } else {
        Answer::no("returns, but the data are still there")
    })
}

pub(super) fn map(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    let file = trial.open(OFlags::empty())?;
    write_mapped(&file, LENGTH, MARK)?;
    drop(file);
    let mut bytes = vec![0; LENGTH];
    read(&trial.open_to_read()?, &mut bytes, 0)?;
    Ok(if bytes.iter().all(|byte| *byte == MARK) {
        Answer::works()
    } else {
        Answer::no("msync returns, but the file has other data")
    })
}

pub(super) fn copy(_: &Surroundings) -> Result<Answer, Errno> {
    let (_from, from) = TrialFile::create(OFlags::empty())?;
    let (_to, to) = TrialFile::create(OFlags::empty())?;
    let bytes = incompressible(COPIED);
    write(&from, &bytes, 0)?;
    let (mut read_at, mut written_at) = (0, 0);
    while (written_at as usize) < COPIED {
        let left = COPIED - written_at as usize;
        if copy_file_range(&from, Some(&mut read_at), &to, Some(&mut written_at), left)? == 0 {
            return Ok(Answer::no(format!("stops after {written_at} bytes")));
        }
    }
    let mut copied = vec![0; COPIED];
    read(&to, &mut copied, 0)?;
    Ok(if copied == bytes {
        Answer::works()
    } else {
        Answer::no("returns, but the copy has other data")
    })
}

//! Flags of preadv2 and pwritev2: whether calls are accepted, and whether they do what they say.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};

use fsb_sys::call_flags::{ATOMIC, AtomicUnits, DONTCACHE};
use fsb_sys::file_mapping::FileMapping;
use rustix::fs::{Advice, OFlags, fadvise, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::property::Answer;
use super::surroundings::Surroundings;
use super::trial_file::{AlignedBytes, LENGTH, TrialFile};

/// Bytes of one call. Pages of one call may be released together, a moment after a sync returns.
const CALL: usize = 64 << 10;
/// Bytes of the smallest record of the atomic backend's usual cases.
const BLOCK: u32 = 4096;

/// Reads a file that is not in memory.
pub(super) fn read_uncached(_: &Surroundings) -> Result<Answer, Errno> {
    let file = written_out()?.open_to_read()?;
    let mut bytes = vec![0; CALL];
    for offset in (0..LENGTH).step_by(CALL) {
        preadv2(
            &file,
            &mut [IoSliceMut::new(&mut bytes)],
            offset as u64,
            DONTCACHE,
        )?;
    }
    check_dropped(&file)
}

/// Writes a new file, and syncs it.
pub(super) fn write_uncached(_: &Surroundings) -> Result<Answer, Errno> {
    let (_trial, file) = TrialFile::create(OFlags::empty())?;
    write_all(&file, DONTCACHE)?;
    check_dropped(&file)
}

/// Overwrites a file that is not in memory, and syncs it.
pub(super) fn overwrite_uncached(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = written_out()?;
    let file = trial.open(OFlags::empty())?;
    write_all(&file, DONTCACHE)?;
    check_dropped(&file)
}

/// Reads a file that is not in memory.
pub(super) fn read_without_waiting(_: &Surroundings) -> Result<Answer, Errno> {
    let file = written_out()?.open_to_read()?;
    let mut bytes = vec![0; CALL];
    let read = preadv2(
        &file,
        &mut [IoSliceMut::new(&mut bytes)],
        0,
        ReadWriteFlags::NOWAIT,
    );
    works_without_waiting(read)
}

/// Overwrites a file that is in memory.
pub(super) fn write_without_waiting(_: &Surroundings) -> Result<Answer, Errno> {
    let file = TrialFile::with_bytes(LENGTH)?.open(OFlags::empty())?;
    let bytes = vec![1; CALL];
    works_without_waiting(pwritev2(
        &file,
        &[IoSlice::new(&bytes)],
        0,
        ReadWriteFlags::NOWAIT,
    ))
}

/// Returns the answer to a call with RWF_NOWAIT. EAGAIN means that the flag is supported, and that
/// the call would have waited.
fn works_without_waiting(moved: Result<usize, Errno>) -> Result<Answer, Errno> {
    match moved {
        Ok(_) | Err(Errno::AGAIN) => Ok(Answer::works()),
        Err(errno) => Err(errno),
    }
}

/// Reports the largest atomic write that statx promises.
pub(super) fn largest_atomic_write(_: &Surroundings) -> Result<Answer, Errno> {
    let (_trial, file) = TrialFile::create(OFlags::DIRECT)?;
    let AtomicUnits { max, .. } = AtomicUnits::from_file(&file)?;
    let text = match max {
        0 => "none".to_owned(),
        bytes => format!("{bytes} bytes"),
    };
    Ok(Answer::number(max.into(), text))
}

/// Makes an atomic write of the smallest size from 4 KiB that statx promises, or of 4 KiB.
pub(super) fn write_atomic(_: &Surroundings) -> Result<Answer, Errno> {
    let (_trial, file) = TrialFile::create(OFlags::DIRECT)?;
    let AtomicUnits { min, .. } = AtomicUnits::from_file(&file)?;
    let bytes = AlignedBytes::new(min.max(BLOCK) as usize);
    pwritev2(&file, &[IoSlice::new(bytes.as_slice())], 0, ATOMIC)?;
    Ok(Answer::works())
}

/// Makes a file whose data is on the device and not in the page cache, as far as the file system
/// lets it go.
fn written_out() -> Result<TrialFile, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    let file = trial.open_to_read()?;
    fdatasync(&file)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(trial)
}

/// Writes a file from its start in several calls, and syncs it.
fn write_all(file: &File, flags: ReadWriteFlags) -> Result<(), Errno> {
    let bytes = vec![1; CALL];
    for offset in (0..LENGTH).step_by(CALL) {
        pwritev2(file, &[IoSlice::new(&bytes)], offset as u64, flags)?;
    }
    fdatasync(file)
}

/// Answers whether the page cache let go of a file. The kernel may still be releasing the pages of
/// the last call.
fn check_dropped(file: &File) -> Result<Answer, Errno> {
    let pages = FileMapping::new(file, LENGTH)?.resident_pages()?;
    let all = LENGTH.div_ceil(rustix::param::page_size());
    Ok(match pages > all / 2 {
        false => Answer::works(),
        true => Answer::no(format!(
            "no: accepted, but {pages} of {all} pages stay in the page cache"
        )),
    })
}

//! O_DIRECT: which calls are accepted, and whether they bypass the page cache.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fsb_sys::file_mapping::FileMapping;
use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, statx};
use rustix::io::Errno;

use super::property::Answer;
use super::surroundings::Surroundings;
use super::trial_file::{AlignedBytes, LENGTH, TrialFile, read};
use crate::fuse::Probed;

const BLOCK: usize = 4096;
/// The sizes of records that are tried after one of 4 KiB was refused.
const OTHER_SIZES: [usize; 4] = [512, 1024, 2048, 65_536];

pub(super) fn open(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    trial.open(OFlags::DIRECT).map(|_| Answer::works())
}

pub(super) fn write_new(_: &Surroundings) -> Result<Answer, Errno> {
    let (_trial, file) = TrialFile::create(OFlags::DIRECT)?;
    write_block(&file)
}

pub(super) fn write_existing(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    write_block(&trial.open(OFlags::DIRECT)?)
}

/// Writes a block. If it is refused, names the sizes that are not.
fn write_block(file: &File) -> Result<Answer, Errno> {
    match write_direct(file, BLOCK, 0) {
        Err(Errno::INVAL) => {}
        Err(errno) => return Err(errno),
        Ok(()) => return Ok(Answer::works()),
    }
    let accepted: Vec<String> = OTHER_SIZES
        .into_iter()
        .filter(|size| write_direct(file, *size, 0).is_ok())
        .map(|size| size.to_string())
        .collect();
    let answer = Answer::refused(Errno::INVAL);
    Ok(if accepted.is_empty() {
        answer
    } else {
        answer.so(format!(
            "direct I/O works only in records of {} bytes",
            accepted.join(", ")
        ))
    })
}

pub(super) fn write_unaligned(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    write_direct(&trial.open(OFlags::DIRECT)?, 100, 3)?;
    Ok(Answer::works().so("the file system copies direct I/O through memory"))
}

fn write_direct(file: &File, length: usize, offset: u64) -> Result<(), Errno> {
    let written = file.write_at(AlignedBytes::new(length).as_slice(), offset);
    match written {
        Ok(count) if count == length => Ok(()),
        Ok(_) => Err(Errno::IO),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

/// Overwrites a page that is mapped. A direct write evicts even mapped pages; a write through the
/// page cache leaves them there.
pub(super) fn bypasses(surroundings: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    let plain = trial.open_to_read()?;
    rustix::fs::fsync(&plain)?;
    let direct = trial.open(OFlags::DIRECT)?;
    if has_no_direct_io(&direct) {
        return Ok(Answer::no("the file system says so (statx)"));
    }
    let mapping = match FileMapping::new(&plain, BLOCK) {
        Ok(mapping) => mapping,
        Err(errno) => return Ok(unknown("mmap", errno)),
    };
    mapping.touch();
    if let Err(errno) = write_direct(&direct, BLOCK, 0) {
        return Ok(unknown("a write of 4 KiB", errno));
    }
    if mapping.resident_pages()? > 0 {
        return Ok(Answer::no("the page cache holds the data"));
    }
    Ok(match surroundings.findings().map(|found| &found.direct) {
        None | Some(Probed::Holds) => Answer::yes("yes"),
        Some(Probed::Fails(reason)) => Answer::no("for the client only").so(reason.clone()),
        Some(Probed::Unknown(reason)) => {
            Answer::unknown("for the client").so(format!("the server is not visible: {reason}"))
        }
    })
}

fn unknown(call: &str, errno: Errno) -> Answer {
    let text = fsb_model::errno::describe(errno.raw_os_error());
    Answer::unknown(format!("unknown: {call}: {text}"))
}

/// Reads a file that is not in memory with O_DIRECT, and looks for its pages.
pub(super) fn reads_bypass(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    let plain = trial.open_to_read()?;
    rustix::fs::fsync(&plain)?;
    rustix::fs::fadvise(&plain, 0, None, Advice::DontNeed)?;
    let mut bytes = AlignedBytes::new(LENGTH);
    read(&trial.open(OFlags::DIRECT)?, bytes.as_mut_slice(), 0)?;
    Ok(match FileMapping::new(&plain, LENGTH)?.resident_pages()? {
        0 => Answer::yes("yes"),
        pages => Answer::no(format!("no: {pages} pages are in the page cache")),
    })
}

/// Returns the alignment of offsets that statx reports.
pub(super) fn reported_alignment(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    Ok(match alignment(&trial.open_to_read()?)? {
        None => Answer::unknown("unknown: not reported"),
        Some(0) => Answer::number(0, "0: no direct I/O"),
        Some(bytes) => Answer::number(bytes.into(), format!("{bytes} bytes")),
    })
}

/// Returns whether statx reports that direct I/O is not possible.
fn has_no_direct_io(file: &File) -> bool {
    alignment(file) == Ok(Some(0))
}

/// Returns the alignment in bytes of offsets of direct I/O, according to statx: 0 without
/// direct I/O, `None` if the file system does not report it.
fn alignment(file: &File) -> Result<Option<u32>, Errno> {
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    let is_reported = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    Ok(is_reported.then_some(found.stx_dio_offset_align))
}

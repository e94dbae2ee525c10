//! What the page cache keeps of a file, and what empties it.

use fsb_sys::file_mapping::FileMapping;
use fsb_sys::{Roots, magic};
use rustix::fs::{Advice, OFlags, fadvise, fsync};
use rustix::io::Errno;

use super::property::{Answer, Surroundings};
use super::trial_file::{LENGTH, TrialFile, read};
use crate::control::{ColdMethod, cold_method};

/// Reads a file, opens it again, and looks for its pages.
pub(super) fn warm(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    read(&trial.open_to_read()?, &mut vec![0; LENGTH], 0)?;
    let file = trial.open(OFlags::empty())?;
    Ok(match FileMapping::new(&file, LENGTH)?.resident_pages()? {
        0 => Answer::no("no: its pages are dropped when it is opened"),
        _ => Answer::yes("yes"),
    })
}

/// Evicts a file, and looks for its pages.
pub(super) fn evicted(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    let file = trial.open(OFlags::empty())?;
    fsync(&file)?;
    read(&file, &mut vec![0; LENGTH], 0)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(match FileMapping::new(&file, LENGTH)?.resident_pages()? {
        0 => Answer::works(),
        left => Answer::no(format!("{left} pages are still there")),
    })
}

/// Names the method that makes files cold here.
pub(super) fn cold(surroundings: &Surroundings) -> Result<Answer, Errno> {
    if magic::is_memory(".".as_ref()) {
        return Ok(Answer::no("no: the file system is in memory"));
    }
    let method = cold_method("remount", false, &Roots::default());
    Ok(match (method, surroundings.is_fuse()) {
        (ColdMethod::Evict, true) => Answer::no(
            "no: the page cache beneath the server holds the data, and only root can empty it",
        ),
        (ColdMethod::Evict, false) => Answer::yes("data only: files are evicted")
            .so("metadata stay in memory; run as root to empty all caches"),
        (_, true) => Answer::yes("yes, if the server keeps the data on this machine"),
        (_, false) => Answer::yes("yes: root empties the caches of this machine"),
    })
}

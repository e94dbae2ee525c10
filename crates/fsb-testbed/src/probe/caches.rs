//! The page cache: whether it keeps a file that is opened again, and the call that empties it.

use fsb_model::storage::StorageFlaw;
use fsb_sys::Roots;
use fsb_sys::file_mapping::FileMapping;
use rustix::fs::{Advice, fadvise, fsync};
use rustix::io::Errno;

use super::property::Answer;
use super::surroundings::Surroundings;
use super::trial_file::{LENGTH, TrialFile, read};
use crate::control::{ColdMethod, cold_method};

/// Reads a file, opens it again, and looks for its pages.
pub(super) fn warm(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    read(&trial.open_to_read()?, &mut vec![0; LENGTH], 0)?;
    let file = trial.open_to_read()?;
    Ok(match FileMapping::new(&file, LENGTH)?.resident_pages()? {
        0 => Answer::no("no: its pages are dropped when it is opened"),
        _ => Answer::yes("yes"),
    })
}

/// Evicts a file, and looks for its pages.
pub(super) fn evicted(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    let file = trial.open_to_read()?;
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
    let storage = &surroundings.storage;
    if let Some(flaw @ StorageFlaw::Memory { .. }) = storage.loss() {
        return Ok(Answer::no(format!("no: {flaw}")));
    }
    let method = cold_method("remount", false, &Roots::default());
    Ok(match (method, surroundings.is_fuse(), storage.unknown()) {
        (ColdMethod::Evict, true, _) => Answer::no(
            "no: the page cache beneath the server holds the data, and only root can empty it",
        ),
        (ColdMethod::Evict, false, _) => Answer::yes("data only: files are evicted")
            .so("metadata stay in memory; run as root to empty all caches"),
        (_, _, Some(reason)) => {
            Answer::unknown("for this machine only").so(format!("not known to be cold: {reason}"))
        }
        (_, _, None) => Answer::yes("yes: root empties the caches of this machine"),
    })
}

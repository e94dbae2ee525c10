//! Syncs. Only errors are visible through the file system itself.

use rustix::fs::{Mode, OFlags, fsync, open, syncfs};
use rustix::io::Errno;

use super::property::Answer;
use super::surroundings::Surroundings;
use super::trial_file::{LENGTH, TrialFile, incompressible, write};
use crate::fuse::{Findings, Probed};

pub(super) fn file(surroundings: &Surroundings) -> Result<Answer, Errno> {
    let (_trial, file) = TrialFile::create(OFlags::empty())?;
    write(&file, &incompressible(LENGTH), 0)?;
    fsync(&file)?;
    Ok(returned(surroundings, |findings| &findings.synced_files))
}

pub(super) fn directory(surroundings: &Surroundings) -> Result<Answer, Errno> {
    let _trial = TrialFile::with_bytes(LENGTH)?;
    fsync(&this_directory()?)?;
    Ok(returned(surroundings, |findings| &findings.synced_names))
}

/// Answers after a sync has returned: whether the data are on the device.
fn returned(surroundings: &Surroundings, of: fn(&Findings) -> &Probed) -> Answer {
    if let Some(flaw) = surroundings.storage.loss() {
        return Answer::no(format!("no: {flaw}"));
    }
    match surroundings.findings().map(of) {
        None => Answer::works(),
        Some(Probed::Holds) => Answer::yes("works: the server syncs, too"),
        Some(Probed::Fails(reason)) => Answer::no(format!("no: {reason}")),
        Some(Probed::Unknown(reason)) => {
            Answer::unknown("returns").so(format!("not known to be durable: {reason}"))
        }
    }
}

pub(super) fn file_system(surroundings: &Surroundings) -> Result<Answer, Errno> {
    let _trial = TrialFile::with_bytes(LENGTH)?;
    syncfs(&this_directory()?)?;
    if let Some(flaw) = surroundings.storage.loss() {
        return Ok(Answer::no(format!("no: {flaw}")));
    }
    Ok(if surroundings.is_fuse_of_device() {
        Answer::unknown("returns").so("not known to be durable")
    } else if surroundings.is_fuse() {
        // fs/fuse/inode.c, `fuse_sync_fs`: `sync_fs` is not set for these.
        Answer::no("returns, but Linux sends FUSE servers no request for it")
    } else {
        Answer::works()
    })
}

fn this_directory() -> Result<std::os::fd::OwnedFd, Errno> {
    open(
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

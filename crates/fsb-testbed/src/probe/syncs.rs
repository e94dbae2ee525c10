//! Syncs. Only errors are visible through the file system itself.

use rustix::fs::{Mode, OFlags, fsync, open, syncfs};
use rustix::io::Errno;

use super::property::{Answer, Surroundings};
use super::trial_file::{LENGTH, TrialFile, incompressible, write};

/// The consequence of a sync that is not visible.
const NOT_VISIBLE: &str =
    "whether the server writes the data to a device is not visible through the mount";

pub(super) fn file(surroundings: &Surroundings) -> Result<Answer, Errno> {
    let (_trial, file) = TrialFile::create(OFlags::empty())?;
    write(&file, &incompressible(LENGTH), 0)?;
    fsync(&file)?;
    Ok(returned(surroundings))
}

pub(super) fn directory(surroundings: &Surroundings) -> Result<Answer, Errno> {
    let _trial = TrialFile::with_bytes(LENGTH)?;
    fsync(&this_directory()?)?;
    Ok(returned(surroundings))
}

fn returned(surroundings: &Surroundings) -> Answer {
    if surroundings.is_fuse() {
        Answer::unknown("returns").so(NOT_VISIBLE)
    } else {
        Answer::works()
    }
}

pub(super) fn file_system(surroundings: &Surroundings) -> Result<Answer, Errno> {
    let _trial = TrialFile::with_bytes(LENGTH)?;
    syncfs(&this_directory()?)?;
    let driver = surroundings.driver.as_str();
    Ok(if driver == "fuse" || driver.starts_with("fuse.") {
        // fs/fuse/inode.c, `fuse_sync_fs`: `sync_fs` is not set for these.
        Answer::no("returns, but Linux sends FUSE servers no request for it")
    } else {
        returned(surroundings)
    })
}

fn this_directory() -> Result<std::os::fd::OwnedFd, Errno> {
    open(
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

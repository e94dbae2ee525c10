//! Read-only and back: the one way in which every file system ends all it keeps for later.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick};

use super::poll_until;
use crate::error::{TestbedError, attempt};

/// Makes the superblock mounted at `point` read-only and writable again, with `keep` among its options both times.
///
/// Nothing that is mounted, open for reading or cached changes. Unlike a frozen file system, one that was left
/// read-only by a killed process hangs nobody, and this mount is seen by nobody else. A file system that cannot become
/// read-only stays as it was. One that something still writes to is an error, for its work goes on into the next
/// measurement; so is one that will not come back.
pub(crate) fn read_only_and_back(point: &Path, keep: &[&str]) -> Result<(), TestbedError> {
    /// The kernel closes the files of a process that ended a moment later.
    const CLOSING: Duration = Duration::from_secs(2);
    let mut refused = None;
    poll_until(CLOSING, || {
        refused = reconfigure(point, keep, "ro").err();
        refused != Some(Errno::BUSY)
    });
    match refused {
        None => {}
        Some(Errno::BUSY) => {
            return Err(TestbedError::trial(
                "the target's background work cannot be ended: a file is open for writing",
            )
            .tried(attempt("remount read-only", point, &Errno::BUSY.into())));
        }
        Some(_) => return Ok(()),
    }
    reconfigure(point, keep, "rw").map_err(|errno| {
        TestbedError::trial("the target became read-only to end its background work, and stayed so").tried(attempt(
            "remount",
            point,
            &errno.into(),
        ))
    })
}

fn reconfigure(point: &Path, keep: &[&str], state: &str) -> Result<(), Errno> {
    let context = fspick(CWD, point, FsPickFlags::FSPICK_CLOEXEC)?;
    for option in keep.iter().chain([&state]) {
        fsconfig_set_flag(context.as_fd(), *option)?;
    }
    fsconfig_reconfigure(context.as_fd())
}

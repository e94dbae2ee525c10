//! What tar does to one entry of an archive.

use std::ffi::CStr;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::index::{Item, Kind};
use crate::EngineError;
use crate::backend::Directory;

/// Why a call was refused, and its verb.
pub(super) type Refusal = (&'static str, Errno);

/// Does to an entry what tar does: makes it, writes its bytes by `piece`, and gives it its permissions and its time.
pub(super) fn unpack(root: &Directory, item: &Item, archive: &[u8], piece: usize) -> Result<(), Refusal> {
    match &item.kind {
        // A directory's time changes with what is put into it: that comes at the end.
        Kind::Directory => {
            let made = rustix::fs::mkdirat(root.fd(), &item.name, Mode::from_raw_mode(0o700));
            made.map_err(|errno| ("make directory", errno))
        }
        Kind::Symbolic(target) => rustix::fs::symlinkat(target, root.fd(), &item.name).map_err(|errno| ("link", errno)),
        Kind::Hard(target) => {
            let linked = rustix::fs::linkat(root.fd(), target, root.fd(), &item.name, AtFlags::empty());
            linked.map_err(|errno| ("link", errno))
        }
        Kind::File { offset, size } => {
            // An archive that changed since it was looked at.
            let bytes = archive.get(*offset as usize..).and_then(|rest| rest.get(..*size as usize));
            let bytes = bytes.ok_or(("find in the archive", Errno::NODATA))?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(root.fd(), &item.name, flags, Mode::from_raw_mode(0o600));
            let file = file.map_err(|errno| ("create", errno))?;
            for piece in bytes.chunks(piece) {
                let mut written = 0;
                while written < piece.len() {
                    match rustix::io::write(&file, &piece[written..]) {
                        Ok(0) => return Err(("write to", Errno::NOSPC)),
                        Ok(wrote) => written += wrote,
                        Err(Errno::INTR) => {}
                        Err(errno) => return Err(("write to", errno)),
                    }
                }
            }
            rustix::fs::futimens(&file, &times(item)).map_err(|errno| ("set the time of", errno))?;
            let mode = Mode::from_raw_mode(item.mode as rustix::fs::RawMode);
            rustix::fs::fchmod(&file, mode).map_err(|errno| ("set the permissions of", errno))?;
            // A file system may tell only now that it could not write.
            // SAFETY: the descriptor is ours, and nobody uses it after this.
            unsafe { rustix::io::try_close(file.into_raw_fd()) }.map_err(|errno| ("close", errno))
        }
    }
}

/// Permissions and time of a directory that is full.
pub(super) fn finish(root: &Directory, item: &Item) -> Result<(), Refusal> {
    let set = rustix::fs::utimensat(root.fd(), &item.name, &times(item), AtFlags::empty());
    set.map_err(|errno| ("set the time of", errno))?;
    let mode = Mode::from_raw_mode(item.mode as rustix::fs::RawMode);
    rustix::fs::chmodat(root.fd(), &item.name, mode, AtFlags::empty())
        .map_err(|errno| ("set the permissions of", errno))
}

/// Now, as tar has it, and the time that the archive tells.
fn times(item: &Item) -> Timestamps {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let last_modification = Timespec { tv_sec: item.mtime.min(i32::MAX as u64) as i64, tv_nsec: 0 };
    Timestamps { last_access: now, last_modification }
}

pub(super) fn refused(set: &Path, name: &CStr, (call, errno): Refusal) -> EngineError {
    EngineError::call(call, set.join(std::ffi::OsStr::from_bytes(name.to_bytes())), errno)
}

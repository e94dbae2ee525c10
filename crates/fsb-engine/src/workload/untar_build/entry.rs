//! What tar does to one entry of an archive.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::index::{EntryKind, Item};
use crate::EngineError;
use crate::backend::{Directory, Namespace, OpenFlags, Session};

const NEW_FILE: OpenFlags = OpenFlags::WRITE.creating(0o600).with(OFlags::NOFOLLOW);

/// Why a call was refused, and its verb.
pub(super) type Refusal = (&'static str, Errno);

/// Does to an entry what tar does: makes it, writes its bytes by `piece`, and gives it its permissions and its time.
pub(super) fn unpack(
    (namespace, session): (&dyn Namespace, &mut (dyn Session + 'static)),
    root: &Directory,
    item: &Item,
    archive: Option<&[u8]>,
    piece: usize,
) -> Result<(), Refusal> {
    match &item.kind {
        // A directory's time changes with what is put into it: that comes at the end.
        EntryKind::Directory => {
            let made = namespace.make_directory(root, &item.name, Mode::from_raw_mode(0o700));
            made.map_err(|errno| ("make directory", errno))
        }
        EntryKind::Symbolic(target) => {
            namespace.symbolic_link(root, target, &item.name).map_err(|errno| ("link", errno))
        }
        EntryKind::Hard(target) => namespace.link(root, target, &item.name).map_err(|errno| ("link", errno)),
        EntryKind::File { offset, size } => {
            let file = session.open(root, &item.name, NEW_FILE, *size).map_err(|errno| ("create", errno))?;
            let bytes = match archive {
                None => &[],
                // An archive may have changed since it was looked at.
                Some(archive) => {
                    let bytes = archive.get(*offset as usize..).and_then(|rest| rest.get(..*size as usize));
                    bytes.ok_or(("find in the archive", Errno::NODATA))?
                }
            };
            for piece in bytes.chunks(piece) {
                let mut written = 0;
                while written < piece.len() {
                    match session.write(file, &piece[written..]).map_err(|errno| ("write to", errno))? {
                        0 => return Err(("write to", Errno::NOSPC)),
                        wrote => written += wrote,
                    }
                }
            }
            session.set_times(file, &times(item)).map_err(|errno| ("set the time of", errno))?;
            let mode = Mode::from_raw_mode(item.mode as rustix::fs::RawMode);
            session.set_mode(file, mode).map_err(|errno| ("set the permissions of", errno))?;
            // A file system may tell only now that it could not write.
            session.close(file).map_err(|errno| ("close", errno))
        }
    }
}

/// Permissions and time of a directory that is full.
pub(super) fn finish(namespace: &dyn Namespace, root: &Directory, item: &Item) -> Result<(), Refusal> {
    let set = namespace.set_times(root, &item.name, &times(item));
    set.map_err(|errno| ("set the time of", errno))?;
    let mode = Mode::from_raw_mode(item.mode as rustix::fs::RawMode);
    namespace.set_mode(root, &item.name, mode).map_err(|errno| ("set the permissions of", errno))
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

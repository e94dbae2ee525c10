//! Files under test: checks their paths, and opens, locks, syncs and removes the files.

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::phase::{Operation, Phase};
use crate::EngineError;
use crate::backend::{RangeLock, files as calls};

/// The state of a path: absent, or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Nothing,
    /// A file of this number of bytes.
    File(u64),
}

/// Checks that a file may be created or overwritten at a path, and returns the state of the path.
///
/// # Errors
/// The path is a directory, a device, a pipe or a socket, or a symbolic link to one of these. The path is a symbolic
/// link to a file or to nothing: the test would overwrite the file and remove the link. The directory of the file does
/// not exist. The message names the path.
pub fn examine(path: &Path) -> Result<Existing, EngineError> {
    let shown = path.display();
    let refused = |message: String| EngineError::new(message);
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => match std::fs::read_link(path) {
            Err(_) => Ok(Existing::File(metadata.len())),
            Ok(_) => {
                let target = path.canonicalize().map_err(|error| refused(format!("{shown}: {error}")))?;
                let target = target.display();
                Err(refused(format!(
                    "{shown} is a symbolic link to {target}: the tests would overwrite that file and remove the link. \
                     If that file is meant, name {target}"
                )))
            }
        },
        Ok(metadata) => Err(refused(format!("{shown} is {}: name a file", kind(metadata.file_type())))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if path.symlink_metadata().is_ok() {
                return Err(refused(format!("{shown} is a dangling symbolic link: name a file")));
            }
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match std::fs::metadata(parent) {
                Ok(metadata) if metadata.is_dir() => Ok(Existing::Nothing),
                Ok(_) => Err(refused(format!("{} is not a directory: name a file in a directory", parent.display()))),
                Err(error) => Err(refused(format!(
                    "the directory {} cannot be used: {error}; name a file in a directory that exists",
                    parent.display()
                ))),
            }
        }
        Err(error) => Err(refused(format!("{shown}: {error}"))),
    }
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_block_device() => "a block device",
        kind if kind.is_char_device() => "a character device",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "no file",
    }
}

/// Removes a file. Returns whether it existed.
///
/// # Errors
/// The kernel's reason.
pub fn remove(path: &Path) -> Result<bool, EngineError> {
    match rustix::fs::unlink(path) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(EngineError::call("remove", path, errno)),
    }
}

/// The mode of files, as in IOzone.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP);

/// Opens a file. Checks that it is a regular file, because another program may have replaced it since [`examine`].
pub(super) fn open(path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, EngineError> {
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, mode)
        .map_err(|errno| EngineError::call("open", path, errno))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| EngineError::call("examine", path, errno))?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(EngineError::new(format!("{} is not a regular file any more", path.display())));
    }
    Ok(file)
}

/// Recreates a file as IOzone does before its first write: opens it without any permission, empties and removes it,
/// and creates it anew. A file system that cannot do that fails here, before it is measured.
pub(super) fn make_anew(path: &Path) -> Result<(), EngineError> {
    let file = open(path, OFlags::WRONLY | OFlags::CREATE, Mode::empty())?;
    rustix::fs::ftruncate(&file, 0).map_err(|errno| EngineError::call("truncate", path, errno))?;
    close(path, file)?;
    remove(path)?;
    empty(path)
}

/// creat(2).
pub(super) fn empty(path: &Path) -> Result<(), EngineError> {
    close(path, open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, MODE)?)
}

/// Opens a file for a phase, with IOzone's flags. `together` is whether the phase is one of several that run at once:
/// those create the file when they open it.
pub(super) fn open_for(phase: &Phase, together: bool) -> Result<OwnedFd, EngineError> {
    let sync = |flag: bool, flags: OFlags| if flag { flags } else { OFlags::empty() };
    let written = OFlags::RDWR | sync(phase.sync, OFlags::SYNC) | sync(phase.data_sync, OFlags::DSYNC);
    let flags = match phase.operation {
        Operation::Write | Operation::Pwrite if together => written | OFlags::CREATE,
        Operation::RandomRead if together => OFlags::RDONLY,
        Operation::RandomRead | Operation::RandomWrite | Operation::RecordRewrite => written | OFlags::CREATE,
        operation if operation.writes() => written,
        _ => OFlags::RDONLY,
    };
    open(&phase.path, flags | sync(phase.direct, OFlags::DIRECT), MODE)
}

/// Locks or unlocks the whole file (`fcntl`).
pub(super) fn lock(phase: &Phase, file: &OwnedFd, locked: bool) -> Result<(), EngineError> {
    if !phase.lock {
        return Ok(());
    }
    let operation = match (locked, phase.operation.writes()) {
        (false, _) => RangeLock::Release,
        (true, true) => RangeLock::Exclusive,
        (true, false) => RangeLock::Shared,
    };
    calls::lock(file, operation, 0, 0).map_err(|errno| EngineError::call("lock", &phase.path, errno))
}

/// Closes a file and returns the error that close reports.
pub(super) fn close(path: &Path, file: OwnedFd) -> Result<(), EngineError> {
    calls::close(file).map_err(|errno| EngineError::call("close", path, errno))
}

/// Syncs a file to the device after repetitions that left the sync to the last one.
///
/// # Errors
/// The kernel's reason.
pub fn bring_to_rest(path: &Path) -> Result<(), EngineError> {
    let file = open(path, OFlags::RDONLY, Mode::empty())?;
    flush(path, &file)?;
    close(path, file)
}

/// fsync.
pub(super) fn flush(path: &Path, file: &OwnedFd) -> Result<(), EngineError> {
    rustix::fs::fsync(file).map_err(|errno| EngineError::call("fsync", path, errno))
}

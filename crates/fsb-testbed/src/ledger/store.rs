//! The ledger's directory and its files, opened such that files of other users are never trusted.
//!
//! A user who can plant an entry decides what a later `fsb`, perhaps root's, writes and removes. The directory is
//! therefore opened once and checked, and everything in it is opened through that descriptor. A file counts only if it
//! is a regular file of this user that no other user could have written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat};

/// An entry is some hundred bytes long.
const LARGEST: u64 = 64 << 10;

/// A directory that belongs to this user alone.
#[derive(Debug)]
pub(super) struct Store {
    directory: OwnedFd,
    path: PathBuf,
}

/// A lock on a store. Dropping it releases the lock.
pub(super) struct Locked(#[expect(dead_code, reason = "the lock ends when it is closed")] OwnedFd);

/// Returns the reason why a file is not `uid`'s alone. Returns `None` if it is.
pub(crate) fn distrust(stat: &Stat, uid: u32) -> Option<String> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    if stat.st_uid != uid {
        return Some(format!("it belongs to user {}", stat.st_uid));
    }
    mode.intersects(Mode::WGRP | Mode::WOTH).then(|| "other users may write to it".to_owned())
}

impl Store {
    /// Opens the directory, which is created if missing.
    pub fn make(path: &Path) -> io::Result<Store> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Store::open(path)
    }

    /// Opens the directory. Fails if it does not belong to this user alone.
    pub fn open(path: &Path) -> io::Result<Store> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&directory)?;
        if let Some(why) = distrust(&stat, rustix::process::geteuid().as_raw()) {
            return Err(io::Error::other(why));
        }
        if Mode::from_raw_mode(stat.st_mode) != Mode::RWXU {
            // A user who can open the directory can lock it and block every replay. If its mode cannot be changed, it
            // is used nevertheless.
            let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
        }
        Ok(Store { directory, path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the store exclusively, and waits until other processes have released it.
    pub fn lock(&self) -> io::Result<Locked> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        rustix::fs::flock(&own, FlockOperation::LockExclusive)?;
        Ok(Locked(own))
    }

    /// Returns the names that end in `.extension`, the newest file first.
    pub fn names(&self, extension: &str) -> Vec<OsString> {
        let Ok(entries) = Dir::read_from(&self.directory) else { return Vec::new() };
        let mut found: Vec<_> = entries
            .filter_map(|entry| {
                let name = OsString::from_vec(entry.ok()?.file_name().to_bytes().to_vec());
                let stat = rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                let wanted = Path::new(&name).extension() == Some(OsStr::new(extension));
                wanted.then_some(((stat.st_mtime, stat.st_mtime_nsec), name))
            })
            .collect();
        found.sort_by(|a, b| b.cmp(a));
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// Reads a file that belongs to this user alone. Any error other than `NotFound` is the reason why it cannot be
    /// trusted or read.
    pub fn read(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        // Without these flags, opening a FIFO would block, and a terminal would become the controlling one.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let wrong = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_nlink != 1 => Some("it has another hard link".to_owned()),
            FileType::RegularFile if stat.st_size as u64 > LARGEST => Some("it is too long for an entry".to_owned()),
            FileType::RegularFile => distrust(&stat, rustix::process::geteuid().as_raw()),
            _ => Some("it is not a regular file".to_owned()),
        };
        if let Some(why) = wrong {
            return Err(io::Error::other(why));
        }
        let mut text = Vec::new();
        File::from(file).take(LARGEST).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Returns whether the directory has an entry of that name.
    pub fn holds(&self, name: &str) -> bool {
        rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Writes `NAME.json` durably. The file gets its name only when it is complete, so that no partial entry is
    /// visible.
    pub fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let temporary = format!("{name}.new");
        let written = self.write_new(&temporary, text).and_then(|()| {
            rustix::fs::renameat(&self.directory, &temporary, &self.directory, format!("{name}.json"))?;
            Ok(rustix::fs::fsync(&self.directory)?)
        });
        written.inspect_err(|_| {
            // The first error is the one that explains.
            let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        })
    }

    fn write_new(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(text)?;
        file.sync_all()
    }

    /// Removes a file durably.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        rustix::fs::unlinkat(&self.directory, name.as_bytes(), AtFlags::empty())?;
        Ok(rustix::fs::fsync(&self.directory)?)
    }
}

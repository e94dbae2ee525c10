//! A directory that is held open. Files are created in this directory even if its path leads elsewhere meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::path::absolute;
use crate::{ResultOwner, StoreError, trust};

/// Number of random names to try before creating a temporary file fails.
const ATTEMPTS: usize = 16;

/// Size of the write buffer in bytes.
const BUFFER: usize = 64 << 10;

/// A directory that is held open.
#[derive(Debug)]
pub(crate) struct HeldDirectory {
    fd: OwnedFd,
    path: PathBuf,
    result_owner: ResultOwner,
}

/// Says whether [`HeldDirectory::open`] creates missing directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    /// The directory exists.
    Existing,
    /// Missing directories are created.
    Making,
}

impl HeldDirectory {
    /// Opens a directory. If root works for a user who may not write there, opens it with root's own privileges, and
    /// only if no other user can change the path.
    pub fn open(path: &Path, result_owner: ResultOwner, how: Open) -> Result<HeldDirectory, StoreError> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match HeldDirectory::open_as(path, result_owner, how) {
            Err(StoreError::Io { source, .. })
                if result_owner.is_invoking_user() && source.kind() == io::ErrorKind::PermissionDenied =>
            {
                HeldDirectory::open_as(path, ResultOwner::this_user(), how)
            }
            opened => opened,
        }
    }

    /// Opens a directory as [`HeldDirectory::open`] does, but only with the owner's privileges.
    pub fn open_as(path: &Path, result_owner: ResultOwner, how: Open) -> Result<HeldDirectory, StoreError> {
        let place = |fd| HeldDirectory { fd, path: path.to_owned(), result_owner };
        if result_owner.is_root() {
            return trust::open(&absolute(path)?, how == Open::Making).map(place);
        }
        let fail = |what| move |error| StoreError::io(what, path, error);
        if how == Open::Making {
            result_owner.attempt(|| fs::create_dir_all(path)).map_err(fail("make the directory"))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = result_owner.attempt(|| {
            let fd = rustix::fs::open(path, flags, Mode::empty())?;
            // Checks the user's permission now. Otherwise the first write, perhaps an hour later, would fail.
            if result_owner.is_invoking_user() {
                writable(&fd)?;
            }
            Ok(fd)
        });
        opened.map_err(fail("write into")).map(place)
    }

    /// Returns the path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the user with whose privileges files are created.
    pub fn result_owner(&self) -> ResultOwner {
        self.result_owner
    }

    /// Returns the path of a file in the directory, for messages.
    pub fn join(&self, name: &OsStr) -> PathBuf {
        if self.path == Path::new(".") { PathBuf::from(name) } else { self.path.join(name) }
    }

    /// Returns the status of an entry without following links, or `None` if the entry does not exist.
    pub fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the status of the directory itself.
    pub fn own_stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.fd)?)
    }

    /// Opens a file without following a link.
    pub fn open_file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.result_owner.attempt(|| Ok(File::from(openat(&self.fd, name, flags, Mode::from_raw_mode(mode))?)))
    }

    /// Removes an entry.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        self.result_owner.attempt(|| Ok(unlinkat(&self.fd, name, AtFlags::empty())?))
    }

    /// Returns the target of a symbolic link.
    pub fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = self.result_owner.attempt(|| Ok(rustix::fs::readlinkat(&self.fd, name, Vec::new())?))?;
        Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// Replaces the directory entry `name` with a new file in one step. `write` produces the content. Symbolic links
    /// and files with other names are not followed and not changed. Returns the new file, open for appending.
    ///
    /// # Errors
    ///
    /// If `write` fails, the entry keeps its old file.
    pub fn replace(&self, name: &OsStr, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<File> {
        let (temporary, file) = self.temporary(name)?;
        let temporary = Temporary { place: self, name: Some(temporary) };
        let mut buffer = BufWriter::with_capacity(BUFFER, file);
        write(&mut buffer)?;
        let file = buffer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        self.result_owner.attempt(|| {
            renameat(&self.fd, temporary.name.as_deref().unwrap_or_default(), &self.fd, name)?;
            // Some file systems cannot sync a directory. The file is in place all the same.
            match rustix::fs::fsync(&self.fd) {
                Err(errno) if errno != Errno::INVAL => Err(errno.into()),
                _ => Ok(()),
            }
        })?;
        temporary.keep();
        Ok(file)
    }

    /// Creates a file with a random name that other users cannot guess.
    fn temporary(&self, name: &OsStr) -> io::Result<(OsString, File)> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::APPEND;
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let temporary = hidden(name)?;
            match self.open_file(&temporary, flags, 0o666) {
                Ok(file) => return Ok((temporary, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Returns whether the directory was removed.
    pub fn is_gone(&self) -> bool {
        fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

/// The name of a temporary file. Dropping it removes the file.
struct Temporary<'a> {
    place: &'a HeldDirectory,
    /// `None` after [`Temporary::keep`].
    name: Option<OsString>,
}

impl Temporary<'_> {
    /// Leaves the file where it is: it has its final name.
    fn keep(mut self) {
        self.name = None;
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The caller reports the first error. That of the removal adds nothing to it.
            let _ = self.place.remove(name);
        }
    }
}

/// Checks that this thread may create files in the directory.
fn writable(directory: &OwnedFd) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    match openat(directory, ".", flags, Mode::RUSR | Mode::WUSR) {
        Err(errno @ (Errno::ACCESS | Errno::PERM)) => Err(errno.into()),
        // The file system has no unnamed files, or it is full. Creating the first file reports the error.
        _ => Ok(()),
    }
}

/// Returns `.NAME.RANDOM`, short enough for every file system.
fn hidden(name: &OsStr) -> io::Result<OsString> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let mut hidden = OsString::from(".");
    hidden.push(OsStr::from_bytes(&name.as_bytes()[..name.len().min(200)]));
    hidden.push(format!(".{:016x}", u64::from_ne_bytes(random)));
    Ok(hidden)
}

//! Directories that results are written to. A directory is held open, so that files are created in
//! it even if its path leads elsewhere meanwhile. [`ResultOwner`] is the user whose privileges the
//! store uses.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::StoreError;

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
    /// Opens a directory. If root works for a user who may not write there, opens it with root's
    /// own privileges, and only if no other user can change the path.
    pub fn open(
        path: &Path,
        result_owner: ResultOwner,
        how: Open,
    ) -> Result<HeldDirectory, StoreError> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        match HeldDirectory::open_as(path, result_owner, how) {
            Err(StoreError::Io { source, .. })
                if result_owner.is_invoking_user()
                    && source.kind() == io::ErrorKind::PermissionDenied =>
            {
                HeldDirectory::open_as(path, ResultOwner::this_user(), how)
            }
            opened => opened,
        }
    }

    /// Opens a directory as [`HeldDirectory::open`] does, but only with the owner's privileges.
    pub fn open_as(
        path: &Path,
        result_owner: ResultOwner,
        how: Open,
    ) -> Result<HeldDirectory, StoreError> {
        let place = |fd| HeldDirectory {
            fd,
            path: path.to_owned(),
            result_owner,
        };
        if result_owner.is_root() {
            return open_trusted(&absolute(path)?, how == Open::Making).map(place);
        }
        let fail = |what| move |error| StoreError::io(what, path, error);
        if how == Open::Making {
            result_owner
                .attempt(|| fs::create_dir_all(path))
                .map_err(fail("make the directory"))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = result_owner.attempt(|| {
            let fd = rustix::fs::open(path, flags, Mode::empty())?;
            // Checks the user's permission now. Otherwise the first write, perhaps an hour later,
            // would fail.
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
        if self.path == Path::new(".") {
            PathBuf::from(name)
        } else {
            self.path.join(name)
        }
    }

    /// Returns the status of an entry without following links, or `None` if the entry does not
    /// exist.
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
        self.result_owner.attempt(|| {
            Ok(File::from(openat(
                &self.fd,
                name,
                flags,
                Mode::from_raw_mode(mode),
            )?))
        })
    }

    /// Removes an entry.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        self.result_owner
            .attempt(|| Ok(unlinkat(&self.fd, name, AtFlags::empty())?))
    }

    /// Returns the target of a symbolic link.
    pub fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = self
            .result_owner
            .attempt(|| Ok(rustix::fs::readlinkat(&self.fd, name, Vec::new())?))?;
        Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// Replaces the directory entry `name` with a new file in one step. `write` produces the
    /// content. Symbolic links and files with other names are not followed and not changed. Returns
    /// the new file, open for appending.
    ///
    /// # Errors
    ///
    /// If `write` fails, the entry keeps its old file.
    pub fn replace(
        &self,
        name: &OsStr,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<File> {
        let (temporary, file) = self.temporary(name)?;
        let temporary = Temporary {
            place: self,
            name: Some(temporary),
        };
        let mut buffer = BufWriter::with_capacity(BUFFER, file);
        write(&mut buffer)?;
        let file = buffer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        self.result_owner.attempt(|| {
            renameat(
                &self.fd,
                temporary.name.as_deref().unwrap_or_default(),
                &self.fd,
                name,
            )?;
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
        // The file system has no unnamed files, or it is full. Creating the first file reports the
        // error.
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

/// Runs a closure with another user's file privileges, and restores the privileges of this process.
pub type Act = fn(&mut dyn FnMut()) -> io::Result<()>;

/// The owner of the results. The store opens directories, and creates and renames files, with this
/// user's privileges.
#[derive(Debug, Clone, Copy)]
pub struct ResultOwner {
    uid: u32,
    act: Option<Act>,
}

impl ResultOwner {
    /// Returns the user that this process runs as. If this is root, the store writes only in
    /// directories that no other user can change.
    pub fn this_user() -> ResultOwner {
        ResultOwner {
            uid: geteuid().as_raw(),
            act: None,
        }
    }

    /// Returns the user on whose behalf root works. `act` runs a closure with that user's
    /// privileges.
    pub fn invoking_user(uid: u32, act: Act) -> ResultOwner {
        ResultOwner {
            uid,
            act: Some(act),
        }
    }

    /// Returns the owner of the files that the store creates.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns whether the store acts with another user's privileges than those of this process.
    pub(crate) fn is_invoking_user(&self) -> bool {
        self.act.is_some()
    }

    /// Returns whether root must own every component of the path to a directory.
    pub(crate) fn is_root(&self) -> bool {
        self.act.is_none() && self.uid == 0
    }

    /// Runs `work` with the owner's privileges.
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let Some(act) = self.act else {
            return Ok(work());
        };
        let (mut work, mut answer) = (Some(work), None);
        act(&mut || answer = work.take().map(|work| work()))?;
        answer
            .ok_or_else(|| io::Error::other("nothing ran with the privileges of the invoking user"))
    }

    /// Runs fallible work as [`ResultOwner::act`] does.
    pub(crate) fn attempt<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.act(work).flatten()
    }
}

// Decides which directories root may write to. Root, or the user of this process, must own every
// component of the path, and no other user may be able to exchange one.
//
// In a directory that others may write to, they can place links, or exchange a subdirectory between
// two calls. A sticky directory, such as `/tmp`, is accepted if root owns the entries that are used
// in it.

/// Maximum number of symbolic links in a path, as in the kernel.
const LINKS: usize = 40;
/// Mode bits with which the group or all users may write.
const OTHERS: u32 = 0o022;
/// Mode bit with which users may remove only their own entries.
const STICKY: u32 = 0o1000;
/// The owner that the kernel shows for users unknown to a user namespace.
const UNMAPPED: u32 = 65_534;

/// Opens the directory at the end of an absolute path after checking every component. `make`
/// creates missing directories.
fn open_trusted(path: &Path, make: bool) -> Result<OwnedFd, StoreError> {
    let fail = |what: &'static str, at: &Path, errno: Errno| StoreError::io(what, at, errno.into());
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = || rustix::fs::open("/", flags | OFlags::DIRECTORY, Mode::empty());
    let mut here = root().map_err(|errno| fail("open", Path::new("/"), errno))?;
    let mut at = PathBuf::from("/");
    let mut left: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    check_component(&here, path, &at)?;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            here = openat(&here, "..", flags, Mode::empty())
                .map_err(|errno| fail("open", &at.join(".."), errno))?;
            at.pop();
            check_component(&here, path, &at)?;
            continue;
        }
        let next = match openat(&here, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                // The group gets no write permission, whatever the umask is: the results belong to
                // root.
                match mkdirat(&here, &name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(fail("make the directory", &at.join(&name), errno)),
                }
                openat(&here, &name, flags, Mode::empty())
            }
            found => found,
        };
        let next = next.map_err(|errno| fail("open", &at.join(&name), errno))?;
        let stat = fstat(&next).map_err(|errno| fail("examine", &at.join(&name), errno))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let link = at.join(&name);
                owned(&stat, path, &link)?;
                links += 1;
                let target = readlinkat(&next, "", Vec::new())
                    .map_err(|errno| fail("read the link", &link, errno))?;
                if links > LINKS {
                    return Err(fail("open", &link, Errno::LOOP));
                }
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    here = root().map_err(|errno| fail("open", Path::new("/"), errno))?;
                    at = PathBuf::from("/");
                }
                parts(&target).rev().for_each(|part| left.push_front(part));
            }
            FileType::Directory => {
                at.push(&name);
                here = next;
                check_component(&here, path, &at)?;
            }
            _ => return Err(fail("open", &at.join(&name), Errno::NOTDIR)),
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&here, ".", flags, Mode::empty()).map_err(|errno| fail("open", &at, errno))
}

/// Checks that every existing component of the path is trusted.
pub fn check_trusted(path: &Path) -> Result<(), StoreError> {
    match open_trusted(&absolute(path)?, false) {
        Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(())
        }
        opened => opened.map(drop),
    }
}

/// Checks that root may use guessable names in the directory. Every component of the path must be
/// trusted. In addition, no other user may create files in it, or the kernel must protect root from
/// other users' links.
pub fn check_private(path: &Path) -> Result<(), StoreError> {
    let path = absolute(path)?;
    let directory = open_trusted(&path, false)?;
    let stat = fstat(&directory).map_err(|errno| StoreError::io("examine", &path, errno.into()))?;
    if stat.st_mode & OTHERS == 0 || links_are_protected() {
        return Ok(());
    }
    Err(StoreError::Untrusted {
        path: path.clone(),
        component: path.clone(),
        why:
            "is writable by other users while fs.protected_symlinks or fs.protected_hardlinks is 0"
                .to_owned(),
        advice: format!(
            "make a directory in it: mkdir -m 700 {}/NAME",
            path.display()
        ),
    })
}

/// Returns whether the kernel follows no links of other users in sticky directories and lets users
/// hard-link only files of their own.
fn links_are_protected() -> bool {
    ["symlinks", "hardlinks"].iter().all(|what| {
        std::fs::read_to_string(format!("/proc/sys/fs/protected_{what}"))
            .is_ok_and(|text| text.trim() == "1")
    })
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    })
}

fn check_component(directory: &OwnedFd, path: &Path, at: &Path) -> Result<(), StoreError> {
    let stat = fstat(directory).map_err(|errno| StoreError::io("examine", at, errno.into()))?;
    owned(&stat, path, at)?;
    if stat.st_mode & OTHERS != 0 && stat.st_mode & STICKY == 0 {
        let who = if stat.st_mode & 0o002 != 0 {
            "is writable by all users"
        } else {
            "is writable by its group"
        };
        return Err(StoreError::Untrusted {
            path: path.to_owned(),
            component: at.to_owned(),
            why: who.to_owned(),
            advice: format!("chmod go-w {}", at.display()),
        });
    }
    Ok(())
}

fn owned(stat: &Stat, path: &Path, at: &Path) -> Result<(), StoreError> {
    if is_own(stat.st_uid) {
        return Ok(());
    }
    let owner = user(stat.st_uid);
    Err(StoreError::Untrusted {
        path: path.to_owned(),
        component: at.to_owned(),
        why: format!("belongs to {owner}"),
        advice: format!("use sudo as {owner}, and the results are that user's"),
    })
}

/// Returns whether the user is root or the user of this process, as far as a user namespace shows
/// it.
pub(crate) fn is_own(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw() || (uid == UNMAPPED && !is_mapped(UNMAPPED))
}

/// Returns whether this user namespace knows the user.
fn is_mapped(uid: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else {
        return true;
    };
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first.saturating_add(count)).contains(&u64::from(uid)))
    })
}

/// Describes a user as `ann (user 1000)`, or as `user 1000` if `/etc/passwd` has no name.
pub(crate) fn user(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.map_or_else(
        || format!("user {uid}"),
        |name| format!("{name} (user {uid})"),
    )
}

/// Returns the absolute path, without resolving links.
///
/// # Errors
///
/// Fails if the path is relative and the working directory was removed.
pub fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::NoWorkingDirectory(path.to_owned()),
        _ => StoreError::io("find", path, error),
    })
}

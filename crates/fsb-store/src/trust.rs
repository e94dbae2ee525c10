//! Decides which directories root may write to. Root, or the user of this process, must own every component of the
//! path, and no other user may be able to exchange one.
//!
//! In a directory that others may write to, they can place links, or exchange a subdirectory between two calls. A
//! sticky directory, such as `/tmp`, is accepted if root owns the entries that are used in it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::StoreError;
use crate::path::absolute;

/// Maximum number of symbolic links in a path, as in the kernel.
const LINKS: usize = 40;
/// Mode bits with which the group or all users may write.
const OTHERS: u32 = 0o022;
/// Mode bit with which users may remove only their own entries.
const STICKY: u32 = 0o1000;
/// The owner that the kernel shows for users unknown to a user namespace.
const UNMAPPED: u32 = 65_534;

/// Opens the directory at the end of an absolute path after checking every component. `make` creates missing
/// directories.
pub(crate) fn open(path: &Path, make: bool) -> Result<OwnedFd, StoreError> {
    let fail = |what: &'static str, at: &Path, errno: Errno| StoreError::io(what, at, errno.into());
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = || rustix::fs::open("/", flags | OFlags::DIRECTORY, Mode::empty());
    let mut here = root().map_err(|errno| fail("open", Path::new("/"), errno))?;
    let mut at = PathBuf::from("/");
    let mut left: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    check(&here, path, &at)?;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            here = openat(&here, "..", flags, Mode::empty()).map_err(|errno| fail("open", &at.join(".."), errno))?;
            at.pop();
            check(&here, path, &at)?;
            continue;
        }
        let next = match openat(&here, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                // The group gets no write permission, whatever the umask is: the results belong to root.
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
                let target = readlinkat(&next, "", Vec::new()).map_err(|errno| fail("read the link", &link, errno))?;
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
                check(&here, path, &at)?;
            }
            _ => return Err(fail("open", &at.join(&name), Errno::NOTDIR)),
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&here, ".", flags, Mode::empty()).map_err(|errno| fail("open", &at, errno))
}

/// Checks that every existing component of the path is trusted.
pub fn check_trusted(path: &Path) -> Result<(), StoreError> {
    match open(&absolute(path)?, false) {
        Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        opened => opened.map(drop),
    }
}

/// Checks that root may use guessable names in the directory. Every component of the path must be trusted. In addition,
/// no other user may create files in it, or the kernel must protect root from other users' links.
pub fn check_private(path: &Path) -> Result<(), StoreError> {
    let path = absolute(path)?;
    let directory = open(&path, false)?;
    let stat = fstat(&directory).map_err(|errno| StoreError::io("examine", &path, errno.into()))?;
    if stat.st_mode & OTHERS == 0 || links_are_protected() {
        return Ok(());
    }
    Err(StoreError::Untrusted {
        path: path.clone(),
        component: path.clone(),
        why: "is writable by other users while fs.protected_symlinks or fs.protected_hardlinks is 0".to_owned(),
        advice: format!("make a directory in it: mkdir -m 700 {}/NAME", path.display()),
    })
}

/// Returns whether the kernel follows no links of other users in sticky directories and lets users hard-link only files
/// of their own.
fn links_are_protected() -> bool {
    ["symlinks", "hardlinks"].iter().all(|what| {
        std::fs::read_to_string(format!("/proc/sys/fs/protected_{what}")).is_ok_and(|text| text.trim() == "1")
    })
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    })
}

fn check(directory: &OwnedFd, path: &Path, at: &Path) -> Result<(), StoreError> {
    let stat = fstat(directory).map_err(|errno| StoreError::io("examine", at, errno.into()))?;
    owned(&stat, path, at)?;
    if stat.st_mode & OTHERS != 0 && stat.st_mode & STICKY == 0 {
        let who = if stat.st_mode & 0o002 != 0 { "is writable by all users" } else { "is writable by its group" };
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

/// Returns whether the user is root or the user of this process, as far as a user namespace shows it.
pub(crate) fn is_own(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw() || (uid == UNMAPPED && !is_mapped(UNMAPPED))
}

/// Returns whether this user namespace knows the user.
fn is_mapped(uid: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else { return true };
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
    name.map_or_else(|| format!("user {uid}"), |name| format!("{name} (user {uid})"))
}

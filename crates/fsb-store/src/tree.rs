//! Removal of trees that programs of the user made: of any depth, and with any permissions.

use std::ffi::{CStr, CString};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

/// A directory that receives new entries during its removal is listed at most this often.
const LISTINGS: u32 = 16;
const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A directory between the root of the tree and the one that is being emptied.
struct Level {
    /// The name in the directory above.
    name: CString,
    /// The device and inode: the way back up leads to no other directory.
    identity: (u64, u64),
    /// Directories in it that still exist.
    below: Vec<CString>,
    listings: u32,
}

/// Removes the directory `root` and everything below it.
///
/// The depth is limited neither by the length of a path nor by the number of open files: at most
/// four descriptors are open, and every name is relative to its directory. Symbolic links are
/// removed and never followed. Directories of the calling user that lack permissions get them
/// first.
///
/// # Errors
///
/// The first error of the kernel, or [`ErrorKind::Other`] if the tree changes meanwhile. Files that
/// were removed until then stay removed.
pub fn remove_tree(root: &Path) -> io::Result<()> {
    let name = root.file_name().ok_or(ErrorKind::InvalidInput)?;
    let above = root
        .parent()
        .filter(|above| !above.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let above = rustix::fs::open(above, OPEN, Mode::empty())?;
    let (mut here, root) = enter(above.as_fd(), CString::new(name.as_encoded_bytes())?)?;
    let mut levels = vec![root];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else {
            return Ok(());
        };
        if let Some(name) = level.below.pop() {
            let (below, level) = enter(here.as_fd(), name)?;
            here = below;
            levels.push(level);
            continue;
        }
        let parent = if depth == 1 {
            None
        } else {
            Some(leave(&here, levels[depth - 2].identity)?)
        };
        let at = parent.as_ref().map_or(above.as_fd(), AsFd::as_fd);
        let level = &mut levels[depth - 1];
        match with_permission(at, || {
            rustix::fs::unlinkat(at, &level.name, AtFlags::REMOVEDIR)
        }) {
            Ok(()) => {
                levels.pop();
                here = match parent {
                    Some(parent) => parent,
                    None => return Ok(()),
                };
            }
            Err(Errno::NOTEMPTY | Errno::EXIST) if level.listings < LISTINGS => {
                level.below = empty(&here)?;
                level.listings += 1;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Opens the directory `name` in `at` and removes its files.
fn enter(at: BorrowedFd<'_>, name: CString) -> io::Result<(OwnedFd, Level)> {
    let open = || rustix::fs::openat(at, &name, OPEN, Mode::empty());
    let opened = match with_permission(at, open) {
        Err(Errno::ACCESS) => {
            let found = rustix::fs::openat(at, &name, OPEN | OFlags::PATH, Mode::empty())?;
            // A descriptor without rights cannot be changed itself; its name below /proc leads to
            // the same directory.
            rustix::fs::chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::RWXU)?;
            open()
        }
        opened => opened,
    }?;
    let below = empty(&opened)?;
    let identity = identity(&opened)?;
    Ok((
        opened,
        Level {
            name,
            identity,
            below,
            listings: 1,
        },
    ))
}

/// Opens the directory above, which must be the one that was left.
fn leave(here: &OwnedFd, expected: (u64, u64)) -> io::Result<OwnedFd> {
    let above = with_permission(here.as_fd(), || {
        rustix::fs::openat(here, c"..", OPEN, Mode::empty())
    })?;
    match identity(&above)? == expected {
        true => Ok(above),
        false => Err(io::Error::other(
            "a directory was moved while it was removed",
        )),
    }
}

/// Removes all files of a directory. Returns the names of the directories in it.
fn empty(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let directory_again = rustix::fs::openat(directory, c".", OPEN, Mode::empty());
    let listed = match &directory_again {
        Ok(fresh) => fresh,
        Err(_) => directory,
    };
    let mut below = Vec::new();
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let mut entries = RawDir::new(listed, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if is_directory(directory, name, entry.file_type())? {
            below.push(name.to_owned());
            continue;
        }
        let at = directory.as_fd();
        match with_permission(at, || rustix::fs::unlinkat(at, name, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(below)
}

/// Returns whether an entry is a directory. Some file systems do not report the type in the
/// directory itself.
fn is_directory(directory: &OwnedFd, name: &CStr, reported: FileType) -> io::Result<bool> {
    if reported != FileType::Unknown {
        return Ok(reported == FileType::Directory);
    }
    let at = directory.as_fd();
    let found = with_permission(at, || {
        rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
    })?;
    Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// Calls `call`; if the kernel denies it, gives the owner of the directory `at` all permissions and
/// calls it again.
fn with_permission<T>(at: BorrowedFd<'_>, call: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match call() {
        Err(Errno::ACCESS) if rustix::fs::fchmod(at, Mode::RWXU).is_ok() => call(),
        answer => answer,
    }
}

fn identity(directory: &OwnedFd) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(directory)?;
    Ok((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut at = rustix::fs::open(&tree, OPEN, Mode::empty()).unwrap();
        for _ in 0..5000 {
            rustix::fs::mkdirat(&at, c"directory", Mode::RWXU).unwrap();
            rustix::fs::symlinkat(c"/", &at, c"link").unwrap();
            at = rustix::fs::openat(&at, c"directory", OPEN, Mode::empty()).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && Path::new("/usr").exists());
    }

    #[test]
    fn directories_without_permissions_are_removed_by_their_owner() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        for (number, mode) in [0o000, 0o400, 0o200, 0o100, 0o644].into_iter().enumerate() {
            let directory = tree.join(format!("{number}/below"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("file"), []).unwrap();
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            fs::set_permissions(
                tree.join(number.to_string()),
                fs::Permissions::from_mode(mode),
            )
            .unwrap();
        }
        fs::set_permissions(&tree, fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn links_and_files_are_refused_as_trees() {
        let root = tempfile::tempdir().unwrap();
        let (link, kept) = (root.path().join("link"), root.path().join("kept"));
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), []).unwrap();
        std::os::unix::fs::symlink(&kept, &link).unwrap();
        assert!(remove_tree(&link).is_err() && remove_tree(&kept.join("file")).is_err());
        assert!(kept.join("file").exists());
    }
}

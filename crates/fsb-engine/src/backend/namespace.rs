//! The calls on names.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, Timestamps};
use rustix::io::Errno;

use super::Directory;

/// Calls on names, relative to an open directory. None of them may allocate, lock or log.
pub trait Namespace: Sync {
    /// Opens a directory by its path.
    fn open_root(&self, path: &Path) -> Result<Directory, Errno>;
    /// Opens a directory below another one.
    fn open_directory(&self, at: &Directory, name: &CStr) -> Result<Directory, Errno>;
    /// Asks for a file's attributes.
    fn stat(&self, at: &Directory, name: &CStr) -> Result<(), Errno>;
    /// Gives a file another name.
    fn rename(&self, at: &Directory, from: &CStr, to: &CStr) -> Result<(), Errno>;
    /// Removes a file.
    fn unlink(&self, at: &Directory, name: &CStr) -> Result<(), Errno>;
    fn make_directory(&self, at: &Directory, name: &CStr, mode: Mode) -> Result<(), Errno> {
        rustix::fs::mkdirat(at.fd(), name, mode)
    }
    /// Removes an empty directory.
    fn remove_directory(&self, at: &Directory, name: &CStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(at.fd(), name, AtFlags::REMOVEDIR)
    }
    /// Gives a file that is there a second name.
    fn link(&self, at: &Directory, there: &CStr, name: &CStr) -> Result<(), Errno> {
        rustix::fs::linkat(at.fd(), there, at.fd(), name, AtFlags::empty())
    }
    /// Makes a symbolic link.
    fn symbolic_link(&self, at: &Directory, target: &CStr, name: &CStr) -> Result<(), Errno> {
        rustix::fs::symlinkat(target, at.fd(), name)
    }
    /// Sets when something was used and changed last.
    fn set_times(&self, at: &Directory, name: &CStr, times: &Timestamps) -> Result<(), Errno> {
        rustix::fs::utimensat(at.fd(), name, times, AtFlags::empty())
    }
    /// Sets the permissions of something.
    fn set_mode(&self, at: &Directory, name: &CStr, mode: Mode) -> Result<(), Errno> {
        rustix::fs::chmodat(at.fd(), name, mode, AtFlags::empty())
    }
    /// Calls `visit` with the name of each entry but `.` and `..` until it breaks off. `expected` is how many there
    /// should be: the kernel knows better, and only a tree that touches nothing goes by it.
    fn list(
        &self,
        directory: &Directory,
        buffer: &mut [MaybeUninit<u8>],
        expected: u64,
        visit: &mut dyn FnMut(&CStr) -> ControlFlow<()>,
    ) -> Result<(), Errno>;
    /// Returns when the directory itself is on the device.
    fn sync_directory(&self, directory: &Directory) -> Result<(), Errno>;
    /// Returns when everything on the file system of the directory is on the device.
    fn sync_file_system(&self, directory: &Directory) -> Result<(), Errno>;
}

/// The kernel's usual calls.
#[derive(Debug)]
pub struct KernelNamespace;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// From linux/magic.h.
const FUSE_SUPER_MAGIC: rustix::fs::FsWord = 0x6573_5546;

impl Directory {
    /// The descriptor; the working directory's where there is none.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().map_or(CWD, |fd| fd.as_fd())
    }
}

impl Namespace for KernelNamespace {
    fn open_root(&self, path: &Path) -> Result<Directory, Errno> {
        rustix::fs::open(path, DIRECTORY, Mode::empty()).map(|fd| Directory(Some(fd)))
    }

    fn open_directory(&self, at: &Directory, name: &CStr) -> Result<Directory, Errno> {
        rustix::fs::openat(at.fd(), name, DIRECTORY, Mode::empty()).map(|fd| Directory(Some(fd)))
    }

    fn stat(&self, at: &Directory, name: &CStr) -> Result<(), Errno> {
        rustix::fs::statat(at.fd(), name, AtFlags::SYMLINK_NOFOLLOW).map(drop)
    }

    fn rename(&self, at: &Directory, from: &CStr, to: &CStr) -> Result<(), Errno> {
        rustix::fs::renameat(at.fd(), from, at.fd(), to)
    }

    fn unlink(&self, at: &Directory, name: &CStr) -> Result<(), Errno> {
        match &at.0 {
            Some(directory) => rustix::fs::unlinkat(directory, name, AtFlags::empty()),
            None => rustix::fs::unlink(name),
        }
    }

    fn list(
        &self,
        directory: &Directory,
        buffer: &mut [MaybeUninit<u8>],
        _expected: u64,
        visit: &mut dyn FnMut(&CStr) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let mut entries = RawDir::new(directory.fd(), buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." && visit(name).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn sync_directory(&self, directory: &Directory) -> Result<(), Errno> {
        rustix::fs::fsync(directory.fd())
    }

    fn sync_file_system(&self, directory: &Directory) -> Result<(), Errno> {
        rustix::fs::syncfs(directory.fd())?;
        // Over FUSE, syncfs writes what the kernel holds to the device, but nobody tells the device to flush its cache
        // (seen with ntfs-3g); the server does when a directory is synced.
        let over_fuse = rustix::fs::fstatfs(directory.fd())?.f_type == FUSE_SUPER_MAGIC;
        if over_fuse { rustix::fs::fsync(directory.fd()) } else { Ok(()) }
    }
}

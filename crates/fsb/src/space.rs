//! The free space of a directory's file system, checked before anything is written.

use std::path::{Path, PathBuf};

use fsb_model::units::show_bytes;

/// The space that a file system must hold at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes, with the metadata of the file system about them.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// The space that a file system has free for this user.
#[derive(Debug, Clone)]
pub struct Room {
    /// A directory on it.
    pub path: PathBuf,
    pub bytes: u64,
    /// Files and directories. Some file systems make inodes as they need them and report none.
    pub files: u64,
    /// Whether `files` is a limit.
    limits_files: bool,
}

impl Room {
    /// Returns the free space of the file system of `path`; `None` if the file system does not report it.
    pub fn of(path: &Path) -> Option<Room> {
        let free = rustix::fs::statvfs(path).ok()?;
        Some(Room {
            path: path.to_owned(),
            bytes: free.f_bavail.saturating_mul(free.f_frsize),
            files: free.f_favail,
            limits_files: free.f_files > 0,
        })
    }

    /// Returns whether `bytes` bytes fit.
    pub fn holds_bytes(&self, bytes: u64) -> bool {
        bytes <= self.bytes
    }

    /// Returns whether `files` files fit.
    pub fn holds_files(&self, files: u64) -> bool {
        !self.limits_files || files <= self.files
    }

    /// Returns whether both bytes and files fit.
    pub fn holds(&self, need: Need) -> bool {
        self.holds_bytes(need.bytes) && self.holds_files(need.files)
    }

    /// Returns text such as `needs 3 GiB and 7 files at once, and /srv has 1 GiB free and room for 5 files`.
    pub fn lacks(&self, need: Need) -> String {
        format!(
            "needs {} and {} files at once, and {} has {} free and room for {} files",
            show_bytes(need.bytes as f64),
            need.files,
            self.path.display(),
            show_bytes(self.bytes as f64),
            self.files
        )
    }
}

//! What the file system of a directory has free, asked before anything is written.

use std::path::{Path, PathBuf};

use fsb_model::units::show_bytes;

/// What must lie on a file system at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes, with what the file system notes about them.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// What a file system has free for this user.
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
    /// That of `path`; nothing where the file system does not say.
    pub fn of(path: &Path) -> Option<Room> {
        let free = rustix::fs::statvfs(path).ok()?;
        Some(Room {
            path: path.to_owned(),
            bytes: free.f_bavail.saturating_mul(free.f_frsize),
            files: free.f_favail,
            limits_files: free.f_files > 0,
        })
    }

    /// Whether so many bytes fit.
    pub fn holds_bytes(&self, bytes: u64) -> bool {
        bytes <= self.bytes
    }

    /// Whether so many files fit.
    pub fn holds_files(&self, files: u64) -> bool {
        !self.limits_files || files <= self.files
    }

    /// Whether all of it fits.
    pub fn holds(&self, need: Need) -> bool {
        self.holds_bytes(need.bytes) && self.holds_files(need.files)
    }

    /// `needs 3 GiB and 7 files at once, and /srv has 1 GiB free and room for 5 files`.
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

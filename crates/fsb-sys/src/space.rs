//! The free space of a file system as statfs reports it, and which of its numbers are limits.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::StatVfs;

use super::magic;

/// The space of a file system that a user other than root may still fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free bytes. `None` if the file system reports no size: ramfs and a tmpfs with `size=0` have
    /// no limit, and libfuse answers zeros for a server without a statfs of its own.
    pub bytes: Option<u64>,
    /// Bytes of the whole file system, under the same condition.
    pub total: Option<u64>,
    /// Files and directories that can still be created. `None` if the file system reports no limit,
    /// or no free ones although it does not count them itself.
    pub inodes: Option<u64>,
    /// Bytes of a block.
    pub block_size: u64,
    /// Whether a server reports inodes and none of them free, which is not taken for a limit.
    pub has_invented_inodes: bool,
}

impl FreeSpace {
    /// Returns the free space of the file system of `path`.
    ///
    /// # Errors
    /// Fails as statfs does.
    pub fn at(path: &Path) -> io::Result<FreeSpace> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(FreeSpace::from_stat(&stat, magic::of_path(path)))
    }

    /// Returns the free space of the file system of an open file.
    ///
    /// # Errors
    /// Fails as fstatfs does.
    pub fn of_file(file: impl AsFd) -> io::Result<FreeSpace> {
        let stat = rustix::fs::fstatvfs(&file)?;
        Ok(FreeSpace::from_stat(&stat, magic::of_file(&file)))
    }

    fn from_stat(stat: &StatVfs, magic: Option<u64>) -> FreeSpace {
        let bytes = |blocks: u64| (stat.f_blocks > 0).then(|| blocks.saturating_mul(stat.f_frsize));
        // Servers report what they like: 'rclone mount' has 10^9 inodes, of which 0 are free.
        let has_invented_inodes =
            stat.f_files > 0 && stat.f_favail == 0 && magic.is_some_and(magic::is_served);
        FreeSpace {
            bytes: bytes(stat.f_bavail),
            total: bytes(stat.f_blocks),
            // File systems that create inodes on demand report 0 of them in all.
            inodes: (stat.f_files > 0 && !has_invented_inodes).then_some(stat.f_favail),
            block_size: stat.f_bsize,
            has_invented_inodes,
        }
    }

    /// Returns a sentence for each number that the file system does not report.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.bytes.is_none() {
            notes.push(
                "its statfs reports no blocks: whether the files fit is not known beforehand"
                    .to_owned(),
            );
        }
        if self.has_invented_inodes {
            notes.push(
                "its server reports no free inodes: whether the files fit is not known beforehand"
                    .to_owned(),
            );
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(blocks: u64, available: u64, (files, free): (u64, u64)) -> StatVfs {
        StatVfs {
            f_bsize: 4096,
            f_frsize: 4096,
            f_blocks: blocks,
            f_bfree: available,
            f_bavail: available,
            f_files: files,
            f_ffree: free,
            f_favail: free,
            f_fsid: 0,
            f_flag: rustix::fs::StatVfsMountFlags::empty(),
            f_namemax: 255,
        }
    }

    #[test]
    fn zeros_that_mean_unknown_are_no_limits() {
        const EXT4: Option<u64> = Some(0xEF53);
        const FUSE: Option<u64> = Some(0x6573_5546);
        let space = |stat: StatVfs, magic| FreeSpace::from_stat(&stat, magic);
        let full = space(stat(100, 0, (10, 0)), EXT4);
        assert_eq!((full.bytes, full.inodes), (Some(0), Some(0)));
        assert!(full.notes().is_empty());
        let ramfs = space(stat(0, 0, (0, 0)), Some(0x8584_58F6));
        assert_eq!((ramfs.bytes, ramfs.inodes), (None, None));
        assert_eq!(ramfs.notes().len(), 1);
        let rclone = space(stat(1 << 40, 1 << 39, (1_000_000_000, 0)), FUSE);
        assert_eq!(rclone.bytes, Some(1 << 51));
        assert_eq!((rclone.inodes, rclone.notes().len()), (None, 1));
        let bindfs = space(stat(100, 7, (10, 3)), FUSE);
        assert_eq!((bindfs.bytes, bindfs.inodes), (Some(7 << 12), Some(3)));
    }
}

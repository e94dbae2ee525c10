//! Kinds of file systems by their magic number from statfs (linux/magic.h).

use std::path::Path;

pub const PROC: u64 = 0x9FA0;
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58F6;
const FUSE: u64 = 0x6573_5546;
/// File systems whose numbers come from a server: a program on this machine or another machine.
const SERVED: [u64; 7] = [
    FUSE,        // also virtiofs
    0x6969,      // NFS
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB2
    0x0102_1997, // 9p
    0x00C3_6400, // Ceph
    0x5346_414F, // AFS
];
/// File systems in which nothing can be measured.
const PSEUDO: [u64; 8] = [
    PROC,
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x0027_E0EB, // cgroup
    0x6367_7270, // cgroup2
    0x1CD1,      // devpts
    0x7363_6673, // securityfs
];

/// Returns the magic number of the file system at `path`.
pub fn of_path(path: &Path) -> Option<u64> {
    Some(rustix::fs::statfs(path).ok()?.f_type as u64)
}

/// Returns the magic number of the file system of an open file.
pub fn of_file(file: impl std::os::fd::AsFd) -> Option<u64> {
    Some(rustix::fs::fstatfs(file).ok()?.f_type as u64)
}

/// Returns whether the file system keeps its files in memory.
pub fn is_memory(path: &Path) -> bool {
    matches!(of_path(path), Some(TMPFS | RAMFS))
}

/// Returns whether a FUSE server, or a host through virtiofs, answers the calls on files at `path`.
pub fn is_fuse(path: &Path) -> bool {
    of_path(path) == Some(FUSE)
}

/// Returns whether a server reports what the file system of this magic number says of itself.
pub fn is_served(magic: u64) -> bool {
    SERVED.contains(&magic)
}

/// Returns whether the file system of an open file keeps its files in memory.
pub fn is_memory_file(file: impl std::os::fd::AsFd) -> bool {
    matches!(of_file(file), Some(TMPFS | RAMFS))
}

/// Returns whether the file system holds no real files.
pub fn is_pseudo(path: &Path) -> bool {
    of_path(path).is_some_and(|magic| PSEUDO.contains(&magic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_refused_for_files() {
        assert!(is_pseudo(Path::new("/proc")) && !is_memory(Path::new("/proc")));
        assert!(!is_pseudo(Path::new("/")));
    }
}

//! The ioctls of single file systems.

use std::os::fd::AsRawFd;
use std::path::Path;

/// `EXT4_IOC_CHECKPOINT` of linux/ext4.h, since Linux 5.14.
const CHECKPOINT: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<u32>(b'f', 43);

/// Writes the blocks of the journal to their places and empties it. ext3 and ext4 delay this until the journal is full.
pub fn checkpoint(point: &Path) {
    let Ok(directory) = std::fs::File::open(point) else { return };
    let flags: u32 = 0;
    // SAFETY: reads one u32 of this function. Older kernels, and file systems without a journal, refuse the call and
    // change nothing.
    unsafe { libc::ioctl(directory.as_raw_fd(), CHECKPOINT as _, &flags) };
}

/// struct xfs_fs_eofblocks of xfs_fs.h.
#[repr(C)]
struct EofBlocks {
    version: u32,
    flags: u32,
    /// User, group and project of the files, if the flags select by them.
    owners: [u32; 3],
    pad32: u32,
    /// The smallest file, if the flags select by size.
    min_file_size: u64,
    pad64: [u64; 12],
}

/// `XFS_IOC_FREE_EOFBLOCKS`.
const FREE_EOFBLOCKS: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<EofBlocks>(b'X', 58);
/// `XFS_EOFBLOCKS_VERSION` and `XFS_EOF_FLAGS_SYNC`: of all files, and wait for it.
const ALL_FILES: EofBlocks =
    EofBlocks { version: 1, flags: 1, owners: [0; 3], pad32: 0, min_file_size: 0, pad64: [0; 12] };

/// Frees the blocks that xfs has reserved behind the ends of files.
pub fn free_speculative_blocks(point: &Path) {
    let Ok(directory) = std::fs::File::open(point) else { return };
    // SAFETY: the kernel reads a structure of the size in the number of the call. A kernel that does not know the call
    // refuses it.
    unsafe { libc::ioctl(directory.as_raw_fd(), FREE_EOFBLOCKS as _, &ALL_FILES) };
}

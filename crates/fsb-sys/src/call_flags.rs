//! Flags of preadv2 and pwritev2 that rustix lacks, and the sizes of atomic writes.

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::{Errno, ReadWriteFlags};

/// RWF_ATOMIC of Linux 6.11 (include/uapi/linux/fs.h): after a crash, either all bytes of the write
/// are in the file or none.
pub const ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);

/// RWF_DONTCACHE of Linux 6.14 (include/uapi/linux/fs.h): the page cache does not keep the data.
pub const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// STATX_WRITE_ATOMIC of Linux 6.11 (include/uapi/linux/stat.h).
const WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x1_0000);

/// The sizes of atomic writes that statx reports for a file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomicUnits {
    /// The smallest size; 0 if the file takes no atomic writes.
    pub min: u32,
    /// The largest size.
    pub max: u32,
}

impl AtomicUnits {
    /// Returns the sizes that statx reports. A kernel before 6.11 reports none.
    ///
    /// # Errors
    /// The error of statx.
    pub fn from_file(file: impl AsFd) -> Result<AtomicUnits, Errno> {
        let found = statx(file, "", AtFlags::EMPTY_PATH, WRITE_ATOMIC)?;
        Ok(AtomicUnits {
            min: found.stx_atomic_write_unit_min,
            max: found.stx_atomic_write_unit_max,
        })
    }
}

//! Partitions that exist only in the kernel: they are not written to the disk, and a reboot removes
//! them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::block::{self, DeviceNumber};
use super::pinned::Pinned;
use super::{Roots, poll_until, read_trimmed};
use crate::error::{Refusal, attempt};

// linux/blkpg.h
const BLKPG: libc::c_ulong = 0x1269;
const ADD: libc::c_int = 1;
const DELETE: libc::c_int = 2;

/// `struct blkpg_partition`.
#[repr(C)]
struct Described {
    start: i64,
    length: i64,
    number: libc::c_int,
    names: [u8; 128],
}

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct Argument {
    operation: libc::c_int,
    flags: libc::c_int,
    length: libc::c_int,
    data: *const Described,
}

/// A partition, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// The partition number on the disk, from 1.
    pub number: u32,
    /// The offset of the first byte on the disk.
    pub start: u64,
    /// The length.
    pub bytes: u64,
}

/// Adds a partition to the open disk.
pub fn add(disk: &OwnedFd, partition: &Partition) -> io::Result<()> {
    call(disk, ADD, partition)
}

fn call(disk: &OwnedFd, operation: libc::c_int, partition: &Partition) -> io::Result<()> {
    let too_large = |_| io::Error::from_raw_os_error(libc::ERANGE);
    let data = Described {
        start: partition.start.try_into().map_err(too_large)?,
        length: partition.bytes.try_into().map_err(too_large)?,
        number: partition.number.try_into().map_err(too_large)?,
        names: [0; 128],
    };
    let argument = Argument {
        operation,
        flags: 0,
        length: size_of::<Described>() as libc::c_int,
        data: &data,
    };
    // SAFETY: structures laid out as linux/blkpg.h has them, and only read.
    match unsafe { libc::ioctl(disk.as_raw_fd(), BLKPG as _, &argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the directory below /sys of the partition with that number.
pub fn find(disk: &Path, number: u32) -> Option<PathBuf> {
    let number = number.to_string();
    std::fs::read_dir(disk)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| read_trimmed(&path.join("partition")).as_ref() == Some(&number))
}

/// Returns whether the disk has partitions, made by fsb or not.
pub fn has_any(disk: &Path) -> bool {
    let mut entries = std::fs::read_dir(disk).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().join("partition").exists())
}

/// Time limit for the last user of a partition to close it.
const IDLE: Duration = Duration::from_secs(10);

/// Removes a partition from the kernel if the disk has exactly this one. Returns a description of
/// the result.
pub fn remove(disk: DeviceNumber, partition: &Partition, roots: &Roots) -> Result<String, Refusal> {
    let Partition {
        number,
        start,
        bytes,
    } = *partition;
    let name = format!("partition {number} of {}:{}", disk.0, disk.1);
    let Some(directory) = disk.directory(roots) else {
        return Ok(format!("{name}: the disk is gone"));
    };
    let Some(found) = find(&directory, number) else {
        return Ok(format!("{name} is gone"));
    };
    let sectors = |file: &str| read_trimmed(&found.join(file))?.parse::<u64>().ok();
    if (sectors("start"), sectors("size"))
        != (Some(start / block::SECTOR), Some(bytes / block::SECTOR))
    {
        return Ok(format!("{name} is another one: left alone"));
    }
    let kernel = directory
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .replace('!', "/");
    let path = Path::new("/dev").join(kernel);
    let device = Pinned::known(&path, disk).map_err(|error| attempt("open", &path, &error))?;
    let mut answer = Ok(());
    poll_until(IDLE, || {
        answer = call(device.descriptor(), DELETE, partition);
        !answer
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
    });
    match answer {
        Ok(()) => Ok(format!("removed {name}")),
        // Another process removed it meanwhile.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(format!("{name} is gone")),
        Err(error) => Err(Refusal::call(
            format!("BLKPG_DEL_PARTITION of {name}"),
            &error,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<Described>(), 152);
        assert_eq!(size_of::<Argument>(), 24);
        assert_eq!(std::mem::offset_of!(Described, number), 16);
        assert_eq!(std::mem::offset_of!(Argument, data), 16);
        assert_eq!(
            BLKPG,
            rustix::ioctl::opcode::none(0x12, 105) as libc::c_ulong
        );
    }

    #[test]
    fn only_the_very_partition_is_removed() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        let disk = tree.path().join("devices/sdz");
        let own = Partition {
            number: 2,
            start: 1 << 20,
            bytes: 4 << 20,
        };
        let remove = || remove(DeviceNumber(4095, 7), &own, &roots);
        assert!(remove().unwrap().contains("the disk is gone"));
        std::fs::create_dir_all(tree.path().join("dev/block")).unwrap();
        std::fs::create_dir_all(disk.join("sdz2")).unwrap();
        std::os::unix::fs::symlink(&disk, tree.path().join("dev/block/4095:7")).unwrap();
        assert!(!has_any(&disk));
        assert!(remove().unwrap().contains("is gone"));
        for (file, text) in [
            ("partition", "2\n"),
            ("start", "2048\n"),
            ("size", "8193\n"),
        ] {
            std::fs::write(disk.join("sdz2").join(file), text).unwrap();
        }
        assert!(has_any(&disk));
        assert!(remove().unwrap().contains("left alone"));
        std::fs::write(disk.join("sdz2/size"), "8192\n").unwrap();
        assert!(
            remove().unwrap_err().to_string().contains("/dev/sdz"),
            "no such disk to ask"
        );
    }
}

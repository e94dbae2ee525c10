//! Block devices as /sys/dev/block shows them, and the one write over a whole medium.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use rustix::fs::{Mode, OFlags};

use crate::{Roots, read_trimmed};

// linux/fs.h
const BLKROGET: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 94);
const BLKFLSBUF: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 97);

/// The kernel's unit of sizes and offsets in bytes, independent of the sector size of the device.
pub const SECTOR: u64 = 512;

/// Major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceNumber(pub u32, pub u32);

impl DeviceNumber {
    pub fn from_raw(raw: u64) -> Self {
        DeviceNumber(rustix::fs::major(raw), rustix::fs::minor(raw))
    }

    /// Returns the directory below /sys/devices. Returns `None` for numbers without a device
    /// (tmpfs, overlay, btrfs).
    pub fn directory(self, roots: &Roots) -> Option<PathBuf> {
        roots
            .sys
            .join(format!("dev/block/{}:{}", self.0, self.1))
            .canonicalize()
            .ok()
    }
}

/// Returns the number of the block device at `path`, following links. Returns `None` if it is not a
/// block device.
pub fn number_of(path: &Path) -> Option<DeviceNumber> {
    let stat = rustix::fs::stat(path).ok()?;
    let is_block =
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::BlockDevice;
    is_block.then(|| DeviceNumber::from_raw(stat.st_rdev))
}

/// Reads the device number from a device directory below /sys.
pub fn number_in(directory: &Path) -> Option<DeviceNumber> {
    let text = read_trimmed(&directory.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some(DeviceNumber(major.parse().ok()?, minor.parse().ok()?))
}

/// I/O counters of a device since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// 0 if the kernel does not count flushes (before 5.5).
    pub flushes: u64,
}

/// Reads `stat` of a device directory (Documentation/block/stat.rst).
pub fn activity(directory: &Path) -> Option<Activity> {
    parse_activity(&read_trimmed(&directory.join("stat"))?)
}

fn parse_activity(text: &str) -> Option<Activity> {
    let fields: Vec<u64> = text
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    Some(Activity {
        read_bytes: fields.get(2)? * SECTOR,
        write_bytes: fields.get(6)? * SECTOR,
        flushes: fields.get(15).copied().unwrap_or(0),
    })
}

/// Returns the number of reads and writes that are in flight.
pub fn in_flight(directory: &Path) -> u64 {
    let text = read_trimmed(&directory.join("inflight")).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|field| field.parse::<u64>().ok())
        .sum()
}

/// Returns the bytes of a sector of a device, the least that it moves. `directory` is that of the
/// device below /sys. Returns `None` if the kernel does not report it.
pub fn sector_bytes(directory: &Path) -> Option<u64> {
    let file = whole_disk(directory).join("queue/logical_block_size");
    read_trimmed(&file)?.parse().ok()
}

/// Returns the directory of the disk of a partition, or `directory` itself if it is not a
/// partition.
pub fn whole_disk(directory: &Path) -> PathBuf {
    match directory.parent() {
        Some(disk) if directory.join("partition").exists() => disk.to_owned(),
        _ => directory.to_owned(),
    }
}

/// Stacks of devices deeper than this are a loop in the tree below /sys.
pub const MOST_LAYERS: u32 = 8;

/// Returns the directories of the devices directly beneath an array or a mapped device, sorted.
pub fn members(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join("slaves"))
        .into_iter()
        .flatten();
    let members = entries.filter_map(|entry| entry.ok()?.path().canonicalize().ok());
    let mut members: Vec<PathBuf> = members.filter(|member| member.is_dir()).collect();
    members.sort();
    members
}

/// Returns the names of partitions of `disk`, except the one at `own`, that are mounted in any
/// namespace, are swap, or are held by another device.
pub fn partitions_in_use(disk: &Path, own: &Path) -> Vec<String> {
    let mounts = super::mountinfo::read_everywhere(&Roots::default());
    let swaps = super::swap::active(&Roots::default());
    let is_used = |partition: &Path, name: &str| {
        let number = read_trimmed(&partition.join("dev"));
        let mounted = mounts.iter().any(|mount| {
            number.as_deref() == Some(&format!("{}:{}", mount.device.0, mount.device.1))
                || mount.source == Path::new("/dev").join(name)
        });
        let held = std::fs::read_dir(partition.join("holders"))
            .is_ok_and(|mut holders| holders.next().is_some());
        mounted
            || held
            || swaps
                .iter()
                .any(|swap| swap.path == Path::new("/dev").join(name))
    };
    let entries = std::fs::read_dir(disk)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let partitions = entries.filter(|path| path.join("partition").exists() && path != own);
    let mut names: Vec<String> = partitions
        .filter_map(|path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            is_used(&path, &name).then_some(name)
        })
        .collect();
    names.sort();
    names
}

/// Returns the size of a device in bytes.
pub fn size(directory: &Path) -> Option<u64> {
    Some(read_trimmed(&directory.join("size"))?.parse::<u64>().ok()? * SECTOR)
}

/// Returns the flags for opening a block device; always close-on-exec. With `exclusive`, the open
/// fails with EBUSY if the kernel itself uses the device: it is mounted in any namespace, swap, a
/// member of an array, or a disk with a partition in use.
pub fn flags(write: bool, exclusive: bool) -> OFlags {
    let mut flags = OFlags::CLOEXEC | if write { OFlags::RDWR } else { OFlags::RDONLY };
    if exclusive {
        flags |= OFlags::EXCL;
    }
    flags
}

/// Opens a device node whose path the kernel or root named, with [`flags`].
pub fn open(path: &Path, write: bool, exclusive: bool) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        path,
        flags(write, exclusive),
        Mode::empty(),
    )?)
}

/// Returns whether the kernel refuses writes to an open device.
pub fn is_read_only(device: &OwnedFd) -> io::Result<bool> {
    let mut answer: libc::c_int = 0;
    // SAFETY: BLKROGET writes one int.
    match unsafe { libc::ioctl(device.as_raw_fd(), BLKROGET as _, &mut answer) } {
        0 => Ok(answer != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Writes the page cache of the raw device out and drops it.
pub fn flush_buffers(device: &OwnedFd) -> io::Result<()> {
    File::from(device.try_clone()?).sync_all()?;
    // SAFETY: BLKFLSBUF takes no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF as _, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The regions at the start and at the end of a device that [`is_blank`] reads whole, in bytes:
/// superblocks, partition tables and their copies, and boot code are there.
const START: u64 = 2 << 20;
const END: u64 = 1 << 20;
/// The blocks that [`is_blank`] reads between them, at even distances, and their size in bytes.
const SAMPLES: u64 = 64;
const SAMPLE: u64 = 4096;

/// Returns whether a device of `size` bytes looks unused: its first 2 MiB, its last 1 MiB and 64
/// blocks between them hold only zeros, or only bytes 0xff, as erased flash memory does.
///
/// # Errors
///
/// Fails if any of these bytes cannot be read.
pub fn is_blank(device: BorrowedFd<'_>, size: u64) -> io::Result<bool> {
    let end = size.saturating_sub(END).max(START).min(size);
    let mut parts = vec![0..size.min(START), end..size];
    if size > START + END {
        let distance = (size - START - END) / SAMPLES;
        for sample in 0..SAMPLES {
            let at = START + sample * distance;
            parts.push(at..(at + SAMPLE).min(size));
        }
    }
    let mut buffer = vec![0u8; START as usize];
    let mut blank = None;
    for part in parts {
        let bytes = &mut buffer[..(part.end - part.start) as usize];
        read_all_at(device, bytes, part.start)?;
        let Some(first) = bytes.first().copied() else {
            continue;
        };
        let blank = *blank.get_or_insert(first);
        if !matches!(blank, 0 | 0xff) || bytes.iter().any(|byte| *byte != blank) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_all_at(file: BorrowedFd<'_>, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let read =
            rustix::io::retry_on_intr(|| rustix::io::pread(file.as_fd(), &mut *bytes, offset))?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[read..];
        offset += read as u64;
    }
    Ok(())
}

/// Returns whether a directory below /sys is that of a disk with partitions.
pub fn has_partitions(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        if entry.path().join("partition").exists() {
            return true;
        }
    }
    false
}

/// Bytes of one write.
const CHUNK: usize = 8 << 20;
/// Alignment of addresses that is sufficient for O_DIRECT on any device.
const ALIGNMENT: usize = 4096;

/// Writes parts of a medium once, so that no later write is a first write: incompressible bytes in
/// each of `parts` of `file`, in large writes, made durable. Each part is a range of byte offsets.
/// The bytes are a function of the seed. No two sectors are equal, because a device may store equal
/// ones once. Calls `progress` with the number of bytes written.
// A generic function would be compiled with its caller, without the optimisation that tests have
// for this crate.
pub fn fill(
    file: BorrowedFd<'_>,
    parts: &[Range<u64>],
    seed: u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    /// Numbers times an odd number are as different as before. This one, 2^64 divided by the golden
    /// ratio, spreads them over all bits (Knuth, The Art of Computer Programming 3, section 6.4).
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut memory = vec![0u8; CHUNK + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut memory[start..start + CHUNK];
    // To compute new bytes for every write takes as long as a fast disk takes to write them. Only a
    // number in each sector is new.
    Pcg64Mcg::seed_from_u64(seed).fill_bytes(buffer);
    let mut done = 0;
    progress(0);
    for part in parts {
        let mut at = part.start;
        while at < part.end {
            for (offset, sector) in (at..)
                .step_by(SECTOR as usize)
                .zip(buffer.chunks_exact_mut(SECTOR as usize))
            {
                let number = (offset / SECTOR).wrapping_mul(SPREAD);
                sector[..8].copy_from_slice(&number.to_le_bytes());
            }
            let length = (part.end - at).min(CHUNK as u64) as usize;
            write_all_at(file, &buffer[..length], at)?;
            at += length as u64;
            done += length as u64;
            progress(done);
        }
    }
    Ok(rustix::fs::fsync(file)?)
}

fn write_all_at(file: BorrowedFd<'_>, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written =
            rustix::io::retry_on_intr(|| rustix::io::pwrite(file.as_fd(), bytes, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn activity_is_read_by_position() {
        let text = "2510 61 20502 213 558 1448 284692 544 0 336 818 0 0 0 0 38 61";
        let expected = Activity {
            read_bytes: 20502 * 512,
            write_bytes: 284_692 * 512,
            flushes: 38,
        };
        assert_eq!(parse_activity(text), Some(expected));
        assert_eq!(parse_activity("1 2 3 4 5 6 7 8").unwrap().flushes, 0);
        assert_eq!(parse_activity("1 2"), None);
    }

    #[test]
    fn a_partition_leads_to_its_disk_and_its_neighbours() {
        let tree = tempfile::tempdir().unwrap();
        let disk = tree.path().join("sda");
        // One device is in use because it is mounted; the other number belongs to no device.
        let mounted = crate::mountinfo::read_everywhere(&Roots::default())
            .first()
            .unwrap()
            .device;
        for (name, number) in [
            ("sda1", format!("{}:{}", mounted.0, mounted.1)),
            ("sda2", "4095:1".to_owned()),
        ] {
            let partition = disk.join(name);
            std::fs::create_dir_all(partition.join("holders")).unwrap();
            std::fs::write(partition.join("partition"), "1\n").unwrap();
            std::fs::write(partition.join("dev"), number + "\n").unwrap();
        }
        let (used, own) = (disk.join("sda1"), disk.join("sda2"));
        assert_eq!(whole_disk(&own), disk);
        assert_eq!(whole_disk(&disk), disk);
        assert_eq!(partitions_in_use(&disk, &own), ["sda1"]);
        assert!(partitions_in_use(&disk, &used).is_empty());
        std::fs::write(own.join("holders/md0"), "").unwrap();
        assert_eq!(partitions_in_use(&disk, &used), ["sda2"]);
    }

    #[test]
    fn only_a_device_without_any_data_is_blank() {
        use std::os::unix::fs::FileExt;
        let size = 16 << 20;
        let blank = |bytes: &[(u64, u8)], size: u64| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(16 << 20).unwrap();
            for (at, byte) in bytes {
                file.write_all_at(&[*byte], *at).unwrap();
            }
            is_blank(file.as_fd(), size)
        };
        assert!(blank(&[], size).unwrap());
        let sampled = START + 7 * ((size - START - END) / SAMPLES) + 100;
        for at in [0, START - 1, sampled, size - END, size - 1] {
            assert!(!blank(&[(at, 1)], size).unwrap(), "{at}");
        }
        for small in [0, 4096, START, START + 512, START + END] {
            assert!(blank(&[], small).unwrap(), "{small}");
            let last = small.saturating_sub(1);
            assert_eq!(blank(&[(last, 1)], small).unwrap(), small == 0, "{small}");
        }
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![0xff; 4 << 20], 0).unwrap();
        assert!(is_blank(file.as_fd(), 4 << 20).unwrap());
        file.write_all_at(&[0], START).unwrap();
        assert!(!is_blank(file.as_fd(), 4 << 20).unwrap());
        // A device that ends early cannot be read.
        assert!(blank(&[], size + 4096).is_err());
    }

    #[test]
    fn only_the_parts_are_written() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        fill(
            file.as_fd(),
            &[4096..8192, 1 << 20..(1 << 20) + 4096],
            1,
            &mut |_| {},
        )
        .unwrap();
        let is_written = |at| {
            let mut bytes = [0; 4096];
            file.read_exact_at(&mut bytes, at).unwrap();
            bytes.iter().any(|byte| *byte != 0)
        };
        assert_eq!(
            [0, 4096, 8192, 1 << 20, (1 << 20) + 4096].map(is_written),
            [false, true, false, true, false]
        );
    }

    #[test]
    fn every_byte_is_written_and_depends_on_the_seed() {
        let size = CHUNK as u64 + 12_288;
        let content = |seed| {
            let mut file = tempfile::tempfile().unwrap();
            let mut heard = Vec::new();
            fill(
                file.as_fd(),
                std::slice::from_ref(&(0..size)),
                seed,
                &mut |done| heard.push(done),
            )
            .unwrap();
            assert_eq!(heard, [0, CHUNK as u64, size]);
            let mut bytes = Vec::new();
            io::Seek::rewind(&mut file).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let first = content(1);
        assert_eq!(first.len() as u64, size);
        assert_eq!(first, content(1));
        assert_ne!(first, content(2));
        // No sector repeats, so that nothing can be deduplicated, and every bit is set about half
        // the time.
        let sectors: std::collections::HashSet<_> = first.chunks(SECTOR as usize).collect();
        assert_eq!(sectors.len(), first.len().div_ceil(SECTOR as usize));
        let ones: u64 = first.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let share = ones as f64 / (8 * size) as f64;
        assert!((0.499..0.501).contains(&share), "{share}");
    }
}

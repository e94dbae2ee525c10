//! What ext2, ext3 and ext4 share: e2fsprogs, and often one driver for all three.

use std::os::fd::AsRawFd;
use std::path::Path;

use super::age::{self, Feature, Version};
use super::journal::{self, Journal};
use super::{Choice, FileSystem, Idle, Inspection, Tools, ask_about};
use crate::error::TestbedError;
use crate::sys::{Roots, block};

/// Before the user's arguments: overwrite without asking, be quiet, discard nothing, and initialise inode tables and
/// journal now and not behind the first measurement.
const ARGUMENTS: &[&str] = &["-F", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];

/// Smaller images leave no room for files beside the tables.
const MINIMUM_SIZE: u64 = 8 << 20;

/// The checksum that it asks the kernel's cryptography for, the fast one too.
pub(super) const CHECKSUMS: &[&str] = &["crc32c_generic", "crc32c_intel"];

/// From Linux' fs/ext4/ext4.h and the release notes of e2fsprogs: both are defaults since its version 1.47.0.
/// Kernels before 5.15 would mount a file system with an orphan file but not use it.
static NEW: &[Feature] = &[
    Feature {
        name: "metadata_csum_seed",
        off: ("-O", "^metadata_csum_seed"),
        kernel: Version(4, 4),
        program: Version(1, 43),
    },
    Feature { name: "orphan_file", off: ("-O", "^orphan_file"), kernel: Version(5, 15), program: Version(1, 47) },
];

/// A member of the family.
pub(super) struct Ext {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) tools: &'static Tools,
    pub(super) helpers: &'static [&'static str],
    /// It has a journal, and mkfs gives it features that only newer kernels know.
    pub(super) journal: bool,
    /// ext4's driver may serve it.
    pub(super) older: bool,
    /// Options for a race.
    pub(super) choices: &'static [Choice],
}

/// e2fsprogs, with this mkfs program.
pub(super) const fn tools(mkfs: &'static str) -> Tools {
    Tools { package: "e2fsprogs", mkfs, arguments: ARGUMENTS, version: "-V", others: &["dumpe2fs"] }
}

impl FileSystem for Ext {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(self.tools)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["ext4"]
    }

    fn helper_modules(&self) -> &'static [&'static str] {
        self.helpers
    }

    fn choices(&self) -> &'static [Choice] {
        self.choices
    }

    fn minimum_size(&self) -> u64 {
        MINIMUM_SIZE
    }

    fn inodes(&self, bytes: u64, user: &[String]) -> Option<u64> {
        inodes(bytes, user)
    }

    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        if self.journal {
            checkpoint(idle);
        }
        Ok(())
    }

    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        if self.journal { mkfs_for(user, oldest, program) } else { user.to_vec() }
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("dumpe2fs", &["-h"], device))
    }

    fn writes_in_place(&self) -> bool {
        true
    }

    fn journal(&self, device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        let [low, high] = [S_JNL_SIZE, S_JNL_SIZE_HIGH].map(|at| journal::bytes_at::<4>(device, at));
        let size = u64::from(u32::from_le_bytes(high?)) << 32 | u64::from(u32::from_le_bytes(low?));
        let block = 1024u64 << u32::from_le_bytes(journal::bytes_at(device, S_LOG_BLOCK_SIZE)?).min(6);
        // Of a journal within the file system; its inode has the number 8.
        let info = roots.proc.join(format!("fs/jbd2/{name}-8/info"));
        let turns = move || {
            // Nothing stands there before the first commit.
            let blocks = logged_blocks(&std::fs::read_to_string(&info).ok()?);
            Some((blocks * block) as f64 / size as f64)
        };
        (self.journal && size > 0 && turns().is_some()).then(|| Journal::new(turns))
    }

    fn served_by(&self, device: &Path) -> Option<String> {
        if self.older { served_by(device) } else { None }
    }
}

/// The user's arguments, and what `oldest` needs beside them.
fn mkfs_for(user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
    age::joined(user, age::switched_off(NEW, user, oldest, program))
}

/// Where the superblock, which begins at byte 1024, has the logarithm of its blocks' size over 1024, and the two halves of
/// the journal's size: s_log_block_size and the last two words of s_jnl_blocks of fs/ext4/ext4.h.
const S_LOG_BLOCK_SIZE: u64 = 1024 + 0x18;
const S_JNL_SIZE: u64 = 1024 + 0x14c;
const S_JNL_SIZE_HIGH: u64 = 1024 + 0x148;

/// Blocks that the journal has logged, of jbd2's statistics: transactions, times the mean of what each of them logged.
fn logged_blocks(info: &str) -> u64 {
    let number = |end: &str| {
        let line = info.lines().find(|line| line.contains(end))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    number(" transactions (").zip(number(" logged blocks per transaction")).map_or(0, |(many, each)| many * each)
}

/// Bytes of the device for each inode, by the device's size: inode_ratio of the usage types of mke2fs.conf(5) as e2fsprogs
/// ships it (small, default, big, huge).
const INODE_RATIOS: [(u64, u64); 4] = [(512 << 20, 4096), (4 << 40, 16_384), (16 << 40, 32_768), (u64::MAX, 65_536)];

/// Inodes that mke2fs makes: as many as `-N` says, one for as many bytes as `-i` says, or by the ratio of its own table.
/// Nothing where `-T` names another row of that table.
fn inodes(bytes: u64, user: &[String]) -> Option<u64> {
    let option = |letter: &str| {
        let at = user.iter().rposition(|word| word.starts_with(letter))?;
        let joined = user[at].strip_prefix(letter).filter(|rest| !rest.is_empty()).map(str::to_owned);
        joined.or_else(|| user.get(at + 1).cloned())
    };
    match (option("-N"), option("-i"), option("-T")) {
        (Some(number), _, _) => number.parse().ok(),
        (None, Some(ratio), _) => ratio.parse::<u64>().ok().filter(|ratio| *ratio > 0).map(|ratio| bytes / ratio),
        (None, None, Some(_)) => None,
        (None, None, None) => INODE_RATIOS.iter().find(|(below, _)| bytes < *below).map(|(_, ratio)| bytes / ratio),
    }
}

fn parse(text: &str) -> Inspection {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    Inspection {
        features: value("Filesystem features:")
            .map(|list| list.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        block_size: value("Block size:").and_then(|number| number.parse().ok()),
    }
}

/// `EXT4_IOC_CHECKPOINT` of linux/ext4.h, since Linux 5.14.
const CHECKPOINT: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<u32>(b'f', 43);

/// Writes what is in the journal to its place and empties it, which ext3 and ext4 put off until the journal is full.
fn checkpoint(idle: &Idle<'_>) {
    let Ok(directory) = std::fs::File::open(idle.point) else { return };
    let flags: u32 = 0;
    // SAFETY: reads one u32 that lives here. Older kernels, and file systems without a journal, refuse it and nothing
    // is done.
    unsafe { libc::ioctl(directory.as_raw_fd(), CHECKPOINT as _, &flags) };
}

/// ext4's driver serves the older two where the kernel was built so; then the mount shows among its own in /sys.
fn served_by(device: &Path) -> Option<String> {
    let roots = Roots::default();
    let directory = block::number_of(device)?.directory(&roots)?;
    let name = directory.file_name()?;
    roots.sys.join("fs/ext4").join(name).exists().then(|| "ext4".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_journal_logged_is_read_of_its_statistics() {
        let info = "64 transactions (60 requested), each up to 1365 blocks\naverage: \n  0ms waiting for transaction\n  \
            114 handles per transaction\n  9 blocks per transaction\n  10 logged blocks per transaction\n";
        assert_eq!((logged_blocks(info), logged_blocks("")), (640, 0));
    }

    #[test]
    fn inodes_are_as_many_as_mke2fs_makes() {
        let of = |bytes, words: &str| inodes(bytes, &words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!([of(2 << 30, ""), of(256 << 20, "")], [Some(131_072), Some(65_536)]);
        assert_eq!([of(2 << 30, "-N 5000"), of(2 << 30, "-b 1024 -N5000 -i 1024")], [Some(5000); 2]);
        assert_eq!([of(2 << 30, "-i 32768"), of(2 << 30, "-i none")], [Some(65_536), None]);
        assert_eq!(of(2 << 30, "-T news"), None);
    }

    #[test]
    fn dumpe2fs_is_read() {
        let text = "Filesystem volume name:   <none>\nFilesystem features:      has_journal ext_attr extent\n\
            Block count: 5\nBlock size:               4096\n";
        let read = parse(text);
        assert_eq!(read.features, ["has_journal", "ext_attr", "extent"]);
        assert_eq!(read.block_size, Some(4096));
        assert_eq!(parse(""), Inspection::default());
    }
}

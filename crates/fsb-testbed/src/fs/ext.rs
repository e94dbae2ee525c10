//! What ext2, ext3 and ext4 share: e2fsprogs, and often one driver for all three.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::str::FromStr;

use fsb_model::{Bytes, Geometry};

use super::age::{self, Feature, Version};
use super::choice::Choice;
use super::file_system::{FileSystem, Idle, Inspection, Tools, ask_about};
use super::hazard::{Cause, Hazard};
use super::journal::{self, Journal, journal_for};
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
    /// See [`FileSystem::hazards`].
    pub(super) hazards: &'static [Hazard],
}

/// From ext4(5): hazards of the members with a journal. The kernel shows `barrier=0` as `nobarrier`.
pub(super) static HAZARDS: &[Hazard] = &[
    Hazard::unflushed(&["barrier=0", "nobarrier"]),
    Hazard::writeback(&["data=writeback"]),
    Hazard::no_journal(Cause::Without("has_journal")),
];

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

    fn hazards(&self) -> &'static [Hazard] {
        self.hazards
    }

    fn minimum_size(&self) -> u64 {
        MINIMUM_SIZE
    }

    /// Below 512 MiB mke2fs takes the usage type `small` of mke2fs.conf(5): blocks of 1 KiB and an inode for every 4 KiB.
    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        /// Fewer blocks make no journal: ext2fs_default_journal_size of e2fsprogs.
        const FEWEST_JOURNAL_BLOCKS: u64 = 1024;
        let decided = |letters: &[&str]| letters.iter().any(|letter| user.iter().any(|word| word.starts_with(letter)));
        let mut arguments = Vec::new();
        let mut give = |letters: &[&str], value: Option<u64>| {
            if let Some(value) = value.filter(|_| !decided(letters)) {
                arguments.extend([letters[0].to_owned(), value.to_string()]);
            }
        };
        give(&["-b"], large.block_size);
        give(&["-I"], large.inode_size);
        give(&["-i", "-N", "-T"], large.bytes_per_inode);
        let least = FEWEST_JOURNAL_BLOCKS * large.block_size.unwrap_or(4096);
        let journal = large.journal_bytes.map(|journal| journal_for(bytes, journal)).filter(|size| *size >= least);
        if let Some(size) = journal.filter(|_| !decided(&["-J"])) {
            arguments.extend(["-J".to_owned(), format!("size={}", size >> 20)]);
        }
        arguments
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

/// The output of `dumpe2fs -h`. Versions before 1.47 say `Journal size`.
fn parse(text: &str) -> Inspection {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let number = |key: &str| value(key).and_then(|number| number.parse::<u64>().ok()).filter(|number| *number > 0);
    let (block_size, blocks) = (number("Block size:"), number("Block count:"));
    let bytes = block_size.zip(blocks).map(|(size, count)| size * count);
    let journal = value("Total journal size:").or_else(|| value("Journal size:"));
    Inspection {
        features: value("Filesystem features:")
            .map(|list| list.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        geometry: Geometry {
            block_size,
            inode_size: number("Inode size:"),
            bytes_per_inode: bytes.zip(number("Inode count:")).map(|(bytes, inodes)| bytes / inodes),
            journal_bytes: journal.and_then(|text| Bytes::from_str(text).ok()).map(|bytes| bytes.0),
            groups: blocks.zip(number("Blocks per group:")).map(|(blocks, each)| blocks.div_ceil(each)),
            ..Geometry::default()
        },
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
    fn a_small_slice_is_given_the_geometry_of_a_large_disk_except_what_the_user_decides() {
        let large = Geometry {
            block_size: Some(4096),
            inode_size: Some(256),
            bytes_per_inode: Some(16_384),
            journal_bytes: Some(512 << 20),
            ..Geometry::default()
        };
        let of = |bytes, words: &str| {
            super::super::ext4::EXT4
                .fit(&large, bytes, &words.split(' ').map(str::to_owned).collect::<Vec<_>>())
                .join(" ")
        };
        assert_eq!(of(496 << 20, ""), "-b 4096 -I 256 -i 16384 -J size=62");
        assert_eq!(of(20 << 30, ""), "-b 4096 -I 256 -i 16384 -J size=512");
        assert_eq!(of(16 << 20, ""), "-b 4096 -I 256 -i 16384", "a journal of 2 MiB is too small");
        assert_eq!(of(1 << 30, "-b1024 -N 5000 -J size=8"), "-I 256");
    }

    #[test]
    fn dumpe2fs_is_read() {
        let text = "Filesystem volume name:   <none>\nFilesystem features:      has_journal ext_attr extent\n\
            Inode count:              6553600\nBlock count:              26214400\nBlock size:               4096\n\
            Blocks per group:         32768\nInode size:\t          256\nTotal journal size:       512M\n";
        let read = parse(text);
        assert_eq!(read.features, ["has_journal", "ext_attr", "extent"]);
        let expected = Geometry {
            block_size: Some(4096),
            inode_size: Some(256),
            bytes_per_inode: Some(16_384),
            journal_bytes: Some(512 << 20),
            groups: Some(800),
            ..Geometry::default()
        };
        assert_eq!(read.geometry, expected);
        assert_eq!(parse("Journal size:             4096k\n").geometry.journal_bytes, Some(4 << 20));
        assert_eq!(parse(""), Inspection::default());
    }
}

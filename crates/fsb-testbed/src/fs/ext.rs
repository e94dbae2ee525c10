//! ext2, ext3 and ext4: e2fsprogs, and often one driver for all three.

use std::path::Path;
use std::str::FromStr;

use fsb_model::{Bytes, FileSystemSpec, Geometry, Maintenance};
use fsb_sys::error::TestbedError;
use fsb_sys::{Roots, block, mount};

use super::file_system::{
    self, Cause, Choice, ExternalJournal, FileSystem, HAS_JOURNAL, Hazard, Idle, Inspection,
    Journal, MaintenanceCommands, Tools, Tune, ask_about, journal_for,
};
use super::kernel_compatibility::{self, Feature, Version};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

/// Arguments before the user's: overwrite without asking, be quiet, discard nothing, and initialise
/// inode tables and journal at once instead of during the first measurement.
const ARGUMENTS: &[&str] = &[
    "-F",
    "-q",
    "-E",
    "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
];

/// Smaller images leave no room for files beside the tables.
const MINIMUM_SIZE: u64 = 8 << 20;

/// The checksum that the driver requests from the kernel's cryptography, including the fast
/// implementation, and the format of the quotas.
const HELPERS: &[&str] = &["crc32c_generic", "crc32c_intel", "quota_v2"];

/// From Linux' fs/ext4/ext4.h and the release notes of e2fsprogs: both are defaults since its
/// version 1.47.0. Kernels before 5.15 would mount a file system with an orphan file but not use
/// it.
static NEW: &[Feature] = &[
    Feature {
        name: "metadata_csum_seed",
        off: ("-O", "^metadata_csum_seed"),
        kernel: Version(4, 4),
        program: Version(1, 43),
    },
    Feature {
        name: "orphan_file",
        off: ("-O", "^orphan_file"),
        kernel: Version(5, 15),
        program: Version(1, 47),
    },
];

/// A file system of the family.
pub(super) struct Ext {
    name: &'static str,
    about: &'static str,
    tools: &'static Tools,
    helpers: &'static [&'static str],
    /// Whether the file system has a journal. mkfs then enables features that only newer kernels
    /// know.
    journal: bool,
    /// Whether the driver of ext4 may serve the file system.
    older: bool,
    /// Options for a race.
    choices: &'static [Choice],
    /// See [`FileSystem::hazards`].
    hazards: &'static [Hazard],
}

/// From ext4(5): hazards of the members with a journal. The kernel shows `barrier=0` as
/// `nobarrier`.
static HAZARDS: &[Hazard] = &[
    Hazard::unflushed(&["barrier=0", "nobarrier"]),
    Hazard::writeback(&["data=writeback"]),
    Hazard::no_journal(Cause::Without(HAS_JOURNAL)),
];

/// e2fsprogs, with this mkfs program.
const fn tools(mkfs: &'static str) -> Tools {
    Tools {
        package: "e2fsprogs",
        mkfs,
        arguments: ARGUMENTS,
        version: "-V",
        others: &["dumpe2fs", "tune2fs", "mke2fs"],
        check: &["e2fsck", "-f", "-n"],
    }
}

impl FileSystem for Ext {
    fn name(&self) -> &'static str {
        self.name
    }

    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(self.tools)
    }

    fn tune(&self) -> Option<&'static Tune> {
        const TUNE: Tune = Tune {
            program: "tune2fs",
            driver: "ext4",
            repair: &["e2fsck", "-f", "-y"],
        };
        Some(&TUNE)
    }

    /// Both file systems have blocks of the same size, as mke2fs(8) requires. The kernel finds the
    /// journal by the number of its device in the superblock.
    fn external_journal(&self, device: &Path, mkfs: &[String]) -> Option<ExternalJournal> {
        fn words(text: &str) -> Vec<String> {
            text.split(' ').map(str::to_owned).collect::<Vec<_>>()
        }
        let device = device.display();
        let joined = mkfs
            .iter()
            .find_map(|word| word.strip_prefix("-b").filter(|size| !size.is_empty()));
        let apart = mkfs
            .windows(2)
            .find(|pair| pair[0] == "-b")
            .map(|pair| pair[1].as_str());
        let size = joined.or(apart).unwrap_or("4096");
        self.journal.then(|| ExternalJournal {
            make: words(&format!("mke2fs -F -q -b {size} -O journal_dev")),
            mkfs: words(&format!("-b {size} -J device={device}")),
            mount: Vec::new(),
            check: words(&format!("-j {device}")),
        })
    }

    /// From e4defrag(8), which moves the blocks of extents: those of ext4.
    fn maintenance(&self, operation: Maintenance, point: &Path) -> Option<MaintenanceCommands> {
        let defragments = operation == Maintenance::Defragment && self.name == "ext4";
        defragments.then(|| {
            MaintenanceCommands::only(vec![
                "e4defrag".to_owned(),
                point.to_string_lossy().into_owned(),
            ])
        })
    }

    fn project_quotas(&self) -> Option<&'static str> {
        (self.name == "ext4").then_some("ext4,prjquota,mkfs=\"-O quota,project\"")
    }

    fn maintenance_programs(&self) -> &'static [&'static str] {
        if self.name == "ext4" {
            &["e4defrag"]
        } else {
            &[]
        }
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

    /// Below 512 MiB mke2fs takes the usage type `small` of mke2fs.conf(5): blocks of 1 KiB and an
    /// inode for every 4 KiB.
    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        /// Fewer blocks make no journal: ext2fs_default_journal_size of e2fsprogs.
        const FEWEST_JOURNAL_BLOCKS: u64 = 1024;
        let decided = |letters: &[&str]| {
            letters
                .iter()
                .any(|letter| user.iter().any(|word| word.starts_with(letter)))
        };
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
        let journal = large
            .journal_bytes
            .map(|journal| journal_for(bytes, journal))
            .filter(|size| *size >= least);
        if let Some(size) = journal.filter(|_| !decided(&["-J"])) {
            arguments.extend(["-J".to_owned(), format!("size={}", size >> 20)]);
        }
        arguments
    }

    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        if self.journal {
            mount::checkpoint(idle.point);
        }
        Ok(())
    }

    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        if self.journal {
            mkfs_for(user, oldest, program)
        } else {
            user.to_vec()
        }
    }

    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        if spec.is_encrypted() && self.older {
            return Err(
                TestbedError::request(format!("{} does not encrypt files", self.name))
                    .coded(&fsb_model::error::UNKNOWN_OPTION)
                    .field("option", "encrypt")
                    .advice("use ext4,encrypt"),
            );
        }
        Ok(())
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("dumpe2fs", &["-h"], device))
    }

    fn writes_in_place(&self) -> bool {
        true
    }

    fn journal(&self, device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        let [low, high] =
            [S_JNL_SIZE, S_JNL_SIZE_HIGH].map(|at| file_system::bytes_at::<4>(device, at));
        let size = u64::from(u32::from_le_bytes(high?)) << 32 | u64::from(u32::from_le_bytes(low?));
        let block =
            1024u64 << u32::from_le_bytes(file_system::bytes_at(device, S_LOG_BLOCK_SIZE)?).min(6);
        // Of a journal within the file system; its inode has the number 8.
        let info = roots.proc.join(format!("fs/jbd2/{name}-8/info"));
        let turns = move || {
            // The statistics have no averages before the first commit. [`logged_blocks`] returns 0
            // then.
            let blocks = logged_blocks(&std::fs::read_to_string(&info).ok()?);
            Some((blocks * block) as f64 / size as f64)
        };
        (self.journal && size > 0 && turns().is_some()).then(|| Journal::new(turns))
    }

    /// The driver of ext2 mounts a file system with a journal and ignores it; that of ext4 uses it.
    fn used_features(&self, device: &Path, made: &[String]) -> Vec<String> {
        let ignores_journal = !self.journal && self.served_by(device).is_none();
        let mut used = made.to_vec();
        used.retain(|feature| !(ignores_journal && feature == HAS_JOURNAL));
        used
    }

    fn served_by(&self, device: &Path) -> Option<String> {
        if self.older { served_by(device) } else { None }
    }
}

/// Returns the user's arguments and those that switch off features for `oldest`.
fn mkfs_for(user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
    kernel_compatibility::joined(
        user,
        kernel_compatibility::switched_off(NEW, user, oldest, program),
    )
}

/// Offsets in the superblock, which begins at byte 1024: the logarithm of the block size over 1024,
/// and the two halves of the journal size (s_log_block_size and the last two words of s_jnl_blocks
/// of fs/ext4/ext4.h).
const S_LOG_BLOCK_SIZE: u64 = 1024 + 0x18;
const S_JNL_SIZE: u64 = 1024 + 0x14c;
const S_JNL_SIZE_HIGH: u64 = 1024 + 0x148;

/// Returns the blocks that the journal has logged, from jbd2's statistics: transactions times the
/// mean blocks of each.
fn logged_blocks(info: &str) -> u64 {
    let number = |end: &str| {
        let line = info.lines().find(|line| line.contains(end))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    number(" transactions (")
        .zip(number(" logged blocks per transaction"))
        .map_or(0, |(many, each)| many * each)
}

/// Parses the output of `dumpe2fs -h`. Versions before 1.47 print `Journal size`.
fn parse(text: &str) -> Inspection {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
    };
    let number = |key: &str| {
        value(key)
            .and_then(|number| number.parse::<u64>().ok())
            .filter(|number| *number > 0)
    };
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
            bytes_per_inode: bytes
                .zip(number("Inode count:"))
                .map(|(bytes, inodes)| bytes / inodes),
            journal_bytes: journal
                .and_then(|text| Bytes::from_str(text).ok())
                .map(|bytes| bytes.0),
            groups: blocks
                .zip(number("Blocks per group:"))
                .map(|(blocks, each)| blocks.div_ceil(each)),
            ..Geometry::default()
        },
    }
}

/// Returns ext4 if its driver serves an ext2 or ext3, as some kernels are configured. Such a mount
/// is in ext4's /sys directory.
fn served_by(device: &Path) -> Option<String> {
    let roots = Roots::default();
    let directory = block::number_of(device)?.directory(&roots)?;
    let name = directory.file_name()?;
    roots
        .sys
        .join("fs/ext4")
        .join(name)
        .exists()
        .then(|| "ext4".to_owned())
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("ext.options"));

pub(super) static EXT2: Ext = Ext {
    name: "ext2",
    about: "The second extended file system: no journal.",
    tools: &tools("mkfs.ext2"),
    // Needed if the kernel has a separate driver for ext2.
    helpers: &["ext2"],
    journal: false,
    older: true,
    // A file system without a journal takes part in a race only if it is named.
    choices: &[],
    hazards: &[Hazard::no_journal(Cause::Lacks(HAS_JOURNAL, "no journal"))],
};

pub(super) static EXT3: Ext = Ext {
    name: "ext3",
    about: "ext2 with a journal: data=journal, ordered or writeback.",
    tools: &tools("mkfs.ext3"),
    helpers: HELPERS,
    journal: true,
    older: true,
    choices: EXT3_CHOICES,
    hazards: HAZARDS,
};

// Choices of ext3 and ext4 alike.
const DATA_JOURNAL: Choice = Choice::mount(
    &["data=journal"],
    "data goes to the journal first: one place to write, at fsync",
)
.sort("data");
const DATA_WRITEBACK: Choice = Choice::mount(
    &["data=writeback"],
    "a commit does not wait for the data of its files",
)
.sort("data");
const LATE_COMMIT: Choice = Choice::mount(
    &["commit=60"],
    "the journal is committed every 60 s, not every 5",
)
.risky("a crash loses up to a minute of unsynced changes");
const NO_BARRIER: Choice = Choice::mount(&["barrier=0"], "the disk's cache is not flushed");
const NO_ACCESS_TIMES: Choice = Choice::mount(&["noatime"], "reads write no access times");
const FEW_INODES: Choice = Choice::mkfs(
    &["-i", "65536"],
    "a fourth of the inodes: fewer tables to read and write",
);

/// From Documentation/filesystems/ext3.rst and ext4(5), whose driver serves it.
static EXT3_CHOICES: &[Choice] = &[
    NO_ACCESS_TIMES,
    DATA_JOURNAL,
    DATA_WRITEBACK,
    LATE_COMMIT,
    Choice::mkfs(
        &["-J", "size=64"],
        "a journal of 64 MiB is checkpointed less often",
    ),
    FEW_INODES,
    NO_BARRIER,
];

pub(super) static EXT4: Ext = Ext {
    name: "ext4",
    about: "The fourth extended file system: extents, delayed allocation, checksums.",
    tools: &tools("mkfs.ext4"),
    helpers: HELPERS,
    journal: true,
    older: false,
    choices: EXT4_CHOICES,
    hazards: HAZARDS,
};

/// From ext4(5), mke2fs(8) and Documentation/admin-guide/ext4.rst of Linux.
static EXT4_CHOICES: &[Choice] = &[
    NO_ACCESS_TIMES,
    Choice::mount(
        &["lazytime"],
        "times of files stay in memory for up to a day",
    ),
    DATA_JOURNAL,
    DATA_WRITEBACK,
    LATE_COMMIT,
    Choice::mount(
        &["nodelalloc"],
        "blocks are allocated at the write, not at writeback",
    )
    .sort("allocation"),
    Choice::mount(
        &["nodioread_nolock"],
        "no unwritten extents to convert after each write",
    )
    .sort("allocation"),
    Choice::mount(
        &["max_batch_time=0"],
        "fsync does not wait for others to join its commit",
    ),
    Choice::mount(
        &["inode_readahead_blks=128"],
        "four times as many inode blocks are read ahead",
    ),
    Choice::mount(&["stripe=16"], "allocation in groups of 64 KiB"),
    Choice::mkfs(
        &["-O", "fast_commit"],
        "fsync logs what changed, not whole blocks of metadata",
    )
    .sort("journal"),
    Choice::mkfs(
        &["-J", "size=64"],
        "a journal of 64 MiB is checkpointed less often",
    )
    .sort("journal"),
    Choice::mkfs(
        &["-O", "bigalloc", "-C", "65536"],
        "space in clusters of 64 KiB: less metadata for large files",
    ),
    Choice::mkfs(
        &["-O", "inline_data", "-I", "1024"],
        "files below some 800 bytes are stored in their inodes",
    )
    .sort("inodes"),
    Choice::mkfs(&["-I", "512"], "inodes of 512 bytes hold more attributes").sort("inodes"),
    FEW_INODES,
    Choice::mkfs(&["-O", "^has_journal"], "nothing is written twice").sort("journal"),
    Choice::mkfs(&["-O", "^metadata_csum"], "no checksums of metadata")
        .risky("damaged metadata goes unnoticed"),
    Choice::mount(
        &["journal_async_commit"],
        "the commit block does not wait for the others",
    )
    .risky("only checksums detect an incomplete commit"),
    NO_BARRIER,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_activity_is_read_from_its_statistics() {
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
            EXT4.fit(
                &large,
                bytes,
                &words.split(' ').map(str::to_owned).collect::<Vec<_>>(),
            )
            .join(" ")
        };
        assert_eq!(of(496 << 20, ""), "-b 4096 -I 256 -i 16384 -J size=62");
        assert_eq!(of(20 << 30, ""), "-b 4096 -I 256 -i 16384 -J size=512");
        assert_eq!(
            of(16 << 20, ""),
            "-b 4096 -I 256 -i 16384",
            "a journal of 2 MiB is too small"
        );
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
        assert_eq!(
            parse("Journal size:             4096k\n")
                .geometry
                .journal_bytes,
            Some(4 << 20)
        );
        assert_eq!(parse(""), Inspection::default());
    }
}

//! XFS.

use std::path::Path;

use fsb_model::{Geometry, Maintenance};
use fsb_sys::error::TestbedError;
use fsb_sys::{Roots, mount, mountinfo};

use super::file_system::{
    self, Choice, ExternalJournal, FileSystem, Hazard, Idle, Inspection, Journal,
    MaintenanceCommands, Tools, ask_about,
};
use super::kernel_compatibility::{self, Feature, Version};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

pub(super) struct Xfs;

/// `-K`: no discard.
static TOOLS: Tools = Tools {
    package: "xfsprogs",
    mkfs: "mkfs.xfs",
    arguments: &["-f", "-q", "-K"],
    version: "-V",
    others: &["xfs_db"],
    check: &["xfs_repair", "-n"],
};

/// From the profiles `mkfs/lts_*.conf` of xfsprogs 6.1 and 6.18, which list the defaults for each
/// kernel with long support, and from fs/xfs/libxfs/xfs_format.h of Linux for the first kernel that
/// knew a feature.
static NEW: &[Feature] = &[
    Feature {
        name: "sparse",
        off: ("-i", "sparse=0"),
        kernel: Version(4, 2),
        program: Version(4, 2),
    },
    Feature {
        name: "rmapbt",
        off: ("-m", "rmapbt=0"),
        kernel: Version(4, 8),
        program: Version(4, 8),
    },
    Feature {
        name: "reflink",
        off: ("-m", "reflink=0"),
        kernel: Version(4, 9),
        program: Version(4, 9),
    },
    Feature {
        name: "bigtime",
        off: ("-m", "bigtime=0"),
        kernel: Version(5, 10),
        program: Version(5, 10),
    },
    Feature {
        name: "inobtcount",
        off: ("-m", "inobtcount=0"),
        kernel: Version(5, 10),
        program: Version(5, 10),
    },
    Feature {
        name: "nrext64",
        off: ("-i", "nrext64=0"),
        kernel: Version(5, 19),
        program: Version(5, 19),
    },
    Feature {
        name: "exchange",
        off: ("-i", "exchange=0"),
        kernel: Version(6, 10),
        program: Version(6, 10),
    },
    Feature {
        name: "parent",
        off: ("-n", "parent=0"),
        kernel: Version(6, 10),
        program: Version(6, 10),
    },
];

/// From xfs(5), mkfs.xfs(8) and Documentation/admin-guide/xfs.rst of Linux.
static CHOICES: &[Choice] = &[
    Choice::mount(&["noatime"], "reads write no access times"),
    Choice::mount(
        &["lazytime"],
        "times of files stay in memory for up to a day",
    ),
    Choice::mount(
        &["allocsize=64k"],
        "little is allocated beyond the end of a growing file",
    )
    .sort("allocsize"),
    Choice::mount(&["allocsize=1m"], "a growing file gets 1 MiB at once").sort("allocsize"),
    Choice::mount(&["logbsize=256k"], "the log is written in larger pieces"),
    Choice::mount(
        &["inode32"],
        "all inodes in the first groups, apart from data",
    ),
    Choice::mount(
        &["filestreams"],
        "each directory's files in a group of their own",
    ),
    Choice::mkfs(&["-l", "size=128m"], "a larger log is emptied less often"),
    Choice::mkfs(
        &["-i", "size=1024"],
        "inodes of 1 KiB hold longer directories and more extents",
    )
    .sort("inodes"),
    Choice::mkfs(
        &["-i", "size=256", "-m", "crc=0"],
        "old inodes, half as large, without checksums",
    )
    .risky("damaged metadata goes unnoticed; kernels drop this format")
    .sort("inodes"),
    Choice::mkfs(
        &["-m", "bigtime=0"],
        "times as before 2021, which end in 2038",
    ),
    Choice::mkfs(
        &["-m", "rmapbt=1"],
        "a tree of owners, which repairs need, kept with each change",
    )
    .sort("owners"),
    Choice::mkfs(&["-m", "rmapbt=0"], "no tree of owners to keep").sort("owners"),
    Choice::mkfs(&["-m", "reflink=0"], "no counts of shared extents to keep"),
    Choice::mkfs(&["-m", "finobt=0"], "no tree of free inodes to keep"),
    Choice::mkfs(
        &["-n", "size=16384"],
        "directory blocks of 16 KiB: flatter large directories",
    ),
    // mkfs.xfs refuses groups that are smaller than the least log, 64 MiB.
    Choice::mkfs(
        &["-d", "agcount=8"],
        "more groups that threads can allocate from at once",
    )
    .sort("groups"),
    Choice::mkfs(
        &["-d", "agcount=2"],
        "fewer groups: less seeking between them",
    )
    .sort("groups"),
];

impl FileSystem for Xfs {
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn choices(&self) -> &'static [Choice] {
        CHOICES
    }

    /// Linux removed the option in 4.19.
    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard::unflushed(&["nobarrier"])];
        HAZARDS
    }

    fn name(&self) -> &'static str {
        "xfs"
    }

    fn about(&self) -> &'static str {
        "SGI's file system: extents, allocation groups, a metadata journal."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn external_journal(&self, device: &Path, _: &[String]) -> Option<ExternalJournal> {
        let (logdev, device) = (
            format!("logdev={}", device.display()),
            device.display().to_string(),
        );
        Some(ExternalJournal {
            mkfs: vec!["-l".to_owned(), logdev.clone()],
            mount: vec![logdev],
            check: vec!["-l".to_owned(), device],
            ..ExternalJournal::default()
        })
    }

    fn project_quotas(&self) -> Option<&'static str> {
        Some("xfs,pquota")
    }

    /// From xfs_fsr(8).
    fn maintenance(&self, operation: Maintenance, point: &Path) -> Option<MaintenanceCommands> {
        (operation == Maintenance::Defragment).then(|| {
            MaintenanceCommands::only(vec![
                "xfs_fsr".to_owned(),
                point.to_string_lossy().into_owned(),
            ])
        })
    }

    fn maintenance_programs(&self) -> &'static [&'static str] {
        &["xfs_fsr"]
    }

    fn modules(&self) -> &'static [&'static str] {
        &["xfs"]
    }

    /// Returns the checksum that the driver requests from the kernel's cryptography, including the
    /// fast implementation.
    fn helper_modules(&self) -> &'static [&'static str] {
        &["crc32c_generic", "crc32c_intel"]
    }

    /// Returns the minimum of mkfs.xfs since version 5.19.
    fn minimum_size(&self) -> u64 {
        300 << 20
    }

    fn writes_in_place(&self) -> bool {
        true
    }

    /// Frees blocks that are preallocated beyond the ends of files, and empties the log. Otherwise
    /// a worker that runs every 30 seconds would write the contents of the log to their place in
    /// the middle of a trial.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        mount::free_speculative_blocks(idle.point);
        let options = mountinfo::at(idle.point)
            .map(|mount| mount.super_options)
            .unwrap_or_default();
        // The only option that a remount resets unless it is repeated.
        let keep: &[&str] = if options.iter().any(|option| option == "inode32") {
            &["inode32"]
        } else {
            &[]
        };
        mount::remount_read_only_and_back(idle.point, keep)
    }

    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        let off = kernel_compatibility::switched_off(NEW, user, oldest, program);
        // A repeated option adds to the first one, but mkfs.xfs refuses the same word twice. None
        // of these words is the user's.
        off.into_iter()
            .flat_map(|(option, words)| [option.to_owned(), words])
            .chain(user.iter().cloned())
            .collect()
    }

    /// Leaves the number of allocation groups to mkfs.xfs, which makes four on every slice of a
    /// single disk from 128 MiB to 4 TiB, and more if the device reports a stripe. The slice does
    /// not limit the log: since xfsprogs 5.19 mkfs.xfs refuses a log of less than 64 MiB, which is
    /// the size on a large disk. A log must fit into an allocation group, so the log is left to
    /// mkfs.xfs if the user asks for groups that may be too small for it.
    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        /// Bytes of a group that its headers may take.
        const HEADERS: u64 = 4 << 20;
        let joined = user
            .iter()
            .any(|word| word.starts_with("-l") && word.contains("size="));
        let decided = joined
            || user
                .windows(2)
                .any(|pair| pair[0] == "-l" && pair[1].contains("size="));
        let mut words = user.iter().flat_map(|word| word.split(','));
        let fits = |size: &u64| {
            words.all(|word| match word.trim_start_matches("-d").split_once('=') {
                Some(("agcount", count)) => count
                    .parse()
                    .is_ok_and(|count: u64| size + HEADERS <= bytes / count.max(1)),
                Some(("agsize", _)) => false,
                _ => true,
            })
        };
        let size = large.journal_bytes.filter(|_| !decided).filter(fits);
        size.map_or_else(Vec::new, |size| {
            vec!["-l".to_owned(), format!("size={}m", size >> 20)]
        })
    }

    fn journal(&self, device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        let number = |offset| file_system::bytes_at::<4>(device, offset).map(u32::from_be_bytes);
        let size = u64::from(number(SB_BLOCKSIZE)?) * u64::from(number(SB_LOGBLOCKS)?);
        let head = roots.sys.join("fs/xfs").join(name).join("log/log_head_lsn");
        let turns = move || log_turns(&std::fs::read_to_string(&head).ok()?, size);
        turns().map(|_| Journal::new(turns))
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("xfs_db", &["-r", "-c", "info"], device))
    }
}

/// Offsets in the superblock of the block size in bytes and of the log size in blocks: struct
/// xfs_dsb of xfs_format.h.
const SB_BLOCKSIZE: u64 = 4;
const SB_LOGBLOCKS: u64 = 96;

/// Converts `CYCLE:BLOCK`, the next write position in the log, into turns of a log of `size` bytes.
/// Blocks are sectors of 512 bytes.
fn log_turns(head: &str, size: u64) -> Option<f64> {
    let (cycle, block) = head.trim().split_once(':')?;
    let (cycle, block): (u32, u32) = (cycle.parse().ok()?, block.parse().ok()?);
    (size > 0).then(|| f64::from(cycle) + f64::from(block) * 512.0 / size as f64)
}

/// Parses the output of `xfs_db -c info`: sections that begin with a name and hold `key=value`
/// pairs. Features are the switches that are 1.
fn parse(text: &str) -> Inspection {
    const SWITCHES: [&str; 13] = [
        "crc",
        "finobt",
        "sparse",
        "rmapbt",
        "reflink",
        "bigtime",
        "inobtcount",
        "nrext64",
        "projid32bit",
        "exchange",
        "parent",
        "ftype",
        "attr2",
    ];
    let mut inspection = Inspection::default();
    let geometry = &mut inspection.geometry;
    let mut section = "";
    for line in text.lines() {
        section = line
            .split('=')
            .next()
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .unwrap_or(section);
        let mut log_blocks = None;
        let mut log_block_size = None;
        let words = line.split(|c: char| c.is_whitespace() || c == ',');
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            let number = value.parse::<u64>().ok();
            match (section, key) {
                ("data", "bsize") => geometry.block_size = number,
                ("meta-data", "isize") => geometry.inode_size = number,
                ("meta-data", "agcount") => geometry.groups = number,
                ("log", "bsize") => log_block_size = number,
                ("log", "blocks") => log_blocks = number,
                _ if value == "1" && SWITCHES.contains(&key) => {
                    inspection.features.push(key.to_owned())
                }
                _ => {}
            }
        }
        if let Some((blocks, size)) = log_blocks.zip(log_block_size) {
            geometry.journal_bytes = Some(blocks * size);
        }
    }
    inspection
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("xfs.options"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernel_gets_the_features_of_its_time() {
        let made = |oldest| Xfs.mkfs_for(&[], oldest, Some(Version(6, 18))).join(" ");
        assert_eq!(made(Version(6, 12)), "");
        assert_eq!(made(Version(6, 1)), "-i exchange=0 -n parent=0");
        assert_eq!(
            made(Version(5, 4)),
            "-m bigtime=0,inobtcount=0 -i nrext64=0,exchange=0 -n parent=0"
        );
        let user = ["-m".to_owned(), "bigtime=1".to_owned()];
        assert_eq!(
            Xfs.mkfs_for(&user, Version(5, 4), Some(Version(5, 15)))
                .join(" "),
            "-m inobtcount=0 -m bigtime=1"
        );
    }

    #[test]
    fn the_log_turns_with_its_cycles() {
        assert_eq!(log_turns("3:65536\n", 64 << 20), Some(3.5));
        assert_eq!(
            (log_turns("3", 64 << 20), log_turns("3:1", 0)),
            (None, None)
        );
    }

    #[test]
    fn xfs_info_is_read() {
        let text = "\
meta-data=/dev/loop0             isize=512    agcount=4, agsize=19200 blks
         =                       sectsz=512   attr=2, projid32bit=1
         =                       crc=1        finobt=1, sparse=1, rmapbt=0
data     =                       bsize=4096   blocks=76800, imaxpct=25
         =                       sunit=0      swidth=0 blks
naming   =version 2              bsize=4097   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=16384, version=2
realtime =none                   extsz=4096   blocks=0, rtextents=0
";
        let read = parse(text);
        let expected = Geometry {
            block_size: Some(4096),
            inode_size: Some(512),
            journal_bytes: Some(64 << 20),
            groups: Some(4),
            ..Geometry::default()
        };
        assert_eq!(read.geometry, expected);
        assert_eq!(
            read.features,
            ["projid32bit", "crc", "finobt", "sparse", "ftype"]
        );
        assert_eq!(parse(""), Inspection::default());
    }

    #[test]
    fn the_log_is_that_of_a_large_disk_unless_the_user_decides() {
        let large = Geometry {
            journal_bytes: Some(64 << 20),
            ..Geometry::default()
        };
        let of = |bytes, words: &str| {
            Xfs.fit(
                &large,
                bytes,
                &words.split(' ').map(str::to_owned).collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(20 << 30, "-m crc=0"), ["-l", "size=64m"]);
        assert_eq!(of(300 << 20, "-l version=2"), ["-l", "size=64m"]);
        assert!(of(1 << 30, "-l size=128m").is_empty() && of(1 << 30, "-lsize=128m").is_empty());
        assert!(
            of(360 << 20, "-d agcount=8").is_empty()
                && of(1 << 30, "-d su=64k,agsize=200m").is_empty()
        );
        assert_eq!(of(2 << 30, "-dagcount=8"), ["-l", "size=64m"]);
    }
}

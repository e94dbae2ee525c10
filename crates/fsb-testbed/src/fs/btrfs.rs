//! Btrfs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsb_model::{Geometry, Maintenance};
use fsb_sys::error::TestbedError;
use fsb_sys::{Roots, block, mount, read_trimmed};

use super::file_system::{
    Choice, DeviceSize, FileSystem, FirstWrites, Hazard, Idle, Inspection, Journal,
    MaintenanceCommands, SubvolumeCommands, Tools, ask_about,
};
use super::kernel_compatibility::{self, Feature, Version};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

pub(super) struct Btrfs;

/// `-K`: no discard.
static TOOLS: Tools = Tools {
    package: "btrfs-progs",
    mkfs: "mkfs.btrfs",
    arguments: &["-f", "-q", "-K"],
    version: "--version",
    others: &["btrfs"],
    check: &["btrfs", "check"],
};

/// From `mkfs.btrfs -O list-all` (the first number of each feature is the kernel) and the release
/// notes of btrfs-progs: block-group-tree is a default since 6.19, and `-O` accepts the free space
/// tree since 6.3.
static NEW: &[Feature] = &[
    Feature {
        name: "free-space-tree",
        off: ("-O", "^free-space-tree"),
        kernel: Version(4, 5),
        program: Version(6, 3),
    },
    Feature {
        name: "block-group-tree",
        off: ("-O", "^block-group-tree"),
        kernel: Version(6, 1),
        program: Version(6, 3),
    },
];

/// `BTRFS_SUPER_MAGIC`
const MAGIC: u64 = 0x9123_683E;

/// A new file reserves metadata until its data are written. The kernel grants reservations in
/// proportion to the space that belongs to no chunk, and commits when they exceed it. Measured in
/// docs/calibration.md, "Size of the slice".
static DEVICE_SIZE: DeviceSize = DeviceSize {
    least: 20 << 30,
    new_files,
    first_writes,
};

/// Bytes of metadata that a new file with data reserves in a tree with nodes of 16 KiB; more in
/// proportion to the node size.
const RESERVED_BY_FILE: f64 = 675_283.0;
const USUAL_NODE: f64 = 16_384.0;
/// Bytes of the largest chunk of data.
const DATA_CHUNK: u64 = 1 << 30;

/// Computes the new files whose reservations fit: the kernel grants the chunks of metadata and an
/// eighth of the space that could become such chunks (`calc_available_free_space` in
/// fs/btrfs/space-info.c). Agrees with the observed peaks within 14 % on devices of 320 MiB to 100
/// GiB (Linux 6.18).
fn new_files(name: &str, geometry: &Geometry, roots: &Roots) -> Option<u64> {
    let volume = volume(name, roots)?;
    let number = |kind: &str, file: &str| -> Option<u64> {
        read_trimmed(&volume.join("allocation").join(kind).join(file))?
            .parse()
            .ok()
    };
    let device = block::size(&volume.join("devices").join(name))?;
    let (chunks, on_disk) = (
        number("metadata", "total_bytes")?,
        number("metadata", "disk_total")?,
    );
    let others = ["data", "system"]
        .into_iter()
        .filter_map(|kind| number(kind, "disk_total"))
        .sum::<u64>();
    let copies = (on_disk / chunks.max(1)).max(1);
    let unallocated = device.saturating_sub(on_disk + others);
    let possible = (unallocated / copies).saturating_sub(DATA_CHUNK.min(device / 10));
    let granted = chunks + possible / 8;
    let by_file = RESERVED_BY_FILE
        * geometry
            .node_size
            .map_or(1.0, |bytes| bytes as f64 / USUAL_NODE);
    Some((granted as f64 / by_file) as u64)
}

/// From btrfs(5) and mkfs.btrfs(8).
static CHOICES: &[Choice] = &[
    Choice::mount(
        &["noatime"],
        "reads write no access times, which are expensive with copy on write",
    ),
    Choice::mount(
        &["compress=zstd:1"],
        "fewer bytes reach the disk, for little work",
    )
    .sort("data"),
    Choice::mount(&["compress=lzo"], "the cheapest compression to undo").sort("data"),
    Choice::mount(
        &["compress-force=zstd:3"],
        "compresses what looks random at first, too",
    )
    .sort("data"),
    Choice::mount(
        &["ssd"],
        "allocates in free pieces that are large enough for a write",
    )
    .sort("media"),
    Choice::mount(&["ssd_spread"], "looks for large free pieces only").sort("media"),
    Choice::mount(&["nossd"], "fills small holes, as on rotating disks").sort("media"),
    Choice::mount(&["space_cache=v2"], "free space is kept in a tree"),
    Choice::mount(&["max_inline=0"], "small files have blocks of their own").sort("inline"),
    Choice::mount(
        &["max_inline=3900"],
        "files below 4 KB are stored in the tree",
    )
    .sort("inline"),
    Choice::mount(
        &["thread_pool=8"],
        "more threads for checksums and compression",
    ),
    Choice::mount(&["notreelog"], "fsync commits everything"),
    Choice::mount(&["commit=120"], "commits every two minutes")
        .risky("a crash loses up to two minutes of unsynced changes"),
    Choice::mkfs(
        &["-n", "4096"],
        "small tree blocks: less is written for each change",
    )
    .sort("nodes")
    .following_size(),
    Choice::mkfs(&["-n", "65536"], "large tree blocks: flatter trees")
        .sort("nodes")
        .following_size(),
    Choice::mkfs(&["-m", "single"], "metadata is written once")
        .risky("no second copy of damaged metadata")
        .following_size(),
    Choice::mkfs(
        &["--csum", "xxhash"],
        "checksums that need no special instruction",
    ),
    Choice::mount(
        &["nodatacow"],
        "data is written over in place: no tree to rewrite for it",
    )
    .risky("no checksums of data, and torn writes after a crash")
    .sort("data"),
    Choice::mount(&["nodatasum"], "no checksums of data")
        .risky("damaged data goes unnoticed")
        .sort("data")
        .following_size(),
    Choice::mount(&["nobarrier"], "the disk's cache is not flushed"),
];

impl FileSystem for Btrfs {
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn choices(&self) -> &'static [Choice] {
        CHOICES
    }

    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard::unflushed(&["nobarrier"])];
        HAZARDS
    }

    fn device_size(&self) -> Option<&'static DeviceSize> {
        Some(&DEVICE_SIZE)
    }

    fn name(&self) -> &'static str {
        "btrfs"
    }

    fn about(&self) -> &'static str {
        "Copy on write, checksums, snapshots, optional compression."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["btrfs"]
    }

    /// Returns the checksums that it can be made with. The driver requests them from the kernel's
    /// cryptography.
    fn helper_modules(&self) -> &'static [&'static str] {
        &[
            "crc32c_generic",
            "crc32c_intel",
            "xxhash_generic",
            "sha256_generic",
            "blake2b_generic",
        ]
    }

    /// Returns the minimum that mkfs.btrfs requires with its default of duplicated metadata.
    fn minimum_size(&self) -> u64 {
        109 << 20
    }

    /// btrfs discards by itself, asynchronously, since Linux 6.2.
    fn discard_off(&self) -> Option<&'static str> {
        Some("nodiscard")
    }

    /// The cleaner drops what was deleted, and a commit follows, up to 30 seconds after a syncfs
    /// found nothing to do.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        mount::remount_read_only_and_back(idle.point, &[])
    }

    /// From btrfs-subvolume(8), btrfs-send(8) and btrfs-filesystem(8). A deleted subvolume is
    /// cleaned up before the next operation. Defragmented files are flushed.
    fn maintenance(&self, operation: Maintenance, point: &Path) -> Option<MaintenanceCommands> {
        let point = point.to_string_lossy();
        let made = format!("{point}/fsb-made");
        let create = words(&["btrfs", "subvolume", "create", &made]);
        let older = format!("{point}/fsb-older");
        let writable = |to: &str| words(&["btrfs", "subvolume", "snapshot", &point, to]);
        let snapshot = words(&["btrfs", "subvolume", "snapshot", "-r", &point, &made]);
        let delete_at = |path: &str| words(&["btrfs", "subvolume", "delete", "-c", path]);
        let delete = delete_at(&made);
        let clean = words(&["btrfs", "subvolume", "sync", &point]);
        let (before, timed, after) = match operation {
            Maintenance::Check | Maintenance::Freeze | Maintenance::Scrub => return None,
            Maintenance::Shrink => {
                let stat = rustix::fs::statvfs(&*point).ok()?;
                // The kernel rounds sizes to sectors.
                let less = format!("-{}", ((stat.f_blocks * stat.f_frsize / 4) >> 20) << 20);
                let resize = |size: &str| words(&["btrfs", "filesystem", "resize", size, &point]);
                (Vec::new(), resize(&less), vec![resize("max")])
            }
            Maintenance::Defragment => (
                Vec::new(),
                words(&["btrfs", "filesystem", "defragment", "-r", "-f", &point]),
                Vec::new(),
            ),
            Maintenance::Subvolume => (Vec::new(), create, vec![delete, clean]),
            Maintenance::Snapshot => (Vec::new(), snapshot, vec![delete, clean]),
            Maintenance::SnapshotWritable => (Vec::new(), writable(&made), vec![delete, clean]),
            Maintenance::SnapshotDelete => (vec![snapshot], delete, vec![clean]),
            Maintenance::Send => (
                vec![snapshot],
                words(&["btrfs", "send", "-q", "-f", "/dev/null", &made]),
                vec![delete, clean],
            ),
            // Snapshots that differ in nothing would make an empty stream.
            Maintenance::SendIncremental => (
                vec![
                    writable(&older),
                    words(&["chmod", "-R", "a+x", &older]),
                    words(&["btrfs", "property", "set", "-ts", &older, "ro", "true"]),
                    snapshot,
                ],
                words(&[
                    "btrfs",
                    "send",
                    "-q",
                    "-p",
                    &older,
                    "-f",
                    "/dev/null",
                    &made,
                ]),
                vec![delete, delete_at(&older), clean],
            ),
        };
        Some(MaintenanceCommands {
            before,
            timed,
            after,
        })
    }

    /// From btrfs-subvolume(8), btrfs-quota(8) and btrfs-qgroup(8). Quotas that are off are on only
    /// while there is a limit.
    fn subvolume(
        &self,
        point: &Path,
        device: &Path,
        directory: &Path,
        space: Option<u64>,
    ) -> Option<SubvolumeCommands> {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        let are_on =
            volume(&name, &Roots::default()).is_some_and(|volume| volume.join("qgroups").exists());
        let [point, directory] = [point, directory].map(Path::to_string_lossy);
        let mut commands = SubvolumeCommands {
            make: vec![words(&["btrfs", "subvolume", "create", &directory])],
            remove: vec![
                words(&["btrfs", "subvolume", "delete", "-c", &directory]),
                words(&["btrfs", "subvolume", "sync", &point]),
            ],
        };
        if let Some(space) = space {
            if !are_on {
                commands
                    .make
                    .push(words(&["btrfs", "quota", "enable", &point]));
                commands
                    .remove
                    .push(words(&["btrfs", "quota", "disable", &point]));
            }
            commands.make.extend([
                words(&["btrfs", "quota", "rescan", "-w", &point]),
                words(&["btrfs", "qgroup", "limit", &space.to_string(), &directory]),
            ]);
        }
        Some(commands)
    }

    fn scrubs(&self) -> bool {
        true
    }

    fn magic(&self) -> Option<u64> {
        Some(MAGIC)
    }

    fn takes_nocow(&self) -> bool {
        true
    }

    fn numbers_volumes(&self) -> bool {
        true
    }

    /// A volume may have several devices, and one read-ahead.
    fn own_read_ahead(&self, name: &str, roots: &Roots) -> Option<PathBuf> {
        Some(volume(name, roots)?.join("bdi/read_ahead_kb"))
    }

    /// Counts each commit as two turns of a journal. Btrfs has no journal, and a commit writes all
    /// changes.
    fn journal(&self, _device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        const TURNS: f64 = 2.0;
        let stats = volume(name, roots)?.join("commit_stats");
        let turns = move || Some(commits(&std::fs::read_to_string(&stats).ok()?)? as f64 * TURNS);
        turns().map(|_| Journal::new(turns))
    }

    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        kernel_compatibility::joined(
            user,
            kernel_compatibility::switched_off(NEW, user, oldest, program),
        )
    }

    /// Versions of mkfs.btrfs choose profiles by the device and, below 1 GiB, mixed block groups.
    fn fit(&self, large: &Geometry, _: u64, user: &[String]) -> Vec<String> {
        let decided = |keys: [&str; 2]| {
            let mixed = ["-M", "--mixed"];
            user.iter()
                .any(|word| keys.iter().chain(&mixed).any(|key| word.starts_with(key)))
        };
        let mut arguments = Vec::new();
        for (letter, long, name) in [("-d", "--data", "data"), ("-m", "--metadata", "metadata")] {
            if let Some(profile) = large
                .profiles
                .get(name)
                .filter(|_| !decided([letter, long]))
            {
                arguments.extend([letter.to_owned(), profile.to_lowercase()]);
            }
        }
        arguments
    }

    fn inspect(&self, device: &Path) -> Inspection {
        let mut inspection = parse(&ask_about(
            "btrfs",
            &["inspect-internal", "dump-super"],
            device,
        ));
        let chunks = ask_about(
            "btrfs",
            &["inspect-internal", "dump-tree", "-t", "chunk"],
            device,
        );
        inspection.geometry.profiles = profiles(&chunks);
        inspection
    }
}

/// Reads the chunks of a new file system. Each copy of a chunk is a stripe, which is filled from
/// its start. The first data chunk behind those that mkfs makes follows the last stripe.
///
/// Data go anywhere within a chunk. Before the chunks are full, a file may begin the next one.
fn first_writes(device: &Path, files: u64) -> Option<FirstWrites> {
    parse_first_writes(
        &ask_about(
            "btrfs",
            &["inspect-internal", "dump-tree", "-t", "chunk"],
            device,
        ),
        files,
    )
}

fn parse_first_writes(chunks: &str, files: u64) -> Option<FirstWrites> {
    /// Bytes at the start of each stripe that are written before those behind them. Some thousand
    /// calls of fsync write 100 MiB of log trees before a place is used again.
    const START: u64 = 256 << 20;
    /// Bytes at the start of the next chunk of data.
    const NEXT_DATA: u64 = 100 << 20;
    fn number_after(line: &str, name: &str) -> Option<u64> {
        line.split_whitespace()
            .skip_while(|word| *word != name)
            .nth(1)?
            .parse()
            .ok()
    }
    let (mut length, mut found) = (0, FirstWrites::default());
    for line in chunks.lines().map(str::trim) {
        if line.starts_with("length ") {
            length = number_after(line, "length")?;
        } else if line.starts_with("stripe ") {
            let at = number_after(line, "offset")?;
            found.places.push(at..at + length.min(START));
            found.data = found.data.max(at + length);
        }
    }
    found
        .places
        .push(found.data..found.data + files.next_multiple_of(DATA_CHUNK) + NEXT_DATA);
    (found.data > 0).then_some(found)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the directory of the mounted volume that the block device `name` is part of.
fn volume(name: &str, roots: &Roots) -> Option<PathBuf> {
    let volumes = std::fs::read_dir(roots.sys.join("fs/btrfs"))
        .into_iter()
        .flatten()
        .flatten();
    volumes
        .map(|entry| entry.path())
        .find(|path| path.join("devices").join(name).exists())
}

/// Parses the commits since the volume was mounted from its commit_stats.
fn commits(stats: &str) -> Option<u64> {
    stats
        .lines()
        .find_map(|line| line.strip_prefix("commits "))?
        .trim()
        .parse()
        .ok()
}

/// Parses the superblock. The features are in parentheses below the two flag words, separated by
/// `|`.
fn parse(text: &str) -> Inspection {
    let mut inspection = Inspection::default();
    let mut in_flags = false;
    for line in text.lines() {
        if line.starts_with(char::is_whitespace) {
            if in_flags {
                let names = line
                    .split(['(', ')', '|'])
                    .map(str::trim)
                    .filter(|name| !name.is_empty());
                inspection.features.extend(names.map(str::to_lowercase));
            }
            continue;
        }
        let mut words = line.split_whitespace();
        let key = words.next().unwrap_or_default();
        in_flags = matches!(key, "compat_ro_flags" | "incompat_flags");
        let mut number = || words.next().and_then(|number| number.parse().ok());
        match key {
            "sectorsize" => inspection.geometry.block_size = number(),
            "nodesize" => inspection.geometry.node_size = number(),
            _ => {}
        }
    }
    inspection
}

/// Returns the profiles of the chunk tree's items, by the contents of the chunks: `type
/// METADATA|DUP`. A chunk of mixed block groups holds `data+metadata`. Programs before btrfs-progs
/// 5.x omit `single`.
fn profiles(chunks: &str) -> BTreeMap<String, String> {
    let types = chunks
        .lines()
        .filter_map(|line| line.split_once(" type "))
        .map(|(_, rest)| rest);
    fn profile_of(words: &str) -> Option<(String, String)> {
        let (kinds, profile): (Vec<&str>, Vec<&str>) = words
            .split_whitespace()
            .next()?
            .split('|')
            .partition(|word| ["DATA", "METADATA", "SYSTEM"].contains(word));
        let name = kinds.join("+").to_lowercase();
        (!name.is_empty()).then(|| {
            (
                name,
                profile
                    .first()
                    .map_or("single", |profile| profile)
                    .to_owned(),
            )
        })
    }
    types.filter_map(profile_of).collect()
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("btrfs.options"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_those_of_the_chunks() {
        let text = "\t\tio_align 4096 io_width 4096 sector_size 4096 type 0\n\
            \t\tlength 8388608 owner 2 stripe_len 65536 type DATA|single\n\
            \t\tlength 8388608 owner 2 stripe_len 65536 type SYSTEM|DUP\n\
            \t\tlength 1073741824 owner 2 stripe_len 65536 type METADATA|DUP\n";
        let of = |text: &str| {
            profiles(text)
                .into_iter()
                .map(|(name, of)| format!("{name}={of}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(text), ["data=single", "metadata=DUP", "system=DUP"]);
        assert_eq!(
            of("length 1 owner 2 stripe_len 1 type DATA|METADATA\n"),
            ["data+metadata=single"]
        );
        assert!(of("").is_empty());
    }

    #[test]
    fn profiles_are_those_of_a_large_disk_unless_the_user_decides() {
        let large = Geometry {
            profiles: profiles(" type DATA|single\n type METADATA|DUP\n"),
            ..Geometry::default()
        };
        let of = |words: &str| {
            Btrfs
                .fit(
                    &large,
                    1 << 30,
                    &words.split(' ').map(str::to_owned).collect::<Vec<_>>(),
                )
                .join(" ")
        };
        assert_eq!(of(""), "-d single -m dup");
        assert_eq!([of("-m single"), of("--mixed")], ["-d single", ""]);
    }

    #[test]
    fn metadata_is_first_written_at_the_start_of_each_stripe_and_data_behind_the_last() {
        // btrfs-progs 6.2, 100 GiB.
        let text = "\titem 0 key (DEV_ITEMS DEV_ITEM 1) itemoff 16185 itemsize 98\n\
            \t\tdevid 1 total_bytes 107374182400 bytes_used 2172649472\n\
            \titem 1 key (FIRST_CHUNK_TREE CHUNK_ITEM 13631488) itemoff 16105 itemsize 80\n\
            \t\tlength 8388608 owner 2 stripe_len 65536 type DATA|single\n\t\tnum_stripes 1 sub_stripes 1\n\
            \t\t\tstripe 0 devid 1 offset 13631488\n\
            \titem 3 key (FIRST_CHUNK_TREE CHUNK_ITEM 30408704) itemoff 15881 itemsize 112\n\
            \t\tlength 1073741824 owner 2 stripe_len 65536 type METADATA|DUP\n\
            \t\t\tstripe 0 devid 1 offset 38797312\n\t\t\tdev_uuid bf21\n\t\t\tstripe 1 devid 1 offset 1112539136\n";
        let mib = |at: u64| at << 20;
        let found = parse_first_writes(text, mib(661)).unwrap();
        let metadata = [mib(13)..mib(21), mib(37)..mib(293), mib(1061)..mib(1317)];
        assert_eq!((&found.places[..3], found.data), (&metadata[..], mib(2085)));
        assert_eq!(found.places[3], mib(2085)..mib(2085 + 1024 + 100));
        assert_eq!(
            parse_first_writes("leaf 22036480 items 4 free space 15781\n", 1),
            None
        );
    }

    #[test]
    fn files_that_fit_follow_the_space_that_belongs_to_no_chunk() {
        const MIB: u64 = 1 << 20;
        let files = |device: u64, chunk: u64, node_size| {
            let tree = tempfile::tempdir().unwrap();
            let volume = tree.path().join("fs/btrfs/b7c5");
            let write = |path: &str, value: u64| {
                let path = volume.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, format!("{value}\n")).unwrap();
            };
            write("devices/sdz/size", device / 512);
            for (kind, total, copies) in [
                ("data", 8 * MIB, 1),
                ("system", 8 * MIB, 2),
                ("metadata", chunk, 2),
            ] {
                write(&format!("allocation/{kind}/total_bytes"), total);
                write(&format!("allocation/{kind}/disk_total"), total * copies);
            }
            let roots = Roots {
                proc: tree.path().to_owned(),
                sys: tree.path().to_owned(),
            };
            let geometry = Geometry {
                node_size,
                ..Geometry::default()
            };
            (
                new_files("sdz", &geometry, &roots),
                new_files("sdy", &geometry, &roots),
            )
        };
        // Limits of 64 MiB on 700 MiB, and of 1694 MiB on 25 GiB.
        assert_eq!(files(700 * MIB, 35 * MIB, None), (Some(99), None));
        assert_eq!(files(700 * MIB, 35 * MIB, Some(65_536)).0, Some(24));
        let large = files(25_600 * MIB, 256 * MIB, Some(16_384)).0.unwrap();
        assert!((2500..2800).contains(&large), "{large}");
    }

    #[test]
    fn commits_are_counted() {
        assert_eq!(commits("commits 17\nlast_commit_ms 3\n"), Some(17));
        assert_eq!(commits("last_commit_ms 3\n"), None);
    }

    #[test]
    fn the_superblock_dump_is_read() {
        let text = "flags\t\t\t0x1\n\t\t\t( WRITTEN )\nsectorsize\t\t4096\nnodesize\t\t16384\n\
            compat_ro_flags\t\t0x3\n\t\t\t( FREE_SPACE_TREE |\n\t\t\t  FREE_SPACE_TREE_VALID )\n\
            incompat_flags\t\t0x361\n\t\t\t( MIXED_BACKREF )\ncache_generation\t0\n";
        let read = parse(text);
        assert_eq!(
            (read.geometry.block_size, read.geometry.node_size),
            (Some(4096), Some(16_384))
        );
        assert_eq!(
            read.features,
            ["free_space_tree", "free_space_tree_valid", "mixed_backref"]
        );
    }
}

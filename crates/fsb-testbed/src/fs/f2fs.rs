//! F2FS.

use std::path::Path;

use fsb_model::Geometry;

use super::file_system;
use super::file_system::{Cause, Choice, FileSystem, Hazard, Inspection, Tools, ask_about};
use crate::declared::OptionGroup::{Access, Data, Durability, Layout, Resources};
use crate::declared::{DeclaredOption, OptionKind};

pub(super) struct F2fs;

/// `-t 0`: no discard.
static TOOLS: Tools = Tools {
    package: "f2fs-tools",
    mkfs: "mkfs.f2fs",
    arguments: &["-f", "-q", "-t", "0"],
    version: "-V",
    others: &["dump.f2fs"],
    // Without -f it looks no further than the checkpoint.
    check: &["fsck.f2fs", "-f", "--dry-run"],
};

/// From Documentation/filesystems/f2fs.rst of Linux.
static CHOICES: &[Choice] = &[
    Choice::mount(&["noatime"], "reads write no access times"),
    Choice::mount(&["mode=lfs"], "writes at the ends of its logs only"),
    Choice::mount(&["noinline_data"], "small files have blocks of their own"),
    Choice::mount(&["noextent_cache"], "no memory of extents to keep"),
    Choice::mount(
        &["fsync_mode=strict"],
        "fsync keeps directories as other file systems do",
    )
    .sort("fsync"),
    Choice::mount(
        &["fsync_mode=nobarrier"],
        "the disk's cache is not flushed at fsync",
    )
    .sort("fsync"),
];

impl FileSystem for F2fs {
    fn options(&self) -> &'static [DeclaredOption] {
        OPTIONS
    }

    fn choices(&self) -> &'static [Choice] {
        CHOICES
    }

    /// From Documentation/filesystems/f2fs.rst of Linux.
    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[
            Hazard::unflushed(&["fsync_mode=nobarrier", "nobarrier"]),
            Hazard {
                cause: Cause::Options(&["checkpoint=disable"]),
                loss: "a crash loses all changes since the mount",
            },
        ];
        HAZARDS
    }

    fn name(&self) -> &'static str {
        "f2fs"
    }

    fn about(&self) -> &'static str {
        "The flash-friendly file system: written as logs, cleaned in segments."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["f2fs"]
    }

    /// Returns the checksum that the driver requests from the kernel's cryptography, including the
    /// fast implementation.
    fn helper_modules(&self) -> &'static [&'static str] {
        &["crc32_generic", "crc32_pclmul"]
    }

    fn minimum_size(&self) -> u64 {
        52 << 20
    }

    /// f2fs discards by itself, in its own thread.
    fn discard_off(&self) -> Option<&'static str> {
        Some("nodiscard")
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("dump.f2fs", &["-d", "0"], device))
    }
}

/// Parses lines such as `Info: superblock features = 2008 :  extra_attr lost_found`. Blocks are as
/// large as pages; the tools of this format print no other size.
fn parse(text: &str) -> Inspection {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
    };
    let Some(features) = value("Info: superblock features =") else {
        return Inspection::default();
    };
    let names = features.split_once(':').map_or("", |(_, names)| names);
    let layout = |name: &str, key: &str| Some((name.to_owned(), value(key)?.to_owned()));
    let sections = layout("segments per section", "Info: Segments per section =");
    let zones = layout("sections per zone", "Info: Sections per zone =");
    Inspection {
        features: names.split_whitespace().map(str::to_owned).collect(),
        geometry: Geometry {
            block_size: Some(rustix::param::page_size() as u64),
            profiles: sections.into_iter().chain(zones).collect(),
            ..Geometry::default()
        },
    }
}

/// From Documentation/filesystems/f2fs.rst of Linux.
static OPTIONS: &[DeclaredOption] = &[
    DeclaredOption::value(
        Durability,
        "fsync_mode",
        OptionKind::Word(&["posix", "strict", "nobarrier"]),
        "posix",
        "what fsync guarantees",
    ),
    DeclaredOption::flag(
        Durability,
        "barrier",
        "flush the cache of the device (default)",
    ),
    DeclaredOption::flag(
        Durability,
        "nobarrier",
        "never flush the cache of the device",
    ),
    DeclaredOption::flag(Durability, "flush_merge", "merge concurrent flushes"),
    DeclaredOption::flag(Durability, "noflush_merge", "issue each flush on its own"),
    DeclaredOption::flag(Durability, "data_flush", "write data before checkpoints"),
    DeclaredOption::value(
        Durability,
        "checkpoint",
        OptionKind::Text("enable, disable, or disable:SPACE"),
        "enable",
        "write checkpoints",
    ),
    DeclaredOption::flag(
        Durability,
        "checkpoint_merge",
        "a thread merges requests for checkpoints",
    ),
    DeclaredOption::flag(
        Durability,
        "nocheckpoint_merge",
        "each process writes its own checkpoint",
    ),
    DeclaredOption::flag(
        Durability,
        "disable_roll_forward",
        "do not recover synced data after a crash",
    ),
    DeclaredOption::flag(
        Durability,
        "norecovery",
        "do not recover synced data after a crash",
    ),
    DeclaredOption::value(
        Durability,
        "errors",
        OptionKind::Word(&["panic", "continue", "remount-ro"]),
        "continue",
        "what happens after an error",
    ),
    DeclaredOption::flag(
        Durability,
        "fastboot",
        "prefer a fast mount after a shutdown",
    ),
    DeclaredOption::flag(
        Data,
        "inline_data",
        "small files are stored in their inodes (default)",
    ),
    DeclaredOption::flag(
        Data,
        "noinline_data",
        "small files have blocks of their own",
    ),
    DeclaredOption::flag(
        Data,
        "inline_dentry",
        "small directories are stored in their inodes (default)",
    ),
    DeclaredOption::flag(
        Data,
        "noinline_dentry",
        "small directories have blocks of their own",
    ),
    DeclaredOption::flag(
        Data,
        "inline_xattr",
        "extended attributes are stored in inodes (default)",
    ),
    DeclaredOption::flag(
        Data,
        "noinline_xattr",
        "extended attributes have blocks of their own",
    ),
    DeclaredOption::value(
        Data,
        "inline_xattr_size",
        OptionKind::Number(0..=4096),
        "",
        "words for extended attributes in inodes",
    ),
    DeclaredOption::value(
        Data,
        "compress_algorithm",
        OptionKind::Level(&["lzo", "lz4", "zstd", "lzo-rle"]),
        "lz4",
        "algorithm of compression",
    ),
    DeclaredOption::value(
        Data,
        "compress_log_size",
        OptionKind::Number(2..=8),
        "2",
        "blocks of a compressed cluster, as a power of two",
    ),
    DeclaredOption::value(
        Data,
        "compress_extension",
        OptionKind::Text("extension"),
        "",
        "compress files with this extension",
    ),
    DeclaredOption::value(
        Data,
        "nocompress_extension",
        OptionKind::Text("extension"),
        "",
        "do not compress files with this extension",
    ),
    DeclaredOption::flag(Data, "compress_chksum", "checksums of compressed clusters"),
    DeclaredOption::value(
        Data,
        "compress_mode",
        OptionKind::Word(&["fs", "user"]),
        "fs",
        "who decides what is compressed",
    ),
    DeclaredOption::flag(Data, "compress_cache", "cache compressed blocks"),
    file_system::ENCRYPT,
    DeclaredOption::flag(Data, "inlinecrypt", "encrypt by blk-crypto"),
    DeclaredOption::value(
        Data,
        "test_dummy_encryption",
        OptionKind::Text("v1 or v2"),
        "",
        "encrypt all new files with a dummy key",
    )
    .bare(),
    DeclaredOption::value(
        Layout,
        "mode",
        OptionKind::Word(&["adaptive", "lfs", "fragment:segment", "fragment:block"]),
        "adaptive",
        "write in logs only, or into holes, too",
    ),
    DeclaredOption::value(
        Layout,
        "active_logs",
        OptionKind::Number(2..=6),
        "6",
        "logs that are open at the same time: 2, 4 or 6",
    ),
    DeclaredOption::value(
        Layout,
        "alloc_mode",
        OptionKind::Word(&["default", "reuse"]),
        "default",
        "policy of block allocation",
    ),
    DeclaredOption::value(
        Layout,
        "background_gc",
        OptionKind::Word(&["on", "off", "sync"]),
        "on",
        "collect garbage in the background",
    ),
    DeclaredOption::flag(
        Layout,
        "gc_merge",
        "the collector's thread serves foreground requests, too",
    ),
    DeclaredOption::flag(
        Layout,
        "nogc_merge",
        "foreground requests collect garbage themselves",
    ),
    DeclaredOption::flag(Layout, "atgc", "collect garbage by the age of blocks"),
    DeclaredOption::flag(Layout, "discard", "discard freed blocks (default)"),
    DeclaredOption::flag(Layout, "nodiscard", "do not discard freed blocks"),
    DeclaredOption::value(
        Layout,
        "discard_unit",
        OptionKind::Word(&["block", "segment", "section"]),
        "block",
        "unit of discards",
    ),
    DeclaredOption::flag(Layout, "heap", "allocate from the end of the device"),
    DeclaredOption::flag(Layout, "no_heap", "allocate from the start of the device"),
    DeclaredOption::value(
        Layout,
        "reserve_root",
        OptionKind::Number(0..=4294967295),
        "0",
        "blocks that are reserved for root",
    ),
    DeclaredOption::value(
        Layout,
        "io_bits",
        OptionKind::Number(0..=8),
        "0",
        "size of a write, as a power of two of blocks",
    ),
    DeclaredOption::value(
        Layout,
        "whint_mode",
        OptionKind::Word(&["off", "user-based", "fs-based"]),
        "off",
        "how write hints are used (before Linux 5.18)",
    ),
    DeclaredOption::flag(
        Layout,
        "disable_ext_identify",
        "ignore the list of file extensions",
    ),
    DeclaredOption::flag(
        Resources,
        "extent_cache",
        "keep extents in memory (default)",
    ),
    DeclaredOption::flag(Resources, "noextent_cache", "keep no extents in memory"),
    DeclaredOption::flag(
        Resources,
        "age_extent_cache",
        "keep the age of extents in memory",
    ),
    DeclaredOption::value(
        Resources,
        "memory",
        OptionKind::Word(&["normal", "low"]),
        "normal",
        "use of memory",
    ),
    DeclaredOption::value(
        Resources,
        "fault_injection",
        OptionKind::Number(0..=4294967295),
        "",
        "rate of injected faults",
    ),
    DeclaredOption::value(
        Resources,
        "fault_type",
        OptionKind::Number(0..=4294967295),
        "",
        "kinds of injected faults",
    ),
    file_system::USER_XATTR_BY_DEFAULT,
    file_system::NO_USER_XATTR,
    file_system::ACL_BY_DEFAULT,
    DeclaredOption::flag(Access, "noacl", "no access control lists"),
    file_system::RESERVED_USER,
    file_system::RESERVED_GROUP,
    DeclaredOption::value(
        Access,
        "usrjquota",
        OptionKind::Text("file"),
        "",
        "file of journaled quotas of users",
    )
    .bare(),
    DeclaredOption::value(
        Access,
        "grpjquota",
        OptionKind::Text("file"),
        "",
        "file of journaled quotas of groups",
    )
    .bare(),
    DeclaredOption::value(
        Access,
        "prjjquota",
        OptionKind::Text("file"),
        "",
        "file of journaled quotas of projects",
    )
    .bare(),
    DeclaredOption::value(
        Access,
        "jqfmt",
        OptionKind::Word(&["vfsold", "vfsv0", "vfsv1"]),
        "",
        "format of journaled quotas",
    ),
    DeclaredOption::flag(Access, "prjquota", "limits space by project"),
    DeclaredOption::value(
        Access,
        "lookup_mode",
        OptionKind::Word(&["perf", "compat", "auto"]),
        "",
        "how names without case are found",
    ),
    DeclaredOption::flag(Access, "quota", "counts space by user"),
    DeclaredOption::flag(
        Access,
        "noquota",
        "counts no space by user, group or project",
    ),
    file_system::USER_QUOTA,
    file_system::GROUP_QUOTA,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dump_f2fs_is_read() {
        let text = "Info: Debug level = 0\nInfo: MKFS version\n  \"Linux version 6.1\"\n\
            Info: superblock features = 2008 :  extra_attr lost_found\nInfo: Segments per section = 1\n";
        let read = parse(text);
        assert!(read.geometry.block_size.is_some());
        assert_eq!(read.geometry.profiles["segments per section"], "1");
        assert_eq!(read.features, ["extra_attr", "lost_found"]);
        assert!(
            parse("Info: superblock features = 0 : \n")
                .features
                .is_empty()
        );
        assert_eq!(parse(""), Inspection::default());
    }
}

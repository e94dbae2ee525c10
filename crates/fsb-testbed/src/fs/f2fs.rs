//! F2FS.

use std::path::Path;

use fsb_model::Geometry;

use super::file_system::{Cause, Choice, FileSystem, Hazard, Inspection, Tools, ask_about};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

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
        &OPTIONS
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

static OPTIONS: OptionTable = OptionTable::new(include_str!("f2fs.options"));

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

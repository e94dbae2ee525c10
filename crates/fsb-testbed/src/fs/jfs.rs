//! JFS.

use std::path::Path;

use fsb_model::Geometry;

use super::file_system::{
    self, Cause, FileSystem, Hazard, Inspection, Tools, ask_about, journal_for,
};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

pub(super) struct Jfs;

/// mkfs.jfs discards nothing and leaves no deferred work.
static TOOLS: Tools = Tools {
    package: "jfsutils",
    mkfs: "mkfs.jfs",
    arguments: &["-q"],
    version: "-V",
    others: &["jfs_tune"],
    check: &["fsck.jfs", "-n", "-f"],
};

impl FileSystem for Jfs {
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    /// From Documentation/admin-guide/jfs.rst of Linux.
    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard::no_journal(Cause::Options(&["nointegrity"]))];
        HAZARDS
    }

    fn name(&self) -> &'static str {
        "jfs"
    }

    fn about(&self) -> &'static str {
        "IBM's journaled file system: extents, inodes made as needed, a metadata journal."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["jfs"]
    }

    /// The mount option `iocharset=utf8` needs this module.
    fn helper_modules(&self) -> &'static [&'static str] {
        &["nls_utf8"]
    }

    fn minimum_size(&self) -> u64 {
        16 << 20
    }

    /// mkfs.jfs gives the log 0.4 % of the device, and refuses a tenth of it.
    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        let decided = user
            .iter()
            .any(|word| word.starts_with("-s") || word.starts_with("-j"));
        let size = large
            .journal_bytes
            .filter(|_| !decided)
            .map(|log| journal_for(bytes, log).min(bytes / 11) >> 20);
        size.filter(|size| *size > 0)
            .map_or_else(Vec::new, |size| vec!["-s".to_owned(), size.to_string()])
    }

    fn inspect(&self, device: &Path) -> Inspection {
        let mut inspection = parse(&ask_about("jfs_tune", &["-l"], device));
        let log = file_system::bytes_at::<4>(device, S_LOGPXD)
            .map(|word| u64::from(u32::from_le_bytes(word) & 0xff_ffff));
        inspection.geometry.journal_bytes = log
            .zip(inspection.geometry.block_size)
            .map(|(blocks, size)| blocks * size)
            .filter(|bytes| *bytes > 0);
        inspection
    }
}

/// The offset of the extent of the log in the superblock, which begins at byte 32768. Its lower 24
/// bits count blocks: s_logpxd of fs/jfs/jfs_superblock.h.
const S_LOGPXD: u64 = 32_768 + 72;

fn parse(text: &str) -> Inspection {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
    };
    let flags = value("JFS flags:").unwrap_or_default().split_whitespace();
    let flags = flags.map(|flag| flag.trim_start_matches("JFS_").to_lowercase());
    Inspection {
        features: value("JFS version:")
            .map(|number| format!("version {number}"))
            .into_iter()
            .chain(flags)
            .collect(),
        geometry: Geometry {
            block_size: value("Aggregate block size:")
                .and_then(|text| text.split_whitespace().next()?.parse().ok()),
            ..Geometry::default()
        },
    }
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("jfs.options"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jfs_tune_is_read() {
        let text = "jfs_tune version 1.1.15, 04-Mar-2011\n\nJFS filesystem superblock:\n\n\
            JFS magic number:\t'JFS1'\nJFS version:\t\t1\nJFS state:\t\tclean\n\
            JFS flags:\t\tJFS_LINUX  JFS_COMMIT  JFS_GROUPCOMMIT  JFS_INLINELOG  \n\
            Aggregate block size:\t4096 bytes\nPhysical block size:\t512 bytes\n";
        let read = parse(text);
        assert_eq!(read.geometry.block_size, Some(4096));
        assert_eq!(
            read.features,
            ["version 1", "linux", "commit", "groupcommit", "inlinelog"]
        );
        assert_eq!(parse(""), Inspection::default());
    }
}

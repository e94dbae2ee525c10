//! ReiserFS, which Linux 6.13 removed.

use std::path::Path;

use fsb_model::Geometry;

use super::file_system::{FileSystem, Inspection, Tools, ask_about};
use super::hazard::{Cause, Hazard};

pub(super) struct Reiserfs;

/// `-ff`: on a whole device, without asking. It discards nothing and leaves nothing for later.
static TOOLS: Tools = Tools {
    package: "reiserfsprogs",
    mkfs: "mkfs.reiserfs",
    arguments: &["-ff", "-q"],
    version: "-V",
    others: &["debugreiserfs"],
};

impl FileSystem for Reiserfs {
    /// From mount(8).
    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[
            Hazard::unflushed(&["barrier=none"]),
            Hazard::writeback(&["data=writeback"]),
            Hazard::no_journal(Cause::Options(&["nolog"])),
        ];
        HAZARDS
    }

    fn name(&self) -> &'static str {
        "reiserfs"
    }

    fn about(&self) -> &'static str {
        "ReiserFS 3.6: one balanced tree, tails of files packed (notail turns that off). Gone since Linux 6.13."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["reiserfs"]
    }

    /// The journal of 8193 blocks is most of it.
    fn minimum_size(&self) -> u64 {
        33 << 20
    }

    /// Seen in Linux 6.1: three blocks and two flushes each time, also after a remount as read-only and back.
    fn note(&self) -> Option<&'static str> {
        Some("reiserfs commits its superblock every 5 seconds, whether or not anything changed (12 KiB each)")
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("debugreiserfs", &[], device))
    }
}

/// The format, the journal and the hash stand for the features, which have no names.
fn parse(text: &str) -> Inspection {
    let value = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
    let format = text.lines().find_map(|line| line.split_once(" of format ")).map(|(_, format)| {
        let words: Vec<&str> = format.split_whitespace().collect();
        match words[..] {
            [number, "with", kind, "journal"] => vec![format!("format {number}"), format!("{kind} journal")],
            _ => vec![format!("format {format}")],
        }
    });
    let hash = value("Hash function used to sort names:").map(|name| format!("hash {}", name.trim_matches('"')));
    let number = |key: &str| value(key).and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    let block_size = number("Blocksize:");
    Inspection {
        features: format.unwrap_or_default().into_iter().chain(hash).collect(),
        geometry: Geometry {
            block_size,
            // The journal's parameters are the only ones that have a size.
            journal_bytes: number("Size ").zip(block_size).map(|(blocks, size)| blocks * size),
            ..Geometry::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debugreiserfs_is_read() {
        let text = "Filesystem state: consistent\n\n\
            Reiserfs super block in block 16 on 0xfe00 of format 3.6 with standard journal\n\
            Count of blocks on the device: 131072\nBlocksize: 4096\nHash function used to sort names: \"r5\"\n\
            Journal parameters:\n\tDevice [0x0]\n\tSize 8193 blocks (including 1 for journal header) (first block 18)\n";
        let read = parse(text);
        assert_eq!(read.geometry.block_size, Some(4096));
        assert_eq!(read.geometry.journal_bytes, Some(8193 * 4096));
        assert_eq!(read.features, ["format 3.6", "standard journal", "hash r5"]);
        assert_eq!(parse(""), Inspection::default());
    }
}

//! ReiserFS, which Linux 6.13 removed.

use std::path::Path;

use fsb_model::Geometry;

use super::file_system::{
    Cause, ExternalJournal, FileSystem, Hazard, Inspection, Tools, ask_about,
};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

pub(super) struct Reiserfs;

/// `-ff`: on a whole device, without asking. It discards nothing and leaves no deferred work.
static TOOLS: Tools = Tools {
    package: "reiserfsprogs",
    mkfs: "mkfs.reiserfs",
    arguments: &["-ff", "-q"],
    version: "-V",
    others: &["debugreiserfs"],
    check: &["reiserfsck", "--check", "-y", "-q"],
};

impl FileSystem for Reiserfs {
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

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

    fn external_journal(&self, device: &Path, _: &[String]) -> Option<ExternalJournal> {
        let words = vec!["-j".to_owned(), device.display().to_string()];
        Some(ExternalJournal {
            mkfs: words.clone(),
            mount: vec![format!("jdev={}", device.display())],
            check: words,
            ..ExternalJournal::default()
        })
    }

    fn modules(&self) -> &'static [&'static str] {
        &["reiserfs"]
    }

    /// Most of it is the journal of 8193 blocks.
    fn minimum_size(&self) -> u64 {
        33 << 20
    }

    /// Observed in Linux 6.1: three blocks and two flushes each time, also after a remount to
    /// read-only and back.
    fn note(&self) -> Option<&'static str> {
        Some(
            "reiserfs commits its superblock every 5 seconds, whether or not anything changed (12 KiB each)",
        )
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("debugreiserfs", &[], device))
    }
}

/// Parses format, journal and hash as features, because features have no names.
fn parse(text: &str) -> Inspection {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.trim().strip_prefix(key))
            .map(str::trim)
    };
    let format = text
        .lines()
        .find_map(|line| line.split_once(" of format "))
        .map(|(_, format)| {
            let words: Vec<&str> = format.split_whitespace().collect();
            match words[..] {
                [number, "with", kind, "journal"] => {
                    vec![format!("format {number}"), format!("{kind} journal")]
                }
                _ => vec![format!("format {format}")],
            }
        });
    let hash = value("Hash function used to sort names:")
        .map(|name| format!("hash {}", name.trim_matches('"')));
    let number =
        |key: &str| value(key).and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    let block_size = number("Blocksize:");
    Inspection {
        features: format.unwrap_or_default().into_iter().chain(hash).collect(),
        geometry: Geometry {
            block_size,
            // The journal's parameters are the only ones that have a size.
            journal_bytes: number("Size ")
                .zip(block_size)
                .map(|(blocks, size)| blocks * size),
            ..Geometry::default()
        },
    }
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("reiserfs.options"));

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.13 removed the driver; the arguments are those of mkreiserfs(8), mount(8) and
    /// reiserfsck(8).
    #[test]
    fn the_arguments_of_an_external_journal_name_its_device() {
        let journal = Reiserfs
            .external_journal(Path::new("/dev/sdc1"), &[])
            .unwrap();
        assert_eq!(
            (journal.mkfs.join(" "), journal.mount.join(",")),
            ("-j /dev/sdc1".into(), "jdev=/dev/sdc1".into())
        );
        assert_eq!(
            (journal.check.join(" "), journal.make),
            ("-j /dev/sdc1".into(), Vec::new())
        );
    }

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

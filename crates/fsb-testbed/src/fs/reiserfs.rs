//! ReiserFS, which Linux 6.13 removed.

use std::path::Path;

use fsb_model::Geometry;

use super::file_system;
use super::file_system::{
    Cause, ExternalJournal, FileSystem, Hazard, Inspection, Tools, ask_about,
};
use crate::declared::OptionGroup::{Access, Data, Durability, Layout};
use crate::declared::{DeclaredOption, OptionKind};

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
        OPTIONS
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

/// From mount(8) and fs/reiserfs/super.c of Linux 6.12.
static OPTIONS: &[DeclaredOption] = &[
    DeclaredOption::value(
        Durability,
        "data",
        OptionKind::Word(&["ordered", "journal", "writeback"]),
        "ordered",
        "data goes to the journal, before its metadata, or at any time",
    ),
    DeclaredOption::value(
        Durability,
        "commit",
        OptionKind::Number(0..=4294967295),
        "",
        "seconds between commits of the journal",
    ),
    DeclaredOption::value(
        Durability,
        "barrier",
        OptionKind::Word(&["none", "flush"]),
        "",
        "flush the cache of the device",
    ),
    DeclaredOption::flag(Durability, "nolog", "do not write the journal"),
    DeclaredOption::value(
        Durability,
        "jdev",
        OptionKind::Text("path"),
        "",
        "device of an external journal",
    ),
    DeclaredOption::value(
        Durability,
        "errors",
        OptionKind::Word(&["continue", "ro-remount", "panic"]),
        "",
        "what happens after an error",
    ),
    DeclaredOption::flag(
        Durability,
        "replayonly",
        "replay the journal and do not mount",
    ),
    DeclaredOption::value(
        Data,
        "tails",
        OptionKind::Word(&["on", "off", "small"]),
        "",
        "ends of files share blocks",
    ),
    DeclaredOption::flag(Data, "notail", "ends of files have blocks of their own"),
    DeclaredOption::flag(Data, "conv", "use format 3.6 for new objects"),
    DeclaredOption::value(
        Layout,
        "hash",
        OptionKind::Word(&["rupasov", "tea", "r5", "detect"]),
        "",
        "hash of names in directories",
    ),
    DeclaredOption::value(
        Layout,
        "block-allocator",
        OptionKind::Text("words"),
        "",
        "policy of block allocation",
    ),
    DeclaredOption::value(
        Layout,
        "alloc",
        OptionKind::Text("words"),
        "",
        "policy of block allocation",
    ),
    DeclaredOption::flag(Layout, "border", "no effect in current kernels"),
    DeclaredOption::flag(Layout, "noborder", "disable the border algorithm"),
    DeclaredOption::flag(
        Layout,
        "no_unhashed_relocation",
        "no effect in current kernels",
    ),
    DeclaredOption::flag(Layout, "hashed_relocation", "allocate by hashes of names"),
    DeclaredOption::flag(Layout, "test4", "a test of the allocator"),
    DeclaredOption::value(
        Layout,
        "nolargeio",
        OptionKind::Number(0..=1),
        "",
        "stat reports the block size as preferred size of I/O",
    ),
    DeclaredOption::value(
        Layout,
        "resize",
        OptionKind::Text("blocks or auto"),
        "",
        "grow to this number of blocks",
    ),
    file_system::USER_XATTR,
    file_system::NO_USER_XATTR,
    file_system::ACL,
    DeclaredOption::flag(Access, "noacl", "no access control lists"),
    DeclaredOption::flag(Access, "attrs", "flags of inodes"),
    DeclaredOption::flag(Access, "noattrs", "no flags of inodes"),
    DeclaredOption::flag(
        Access,
        "expose_privroot",
        "show the directory of extended attributes",
    ),
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
        "jqfmt",
        OptionKind::Word(&["vfsold", "vfsv0", "vfsv1"]),
        "",
        "format of journaled quotas",
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

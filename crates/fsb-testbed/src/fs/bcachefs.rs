//! bcachefs, which Linux had from 6.7 to 6.17. Later kernels load its own module.

use std::path::Path;

use fsb_model::{Bytes, Geometry};

use super::file_system::{
    Cause, Choice, FileSystem, Hazard, Inspection, Tools, UNFLUSHED, ask_about,
};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

pub(super) struct Bcachefs;

/// `--force`: over the signatures of other file systems. The medium has been checked before.
static TOOLS: Tools = Tools {
    package: "bcachefs-tools",
    mkfs: "bcachefs",
    arguments: &["format", "--force", "--quiet"],
    version: "version",
    others: &[],
    check: &["bcachefs", "fsck", "-n"],
};

static OPTIONS: OptionTable = OptionTable::new(include_str!("bcachefs.options"));

impl FileSystem for Bcachefs {
    fn name(&self) -> &'static str {
        "bcachefs"
    }

    fn about(&self) -> &'static str {
        "Copy on write over buckets, with checksums and a journal; a part of Linux 6.7 to 6.17."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["bcachefs"]
    }

    fn module_advice(&self) -> Option<&'static str> {
        Some(
            "Linux 6.7 to 6.17 have it; for later kernels: apt-get install bcachefs-kernel-dkms (apt.bcachefs.org)",
        )
    }

    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn choices(&self) -> &'static [Choice] {
        const CHOICES: &[Choice] = &[
            Choice::mount(&["compression=lz4"], "less data reaches the device").sort("compression"),
            Choice::mount(&["compression=zstd"], "even less data reaches the device")
                .sort("compression"),
            Choice::mount(&["data_checksum=none"], "no checksums of data")
                .risky("damaged data is not noticed"),
            Choice::mount(&["nocow"], "data is overwritten in place")
                .risky("damaged data is not noticed"),
            Choice::mount(
                &["journal_flush_disabled"],
                "fsync does not flush the journal",
            ),
        ];
        CHOICES
    }

    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard {
            cause: Cause::Options(&["journal_flush_disabled"]),
            loss: UNFLUSHED,
        }];
        HAZARDS
    }

    /// 512 buckets of the smallest size, which is that of a node.
    fn minimum_size(&self) -> u64 {
        128 << 20
    }

    fn discard_off(&self) -> Option<&'static str> {
        Some("nodiscard")
    }

    fn inspect(&self, device: &Path) -> Inspection {
        parse(&ask_about("bcachefs", &["show-super"], device))
    }

    fn magic(&self) -> Option<u64> {
        /// BCACHEFS_STATFS_MAGIC of linux/magic.h.
        const MAGIC: u64 = 0xca45_1a4e;
        Some(MAGIC)
    }
}

/// Parses the superblock as `bcachefs show-super` prints it: names and values in columns.
fn parse(text: &str) -> Inspection {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(name, value)| (name.trim() == key).then(|| value.trim()))
    };
    let bytes = |key: &str| Some(value(key)?.parse::<Bytes>().ok()?.0);
    let words = |key: &str| value(key).unwrap_or_default().split(',');
    Inspection {
        features: words("Features")
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect(),
        geometry: Geometry {
            block_size: bytes("block_size"),
            node_size: bytes("btree_node_size"),
            profiles: ["data_checksum", "compression", "str_hash"]
                .into_iter()
                .filter_map(|key| Some((key.to_owned(), value(key)?.to_owned())))
                .collect(),
            ..Geometry::default()
        },
    }
}

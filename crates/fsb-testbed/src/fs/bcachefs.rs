//! bcachefs, which Linux had from 6.7 to 6.17. Later kernels load its own module.

use std::path::Path;

use fsb_model::Geometry;

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
        lines.find_map(|(name, value)| (name.trim() == key).then(|| chosen(value.trim())))
    };
    let words = value("Features").unwrap_or_default().split(',');
    Inspection {
        features: words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect(),
        geometry: Geometry {
            block_size: value("block_size").and_then(bytes),
            node_size: value("btree_node_size").and_then(bytes),
            profiles: ["data_checksum", "compression", "str_hash"]
                .into_iter()
                .filter_map(|key| Some((key.to_owned(), value(key)?.to_owned())))
                .collect(),
            ..Geometry::default()
        },
    }
}

/// Returns the word in brackets of `none [crc32c] crc64`. A value without brackets is returned
/// whole.
fn chosen(value: &str) -> &str {
    let bracketed = value
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(value, |(word, _)| word)
}

/// Parses a size such as `4.00 KiB`, which is exact for powers of two.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some((number * f64::from(1u32 << shift)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_is_read() {
        let text = "Device:                                     (unknown device)\n\
            Features:                                  new_siphash,btree_ptr_v2,alloc_v2\n\
            Compat features:                           alloc_info,alloc_metadata\n\nOptions:\n  \
            block_size:                              4.00 KiB\n  \
            btree_node_size:                         128 KiB\n  \
            data_checksum:                           none [crc32c] crc64 xxhash \n  \
            compression:                             none\n  \
            str_hash:                                crc32c crc64 [siphash] \n";
        let read = parse(text);
        assert_eq!(read.features, ["new_siphash", "btree_ptr_v2", "alloc_v2"]);
        let sizes = (read.geometry.block_size, read.geometry.node_size);
        assert_eq!(sizes, (Some(4096), Some(128 << 10)));
        let profiles: Vec<_> = read.geometry.profiles.values().collect();
        assert_eq!(profiles, ["none", "crc32c", "siphash"]);
        assert_eq!(parse(""), Inspection::default());
        assert_eq!(bytes("512 B"), Some(512));
    }
}

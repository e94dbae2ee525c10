//! Compares the geometry of the targets with that of a large disk.

use fsb_model::geometry::{Dimension, Geometry, GeometryDifference};
use fsb_model::run::Placement;
use fsb_model::units::show_bytes;
use fsb_model::{RunRecord, Target};

use crate::show::some_of;

/// More differences than this are not named for a target.
const NAMED: usize = 3;

/// Returns a line for each target on a small slice that mkfs lays out differently than on a large
/// disk, or whose layout there is unknown. The ranking may be another one on a large disk.
pub(super) fn warnings(record: &RunRecord) -> Vec<String> {
    let disk = size(record.plan.like_disk.0);
    let small = record.plan.targets.iter().filter_map(|target| {
        let device = record.targets.get(&target.name)?.small_device?;
        Some(format!(
            "{} has a device of {}: {}, and from {} on it does not; cases that show it are not judged, commands are not checked",
            target.name,
            size(device.bytes),
            device.commits_text(),
            size(device.least)
        ))
    });
    let warning = |target: &Target| {
        let choices = differences(record, target, GeometryDifference::is_a_choice);
        if !choices.is_empty() {
            return Some(format!(
                "{} is not laid out as on a disk of {disk}: {}; its results may not hold there",
                target.name,
                some_of(&choices, NAMED)
            ));
        }
        let is_known = record.large_disk.contains_key(&target.name);
        let found = record.targets.get(&target.name)?;
        // File systems without a medium have no slice.
        (found.geometry.is_some()
            && found.medium.is_some()
            && !is_known
            && is_small(record, target))
        .then(|| {
            format!(
                "mkfs chose the geometry of {}: its geometry on a disk of {disk} is unknown",
                target.name
            )
        })
    };
    small
        .chain(record.plan.targets.iter().filter_map(warning))
        .collect()
}

/// Returns whether the target's slice is smaller than the large disk, as far as its size is
/// recorded.
fn is_small(record: &RunRecord, target: &Target) -> bool {
    let slice = record
        .placement
        .as_ref()
        .and_then(Placement::divided)
        .map(|(_, bytes)| bytes);
    let bytes = slice
        .or_else(|| {
            target
                .file_system()
                .and_then(|spec| record.media.get(&spec.medium.to_string()))
                .map(|medium| medium.device.size_bytes)
        })
        .filter(|bytes| *bytes > 0);
    bytes.is_none_or(|bytes| bytes < record.plan.like_disk.0)
}

/// Returns the journal and groups of a target that differ on a large disk, for the notes.
pub(super) fn notes(record: &RunRecord, target: &Target) -> Vec<String> {
    let found = differences(record, target, |difference| !difference.is_a_choice());
    found
        .into_iter()
        .map(|difference| {
            format!(
                "{difference} on a disk of {}",
                size(record.plan.like_disk.0)
            )
        })
        .collect()
}

fn differences(
    record: &RunRecord,
    target: &Target,
    wanted: fn(&GeometryDifference) -> bool,
) -> Vec<String> {
    let found = record
        .targets
        .get(&target.name)
        .filter(|_| is_small(record, target));
    let found = found.and_then(|found| found.geometry.as_ref());
    let Some((found, large)) = found.zip(record.large_disk.get(&target.name)) else {
        return Vec::new();
    };
    found
        .differences(large)
        .iter()
        .filter(|difference| wanted(difference))
        .map(in_words)
        .collect()
}

/// Returns text such as `blocks of 1 KiB instead of 4 KiB`.
fn in_words(difference: &GeometryDifference) -> String {
    match difference {
        GeometryDifference::Quantity {
            dimension,
            found,
            expected,
        } => {
            let (from, to) = (size(*found), size(*expected));
            match dimension {
                Dimension::BlockSize => format!("blocks of {from} instead of {to}"),
                Dimension::NodeSize => format!("tree nodes of {from} instead of {to}"),
                Dimension::InodeSize => format!("inodes of {from} instead of {to}"),
                Dimension::BytesPerInode => {
                    format!("an inode for every {from} instead of {to}")
                }
                Dimension::JournalBytes => format!("a journal of {from} instead of {to}"),
                Dimension::Groups => format!("{found} groups instead of {expected}"),
            }
        }
        GeometryDifference::Profile {
            name,
            found,
            expected,
        } => {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
            format!("{name} {} instead of {}", value(found), value(expected))
        }
    }
}

/// Returns a size in whole units where it is a whole number of them: `4 KiB`, not `4.00 KiB`.
fn size(bytes: u64) -> String {
    let units = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
        (1, "B"),
    ];
    let whole = units
        .into_iter()
        .find(|(unit, _)| bytes.is_multiple_of(*unit) && bytes > 0);
    whole.filter(|(unit, _)| bytes / unit < 10_000).map_or_else(
        || show_bytes(bytes as f64),
        |(unit, name)| format!("{} {name}", bytes / unit),
    )
}

/// Summarizes a geometry for the table of a target: `blocks 4 KiB, inodes 256 B, one inode for 16
/// KiB, journal 62 MiB`.
pub(super) fn summary(geometry: &Geometry) -> String {
    let named =
        |name: &str, bytes: Option<u64>| bytes.map(|bytes| format!("{name} {}", size(bytes)));
    let sizes = [
        named("blocks", geometry.block_size),
        named("tree nodes", geometry.node_size),
        named("inodes", geometry.inode_size),
        named("one inode for", geometry.bytes_per_inode),
        named("journal", geometry.journal_bytes),
        geometry.groups.map(|groups| format!("{groups} groups")),
    ];
    let profiles = geometry
        .profiles
        .iter()
        .map(|(name, profile)| format!("{name} {profile}"));
    sizes
        .into_iter()
        .flatten()
        .chain(profiles)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn record(found: Geometry) -> RunRecord {
        let (mut record, _) = sample::run(&["ext4", "xfs"], 6);
        let large = Geometry {
            block_size: Some(4096),
            bytes_per_inode: Some(16_384),
            journal_bytes: Some(512 << 20),
            ..Geometry::default()
        };
        record.large_disk.insert("ext4".to_owned(), large);
        record.targets.get_mut("ext4").unwrap().geometry = Some(found);
        record
    }

    #[test]
    fn small_blocks_are_a_warning_and_a_small_journal_is_a_note() {
        let small = Geometry {
            block_size: Some(1024),
            bytes_per_inode: Some(4096),
            journal_bytes: Some(64 << 20),
            ..Geometry::default()
        };
        let record = record(small);
        assert_eq!(
            warnings(&record),
            [
                "ext4 is not laid out as on a disk of 100 GiB: blocks of 1 KiB instead of 4 KiB; an inode for every 4 \
              KiB instead of 16 KiB; its results may not hold there"
            ]
        );
        let ext4 = &record.plan.targets[0];
        assert_eq!(
            notes(&record, ext4),
            ["a journal of 64 MiB instead of 512 MiB on a disk of 100 GiB"]
        );
    }

    #[test]
    fn the_geometry_of_a_large_disk_gives_no_warning() {
        let same = Geometry {
            block_size: Some(4096),
            bytes_per_inode: Some(16_391),
            ..Geometry::default()
        };
        assert!(warnings(&record(same)).is_empty());
        assert!(warnings(&record(Geometry::default())).is_empty());
    }
}

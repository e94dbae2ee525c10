//! The layout of a file system on its device.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Bytes of the disk whose geometry every smaller slice is given, unless the user names another
/// size.
pub const LARGE_DISK: u64 = 100 << 30;

/// The layout of a file system on its device, as its own tools report it; a field is absent where
/// they do not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Geometry {
    /// Bytes of a block, or of a cluster where space is allocated in clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u64>,
    /// Bytes of a node of the metadata trees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_size: Option<u64>,
    /// Bytes of an inode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inode_size: Option<u64>,
    /// Bytes of the device for each inode, where mkfs fixes the number of inodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_inode: Option<u64>,
    /// Profiles and other layouts by name, in the tool's own words: `metadata` is `DUP`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub profiles: BTreeMap<String, String>,
    /// Bytes of the journal or log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_bytes: Option<u64>,
    /// Block groups or allocation groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u64>,
}

/// A quantity of a geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Bytes of a block.
    BlockSize,
    /// Bytes of a tree node.
    NodeSize,
    /// Bytes of an inode.
    InodeSize,
    /// Bytes of the device for each inode.
    BytesPerInode,
    /// Bytes of the journal.
    JournalBytes,
    /// Allocation groups.
    Groups,
}

/// A difference between two geometries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GeometryDifference {
    /// In a quantity that both have.
    Quantity {
        /// The quantity.
        dimension: Dimension,
        /// The value that was found.
        found: u64,
        /// The value that it is compared with.
        expected: u64,
    },
    /// In a profile, which one of them may lack.
    Profile {
        /// The name.
        name: String,
        /// The value that was found.
        found: Option<String>,
        /// The value that it is compared with.
        expected: Option<String>,
    },
}

impl GeometryDifference {
    /// Returns whether file systems that differ so are different file systems: a journal's size and
    /// the number of groups follow the size of the device, everything else is a choice.
    pub fn is_a_choice(&self) -> bool {
        match self {
            GeometryDifference::Quantity { dimension, .. } => {
                !matches!(dimension, Dimension::JournalBytes | Dimension::Groups)
            }
            GeometryDifference::Profile { .. } => true,
        }
    }
}

impl Geometry {
    /// Returns the differences of this geometry from `expected`. Quantities that one of them lacks
    /// are not compared. Ratios of inodes are compared with a tolerance of 10 %, because mkfs
    /// rounds the number of inodes up to whole blocks in each group.
    pub fn differences(&self, expected: &Geometry) -> Vec<GeometryDifference> {
        let quantities = [
            (Dimension::BlockSize, self.block_size, expected.block_size),
            (Dimension::NodeSize, self.node_size, expected.node_size),
            (Dimension::InodeSize, self.inode_size, expected.inode_size),
            (
                Dimension::BytesPerInode,
                self.bytes_per_inode,
                expected.bytes_per_inode,
            ),
            (
                Dimension::JournalBytes,
                self.journal_bytes,
                expected.journal_bytes,
            ),
            (Dimension::Groups, self.groups, expected.groups),
        ];
        let mut differences = Vec::new();
        for (dimension, found, expected) in quantities {
            let Some((found, expected)) = found.zip(expected) else {
                continue;
            };
            let same = match dimension {
                Dimension::BytesPerInode => found.abs_diff(expected) * 10 <= expected,
                _ => found == expected,
            };
            if !same {
                differences.push(GeometryDifference::Quantity {
                    dimension,
                    found,
                    expected,
                });
            }
        }
        let names: BTreeSet<&String> = self
            .profiles
            .keys()
            .chain(expected.profiles.keys())
            .collect();
        for name in names {
            let (found, expected) = (self.profiles.get(name), expected.profiles.get(name));
            if found != expected {
                differences.push(GeometryDifference::Profile {
                    name: name.clone(),
                    found: found.cloned(),
                    expected: expected.cloned(),
                });
            }
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quantities_that_both_report_are_compared() {
        let small = Geometry {
            block_size: Some(1024),
            journal_bytes: Some(1 << 20),
            ..Geometry::default()
        };
        let large = Geometry {
            block_size: Some(4096),
            inode_size: Some(256),
            ..Geometry::default()
        };
        let found = small.differences(&large);
        let block = GeometryDifference::Quantity {
            dimension: Dimension::BlockSize,
            found: 1024,
            expected: 4096,
        };
        assert_eq!(found, [block]);
        assert!(found[0].is_a_choice());
    }

    #[test]
    fn journal_and_groups_follow_the_size_and_profiles_are_choices() {
        let of = |journal, groups, profile: &str| Geometry {
            journal_bytes: Some(journal),
            groups: Some(groups),
            profiles: [("metadata".to_owned(), profile.to_owned())].into(),
            ..Geometry::default()
        };
        let choices = |other: &Geometry| -> Vec<bool> {
            of(1, 4, "DUP")
                .differences(other)
                .iter()
                .map(GeometryDifference::is_a_choice)
                .collect()
        };
        assert_eq!(choices(&of(2, 5, "DUP")), [false, false]);
        assert_eq!(choices(&of(1, 4, "single")), [true]);
        assert_eq!(
            choices(&Geometry {
                journal_bytes: Some(1),
                groups: Some(4),
                ..Geometry::default()
            }),
            [true]
        );
    }

    #[test]
    fn rounded_numbers_of_inodes_are_the_same_ratio() {
        let of = |ratio| Geometry {
            bytes_per_inode: Some(ratio),
            ..Geometry::default()
        };
        assert!(of(16_391).differences(&of(16_384)).is_empty());
        assert_eq!(of(4096).differences(&of(16_384)).len(), 1);
    }
}

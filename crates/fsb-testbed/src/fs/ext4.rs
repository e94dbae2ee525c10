//! ext4.

use super::ext::{self, Ext};

pub(super) static EXT4: Ext = Ext {
    name: "ext4",
    about: "The fourth extended file system: extents, delayed allocation, checksums.",
    tools: &ext::tools("mkfs.ext4"),
    helpers: ext::CHECKSUMS,
    journal: true,
    older: false,
};

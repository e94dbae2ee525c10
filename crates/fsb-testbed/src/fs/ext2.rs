//! ext2.

use super::ext::{self, Ext};

pub(super) static EXT2: Ext = Ext {
    name: "ext2",
    about: "The second extended file system: no journal.",
    tools: &ext::tools("mkfs.ext2"),
    // Where the kernel has its own driver for it.
    helpers: &["ext2"],
    journal: false,
    older: true,
    // It has no journal: nobody is raced on it who did not ask for it.
    choices: &[],
};

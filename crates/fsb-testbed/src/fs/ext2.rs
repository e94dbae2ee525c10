//! ext2.

use super::ext::{self, Ext};
use super::file_system::{Cause, Hazard};

pub(super) static EXT2: Ext = Ext {
    name: "ext2",
    about: "The second extended file system: no journal.",
    tools: &ext::tools("mkfs.ext2"),
    // Needed if the kernel has a separate driver for ext2.
    helpers: &["ext2"],
    journal: false,
    older: true,
    // A file system without a journal takes part in a race only if it is named.
    choices: &[],
    hazards: &[Hazard::no_journal(Cause::Format("no journal"))],
};

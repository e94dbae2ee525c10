//! ext2.

use std::path::Path;

use super::{FileSystem, Inspection, Tools, ext};

pub(super) struct Ext2;

static TOOLS: Tools =
    Tools { package: "e2fsprogs", mkfs: "mkfs.ext2", arguments: ext::ARGUMENTS, version: "-V", others: &["dumpe2fs"] };

impl FileSystem for Ext2 {
    fn name(&self) -> &'static str {
        "ext2"
    }

    fn about(&self) -> &'static str {
        "The second extended file system: no journal."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["ext4"]
    }

    /// Where the kernel has its own driver for it.
    fn helper_modules(&self) -> &'static [&'static str] {
        &["ext2"]
    }

    fn minimum_size(&self) -> u64 {
        ext::MINIMUM_SIZE
    }

    fn inodes(&self, bytes: u64, user: &[String]) -> Option<u64> {
        ext::inodes(bytes, user)
    }

    fn inspect(&self, device: &Path) -> Inspection {
        ext::inspect(device)
    }

    fn served_by(&self, device: &Path) -> Option<String> {
        ext::served_by(device)
    }
}

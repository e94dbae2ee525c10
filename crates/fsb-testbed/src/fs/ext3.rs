//! ext3.

use std::path::Path;

use super::{FileSystem, Idle, Inspection, Tools, Version, ext};
use crate::error::TestbedError;

pub(super) struct Ext3;

static TOOLS: Tools =
    Tools { package: "e2fsprogs", mkfs: "mkfs.ext3", arguments: ext::ARGUMENTS, version: "-V", others: &["dumpe2fs"] };

impl FileSystem for Ext3 {
    fn name(&self) -> &'static str {
        "ext3"
    }

    fn about(&self) -> &'static str {
        "ext2 with a journal: data=journal, ordered or writeback."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["ext4"]
    }

    fn helper_modules(&self) -> &'static [&'static str] {
        ext::HELPER_MODULES
    }

    fn minimum_size(&self) -> u64 {
        ext::MINIMUM_SIZE
    }

    fn inodes(&self, bytes: u64, user: &[String]) -> Option<u64> {
        ext::inodes(bytes, user)
    }

    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        ext::checkpoint(idle);
        Ok(())
    }

    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        ext::mkfs_for(user, oldest, program)
    }

    fn inspect(&self, device: &Path) -> Inspection {
        ext::inspect(device)
    }

    fn served_by(&self, device: &Path) -> Option<String> {
        ext::served_by(device)
    }
}

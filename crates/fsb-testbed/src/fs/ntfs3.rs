//! NTFS by the kernel's own driver.

use std::path::Path;

use fsb_model::Geometry;

use super::file_system::{FileSystem, Inspection, Tools};
use super::ntfs;

pub(super) struct Ntfs3;

impl FileSystem for Ntfs3 {
    fn name(&self) -> &'static str {
        "ntfs3"
    }

    fn about(&self) -> &'static str {
        "NTFS, served by the kernel's driver since Linux 5.15 (ntfs is the one through FUSE)."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&ntfs::MAKING)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["ntfs3"]
    }

    /// For `iocharset=`.
    fn helper_modules(&self) -> &'static [&'static str] {
        &["nls_utf8"]
    }

    fn minimum_size(&self) -> u64 {
        ntfs::MINIMUM_SIZE
    }

    fn fit(&self, large: &Geometry, _: u64, user: &[String]) -> Vec<String> {
        ntfs::fit(large, user)
    }

    fn inspect(&self, device: &Path) -> Inspection {
        ntfs::inspect(device)
    }
}

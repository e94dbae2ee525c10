//! NTFS by the kernel's own driver.

use std::path::Path;

use fsb_model::Geometry;

use super::file_system::{self, FileSystem, Inspection, Tools};
use super::ntfs;
use crate::declared::OptionGroup::{Access, Data, Layout};
use crate::declared::{DeclaredOption, OptionKind};

pub(super) struct Ntfs3;

impl FileSystem for Ntfs3 {
    fn options(&self) -> &'static [DeclaredOption] {
        OPTIONS
    }

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

/// From Documentation/filesystems/ntfs3.rst of Linux.
static OPTIONS: &[DeclaredOption] = &[
    DeclaredOption::flag(Data, "sparse", "new files are sparse"),
    DeclaredOption::flag(Data, "prealloc", "allocate beyond the end of growing files"),
    DeclaredOption::flag(Data, "noprealloc", "do not allocate beyond the end of growing files"),
    DeclaredOption::flag(Layout, "discard", "discard freed clusters"),
    DeclaredOption::flag(Layout, "nodiscard", "do not discard freed clusters (default)"),
    DeclaredOption::flag(Access, "force", "mount a volume that is marked dirty"),
    DeclaredOption::value(Access, "iocharset", OptionKind::Text("name"), "", "character set of names"),
    DeclaredOption::value(Access, "nls", OptionKind::Text("name"), "", "character set of names"),
    DeclaredOption::flag(Access, "nohidden", "hide files with the flag 'hidden'"),
    DeclaredOption::flag(Access, "hide_dot_files", "files whose name begins with a dot are hidden"),
    DeclaredOption::flag(Access, "sys_immutable", "system files cannot be changed"),
    DeclaredOption::flag(Access, "showmeta", "show files of metadata"),
    DeclaredOption::flag(Access, "windows_names", "refuse names that Windows cannot have"),
    DeclaredOption::flag(Access, "nocase", "names without case"),
    file_system::ACL,
    DeclaredOption::flag(Access, "noacl", "no access control lists (default)"),
    DeclaredOption::value(Access, "uid", OptionKind::Number(0..=4294967295), "", "owner of all files"),
    DeclaredOption::value(Access, "gid", OptionKind::Number(0..=4294967295), "", "group of all files"),
    DeclaredOption::value(Access, "umask", OptionKind::Text("octal mode"), "", "permissions that nothing has"),
    DeclaredOption::value(Access, "dmask", OptionKind::Text("octal mode"), "", "permissions that no directory has"),
    DeclaredOption::value(Access, "fmask", OptionKind::Text("octal mode"), "", "permissions that no file has"),
];

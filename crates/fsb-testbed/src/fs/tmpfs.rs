//! tmpfs: files in memory.

use std::path::Path;

use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::TestbedError;
use fsb_sys::mount as kernel;

use super::file_system::{
    self, FileSystem, Home, Inspection, MountRequest, Mounted, Tools, refuse_mkfs_and_medium,
    with_options,
};
use crate::declared::OptionGroup::{Access, Layout};
use crate::declared::{DeclaredOption, OptionKind, OptionNeeds};

pub(super) struct Tmpfs;

impl FileSystem for Tmpfs {
    fn options(&self) -> &'static [DeclaredOption] {
        OPTIONS
    }

    fn name(&self) -> &'static str {
        "tmpfs"
    }

    fn about(&self) -> &'static str {
        "Files in memory: never cold, never durable; what the calls cost without a disk."
    }

    fn home(&self) -> Home {
        Home::Memory
    }

    fn tools(&self) -> Option<&'static Tools> {
        None
    }

    fn modules(&self) -> &'static [&'static str] {
        &[]
    }

    fn minimum_size(&self) -> u64 {
        1 << 20
    }

    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        refuse_mkfs_and_medium(spec, "its files are in memory")
    }

    fn inspect(&self, _: &Path) -> Inspection {
        let block_size = Some(rustix::param::page_size() as u64);
        Inspection {
            features: Vec::new(),
            geometry: Geometry {
                block_size,
                ..Geometry::default()
            },
        }
    }

    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        kernel::mount(
            self.name(),
            request.source,
            request.point,
            &with_size(request.options, request.size),
        )?;
        Ok(Mounted::default())
    }

    fn mount_command(&self, options: &[String], size: u64) -> Vec<String> {
        with_options(&["mount", "-t", self.name()], &with_size(options, size))
    }
}

/// Adds a size equal to that of the other targets' images, unless the user sets one.
fn with_size(options: &[String], size: u64) -> Vec<String> {
    let mut options = options.to_vec();
    let limits = ["size=", "nr_blocks="];
    if !options
        .iter()
        .any(|option| limits.iter().any(|limit| option.starts_with(limit)))
    {
        options.insert(0, format!("size={size}"));
    }
    options
}

/// From tmpfs(5).
static OPTIONS: &[DeclaredOption] = &[
    DeclaredOption::value(
        Layout,
        "size",
        OptionKind::Text("size, or percentage of memory"),
        "",
        "most bytes; fsb gives the size of the images",
    )
    .needs(OptionNeeds::Without("nr_blocks")),
    DeclaredOption::value(
        Layout,
        "nr_blocks",
        OptionKind::Text("number"),
        "",
        "most pages",
    ),
    DeclaredOption::value(
        Layout,
        "nr_inodes",
        OptionKind::Text("number"),
        "",
        "most files",
    ),
    DeclaredOption::value(
        Layout,
        "huge",
        OptionKind::Word(&["never", "always", "within_size", "advise"]),
        "never",
        "huge pages",
    ),
    DeclaredOption::value(
        Layout,
        "mpol",
        OptionKind::Text("policy"),
        "",
        "NUMA policy",
    ),
    DeclaredOption::flag(Layout, "noswap", "pages are not swapped out"),
    DeclaredOption::value(
        Access,
        "mode",
        OptionKind::Text("octal mode"),
        "1777",
        "permissions of the root directory",
    ),
    DeclaredOption::value(
        Access,
        "uid",
        OptionKind::Number(0..=4294967295),
        "",
        "owner of the root directory",
    ),
    DeclaredOption::value(
        Access,
        "gid",
        OptionKind::Number(0..=4294967295),
        "",
        "group of the root directory",
    ),
    DeclaredOption::flag(Access, "inode32", "inode numbers of 32 bits"),
    DeclaredOption::flag(Access, "inode64", "inode numbers of 64 bits"),
    DeclaredOption::value(
        Access,
        "casefold",
        OptionKind::Text("version of Unicode"),
        "",
        "names without case",
    )
    .bare(),
    DeclaredOption::flag(
        Access,
        "strict_encoding",
        "refuse names that are not in UTF-8",
    ),
    DeclaredOption::value(
        Access,
        "usrquota_block_hardlimit",
        OptionKind::Text("size"),
        "",
        "most bytes of a user",
    ),
    DeclaredOption::value(
        Access,
        "usrquota_inode_hardlimit",
        OptionKind::Text("number"),
        "",
        "most files of a user",
    ),
    DeclaredOption::value(
        Access,
        "grpquota_block_hardlimit",
        OptionKind::Text("size"),
        "",
        "most bytes of a group",
    ),
    DeclaredOption::value(
        Access,
        "grpquota_inode_hardlimit",
        OptionKind::Text("number"),
        "",
        "most files of a group",
    ),
    DeclaredOption::flag(Access, "quota", "counts space by user"),
    DeclaredOption::flag(
        Access,
        "noquota",
        "counts no space by user, group or project",
    ),
    file_system::USER_QUOTA,
    file_system::GROUP_QUOTA,
];

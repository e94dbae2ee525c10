//! tmpfs: files in memory.

use std::path::Path;

use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::TestbedError;
use fsb_sys::mount as kernel;

use super::file_system::{
    FileSystem, Home, Inspection, MountRequest, Mounted, Tools, refuse_mkfs_and_medium,
    with_options,
};
use super::option_table::OptionTable;
use crate::declared::DeclaredOption;

pub(super) struct Tmpfs;

impl FileSystem for Tmpfs {
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
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

static OPTIONS: OptionTable = OptionTable::new(include_str!("tmpfs.options"));

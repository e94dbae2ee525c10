//! Members among the file systems that are met on the machine: under an image, under a measured directory.

use std::os::fd::AsFd;
use std::path::PathBuf;

use super::REGISTRY;
use super::file_system::FileSystem;
use crate::sys::mountinfo::Mount;
use crate::sys::{Roots, magic};

/// The member that serves a mount, whoever mounted it.
pub(crate) fn of_mount(mount: &Mount) -> Option<&'static dyn FileSystem> {
    let named = REGISTRY.iter().copied().find(|member| member.name() == mount.kind);
    named.or_else(|| by_magic(magic::of(&mount.point)?))
}

/// The member that holds an open file, of those that say their magic number.
pub(crate) fn of_file(file: impl AsFd) -> Option<&'static dyn FileSystem> {
    by_magic(magic::of_file(file)?)
}

fn by_magic(number: u64) -> Option<&'static dyn FileSystem> {
    REGISTRY.iter().copied().find(|member| member.magic() == Some(number))
}

/// The file in which a file system that is mounted from the block device `name` keeps a read-ahead of its own.
pub(crate) fn own_read_ahead(name: &str, roots: &Roots) -> Option<PathBuf> {
    REGISTRY.iter().find_map(|member| member.own_read_ahead(name, roots)).filter(|path| path.exists())
}

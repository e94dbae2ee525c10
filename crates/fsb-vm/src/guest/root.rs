//! Makes the host's files visible to programs in the guest.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind};

use crate::error::{VmError, refused};

/// The mount point of the shared directory, below the root that is built from it.
const SHARED: &str = ".host";

/// Directories that belong to the guest and are never taken from the host.
const OWN: [&str; 5] = ["dev", "proc", "sys", "run", "tmp"];

/// Builds a root from the directory that the host shares: its entries, and empty directories for those of the guest.
pub(super) fn mount_root(root: &Path) -> Result<(), VmError> {
    let _ = fs::create_dir_all(root);
    mount("fsb-root", root, "tmpfs", MountFlags::empty(), Some(c"mode=0755"))
        .map_err(|error| refused("mount tmpfs on", root, error))?;
    let shared = root.join(SHARED);
    let made = OWN.iter().map(|name| root.join(name)).chain([shared.clone()]).try_for_each(fs::create_dir);
    made.map_err(|error| refused("make directories in", root, error))?;
    // Large messages, because each one is a round trip through the emulator. The guest may cache all data, because the
    // mount is read-only.
    let options = CString::new("trans=virtio,version=9p2000.L,cache=loose,msize=262144").unwrap_or_default();
    mount(ROOT_TAG, &shared, "9p", MountFlags::RDONLY, Some(options.as_c_str()))
        .map_err(|error| refused("mount the host's files (9p) on", &shared, error))?;
    let entries = fs::read_dir(&shared).map_err(|error| refused("list", &shared, error))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !OWN.iter().any(|own| name == *own) {
            show(&entry.path(), &root.join(&name)).map_err(|error| refused("show", &entry.path(), error))?;
        }
    }
    Ok(())
}

/// Adds one entry of the shared directory. Skips files at the top level, which programs do not need.
fn show(from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_symlink() {
        symlink(fs::read_link(from)?, to)
    } else if kind.is_dir() {
        fs::create_dir(to)?;
        Ok(mount_bind(from, to)?)
    } else {
        Ok(())
    }
}

/// The name of the shared directory on the bus.
pub(crate) const ROOT_TAG: &str = "fsbroot";

//! The mount points of targets, on a tmpfs of fsb outside everything that is measured.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{mount as kernel, mount_isolation};
use rustix::mount::{UnmountFlags, unmount};

use super::check;
use crate::testbed::Setup;

/// The usual mount point. Workers of any user must be able to traverse it.
const USUAL: &str = "/run/fsb/mnt";
/// Directories that exist on most systems, in case the usual one cannot be made. The mount hides
/// their contents only in this mount namespace.
const OTHERS: [&str; 2] = ["/mnt", "/media"];

/// The private tmpfs with the mount points.
pub(super) struct MountRoot {
    path: PathBuf,
    /// A directory below it for private device nodes.
    nodes: PathBuf,
    next: u32,
}

impl MountRoot {
    /// Mounts the tmpfs. A failure is an error only if a target must be mounted. Returns `None` if
    /// it is not mounted.
    pub(crate) fn make_if_needed(setup: &Setup) -> Result<Option<MountRoot>, TestbedError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        match MountRoot::make(setup) {
            Ok(mounts) => Ok(Some(mounts)),
            Err(error) if check::mounts_something(setup) => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn make(setup: &Setup) -> Result<MountRoot, TestbedError> {
        let mut refusals = Vec::new();
        for place in std::iter::once(USUAL).chain(OTHERS).map(PathBuf::from) {
            if hides_something(&place, setup) {
                refusals.push(
                    format!(
                        "{} contains a target, an image or the program",
                        place.display()
                    )
                    .into(),
                );
                continue;
            }
            match make_directory(&place).and_then(|()| mount_tmpfs(&place)) {
                Ok(nodes) => {
                    return Ok(MountRoot {
                        path: place,
                        nodes,
                        next: 0,
                    });
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
        Err(TestbedError::machine("no directory for mount points")
            .tried(Refusal::all(&refusals))
            .advice("run as root outside a container that forbids mounting, or measure a directory (fsb run /path)"))
    }

    /// Returns the directory for private device nodes. Only root can access it, and workers cannot
    /// open devices anyway.
    pub fn nodes(&self) -> &Path {
        &self.nodes
    }

    /// Creates a new, empty directory to mount on.
    pub fn point(&mut self) -> Result<PathBuf, TestbedError> {
        let point = self.path.join(format!("t{}", self.next));
        self.next += 1;
        std::fs::DirBuilder::new()
            .mode(0o755)
            .create(&point)
            .map_err(|error| {
                TestbedError::machine("no mount point").tried(attempt("make", &point, &error))
            })?;
        Ok(point)
    }
}

impl Drop for MountRoot {
    /// Unmounts lazily, because anything still mounted below it disappears with this mount
    /// namespace. Keeps the empty directory, because removing it would detach mounts of another
    /// namespace on it (see `detach_mounts` in the kernel).
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
}

fn hides_something(place: &Path, setup: &Setup) -> bool {
    let directories = setup.targets.iter().filter_map(|target| target.directory());
    let images = std::iter::once(setup.dir.as_path());
    directories.chain(images).any(|path| {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        real.starts_with(place)
    })
}

fn make_directory(place: &Path) -> Result<(), Refusal> {
    if place != Path::new(USUAL) {
        return if place.is_dir() {
            Ok(())
        } else {
            Err(format!("{} is not there", place.display()).into())
        };
    }
    let mut path = PathBuf::from("/run");
    for part in ["fsb", "mnt"] {
        path.push(part);
        match std::fs::DirBuilder::new().mode(0o755).create(&path) {
            // The umask may have removed permissions that workers need.
            Ok(()) => rustix::fs::chmod(&path, 0o755.into())
                .map_err(|errno| attempt("chmod", &path, &errno.into()))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(attempt("make", &path, &error)),
        }
    }
    Ok(())
}

/// Mounts the tmpfs without `nodev`, because the device nodes on it are opened. Returns the
/// directory for them.
fn mount_tmpfs(place: &Path) -> Result<PathBuf, Refusal> {
    let options = [
        "mode=0755".to_owned(),
        "size=1m".to_owned(),
        "nosuid".to_owned(),
        "noexec".to_owned(),
    ];
    kernel::mount(
        "tmpfs",
        Path::new(mount_isolation::MOUNT_ROOT),
        place,
        &options,
    )
    .map_err(|error| error.to_string())?;
    let nodes = place.join("dev");
    let made = std::fs::DirBuilder::new().mode(0o700).create(&nodes);
    made.map_err(|error| {
        let _ = unmount(place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        attempt("make", &nodes, &error)
    })?;
    Ok(nodes)
}

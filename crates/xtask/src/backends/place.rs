//! The file systems of the measurement: ext4 on a loop device and tmpfs, both in a private mount namespace.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use fsb_model::Bytes;

use crate::{image, peers};

/// A directory on a file system.
#[derive(Debug)]
pub struct BenchDirectory {
    name: &'static str,
    directory: PathBuf,
    mounted: bool,
    has_device: bool,
}

/// Directories to measure in. They are unmounted when dropped, before the directory that holds the mount points is
/// removed.
pub struct Places {
    places: Vec<BenchDirectory>,
    _directory: tempfile::TempDir,
}

/// Bytes of an image besides those of the file.
const ROOM: u64 = 192 << 20;

/// Mounts the file systems. Without root it uses the directory itself.
pub fn all(directory: &Path, size: Bytes) -> anyhow::Result<Places> {
    let directory = tempfile::Builder::new()
        .prefix("fsb-bench-")
        .tempdir_in(directory)
        .with_context(|| format!("cannot work in {}", directory.display()))?;
    let path = directory.path();
    if !rustix::process::geteuid().is_root() {
        println!("not root: no ext4 on a loop device and no tmpfs, but {} as it is", path.display());
        let place = BenchDirectory { name: "here", directory: path.to_owned(), mounted: false, has_device: true };
        return Ok(Places { places: vec![place], _directory: directory });
    }
    image::leave_mounts()?;
    let mut places = Places { places: Vec::new(), _directory: directory };
    for name in ["tmpfs", "ext4"] {
        let directory = places._directory.path().join(name);
        std::fs::create_dir(&directory)?;
        match name {
            "tmpfs" => drop(peers::run(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&directory))?),
            _ => image::mount(name, &directory, None, size.0 + ROOM)?,
        }
        places.places.push(BenchDirectory { name, directory, mounted: true, has_device: name != "tmpfs" });
    }
    Ok(places)
}

impl Places {
    pub fn each(&self) -> impl Iterator<Item = &BenchDirectory> {
        self.places.iter()
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for place in self.places.iter().filter(|place| place.mounted) {
            image::unmount(&place.directory);
        }
    }
}

impl BenchDirectory {
    pub fn name(&self) -> &str {
        self.name
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn has_device(&self) -> bool {
        self.has_device
    }
}

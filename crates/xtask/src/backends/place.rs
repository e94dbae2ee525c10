//! Where it is measured: ext4 on a loop device and tmpfs, both mounted where nobody else sees them.
//!
//! The mounts live in a mount namespace of this process, the image is unlinked and the loop device detaches itself:
//! however this ends, the kernel takes everything back.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use fsb_model::Bytes;
use rustix::thread::UnshareFlags;

use crate::peers;

/// A directory on a file system.
#[derive(Debug)]
pub struct BenchDirectory {
    name: &'static str,
    directory: PathBuf,
    mounted: bool,
    has_device: bool,
}

/// Places, unmounted when dropped, before the directory that they are mounted in is removed.
pub struct Places {
    places: Vec<BenchDirectory>,
    _directory: tempfile::TempDir,
}

/// Bytes of an image beside those of the file.
const ROOM: u64 = 192 << 20;
const CHUNK: usize = 1 << 20;

/// Mounts what can be mounted. Without root the directory itself is taken as it is.
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
    // SAFETY: only the mount namespace is left, which no memory and no descriptor depends on.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.context("a mount namespace of our own")?;
    peers::run(Command::new("mount").args(["--make-rprivate", "/"]))?;
    let mut places = Places { places: Vec::new(), _directory: directory };
    for name in ["tmpfs", "ext4"] {
        let directory = places._directory.path().join(name);
        std::fs::create_dir(&directory)?;
        match name {
            "tmpfs" => drop(peers::run(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&directory))?),
            _ => mount_ext4(&directory, size)?,
        }
        places.places.push(BenchDirectory { name, directory, mounted: true, has_device: name != "tmpfs" });
    }
    Ok(places)
}

/// An image that is written from end to end, for a sparse one would be filled against the clock.
fn mount_ext4(directory: &Path, size: Bytes) -> anyhow::Result<()> {
    let image = directory.with_extension("image");
    let mut file = File::create_new(&image)?;
    let zeros = vec![0; CHUNK];
    for _ in 0..(size.0 + ROOM).div_ceil(CHUNK as u64) {
        file.write_all(&zeros).with_context(|| format!("an image for ext4 in {}", image.display()))?;
    }
    file.sync_all()?;
    drop(file);
    let whole = ["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];
    peers::run(Command::new("mkfs.ext4").args(whole).arg(&image))?;
    let attach = peers::run(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&image))?;
    let device = String::from_utf8(attach.stdout)?.trim().to_owned();
    ensure!(device.starts_with("/dev/loop"), "losetup names no device: '{device}'");
    let mounted = peers::run(Command::new("mount").args(["-t", "ext4"]).arg(&device).arg(directory));
    // It is detached when it is unmounted, or now if that failed.
    peers::run(Command::new("losetup").arg("--detach").arg(&device))?;
    std::fs::remove_file(&image)?;
    mounted.map(drop)
}

impl Places {
    pub fn each(&self) -> impl Iterator<Item = &BenchDirectory> {
        self.places.iter()
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for place in self.places.iter().filter(|place| place.mounted) {
            // Lazily: a program that is being killed may still be in there.
            let _ = Command::new("umount").arg("--lazy").arg(&place.directory).status();
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

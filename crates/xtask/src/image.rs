//! A file system on a loop device over an image, in a private mount namespace.
//!
//! The mounts are in a mount namespace of this process, the image is unlinked and the loop device detaches itself. So
//! the kernel cleans up however the process ends.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use fsb_testbed::fs;
use rustix::thread::UnshareFlags;

use crate::peers;

const CHUNK: usize = 1 << 20;

/// Moves this process to a private mount namespace, so that its mounts are invisible to other processes.
pub fn leave_mounts() -> anyhow::Result<()> {
    // SAFETY: only the mount namespace is left, which no memory and no descriptor depends on.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.context("a mount namespace of our own")?;
    peers::run(Command::new("mount").args(["--make-rprivate", "/"])).map(drop)
}

/// Mounts a target of `fsb run` on the empty directory, from an image beside it or in `at`, with the commands of an
/// export. The image is written completely, because a sparse one would be allocated while the clock runs.
pub fn mount(target: &str, directory: &Path, at: Option<&Path>, bytes: u64) -> anyhow::Result<()> {
    let target: fsb_model::Target = target.parse()?;
    let spec = target.file_system().context("a file system")?;
    let recipe = fs::recipe(spec, bytes, false, true)?;
    let name = format!("{}-{}.image", spec.fs, std::process::id());
    let image = at.or(directory.parent()).context("a directory")?.join(name);
    let mut file = File::create_new(&image)?;
    let zeros = vec![0; CHUNK];
    for _ in 0..bytes.div_ceil(CHUNK as u64) {
        file.write_all(&zeros).with_context(|| format!("an image in {}", image.display()))?;
    }
    file.sync_all()?;
    drop(file);
    let made = make_and_mount(&recipe, &image, directory);
    std::fs::remove_file(&image)?;
    made
}

fn make_and_mount(recipe: &fs::Recipe, image: &Path, directory: &Path) -> anyhow::Result<()> {
    let command = |words: &[String]| {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    };
    peers::run(command(&recipe.mkfs).arg(image))?;
    let attach = peers::run(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(image))?;
    let device = String::from_utf8(attach.stdout)?.trim().to_owned();
    ensure!(device.starts_with("/dev/loop"), "losetup names no device: '{device}'");
    let mounted = peers::run(command(&recipe.mount).arg(&device).arg(directory));
    // The loop device detaches when it is unmounted, or now if mounting failed.
    peers::run(Command::new("losetup").arg("--detach").arg(&device))?;
    mounted.map(drop)
}

/// Unmounts lazily, because a program that is being killed may still use the mount.
pub fn unmount(directory: &Path) {
    let _ = Command::new("umount").arg("--lazy").arg(directory).status();
}

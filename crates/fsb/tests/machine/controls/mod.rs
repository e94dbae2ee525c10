//! Controls in whole runs: set, observed, restored, and refused before anything is changed.

mod concurrent;
mod held;
mod killed;
mod partitions;
mod refusals;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::controls::*;
use crate::common::*;

/// What must be there for tests with a device of their own.
fn disks() -> Result<(), String> {
    fsb_testkit::root()?;
    fsb_testkit::programs(&["losetup", "mkswap"])
}

/// A small disk of the test's own, which goes with it.
pub struct Disk {
    pub path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Disk {
    pub fn new(megabytes: u64) -> Disk {
        let directory = scratch();
        let image = directory.path().join("disk");
        fs::File::create(&image).and_then(|file| file.set_len(megabytes << 20)).expect("an image");
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().expect("losetup runs");
        assert!(output.status.success(), "{}", stderr(&output));
        let path = PathBuf::from(stdout(&output).trim());
        Disk { path, _directory: directory }
    }

    fn name(&self) -> String {
        self.path.file_name().expect("a name").to_string_lossy().into_owned()
    }

    /// Waits until nothing is mounted on it any more, in whatever namespace.
    pub fn wait_until_free(&self) {
        use std::os::unix::fs::OpenOptionsExt;
        let exclusive = rustix::fs::OFlags::EXCL.bits() as i32;
        wait_until("the disk is free", std::time::Duration::from_secs(20), || {
            fs::File::options().read(true).custom_flags(exclusive).open(&self.path).is_ok()
        });
    }

    /// A setting of its queue.
    fn setting(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/{file}", self.name()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.path).output();
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

fn vm(file: &str) -> String {
    read(Path::new("/proc/sys/vm").join(file))
}

/// Processes of workers, with a file of /proc of each.
fn of_workers(file: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let is_worker = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"__worker")
    };
    processes.filter(is_worker).map(|path| read(path.join(file))).collect()
}

//! Controls in whole runs: set, observed, restored, and refused before anything is changed.

mod concurrent;
mod held;
mod killed;
mod partitions;
mod refusals;
mod services;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;

/// Writes and reads that last long enough to look at.
const PLAN: &str = r#"
name = "controlled"
[controls]
guest-memory = "off"
[repetition]
blocks = 50
stretch = "100ms"
[[workload]]
name = "write"
file_size = "2M"
block_size = "64K"
durability = "end"
[[workload]]
name = "read"
file_size = "2M"
block_size = "64K"
cache = "cold"
"#;

/// What must be there for tests with a device of their own.
fn needs_disks() {
    needs_root();
    ["losetup", "mkswap"].into_iter().for_each(needs_program);
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

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn vm(file: &str) -> String {
    read(Path::new("/proc/sys/vm").join(file))
}

/// A run of the plan in `directory` on targets, with controls.
fn start(directory: &Path, targets: &[&str], controls: &[&str], wipe: &Path) -> Running {
    fs::write(directory.join("plan.toml"), PLAN).expect("the plan is written");
    let wipe = wipe.to_string_lossy();
    let mut arguments = vec!["run", "plan.toml", "--size", "320M", "--out", "run", "-q", "--wipe", &wipe];
    arguments.extend(targets);
    arguments.extend(controls.iter().flat_map(|control| ["--control", control]));
    Running::start(directory, &arguments)
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

/// Waits until nothing of the run with this front is there any more: other runs may go on.
fn is_gone(front: u32) {
    let owner = format!("\"pid\":{front},");
    wait_until("the run is gone", std::time::Duration::from_secs(20), || {
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        processes.into_iter().all(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            !String::from_utf8_lossy(&line).contains(&owner)
        })
    });
}

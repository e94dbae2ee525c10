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
use crate::disk::Disk;

/// Requirements of tests that use a device of their own.
fn disks() -> Result<(), String> {
    fsb_testkit::root()?;
    fsb_testkit::programs(&["losetup", "mkswap"])
}

fn vm(file: &str) -> String {
    read(Path::new("/proc/sys/vm").join(file))
}

/// Returns a file of /proc of each worker process.
fn of_workers(file: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let is_worker = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"__worker")
    };
    processes.filter(is_worker).map(|path| read(path.join(file))).collect()
}

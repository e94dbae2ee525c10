//! `fsb filebench`: performs a workload file, prints filebench's text, and leaves nothing.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use crate::common::{Running, fsb, wait_until};

pub fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/filebench/wml")
        .join(name);
    path.display().to_string()
}

/// Returns the source of a file that comes with fsb.
pub fn shipped_micro(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fsb-compat/src/filebench/personality")
        .join(name)
}

/// Runs a smaller version of a file of filebench in a directory.
pub fn run(directory: &Path, file: &str, more: &[&str]) -> Output {
    let file = shipped(file);
    fsb(
        directory,
        &[&["filebench", "--dir", ".", file.as_str()], more].concat(),
    )
}

pub fn listing(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// Starts a run of an hour, and waits until it works on files.
pub fn start(directory: &Path, more: &[&str]) -> Running {
    let file = shipped("varmail.f");
    let options = [
        &[
            "filebench",
            "--dir",
            ".",
            &file,
            "--seconds",
            "3600",
            "--set",
            "nfiles=200",
        ],
        more,
    ]
    .concat();
    let running = Running::start(directory, &options);
    wait_until("files are there", Duration::from_secs(60), || {
        set(directory).is_some_and(|set| files(&set) > 100)
    });
    running
}

/// Returns the directory of a run's files.
pub fn set(directory: &Path) -> Option<PathBuf> {
    let own = listing(directory)
        .into_iter()
        .find(|path| path.to_string_lossy().contains("/.fsb-"))?;
    Some(own.join("fsb-set/files"))
}

pub fn files(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| {
            if entry.path().is_dir() {
                files(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

//! Kernels and their modules, opened.
//!
//! What a request names is opened with the rights of whoever asked root, as everything is. On some machines only root can
//! read the kernels in `/boot`, and what was fetched lies in root's own cache: what lies there is opened as this process,
//! for only root puts anything there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cache::cache_path;

/// Where distributions put kernels and modules.
const SYSTEM: [&str; 3] = ["/boot", "/lib/modules", "/usr/lib/modules"];

pub(crate) fn open(path: &Path) -> io::Result<File> {
    attempt(path, fsb_input::open)
}

pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    attempt(path, |path| fsb_input::read(path, most))
}

pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    attempt(path, |path| fsb_input::read_text(path, most))
}

fn attempt<T>(path: &Path, read: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => match own(path) {
            Some(path) => fsb_input::with_own_rights(|| read(&path)),
            None => Err(error),
        },
        done => done,
    }
}

/// The path without links, where it leads to what the system or this program's cache holds. No component of it can be
/// exchanged by others.
fn own(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let is_ours =
        |place: &PathBuf| fs::metadata(place).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
    let places = SYSTEM.iter().map(PathBuf::from).chain(cache_path().ok());
    let mut places = places.filter_map(|place| fs::canonicalize(place).ok()).filter(is_ours);
    places.any(|place| path.starts_with(place)).then_some(path)
}

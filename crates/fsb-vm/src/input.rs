//! Opens kernels and their modules, and finds the user's cache of them.
//!
//! Under sudo, files that a request names are opened with the invoking user's privileges, as
//! everywhere. On some machines only root can read the kernels in `/boot`, and fetched kernels are
//! in root's own cache. Files in these directories are opened with the privileges of this process,
//! because only root can write there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{VmError, cache_advice, refused};

/// The directories in which distributions install kernels and modules.
const SYSTEM: [&str; 3] = ["/boot", "/lib/modules", "/usr/lib/modules"];

pub(crate) fn open(path: &Path) -> io::Result<File> {
    attempt(path, fsb_store::input::open)
}

pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    attempt(path, |path| fsb_store::input::read(path, most))
}

pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    attempt(path, |path| fsb_store::input::read_text(path, most))
}

fn attempt<T>(path: &Path, read: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => match own(path) {
            Some(path) => fsb_store::input::with_own_rights(|| read(&path)),
            None => Err(error),
        },
        done => done,
    }
}

/// Returns the path without links if it leads into a system directory or this program's cache, and
/// this process owns that directory. Other users cannot exchange a component of such a path.
fn own(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let places = SYSTEM.iter().map(PathBuf::from).chain(cache_path().ok());
    let mut places = places
        .filter_map(|place| fs::canonicalize(place).ok())
        .filter(|place| {
            fs::metadata(place)
                .is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
        });
    places.any(|place| path.starts_with(place)).then_some(path)
}

/// Returns the path of the user's cache of kernels and initramfs: `$XDG_CACHE_HOME/fsb`, or
/// `~/.cache/fsb`.
pub fn cache_path() -> Result<PathBuf, VmError> {
    fn set(name: &str) -> Option<PathBuf> {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("fsb")).ok_or_else(|| {
        VmError::machine("no directory for kernels and initramfs")
            .tried("neither XDG_CACHE_HOME nor HOME is set")
            .advice("name a directory for them: export XDG_CACHE_HOME=$(mktemp -d)")
    })
}

/// Returns the path of the user's cache, and creates the directory if necessary.
pub fn cache() -> Result<PathBuf, VmError> {
    let cache = cache_path()?;
    fs::create_dir_all(&cache).map_err(|error| {
        let advice = cache_advice(&error);
        refused("make the directory", &cache, error).advice(advice)
    })?;
    Ok(cache)
}

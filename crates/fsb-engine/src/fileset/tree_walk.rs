//! Trees of many files that several threads count or remove.
//!
//! One thread does the work of one directory, because others would wait for the kernel's lock on it. None of this runs
//! while the clock runs.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};

use crate::EngineError;
use crate::progress::Progress;

/// Up to this number of files one thread does the work.
pub(crate) const FEW_FILES: u64 = 20_000;
/// The maximum number of threads. More would wait for the file system's journal.
const MOST_THREADS: usize = 8;

/// Returns the number of threads for work outside the clock.
pub(crate) fn helpers() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
}

/// Files and directories, the root not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) files: u64,
    pub(crate) directories: u64,
}

/// Counts the files and directories below a directory. With few files the caller's thread does it alone.
pub(crate) fn count(root: &Path, expected: u64) -> Result<Found, EngineError> {
    let threads = if expected < FEW_FILES { 1 } else { helpers() };
    walk(root, false, threads, &Progress::default()).map(|walk| walk.found)
}

/// Removes a directory and everything below it, if it exists. Several threads remove what paths and permissions allow,
/// and one thread that needs neither removes the rest.
pub(crate) fn remove(root: &Path, progress: &Progress) -> Result<(), EngineError> {
    match root.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(EngineError::io("stat", root, &error)),
        Ok(_) => {}
    }
    match remove_by_threads(root, progress) {
        Ok(()) => Ok(()),
        Err(_) => fsb_input::remove_tree(root).map_err(|error| EngineError::io("remove", root, &error)),
    }
}

fn remove_by_threads(root: &Path, progress: &Progress) -> Result<(), EngineError> {
    let mut walk = walk(root, true, helpers(), progress)?;
    // Deeper ones first.
    walk.directories.sort_unstable_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    for path in &walk.directories {
        rustix::fs::rmdir(path).map_err(|errno| EngineError::call("remove directory", path, errno))?;
    }
    Ok(())
}

#[derive(Default)]
struct Walk {
    waiting: Vec<PathBuf>,
    /// Threads that are in a directory and may find more.
    walking: usize,
    directories: Vec<PathBuf>,
    found: Found,
    failed: Option<EngineError>,
}

fn walk(root: &Path, remove: bool, threads: usize, progress: &Progress) -> Result<Walk, EngineError> {
    let start = Walk { waiting: vec![root.to_owned()], ..Walk::default() };
    let (shared, changed) = (Mutex::new(start), Condvar::new());
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    let walker = || {
        loop {
            let mut state = lock();
            while state.waiting.is_empty() && state.walking > 0 && state.failed.is_none() {
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let (Some(path), None) = (state.waiting.pop(), &state.failed) else {
                changed.notify_all();
                return;
            };
            state.walking += 1;
            drop(state);
            let looked = look(&path, remove, progress);
            let mut state = lock();
            state.walking -= 1;
            match looked {
                Ok((files, below)) => {
                    state.found.files += files;
                    state.found.directories += below.len() as u64;
                    state.waiting.extend(below);
                    state.directories.push(path);
                }
                Err(error) => drop(state.failed.get_or_insert(error)),
            }
            changed.notify_all();
        }
    };
    // The caller is one of them.
    thread::scope(|scope| {
        // Fewer do as well.
        (1..threads).for_each(|_| drop(thread::Builder::new().spawn_scoped(scope, walker)));
        walker();
    });
    let walk = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    match walk.failed {
        Some(error) => Err(error),
        None => Ok(walk),
    }
}

/// Files of one directory, and the directories in it.
fn look(path: &Path, remove: bool, progress: &Progress) -> Result<(u64, Vec<PathBuf>), EngineError> {
    let failed = |call, errno| EngineError::call(call, path, errno);
    let directory =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| failed("open", errno))?;
    let (mut files, mut below) = (0, Vec::new());
    let mut buffer = vec![MaybeUninit::uninit(); 256 << 10];
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(|errno| failed("list", errno))?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let here = || path.join(OsStr::from_bytes(name.to_bytes()));
        if is_directory(&directory, name, entry.file_type()).map_err(|error| EngineError::io("stat", here(), &error))? {
            below.push(here());
            continue;
        }
        if remove {
            rustix::fs::unlinkat(&directory, name, AtFlags::empty())
                .map_err(|errno| EngineError::call("remove", here(), errno))?;
            progress.add(1);
        }
        files += 1;
    }
    Ok((files, below))
}

/// Some file systems do not say it in the directory itself.
fn is_directory(directory: &OwnedFd, name: &std::ffi::CStr, told: FileType) -> io::Result<bool> {
    Ok(match told {
        FileType::Unknown => {
            let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            FileType::from_raw_mode(found.st_mode) == FileType::Directory
        }
        told => told == FileType::Directory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_tree_is_counted_and_removed_whole() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        for directory in 0..20 {
            let path = tree.join(format!("{}/{directory}", directory % 3));
            fs::create_dir_all(&path).unwrap();
            for file in 0..30 {
                fs::write(path.join(file.to_string()), []).unwrap();
            }
        }
        std::os::unix::fs::symlink("/", tree.join("everything")).unwrap();
        for expected in [1, FEW_FILES] {
            assert_eq!(count(&tree, expected).unwrap(), Found { files: 601, directories: 23 });
        }
        let progress = Progress::default();
        remove(&tree, &progress).unwrap();
        assert_eq!(progress.live().unwrap().done, 601);
        assert!(!tree.exists() && Path::new("/usr").exists());
        remove(&tree, &progress).unwrap();
    }

    #[test]
    fn entries_that_cannot_be_walked_are_named() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, []).unwrap();
        let error = remove(&file, &Progress::default()).unwrap_err();
        assert!(error.message.starts_with("remove /") && error.message.ends_with("(ENOTDIR)"), "{error}");
    }
}

//! The cache of archives and of unpacked kernels. A file is named by the hash of its content or source. The cache keeps
//! the last few files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use fsb_store::input::LARGEST_BINARY;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::archive::Archive;
use crate::error::{VmError, cache_advice, refused};
use crate::kernel::bare_kernel;

/// Number of archives, and of kernels, that the cache keeps. Each combination of a kernel and programs has its own
/// archive.
const KEPT: usize = 8;

/// Extensions of the file names.
const ARCHIVE: &str = "cpio";
const KERNEL: &str = "vmlinux";

/// A file of the cache in use. Other processes do not prune it while this value or a clone lives. The lock ends with
/// the process.
#[derive(Debug, Clone)]
pub(super) struct Hold(#[expect(dead_code, reason = "it holds the lock")] Arc<File>);

impl Hold {
    /// Holds the file at that path. Returns `None` if it does not exist.
    fn take(path: &Path) -> Option<Hold> {
        Hold::new(File::open(path).ok()?)
    }

    /// Holds an open file. Returns `None` if another process removed it between its opening and the lock. On a file
    /// system without locks the file is not protected.
    fn new(file: File) -> Option<Hold> {
        let _ = flock(&file, FlockOperation::LockShared);
        let there = file.metadata().is_ok_and(|metadata| metadata.nlink() > 0);
        there.then(|| Hold(Arc::new(file)))
    }
}

/// An archive in the cache.
#[derive(Debug)]
pub(super) struct Kept {
    pub path: PathBuf,
    pub size: u64,
    pub reused: bool,
    pub hold: Option<Hold>,
}

/// Writes the archive below `cache`, unless the cache already has one with the same contents.
pub(super) fn keep(archive: &Archive, cache: &Path) -> Result<Kept, VmError> {
    let directory = own_directory(cache)?;
    let mut digest = Digesting { hash: Sha256::new(), size: 0 };
    archive
        .write(&mut digest)
        .map_err(|error| VmError::machine("cannot pack the initramfs").tried(error.to_string()))?;
    let path = directory.join(format!("{}.{ARCHIVE}", name(digest.hash)));
    let size = digest.size;
    let mut hold = Hold::take(&path).filter(|_| fs::metadata(&path).is_ok_and(|metadata| metadata.len() == size));
    let reused = hold.is_some();
    if reused {
        touch(&path);
    } else {
        hold = put(&directory, &path, |out| archive.write(out))?;
    }
    prune(&directory, &path);
    Ok(Kept { path, size, reused, hold })
}

/// A kernel in the cache.
#[derive(Debug)]
pub(super) struct KeptKernel {
    pub path: PathBuf,
    /// The hash of the image that the kernel was made from.
    pub hash: String,
    pub hold: Option<Hold>,
}

/// Stores the kernel in the form that QEMU starts fastest: unpacked if possible, otherwise a copy of the image. The
/// image itself may be rebuilt while the run lasts.
pub(super) fn keep_kernel(image: &Path, cache: &Path) -> Result<KeptKernel, VmError> {
    let bytes = crate::input::read(image, LARGEST_BINARY).map_err(|error| refused("read the kernel", image, error))?;
    let directory = own_directory(cache)?;
    let hash = hash(&bytes);
    let path = directory.join(format!("{hash}.{KERNEL}"));
    let mut hold = Hold::take(&path);
    if hold.is_some() {
        touch(&path);
    } else {
        let bare = bare_kernel(&bytes).unwrap_or(bytes);
        hold = put(&directory, &path, |out| out.write_all(&bare))?;
    }
    prune(&directory, &path);
    Ok(KeptKernel { path, hash, hold })
}

/// Returns a hash that identifies the bytes: the beginning of their SHA-256.
pub(super) fn hash(bytes: &[u8]) -> String {
    name(Sha256::new_with_prefix(bytes))
}

fn own_directory(cache: &Path) -> Result<PathBuf, VmError> {
    let directory = cache.join("initramfs");
    fs::create_dir_all(&directory).map_err(|error| {
        let advice = cache_advice(&error);
        refused("make the directory", &directory, error).advice(advice)
    })?;
    Ok(directory)
}

fn name(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Sets the modification time, which pruning uses as the time of last use.
fn touch(path: &Path) {
    let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Writes a file under a temporary name first, because an incomplete file must never have the final name. Holds the
/// file before renaming it.
fn put(
    directory: &Path,
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<Option<Hold>, VmError> {
    let put = || -> io::Result<Option<Hold>> {
        let file = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
        let mut out = BufWriter::new(file.as_file());
        write(&mut out)?;
        out.flush()?;
        drop(out);
        let hold = Hold::new(File::open(file.path())?);
        file.persist(path).map_err(|error| error.error)?;
        Ok(hold)
    };
    put().map_err(|error| {
        let advice = cache_advice(&error);
        refused("write", path, error).advice(advice)
    })
}

/// Removes all but the last few files, except those in use. Also removes temporary files of crashed writers after a
/// day.
fn prune(directory: &Path, current: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in entries.flatten() {
        let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) else { continue };
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(".new-") {
            if modified.elapsed().is_ok_and(|age| age.as_secs() > 86_400) {
                let _ = fs::remove_file(path);
            }
        } else if path.extension() == current.extension() && path != current {
            files.push((modified, path));
        }
    }
    files.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    for (_, path) in files.into_iter().skip(KEPT - 1) {
        // Keep the lock until the file is removed, so that a process that waits for it sees the removal.
        let Ok(file) = File::options().read(true).write(true).open(&path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// A writer that only computes the hash and the size of the bytes.
struct Digesting {
    hash: Sha256,
    size: u64,
}

impl Write for Digesting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(text: &str) -> Archive {
        let mut archive = Archive::default();
        archive.file("/a", text.into(), 0o644);
        archive
    }

    #[test]
    fn the_same_contents_are_written_once() {
        let cache = tempfile::tempdir().unwrap();
        let first = keep(&archive("one"), cache.path()).unwrap();
        let again = keep(&archive("one"), cache.path()).unwrap();
        let other = keep(&archive("two"), cache.path()).unwrap();
        assert!(!first.reused && again.reused && !other.reused);
        assert_eq!(first.path, again.path);
        assert_ne!(first.path, other.path);
        assert_eq!(fs::metadata(&first.path).unwrap().len(), first.size);
        // A truncated file is written again.
        fs::write(&first.path, "half").unwrap();
        assert!(!keep(&archive("one"), cache.path()).unwrap().reused);
    }

    #[test]
    fn a_kernel_that_cannot_be_unpacked_is_booted_as_it_is() {
        let cache = tempfile::tempdir().unwrap();
        let image = cache.path().join("vmlinuz");
        fs::write(&image, "not packed").unwrap();
        let kept = keep_kernel(&image, cache.path()).unwrap();
        // A later build of the image is another kernel.
        fs::write(&image, "another").unwrap();
        let later = keep_kernel(&image, cache.path()).unwrap();
        assert_eq!(fs::read_to_string(&kept.path).unwrap(), "not packed");
        assert_eq!(fs::read_to_string(&later.path).unwrap(), "another");
        assert_ne!(kept.hash, later.hash);
        assert!(keep_kernel(&cache.path().join("absent"), cache.path()).is_err());
    }

    #[test]
    fn an_unwritable_cache_is_reported_with_a_remedy() {
        let said = |number: i32| cache_advice(&io::Error::from_raw_os_error(number));
        // ENOSPC, EACCES, EROFS
        assert!(said(28).starts_with("free some space") && !said(13).contains("space") && !said(30).contains("space"));
    }

    #[test]
    fn the_last_few_are_kept() {
        let cache = tempfile::tempdir().unwrap();
        let kept: Vec<_> = (0..KEPT + 3).map(|n| keep(&archive(&n.to_string()), cache.path()).unwrap().path).collect();
        assert_eq!(fs::read_dir(cache.path().join("initramfs")).unwrap().count(), KEPT);
        assert!(kept.last().unwrap().exists());
    }

    #[test]
    fn an_initramfs_in_use_is_kept() {
        let cache = tempfile::tempdir().unwrap();
        let held = keep(&archive("held"), cache.path()).unwrap();
        let found = keep(&archive("held"), cache.path()).unwrap();
        let others = || (0..2 * KEPT).for_each(|n| drop(keep(&archive(&n.to_string()), cache.path()).unwrap()));
        others();
        assert!(held.path.exists());
        drop(held);
        others();
        assert!(found.reused && found.path.exists());
        let path = found.path.clone();
        drop(found);
        others();
        assert!(!path.exists());
    }
}

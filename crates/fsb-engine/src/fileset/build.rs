//! Making a set of files, and removing it.
//!
//! One thread makes the files in the order of their numbers, whatever the number of threads that will use them, so that
//! the layout on disk does not depend on it. Nothing of this runs against the clock.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::layout::Layout;
use super::tree_walk::remove;
use crate::EngineError;
use crate::backend::{Directory, KernelNamespace, Namespace};
use crate::data::{Data, DataSource, Memory};
use crate::progress::Progress;

/// Bytes of one call when files are written or read outside the clock.
const CHUNK: u64 = 1 << 20;

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Directories without files.
    Directories,
    /// Files of no bytes.
    Empty,
    /// Files with all their bytes.
    Full,
}

/// Makes the set and brings all of it onto the device. With `settle`, what a later read would write is written now.
pub(crate) fn build(
    set: &Path,
    layout: &Layout,
    content: Content,
    settle: bool,
    data: DataSource,
) -> Result<(), EngineError> {
    make(set, layout, content, data)?;
    sync(set)?;
    if settle {
        wait_for_access_times();
        read_once(set, layout)?;
        sync(set)?;
    }
    Ok(())
}

/// Makes the set; nothing is waited for.
pub(crate) fn make(set: &Path, layout: &Layout, content: Content, data: DataSource) -> Result<(), EngineError> {
    make_anew(set)?;
    let largest = layout.file_size.min(CHUNK);
    let mut data = Data::new(data, if content == Content::Full { largest as usize } else { 0 });
    for directory in 0..layout.directories() {
        make_directory(&set.join(Layout::directory_name(directory)))?;
        if content != Content::Directories {
            for file in layout.files_in(directory) {
                let size = if content == Content::Full { layout.file_size } else { 0 };
                write_file(&set.join(layout.path(file)), size, layout.address(file), &mut data)?;
            }
        }
    }
    Ok(())
}

/// One directory, whose parent is there.
pub(crate) fn make_directory(path: &Path) -> Result<(), EngineError> {
    fs::create_dir(path).map_err(|error| EngineError::io("make directory", path, &error))
}

fn write_file(path: &Path, size: u64, address: u64, data: &mut Data) -> Result<(), EngineError> {
    let file = File::create_new(path).map_err(|error| EngineError::io("create", path, &error))?;
    let mut offset = 0;
    while offset < size {
        let length = CHUNK.min(size - offset);
        let bytes = data.window(address + offset, length as usize);
        file.write_all_at(bytes, offset).map_err(|error| EngineError::io("write to", path, &error))?;
        offset += length;
    }
    Ok(())
}

/// An empty directory for the set. What a worker that was killed left of another is removed.
pub(crate) fn make_anew(set: &Path) -> Result<(), EngineError> {
    remove(set, &Progress::default())?;
    make_directory(set)
}

/// What was deleted is gone.
pub(crate) fn expect_nothing(set: &Path) -> Result<(), EngineError> {
    let left = fs::read_dir(set).map_err(|error| EngineError::io("list", set, &error))?.count();
    if left == 0 {
        return Ok(());
    }
    let message = format!("{} still holds {left} entries after all were deleted", set.display());
    Err(EngineError { path: Some(set.to_owned()), ..EngineError::new(message) })
}

/// Everything on the file system is on the device.
pub(crate) fn sync(set: &Path) -> Result<(), EngineError> {
    sync_through(&open(set)?, set)
}

/// As [`sync`], through the set's directory, which is open.
pub(crate) fn sync_through(root: &Directory, set: &Path) -> Result<(), EngineError> {
    KernelNamespace.sync_file_system(root).map_err(|errno| EngineError::call("syncfs of", set, errno))
}

/// The directory that names of the set begin in.
pub(crate) fn open(set: &Path) -> Result<Directory, EngineError> {
    KernelNamespace.open_root(set).map_err(|errno| EngineError::call("open", set, errno))
}

/// Waits until a read gets a later access time than the last write: one that equals the modification time counts as not
/// newer, and the kernel's coarse clock moves every 1 to 10 ms.
pub(crate) fn wait_for_access_times() {
    thread::sleep(Duration::from_millis(20));
}

/// Reads everything once, names and data. With relatime, the default, the first read after a write updates the access
/// times; a cold measurement would otherwise contain these writes. They are on the device after the next [`sync`].
pub(crate) fn read_once(set: &Path, layout: &Layout) -> Result<(), EngineError> {
    list(set, layout)?;
    read(set, layout)
}

/// Lists every directory and asks for the attributes of every file in it.
pub(super) fn list(set: &Path, layout: &Layout) -> Result<(), EngineError> {
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    for directory in 0..layout.directories() {
        let path = set.join(Layout::directory_name(directory));
        let handle = open(&path)?;
        let mut refused = None;
        let mut visit = |name: &std::ffi::CStr| match KernelNamespace.stat(&handle, name) {
            Ok(()) => ControlFlow::Continue(()),
            Err(errno) => {
                let path = path.join(name.to_string_lossy().as_ref());
                refused = Some(EngineError::call("stat", path, errno));
                ControlFlow::Break(())
            }
        };
        KernelNamespace
            .list(&handle, &mut buffer, 0, &mut visit)
            .map_err(|errno| EngineError::call("list", &path, errno))?;
        refused.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Reads every byte of every file through the page cache.
pub(super) fn read(set: &Path, layout: &Layout) -> Result<(), EngineError> {
    let mut memory = Memory::new(layout.file_size.clamp(1, CHUNK) as usize);
    for file in 0..layout.files {
        let path = set.join(layout.path(file));
        let file = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        read_all(&file, memory.as_mut()).map_err(|error| EngineError::io("read from", &path, &error))?;
    }
    Ok(())
}

fn read_all(file: &File, buffer: &mut [u8]) -> io::Result<()> {
    let mut offset = 0;
    loop {
        match file.read_at(buffer, offset) {
            Ok(0) => return Ok(()),
            Ok(length) => offset += length as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

//! Making the sets of a flow before the clock starts, by several threads where there is much to make.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{Mode, OFlags};

use super::sets::Set;
use super::tree::{LONGEST_PATH, PathBuffer};
use crate::EngineError;
use crate::backend::Directory;
use crate::data::{Data, DataSource};
use crate::fileset;
use crate::fileset::tree_walk::{self, FEW_FILES};
use crate::progress::Progress;

/// Bytes of one call.
const CHUNK: u64 = 1 << 20;

/// Makes all sets below `root`, and brings them onto the device.
pub(super) fn build(root: &Path, sets: &[Set], source: DataSource, progress: &Progress) -> Result<(), EngineError> {
    fileset::make_anew(root)?;
    let open = fileset::open(root)?;
    for set in sets {
        progress.expect(set.files.existing());
    }
    for set in sets {
        directories(root, &open, set)?;
        files(root, &open, set, source, progress)?;
    }
    fileset::sync_through(&open, root)
}

fn directories(root: &Path, open: &Directory, set: &Set) -> Result<(), EngineError> {
    let mut path_buffer = [0; LONGEST_PATH];
    let make = |path: &std::ffi::CStr| {
        let made = rustix::fs::mkdirat(open.fd(), path, Mode::from_raw_mode(0o755));
        made.map_err(|errno| EngineError::call("make directory", root.join(path.to_string_lossy().as_ref()), errno))
    };
    // Parents have smaller numbers than what lies in them.
    for number in 0..set.tree.directories() {
        make(set.tree.directory(number, &mut path_buffer))?;
    }
    let Some((tree, entries)) = &set.empty else { return Ok(()) };
    // The set's own directory is there.
    for number in 1..tree.directories() {
        make(tree.directory(number, &mut path_buffer))?;
    }
    for entry in (0..entries.len()).filter(|&entry| entries.exists(entry)) {
        make(tree.entry(entry, &mut path_buffer))?;
    }
    Ok(())
}

fn files(root: &Path, open: &Directory, set: &Set, source: DataSource, progress: &Progress) -> Result<(), EngineError> {
    // One thread makes few files in the order of their names: so their layout is the same each time.
    let threads = if set.files.len() < FEW_FILES { 1 } else { tree_walk::helpers() };
    let next = AtomicUsize::new(0);
    let (stopped, failed) = (AtomicBool::new(false), Mutex::new(None));
    // Directories of a million files are shared too: by pieces.
    let pieces = Pieces::of(set, threads);
    let maker = || {
        let mut data = Data::new(source, CHUNK as usize);
        let mut path_buffer = [0; LONGEST_PATH];
        while let (false, Some(piece)) =
            (stopped.load(Ordering::Relaxed), pieces.get(next.fetch_add(1, Ordering::Relaxed)))
        {
            for file in piece.filter(|&file| set.files.exists(file)) {
                if let Err(error) = make_file(root, open, set, file, &mut data, &mut path_buffer) {
                    stopped.store(true, Ordering::Relaxed);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
                progress.add(1);
            }
        }
    };
    if threads == 1 {
        maker();
    } else {
        thread::scope(|scope| {
            // Fewer do as well.
            (1..threads).for_each(|_| drop(thread::Builder::new().spawn_scoped(scope, maker)));
            maker();
        });
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Ranges of files that threads take one after another: directory by directory, and large ones in parts.
struct Pieces {
    starts: Vec<u64>,
}

impl Pieces {
    fn of(set: &Set, threads: usize) -> Pieces {
        let longest = if threads == 1 { u64::MAX } else { (set.files.len() / 64).max(1) };
        let mut starts = Vec::new();
        for leaf in 0..set.tree.leaves() {
            let mut files = set.tree.entries_of(leaf);
            while files.start < files.end {
                starts.push(files.start);
                files.start = files.start.saturating_add(longest).min(files.end);
            }
        }
        starts.push(set.files.len());
        Pieces { starts }
    }

    fn get(&self, number: usize) -> Option<std::ops::Range<u64>> {
        Some(*self.starts.get(number)?..*self.starts.get(number + 1)?)
    }
}

fn make_file(
    root: &Path,
    open: &Directory,
    set: &Set,
    file: u64,
    data: &mut Data,
    path_buffer: &mut PathBuffer,
) -> Result<(), EngineError> {
    let path = set.tree.entry(file, path_buffer);
    let failed = |call, errno| EngineError::call(call, root.join(path.to_string_lossy().as_ref()), errno);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = rustix::fs::openat(open.fd(), path, flags, Mode::from_raw_mode(0o644));
    let made = made.map_err(|errno| failed("create", errno))?;
    let (address, size) = (set.address(file, 0), set.size(file));
    let mut offset = 0;
    while offset < size {
        let bytes = data.window(address + offset, CHUNK.min(size - offset) as usize);
        match rustix::io::pwrite(made.as_fd(), bytes, offset) {
            Ok(written) => offset += written as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(failed("write to", errno)),
        }
    }
    Ok(())
}

//! Sets of files: their directories, names and content, their creation, verification and removal,
//! and the state of the page cache for them.
//!
//! Directory and name of a file are functions of its number. One thread creates the files in the
//! order of their numbers, whatever the number of threads that will use them, so that the layout on
//! disk does not depend on it. Only the cache is touched shortly before the clock starts: it is
//! filled for warm work, emptied for cold work, and examined as a validity check.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::mem::MaybeUninit;
use std::ops::{ControlFlow, Range};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fsb_model::CacheState;
use rustix::fs::{Advice, AtFlags, FallocateFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use crate::backend::{Directory, KernelNamespace, Namespace};
use crate::data::{Data, DataSource, Memory};
use crate::error::EngineError;
use crate::memory::resident_bytes;
use crate::task::{Progress, Ready};

/// Bytes of the blocks that the device moves.
pub(crate) const BLOCK: u64 = 4096;
/// Bytes per call when files are written or read outside the clock.
pub(crate) const CHUNK: u64 = 1 << 20;
/// The overhead of a file in bytes: an inode and a directory entry, generously.
pub(crate) const NOTE: u64 = 2048;

/// The maximum number of files, limited by the digits of names.
pub(crate) const MOST_FILES: u64 = 100_000_000;
/// The maximum number of directories, limited by the digits of names.
pub(crate) const MOST_DIRECTORIES: u64 = 100_000;
/// `d00012/f00012345` and a NUL: all paths have one length, well below the 64 bytes a file that
/// memory may cost.
const STRIDE: usize = 17;

/// The shape of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) files: u64,
    pub(crate) file_size: u64,
    pub(crate) files_per_directory: u64,
}

impl Layout {
    /// Directories in the set.
    pub(crate) fn directories(&self) -> u64 {
        self.files.div_ceil(self.files_per_directory)
    }

    /// Returns the directory of a file.
    pub(crate) fn directory_of(&self, file: u64) -> u64 {
        file / self.files_per_directory
    }

    /// Returns the files of a directory.
    pub(crate) fn files_in(&self, directory: u64) -> Range<u64> {
        let first = directory * self.files_per_directory;
        first..self.files.min(first + self.files_per_directory)
    }

    /// Returns the address of a file's first byte among all bytes of the set. Files begin on pages.
    pub(crate) fn address(&self, file: u64) -> u64 {
        file * self.file_size.next_multiple_of(4096)
    }

    /// Returns the path of a file relative to the set.
    pub(crate) fn path(&self, file: u64) -> PathBuf {
        PathBuf::from(self.text(file, FIRST))
    }

    /// Returns the name of a directory.
    pub(crate) fn directory_name(directory: u64) -> String {
        format!("d{directory:05}")
    }

    fn text(&self, file: u64, letters: Letters) -> String {
        format!(
            "{}{:05}/{}{file:08}",
            letters.0,
            self.directory_of(file),
            letters.1
        )
    }
}

/// The first letters of the names of directories and of files.
#[derive(Debug, Clone, Copy)]
struct Letters(char, char);

/// The names that sets are made with.
const FIRST: Letters = Letters('d', 'f');
/// The names of the directories that files are moved to.
const MOVED: Letters = Letters('e', 'f');

/// `d00012` and a NUL.
const DIRECTORY_STRIDE: usize = 7;

/// The name of one directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryName([u8; DIRECTORY_STRIDE]);

impl DirectoryName {
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).expect("every name has the length of a stride")
    }
}

/// The paths of all files of a set, written out before the clock starts.
#[derive(Debug)]
pub(crate) struct Names {
    bytes: Vec<u8>,
}

impl Names {
    /// Returns the names that files are made under.
    pub(crate) fn new(layout: &Layout) -> Names {
        Names::with(layout, FIRST)
    }

    /// Returns the names that files get when they are renamed.
    pub(crate) fn other(layout: &Layout) -> Names {
        Names::with(layout, Letters('d', 'r'))
    }

    /// Returns the names that files get when they are moved to the directories of
    /// [`Content::Movable`].
    pub(crate) fn moved(layout: &Layout) -> Names {
        Names::with(layout, MOVED)
    }

    fn with(layout: &Layout, letters: Letters) -> Names {
        let mut bytes = Vec::with_capacity(layout.files as usize * STRIDE);
        for file in 0..layout.files {
            bytes.extend_from_slice(layout.text(file, letters).as_bytes());
            bytes.push(0);
        }
        Names { bytes }
    }

    /// Returns the path of a file relative to the set.
    #[inline]
    pub(crate) fn path(&self, file: u64) -> &CStr {
        let bytes = &self.bytes[file as usize * STRIDE..][..STRIDE];
        CStr::from_bytes_with_nul(bytes).expect("every path has the length of a stride")
    }

    /// Returns the name of a directory, without allocating: the front of the path of its first
    /// file.
    pub(crate) fn directory(&self, layout: &Layout, directory: u64) -> DirectoryName {
        let path = self.path(directory * layout.files_per_directory).to_bytes();
        let mut name = [0; DIRECTORY_STRIDE];
        name[..DIRECTORY_STRIDE - 1].copy_from_slice(&path[..DIRECTORY_STRIDE - 1]);
        DirectoryName(name)
    }

    /// Returns the path for messages, below `set`.
    pub(crate) fn show(&self, set: &Path, file: u64) -> PathBuf {
        set.join(self.path(file).to_string_lossy().as_ref())
    }
}

/// The paths of all files from the root directory, for calls that take no directory.
#[derive(Debug)]
pub(crate) struct WholePaths {
    bytes: Vec<u8>,
    stride: usize,
}

impl WholePaths {
    /// Writes out the paths of the files of a set.
    pub(crate) fn new(set: &Path, names: &Names, layout: &Layout) -> WholePaths {
        let set = set.as_os_str().as_bytes();
        let stride = set.len() + 1 + STRIDE;
        let mut bytes = Vec::with_capacity(layout.files as usize * stride);
        for file in 0..layout.files {
            bytes.extend_from_slice(set);
            bytes.push(b'/');
            bytes.extend_from_slice(names.path(file).to_bytes_with_nul());
        }
        WholePaths { bytes, stride }
    }

    /// Returns the path of a file.
    #[inline]
    pub(crate) fn path(&self, file: u64) -> &CStr {
        let bytes = &self.bytes[file as usize * self.stride..][..self.stride];
        CStr::from_bytes_with_nul(bytes).expect("every path has the length of a stride")
    }
}

/// Compares the whole content of the files with the bytes that are written to them. Files may be
/// shorter than the layout, because a workload that writes new files may end early.
pub(crate) fn verify(set: &Path, layout: &Layout, data: DataSource) -> Result<(), EngineError> {
    let mut data = Data::new(data, CHUNK as usize);
    let mut memory = Memory::new(CHUNK as usize);
    for file in 0..layout.files {
        let path = set.join(layout.path(file));
        let open = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        let size = open
            .metadata()
            .map_err(|error| EngineError::io("stat", &path, &error))?
            .len();
        let mut offset = 0;
        while offset < size {
            let found = &mut memory.as_mut()[..CHUNK.min(size - offset) as usize];
            open.read_exact_at(found, offset)
                .map_err(|error| EngineError::io("read from", &path, &error))?;
            let expected = data.window(layout.address(file) + offset, found.len());
            if let Some(place) = Data::difference(expected, found) {
                return Err(EngineError::corrupted(
                    &path,
                    offset + place as u64,
                    expected[place],
                    found[place],
                ));
            }
            offset += CHUNK;
        }
    }
    Ok(())
}

/// The content of a new set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Directories without files.
    Directories,
    /// Files of no bytes.
    Empty,
    /// Files of their size without data.
    Holes,
    /// Files of their size, whose blocks are reserved (fallocate) without data.
    Reserved,
    /// Files of no bytes, with blocks reserved behind their end.
    ReservedBeyondEnd,
    /// Files with all their bytes.
    Full,
    /// As [`Content::Full`], and beside each directory an empty one to which its files can be
    /// moved.
    Movable,
    /// An empty directory in the place of each file.
    Subdirectories,
    /// A symbolic link in the place of each file.
    Links,
}

impl Content {
    /// Returns whether each file has all its bytes.
    fn is_full(self) -> bool {
        matches!(self, Content::Full | Content::Movable)
    }
}

/// The target of the symbolic links, which does not exist. Its length is that of a usual relative
/// path.
pub(crate) const LINK_TARGET: &CStr = c"../d00000/f00000000";

/// Creates the set and syncs all of it. With `settle`, it also causes and syncs the writes that a
/// later read would cause.
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
        read_once(set, layout, content)?;
        sync(set)?;
    }
    Ok(())
}

/// Makes the set; nothing is waited for.
pub(crate) fn make(
    set: &Path,
    layout: &Layout,
    content: Content,
    data: DataSource,
) -> Result<(), EngineError> {
    make_anew(set)?;
    let largest = layout.file_size.min(CHUNK);
    let mut data = Data::new(
        data,
        if content.is_full() {
            largest as usize
        } else {
            0
        },
    );
    for directory in 0..layout.directories() {
        make_directory(&set.join(Layout::directory_name(directory)))?;
        if content == Content::Movable {
            make_directory(&set.join(format!("{}{directory:05}", MOVED.0)))?;
        }
        for file in layout.files_in(directory) {
            let path = set.join(layout.path(file));
            match content {
                Content::Directories => break,
                Content::Empty => write_file(&path, 0, 0, &mut data)?,
                Content::Holes => File::create_new(&path)
                    .and_then(|created| created.set_len(layout.file_size))
                    .map_err(|error| EngineError::io("create", &path, &error))?,
                Content::Reserved => reserve(&path, layout.file_size, FallocateFlags::empty())?,
                Content::ReservedBeyondEnd => {
                    reserve(&path, layout.file_size, FallocateFlags::KEEP_SIZE)?
                }
                Content::Full | Content::Movable => {
                    write_file(&path, layout.file_size, layout.address(file), &mut data)?;
                }
                Content::Subdirectories => make_directory(&path)?,
                Content::Links => rustix::fs::symlink(LINK_TARGET, &path)
                    .map_err(|errno| EngineError::call("make symbolic link", &path, errno))?,
            }
        }
    }
    Ok(())
}

/// Creates a file with reserved blocks. On a file system without fallocate the file stays empty, as
/// in fio.
fn reserve(path: &Path, size: u64, flags: FallocateFlags) -> Result<(), EngineError> {
    let file = File::create_new(path).map_err(|error| EngineError::io("create", path, &error))?;
    match rustix::fs::fallocate(&file, flags, 0, size) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(EngineError::call(
            "reserve blocks (fallocate) for",
            path,
            errno,
        )),
    }
}

/// One directory, whose parent is there.
pub(crate) fn make_directory(path: &Path) -> Result<(), EngineError> {
    fs::create_dir(path).map_err(|error| EngineError::io("make directory", path, &error))
}

/// Creates a file with the data from an address on.
pub(crate) fn write_file(
    path: &Path,
    size: u64,
    address: u64,
    data: &mut Data,
) -> Result<(), EngineError> {
    let file = File::create_new(path).map_err(|error| EngineError::io("create", path, &error))?;
    let mut offset = 0;
    while offset < size {
        let length = CHUNK.min(size - offset);
        let bytes = data.window(address + offset, length as usize);
        file.write_all_at(bytes, offset)
            .map_err(|error| EngineError::io("write to", path, &error))?;
        offset += length;
    }
    Ok(())
}

/// An empty directory for the set. What a worker that was killed left of another is removed.
pub(crate) fn make_anew(set: &Path) -> Result<(), EngineError> {
    remove(set, &Progress::default())?;
    make_directory(set)
}

/// Checks that a set is empty after its files were deleted.
pub(crate) fn expect_nothing(set: &Path) -> Result<(), EngineError> {
    let left = fs::read_dir(set)
        .map_err(|error| EngineError::io("list", set, &error))?
        .count();
    if left == 0 {
        return Ok(());
    }
    let message = format!(
        "{} still holds {left} entries after all were deleted",
        set.display()
    );
    Err(EngineError {
        path: Some(set.to_owned()),
        ..EngineError::new(message)
    })
}

/// Reads the data of all regular files below a directory, except files and directories without
/// permission.
pub(crate) fn read_tree(root: &Path) -> Result<(), EngineError> {
    let mut buffer = vec![0; CHUNK as usize];
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let read = if path.is_dir() {
            list_tree(&path, &mut waiting)
        } else {
            read_file(&path, &mut buffer)
        };
        match read {
            Err(error) if error.kind() != ErrorKind::PermissionDenied => {
                return Err(EngineError::io("read", &path, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Adds the files and directories of a directory to a list.
fn list_tree(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() || kind.is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn read_file(path: &Path, buffer: &mut [u8]) -> io::Result<()> {
    let mut file = File::open(path)?;
    while file.read(buffer)? > 0 {}
    Ok(())
}

/// Everything on the file system is on the device.
pub(crate) fn sync(set: &Path) -> Result<(), EngineError> {
    sync_through(&open(set)?, set)
}

/// As [`sync`], through the set's directory, which is open.
pub(crate) fn sync_through(root: &Directory, set: &Path) -> Result<(), EngineError> {
    KernelNamespace
        .sync_file_system(root)
        .map_err(|errno| EngineError::call("syncfs of", set, errno))
}

/// Returns the directory that names of the set begin in.
pub(crate) fn open(set: &Path) -> Result<Directory, EngineError> {
    KernelNamespace
        .open_root(set)
        .map_err(|errno| EngineError::call("open", set, errno))
}

/// Waits until a read gets a later access time than the last write: one that equals the
/// modification time counts as not newer, and the kernel's coarse clock moves every 1 to 10 ms.
pub(crate) fn wait_for_access_times() {
    thread::sleep(Duration::from_millis(20));
}

/// Reads everything once, names and data. With relatime, the default, the first read after a write
/// updates the access times; a cold measurement would otherwise contain these writes. They are on
/// the device after the next [`sync`].
pub(crate) fn read_once(set: &Path, layout: &Layout, content: Content) -> Result<(), EngineError> {
    list(set, layout)?;
    match content {
        Content::Directories | Content::Empty | Content::Holes | Content::Subdirectories => Ok(()),
        Content::Reserved | Content::ReservedBeyondEnd => Ok(()),
        Content::Full | Content::Movable => read(set, layout),
        Content::Links => (0..layout.files).try_for_each(|file| {
            let path = set.join(layout.path(file));
            fs::read_link(&path)
                .map(drop)
                .map_err(|error| EngineError::io("read link", &path, &error))
        }),
    }
}

/// Lists every directory and asks for the attributes of every file in it.
fn list(set: &Path, layout: &Layout) -> Result<(), EngineError> {
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    for directory in 0..layout.directories() {
        let path = set.join(Layout::directory_name(directory));
        let handle = open(&path)?;
        let mut refused = None;
        KernelNamespace
            .list(
                &handle,
                &mut buffer,
                0,
                &mut |name: &std::ffi::CStr| match KernelNamespace.stat(&handle, name) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(errno) => {
                        let path = path.join(name.to_string_lossy().as_ref());
                        refused = Some(EngineError::call("stat", path, errno));
                        ControlFlow::Break(())
                    }
                },
            )
            .map_err(|errno| EngineError::call("list", &path, errno))?;
        refused.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Reads every byte of every file through the page cache.
fn read(set: &Path, layout: &Layout) -> Result<(), EngineError> {
    let mut memory = Memory::new(layout.file_size.clamp(1, CHUNK) as usize);
    for file in 0..layout.files {
        let path = set.join(layout.path(file));
        let file = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        read_all(&file, memory.as_mut())
            .map_err(|error| EngineError::io("read from", &path, &error))?;
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

/// The maximum number of files whose pages are examined. Of a larger set, a sample of this size is
/// examined.
pub const EXAMINED_FILES: u64 = 16;

/// The number of files that are examined after they were dropped one by one. If none of them is in
/// memory, at most 1 % of all are, with 95 % confidence (the rule of three: Hanley and
/// Lippman-Hand, JAMA 249, 1983). Elsewhere the device's own reads prove every file, and looking at
/// a file would warm its inode.
const EXAMINED_EVICTED: u64 = 300;

/// The part of a set that the work is about to touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// The data of files.
    Data,
    /// Names and attributes only.
    Names,
}

/// Brings the caches into the requested state, as far as this process can, and returns their
/// content. `views` are the directory of the set as each client sees it, each of which has a cache
/// of its own. `evict` removes the files' data.
pub(crate) fn ready(
    views: &[PathBuf],
    layout: &Layout,
    interest: Interest,
    cache: CacheState,
    evict: bool,
) -> Result<Ready, EngineError> {
    for set in views {
        if cache == CacheState::Warm {
            match interest {
                // It may still be there from the last time.
                Interest::Data if is_resident(set, layout) => {}
                Interest::Data => read(set, layout)?,
                Interest::Names => list(set, layout)?,
            }
        }
        if evict {
            self::evict(set, layout)?;
        }
    }
    match interest {
        Interest::Data => {
            let most = if evict {
                EXAMINED_EVICTED
            } else {
                EXAMINED_FILES
            };
            let (resident, bytes) = residency_of_all(views, layout, layout.files.min(most));
            Ok(Ready {
                resident_bytes: resident,
                file_bytes: bytes,
                direct: None,
            })
        }
        Interest::Names => Ok(Ready::default()),
    }
}

/// Returns the bytes of the examined files in the caches after the work, and all their bytes.
pub(crate) fn resident_after(
    views: &[PathBuf],
    layout: &Layout,
    interest: Interest,
) -> (Option<u64>, u64) {
    if interest == Interest::Data {
        residency_of_all(views, layout, examined(layout))
    } else {
        (None, 0)
    }
}

/// Asks the kernel to drop the files' data. It drops clean pages only, which is why preparation is
/// durable.
fn evict(set: &Path, layout: &Layout) -> Result<(), EngineError> {
    for file in 0..layout.files {
        let path = set.join(layout.path(file));
        let file = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|errno| EngineError::call("drop from the cache", &path, errno))?;
    }
    Ok(())
}

/// Returns the number of files that are examined.
pub(crate) fn examined(layout: &Layout) -> u64 {
    layout.files.min(EXAMINED_FILES)
}

/// Returns whether the cache surely holds all bytes of all files.
fn is_resident(set: &Path, layout: &Layout) -> bool {
    let (resident, whole) = residency(set, layout, examined(layout));
    examined(layout) == layout.files && resident == Some(whole)
}

fn residency_of_all(views: &[PathBuf], layout: &Layout, examined: u64) -> (Option<u64>, u64) {
    let each = views.iter().map(|set| residency(set, layout, examined));
    each.fold((Some(0), 0), |(all, bytes), (one, more)| {
        (all.zip(one).map(|(all, one)| all + one), bytes + more)
    })
}

/// Resident and whole bytes of the examined files; `None` where the kernel does not tell.
fn residency(set: &Path, layout: &Layout, examined: u64) -> (Option<u64>, u64) {
    let mut resident = Some(0);
    let mut whole = 0;
    for index in 0..examined {
        // Evenly spread over the set, and all of it where it is small.
        let path = set.join(layout.path(index * layout.files / examined));
        let Ok(file) = File::open(&path) else {
            return (None, whole);
        };
        let Ok(size) = file.metadata().map(|metadata| metadata.len()) else {
            return (None, whole);
        };
        whole += size;
        resident = resident
            .zip(resident_bytes(&file, size))
            .map(|(sum, bytes)| sum + bytes);
    }
    (resident, whole)
}

// Trees of many files that several threads count or remove.
//
// One thread does the work of one directory, because others would wait for the kernel's lock on it.
// None of this runs while the clock runs.

/// Up to this number of files one thread does the work.
pub(crate) const FEW_FILES: u64 = 20_000;
/// The maximum number of threads. More would wait for the file system's journal.
const MOST_THREADS: usize = 8;

/// Returns the number of threads for work outside the clock.
pub(crate) fn helper_threads() -> usize {
    thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MOST_THREADS)
}

/// Files and directories, the root not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) files: u64,
    pub(crate) directories: u64,
}

/// Counts the files and directories below a directory. With few files the caller's thread does it
/// alone.
pub(crate) fn count_entries(root: &Path, expected: u64) -> Result<Found, EngineError> {
    let threads = if expected < FEW_FILES {
        1
    } else {
        helper_threads()
    };
    walk(root, false, threads, &Progress::default()).map(|walk| walk.found)
}

/// Removes a directory and everything below it, if it exists. Several threads remove what paths and
/// permissions allow, and one thread that needs neither removes the rest.
pub(crate) fn remove(root: &Path, progress: &Progress) -> Result<(), EngineError> {
    match root.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(EngineError::io("stat", root, &error)),
        Ok(_) => {}
    }
    match remove_by_threads(root, progress) {
        Ok(()) => Ok(()),
        Err(_) => {
            fsb_store::remove_tree(root).map_err(|error| EngineError::io("remove", root, &error))
        }
    }
}

fn remove_by_threads(root: &Path, progress: &Progress) -> Result<(), EngineError> {
    let mut walk = walk(root, true, helper_threads(), progress)?;
    // Deeper ones first.
    walk.directories
        .sort_unstable_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    for path in &walk.directories {
        rustix::fs::rmdir(path)
            .map_err(|errno| EngineError::call("remove directory", path, errno))?;
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

fn walk(
    root: &Path,
    remove: bool,
    threads: usize,
    progress: &Progress,
) -> Result<Walk, EngineError> {
    let start = Walk {
        waiting: vec![root.to_owned()],
        ..Walk::default()
    };
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
fn look(
    path: &Path,
    remove: bool,
    progress: &Progress,
) -> Result<(u64, Vec<PathBuf>), EngineError> {
    let failed = |call, errno| EngineError::call(call, path, errno);
    let directory = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| failed("open", errno))?;
    // A client of a network file system may remember a list from before another client changed the
    // directory.
    let _ = rustix::fs::statx(
        &directory,
        "",
        AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC,
        StatxFlags::MTIME,
    );
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
        if is_directory(&directory, name, entry.file_type())
            .map_err(|error| EngineError::io("stat", here(), &error))?
        {
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
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_have_one_length_up_to_the_last_number() {
        let layout = Layout {
            files: MOST_FILES,
            file_size: 0,
            files_per_directory: 1000,
        };
        assert_eq!(layout.directories(), MOST_DIRECTORIES);
        assert_eq!(layout.text(MOST_FILES - 1, FIRST).len() + 1, STRIDE);
        assert_eq!(layout.text(0, FIRST).len() + 1, STRIDE);
    }

    proptest! {
        #[test]
        fn every_file_lies_in_one_directory(files in 1u64..2000, files_per_directory in 1u64..300) {
            let layout = Layout { files, file_size: 1, files_per_directory };
            let all: Vec<u64> = (0..layout.directories()).flat_map(|d| layout.files_in(d)).collect();
            prop_assert_eq!(all, (0..files).collect::<Vec<_>>());
            for file in 0..files {
                prop_assert!(layout.files_in(layout.directory_of(file)).contains(&file));
            }
        }

        #[test]
        fn names_are_functions_of_the_number(files in 1u64..200, other in 1u64..200) {
            let of = |files| Names::new(&Layout { files, file_size: 1, files_per_directory: 7 });
            let (a, b) = (of(files), of(other));
            for file in 0..files.min(other) {
                prop_assert_eq!(a.path(file), b.path(file));
            }
            prop_assert!(a.bytes.len() as u64 <= 64 * files);
            let layout = Layout { files, file_size: 1, files_per_directory: 7 };
            for directory in 0..layout.directories() {
                let name = a.directory(&layout, directory).as_c_str().to_owned();
                prop_assert_eq!(name.into_string().unwrap(), Layout::directory_name(directory));
            }
        }
    }

    #[test]
    fn dropped_files_are_not_resident() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout {
            files: 20,
            file_size: 8192,
            files_per_directory: 8,
        };
        let set = directory.path().join("set");
        build(&set, &layout, Content::Full, true, 1.into()).unwrap();
        let before = ready(
            std::slice::from_ref(&set),
            &layout,
            Interest::Data,
            CacheState::Warm,
            false,
        )
        .unwrap();
        assert_eq!(
            (before.resident_bytes, before.file_bytes),
            (Some(16 * 8192), 16 * 8192)
        );
        let on_memory = rustix::fs::statfs(&set).unwrap().f_type == libc::TMPFS_MAGIC;
        let cold = ready(
            std::slice::from_ref(&set),
            &layout,
            Interest::Data,
            CacheState::Cold,
            true,
        )
        .unwrap();
        // A file system in memory has nowhere else to keep its data. Of dropped files more are
        // looked at.
        assert_eq!(
            cold.resident_bytes,
            Some(if on_memory { 20 * 8192 } else { 0 })
        );
        assert_eq!(cold.file_bytes, 20 * 8192);
        assert_eq!(
            resident_after(std::slice::from_ref(&set), &layout, Interest::Names),
            (None, 0)
        );
    }

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
            assert_eq!(
                count_entries(&tree, expected).unwrap(),
                Found {
                    files: 601,
                    directories: 23
                }
            );
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
        assert!(
            error.message.starts_with("remove /") && error.message.ends_with("(ENOTDIR)"),
            "{error}"
        );
    }
}

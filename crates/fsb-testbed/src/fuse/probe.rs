//! The probe of a FUSE server: its syncs, direct I/O and cached pages, on a few small files.
//!
//! The mount itself shows nothing of this. The evidence is on the other side: the dirty pages and
//! the open flags of the files that the server keeps the data in, and the writes of the device
//! beneath them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsb_model::storage::{Promise, Unproven};
use fsb_sys::mountinfo::Mount;
use fsb_sys::{Roots, block, page_cache};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::server::{self, OpenFile, Server};

/// Bytes of a file of the probe.
const LENGTH: usize = 256 << 10;
/// The alignment of memory that direct I/O accepts everywhere.
const ALIGNMENT: usize = 4096;
/// The number of times that a sync is tried. Each must show the same, because other processes write
/// to the same device.
const REPETITIONS: usize = 5;

/// The number of syncs of a file, one of which must leave no dirty page.
const SYNCS: usize = 3;

/// The finding on one property.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Probed {
    /// It holds.
    Holds,
    /// It does not hold, for this reason.
    Fails(String),
    /// Nothing on this machine shows it, for this reason.
    Unknown(String),
}

/// The findings on a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// The sync of a file writes its data to the device.
    pub synced_files: Probed,
    /// The sync of a directory writes its names to the device.
    pub synced_names: Probed,
    /// Direct I/O bypasses the page cache beneath the server.
    pub direct: Probed,
    /// The page cache keeps the pages of a file that is opened again.
    pub kept_pages: Probed,
}

impl Findings {
    /// Returns the findings if nothing can be probed.
    pub fn unknown(reason: &str) -> Findings {
        let unknown = || Probed::Unknown(reason.to_owned());
        Findings {
            synced_files: unknown(),
            synced_names: unknown(),
            direct: unknown(),
            kept_pages: unknown(),
        }
    }

    /// Returns the promises that have not been shown to hold.
    pub fn unproven(&self) -> Vec<Unproven> {
        let all = [
            (Promise::SyncedFiles, &self.synced_files),
            (Promise::SyncedNames, &self.synced_names),
            (Promise::Direct, &self.direct),
        ];
        let unproven = all
            .into_iter()
            .filter_map(|(promise, probed)| match probed {
                Probed::Holds => None,
                Probed::Fails(reason) | Probed::Unknown(reason) => Some(Unproven {
                    promise,
                    reason: reason.clone(),
                }),
            });
        unproven.collect()
    }
}

/// The storage beneath a mount, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Store<'a> {
    /// The directory below /sys of the device that holds the data. `None` if it is not known or if
    /// another machine may hold the data.
    pub device: Option<&'a Path>,
    /// The reason why the storage is not known. `None` if it is.
    pub unknown: Option<&'a str>,
}

/// Probes the server of `mount`, which holds `directory`, in files that are removed again. `store`
/// is the storage beneath it. Calls `begin` before each finding with the calls that follow, because
/// any of them may never return.
pub(crate) fn probe_mount(
    directory: &Path,
    mount: &Mount,
    store: Store<'_>,
    roots: &Roots,
    begin: &mut dyn FnMut(&'static str),
) -> Findings {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(directory, flags, Mode::empty()) {
        Ok(directory) => &File::from(directory),
        Err(errno) => {
            return Findings::unknown(&format!("the directory cannot be opened: {errno}"));
        }
    };
    begin("reading a file twice");
    let kept_pages = kept_pages(directory);
    if let Some(reason) = store.unknown {
        return Findings {
            kept_pages,
            ..Findings::unknown(reason)
        };
    }
    let server = Server::of_mount(mount, roots);
    let sides = Sides {
        server: server.as_ref(),
        device: store.device,
    };
    begin("writing and syncing files");
    let synced_files = synced_files(directory, &sides);
    begin("syncing the directory");
    let synced_names = synced_names(directory, &sides);
    begin("direct I/O");
    Findings {
        synced_files,
        synced_names,
        direct: direct(directory, &sides),
        kept_pages,
    }
}

/// The other sides of a mount.
struct Sides<'a> {
    /// The server. `None` if its process is not visible.
    server: Option<&'a Server>,
    /// The device that holds the data. `None` if it is not known.
    device: Option<&'a Path>,
}

/// A file of the probe, which is removed on drop. A user may replace a name while root probes, so
/// no call follows a link.
struct Trial<'a> {
    directory: &'a File,
    name: String,
}

impl<'a> Trial<'a> {
    fn new(directory: &'a File, name: &str) -> Trial<'a> {
        Trial {
            directory,
            name: format!("fsb-probe-{}-{name}", std::process::id()),
        }
    }

    fn open(&self, flags: OFlags) -> std::io::Result<File> {
        // A fifo in its place must not block.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(openat(self.directory, &self.name, flags, mode)?.into())
    }

    fn create(&self) -> std::io::Result<File> {
        self.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// Returns the files that the server opened for this one since it had `before` open.
    fn of_server(&self, server: &Server, before: &BTreeSet<OpenFile>) -> Vec<OpenFile> {
        let new: Vec<OpenFile> = server.open_files().difference(before).cloned().collect();
        let mut own = new.clone();
        own.retain(|file| self.is_named(file));
        if own.is_empty() { new } else { own }
    }

    /// Returns whether a file of the server has the name of this one.
    fn is_named(&self, file: &OpenFile) -> bool {
        file.path.file_name() == Some(OsStr::new(&self.name))
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        // The file system may have died; then nothing is left to remove.
        let _ = unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}

fn failed(call: &str, error: &std::io::Error) -> Probed {
    Probed::Unknown(format!("{call} failed: {error}"))
}

fn synced_files(directory: &File, sides: &Sides<'_>) -> Probed {
    let mut found = Probed::Holds;
    for repetition in 0..REPETITIONS {
        match synced_file(directory, sides, repetition) {
            Ok(fails @ Probed::Fails(_)) => return fails,
            Ok(Probed::Holds) => {}
            Ok(unknown) => found = unknown,
            Err(error) => return failed("writing and syncing a file", &error),
        }
    }
    found
}

fn synced_file(directory: &File, sides: &Sides<'_>, repetition: usize) -> std::io::Result<Probed> {
    let trial = Trial::new(directory, &format!("sync-{repetition}"));
    let before = sides.server.map(Server::open_files).unwrap_or_default();
    let written_before = written(sides);
    let mut file = trial.create()?;
    file.write_all(&incompressible(repetition))?;
    let backing = backing(&trial, sides, &before);
    let mut attempts = 0;
    // Servers of images may write to them for files that were closed before, which they release
    // asynchronously. Pages that no sync writes stay dirty for much longer.
    let held = loop {
        file.sync_all()?;
        let held = HeldPages::count(&backing);
        attempts += 1;
        if held.unwritten == 0 || attempts == SYNCS {
            break held;
        }
    };
    // Other processes write to the device, too, so that writes prove nothing.
    let is_silent = written(sides).is_some_and(|after| Some(after) == written_before);
    Ok(if held.unwritten > 0 {
        let left = held.unwritten;
        Probed::Fails(format!(
            "after the sync of a file, {left} pages of it were not on the device"
        ))
    } else if is_silent {
        Probed::Fails("the device wrote nothing until the sync of a file had returned".to_owned())
    } else if held.cached > 0 {
        Probed::Holds
    } else if held.is_uncounted {
        Probed::Unknown(
            "the kernel does not count the pages of the server's file (cachestat), as on overlay"
                .to_owned(),
        )
    } else {
        Probed::Unknown("the server keeps the data in no file that it has open".to_owned())
    })
}

/// The pages of all files in which a server keeps the data of a trial.
#[derive(Default)]
struct HeldPages {
    unwritten: u64,
    cached: u64,
    /// Whether the kernel does not count the pages of a file.
    is_uncounted: bool,
}

impl HeldPages {
    fn count(files: &[Backing]) -> HeldPages {
        let mut held = HeldPages::default();
        for file in files {
            match file.pages() {
                Some(Ok(pages)) => {
                    held.unwritten += pages.unwritten();
                    held.cached += pages.cached;
                }
                Some(Err(errno)) => held.is_uncounted |= errno == Errno::OPNOTSUPP,
                None => {}
            }
        }
        held
    }
}

/// A file in which a server keeps data.
struct Backing {
    file: File,
    /// Whether it holds a whole file system.
    is_image: bool,
}

impl Backing {
    /// Returns its pages if it can hold the data of a trial: another file may have been opened by
    /// chance. Servers that encrypt add a few bytes to a block.
    fn pages(&self) -> Option<Result<page_cache::CachedPages, Errno>> {
        let bytes = self.file.metadata().ok()?.len() as usize;
        let holds_it = self.is_image || (LENGTH..=LENGTH + LENGTH / 8).contains(&bytes);
        if holds_it {
            Some(page_cache::of_file(&self.file))
        } else {
            None
        }
    }
}

/// Opens the files in which the server keeps the data of a trial that is open.
fn backing(trial: &Trial<'_>, sides: &Sides<'_>, before: &BTreeSet<OpenFile>) -> Vec<Backing> {
    let Some(server) = sides.server else {
        return Vec::new();
    };
    let files = trial.of_server(server, before);
    let is_image = files.is_empty();
    let files = if is_image { server.images() } else { files };
    let mut opened = Vec::new();
    for file in &files {
        if let Some(file) = server::open(file) {
            opened.push(Backing { file, is_image });
        }
    }
    opened
}

/// Returns the bytes that the device has written, and its flushes.
fn written(sides: &Sides<'_>) -> Option<(u64, u64)> {
    let activity = block::activity(sides.device?)?;
    Some((activity.write_bytes, activity.flushes))
}

/// Returns data that no server can make smaller, of another content each time.
fn incompressible(seed: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (seed as u64 + 1);
    let mut bytes = Vec::with_capacity(LENGTH);
    while bytes.len() < LENGTH {
        // Xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes
}

fn synced_names(directory: &File, sides: &Sides<'_>) -> Probed {
    if sides.device.is_none() {
        return Probed::Unknown("the device beneath the server is not known".to_owned());
    }
    for repetition in 0..REPETITIONS {
        match synced_name(directory, sides, repetition) {
            Ok(true) => {}
            Ok(false) => {
                return Probed::Fails(
                    "the device wrote nothing when a directory was synced".to_owned(),
                );
            }
            Err(error) => return failed("syncing a directory", &error),
        }
    }
    Probed::Holds
}

/// Returns whether the device wrote or flushed while a directory with a new name was synced.
fn synced_name(directory: &File, sides: &Sides<'_>, repetition: usize) -> std::io::Result<bool> {
    let trial = Trial::new(directory, &format!("name-{repetition}"));
    drop(trial.create()?);
    let before = written(sides);
    directory.sync_all()?;
    Ok(written(sides) != before)
}

fn direct(directory: &File, sides: &Sides<'_>) -> Probed {
    let trial = Trial::new(directory, "direct");
    let before = sides.server.map(Server::open_files).unwrap_or_default();
    let written = match write_direct(&trial) {
        Ok(file) => file,
        Err(error) => return failed("direct I/O", &error),
    };
    let Some(server) = sides.server else {
        return Probed::Unknown("the server is not visible".to_owned());
    };
    let mut files = trial.of_server(server, &before);
    if files.is_empty() {
        files = server.images();
    }
    drop(written);
    // A descriptor of the buffered write may not be released yet.
    let is_direct = match files.iter().any(|file| trial.is_named(file)) {
        true => files.iter().any(OpenFile::is_direct),
        false => files.iter().all(OpenFile::is_direct),
    };
    match files.len() {
        0 => Probed::Unknown("the server keeps the data in no file that it has open".to_owned()),
        _ if is_direct => Probed::Holds,
        _ => Probed::Fails(
            "the server opens its own files without O_DIRECT, so the page cache beneath it holds the data"
                .to_owned(),
        ),
    }
}

/// Writes a block with O_DIRECT. Returns the file, which is still open.
fn write_direct(trial: &Trial<'_>) -> std::io::Result<File> {
    trial.create()?.write_all(&incompressible(0))?;
    let file = trial.open(OFlags::RDWR | OFlags::DIRECT)?;
    let memory = vec![1; 2 * ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    // Whether the server accepts the block is another question; it has opened its file by now.
    let _ = file.write_at(&memory[start..start + ALIGNMENT], 0);
    Ok(file)
}

/// Reads a file, opens it again, and looks at what the page cache has kept.
fn kept_pages(directory: &File) -> Probed {
    let trial = Trial::new(directory, "pages");
    let pages = || -> std::io::Result<Result<page_cache::CachedPages, Errno>> {
        trial.create()?.write_all(&incompressible(1))?;
        trial.open(OFlags::RDONLY)?.read_to_end(&mut Vec::new())?;
        Ok(page_cache::of_file(trial.open(OFlags::RDONLY)?))
    };
    match pages() {
        Ok(Ok(found)) if found.cached == 0 => {
            Probed::Fails("a file's pages are dropped when it is opened".to_owned())
        }
        // A mapping shows pages that cachestat does not count.
        Ok(Ok(_) | Err(Errno::OPNOTSUPP)) => Probed::Holds,
        Ok(Err(errno)) => failed("cachestat", &errno.into()),
        Err(error) => failed("reading a file again", &error),
    }
}

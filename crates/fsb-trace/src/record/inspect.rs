//! Examines traced programs: their memory, the files that they are about to use, and processes that
//! run already.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Before, RawCall, World, flags};
use fsb_sys::trace::read_memory;
use rustix::fs::SeekFrom;

use super::syscalls::{self, Seen};

const PAGE: u64 = 4096;
/// The longest path that the kernel takes.
const LONGEST: usize = 4096;

/// Reads a text that ends with a zero byte.
pub fn text(task: i32, mut address: u64) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    let mut piece = [0; 256];
    while whole.len() < LONGEST {
        // The next page may not be there.
        let most = (PAGE - address % PAGE).min(piece.len() as u64) as usize;
        let read = read_memory(task, address, &mut piece[..most])
            .ok()
            .filter(|read| *read > 0)?;
        if let Some(end) = piece[..read].iter().position(|byte| *byte == 0) {
            whole.extend_from_slice(&piece[..end]);
            return Some(whole);
        }
        whole.extend_from_slice(&piece[..read]);
        address = address.checked_add(read as u64)?;
    }
    None
}

/// Reads numbers of eight bytes.
pub fn numbers<const N: usize>(task: i32, address: u64) -> Option<[u64; N]> {
    let mut bytes = vec![0; N * 8];
    let read = read_memory(task, address, &mut bytes).ok()?;
    let mut found = [0; N];
    for (number, bytes) in found.iter_mut().zip(bytes[..read].chunks_exact(8)) {
        *number = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    (read == N * 8).then_some(found)
}

/// Sets the offsets and lengths of a copy, which are in the memory of the task. Returns the copies:
/// FIDEDUPERANGE has several destinations. Returns none if the memory cannot be read, because then
/// the call fails.
pub fn copies(task: i32, seen: &Seen) -> Vec<RawCall<'static>> {
    let raw = &seen.raw;
    let mut all = match (seen.range, raw.flags) {
        (None, _) => vec![raw.clone()],
        (Some(at), flags::CLONE_RANGE) => clone_range(task, at, raw).into_iter().collect(),
        (Some(at), _) => deduplications(task, at, raw),
    };
    for copy in &mut all {
        for (address, offset) in seen
            .offsets
            .iter()
            .zip([&mut copy.offset, &mut copy.target])
        {
            if let Some(address) = address {
                *offset = numbers::<1>(task, *address).map(|[offset]| offset);
            }
        }
    }
    all
}

/// Reads `struct file_clone_range`.
fn clone_range(task: i32, at: u64, raw: &RawCall<'static>) -> Option<RawCall<'static>> {
    let [fd, offset, length, target] = numbers::<4>(task, at)?;
    Some(RawCall {
        fd: fd as i32,
        offset: Some(offset),
        length,
        target: Some(target),
        ..raw.clone()
    })
}

/// Reads `struct file_dedupe_range`.
fn deduplications(task: i32, at: u64, raw: &RawCall<'static>) -> Vec<RawCall<'static>> {
    let Some([offset, length, count]) = numbers::<3>(task, at) else {
        return Vec::new();
    };
    // The count has two bytes, in a field of eight on little-endian machines.
    let destinations =
        (0..u64::from(count as u16)).map_while(|number| numbers::<2>(task, at + 24 + number * 32));
    let copies = destinations.map(|[fd, target]| RawCall {
        other: fd as i32,
        offset: Some(offset),
        length,
        target: Some(target),
        ..raw.clone()
    });
    copies.collect()
}

/// Returns the bytes of all pieces of a list.
pub fn length_of_pieces(task: i32, address: u64, count: u64) -> u64 {
    let count = count.min(1024) as usize;
    let mut bytes = vec![0; count * 16];
    let read = read_memory(task, address, &mut bytes).unwrap_or_default();
    let lengths = bytes[..read].chunks_exact(16).map(|piece| {
        let mut length = [0; 8];
        length.copy_from_slice(&piece[8..]);
        u64::from_ne_bytes(length)
    });
    lengths.fold(0, u64::saturating_add)
}

/// Directories whose real paths are remembered.
const REMEMBERED: usize = 4096;
/// A file of more pieces than these is treated as one without holes.
const MOST_PIECES: usize = 65_536;
/// In a directory of more entries than these, only the used entries are recorded.
const MOST_ENTRIES: usize = 100_000;

/// This machine's files.
#[derive(Debug, Default)]
pub struct Live {
    directories: HashMap<Vec<u8>, Vec<u8>>,
}

impl Live {
    /// Forgets real paths, because names of directories may mean others now.
    pub fn forget(&mut self) {
        self.directories.clear();
    }

    fn real_directory(&mut self, path: &[u8]) -> Vec<u8> {
        if let Some(known) = self.directories.get(path) {
            return known.clone();
        }
        let Ok(real) = fs::canonicalize(as_path(path)) else {
            return path.to_vec();
        };
        let real = real.into_os_string().into_vec();
        if self.directories.len() >= REMEMBERED {
            self.directories.clear();
        }
        self.directories.insert(path.to_vec(), real.clone());
        real
    }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

impl World for Live {
    fn locate(&mut self, path: Vec<u8>, follows: bool) -> Vec<u8> {
        let Some(at) = path
            .iter()
            .rposition(|byte| *byte == b'/')
            .filter(|_| path.len() > 1)
        else {
            return path;
        };
        let mut whole = if at == 0 {
            Vec::new()
        } else {
            self.real_directory(&path[..at])
        };
        if whole == b"/" {
            whole.clear();
        }
        whole.extend_from_slice(&path[at..]);
        if follows
            && fs::symlink_metadata(as_path(&whole)).is_ok_and(|found| found.is_symlink())
            && let Ok(real) = fs::canonicalize(as_path(&whole))
        {
            return real.into_os_string().into_vec();
        }
        whole
    }

    fn before(&mut self, path: &[u8]) -> Before {
        let path = as_path(path);
        let Ok(found) = fs::symlink_metadata(path) else {
            return Before::Absent;
        };
        let kind = found.file_type();
        if kind.is_dir() {
            Before::Directory
        } else if kind.is_symlink() {
            Before::Link {
                to: fs::read_link(path)
                    .map(PathBuf::into_os_string)
                    .unwrap_or_default()
                    .into_vec(),
            }
        } else if kind.is_file() {
            let size = found.len();
            let data = if found.blocks().saturating_mul(512) < size {
                pieces(path, size)
            } else {
                None
            };
            let id = (found.nlink() > 1).then(|| (found.dev(), found.ino()));
            Before::File { size, data, id }
        } else {
            // A replay needs no sockets and pipes.
            Before::Absent
        }
    }

    fn entries(&mut self, path: &[u8]) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(as_path(path))
            .into_iter()
            .flatten()
            .flatten()
            .take(MOST_ENTRIES);
        entries
            .map(|entry| OsString::into_vec(entry.file_name()))
            .collect()
    }

    fn open_file(&mut self, task: u32, fd: i32) -> Option<Vec<u8>> {
        let link = format!("/proc/{task}/fd/{fd}");
        let path = fs::read_link(&link).ok()?.into_os_string().into_vec();
        let is_file = fs::metadata(&link).is_ok_and(|found| found.is_file());
        (is_file && path.starts_with(b"/") && !path.starts_with(b"/memfd:")).then_some(path)
    }
}

/// Returns the ranges of a file that hold data. Returns `None` if it has no holes or too many
/// pieces.
fn pieces(path: &Path, size: u64) -> Option<Vec<(u64, u64)>> {
    let file = File::open(path).ok()?;
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < size && pieces.len() < MOST_PIECES {
        let Ok(begin) = rustix::fs::seek(&file, SeekFrom::Data(at)) else {
            break;
        };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(begin))
            .unwrap_or(size)
            .min(size);
        if end <= begin {
            break;
        }
        pieces.push((begin, end - begin));
        at = end;
    }
    (pieces.len() < MOST_PIECES && pieces != [(0, size)]).then_some(pieces)
}

/// Returns a process and all that it created, the oldest first.
pub(crate) fn with_children(process: i32) -> Vec<i32> {
    let mut all = vec![process];
    let mut at = 0;
    while at < all.len() {
        for thread in threads(all[at]) {
            let path = format!("/proc/{}/task/{thread}/children", all[at]);
            let children = fs::read_to_string(path).unwrap_or_default();
            let children: Vec<i32> = children
                .split_whitespace()
                .filter_map(|text| text.parse().ok())
                .collect();
            for child in children {
                if !all.contains(&child) {
                    all.push(child);
                }
            }
        }
        at += 1;
    }
    all
}

/// Returns the threads of a process, the main thread included.
pub(crate) fn threads(process: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut threads: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    threads.sort_unstable_by_key(|thread| (*thread != process, *thread));
    threads
}

/// Returns the process that a thread belongs to.
pub(crate) fn process_of(thread: i32) -> Option<i32> {
    // A program may call itself anything, in any bytes.
    let status = fs::read(format!("/proc/{thread}/status")).ok()?;
    let line = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Tgid:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Returns whether the file of its program is setuid or setgid to another user or group than the
/// recorder's.
pub(crate) fn lacks_rights(process: i32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(file) = fs::metadata(format!("/proc/{process}/exe")) else {
        return false;
    };
    // Where a group may not execute, the bit of setgid means something else.
    let (user, group) = (file.mode() & 0o4000 != 0, file.mode() & 0o2010 == 0o2010);
    user && file.uid() != rustix::process::geteuid().as_raw()
        || group && file.gid() != rustix::process::getegid().as_raw()
}

/// Returns the paths of files that the process has mapped shared and writable.
pub(crate) fn shared_mappings(process: i32) -> Vec<Vec<u8>> {
    let maps = fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    let shared = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        // `address permissions offset device inode   path`: the kernel pads before the path only.
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let permissions = fields.nth(1)?;
        let path = fields.nth(3)?.trim_ascii_start();
        (permissions.get(1) == Some(&b'w') && permissions.get(3) == Some(&b's'))
            .then(|| path.to_vec())
    });
    shared.collect()
}

/// Returns whether the process has an io_uring open, whose requests no tracer sees.
pub(crate) fn has_ring(process: i32) -> bool {
    let entries = fs::read_dir(format!("/proc/{process}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|to| to.as_os_str() == "anon_inode:[io_uring]")
}

/// Returns its working directory.
pub(crate) fn directory(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/cwd")).ok()
}

/// A file that is open already.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) fd: i32,
    pub(crate) path: Vec<u8>,
    pub(crate) flags: u32,
    pub(crate) place: u64,
}

/// Returns the regular files and directories that it has open.
pub(crate) fn open_files(process: i32) -> Vec<OpenFile> {
    let entries = fs::read_dir(format!("/proc/{process}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let open = entries.filter_map(|entry| {
        let fd: i32 = entry.file_name().to_str()?.parse().ok()?;
        let path = fs::read_link(entry.path())
            .ok()
            .filter(|path| path.is_absolute())?;
        let kind = fs::metadata(entry.path()).ok()?.file_type();
        if !(kind.is_file() || kind.is_dir()) {
            return None;
        }
        let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{fd}")).ok()?;
        let number = |key: &str, base: u32| {
            let text = info.lines().find_map(|line| line.strip_prefix(key))?.trim();
            u64::from_str_radix(text, base).ok()
        };
        let flags = syscalls::open_flags(number("flags:", 8)? as i32);
        Some(OpenFile {
            fd,
            path: path.as_os_str().as_bytes().to_vec(),
            flags,
            place: number("pos:", 10)?,
        })
    });
    let mut open: Vec<OpenFile> = open.collect();
    open.sort_unstable_by_key(|file| file.fd);
    open
}

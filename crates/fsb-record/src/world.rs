//! The files themselves, examined while the program that is about to use them is stopped.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsb_trace::{Before, World};
use rustix::fs::SeekFrom;

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
        let Ok(real) = fs::canonicalize(as_path(path)) else { return path.to_vec() };
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
        let Some(at) = path.iter().rposition(|byte| *byte == b'/').filter(|_| path.len() > 1) else { return path };
        let mut whole = if at == 0 { Vec::new() } else { self.real_directory(&path[..at]) };
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
        let Ok(found) = fs::symlink_metadata(path) else { return Before::Absent };
        let kind = found.file_type();
        if kind.is_dir() {
            Before::Directory
        } else if kind.is_symlink() {
            Before::Link { to: fs::read_link(path).map(PathBuf::into_os_string).unwrap_or_default().into_vec() }
        } else if kind.is_file() {
            let size = found.len();
            let data = if found.blocks().saturating_mul(512) < size { pieces(path, size) } else { None };
            let id = (found.nlink() > 1).then(|| (found.dev(), found.ino()));
            Before::File { size, data, id }
        } else {
            // A replay needs no sockets and pipes.
            Before::Absent
        }
    }

    fn entries(&mut self, path: &[u8]) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(as_path(path)).into_iter().flatten().flatten().take(MOST_ENTRIES);
        entries.map(|entry| OsString::into_vec(entry.file_name())).collect()
    }
}

/// Returns the ranges of a file that hold data. Returns `None` if it has no holes or too many pieces.
fn pieces(path: &Path, size: u64) -> Option<Vec<(u64, u64)>> {
    let file = File::open(path).ok()?;
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < size && pieces.len() < MOST_PIECES {
        let Ok(begin) = rustix::fs::seek(&file, SeekFrom::Data(at)) else { break };
        let end = rustix::fs::seek(&file, SeekFrom::Hole(begin)).unwrap_or(size).min(size);
        if end <= begin {
            break;
        }
        pieces.push((begin, end - begin));
        at = end;
    }
    (pieces.len() < MOST_PIECES && pieces != [(0, size)]).then_some(pieces)
}

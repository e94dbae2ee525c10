//! The source tree: the index of an archive (names, kinds, and the offsets of files), a tree that a
//! recipe generates, and the files that are compiled.
//!
//! The recipe follows the sources of Linux 6.1: fifteen files per directory on average, with many
//! in a few directories; sizes log-normal with a median of 4.5 KiB and a mean of three times that.
//! Shape and names are the same for every seed, so that all blocks of a run and all runs have the
//! same tree; contents depend on the seed. Compiling is the last phase of the Andrew benchmark. It
//! measures the processor more than the file system.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read, Seek, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::error::EngineError;
use crate::hash::{mix, unit};

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryKind {
    Directory,
    /// A file, whose bytes are at `offset` of the archive.
    File {
        offset: u64,
        size: u64,
    },
    /// A symbolic link with this text.
    Symbolic(CString),
    /// Another name of this file.
    Hard(CString),
}

/// One entry.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) name: CString,
    pub(super) kind: EntryKind,
    pub(super) mode: u32,
    /// Seconds since 1970.
    pub(super) mtime: u64,
}

/// All entries: directories before their entries.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    pub(super) items: Vec<Item>,
    /// Indices of the directories among the items.
    pub(super) directories: Vec<usize>,
    /// Number of entries of the directory that is unpacked into, then of each directory.
    pub(super) children: Vec<u64>,
}

/// The maximum number of entries.
const MOST_ENTRIES: usize = 4_000_000;

impl Index {
    /// Returns the index of a planned tree that is in no archive.
    pub(super) fn of_plan(planned: &[Planned]) -> Index {
        let mut index = Index {
            children: vec![0],
            ..Index::default()
        };
        let mut known = HashMap::new();
        for (number, one) in (0..).zip(planned) {
            let kind = match one.size {
                None => EntryKind::Directory,
                Some(size) => EntryKind::File { offset: 0, size },
            };
            index.push(
                &mut known,
                Path::new(&one.path),
                kind,
                (one.mode, EPOCH + number),
            );
        }
        index
    }

    /// Reads the index of an archive. An error names the entry that cannot be unpacked, and the
    /// reason.
    pub(super) fn read(archive: impl Read + Seek) -> Result<Index, EngineError> {
        let mut index = Index {
            children: vec![0],
            ..Index::default()
        };
        let (mut known, mut seen) = (HashMap::new(), HashSet::new());
        let mut archive = tar::Archive::new(archive);
        fn broken(error: std::io::Error) -> EngineError {
            EngineError::new(format!(
                "it is not a tar archive, or a damaged one: {error}"
            ))
        }
        for entry in archive.entries_with_seek().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let written = entry.path().map_err(broken)?.into_owned();
            let shown = written.display().to_string();
            if entry.header().entry_type() == tar::EntryType::XGlobalHeader {
                continue;
            }
            let Some(path) = below(&written)? else {
                continue;
            };
            let header = entry.header();
            let link = || -> Result<Option<PathBuf>, EngineError> {
                Ok(entry
                    .link_name()
                    .map_err(broken)?
                    .map(|link| link.into_owned()))
            };
            let no_target = || refused(format!("'{shown}' is a link without a target"));
            let kind = match header.entry_type() {
                tar::EntryType::Directory => EntryKind::Directory,
                tar::EntryType::GNUSparse => {
                    return Err(refused(format!(
                        "'{shown}' is a sparse file: make the archive without --sparse"
                    )));
                }
                tar::EntryType::Regular | tar::EntryType::Continuous => EntryKind::File {
                    offset: entry.raw_file_position(),
                    size: entry.size(),
                },
                tar::EntryType::Symlink => {
                    EntryKind::Symbolic(c_string(&link()?.ok_or_else(no_target)?)?)
                }
                tar::EntryType::Link => {
                    let target = below(&link()?.ok_or_else(no_target)?)?.ok_or_else(no_target)?;
                    if !seen.contains(&target) {
                        return Err(refused(format!(
                            "'{shown}' is a hard link to a file that does not precede it"
                        )));
                    }
                    EntryKind::Hard(c_string(&target)?)
                }
                other => {
                    return Err(refused(format!(
                        "'{shown}' is a {}: leave it out; only files, directories and links are made",
                        kind_name(other)
                    )));
                }
            };
            let fresh = seen.insert(path.clone());
            match kind {
                // It exists already because of its entries, or is in the archive twice.
                EntryKind::Directory if known.contains_key(&path) => continue,
                _ if !fresh || known.contains_key(&path) => {
                    return Err(refused(format!("'{shown}' is in the archive twice")));
                }
                _ => {}
            }
            let mode = header.mode().unwrap_or(0o644) & 0o777;
            index.push(
                &mut known,
                &path,
                kind,
                (mode, header.mtime().unwrap_or(EPOCH)),
            );
            if index.items.len() > MOST_ENTRIES {
                return Err(refused(format!(
                    "more than {MOST_ENTRIES} entries are too many"
                )));
            }
        }
        Ok(index)
    }

    /// Adds an entry, and before it the missing directories above it.
    fn push(
        &mut self,
        known: &mut HashMap<PathBuf, usize>,
        path: &Path,
        kind: EntryKind,
        (mode, mtime): (u32, u64),
    ) {
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let above = match parent {
            None => 0,
            Some(parent) => {
                if !known.contains_key(parent) {
                    self.push(known, parent, EntryKind::Directory, (0o755, mtime));
                }
                known[parent]
            }
        };
        self.children[above] += 1;
        // Its owner must be able to read, search and remove it.
        let mode = match kind {
            EntryKind::Directory => {
                self.directories.push(self.items.len());
                self.children.push(0);
                known.insert(path.to_owned(), self.directories.len());
                mode | 0o700
            }
            _ => mode | 0o600,
        };
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        self.items.push(Item {
            name,
            kind,
            mode,
            mtime,
        });
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sizes().sum()
    }

    /// Returns the bytes of each file.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.items.iter().filter_map(|item| match item.kind {
            EntryKind::File { size, .. } => Some(size),
            _ => None,
        })
    }

    /// Returns the C sources.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Item> {
        self.items
            .iter()
            .filter(|item| item.name.as_bytes().ends_with(b".c"))
    }
}

/// Returns the name of a kind of entry that is not made.
fn kind_name(kind: tar::EntryType) -> String {
    match kind {
        tar::EntryType::Fifo => "FIFO".to_owned(),
        tar::EntryType::Char => "character device".to_owned(),
        tar::EntryType::Block => "block device".to_owned(),
        other => format!(
            "entry of type '{}'",
            char::from(other.as_byte()).escape_default()
        ),
    }
}

fn refused(message: String) -> EngineError {
    EngineError::new(message)
}

/// Returns the path below the directory that is unpacked into, or `None` if it is that directory
/// itself.
fn below(path: &Path) -> Result<Option<PathBuf>, EngineError> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) if part.as_bytes().contains(&0) => {
                return Err(refused(format!("'{}' holds a zero byte", path.display())));
            }
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            _ => {
                return Err(refused(format!(
                    "'{}' leads out of the target directory",
                    path.display()
                )));
            }
        }
    }
    Ok((!clean.as_os_str().is_empty()).then_some(clean))
}

fn c_string(path: &Path) -> Result<CString, EngineError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| refused(format!("'{}' holds a zero byte", path.display())))
}

/// The maximum number of sources that are compiled.
pub(super) const MOST: u64 = 200;

/// Returns the compiler that the system calls cc.
pub(super) fn find() -> Option<PathBuf> {
    which::which("cc").ok()
}

/// Returns the name of the object that a source becomes.
pub(super) fn object(source: &Item) -> OsString {
    let mut name = OsStr::from_bytes(source.name.as_bytes()).to_owned();
    name.push(".o");
    name
}

/// Compiles all sources below `set`, `jobs` at once. Returns the nanoseconds that each took.
pub(super) fn run(sources: &[&Item], jobs: u32, set: &Path) -> Result<Vec<u64>, EngineError> {
    let compiler =
        find().ok_or_else(|| EngineError::new("no program cc in PATH, which compiles"))?;
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let taken = Mutex::new(Ok(Vec::with_capacity(sources.len())));
    let one_job = || {
        while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            let begun = Instant::now();
            let result = compile(&compiler, source, set);
            let ns = begun.elapsed().as_nanos() as u64;
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            let mut taken = taken
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            match (result, taken.as_mut()) {
                (Ok(()), Ok(taken)) => taken.push(ns),
                (Err(error), Ok(_)) => *taken = Err(error),
                (_, Err(_)) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            std::thread::Builder::new()
                .spawn_scoped(scope, one_job)
                .map_err(|error| {
                    failed.store(true, Ordering::Relaxed);
                    EngineError::spawn("start a thread that compiles", &error)
                })?;
        }
        Ok::<_, EngineError>(())
    })?;
    taken
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn compile(compiler: &Path, source: &Item, set: &Path) -> Result<(), EngineError> {
    let name = OsStr::from_bytes(source.name.as_bytes());
    let mut command = Command::new(compiler);
    // The temporary files of the compiler are on the target too.
    command
        .current_dir(set)
        .env("TMPDIR", set)
        .args(["-O1", "-w", "-c"])
        .arg(name)
        .arg("-o")
        .arg(object(source));
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = output.map_err(|error| EngineError::io("run", compiler, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing");
    let path = set.join(name);
    let message = format!(
        "compile {}: {} ({})",
        path.display(),
        said.trim(),
        output.status
    );
    Err(EngineError {
        path: Some(path),
        ..EngineError::new(message)
    })
}

/// Mean number of files per directory.
const FILES_A_DIRECTORY: u64 = 15;
/// The maximum depth of a directory below the tree's own.
const DEEPEST: u32 = 7;
/// Median size of a file in bytes.
const MEDIAN: f64 = 4.5 * 1024.0;
/// Standard deviation of the logarithm of a size.
const SIGMA: f64 = 1.5;
/// Maximum size of a file in bytes.
const LARGEST: f64 = (4 << 20) as f64;
/// The name of the directory that holds the tree.
const ROOT: &str = "source";

/// A directory or file of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) path: String,
    /// Bytes of a file; `None` for a directory.
    pub(super) size: Option<u64>,
    /// Permissions.
    pub(super) mode: u32,
}

/// The content of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceContent {
    /// Incompressible bytes.
    Random,
    /// C: it compresses as sources do, and it compiles.
    Text,
}

impl SourceContent {
    pub(super) const ALL: [SourceContent; 2] = [SourceContent::Random, SourceContent::Text];

    pub(super) fn name(self) -> &'static str {
        match self {
            SourceContent::Random => "random",
            SourceContent::Text => "text",
        }
    }
}

/// Plans a tree of `files` files: parents before children, and the files of a directory after it.
pub(super) fn tree(files: u64) -> Vec<Planned> {
    let count = (files / FILES_A_DIRECTORY).max(1);
    let mut directories: Vec<(String, u32)> = vec![(ROOT.to_owned(), 0)];
    for number in 1..count {
        // If the parent is too deep, half its index gives another one.
        let mut parent = (mix(number ^ 0xd1) % number) as usize;
        while directories[parent].1 >= DEEPEST {
            parent /= 2;
        }
        let (path, depth) = &directories[parent];
        directories.push((format!("{path}/d{number:04}"), depth + 1));
    }
    let mut planned: Vec<Vec<Planned>> = vec![Vec::new(); directories.len()];
    for number in 0..files {
        // The square makes few directories large.
        let place = unit(mix(number ^ 0xf1)).powi(2) * directories.len() as f64;
        let directory = (place as usize).min(directories.len() - 1);
        let (suffix, mode) = match mix(number ^ 0xa1) % 100 {
            0..60 => ("c", 0o644),
            60..90 => ("h", 0o644),
            90..97 => ("txt", 0o644),
            _ => ("sh", 0o755),
        };
        let path = format!("{}/f{number:05}.{suffix}", directories[directory].0);
        planned[directory].push(Planned {
            path,
            size: Some(size(number)),
            mode,
        });
    }
    let own = directories.into_iter().map(|(path, _)| Planned {
        path,
        size: None,
        mode: 0o755,
    });
    own.zip(planned)
        .flat_map(|(directory, files)| std::iter::once(directory).chain(files))
        .collect()
}

/// Returns the bytes of a file: log-normal, by the method of Box and Muller (1958).
fn size(number: u64) -> u64 {
    let [first, second] = [0x51, 0x52].map(|salt| unit(mix(mix(number) ^ salt)));
    let normal =
        libm::sqrt(-2.0 * libm::log(1.0 - first)) * libm::cos(std::f64::consts::TAU * second);
    (MEDIAN * libm::exp(SIGMA * normal)).clamp(1.0, LARGEST) as u64
}

/// Fills memory with C: functions that no other file defines, and a comment where no further
/// function fits.
pub(super) fn write_source(text: &mut Vec<u8>, seed: u64, number: u64, size: u64) {
    const ROOM: usize = 96;
    text.clear();
    let size = size as usize;
    let mut function = 0u64;
    while text.len() + ROOM < size {
        let bits = mix(seed ^ mix(number ^ function.rotate_left(32)));
        let (factor, mask) = (bits % 997, bits >> 32 & 0xffff);
        let line = writeln!(
            text,
            "int value_{number}_{function}(int left, int right) {{ return (left * {factor} + right) ^ {mask}; }}"
        );
        debug_assert!(line.is_ok(), "memory takes everything");
        function += 1;
    }
    pad(text, size);
}

/// Pads the text to its exact size: with a comment, or with newlines if no comment fits.
fn pad(text: &mut Vec<u8>, size: usize) {
    text.truncate(size);
    let left = size - text.len();
    if left >= 5 {
        text.extend_from_slice(b"/*");
        text.resize(size - 3, b'-');
        text.extend_from_slice(b"*/\n");
    } else {
        text.resize(size, b'\n');
    }
}

/// Builds an archive of the tree; `fill` makes the bytes of a file from its number and its size.
pub(super) fn archive(
    planned: &[Planned],
    mut fill: impl FnMut(&mut Vec<u8>, u64, u64),
) -> io::Result<Vec<u8>> {
    // A header and whole blocks per file, and the end.
    let whole: u64 = planned
        .iter()
        .map(|one| 512 + one.size.unwrap_or(0).next_multiple_of(512))
        .sum::<u64>()
        + 1024;
    let mut memory = Vec::new();
    memory
        .try_reserve_exact(whole as usize)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut builder = tar::Builder::new(memory);
    let mut bytes = Vec::new();
    for (number, one) in (0..).zip(planned) {
        let mut header = tar::Header::new_gnu();
        header.set_mode(one.mode);
        header.set_mtime(EPOCH + number);
        bytes.clear();
        match one.size {
            None => header.set_entry_type(tar::EntryType::Directory),
            Some(size) => {
                header.set_entry_type(tar::EntryType::Regular);
                fill(&mut bytes, number, size);
            }
        }
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, &one.path, bytes.as_slice())?;
    }
    builder.into_inner()
}

/// The time of the first file: an arbitrary time in the past.
const EPOCH: u64 = 1_600_000_000;

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn archive(entries: &[(&str, tar::EntryType, &[u8], &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, kind, bytes, link) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o400);
            header.set_mtime(7);
            header.set_size(bytes.len() as u64);
            // As other programs write it: the library itself refuses names that lead out.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_cksum();
            builder.append(&header, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn directories_that_an_archive_leaves_out_are_made_and_links_are_kept() {
        let bytes = archive(&[
            ("./", tar::EntryType::Directory, b"", ""),
            ("a/b/one.c", tar::EntryType::Regular, b"hello", ""),
            ("a/", tar::EntryType::Directory, b"", ""),
            ("a/two", tar::EntryType::Symlink, b"", "b/one.c"),
            ("three", tar::EntryType::Link, b"", "a/b/one.c"),
        ]);
        let index = Index::read(Cursor::new(&bytes)).unwrap();
        let names: Vec<_> = index
            .items
            .iter()
            .map(|item| item.name.to_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "a/b", "a/b/one.c", "a/two", "three"]);
        assert_eq!(
            (index.children, index.directories),
            (vec![2, 2, 1], vec![0, 1])
        );
        let EntryKind::File { offset, size } = index.items[2].kind else {
            panic!("a file")
        };
        assert_eq!(&bytes[offset as usize..][..size as usize], b"hello");
        assert_eq!((index.items[2].mode, index.items[0].mode), (0o600, 0o755));
    }

    #[test]
    fn entries_that_cannot_be_unpacked_are_named() {
        use tar::EntryType as E;
        for (bytes, said) in [
            (archive(&[("../up", E::Regular, b"", "")]), "leads out"),
            (archive(&[("/etc/x", E::Regular, b"", "")]), "leads out"),
            (
                archive(&[("f", E::Fifo, b"", "")]),
                "'f' is a FIFO: leave it out",
            ),
            (
                archive(&[("f", E::Regular, b"", ""), ("f", E::Regular, b"", "")]),
                "'f' is in the archive twice",
            ),
            (archive(&[("g", E::Link, b"", "f")]), "does not precede it"),
            (b"\x1f\x8bnonsense".repeat(100), "not a tar archive"),
        ] {
            let error = Index::read(Cursor::new(&bytes))
                .err()
                .unwrap_or_else(|| panic!("{said}"));
            assert!(error.message.contains(said), "{said}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2048), at in 0usize..1536) {
            let _ = Index::read(Cursor::new(&bytes));
            // The same within an archive that begins well.
            let mut good = archive(&[("a/b", tar::EntryType::Regular, b"hello", "")]);
            bytes.truncate(good.len().saturating_sub(at));
            good[at..at + bytes.len()].copy_from_slice(&bytes);
            let _ = Index::read(Cursor::new(&good));
        }
    }

    #[test]
    fn the_tree_has_the_shape_of_sources() {
        let tree = tree(20_000);
        let files: Vec<u64> = tree.iter().filter_map(|one| one.size).collect();
        assert_eq!(files.len(), 20_000);
        assert_eq!(tree.len() - files.len(), 1333);
        let mean = files.iter().sum::<u64>() as f64 / files.len() as f64;
        assert!((12_500.0..15_500.0).contains(&mean), "{mean}");
        let mut sorted = files.clone();
        sorted.sort_unstable();
        assert!((4300..4900).contains(&sorted[10_000]), "{}", sorted[10_000]);
        let deepest = tree.iter().map(|one| one.path.matches('/').count()).max();
        assert!((6..=8).contains(&deepest.unwrap()), "{deepest:?}");
        assert!(
            tree.iter().all(|one| one.path.len() < 100),
            "no name needs an extension of the format"
        );
        for (at, one) in tree.iter().enumerate().skip(1) {
            let parent = one.path.rsplit_once('/').unwrap().0;
            assert!(
                at < 500 || tree[..at].iter().any(|other| other.path == parent),
                "{} has no parent",
                one.path
            );
            if at > 1500 {
                break;
            }
        }
        assert_eq!(super::tree(1).len(), 2);
    }

    #[test]
    fn sources_have_their_size_to_the_byte() {
        let mut text = Vec::new();
        for size in [0, 1, 4, 5, 6, 96, 97, 200, 5000] {
            write_source(&mut text, 42, 7, size);
            assert_eq!(text.len() as u64, size);
            assert!(text.is_ascii());
        }
    }
}

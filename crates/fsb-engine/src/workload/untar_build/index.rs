//! What is in an archive: names, kinds, and where the bytes of files begin.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::recipe::{EPOCH, Planned};
use crate::EngineError;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryKind {
    Directory,
    /// Its bytes lie at `offset` of the archive.
    File {
        offset: u64,
        size: u64,
    },
    /// A symbolic link to that text.
    Symbolic(CString),
    /// Another name of that file.
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

/// All entries: directories before what they hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    pub(super) items: Vec<Item>,
    /// Where the directories stand among the items.
    pub(super) directories: Vec<usize>,
    /// Entries of what is unpacked into, then of each directory.
    pub(super) children: Vec<u64>,
}

/// More entries than this are refused.
const MOST_ENTRIES: usize = 4_000_000;

impl Index {
    /// Of a tree that was planned and is in no archive.
    pub(super) fn of_plan(planned: &[Planned]) -> Index {
        let mut index = Index { children: vec![0], ..Index::default() };
        let mut known = HashMap::new();
        for (number, one) in (0..).zip(planned) {
            let kind = match one.size {
                None => EntryKind::Directory,
                Some(size) => EntryKind::File { offset: 0, size },
            };
            index.push(&mut known, Path::new(&one.path), kind, (one.mode, EPOCH + number));
        }
        index
    }

    /// Of an archive. `Err` says which entry cannot be unpacked, and why.
    pub(super) fn read(archive: impl Read + Seek) -> Result<Index, EngineError> {
        let mut index = Index { children: vec![0], ..Index::default() };
        let (mut known, mut seen) = (HashMap::new(), HashSet::new());
        let mut archive = tar::Archive::new(archive);
        let broken =
            |error: std::io::Error| EngineError::new(format!("it is not a tar archive, or a damaged one: {error}"));
        for entry in archive.entries_with_seek().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let written = entry.path().map_err(broken)?.into_owned();
            let shown = written.display().to_string();
            if entry.header().entry_type() == tar::EntryType::XGlobalHeader {
                continue;
            }
            let Some(path) = below(&written)? else { continue };
            let header = entry.header();
            let link = || -> Result<Option<PathBuf>, EngineError> {
                Ok(entry.link_name().map_err(broken)?.map(|link| link.into_owned()))
            };
            let no_target = || refused(format!("'{shown}' is a link without a target"));
            let kind = match header.entry_type() {
                tar::EntryType::Directory => EntryKind::Directory,
                tar::EntryType::GNUSparse => {
                    return Err(refused(format!("'{shown}' is a sparse file: make the archive without --sparse")));
                }
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    EntryKind::File { offset: entry.raw_file_position(), size: entry.size() }
                }
                tar::EntryType::Symlink => EntryKind::Symbolic(c_string(&link()?.ok_or_else(no_target)?)?),
                tar::EntryType::Link => {
                    let target = below(&link()?.ok_or_else(no_target)?)?.ok_or_else(no_target)?;
                    if !seen.contains(&target) {
                        return Err(refused(format!("'{shown}' is a hard link to a file that does not precede it")));
                    }
                    EntryKind::Hard(c_string(&target)?)
                }
                other => {
                    return Err(refused(format!(
                        "'{shown}' is not a file, directory or link but {other:?}: leave it out"
                    )));
                }
            };
            let fresh = seen.insert(path.clone());
            match kind {
                // It is there already for what it holds, or stands in the archive twice.
                EntryKind::Directory if known.contains_key(&path) => continue,
                _ if !fresh || known.contains_key(&path) => {
                    return Err(refused(format!("'{shown}' is in the archive twice")));
                }
                _ => {}
            }
            let mode = header.mode().unwrap_or(0o644) & 0o777;
            index.push(&mut known, &path, kind, (mode, header.mtime().unwrap_or(EPOCH)));
            if index.items.len() > MOST_ENTRIES {
                return Err(refused(format!("more than {MOST_ENTRIES} entries are too many")));
            }
        }
        Ok(index)
    }

    /// Adds an entry, and before it the directories above it that are not there.
    fn push(&mut self, known: &mut HashMap<PathBuf, usize>, path: &Path, kind: EntryKind, (mode, mtime): (u32, u64)) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
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
        // Its owner must be able to read it, to look into it, and to remove it.
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
        self.items.push(Item { name, kind, mode, mtime });
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sizes().sum()
    }

    /// Bytes of each file.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.items.iter().filter_map(|item| match item.kind {
            EntryKind::File { size, .. } => Some(size),
            _ => None,
        })
    }

    /// What a compiler takes.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.name.as_bytes().ends_with(b".c"))
    }
}

fn refused(message: String) -> EngineError {
    EngineError::new(message)
}

/// The path below the directory that is unpacked into; nothing where it is that directory itself.
fn below(path: &Path) -> Result<Option<PathBuf>, EngineError> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) if part.as_bytes().contains(&0) => {
                return Err(refused(format!("'{}' holds a zero byte", path.display())));
            }
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            _ => return Err(refused(format!("'{}' leads out of the target directory", path.display()))),
        }
    }
    Ok((!clean.as_os_str().is_empty()).then_some(clean))
}

fn c_string(path: &Path) -> Result<CString, EngineError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| refused(format!("'{}' holds a zero byte", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

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
        let names: Vec<_> = index.items.iter().map(|item| item.name.to_str().unwrap()).collect();
        assert_eq!(names, ["a", "a/b", "a/b/one.c", "a/two", "three"]);
        assert_eq!((index.children, index.directories), (vec![2, 2, 1], vec![0, 1]));
        let EntryKind::File { offset, size } = index.items[2].kind else { panic!("a file") };
        assert_eq!(&bytes[offset as usize..][..size as usize], b"hello");
        assert_eq!((index.items[2].mode, index.items[0].mode), (0o600, 0o755));
    }

    #[test]
    fn what_cannot_be_unpacked_is_named() {
        use tar::EntryType as E;
        for (bytes, said) in [
            (archive(&[("../up", E::Regular, b"", "")]), "leads out"),
            (archive(&[("/etc/x", E::Regular, b"", "")]), "leads out"),
            (archive(&[("f", E::Fifo, b"", "")]), "'f' is not a file"),
            (archive(&[("f", E::Regular, b"", ""), ("f", E::Regular, b"", "")]), "'f' is in the archive twice"),
            (archive(&[("g", E::Link, b"", "f")]), "does not precede it"),
            (b"\x1f\x8bnonsense".repeat(100), "not a tar archive"),
        ] {
            let error = Index::read(Cursor::new(&bytes)).err().unwrap_or_else(|| panic!("{said}"));
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
}

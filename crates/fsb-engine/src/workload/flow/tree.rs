//! The directories and names of the files of a set, which are functions of their numbers.
//!
//! The tree grows as in filebench. The root contains directories only. Each directory is a leaf, full of files, or
//! contains more directories. The depth of a leaf is drawn around the logarithm of the number of entries to the base of
//! the width. The number of entries of a directory is drawn around the width. Names are numbers of eight digits, from 1
//! in each directory. Only directories are kept in memory: a file's name is made from its number when it is needed.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use fsb_model::flow::{FileSet, Width};

use super::draw;
use crate::hash::{Stream, hash, mix};

/// The maximum depth of a directory.
const DEEPEST: u32 = 64;
/// A name and the slash before it, or the NUL after it.
const PART: usize = 9;

/// The longest path and its NUL.
pub(super) const LONGEST_PATH: usize = (DEEPEST as usize + 2) * PART + 65;

/// A directory of a set.
#[derive(Debug, Clone, Copy)]
struct Directory {
    /// The start of its path among all paths, and the length of the path.
    path: (u32, u16),
    /// The number of its first entry if it is a leaf; otherwise the number of entries before it.
    first: u64,
}

/// The directories of a set's files, or of the empty directories that steps make and remove.
#[derive(Debug)]
pub(super) struct Tree {
    directories: Vec<Directory>,
    /// Numbers of the directories that hold entries, in the order of their entries.
    leaves: Vec<u32>,
    /// Paths relative to the directory that contains all sets.
    paths: Vec<u8>,
    entries: u64,
}

/// A buffer for a path. Each thread keeps one, so that a path needs no allocation.
pub(super) type PathBuffer = [u8; LONGEST_PATH];

impl Tree {
    /// Grows the tree of a set's files.
    pub(super) fn of_files(set: &FileSet, number: usize, seed: u64) -> Tree {
        Tree::grow(set, set.files, seed, number as u64, 0)
    }

    /// Grows the tree of a set's empty directories, next to the tree of its files.
    pub(super) fn of_directories(set: &FileSet, number: usize, seed: u64, beside: &Tree) -> Tree {
        Tree::grow(set, set.directories, seed, number as u64 | 1 << 32, beside.top_level())
    }

    fn grow(set: &FileSet, entries: u64, seed: u64, stream: u64, first_name: u64) -> Tree {
        let all = (set.files + set.directories).max(1) as f64;
        let mut growth = Growth {
            tree: Tree { directories: Vec::new(), leaves: Vec::new(), paths: Vec::new(), entries },
            seed: hash(seed, Stream::Flow, mix(stream)),
            width: set.width,
            depth: libm::log(all) / libm::log(set.width.mean.max(2) as f64),
            grown: 0,
        };
        growth.root(&set.name, first_name);
        growth.tree
    }

    fn top_level(&self) -> u64 {
        let Some(root) = self.directories.first() else { return 0 };
        let below = usize::from(root.path.1) + PART;
        self.directories.iter().filter(|directory| usize::from(directory.path.1) == below).count() as u64
    }

    /// Returns the number of directories, including the set's own.
    pub(super) fn directories(&self) -> u64 {
        self.directories.len() as u64
    }

    /// Returns the number of directories that hold entries.
    pub(super) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Returns the entries of a leaf.
    pub(super) fn entries_of(&self, leaf: usize) -> std::ops::Range<u64> {
        let first =
            |leaf: usize| self.leaves.get(leaf).map_or(self.entries, |&number| self.directories[number as usize].first);
        first(leaf)..first(leaf + 1)
    }

    /// Returns the path of a directory.
    #[inline]
    pub(super) fn directory<'s>(&self, number: u64, path_buffer: &'s mut PathBuffer) -> &'s CStr {
        let length = self.copy(self.directories[number as usize], path_buffer);
        finish(path_buffer, length)
    }

    /// Returns the path of an entry.
    #[inline]
    pub(super) fn entry<'s>(&self, entry: u64, path_buffer: &'s mut PathBuffer) -> &'s CStr {
        let after = self.leaves.partition_point(|&leaf| self.directories[leaf as usize].first <= entry);
        let leaf = self.directories[self.leaves[after - 1] as usize];
        let length = self.copy(leaf, path_buffer);
        let length = append(path_buffer, length, entry - leaf.first + 1);
        finish(path_buffer, length)
    }

    #[inline]
    fn copy(&self, directory: Directory, path_buffer: &mut PathBuffer) -> usize {
        let (start, length) = (directory.path.0 as usize, usize::from(directory.path.1));
        path_buffer[..length].copy_from_slice(&self.paths[start..start + length]);
        length
    }

    /// Returns the path of an entry below `root`, for messages.
    pub(super) fn show(&self, root: &Path, entry: u64) -> PathBuf {
        root.join(self.entry(entry, &mut [0; LONGEST_PATH]).to_string_lossy().as_ref())
    }
}

/// Writes a slash and a name.
#[inline]
fn append(path_buffer: &mut [u8], length: usize, mut number: u64) -> usize {
    path_buffer[length] = b'/';
    for digit in path_buffer[length + 1..length + PART].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    length + PART
}

#[inline]
fn finish(path_buffer: &mut PathBuffer, length: usize) -> &CStr {
    path_buffer[length] = 0;
    CStr::from_bytes_with_nul(&path_buffer[..=length]).expect("names are digits")
}

struct Growth {
    tree: Tree,
    seed: u64,
    width: Width,
    /// Mean depth of leaves.
    depth: f64,
    /// Entries so far.
    grown: u64,
}

impl Growth {
    fn root(&mut self, name: &str, first_name: u64) {
        self.tree.paths.extend_from_slice(name.as_bytes());
        self.tree.directories.push(Directory { path: (0, name.len() as u16), first: 0 });
        let mut child = first_name;
        while self.grown < self.tree.entries {
            child += 1;
            self.directory(0, child, 2);
        }
    }

    fn directory(&mut self, parent: u32, name: u64, depth: u32) {
        let number = self.tree.directories.len() as u32;
        let bits = hash(self.seed, Stream::Flow, u64::from(number));
        let path = {
            let (start, length) = self.tree.directories[parent as usize].path;
            let mut path_buffer = [0; LONGEST_PATH];
            let length = usize::from(length);
            path_buffer[..length].copy_from_slice(&self.tree.paths[start as usize..][..length]);
            let length = append(&mut path_buffer, length, name);
            let start = self.tree.paths.len() as u32;
            self.tree.paths.extend_from_slice(&path_buffer[..length]);
            (start, length as u16)
        };
        self.tree.directories.push(Directory { path, first: self.grown });
        let shape = if self.width.shape == 0.0 { None } else { Some(self.width.shape) };
        let deepest = shape.map_or(self.depth, |shape| draw::gamma(self.depth, shape, mix(bits))) as u32;
        let leaf = depth >= deepest.max(1) || depth >= DEEPEST;
        if leaf {
            self.tree.leaves.push(number);
        }
        // At least one: a width below 1 counts as 1.
        let entries = (draw::width(self.width, bits).ceil() as u64).max(1);
        for child in 1..=entries {
            if self.grown >= self.tree.entries {
                break;
            }
            if leaf {
                let rest = (self.tree.entries - self.grown).min(entries);
                self.grown += rest;
                break;
            }
            self.directory(number, child, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_model::Bytes;
    use fsb_model::flow::{Pick, Spread};
    use std::collections::BTreeSet;

    fn set(files: u64, mean: u64) -> FileSet {
        FileSet {
            name: "set".to_owned(),
            files,
            directories: 0,
            size: Spread::Exact(Bytes(0)),
            width: Width { mean, shape: Width::SHAPE },
            preallocated: 1.0,
            pick: Pick::Rotate,
            read_only: false,
        }
    }

    fn path(tree: &Tree, entry: u64) -> String {
        tree.show(Path::new(""), entry).to_string_lossy().into_owned()
    }

    #[test]
    fn a_flat_set_lies_in_one_directory() {
        let tree = Tree::of_files(&set(1000, 1_000_000), 0, 7);
        assert_eq!((tree.leaves(), tree.directories(), tree.entries_of(0)), (1, 2, 0..1000));
        assert_eq!(
            (path(&tree, 0).as_str(), path(&tree, 999).as_str()),
            ("set/00000001/00000001", "set/00000001/00001000")
        );
    }

    #[test]
    fn every_file_has_a_path_of_its_own_in_a_directory_that_is_made() {
        for (files, width) in [(1, 1), (30, 1), (10_000, 20), (777, 3)] {
            let tree = Tree::of_files(&set(files, width), 0, 7);
            let directories: BTreeSet<_> = (0..tree.directories())
                .map(|number| tree.directory(number, &mut [0; LONGEST_PATH]).to_string_lossy().into_owned())
                .collect();
            assert_eq!(directories.len() as u64, tree.directories());
            let all: BTreeSet<_> = (0..files).map(|file| path(&tree, file)).collect();
            assert_eq!(all.len() as u64, files);
            for file in &all {
                assert!(directories.contains(file.rsplit_once('/').unwrap().0), "{file}");
            }
            let of_leaves: u64 =
                (0..tree.leaves()).map(|leaf| tree.entries_of(leaf)).map(|range| range.end - range.start).sum();
            assert_eq!(of_leaves, files);
        }
    }

    #[test]
    fn directories_are_as_wide_as_asked_and_their_number_costs_little_memory() {
        let tree = Tree::of_files(&set(1_000_000, 20), 0, 7);
        let mean = 1e6 / tree.leaves() as f64;
        assert!((17.0..25.0).contains(&mean), "{mean}");
        let bytes = tree.paths.len() + tree.directories.len() * size_of::<Directory>() + tree.leaves.len() * 4;
        assert!(bytes < 10_000_000, "{bytes} bytes for a million files");
        let alike = Tree::of_files(&set(1_000_000, 20), 0, 7);
        assert_eq!(path(&tree, 123_456), path(&alike, 123_456));
    }

    #[test]
    fn empty_directories_stand_beside_the_files() {
        let mut set = set(50, 10);
        set.directories = 40;
        let files = Tree::of_files(&set, 0, 3);
        let empty = Tree::of_directories(&set, 0, 3, &files);
        let paths = |tree: &Tree| {
            (0..tree.directories())
                .map(|number| tree.directory(number, &mut [0; LONGEST_PATH]).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let both: Vec<_> = paths(&files).intersection(&paths(&empty)).cloned().collect();
        assert_eq!(both, [c"set".to_owned()], "only the set's own directory");
        assert_eq!(empty.entries, 40);
    }
}

//! The sets of a flow: their trees, and the entries that exist or are open. Threads take entries
//! without a lock.
//!
//! An entry is its size and one word that threads change by compare-and-swap. One bit per entry
//! shows where to search for existing and for missing entries. That is 12 bytes and one bit per
//! file.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fsb_model::flow::{FileSet, Flow, Pick, Spread, Width};
use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64Mcg;

use crate::hash::{Stream, hash, mix, unit};

const EXISTS: u32 = 1 << 31;
/// A thread is making or deleting the entry.
const BUSY: u32 = 1 << 30;
const OPENS: u32 = 0xffff;
const GENERATION: u32 = 16;
const GENERATIONS: u32 = 0x3fff;

/// The entries of a set.
#[derive(Debug)]
pub(super) struct Entries {
    words: Vec<AtomicU32>,
    sizes: Vec<AtomicU64>,
    exist: Vec<AtomicU64>,
    /// The places at which the searches for existing and for missing entries continue.
    cursors: [Cursor; 2],
}

/// On a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Cursor(AtomicU64);

/// The use that a thread wants an entry for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// To use it while it exists.
    Use,
    /// To make it.
    Make,
    /// To delete it; no thread may have it open.
    Delete,
}

/// An entry that a thread has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) entry: u64,
    /// Number of times that it was made since the clock started: its content differs each time.
    pub(super) generation: u32,
}

/// The reason why a thread took no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nothing {
    /// Other threads use the suitable entries.
    InUse,
    /// No suitable entry exists.
    There,
}

impl Entries {
    /// Creates `count` entries. Those that have a size exist.
    fn new(count: u64, size: impl Fn(u64) -> Option<u64>) -> Entries {
        let mut entries = Entries {
            words: Vec::with_capacity(count as usize),
            sizes: Vec::with_capacity(count as usize),
            exist: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            cursors: Default::default(),
        };
        for entry in 0..count {
            let size = size(entry);
            entries
                .words
                .push(AtomicU32::new(if size.is_some() { EXISTS } else { 0 }));
            entries.sizes.push(AtomicU64::new(size.unwrap_or(0)));
            if size.is_some() {
                *entries.exist[entry as usize / 64].get_mut() |= 1 << (entry % 64);
            }
        }
        entries
    }

    pub(super) fn len(&self) -> u64 {
        self.words.len() as u64
    }

    /// Returns whether the entry exists.
    pub(super) fn exists(&self, entry: u64) -> bool {
        self.exist[entry as usize / 64].load(Ordering::Relaxed) >> (entry % 64) & 1 == 1
    }

    /// Returns the number of existing entries.
    pub(super) fn existing(&self) -> u64 {
        self.exist
            .iter()
            .map(|word| u64::from(word.load(Ordering::Relaxed).count_ones()))
            .sum()
    }

    /// Takes the next suitable entry from `from` on, or from the end of the last search.
    #[inline]
    pub(super) fn take(&self, want: Want, from: Option<u64>) -> Result<Taken, Nothing> {
        let cursor = &self.cursors[usize::from(want == Want::Make)].0;
        let count = self.len();
        let start = from.unwrap_or_else(|| cursor.load(Ordering::Relaxed)) % count.max(1);
        let mut nothing = Nothing::There;
        // From the start to the end, and from the beginning to the start.
        for (mut place, end) in [(start, count), (0, start)] {
            while let Some(entry) = self.next(want, place, end) {
                match self.try_take(want, entry) {
                    Some(taken) => {
                        if from.is_none() {
                            cursor.store(entry + 1, Ordering::Relaxed);
                        }
                        return Ok(taken);
                    }
                    None => nothing = Nothing::InUse,
                }
                place = entry + 1;
            }
        }
        Err(nothing)
    }

    /// Returns the next candidate in a range, according to the bits.
    #[inline]
    fn next(&self, want: Want, place: u64, end: u64) -> Option<u64> {
        let mut place = place;
        while place < end {
            let word = self.exist[place as usize / 64].load(Ordering::Relaxed);
            let wanted = if want == Want::Make { !word } else { word } >> (place % 64);
            if wanted != 0 {
                let found = place + u64::from(wanted.trailing_zeros());
                return (found < end).then_some(found);
            }
            place = (place / 64 + 1) * 64;
        }
        None
    }

    /// Takes this entry. Returns `None` if it is not suitable.
    #[inline]
    pub(super) fn try_take(&self, want: Want, entry: u64) -> Option<Taken> {
        let word = &self.words[entry as usize];
        let found = word.load(Ordering::Relaxed);
        let next = match want {
            Want::Use if found & (EXISTS | BUSY) == EXISTS && found & OPENS < OPENS => found + 1,
            Want::Make if found & (EXISTS | BUSY) == 0 => found | BUSY,
            Want::Delete if found & (EXISTS | BUSY) == EXISTS && found & OPENS == 0 => found | BUSY,
            _ => return None,
        };
        word.compare_exchange(found, next, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(Taken {
            entry,
            generation: found >> GENERATION & GENERATIONS,
        })
    }

    /// Takes an entry for deletion by the only thread that has it open. Returns whether that
    /// succeeded.
    #[inline]
    pub(super) fn take_own(&self, entry: u64) -> bool {
        let word = &self.words[entry as usize];
        let found = word.load(Ordering::Relaxed);
        found & (EXISTS | BUSY) == EXISTS
            && found & OPENS == 1
            && word
                .compare_exchange(found, found | BUSY, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Marks an entry as made, and as open if `open` is set. Returns its new generation.
    #[inline]
    pub(super) fn made(&self, entry: u64, open: bool) -> u32 {
        self.sizes[entry as usize].store(0, Ordering::Relaxed);
        let word = &self.words[entry as usize];
        let generation = (word.load(Ordering::Relaxed) >> GENERATION & GENERATIONS).wrapping_add(1)
            & GENERATIONS;
        self.exist[entry as usize / 64].fetch_or(1 << (entry % 64), Ordering::Relaxed);
        word.store(
            EXISTS | generation << GENERATION | u32::from(open),
            Ordering::Release,
        );
        generation
    }

    /// Marks an entry as deleted. The word keeps the generation, so that the entry gets the next
    /// one when it is made.
    #[inline]
    pub(super) fn deleted(&self, entry: u64) {
        let word = &self.words[entry as usize];
        let generation = word.load(Ordering::Relaxed) & (GENERATIONS << GENERATION);
        self.exist[entry as usize / 64].fetch_and(!(1 << (entry % 64)), Ordering::Relaxed);
        word.store(generation, Ordering::Release);
    }

    /// Releases an entry that a thread used.
    #[inline]
    pub(super) fn release(&self, entry: u64) {
        self.words[entry as usize].fetch_sub(1, Ordering::Release);
    }

    /// Returns the minimum size of the entry in bytes.
    #[inline]
    pub(super) fn size(&self, entry: u64) -> u64 {
        self.sizes[entry as usize].load(Ordering::Relaxed)
    }

    /// Records that bytes up to `end` were written.
    #[inline]
    pub(super) fn grown(&self, entry: u64, end: u64) {
        let size = &self.sizes[entry as usize];
        if size.load(Ordering::Relaxed) < end {
            size.fetch_max(end, Ordering::Relaxed);
        }
    }
}

/// Mask of the addresses at which files begin: far apart, and at the same place in the pool of
/// data.
const ADDRESSES: u64 = 0x3fff_ffff_fff0_0000;

/// A set of files.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) shape: FileSet,
    number: u64,
    seed: u64,
    pub(super) tree: Tree,
    pub(super) files: Entries,
    /// The empty directories that steps make and remove, if the set has any.
    pub(super) empty: Option<(Tree, Entries)>,
}

/// Returns all sets in their state before the clock starts.
pub(super) fn sets(flow: &Flow, seed: u64) -> Vec<Set> {
    flow.filesets
        .iter()
        .enumerate()
        .map(|(number, shape)| Set::new(shape, number, seed))
        .collect()
}

impl Set {
    fn new(shape: &FileSet, number: usize, seed: u64) -> Set {
        let tree = Tree::of_files(shape, number, seed);
        let sized = Sized {
            shape,
            number: number as u64,
            seed,
        };
        let files = Entries::new(shape.files, |file| {
            sized.is_there(file).then(|| sized.size(file))
        });
        let empty = (shape.directories > 0).then(|| {
            let tree = Tree::of_directories(shape, number, seed, &tree);
            let entries = Entries::new(shape.directories, |entry| {
                sized.is_there(!entry).then_some(0)
            });
            (tree, entries)
        });
        Set {
            shape: shape.clone(),
            number: number as u64,
            seed,
            tree,
            files,
            empty,
        }
    }

    /// Returns the size of a complete file in bytes.
    #[inline]
    pub(super) fn size(&self, file: u64) -> u64 {
        Sized {
            shape: &self.shape,
            number: self.number,
            seed: self.seed,
        }
        .size(file)
    }

    /// Returns the address of the file's content in the content of the set.
    #[inline]
    pub(super) fn address(&self, file: u64, generation: u32) -> u64 {
        let item = mix(file ^ self.number << 40) ^ u64::from(generation);
        hash(self.seed, Stream::Data, item) & ADDRESSES
    }

    /// Returns whether threads take files at random.
    pub(super) fn is_random(&self) -> bool {
        self.shape.pick == Pick::Random
    }
}

struct Sized<'s> {
    shape: &'s FileSet,
    number: u64,
    seed: u64,
}

impl Sized<'_> {
    fn bits(&self, item: u64, purpose: u64) -> u64 {
        hash(
            self.seed,
            Stream::Flow,
            mix(item ^ mix(self.number << 8 | purpose)),
        )
    }

    fn size(&self, file: u64) -> u64 {
        draw_size(&self.shape.size, self.bits(file, 1))
    }

    fn is_there(&self, entry: u64) -> bool {
        unit(self.bits(entry, 2)) < self.shape.preallocated
    }
}

/// Returns the expected bytes that `files` complete files of a set take in blocks.
pub(super) fn expected_bytes(set: &FileSet, files: u64, block: u64) -> u64 {
    let mean = set.size.mean();
    // On average a file wastes half a block, and a file that is not empty has at least one block.
    let each = if mean == 0 {
        1
    } else {
        mean.saturating_add(block / 2).max(block)
    };
    files.saturating_mul(each)
}

// The directories and names of the files of a set, which are functions of their numbers.
//
// The tree grows as in filebench. The root contains directories only. Each directory is a leaf,
// full of files, or contains more directories. The depth of a leaf is drawn around the logarithm of
// the number of entries to the base of the width. The number of entries of a directory is drawn
// around the width. Names are numbers of eight digits, from 1 in each directory. Only directories
// are kept in memory: a file's name is made from its number when it is needed.

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
    fn of_files(set: &FileSet, number: usize, seed: u64) -> Tree {
        Tree::grow(set, set.files, seed, number as u64, 0)
    }

    /// Grows the tree of a set's empty directories, next to the tree of its files.
    fn of_directories(set: &FileSet, number: usize, seed: u64, beside: &Tree) -> Tree {
        Tree::grow(
            set,
            set.directories,
            seed,
            number as u64 | 1 << 32,
            beside.top_level(),
        )
    }

    fn grow(set: &FileSet, entries: u64, seed: u64, stream: u64, first_name: u64) -> Tree {
        let all = (set.files + set.directories).max(1) as f64;
        let mut growth = Growth {
            tree: Tree {
                directories: Vec::new(),
                leaves: Vec::new(),
                paths: Vec::new(),
                entries,
            },
            seed: hash(seed, Stream::Flow, mix(stream)),
            width: set.width,
            depth: libm::log(all) / libm::log(set.width.mean.max(2) as f64),
            grown: 0,
        };
        growth.root(&set.name, first_name);
        growth.tree
    }

    fn top_level(&self) -> u64 {
        let Some(root) = self.directories.first() else {
            return 0;
        };
        let below = usize::from(root.path.1) + PART;
        self.directories
            .iter()
            .filter(|directory| usize::from(directory.path.1) == below)
            .count() as u64
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
        let first = |leaf: usize| {
            self.leaves.get(leaf).map_or(self.entries, |&number| {
                self.directories[number as usize].first
            })
        };
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
        let after = self
            .leaves
            .partition_point(|&leaf| self.directories[leaf as usize].first <= entry);
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
        root.join(
            self.entry(entry, &mut [0; LONGEST_PATH])
                .to_string_lossy()
                .as_ref(),
        )
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
        self.tree.directories.push(Directory {
            path: (0, name.len() as u16),
            first: 0,
        });
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
        self.tree.directories.push(Directory {
            path,
            first: self.grown,
        });
        let shape = if self.width.shape == 0.0 {
            None
        } else {
            Some(self.width.shape)
        };
        let deepest =
            shape.map_or(self.depth, |shape| draw_gamma(self.depth, shape, mix(bits))) as u32;
        let leaf = depth >= deepest.max(1) || depth >= DEEPEST;
        if leaf {
            self.tree.leaves.push(number);
        }
        // At least one: a width below 1 counts as 1.
        let entries = (draw_width(self.width, bits).ceil() as u64).max(1);
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

// Random numbers with the distributions of a flow, each a function of the seed and its own number.
//
// The gamma distribution is sampled by Marsaglia and Tsang's method ("A simple method for
// generating gamma variables", 2000), as `rand_distr` implements it. The generator is pinned, and
// the floating point is the same everywhere.

/// No file of a gamma distribution gets larger than this multiple of its mean: one in 10^25 would.
const LONGEST_TAIL: f64 = 40.0;

/// Returns the number of bytes that random bits determine.
pub(super) fn draw_size(spread: &Spread, bits: u64) -> u64 {
    match *spread {
        Spread::Exact(size) => size.0,
        Spread::Gamma { mean, shape } => draw_gamma(mean.0 as f64, shape, bits) as u64,
        Spread::Uniform { low, high } => draw_below(high.0 - low.0, bits) + low.0,
    }
}

/// Returns the most bytes that one call moves. A larger drawn size takes several calls.
pub(super) fn largest_size(spread: &Spread) -> u64 {
    match *spread {
        Spread::Exact(size) => size.0,
        Spread::Uniform { high, .. } => high.0.saturating_sub(1).max(1),
        Spread::Gamma { mean, .. } => mean.0.saturating_mul(4).min(1 << 30),
    }
}

/// Returns the number of entries of a directory, not rounded, because filebench counts up to it.
fn draw_width(width: Width, bits: u64) -> f64 {
    if width.shape == 0.0 {
        width.mean as f64
    } else {
        draw_gamma(width.mean as f64, width.shape, bits)
    }
}

/// Returns a number below `limit`.
#[inline]
pub(super) fn draw_below(limit: u64, bits: u64) -> u64 {
    ((u128::from(bits) * u128::from(limit)) >> 64) as u64
}

/// Returns a sample of the distribution with this mean and shape.
fn draw_gamma(mean: f64, shape: f64, bits: u64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    // The shape is checked by the flow, and so is the mean: there is such a distribution.
    let Ok(distribution) = Gamma::new(shape, mean / shape) else {
        return mean;
    };
    let state = u128::from(bits) << 64 | u128::from(mix(bits));
    distribution
        .sample(&mut Pcg64Mcg::new(state))
        .min(mean * LONGEST_TAIL)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use fsb_model::Bytes;
    use fsb_model::flow::{Pick, Spread};

    use super::*;
    use crate::hash::{Stream, hash};

    fn odd(count: u64) -> Entries {
        Entries::new(count, |entry| (entry % 2 == 1).then_some(entry))
    }

    #[test]
    fn entries_are_taken_in_rotation_and_from_anywhere() {
        let entries = odd(200);
        let take = |want, from| entries.take(want, from).map(|taken| taken.entry);
        assert_eq!(
            [
                take(Want::Use, None),
                take(Want::Use, None),
                take(Want::Use, None)
            ],
            [Ok(1), Ok(3), Ok(5)]
        );
        assert_eq!(
            [take(Want::Make, None), take(Want::Make, None)],
            [Ok(0), Ok(2)]
        );
        assert_eq!(
            (take(Want::Use, Some(130)), take(Want::Make, Some(199))),
            (Ok(131), Ok(4))
        );
        assert_eq!(
            take(Want::Delete, None),
            Ok(7),
            "those that are open are passed over"
        );
        assert_eq!(entries.existing(), 100);
        entries.deleted(7);
        assert_eq!(entries.existing(), 99);
        assert_eq!(entries.made(0, true), 1);
        entries.grown(0, 10);
        assert_eq!((entries.size(0), entries.size(9)), (10, 9));
        assert!(entries.try_take(Want::Delete, 0).is_none() && entries.take_own(0));
    }

    #[test]
    fn entries_in_use_and_missing_entries_are_distinguished() {
        let entries = Entries::new(2, |_| Some(0));
        assert_eq!(entries.take(Want::Make, None), Err(Nothing::There));
        assert!((0..2).all(|_| entries.take(Want::Use, None).is_ok()));
        assert_eq!(entries.take(Want::Delete, None), Err(Nothing::InUse));
        entries.release(1);
        assert_eq!(entries.take(Want::Delete, None).unwrap().entry, 1);
        assert_eq!(
            Entries::new(0, |_| None).take(Want::Use, None),
            Err(Nothing::There)
        );
    }

    #[test]
    fn no_two_threads_take_the_same() {
        let entries = odd(1000);
        let all: Vec<u64> = thread::scope(|scope| {
            let taker = || {
                let mut mine = Vec::new();
                while let Ok(taken) = entries.take(Want::Delete, None) {
                    entries.deleted(taken.entry);
                    mine.push(taken.entry);
                }
                mine
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(taker)).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..500).map(|i| i * 2 + 1).collect::<Vec<_>>());
        assert_eq!(entries.existing(), 0);
    }

    #[test]
    fn an_entry_costs_little_memory() {
        let entries = odd(6400);
        let bytes = entries.words.capacity() * 4
            + entries.sizes.capacity() * 8
            + entries.exist.capacity() * 8;
        assert!(bytes < 13 * 6400, "{bytes}");
    }

    fn set(files: u64, mean: u64) -> FileSet {
        FileSet {
            name: "set".to_owned(),
            files,
            directories: 0,
            size: Spread::Exact(Bytes(0)),
            width: Width {
                mean,
                shape: Width::SHAPE,
            },
            preallocated: 1.0,
            pick: Pick::Rotate,
            read_only: false,
        }
    }

    fn path(tree: &Tree, entry: u64) -> String {
        tree.show(Path::new(""), entry)
            .to_string_lossy()
            .into_owned()
    }

    #[test]
    fn a_flat_set_lies_in_one_directory() {
        let tree = Tree::of_files(&set(1000, 1_000_000), 0, 7);
        assert_eq!(
            (tree.leaves(), tree.directories(), tree.entries_of(0)),
            (1, 2, 0..1000)
        );
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
                .map(|number| {
                    tree.directory(number, &mut [0; LONGEST_PATH])
                        .to_string_lossy()
                        .into_owned()
                })
                .collect();
            assert_eq!(directories.len() as u64, tree.directories());
            let all: BTreeSet<_> = (0..files).map(|file| path(&tree, file)).collect();
            assert_eq!(all.len() as u64, files);
            for file in &all {
                assert!(
                    directories.contains(file.rsplit_once('/').unwrap().0),
                    "{file}"
                );
            }
            let of_leaves: u64 = (0..tree.leaves())
                .map(|leaf| tree.entries_of(leaf))
                .map(|range| range.end - range.start)
                .sum();
            assert_eq!(of_leaves, files);
        }
    }

    #[test]
    fn directories_are_as_wide_as_asked_and_their_number_costs_little_memory() {
        let tree = Tree::of_files(&set(1_000_000, 20), 0, 7);
        let mean = 1e6 / tree.leaves() as f64;
        assert!((17.0..25.0).contains(&mean), "{mean}");
        let bytes = tree.paths.len()
            + tree.directories.len() * size_of::<Directory>()
            + tree.leaves.len() * 4;
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
        let both: Vec<_> = paths(&files)
            .intersection(&paths(&empty))
            .cloned()
            .collect();
        assert_eq!(both, [c"set".to_owned()], "only the set's own directory");
        assert_eq!(empty.entries, 40);
    }

    #[test]
    fn a_gamma_distribution_has_its_mean_and_variance() {
        let values: Vec<f64> = (0..50_000)
            .map(|i| draw_gamma(16_384.0, 1.5, hash(1, Stream::Flow, i)))
            .collect();
        let mean = values.iter().sum::<f64>() / 5e4;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 5e4;
        assert!((mean / 16_384.0 - 1.0).abs() < 0.02, "{mean}");
        // The variance of a gamma distribution is its mean squared through its shape.
        assert!(
            (variance / (16_384.0f64.powi(2) / 1.5) - 1.0).abs() < 0.05,
            "{variance}"
        );
    }

    /// Every recorded run depends on these numbers.
    #[test]
    fn samples_are_pinned() {
        let sizes = [0, 1, 2].map(|i| {
            draw_size(
                &Spread::Gamma {
                    mean: Bytes(131_072),
                    shape: 1.5,
                },
                hash(42, Stream::Flow, i),
            )
        });
        assert_eq!(sizes, [251_408, 22_817, 70_540]);
    }

    #[test]
    fn uniform_numbers_stay_between_their_bounds_and_reach_them() {
        let spread = Spread::Uniform {
            low: Bytes(3),
            high: Bytes(7),
        };
        let mut seen = [0; 8];
        (0..1000).for_each(|i| seen[draw_size(&spread, hash(1, Stream::Draw, i)) as usize] += 1);
        assert_eq!(
            seen.map(|count| count > 150),
            [false, false, false, true, true, true, true, false]
        );
    }
}

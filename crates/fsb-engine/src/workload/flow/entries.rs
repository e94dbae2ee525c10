//! The sets of a flow: their trees, and the entries that exist or are open. Threads take entries without a lock.
//!
//! An entry is its size and one word that threads change by compare-and-swap. One bit per entry shows where to search
//! for existing and for missing entries. That is 12 bytes and one bit per file.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fsb_model::flow::{FileSet, Flow, Pick};

use super::draw;
use super::tree::Tree;
use crate::hash::{Stream, hash, mix};

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
    pub(super) fn new(count: u64, size: impl Fn(u64) -> Option<u64>) -> Entries {
        let mut entries = Entries {
            words: Vec::with_capacity(count as usize),
            sizes: Vec::with_capacity(count as usize),
            exist: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            cursors: Default::default(),
        };
        for entry in 0..count {
            let size = size(entry);
            entries.words.push(AtomicU32::new(if size.is_some() { EXISTS } else { 0 }));
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
        self.exist.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
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
        word.compare_exchange(found, next, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Taken { entry, generation: found >> GENERATION & GENERATIONS })
    }

    /// Takes an entry for deletion by the only thread that has it open. Returns whether that succeeded.
    #[inline]
    pub(super) fn take_own(&self, entry: u64) -> bool {
        let word = &self.words[entry as usize];
        let found = word.load(Ordering::Relaxed);
        found & (EXISTS | BUSY) == EXISTS
            && found & OPENS == 1
            && word.compare_exchange(found, found | BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Marks an entry as made, and as open if `open` is set. Returns its new generation.
    #[inline]
    pub(super) fn made(&self, entry: u64, open: bool) -> u32 {
        self.sizes[entry as usize].store(0, Ordering::Relaxed);
        let word = &self.words[entry as usize];
        let generation = (word.load(Ordering::Relaxed) >> GENERATION & GENERATIONS).wrapping_add(1) & GENERATIONS;
        self.exist[entry as usize / 64].fetch_or(1 << (entry % 64), Ordering::Relaxed);
        word.store(EXISTS | generation << GENERATION | u32::from(open), Ordering::Release);
        generation
    }

    /// Marks an entry as deleted. The word keeps the generation, so that the entry gets the next one when it is made.
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

/// Mask of the addresses at which files begin: far apart, and at the same place in the pool of data.
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
pub(super) fn of(flow: &Flow, seed: u64) -> Vec<Set> {
    flow.filesets.iter().enumerate().map(|(number, shape)| Set::new(shape, number, seed)).collect()
}

impl Set {
    fn new(shape: &FileSet, number: usize, seed: u64) -> Set {
        let tree = Tree::of_files(shape, number, seed);
        let sized = Sized { shape, number: number as u64, seed };
        let files = Entries::new(shape.files, |file| sized.is_there(file).then(|| sized.size(file)));
        let empty = (shape.directories > 0).then(|| {
            let tree = Tree::of_directories(shape, number, seed, &tree);
            let entries = Entries::new(shape.directories, |entry| sized.is_there(!entry).then_some(0));
            (tree, entries)
        });
        Set { shape: shape.clone(), number: number as u64, seed, tree, files, empty }
    }

    /// Returns the size of a complete file in bytes.
    #[inline]
    pub(super) fn size(&self, file: u64) -> u64 {
        Sized { shape: &self.shape, number: self.number, seed: self.seed }.size(file)
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
        hash(self.seed, Stream::Flow, mix(item ^ mix(self.number << 8 | purpose)))
    }

    fn size(&self, file: u64) -> u64 {
        draw::size(&self.shape.size, self.bits(file, 1))
    }

    fn is_there(&self, entry: u64) -> bool {
        draw::share(self.bits(entry, 2)) < self.shape.preallocated
    }
}

/// Returns the expected bytes that `files` complete files of a set take in blocks.
pub(super) fn expected_bytes(set: &FileSet, files: u64, block: u64) -> u64 {
    let mean = set.size.mean();
    // On average a file wastes half a block, and a file that is not empty has at least one block.
    let each = if mean == 0 { 1 } else { mean.saturating_add(block / 2).max(block) };
    files.saturating_mul(each)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn odd(count: u64) -> Entries {
        Entries::new(count, |entry| (entry % 2 == 1).then_some(entry))
    }

    #[test]
    fn entries_are_taken_in_rotation_and_from_anywhere() {
        let entries = odd(200);
        let take = |want, from| entries.take(want, from).map(|taken| taken.entry);
        assert_eq!([take(Want::Use, None), take(Want::Use, None), take(Want::Use, None)], [Ok(1), Ok(3), Ok(5)]);
        assert_eq!([take(Want::Make, None), take(Want::Make, None)], [Ok(0), Ok(2)]);
        assert_eq!((take(Want::Use, Some(130)), take(Want::Make, Some(199))), (Ok(131), Ok(4)));
        assert_eq!(take(Want::Delete, None), Ok(7), "those that are open are passed over");
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
        assert_eq!(Entries::new(0, |_| None).take(Want::Use, None), Err(Nothing::There));
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
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..500).map(|i| i * 2 + 1).collect::<Vec<_>>());
        assert_eq!(entries.existing(), 0);
    }

    #[test]
    fn an_entry_costs_little_memory() {
        let entries = odd(6400);
        let bytes = entries.words.capacity() * 4 + entries.sizes.capacity() * 8 + entries.exist.capacity() * 8;
        assert!(bytes < 13 * 6400, "{bytes}");
    }
}

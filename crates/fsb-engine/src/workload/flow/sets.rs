//! The sets of a flow: their trees, their entries, and what their files hold.

use fsb_model::flow::{FileSet, Flow, Pick};

use super::draw;
use super::entries::Entries;
use super::tree::Tree;
use crate::hash::{Stream, hash, mix};

/// Files begin at addresses of their own, far apart, in the same place of the pool of data.
const ADDRESSES: u64 = 0x3fff_ffff_fff0_0000;

/// A set of files.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) shape: FileSet,
    number: u64,
    seed: u64,
    pub(super) tree: Tree,
    pub(super) files: Entries,
    /// The empty directories that come and go, where there are any.
    pub(super) empty: Option<(Tree, Entries)>,
}

/// All sets, as they are before the clock starts.
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

    /// Bytes of a file when it is whole.
    #[inline]
    pub(super) fn size(&self, file: u64) -> u64 {
        Sized { shape: &self.shape, number: self.number, seed: self.seed }.size(file)
    }

    /// Where its content begins among all content.
    #[inline]
    pub(super) fn address(&self, file: u64, generation: u32) -> u64 {
        let item = mix(file ^ self.number << 40) ^ u64::from(generation);
        hash(self.seed, Stream::Data, item) & ADDRESSES
    }

    /// Files are taken at random.
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

/// Bytes that `files` files of a set take when they are whole, in blocks, in expectation.
pub(super) fn expected_bytes(set: &FileSet, files: u64, block: u64) -> u64 {
    let mean = set.size.mean();
    // A file of any size wastes half a block in the mean, and one that is not empty has a block.
    let each = if mean == 0 { 1 } else { mean.saturating_add(block / 2).max(block) };
    files.saturating_mul(each)
}

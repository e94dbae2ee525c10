//! Sets of files: what they are called, how they are made, emptied from the cache, examined and removed.

mod build;
mod cache;
mod layout;
pub(crate) mod tree_walk;
mod verify;

pub(crate) use build::{
    Content, build, expect_nothing, make, make_anew, make_directory, open, read_once, sync, sync_through,
    wait_for_access_times,
};
pub use cache::EXAMINED_FILES;
pub(crate) use cache::{Interest, examined, ready, resident_after};
pub(crate) use layout::{Layout, MOST_DIRECTORIES, MOST_FILES, Names};
pub(crate) use tree_walk::remove;
pub(crate) use verify::verify;

/// Bytes of the blocks that the device moves.
pub(crate) const BLOCK: u64 = 4096;
/// What a file costs beside its data, in bytes: an inode and an entry, generously.
pub(crate) const NOTE: u64 = 2048;

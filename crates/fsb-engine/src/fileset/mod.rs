//! Sets of files: what they are called, how they are made, emptied from the cache, examined and removed.

mod build;
mod cache;
mod layout;
pub(crate) mod together;
mod verify;

pub(crate) use build::{Content, build, remove};
pub use cache::EXAMINED_FILES;
pub(crate) use cache::{Interest, examined, ready, resident_after, resident_bytes};
pub(crate) use layout::{Layout, MOST_DIRECTORIES, MOST_FILES, Names};
pub(crate) use verify::verify;

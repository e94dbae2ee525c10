//! Files that a thread of a flow has open, and what came of an operation on them.

use crate::backend::Slot;
use crate::clock::Kind;

/// How an operation ended.
pub(super) enum OpResult {
    /// It is done and moved this number of bytes.
    Done(Kind, u64),
    /// It was not called for: somebody has the file open that should be deleted.
    Skipped,
    /// No file would do; whether there are any that others use now.
    Nothing { there: bool },
}

/// A file that a thread has open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) slot: Slot,
    pub(super) set: usize,
    pub(super) file: u64,
    pub(super) generation: u32,
    pub(super) position: u64,
    /// It was deleted while it was open.
    pub(super) orphan: bool,
}

/// A thread's own number of a file.
#[derive(Default)]
pub(super) struct FlowSlot {
    pub(super) open: Option<Opened>,
    /// The file that was open last.
    pub(super) last: Option<(usize, u64)>,
}

/// All files of a set, which are used one after another.
pub(super) struct FileRing {
    pub(super) files: Vec<Opened>,
    pub(super) next: usize,
}

//! Calls made ready to be replayed.

use std::ops::Range;

use fsb_trace::{Call, Kind};

/// One call, with what it waits for.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) call: Call,
    /// Where its descriptor is kept, or will be.
    pub(super) slot: u32,
    /// Where the other one is.
    pub(super) other: u32,
    /// Nanoseconds of thought before it, after the lane's last call.
    pub(super) think_ns: u64,
    /// Nanoseconds after the last of all that it waits for.
    pub(super) after_ns: u64,
    /// The trace never opened its descriptor.
    pub(super) unopened: bool,
    /// Which of the batch's waits are its own.
    pub(super) waits: Range<u32>,
}

impl Step {
    /// Whether anything is done at all.
    pub(super) fn is_made(&self) -> bool {
        self.call.kind.is_replayed()
    }

    /// Whether a result is what was recorded: amounts and places where the kind has them, else whether it worked.
    pub(super) fn agrees(&self, result: i64) -> bool {
        let recorded = self.call.result;
        let counts = self.call.kind.moves() || matches!(self.call.kind, Kind::Seek | Kind::Copy);
        if recorded < 0 || result < 0 || counts { recorded == result } else { true }
    }
}

/// The calls of one lane in one block of the trace.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) block: usize,
    pub(super) steps: Vec<Step>,
    pub(super) waits: Vec<(u32, u32)>,
}

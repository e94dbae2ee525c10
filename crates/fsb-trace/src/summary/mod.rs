//! What a program does, counted over its trace.

mod files;
mod sizes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::call::{Call, Kind};
use crate::format::{Names, Overhead};
use crate::initial::{Initial, State};
pub use files::{FileUse, Files};
pub use sizes::Sizes;

/// Pieces that the time is cut into.
pub const SLICES: usize = 60;

/// Calls of one kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfKind {
    pub calls: u64,
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Nanoseconds in them, without what recording added.
    pub ns: u64,
}

/// How data was moved in one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Direction {
    /// How much each call moved.
    pub sizes: Sizes,
    /// Calls that went on where the last one on their descriptor ended.
    pub sequential: u64,
}

/// Everything that is counted.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    overhead: Overhead,
    /// By the kind's name.
    pub kinds: BTreeMap<Kind, OfKind>,
    pub reads: Direction,
    pub writes: Direction,
    /// Nanoseconds of each sync, and bytes written in all since the last one.
    pub syncs: Sizes,
    /// Bytes between two syncs of a lane.
    pub between_syncs: Sizes,
    /// Which files, and who uses them.
    pub files: Files,
    /// Files that were there, directories, links.
    pub initial: [u64; 3],
    pub initial_sizes: Sizes,
    pub with_holes: u64,
    /// Calls and bytes in each piece of the time.
    pub course: Vec<[u64; 2]>,
    slice_ns: u64,
    unsynced: BTreeMap<u32, u64>,
}

impl Summary {
    /// Of a recording that lasted so long and cost its calls so much.
    pub fn new(duration_ns: u64, overhead: Overhead) -> Summary {
        let slice_ns = (duration_ns / SLICES as u64).max(1);
        Summary { overhead, slice_ns, course: vec![[0; 2]; SLICES], ..Summary::default() }
    }

    /// What was there before.
    pub fn initial(&mut self, states: &[Initial]) {
        for Initial { state, .. } in states {
            let at = match state {
                State::File { size, data } => {
                    self.initial_sizes.add(*size);
                    self.with_holes += u64::from(data.is_some());
                    0
                }
                State::Directory => 1,
                _ => 2,
            };
            self.initial[at] += 1;
        }
    }

    /// One more call.
    pub fn add(&mut self, call: &Call, names: &Names) {
        let ns = call.took_ns.saturating_sub(self.overhead.call_ns);
        let kind = self.kinds.entry(call.kind).or_default();
        kind.calls += 1;
        kind.failed += u64::from(call.result < 0);
        kind.bytes = kind.bytes.saturating_add(call.moved());
        kind.ns = kind.ns.saturating_add(ns);
        let slice = (call.end_ns() / self.slice_ns).min(SLICES as u64 - 1) as usize;
        if call.kind.is_replayed() {
            self.course[slice][0] += 1;
            self.course[slice][1] = self.course[slice][1].saturating_add(call.moved());
        }
        let goes_on = self.files.add(call, names);
        match call.kind {
            Kind::Read | Kind::ReadAt => self.reads.add(call, goes_on),
            Kind::Write | Kind::WriteAt => {
                self.writes.add(call, goes_on);
                let sum = self.unsynced.entry(call.lane).or_default();
                *sum = sum.saturating_add(call.moved());
            }
            Kind::Sync | Kind::DataSync | Kind::SyncFileSystem => {
                self.syncs.add(ns);
                let bytes = self.unsynced.insert(call.lane, 0).unwrap_or_default();
                self.between_syncs.add(bytes);
            }
            _ => {}
        }
    }

    /// Calls of a family of kinds.
    pub fn family(&self, family: &str) -> OfKind {
        let of = self.kinds.iter().filter(|(kind, _)| kind.about().family == family);
        of.fold(OfKind::default(), |sum, (_, kind)| OfKind {
            calls: sum.calls + kind.calls,
            failed: sum.failed + kind.failed,
            bytes: sum.bytes.saturating_add(kind.bytes),
            ns: sum.ns.saturating_add(kind.ns),
        })
    }
}

impl Direction {
    fn add(&mut self, call: &Call, goes_on: bool) {
        if call.result > 0 {
            self.sizes.add(call.moved());
            self.sequential += u64::from(goes_on);
        }
    }
}

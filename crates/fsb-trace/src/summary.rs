//! Counts the calls of a program over its trace.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::call::{Call, CallKind, Initial, State, flags, parent};
use crate::codec::Names;
use crate::durable::{WriteFlags, WriteMode};
use crate::format::Overhead;

/// Slices of the timeline.
pub const SLICES: usize = 60;

/// Calls of one kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfKind {
    pub calls: u64,
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Nanoseconds in them, without the time that recording added.
    pub ns: u64,
}

/// The data moved in one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Direction {
    /// The bytes that each call moved.
    pub sizes: Sizes,
    /// Calls that continued where the last one on their descriptor ended.
    pub sequential: u64,
}

/// Everything that is counted.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    overhead: Overhead,
    /// Counts by kind and name, because calls of one kind have several names.
    pub kinds: BTreeMap<(CallKind, &'static str), OfKind>,
    pub reads: Direction,
    pub writes: Direction,
    /// Nanoseconds of each sync.
    pub syncs: Sizes,
    /// Bytes between two syncs of a lane.
    pub between_syncs: Sizes,
    /// Bytes of each write that is durable when it returns.
    pub durable_writes: Sizes,
    /// Nanoseconds of each of them.
    pub durable_times: Sizes,
    /// Writes and copies that are not durable when they return.
    pub plain_writes: u64,
    /// The files, and their users.
    pub files: Files,
    /// Files that were there, directories, links.
    pub initial: [u64; 3],
    pub initial_sizes: Sizes,
    pub with_holes: u64,
    /// Calls and bytes in each slice of the timeline.
    pub timeline: Vec<[u64; 2]>,
    slice_ns: u64,
    unsynced: BTreeMap<u32, u64>,
    write_flags: WriteFlags,
}

impl Summary {
    /// Creates the summary of a recording of that duration and overhead.
    pub fn new(duration_ns: u64, overhead: Overhead) -> Summary {
        let slice_ns = (duration_ns / SLICES as u64).max(1);
        Summary {
            overhead,
            slice_ns,
            timeline: vec![[0; 2]; SLICES],
            ..Summary::default()
        }
    }

    /// Counts the states of names before the first call.
    pub fn initial(&mut self, states: &[Initial]) {
        for Initial { name, state } in states {
            if matches!(state, State::File { .. } | State::Same { .. }) {
                self.files.there.insert(*name);
            }
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

    /// Counts one more call.
    pub fn add(&mut self, call: &Call, names: &Names) {
        let ns = call.took_ns.saturating_sub(self.overhead.call_ns);
        let kind = self.kinds.entry((call.kind, call.name())).or_default();
        kind.calls += 1;
        kind.failed += u64::from(call.result < 0);
        kind.bytes = kind.bytes.saturating_add(call.moved());
        kind.ns = kind.ns.saturating_add(ns);
        let slice = (call.end_ns() / self.slice_ns).min(SLICES as u64 - 1) as usize;
        if call.kind.is_replayed() {
            self.timeline[slice][0] += 1;
            self.timeline[slice][1] = self.timeline[slice][1].saturating_add(call.moved());
        }
        let mode = self.write_flags.add(call);
        // The position of a write to the end of the file is not recorded.
        let goes_on = self.files.add(call, names) || mode.appends;
        match call.kind {
            CallKind::Read | CallKind::ReadAt => self.reads.add(call, goes_on),
            CallKind::Write | CallKind::WriteAt => self.writes.add(call, goes_on),
            _ => {}
        }
        self.add_durability(call, mode, ns);
    }

    /// Counts syncs and durable writes.
    fn add_durability(&mut self, call: &Call, mode: WriteMode, ns: u64) {
        let is_durable = mode.is_durable && call.result >= 0;
        match call.kind {
            CallKind::Write | CallKind::WriteAt | CallKind::Copy if is_durable => {
                self.durable_writes.add(call.moved());
                self.durable_times.add(ns);
            }
            CallKind::Write | CallKind::WriteAt | CallKind::Copy => {
                self.plain_writes += u64::from(call.result >= 0);
                let sum = self.unsynced.entry(call.lane).or_default();
                *sum = sum.saturating_add(call.moved());
            }
            CallKind::SyncMapping if call.flags & flags::WAIT == 0 => {}
            CallKind::Sync
            | CallKind::DataSync
            | CallKind::SyncFileSystem
            | CallKind::SyncMapping => {
                self.syncs.add(ns);
                let bytes = self.unsynced.insert(call.lane, 0).unwrap_or_default();
                self.between_syncs.add(bytes);
            }
            _ => {}
        }
    }

    /// Returns the number of calls that a replay makes.
    pub fn replayed(&self) -> u64 {
        self.kinds
            .iter()
            .filter(|((kind, _), _)| kind.is_replayed())
            .map(|(_, of)| of.calls)
            .sum()
    }

    /// Returns the counts of a family of kinds.
    pub fn family(&self, family: &str) -> OfKind {
        let of = self
            .kinds
            .iter()
            .filter(|((kind, _), _)| kind.about().family == family);
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

/// Counts by powers of two.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sizes {
    counts: Vec<u64>,
    pub sum: u64,
    pub count: u64,
    pub largest: u64,
}

impl Sizes {
    /// Counts one more size.
    pub fn add(&mut self, size: u64) {
        let at = (64 - size.leading_zeros()) as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(size);
        self.count += 1;
        self.largest = self.largest.max(size);
    }

    /// Returns the lower end of each step and the number of sizes in it. The steps are powers of
    /// two. Empty steps at both ends are left out.
    pub fn steps(&self) -> Vec<(u64, u64)> {
        let first = self
            .counts
            .iter()
            .position(|count| *count > 0)
            .unwrap_or_default();
        let steps = self.counts.iter().enumerate().skip(first);
        steps
            .map(|(at, count)| {
                (
                    if at == 0 {
                        0
                    } else {
                        1u64.checked_shl(at as u32 - 1).unwrap_or(u64::MAX)
                    },
                    *count,
                )
            })
            .collect()
    }

    /// Returns the lower end of the step at which the share of sizes is reached.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0;
        for (size, count) in self.steps() {
            below += count;
            if below >= wanted {
                return size;
            }
        }
        0
    }
}

/// The use of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileUse {
    pub calls: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    pub syncs: u64,
    first_lane: Option<u32>,
    /// More than one lane uses it.
    pub shared: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Files {
    uses: HashMap<u32, FileUse>,
    open: HashMap<u32, (u32, u64)>,
    directories: HashMap<Box<[u8]>, u64>,
    /// The maximum number of directories above a name.
    pub deepest: usize,
    /// Files that an open created.
    pub created: u64,
    /// Names of files that exist.
    there: HashSet<u32>,
}

impl Files {
    /// Counts one more call. Returns whether it continues where the last one on its descriptor
    /// ended.
    fn add(&mut self, call: &Call, names: &Names) -> bool {
        let mut goes_on = false;
        let name = match call.kind {
            CallKind::Open if call.result >= 0 => {
                self.open.insert(call.handle, (call.name, 0));
                call.name
            }
            CallKind::Duplicate => {
                if let Some(open) = self.open.get(&call.other).copied() {
                    self.open.insert(call.handle, open);
                }
                return false;
            }
            CallKind::Close => {
                self.open.remove(&call.handle);
                return false;
            }
            _ if call.kind.about().fields.name => call.name,
            _ => match self.open.get_mut(&call.handle) {
                Some((name, place)) => {
                    if call.kind.moves() {
                        goes_on = *place == call.offset;
                        *place = call.offset.wrapping_add(call.moved());
                    }
                    *name
                }
                None => return false,
            },
        };
        if call.result < 0 {
            return goes_on;
        }
        self.add_existence(call);
        if call.kind == CallKind::Copy
            && let Some((name, _)) = self.open.get(&call.other).copied()
        {
            let file = self.used(name, call.lane, names);
            file.written = file.written.saturating_add(call.moved());
        }
        let file = self.used(name, call.lane, names);
        match call.kind {
            CallKind::Read | CallKind::ReadAt => file.read = file.read.saturating_add(call.moved()),
            CallKind::Write | CallKind::WriteAt => {
                file.written = file.written.saturating_add(call.moved())
            }
            CallKind::Copy => file.read = file.read.saturating_add(call.moved()),
            CallKind::Sync | CallKind::DataSync | CallKind::SyncMapping => file.syncs += 1,
            _ => {}
        }
        goes_on
    }

    /// Tracks which names exist, and counts the files that a successful call creates.
    fn add_existence(&mut self, call: &Call) {
        match call.kind {
            CallKind::Open if call.flags & flags::TEMPORARY != 0 => self.created += 1,
            CallKind::Open if call.flags & flags::CREATE != 0 => {
                self.created += u64::from(self.there.insert(call.name));
            }
            CallKind::Rename if call.flags & flags::EXCHANGE != 0 => {}
            CallKind::Rename if !self.there.remove(&call.name) => {}
            CallKind::Rename | CallKind::Link => {
                self.there.insert(call.second);
            }
            CallKind::Unlink => {
                self.there.remove(&call.name);
            }
            _ => {}
        }
    }

    /// Counts a use of a file by a lane.
    fn used(&mut self, number: u32, lane: u32, names: &Names) -> &mut FileUse {
        if !self.uses.contains_key(&number) {
            let name = names.get(number);
            self.deepest = self
                .deepest
                .max(name.iter().filter(|byte| **byte == b'/').count());
            *self.directories.entry(parent(name).into()).or_default() += 1;
        }
        let file = self.uses.entry(number).or_default();
        file.calls += 1;
        file.shared |= *file.first_lane.get_or_insert(lane) != lane;
        file
    }

    pub fn count(&self) -> u64 {
        self.uses.len() as u64
    }

    /// Returns the number of files that more than one lane uses.
    pub fn shared(&self) -> u64 {
        self.uses.values().filter(|file| file.shared).count() as u64
    }

    /// Returns the numbers of files that are read, written, and synced.
    pub fn read_written_synced(&self) -> [u64; 3] {
        let count =
            |has: fn(&FileUse) -> bool| self.uses.values().filter(|file| has(file)).count() as u64;
        [
            count(|file| file.read > 0),
            count(|file| file.written > 0),
            count(|file| file.syncs > 0),
        ]
    }

    /// Returns the number of directories that hold names, and the most names in one.
    pub fn directories(&self) -> (u64, u64) {
        (
            self.directories.len() as u64,
            self.directories.values().copied().max().unwrap_or_default(),
        )
    }

    /// Returns the files with the most bytes and calls, by name.
    pub fn busiest(&self, most: usize) -> Vec<(u32, &FileUse)> {
        let mut all: Vec<_> = self.uses.iter().map(|(name, file)| (*name, file)).collect();
        all.sort_by_key(|(name, file)| {
            (
                std::cmp::Reverse((file.read.saturating_add(file.written), file.calls)),
                *name,
            )
        });
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::flags;

    #[test]
    fn durable_copies_are_not_subtracted_from_other_writes() {
        let mut names = Names::default();
        names.push(b"durable");
        names.push(b"plain");
        let mut summary = Summary::new(1000, Overhead::default());
        let durable = flags::WRITE | flags::DATA_SYNC;
        let moved = Call {
            handle: 1,
            length: 10,
            result: 10,
            ..Call::new(CallKind::Copy)
        };
        let write = Call {
            handle: 2,
            ..Call {
                kind: CallKind::Write,
                ..moved
            }
        };
        let calls = [
            Call {
                handle: 1,
                name: 1,
                flags: durable,
                ..Call::new(CallKind::Open)
            },
            Call {
                handle: 2,
                name: 2,
                flags: flags::WRITE,
                ..Call::new(CallKind::Open)
            },
            Call {
                handle: 2,
                other: 1,
                ..moved
            },
            Call {
                handle: 2,
                other: 1,
                ..moved
            },
            write,
            Call {
                result: -28,
                ..write
            },
            Call {
                handle: 1,
                other: 2,
                ..moved
            },
            Call { handle: 1, ..write },
        ];
        calls.iter().for_each(|call| summary.add(call, &names));
        assert_eq!((summary.durable_writes.count, summary.plain_writes), (3, 2));
    }

    #[test]
    fn reads_are_sequential_where_they_go_on() {
        let mut names = Names::default();
        names.push(b"a/b");
        let mut summary = Summary::new(
            1000,
            Overhead {
                call_ns: 10,
                gap_ns: 0,
            },
        );
        let open = Call {
            handle: 1,
            name: 1,
            flags: flags::READ,
            ..Call::new(CallKind::Open)
        };
        let read = |offset: u64, lane: u32| Call {
            lane,
            handle: 1,
            offset,
            length: 100,
            result: 100,
            took_ns: 30,
            ..Call::new(CallKind::ReadAt)
        };
        for call in [open, read(0, 0), read(100, 0), read(900, 1)] {
            summary.add(&call, &names);
        }
        assert_eq!(
            (summary.reads.sequential, summary.reads.sizes.count),
            (2, 3)
        );
        assert_eq!(
            summary.kinds[&(CallKind::ReadAt, "pread")],
            OfKind {
                calls: 3,
                failed: 0,
                bytes: 300,
                ns: 60
            }
        );
        assert_eq!(
            (
                summary.files.count(),
                summary.files.shared(),
                summary.files.deepest
            ),
            (1, 1, 1)
        );
        assert_eq!(summary.reads.sizes.steps(), [(64, 3)]);
        assert_eq!(summary.reads.sizes.quantile(0.5), 64);
    }

    #[test]
    fn an_open_creates_a_file_that_does_not_exist() {
        let mut names = Names::default();
        for name in [&b"old"[..], b"new", b"moved"] {
            names.push(name);
        }
        let mut summary = Summary::new(1000, Overhead::default());
        let state = State::File {
            size: 1,
            data: None,
        };
        summary.initial(&[Initial { name: 1, state }]);
        let open = |name, result| Call {
            name,
            result,
            flags: flags::WRITE | flags::CREATE,
            ..Call::new(CallKind::Open)
        };
        let about = |kind, name, second| Call {
            name,
            second,
            ..Call::new(kind)
        };
        // Only the second and the last call create a file.
        let calls = [
            open(1, 0),
            open(2, 0),
            open(2, 0),
            about(CallKind::Rename, 2, 3),
            open(3, 0),
            about(CallKind::Unlink, 3, 0),
            open(3, -28),
            open(3, 0),
        ];
        for call in &calls {
            summary.add(call, &names);
        }
        assert_eq!(summary.files.created, 2);
    }
}

//! Which files are used, how much, and by how many.

use std::collections::HashMap;

use crate::call::{Call, Kind};
use crate::format::Names;
use crate::path::parent;

/// What is done to one file.
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
    /// The most directories above a name.
    pub deepest: usize,
}

impl Files {
    /// One more call; whether it goes on where the last one on its descriptor ended.
    pub(super) fn add(&mut self, call: &Call, names: &Names) -> bool {
        let mut goes_on = false;
        let name = match call.kind {
            Kind::Open if call.result >= 0 => {
                self.open.insert(call.handle, (call.name, 0));
                call.name
            }
            Kind::Duplicate => {
                if let Some(open) = self.open.get(&call.other).copied() {
                    self.open.insert(call.handle, open);
                }
                return false;
            }
            Kind::Close => {
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
        let new = !self.uses.contains_key(&name);
        let file = self.uses.entry(name).or_default();
        file.calls += 1;
        match call.kind {
            Kind::Read | Kind::ReadAt => file.read = file.read.saturating_add(call.moved()),
            Kind::Write | Kind::WriteAt => file.written = file.written.saturating_add(call.moved()),
            Kind::Sync | Kind::DataSync => file.syncs += 1,
            _ => {}
        }
        file.shared |= *file.first_lane.get_or_insert(call.lane) != call.lane;
        if new {
            let name = names.get(name);
            self.deepest = self.deepest.max(name.iter().filter(|byte| **byte == b'/').count());
            *self.directories.entry(parent(name).into()).or_default() += 1;
        }
        goes_on
    }

    pub fn count(&self) -> u64 {
        self.uses.len() as u64
    }

    /// Those that more than one lane uses.
    pub fn shared(&self) -> u64 {
        self.uses.values().filter(|file| file.shared).count() as u64
    }

    /// Those that are read, written, and synced.
    pub fn read_written_synced(&self) -> [u64; 3] {
        let count = |has: fn(&FileUse) -> bool| self.uses.values().filter(|file| has(file)).count() as u64;
        [count(|file| file.read > 0), count(|file| file.written > 0), count(|file| file.syncs > 0)]
    }

    /// Directories that names stand in, and the most names in one.
    pub fn directories(&self) -> (u64, u64) {
        (self.directories.len() as u64, self.directories.values().copied().max().unwrap_or_default())
    }

    /// Those with the most bytes and calls, by name.
    pub fn busiest(&self, most: usize) -> Vec<(u32, &FileUse)> {
        let mut all: Vec<_> = self.uses.iter().map(|(name, file)| (*name, file)).collect();
        let weight = |file: &FileUse| file.read.saturating_add(file.written);
        all.sort_by_key(|(name, file)| (std::cmp::Reverse((weight(file), file.calls)), *name));
        all.truncate(most);
        all
    }
}

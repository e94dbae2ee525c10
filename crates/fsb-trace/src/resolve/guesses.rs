//! The files that must have existed before a log, as its calls imply.

use std::collections::{BTreeMap, HashMap};

use crate::call::{Call, CallKind, Initial, State, flags, parent};

#[derive(Debug, Clone, Copy, Default)]
struct Guess {
    decided: bool,
    there: bool,
    directory: bool,
    size: u64,
    /// Written up to there by the program itself.
    written: u64,
}

/// Names that the recorder could not examine.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    names: BTreeMap<u32, Guess>,
    open: HashMap<u32, u32>,
    /// The name at the beginning of files that calls renamed or linked, by their new names.
    first: HashMap<u32, u32>,
    /// The paths at the beginning of files and directories that calls renamed, by their new paths.
    moved: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Guesses {
    /// Adds a name.
    pub(super) fn see(&mut self, name: u32) {
        self.names.entry(name).or_default();
    }

    /// Sets whether a name existed, unless an earlier call implies it.
    pub(super) fn decide(&mut self, name: u32, there: bool, directory: bool) {
        let name = self.first(name);
        if let Some(guess) = self.names.get_mut(&name).filter(|guess| !guess.decided) {
            (guess.decided, guess.there) = (true, there);
            guess.directory |= directory;
        }
    }

    /// Sets that another name is below this one.
    pub(super) fn is_directory(&mut self, name: u32) {
        let name = self.first(name);
        if let Some(guess) = self.names.get_mut(&name) {
            guess.directory = true;
        }
    }

    /// Sets the name at the beginning of a name that calls see first below a renamed directory.
    pub(super) fn begins_at(&mut self, name: u32, first: u32) {
        self.first.insert(name, self.first(first));
    }

    /// Follows the rename of a path.
    pub(super) fn rename(&mut self, old: &[u8], new: &[u8], exchanges: bool) {
        let (first, second) = (self.take_below(old), self.take_below(new));
        self.put_below(new, first);
        if exchanges {
            self.put_below(old, second);
        }
    }

    /// Removes a path and those below it. Returns the rest of each with its path at the beginning.
    fn take_below(&mut self, path: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut taken = vec![(
            Vec::new(),
            self.origin(path).unwrap_or_else(|| path.to_vec()),
        )];
        self.moved.remove(path);
        let below = [path, b"/"].concat();
        let keys = self
            .moved
            .range(below.clone()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(&below));
        for key in keys.cloned().collect::<Vec<_>>() {
            let origin = self.moved.remove(&key).unwrap_or_default();
            taken.push((key[path.len()..].to_vec(), origin));
        }
        taken
    }

    fn put_below(&mut self, path: &[u8], taken: Vec<(Vec<u8>, Vec<u8>)>) {
        self.moved.extend(
            taken
                .into_iter()
                .map(|(rest, origin)| ([path, &rest].concat(), origin)),
        );
    }

    /// Returns the path at the beginning of a path that calls renamed, or that is below one.
    pub(super) fn origin(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut at = path;
        while !at.is_empty() {
            if let Some(origin) = self.moved.get(at) {
                return Some([origin, &path[at.len()..]].concat());
            }
            at = parent(at);
        }
        None
    }

    /// Returns the name that the file had at the beginning.
    fn first(&self, name: u32) -> u32 {
        self.first.get(&name).copied().unwrap_or(name)
    }

    /// Takes one more call.
    pub(super) fn learn(&mut self, call: &Call) {
        if self.names.is_empty() {
            return;
        }
        let worked = call.result >= 0;
        match call.kind {
            CallKind::Open => {
                let directory = call.flags & (flags::DIRECTORY | flags::TEMPORARY) != 0;
                let makes = call.flags & flags::CREATE != 0;
                // A file that the call may have created existed before only if the call reports
                // that it existed.
                let was_there = worked && !makes || call.result == -i64::from(EEXIST);
                self.decide(call.name, was_there, directory);
                if worked && !directory {
                    self.open.insert(call.handle, self.first(call.name));
                }
            }
            CallKind::Close => drop(self.open.remove(&call.handle)),
            CallKind::Duplicate => {
                if let Some(name) = self.open.get(&call.other).copied() {
                    self.open.insert(call.handle, name);
                }
            }
            CallKind::Read | CallKind::ReadAt => {
                self.reach(call.handle, call.offset, call.moved(), false)
            }
            CallKind::Write | CallKind::WriteAt => {
                self.reach(call.handle, call.offset, call.moved(), true)
            }
            CallKind::Copy => {
                let moved = if call.clones() && worked {
                    call.length
                } else {
                    call.moved()
                };
                self.reach(call.handle, call.offset, moved, false);
                self.reach(call.other, call.target, moved, true);
            }
            CallKind::List => {
                if let Some(guess) = self
                    .open
                    .get(&call.handle)
                    .and_then(|name| self.names.get_mut(name))
                {
                    guess.directory = true;
                }
            }
            CallKind::MakeDirectory => {
                self.decide(call.name, call.result == -i64::from(EEXIST), true)
            }
            CallKind::RemoveDirectory => self.decide(call.name, worked, true),
            CallKind::SymbolicLink => {
                self.decide(call.name, call.result == -i64::from(EEXIST), false)
            }
            CallKind::Rename | CallKind::Link => {
                self.decide(call.name, worked, false);
                self.decide(
                    call.second,
                    call.kind == CallKind::Link && call.result == -i64::from(EEXIST),
                    false,
                );
                if worked {
                    self.has_moved(call);
                }
            }
            CallKind::Unlink => {
                self.decide(call.name, worked, false);
                if worked {
                    self.first.remove(&call.name);
                }
            }
            CallKind::StatName
            | CallKind::ReadLink
            | CallKind::TruncateName
            | CallKind::AttributesName => {
                self.decide(call.name, worked, false);
            }
            _ => {}
        }
    }

    /// Follows a rename or a link.
    fn has_moved(&mut self, call: &Call) {
        let (from, to) = (self.first(call.name), self.first(call.second));
        self.first.insert(call.second, from);
        if call.kind == CallKind::Rename {
            match call.flags & flags::EXCHANGE != 0 {
                true => self.first.insert(call.name, to),
                false => self.first.remove(&call.name),
            };
        }
    }

    fn reach(&mut self, handle: u32, offset: u64, moved: u64, writes: bool) {
        let Some(guess) = self
            .open
            .get(&handle)
            .and_then(|name| self.names.get_mut(name))
        else {
            return;
        };
        let end = offset.saturating_add(moved);
        if writes {
            guess.written = guess.written.max(end);
        } else if end > guess.written && moved > 0 {
            // The first access reads data, so the file existed, even if the open would have created
            // it.
            (guess.there, guess.decided, guess.directory) = (true, true, false);
            guess.size = guess.size.max(end);
        }
    }

    /// Returns the files that existed, with the directories above them.
    pub(super) fn states(&mut self) -> Vec<Initial> {
        let names = std::mem::take(&mut self.names);
        let there = names
            .into_iter()
            .filter(|(_, guess)| guess.there || !guess.decided);
        there
            .map(|(name, guess)| {
                // No call used it: it is part of another path.
                let directory = guess.directory || !guess.decided;
                let state = if directory {
                    State::Directory
                } else {
                    State::File {
                        size: guess.size,
                        data: None,
                    }
                };
                Initial { name, state }
            })
            .collect()
    }
}

/// The number of "File exists".
const EEXIST: i32 = 17;

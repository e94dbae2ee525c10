//! What must have been there before, where nobody could look: what calls succeeded on, and as large as they read.

use std::collections::{BTreeMap, HashMap};

use crate::call::{Call, Kind, flags};
use crate::initial::{Initial, State};

#[derive(Debug, Clone, Copy, Default)]
struct Guess {
    decided: bool,
    there: bool,
    directory: bool,
    size: u64,
    /// Written up to there by the program itself.
    written: u64,
}

/// Names that nobody could look at.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    names: BTreeMap<u32, Guess>,
    open: HashMap<u32, u32>,
}

impl Guesses {
    pub(super) fn see(&mut self, name: u32) {
        self.names.entry(name).or_default();
    }

    fn decide(&mut self, name: u32, there: bool, directory: bool) {
        if let Some(guess) = self.names.get_mut(&name).filter(|guess| !guess.decided) {
            (guess.decided, guess.there, guess.directory) = (true, there, directory);
        }
    }

    pub(super) fn learn(&mut self, call: &Call) {
        if self.names.is_empty() {
            return;
        }
        let worked = call.result >= 0;
        match call.kind {
            Kind::Open => {
                let directory = call.flags & (flags::DIRECTORY | flags::TEMPORARY) != 0;
                let makes = call.flags & flags::CREATE != 0;
                // One that may have been made by the call was there only where the call says that it was not.
                let was_there = worked && !makes || call.result == -i64::from(EEXIST);
                self.decide(call.name, was_there, directory);
                if worked && !directory {
                    self.open.insert(call.handle, call.name);
                }
            }
            Kind::Close => drop(self.open.remove(&call.handle)),
            Kind::Duplicate => {
                if let Some(name) = self.open.get(&call.other).copied() {
                    self.open.insert(call.handle, name);
                }
            }
            Kind::Read | Kind::ReadAt => self.reach(call, false),
            Kind::Write | Kind::WriteAt => self.reach(call, true),
            Kind::List => {
                if let Some(guess) = self.open.get(&call.handle).and_then(|name| self.names.get_mut(name)) {
                    guess.directory = true;
                }
            }
            Kind::MakeDirectory => self.decide(call.name, call.result == -i64::from(EEXIST), true),
            Kind::RemoveDirectory => self.decide(call.name, worked, true),
            Kind::SymbolicLink => self.decide(call.name, call.result == -i64::from(EEXIST), false),
            Kind::Rename | Kind::Link => {
                self.decide(call.name, worked, false);
                self.decide(call.second, call.kind == Kind::Link && call.result == -i64::from(EEXIST), false);
            }
            Kind::StatName | Kind::ReadLink | Kind::Unlink | Kind::TruncateName | Kind::AttributesName => {
                self.decide(call.name, worked, false);
            }
            _ => {}
        }
    }

    fn reach(&mut self, call: &Call, writes: bool) {
        let Some(guess) = self.open.get(&call.handle).and_then(|name| self.names.get_mut(name)) else { return };
        let end = call.offset.saturating_add(call.moved());
        if writes {
            guess.written = guess.written.max(end);
        } else if end > guess.written && call.moved() > 0 {
            // Read before it was written: it was there, even where the open would have made it.
            (guess.there, guess.decided, guess.directory) = (true, true, false);
            guess.size = guess.size.max(end);
        }
    }

    /// What was there, directories of others included.
    pub(super) fn states(&mut self) -> Vec<Initial> {
        let names = std::mem::take(&mut self.names);
        let there = names.into_iter().filter(|(_, guess)| guess.there || !guess.decided);
        there
            .map(|(name, guess)| {
                // Nobody called anything on it: it is part of another path.
                let directory = guess.directory || !guess.decided;
                let state = if directory { State::Directory } else { State::File { size: guess.size, data: None } };
                Initial { name, state }
            })
            .collect()
    }
}

/// The number of "File exists".
const EEXIST: i32 = 17;

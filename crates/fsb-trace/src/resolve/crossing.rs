//! Renames and links across the border of the root, and names that appear in the root with a
//! renamed directory.
//!
//! The outer name becomes a name in a directory of its own below the root, so a replay makes the
//! same call. If the call brings a file or directory into the root, its state after the call is the
//! initial state of the outer name.

use super::outer::Crossing;
use super::{Before, Begun, RawCall, Resolver, Sink, Times, World};
use crate::call::{Call, CallKind, OUTSIDE, below, flags, is_inside, normal};
use crate::{TraceError, Unseen};

/// The maximum number of names that one call brings into the root.
const MOST_NAMES: usize = 100_000;

impl<W: World> Resolver<W> {
    /// Begins a call on two names.
    pub(super) fn begin_on_names(
        &mut self,
        task: u32,
        raw: &RawCall<'_>,
        path: &[u8],
        mut begun: Begun,
        sink: &mut impl Sink,
    ) -> Result<Option<Begun>, TraceError> {
        let first = match linked_descriptor(task, raw, path) {
            None => self.path_of(task, raw.fd, Some(path), raw.follows),
            Some(fd) => {
                let held = self.tables.held(task, fd).filter(|held| !held.is_unnamed);
                let Some(held) = held else {
                    return Ok(self.begin_naming(task, raw, begun));
                };
                Some(held.path.to_vec())
            }
        };
        let second = raw
            .second
            .and_then(|second| self.path_of(task, raw.other, Some(second), false));
        let (Some(first), Some(second)) = (first, second) else {
            return Ok(self.is_outside());
        };
        let names = [&first, &second].map(|path| {
            below(&self.root, path)
                .filter(|name| is_inside(name))
                .map(<[u8]>::to_vec)
        });
        self.is_root_used |= names.iter().flatten().any(|name| !name.is_empty());
        match names {
            [None, None] => return Ok(self.is_outside()),
            [Some(one), Some(other)] => {
                (begun.call.name, begun.call.second) =
                    (self.know(&one, sink)?, self.know(&other, sink)?);
                begun.renamed = Some((one, other));
            }
            [Some(one), None] => {
                begun.call.name = self.know(&one, sink)?;
                begun.crossing = Some(Crossing {
                    inside: first,
                    outside: second,
                    inwards: false,
                });
            }
            [None, Some(other)] => {
                begun.call.second = self.know(&other, sink)?;
                begun.crossing = Some(Crossing {
                    inside: second,
                    outside: first,
                    inwards: true,
                });
            }
        }
        Ok(Some(begun))
    }

    /// Begins a link of an open file that has no name, or that no call opened.
    fn begin_naming(&mut self, task: u32, raw: &RawCall<'_>, mut begun: Begun) -> Option<Begun> {
        let link = raw
            .second
            .and_then(|second| self.path_of(task, raw.other, Some(second), false));
        let Some(link) = link.filter(|link| self.is_below_root(link)) else {
            return self.is_outside();
        };
        begun.unnamed = Some(link);
        Some(begun)
    }

    /// Follows a rename in the paths of open files and working directories.
    fn follow_rename(&mut self, kind: CallKind, flags: u32, old: &[u8], new: &[u8]) {
        if kind != CallKind::Rename {
            return;
        }
        let names = [(old, new), (new, old)];
        let count = if flags & flags::EXCHANGE != 0 { 2 } else { 1 };
        if self.tables.rename(&names[..count]) && self.is_below_root(new) {
            // Writes to a file that was opened outside the root now change a file of the trace.
            self.unseen_in(Unseen::Outside, new);
        }
    }

    /// Ends a call across the border. One that failed, for example with EXDEV, changed no name.
    pub(super) fn end_crossing(
        &mut self,
        begun: Begun,
        result: i64,
        times: Times,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let Some(Crossing {
            inside,
            outside,
            inwards,
        }) = begun.crossing
        else {
            return Ok(());
        };
        if result < 0 {
            self.outside += 1;
            let (inner, is_there) = if inwards {
                (begun.call.second, false)
            } else {
                (begun.call.name, true)
            };
            self.guesses.decide(inner, is_there, false);
            return Ok(());
        }
        let (old, new) = if inwards {
            (&outside, &inside)
        } else {
            (&inside, &outside)
        };
        self.follow_rename(begun.call.kind, begun.call.flags, old, new);
        let links = begun.call.kind == CallKind::Link;
        let exchanges = !links && begun.call.flags & flags::EXCHANGE != 0;
        let there = if inwards && !links {
            self.outer.put.remove(&outside)
        } else {
            self.outer.put.get(&outside).copied()
        };
        let comes_in = inwards || exchanges;
        let number = there
            .filter(|_| comes_in)
            .unwrap_or_else(|| self.outer.fresh());
        if !inwards || exchanges {
            self.outer.put.insert(outside, number);
        }
        self.outer.crossed += 1;
        let outer = self.outer_directory(number, sink)?;
        if comes_in && there.is_none() {
            let inner = below(&self.root, &inside).unwrap_or_default().to_vec();
            self.appear(vec![(outer.clone(), inner)], sink)?;
        }
        if !links {
            let inner = below(&self.root, &inside).unwrap_or_default();
            let (old, new) = if inwards {
                (&outer[..], inner)
            } else {
                (inner, &outer[..])
            };
            self.guesses.rename(old, new, exchanges);
        }
        let mut call = Call {
            result,
            start_ns: times.start_ns,
            took_ns: times.took_ns,
            ..begun.call
        };
        call.lost_ns = times.lost_ns;
        let outer = sink.name(&outer)?;
        *(if inwards {
            &mut call.name
        } else {
            &mut call.second
        }) = outer;
        self.guesses.learn(&call);
        sink.call(&call)
    }

    /// Returns an outer name, in a directory that exists.
    fn outer_directory(
        &mut self,
        number: u64,
        sink: &mut impl Sink,
    ) -> Result<Vec<u8>, TraceError> {
        if self.outer.directory.is_empty() {
            let name = self.free_name();
            self.known.insert(name.as_slice().into());
            let directory = sink.name(&name)?;
            self.begins_as(directory, &name, Before::Directory, sink)?;
            self.outer.directory = name;
        }
        Ok(self.outer.name(number))
    }

    /// Returns a name in the root that no call used and that no file has.
    fn free_name(&mut self) -> Vec<u8> {
        let mut name = OUTSIDE.to_vec();
        for number in 1..MOST_NAMES {
            let before = self.world.before(&normal(&self.root, &name));
            if !self.known.contains(name.as_slice())
                && matches!(before, Before::Absent | Before::Unknown)
            {
                break;
            }
            name = [OUTSIDE, format!("-{number}").as_bytes()].concat();
        }
        name
    }

    /// Handles a rename within the root. A directory brings the names in it, which no call may have
    /// used so far.
    pub(super) fn has_renamed(
        &mut self,
        call: &Call,
        names: Option<(Vec<u8>, Vec<u8>)>,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let Some((old, new)) = names else {
            return Ok(());
        };
        let paths = [&old, &new].map(|name| normal(&self.root, name));
        self.follow_rename(call.kind, call.flags, &paths[0], &paths[1]);
        self.guesses
            .rename(&old, &new, call.flags & flags::EXCHANGE != 0);
        let mut pairs = vec![(old.clone(), new.clone())];
        if call.flags & flags::EXCHANGE != 0 {
            pairs.push((new, old));
        }
        pairs.retain(|(_, now)| self.world.before(&normal(&self.root, now)) == Before::Directory);
        if pairs.is_empty() {
            Ok(())
        } else {
            self.appear(pairs, sink)
        }
    }

    /// Adds the initial states of the names that are now at the second name of a pair, and that
    /// were at the first before the first call. Names that calls have used already have their
    /// states.
    fn appear(
        &mut self,
        mut left: Vec<(Vec<u8>, Vec<u8>)>,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let mut appeared = Vec::new();
        while let Some((old, new)) = left.pop() {
            if appeared.len() >= MOST_NAMES {
                self.unseen(Unseen::Outside);
                break;
            }
            let path = normal(&self.root, &new);
            let before = self.world.before(&path);
            if before == Before::Directory {
                let entries = self
                    .world
                    .entries(&path)
                    .into_iter()
                    .filter(|entry| is_inside(entry));
                left.extend(entries.map(|entry| {
                    [&old, &new]
                        .map(|directory| [directory, &b"/"[..], &entry].concat())
                        .into()
                }));
            }
            if self.known.insert(old.as_slice().into()) {
                let number = sink.name(&old)?;
                self.begins_as(number, &path, before, sink)?;
            }
            appeared.push(new);
        }
        // After an exchange, a new name may also be the old name of another file.
        self.known
            .extend(appeared.into_iter().map(Vec::into_boxed_slice));
        Ok(())
    }
}

/// Returns the descriptor whose file a link names: by AT_EMPTY_PATH, or by a name in /proc.
fn linked_descriptor(task: u32, raw: &RawCall<'_>, path: &[u8]) -> Option<i32> {
    if raw.kind != CallKind::Link {
        return None;
    }
    if path.is_empty() {
        return Some(raw.fd);
    }
    let rest = std::str::from_utf8(path)
        .ok()?
        .strip_prefix("/proc/")
        .filter(|_| raw.follows)?;
    let (process, fd) = rest.split_once("/fd/")?;
    let is_own = matches!(process, "self" | "thread-self") || process == task.to_string();
    if is_own { fd.parse().ok() } else { None }
}

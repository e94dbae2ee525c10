//! Renames and links across the border of the root, and names that appear in the root with a renamed directory.
//!
//! The outer name becomes a name in a directory of its own below the root, so a replay makes the same call. If the call
//! brings a file or directory into the root, its state after the call is the initial state of the outer name.

use super::outer::{Crossing, outer_name};
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
        let first = self.path_of(task, raw.fd, Some(path), raw.follows);
        let second = raw.second.and_then(|second| self.path_of(task, raw.other, Some(second), false));
        let (Some(first), Some(second)) = (first, second) else { return Ok(self.is_outside()) };
        let name = |path: &[u8]| below(&self.root, path).filter(|name| is_inside(name)).map(<[u8]>::to_vec);
        let names = [name(&first), name(&second)];
        self.is_root_used |= names.iter().flatten().any(|name| !name.is_empty());
        match names {
            [None, None] => return Ok(self.is_outside()),
            [Some(one), Some(other)] => {
                (begun.call.name, begun.call.second) = (self.know(&one, sink)?, self.know(&other, sink)?);
                begun.renamed = Some((one, other));
            }
            [Some(one), None] => {
                begun.call.name = self.know(&one, sink)?;
                begun.crossing = Some(Crossing { inside: first, outside: second, inwards: false });
            }
            [None, Some(other)] => {
                begun.call.second = self.know(&other, sink)?;
                begun.crossing = Some(Crossing { inside: second, outside: first, inwards: true });
            }
        }
        Ok(Some(begun))
    }

    /// Ends a call across the border. One that failed, for example with EXDEV, changed no name.
    pub(super) fn end_crossing(
        &mut self,
        begun: Begun,
        result: i64,
        times: Times,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let Some(Crossing { inside, outside, inwards }) = begun.crossing else { return Ok(()) };
        if result < 0 {
            self.outside += 1;
            let (inner, is_there) = if inwards { (begun.call.second, false) } else { (begun.call.name, true) };
            self.guesses.decide(inner, is_there, false);
            return Ok(());
        }
        let links = begun.call.kind == CallKind::Link;
        let exchanges = !links && begun.call.flags & flags::EXCHANGE != 0;
        let there =
            if inwards && !links { self.outer.put.remove(&outside) } else { self.outer.put.get(&outside).copied() };
        let comes_in = inwards || exchanges;
        let number = there.filter(|_| comes_in).unwrap_or_else(|| self.outer.fresh());
        if !inwards || exchanges {
            self.outer.put.insert(outside, number);
        }
        self.outer.crossed += 1;
        let outer = self.outer_directory(number, sink)?;
        if comes_in && there.is_none() {
            let inner = below(&self.root, &inside).unwrap_or_default().to_vec();
            self.appear(&outer, &inner, sink)?;
        }
        let mut call = Call { result, start_ns: times.start_ns, took_ns: times.took_ns, ..begun.call };
        call.lost_ns = times.lost_ns;
        let outer = sink.name(&outer)?;
        *(if inwards { &mut call.name } else { &mut call.second }) = outer;
        self.guesses.learn(&call);
        sink.call(&call)
    }

    /// Returns an outer name, in a directory that exists.
    fn outer_directory(&mut self, number: u64, sink: &mut impl Sink) -> Result<Vec<u8>, TraceError> {
        if self.known.insert(OUTSIDE.into()) {
            let directory = sink.name(OUTSIDE)?;
            self.begins_as(directory, OUTSIDE, Before::Directory, sink)?;
        }
        Ok(outer_name(number))
    }

    /// Handles a rename within the root. A directory brings the names in it, which no call may have used so far.
    pub(super) fn has_renamed(
        &mut self,
        call: &Call,
        names: Option<(Vec<u8>, Vec<u8>)>,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let Some((old, new)) = names.filter(|_| call.flags & flags::EXCHANGE == 0) else { return Ok(()) };
        let path = normal(&self.root, &new);
        if self.world.before(&path) == Before::Directory { self.appear(&old, &new, sink) } else { Ok(()) }
    }

    /// Adds the initial states of the names that are now at `new` and that were at `old` before the first call. Names
    /// that calls have used already have their states.
    fn appear(&mut self, old: &[u8], new: &[u8], sink: &mut impl Sink) -> Result<(), TraceError> {
        let mut left = vec![(old.to_vec(), new.to_vec())];
        let mut count = 0;
        while let Some((old, new)) = left.pop() {
            count += 1;
            if count > MOST_NAMES {
                self.unseen(Unseen::Outside);
                return Ok(());
            }
            let path = normal(&self.root, &new);
            let before = self.world.before(&path);
            if before == Before::Directory {
                let entries = self.world.entries(&path).into_iter().filter(|entry| is_inside(entry));
                let join = |directory: &[u8], entry: &[u8]| [directory, b"/", entry].concat();
                left.extend(entries.map(|entry| (join(&old, &entry), join(&new, &entry))));
            }
            self.known.insert(new.into());
            if self.known.insert(old.as_slice().into()) {
                let number = sink.name(&old)?;
                self.begins_as(number, &path, before, sink)?;
            }
        }
        Ok(())
    }
}

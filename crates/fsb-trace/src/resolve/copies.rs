//! Calls by which the kernel moves data from one descriptor to another: copy_file_range, sendfile,
//! splice, FICLONE.
//!
//! If both files are below the root, the call is a copy. If only one is, it is the read or the
//! write that the copy is for this file, because a replay has no other side.

use super::{Before, Begun, RawCall, Resolver, Sink, World};
use crate::call::{Call, CallKind, flags};
use crate::{TraceError, Unseen};

/// The length of a clone of a file whose size is not known.
const UNKNOWN: u64 = u64::MAX;
/// The largest copy that becomes reads or writes.
const LARGEST_CLONE: u64 = 1 << 44;

/// The most bytes that Linux moves in one write (0x7ffff000, write(2)).
const MOST_MOVED: u64 = 0x7fff_f000;

/// One side of a copy.
struct Side {
    handle: u32,
    /// The offset, from the call or the position of the descriptor.
    offset: u64,
    appends: bool,
}

impl<W: World> Resolver<W> {
    /// Begins a copy.
    pub(super) fn begin_copy(
        &mut self,
        task: u32,
        raw: &RawCall<'_>,
        begun: Begun,
    ) -> Option<Begun> {
        let (from, to) = (
            self.side(task, raw.fd, raw.offset),
            self.side(task, raw.other, raw.target),
        );
        match (from, to) {
            (Some(from), Some(to)) => Some(copy(raw, begun, &from, &to)),
            (None, Some(to)) if raw.flags & flags::HOW != flags::DEDUPLICATE => {
                Some(self.copy_in(task, raw, begun, &to))
            }
            (Some(from), None) if raw.flags & flags::HOW <= flags::SEND => {
                Some(copy_out(raw, begun, &from))
            }
            _ => {
                let is_known = [raw.fd, raw.other]
                    .iter()
                    .any(|fd| self.tables.held(task, *fd).is_some());
                if is_known { self.is_outside() } else { None }
            }
        }
    }

    /// Returns a side below the root.
    fn side(&self, task: u32, fd: i32, offset: Option<u64>) -> Option<Side> {
        let held = self.tables.held(task, fd).filter(|held| held.handle != 0)?;
        let offset = offset.unwrap_or_else(|| held.place.get());
        Some(Side {
            handle: held.handle,
            offset,
            appends: held.appends,
        })
    }

    /// Returns the write of a copy from outside the root.
    fn copy_in(&mut self, task: u32, raw: &RawCall<'_>, mut begun: Begun, to: &Side) -> Begun {
        begun.moves_all = raw.flags & flags::HOW > flags::SEND;
        let at_position = !begun.moves_all && raw.target.is_none();
        let mut length = raw.length;
        if begun.moves_all && length == 0 {
            let path = self.tables.held(task, raw.fd).map(|held| held.path.clone());
            length = match path.map(|path| self.world.before(&path)) {
                Some(Before::File { size, .. }) => {
                    size.saturating_sub(raw.offset.unwrap_or_default())
                }
                _ => UNKNOWN,
            };
        }
        let kind = if at_position {
            CallKind::Write
        } else {
            CallKind::WriteAt
        };
        let offset = if begun.moves_all {
            raw.target.unwrap_or_default()
        } else {
            to.offset
        };
        begun.call = Call {
            kind,
            handle: to.handle,
            offset,
            length,
            flags: flags::COPIED,
            ..begun.call
        };
        (begun.fd, begun.appends) = (raw.other, to.appends);
        begun
    }

    /// Sets the bytes of a copy across the border of the root, and counts it. Returns `None` if it
    /// is not part of the trace: a copy that failed, or that found the end of its source, changed
    /// no file.
    pub(super) fn copied(&mut self, call: Call, moves_all: bool) -> Option<Call> {
        if call.result < 0 {
            self.outside += 1;
            return None;
        }
        let moved = if moves_all {
            call.length
        } else {
            call.result as u64
        };
        if moved > LARGEST_CLONE {
            self.unseen(Unseen::Outside);
            return None;
        }
        if moved == 0 {
            return None;
        }
        self.copies.0 += 1;
        self.copies.1 = self.copies.1.saturating_add(moved);
        Some(Call {
            length: moved,
            result: i64::try_from(moved).unwrap_or(i64::MAX),
            ..call
        })
    }

    /// Adds the first parts of a call that moved more than a write can. Returns the last part.
    pub(super) fn last_part(
        &self,
        mut call: Call,
        sink: &mut impl Sink,
    ) -> Result<Call, TraceError> {
        while call.length > MOST_MOVED {
            sink.call(&Call {
                length: MOST_MOVED,
                result: MOST_MOVED as i64,
                took_ns: 0,
                ..call
            })?;
            (call.length, call.offset) = (
                call.length - MOST_MOVED,
                call.offset.saturating_add(MOST_MOVED),
            );
            (call.result, call.lost_ns) = (call.length as i64, 0);
        }
        Ok(call)
    }

    /// Advances the positions of the descriptors that a copy used.
    pub(super) fn advance(&self, task: u32, call: &Call, (from, to): (i32, i32)) {
        for (moves, fd, begin) in [
            (call.copies_from_position(), from, call.offset),
            (call.copies_to_position(), to, call.target),
        ] {
            if let Some(held) = self.tables.held(task, fd).filter(|_| moves) {
                held.place.set(begin.wrapping_add(call.moved()));
            }
        }
    }
}

/// Returns a copy between files below the root.
fn copy(raw: &RawCall<'_>, mut begun: Begun, from: &Side, to: &Side) -> Begun {
    let by_position = raw.flags & flags::HOW <= flags::SEND;
    let mut flags = raw.flags;
    if by_position && raw.offset.is_some() {
        flags |= flags::FROM_OFFSET;
    }
    if by_position && raw.target.is_some() {
        flags |= flags::TO_OFFSET;
    }
    let [offset, target] =
        [(from, raw.offset), (to, raw.target)].map(|(side, offset)| match by_position {
            true => side.offset,
            false => offset.unwrap_or_default(),
        });
    begun.call = Call {
        handle: from.handle,
        other: to.handle,
        offset,
        target,
        flags,
        ..begun.call
    };
    begun
}

/// Returns the read of a copy to a file, pipe or socket outside the root.
fn copy_out(raw: &RawCall<'_>, mut begun: Begun, from: &Side) -> Begun {
    let kind = if raw.offset.is_some() {
        CallKind::ReadAt
    } else {
        CallKind::Read
    };
    let (handle, offset) = (from.handle, from.offset);
    begun.call = Call {
        kind,
        handle,
        offset,
        flags: flags::COPIED,
        ..begun.call
    };
    begun
}

//! Interprets registers as the arguments of a call.

use fsb_trace::{CallKind, RawCall, flags};

use super::{Act, Seen};

/// The registers of a call.
#[derive(Debug, Clone, Copy)]
pub struct Arguments(pub [u64; 6]);

impl Arguments {
    fn int(self, at: usize) -> i32 {
        self.0[at] as i32
    }

    /// Returns a call of that kind on the descriptor in the first register.
    pub(super) fn on(self, kind: CallKind) -> Seen {
        Seen {
            act: Act::File,
            raw: RawCall { fd: self.int(0), ..RawCall::new(kind) },
            path: None,
            second: None,
            pieces: None,
            empty_path: false,
            how: None,
        }
    }

    /// Returns a call that is not about files themselves.
    pub(super) fn act(self, act: Act) -> Seen {
        Seen { act, ..self.on(CallKind::Stat) }
    }

    /// Returns a call that moves bytes, at an offset or at the position of the descriptor.
    pub(super) fn moves(self, kind: CallKind) -> Seen {
        let mut seen = self.on(kind);
        seen.raw.length = self.0[2];
        if matches!(kind, CallKind::ReadAt | CallKind::WriteAt) {
            seen.raw.offset = Some(self.0[3]);
        }
        seen
    }

    /// Like [`Arguments::moves`], in pieces.
    pub(super) fn moves_pieces(self, kind: CallKind) -> Seen {
        let mut seen = self.moves(kind);
        (seen.raw.length, seen.pieces) = (0, Some((self.0[1], self.0[2])));
        seen
    }

    /// Returns preadv2 and pwritev2, whose offset of -1 means the position of the descriptor.
    pub(super) fn moves_pieces_or_on(self, at: CallKind, on: CallKind) -> Seen {
        self.moves_pieces(if self.0[3] as i64 == -1 { on } else { at })
    }

    /// Returns a call on a name that begins in the working directory. The path is in that register.
    pub(super) fn name(self, kind: CallKind, at: usize) -> Seen {
        let mut seen = self.on(kind);
        seen.raw.fd = fsb_trace::AT_CWD;
        seen.path = Some(self.0[at]);
        seen
    }

    /// Returns a call on a name that begins in the directory in the first register.
    pub(super) fn name_at(self, kind: CallKind) -> Seen {
        Seen { path: Some(self.0[1]), ..self.on(kind) }
    }

    /// Like [`Arguments::name_at`], with the flags AT_* in that register.
    pub(super) fn name_with(self, kind: CallKind, on: CallKind, at: usize) -> Seen {
        let mut seen = self.name_at(kind);
        seen.raw.follows = self.int(at) & libc::AT_SYMLINK_NOFOLLOW == 0;
        if self.int(at) & libc::AT_EMPTY_PATH != 0 {
            seen.empty_path = true;
        }
        // Without a path the call is about the descriptor.
        if self.0[1] == 0 {
            (seen.raw.kind, seen.path) = (on, None);
        }
        seen
    }

    /// Returns a call on two names, with the directories that they begin in.
    pub(super) fn names(self, kind: CallKind, [at, path, other, second]: [Option<usize>; 4]) -> Seen {
        let directory = |register: Option<usize>| register.map_or(fsb_trace::AT_CWD, |at| self.int(at));
        let mut seen = self.on(kind);
        (seen.raw.fd, seen.raw.other, seen.raw.follows) = (directory(at), directory(other), false);
        (seen.path, seen.second) = (path.map(|at| self.0[at]), second.map(|at| self.0[at]));
        seen
    }

    /// Returns an open, with the open flags and the mode in these registers.
    pub(super) fn open(self, mut seen: Seen, flags_at: usize, mode: usize) -> Seen {
        seen.set_open_flags(self.int(flags_at));
        seen.raw.length = self.0[mode] & 0o7777;
        seen
    }
}

impl Seen {
    pub(super) fn does_not_follow(mut self) -> Seen {
        self.raw.follows = false;
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut RawCall<'static>)) -> Seen {
        change(&mut self.raw);
        self
    }

    /// Sets the meaning of the flags O_*.
    pub fn set_open_flags(&mut self, given: i32) {
        self.raw.flags = open_flags(given);
        self.raw.close_on_exec = given & libc::O_CLOEXEC != 0;
        self.raw.follows =
            given & libc::O_NOFOLLOW == 0 && given & (libc::O_CREAT | libc::O_EXCL) != libc::O_CREAT | libc::O_EXCL;
    }
}

/// Returns the flags of open(2) as they are the same on every machine.
pub fn open_flags(given: i32) -> u32 {
    let access = match given & libc::O_ACCMODE {
        libc::O_RDONLY => flags::READ,
        libc::O_WRONLY => flags::WRITE,
        _ => flags::READ | flags::WRITE,
    };
    let known = [
        (libc::O_CREAT, flags::CREATE),
        (libc::O_EXCL, flags::EXCLUSIVE),
        (libc::O_TRUNC, flags::TRUNCATE),
        (libc::O_APPEND, flags::APPEND),
        (libc::O_DIRECT, flags::DIRECT),
        (libc::O_SYNC, flags::SYNC),
        (libc::O_DSYNC, flags::DATA_SYNC),
        (libc::O_DIRECTORY, flags::DIRECTORY),
        (libc::O_NOFOLLOW, flags::NO_FOLLOW),
        (libc::O_PATH, flags::PATH),
        (libc::O_TMPFILE, flags::TEMPORARY),
    ];
    known.iter().filter(|(bits, _)| given & bits == *bits).fold(access, |all, (_, flag)| all | flag)
}

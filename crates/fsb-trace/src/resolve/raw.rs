//! The part of a call that a tracer sees, and the activity that it does not see.

use crate::call::CallKind;

/// The descriptor number that means the working directory.
pub const AT_CWD: i32 = -100;

/// A call as it was made, with the numbers of the process that made it.
#[derive(Debug, Clone)]
pub struct RawCall<'p> {
    pub kind: CallKind,
    /// The descriptor that it is about; with paths the directory that they begin in.
    pub fd: i32,
    /// The other descriptor, or directory.
    pub other: i32,
    /// The path that it is about.
    pub path: Option<&'p [u8]>,
    /// The other path.
    pub second: Option<&'p [u8]>,
    /// The offset in the file, if the call gives one.
    pub offset: Option<u64>,
    /// Bytes, a size, or a mode.
    pub length: u64,
    /// As in [`Call`](crate::Call).
    pub flags: u32,
    /// A symbolic link at the end of the path is followed.
    pub follows: bool,
    /// The new descriptor is closed by exec.
    pub close_on_exec: bool,
}

impl RawCall<'_> {
    /// Creates a call of that kind, about nothing yet.
    pub fn new(kind: CallKind) -> RawCall<'static> {
        RawCall {
            kind,
            fd: AT_CWD,
            other: AT_CWD,
            path: None,
            second: None,
            offset: None,
            length: 0,
            flags: 0,
            follows: true,
            close_on_exec: false,
        }
    }
}

/// Activity that a tracer of calls does not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unseen {
    /// Stores to a mapping that change the file.
    SharedMapping,
    /// Requests of io_uring.
    Uring,
    /// Requests of io_submit.
    Asynchronous,
    /// Calls of a program of another kind, such as a 32-bit one.
    Foreign,
    /// Calls that came faster than they could be written down.
    Lost,
    /// Calls of processes that are counted in a namespace of their own.
    Namespace,
    /// Calls of tasks that the kernel did not attach to the tracer.
    Untraced,
    /// Paths that lead elsewhere for the program than for the recorder.
    OtherRoot,
    /// Calls that a seccomp supervisor continues. The kernel prefers its verdict to the tracer's.
    Supervised,
}

impl Unseen {
    pub(super) fn text(self) -> &'static str {
        match self {
            Unseen::SharedMapping => "stores to shared mappings of files",
            Unseen::Uring => "requests of io_uring",
            Unseen::Asynchronous => "requests of io_submit",
            Unseen::Foreign => "calls of programs for another kind of processor",
            Unseen::Lost => "calls that came faster than they could be written down",
            Unseen::Namespace => "calls of processes in a PID namespace of their own",
            Unseen::Untraced => "calls of tasks that were created with CLONE_UNTRACED",
            Unseen::OtherRoot => "paths in processes that changed their root directory",
            Unseen::Supervised => "calls that a seccomp supervisor of the program may continue",
        }
    }
}

/// When a call was made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// See [`crate::Call::start_ns`].
    pub start_ns: u64,
    /// See [`crate::Call::took_ns`].
    pub took_ns: u64,
    /// See [`crate::Call::lost_ns`].
    pub lost_ns: u64,
}

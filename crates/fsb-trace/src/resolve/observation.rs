//! A call as a tracer observes it.

use crate::CallKind;

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
    /// The path of the call.
    pub path: Option<&'p [u8]>,
    /// The second path of the call, for example of a rename, or the name of an extended attribute.
    pub second: Option<&'p [u8]>,
    /// The offset in the file, if the call gives one. Of msync the address.
    pub offset: Option<u64>,
    /// The offset in the destination of a copy, if the call gives one.
    pub target: Option<u64>,
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
            target: None,
            length: 0,
            flags: 0,
            follows: true,
            close_on_exec: false,
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

//! The effects of system calls that the recorder watches.

use fsb_trace::{RawCall, Unseen};

/// The effect of a call, apart from files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A call of the trace.
    File,
    /// Another working directory.
    ChangeDirectory,
    /// Descriptors from the first to the second, with flags.
    CloseRange(i32, i32, u32),
    /// Whether exec closes the descriptor.
    CloseOnExec(bool),
    /// A new task: its flags, or their address in memory.
    Clone(u64, Option<u64>),
    /// unshare(2), with its flags.
    Unshare(u64),
    /// Waits for a child.
    Wait,
    /// Success means that calls may follow that no tracer sees.
    Hides(Unseen),
    /// Nothing that concerns files.
    Nothing,
}

/// A call as its registers describe it. Paths are in the memory of the calling process.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The effect of the call.
    pub act: Act,
    /// Everything but paths.
    pub raw: RawCall<'static>,
    pub path: Option<u64>,
    /// The address of the second path.
    pub second: Option<u64>,
    /// The address and the number of the pieces. The requested length is the sum of their lengths.
    pub pieces: Option<(u64, u64)>,
    /// An empty path means the descriptor.
    pub empty_path: bool,
    /// The address of `struct open_how`.
    pub how: Option<u64>,
}

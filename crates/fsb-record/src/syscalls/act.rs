//! The effects of system calls that the recorder watches.

use fsb_trace::{RawCall, Unseen};

/// What a call is about, apart from files.
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
    /// A new task: its flags, or where they lie in memory.
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

/// A call as its registers tell it: paths lie in the memory of who made it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// What it is about.
    pub act: Act,
    /// Everything but paths.
    pub raw: RawCall<'static>,
    pub path: Option<u64>,
    /// Where the other path lies.
    pub second: Option<u64>,
    /// Where a list of pieces lies, and how many there are: their lengths are what is asked for.
    pub pieces: Option<(u64, u64)>,
    /// An empty path means the descriptor.
    pub empty_path: bool,
    /// Where `struct open_how` lies.
    pub how: Option<u64>,
}

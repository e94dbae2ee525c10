//! What is under way in a traced task.

use fsb_trace::Begun;

/// A call that has begun and is waited for.
#[derive(Debug)]
pub(crate) enum Pending {
    /// A call on files.
    File {
        begun: Begun,
        /// Afterwards a path may lead elsewhere.
        moves_names: bool,
    },
    /// A wait for a child.
    Wait,
    /// Another working directory: a descriptor, or a path.
    Directory(i32, Option<Vec<u8>>),
    /// Descriptors are closed, or will be by exec.
    CloseRange(i32, i32, bool),
    /// The descriptor is closed by exec, or not.
    CloseOnExec(i32, bool),
}

/// One traced task.
#[derive(Debug, Default)]
pub(crate) struct Task {
    pub(crate) pending: Option<Pending>,
    /// When the call began.
    pub(crate) start_ns: u64,
    /// What recording took since the last call that was written down.
    pub(crate) lost_ns: u64,
    /// The lane that woke it last, and when, within the call that it makes.
    pub(crate) woken: Option<(u32, u64)>,
    /// The flags of the task that it is making.
    pub(crate) making: u64,
}

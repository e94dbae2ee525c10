//! The state of a traced task.

use fsb_sys::trace;
use fsb_trace::{Begun, Unseen};

use crate::memory;

/// A call that has begun, and whose end the tracer waits for.
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
    /// Descriptors are closed, or will be by exec, depending on the flags.
    CloseRange(i32, i32, u32),
    /// The descriptor is closed by exec, or not.
    CloseOnExec(i32, bool),
    /// unshare(2), with its flags.
    Unshare(u64),
    /// A call that makes a task.
    Make(Making),
    /// A call whose success hides later calls from the tracer.
    Hides(Unseen),
}

const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;

/// A call that makes a task.
///
/// The tracer clears CLONE_UNTRACED during the call, as rr does. Otherwise the kernel would not report the new task,
/// and every call that the filter stops would fail with ENOSYS because no tracer is attached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making {
    /// The flags as the program passed them.
    pub(crate) flags: u64,
    /// The address of `struct clone_args`. `None` means that the flags are the first argument.
    pub(crate) place: Option<u64>,
    /// The kernel reported the new task.
    pub(crate) seen: bool,
}

impl Making {
    /// Reads the flags at the entry of the call and clears CLONE_UNTRACED. A failure shows at the exit: no task was
    /// reported.
    pub(crate) fn begin(task: i32, flags: u64, place: Option<u64>) -> Making {
        let flags = place.and_then(|at| memory::numbers::<1>(task, at)).map_or(flags, |[flags]| flags);
        let making = Making { flags, place, seen: false };
        if flags & UNTRACED != 0 {
            let _ = match place {
                Some(at) => trace::write_memory(task, at, flags & !UNTRACED),
                None => trace::set_first_argument(task, flags & !UNTRACED),
            };
        }
        making
    }

    /// Restores the flags in a stopped task: the maker or the new one.
    pub(crate) fn put_back(&self, task: i32) {
        if self.flags & UNTRACED == 0 {
            return;
        }
        let _ = match self.place {
            // The program may have reused the memory.
            Some(at) if memory::numbers::<1>(task, at) == Some([self.flags & !UNTRACED]) => {
                trace::write_memory(task, at, self.flags)
            }
            None if trace::KEEPS_FIRST_ARGUMENT => trace::set_first_argument(task, self.flags),
            _ => Ok(()),
        };
    }

    pub(crate) fn has(&self, flag: libc::c_int) -> bool {
        self.flags & flag as u64 != 0
    }
}

/// One traced task.
#[derive(Debug, Default)]
pub(crate) struct Task {
    pub(crate) pending: Option<Pending>,
    /// When the call began.
    pub(crate) start_ns: u64,
    /// The time that recording took since the last recorded call.
    pub(crate) lost_ns: u64,
    /// The lane that woke it last, and when, within the call that it makes.
    pub(crate) woken: Option<(u32, u64)>,
    /// The call that made it, until it runs.
    pub(crate) born: Option<Making>,
}

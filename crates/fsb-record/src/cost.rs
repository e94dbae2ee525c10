//! The time that recording adds to a program.

use fsb_trace::Overhead;

/// Nanoseconds that recording adds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// To a call that stops, and to the time between two: half of it each, because the call stops where it begins and
    /// where it ends.
    pub(crate) stop: Overhead,
    /// To the time around a call that the kernel writes down.
    pub(crate) event_ns: u64,
}

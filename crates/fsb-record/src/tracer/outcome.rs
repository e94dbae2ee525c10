//! The outcome of a recording, and its errors.

use std::io;
use std::path::PathBuf;

use fsb_trace::{Overhead, Totals, TraceError};

/// The outcome of a recording.
#[derive(Debug, Clone, Default)]
pub struct RecordOutcome {
    /// The program's exit code, as in a shell; `None` if the program still runs.
    pub code: Option<i32>,
    /// The totals of the trace.
    pub totals: Totals,
    /// Whether the program used a file or directory below the root.
    pub is_root_used: bool,
    /// The directory outside the root in which the program opened most files, those for writing first. `None` if it
    /// used only files of the system.
    pub used_outside: Option<PathBuf>,
    /// Bytes of the trace.
    pub bytes: u64,
    /// The time that a stop adds to each call that stops.
    pub overhead: Overhead,
    /// The program began to run.
    pub begun: bool,
    /// Most calls did not stop.
    pub by_ebpf: bool,
    /// Times that a task was stopped.
    pub stops: u64,
    /// Seconds from the first call to the end.
    pub seconds: f64,
}

/// The reason why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel refuses tracing.
    #[error("the program cannot be traced: {0}")]
    Refused(io::Error),
    /// Calls eBPF cannot record.
    #[error("eBPF cannot record the calls: {0}")]
    NoEbpf(io::Error),
    /// Something that the program must not inherit could not be taken away.
    #[error("cannot keep {what} from the program: {source}")]
    Kept {
        /// Names it in the message.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

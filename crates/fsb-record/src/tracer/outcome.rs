//! How a recording ended, or why there is none.

use std::io;
use std::path::PathBuf;

use fsb_trace::{Overhead, Totals, TraceError};

/// How a recording ended.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The program's exit code, as a shell would have it; absent where it goes on.
    pub code: Option<i32>,
    /// What the trace holds.
    pub totals: Totals,
    /// Whether the program used a file or directory below the root.
    pub is_root_used: bool,
    /// The directory outside the root in which the program opened most files, those for writing first. `None` if it used
    /// files of the system alone.
    pub used_outside: Option<PathBuf>,
    /// Bytes of the trace.
    pub bytes: u64,
    /// What stopping costs each call that stops.
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

/// Why nothing could be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel does not let us watch.
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

//! What can be wrong with a trace.

use std::io;

/// A trace that cannot be read or written; the text stands after `FILE: `.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The first bytes are others.
    #[error("it is no trace of fsb's; 'fsb trace import' reads those of strace, fio and blkparse")]
    NotATrace,
    /// It was written by a newer program.
    #[error("it is a trace of version {0}, and this fsb reads versions 1 to {version}", version = crate::VERSION)]
    Version(u16),
    /// It ends before its end.
    #[error("it is cut off after {calls} calls: the recording was killed, or the copy is not whole")]
    Truncated {
        /// Calls that could be read.
        calls: u64,
    },
    /// Its bytes contradict each other.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// A name in it would lead out of the target.
    #[error("the name '{0}' in it leads out of the target; nothing of it is replayed")]
    Outside(String),
    /// A line of another tool's.
    #[error("line {line}: {message}")]
    Line {
        /// From 1.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
    /// Something that cannot be done with it.
    #[error("{0}")]
    Unfit(String),
    /// The stream failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl TraceError {
    pub(crate) fn damaged(what: impl Into<String>) -> TraceError {
        TraceError::Damaged(what.into())
    }
}

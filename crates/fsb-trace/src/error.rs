//! Errors of traces.

use std::io;

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error_codes;
use serde_json::{Map, Value};

/// A trace cannot be read or written. Messages put the text after `FILE: `.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file does not begin like a trace.
    #[error(
        "it is not a trace of fsb; 'fsb trace import' converts logs of strace, fio and blkparse"
    )]
    NotATrace,
    /// The trace has a format from before the first release.
    #[error("it is a trace from before the first release; {UPGRADE}")]
    Former,
    /// A newer program wrote the trace.
    #[error("it is a trace of version {0}, and this fsb reads version {version}; use the fsb that wrote it", version = crate::VERSION)]
    Version(u16),
    /// The trace ends early.
    #[error(
        "it is cut off after {calls} calls: the recording was killed, or the copy is incomplete"
    )]
    Truncated {
        /// Calls that could be read.
        calls: u64,
    },
    /// The bytes of the trace contradict each other.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// A name in it would lead out of the target.
    #[error("its name '{0}' leads out of the target; fsb replays nothing of the trace")]
    Outside(String),
    /// A line of another tool's.
    #[error("line {line}: {message}")]
    Line {
        /// From 1.
        line: u64,
        /// The problem with the line.
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

/// The remedy for [`TraceError::Former`].
const UPGRADE: &str =
    "convert it with 'scripts/upgrade-results FILE' from the source of fsb, or record it again";

error_codes! {
    FORMER = "trace/former-format", code::REQUEST, "The trace has a format from before the first release.", "Convert it with scripts/upgrade-results, which is in the source of fsb.";
    NOT_A_TRACE = "trace/not-a-trace", code::REQUEST, "The file is not a trace of fsb.", "Import traces of strace, fio and blkparse with fsb trace import.";
    VERSION = "trace/newer", code::REQUEST, "A newer fsb wrote the trace.", "Use that version of fsb.";
    TRUNCATED = "trace/truncated", code::REQUEST, "The trace is incomplete: its last calls are missing.", "Record it again, or copy the whole file.";
    DAMAGED = "trace/damaged", code::REQUEST, "The bytes of the trace contradict each other.", "Copy or record it again.";
    OUTSIDE = "trace/outside", code::REQUEST, "A name in the trace leads out of the target.", "Record the trace with another --root.";
    LINE = "trace/invalid-line", code::REQUEST, "A line of another tool's trace cannot be read.", "Correct the line that the field names.";
    UNFIT = "trace/unfit", code::REQUEST, "The trace cannot be used for this.", "Follow the message.";
    IO = "trace/io", code::MACHINE, "The trace cannot be read or written.", "Follow the kernel's answer in the message.";
}

impl Coded for TraceError {
    fn code(&self) -> &'static ErrorCode {
        match self {
            TraceError::NotATrace => &NOT_A_TRACE,
            TraceError::Former => &FORMER,
            TraceError::Version(_) => &VERSION,
            TraceError::Truncated { .. } => &TRUNCATED,
            TraceError::Damaged(_) => &DAMAGED,
            TraceError::Outside(_) => &OUTSIDE,
            TraceError::Line { .. } => &LINE,
            TraceError::Unfit(_) => &UNFIT,
            TraceError::Io(_) => &IO,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        match self {
            TraceError::Line { line, .. } => code::fields([("line", (*line).into())]),
            TraceError::Truncated { calls } => code::fields([("calls", (*calls).into())]),
            TraceError::Outside(name) => code::fields([("name", name.as_str().into())]),
            _ => Map::new(),
        }
    }

    fn help(&self) -> Option<String> {
        matches!(self, TraceError::Former).then(|| UPGRADE.to_owned())
    }
}

//! A script of the workload language after translation, with remarks.

use std::fmt;
use std::path::PathBuf;

use fsb_model::flow::Flow;

/// Seconds of a `run` that names none: filebench's default.
pub(crate) const USUAL_SECONDS: u64 = 60;

/// Something in a file that cannot be done, or is done otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// From 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The content of a file, if fsb supports all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Its runs, in their order.
    pub runs: Vec<Run>,
    /// The lines that it prints with `echo`.
    pub said: Vec<String>,
    /// Differences from filebench.
    pub notes: Vec<Remark>,
}

/// One `run`, with the definitions that precede it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its line in the file; `None` if it was requested without being in the file.
    pub line: Option<usize>,
    /// For how long.
    pub seconds: u64,
    /// The directory of its file sets, as written in the file.
    pub directory: PathBuf,
    /// The flow that it runs.
    pub flow: Flow,
}

/// The settings that a file is read with.
#[derive(Debug, Clone, Default)]
pub struct Reading<'r> {
    /// The name of its flows.
    pub name: &'r str,
    /// The length in seconds of the run that a file without `run` gets.
    pub implied: Option<u64>,
    /// Variables that have other values than the file sets, as the file would write them.
    pub values: &'r [(String, String)],
}

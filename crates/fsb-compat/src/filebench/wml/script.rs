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

/// What a file says, all of which can be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Its runs, in their order.
    pub runs: Vec<Run>,
    /// What it prints with `echo`, line by line.
    pub said: Vec<String>,
    /// What is done otherwise than filebench does it.
    pub notes: Vec<Remark>,
}

/// One `run` with what was defined when it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Where it stands; nothing where the file has none and one was asked for.
    pub line: Option<usize>,
    /// For how long.
    pub seconds: u64,
    /// Where its file sets lie, as the file names it.
    pub directory: PathBuf,
    /// What is done.
    pub flow: Flow,
}

/// What a file is read with.
#[derive(Debug, Clone, Default)]
pub struct Reading<'r> {
    /// What its flows are called.
    pub name: &'r str,
    /// A file without `run` has one all the same, of so many seconds.
    pub implied: Option<u64>,
    /// Variables that have other values than the file sets, as the file would write them.
    pub values: &'r [(String, String)],
}

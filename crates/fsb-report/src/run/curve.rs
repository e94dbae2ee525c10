//! What rows that differ in the number of threads, or of requests under way, alone have in common.

use fsb_analysis::Knee;
use serde::Serialize;

use crate::show::counted;

/// Rows of a page that are one curve a target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// What is done, without the number that varies: `create 4K files, durable`.
    pub what: String,
    /// What varies.
    pub by: By,
    /// Its values, rising.
    pub levels: Vec<u64>,
    /// The rows of the page, in the order of the levels.
    pub rows: Vec<usize>,
    /// Where each target's curve stops to gain, in the order of targets; absent where too little is known.
    pub knees: Vec<Option<Knee>>,
}

/// What varies along a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Threads.
    Threads,
    /// Requests under way.
    Depth,
}

impl By {
    pub(super) const ALL: [By; 2] = [By::Threads, By::Depth];

    /// The name of the parameter.
    pub(super) fn key(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Depth => "depth",
        }
    }

    /// `threads`, `requests under way`.
    pub(crate) fn words(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Depth => "requests under way",
        }
    }

    /// `2 threads`, `16 under way`.
    pub(super) fn counted(self, count: u64) -> String {
        match self {
            By::Threads => counted(count as usize, "thread"),
            By::Depth => format!("{count} under way"),
        }
    }
}

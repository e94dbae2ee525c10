//! The request for a comparison.

use crate::runs::Between;

/// The tool of our own runs.
pub const OURS: &str = "fsb";

/// The baseline and the margins of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// The place of the baseline among the sets.
    pub baseline: usize,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The variation between runs, added where a side has fewer than [`FEWEST_RUNS_JUDGED`](crate::FEWEST_RUNS_JUDGED) runs.
    pub between_runs: Option<Between>,
    /// The variation between sessions, added where two sides share none.
    pub between_sessions: Option<Between>,
    /// The number of comparisons of the same size that are held to one page, this one included:
    /// [`hold_together`](super::Document::hold_together).
    pub pages: usize,
}

impl Request {
    /// Without any variation that is known beforehand.
    pub const fn new(baseline: usize, theta: f64) -> Request {
        Request { baseline, theta, between_runs: None, between_sessions: None, pages: 1 }
    }
}

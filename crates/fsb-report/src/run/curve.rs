//! What rows that differ in the number of threads, of requests under way, or in their rate alone have in common.

use fsb_model::units::show_rate;
use fsb_stats::Knee;
use serde::Serialize;

use crate::show::counted;

/// Rows of a page that are one curve a target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scaling {
    /// What is done, without the number that varies: `create 4K files, durable`.
    pub what: String,
    /// What varies.
    pub by: By,
    /// Its values, rising.
    pub levels: Vec<u64>,
    /// The rows of the page, in the order of the levels.
    pub rows: Vec<usize>,
    /// The level of each target's curve beyond which no gain is shown, in the order of targets; absent where too little is known.
    pub knees: Vec<Option<Knee>>,
    /// Seconds below which the plan wants the 99th percentile to stay; of rates alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// Of rates: the place of the highest level up to which each target holds all, in the order of targets; absent where it
    /// holds none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Option<usize>>,
}

/// What varies along a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Threads.
    Threads,
    /// Requests under way.
    Depth,
    /// Operations a second that are started.
    Rate,
}

impl By {
    pub(super) const ALL: [By; 3] = [By::Threads, By::Depth, By::Rate];

    /// The name of the parameter.
    pub(super) fn key(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Depth => "depth",
            By::Rate => "rate",
        }
    }

    /// `threads`, `requests under way`.
    pub(crate) fn words(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Depth => "requests under way",
            By::Rate => "operations started a second",
        }
    }

    /// `2 threads`, `16 under way`.
    pub(super) fn counted(self, count: u64) -> String {
        match self {
            By::Threads => counted(count as usize, "thread"),
            By::Depth => format!("{count} under way"),
            By::Rate => show_rate(count as f64),
        }
    }
}

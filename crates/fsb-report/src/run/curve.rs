//! Rows that differ only in the number of threads, in the number of requests under way, or in their rate.

use fsb_model::units::show_rate;
use fsb_stats::Knee;
use serde::Serialize;

use crate::show::counted;

/// Rows of a page that form one curve per target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scaling {
    /// The workload without the number that varies: `create 4K files, durable`.
    pub what: String,
    /// The parameter that varies.
    pub by: By,
    /// The values of that parameter, rising.
    pub levels: Vec<u64>,
    /// The rows of the page, in the order of the levels.
    pub rows: Vec<usize>,
    /// The level beyond which each target's curve shows no gain, in the order of targets; absent if too little is
    /// known.
    pub knees: Vec<Option<Knee>>,
    /// The number of seconds below which the plan wants the 99th percentile to stay; for rates only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// For rates: the place of the highest level up to which each target holds all levels, in the order of targets;
    /// absent if it holds none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Option<usize>>,
}

/// The parameter that varies along a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Threads.
    Threads,
    /// Requests under way.
    Depth,
    /// Operations started per second.
    Rate,
}

impl By {
    pub(super) const ALL: [By; 3] = [By::Threads, By::Depth, By::Rate];

    /// Returns the name of the parameter.
    pub(super) fn key(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Depth => "depth",
            By::Rate => "rate",
        }
    }

    /// Returns the name in words: `threads`, `requests under way`.
    pub(crate) fn words(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Depth => "requests under way",
            By::Rate => "operations started a second",
        }
    }

    /// Returns a level with its name: `2 threads`, `16 under way`.
    pub(super) fn counted(self, count: u64) -> String {
        match self {
            By::Threads => counted(count as usize, "thread"),
            By::Depth => format!("{count} under way"),
            By::Rate => show_rate(count as f64),
        }
    }
}

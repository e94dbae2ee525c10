//! One answer from the runs of many hosts.
//!
//! ```text
//! run of each host ─▶ HostResult ─▶ Fleet (random effects, property that explains) ─▶ text, page, figures, JSON
//! ```

mod assemble;
mod document;
mod host;
mod page;
mod text;

pub use document::{
    Explained, ExplainedGroup, Explanation, Fleet, FleetComparison, FleetHost, HostRatio, LeftOut, SCHEMA, Unmatched,
    VerdictCounts,
};
pub use host::{HostResult, Properties};
pub use page::page;
pub use text::screen;
pub(crate) use text::{change, speed, speed_interval, summary_text};

#[cfg(test)]
mod tests;

//! What rounds tell within the blocks: how much of the scatter is theirs, and whether they are of one kind.

mod scatter;
mod stationarity;

pub use scatter::{RoundLogs, Scatter, scatter};
pub use stationarity::{NotStationary, stationarity};

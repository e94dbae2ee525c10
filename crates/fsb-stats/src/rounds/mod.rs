//! Analyses of the rounds within blocks: their share of the scatter, and whether they are stationary.

mod scatter;
mod stationarity;

pub use scatter::{RoundLogs, Scatter, scatter};
pub use stationarity::{NotStationary, stationarity};

//! Steps of a bisection, and places of a change.

use serde::{Deserialize, Serialize};

/// The purpose of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To show that the ends differ.
    Ends,
    /// To find the place of the change.
    Search,
    /// To confirm the place.
    Confirmation,
}

/// Two candidates that were measured side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    pub purpose: Purpose,
    /// The index of the earlier candidate.
    pub earlier: usize,
    /// The index of the later candidate.
    pub later: usize,
    /// One value for each pair of samples: ln(speed of the later candidate / speed of the earlier
    /// one). Negative values mean that the later one is slower.
    pub log_ratios: Vec<f64>,
}

/// The place of a change: the later candidate is slower, and none between them can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// The index of the last candidate before the change.
    pub earlier: usize,
    /// The index of the first candidate after the change.
    pub later: usize,
}

//! A race: many targets of which one is to be chosen, measured in heats of a few.

use serde::{Deserialize, Serialize};

/// What makes a plan a race. Its targets are the candidates, the first one the reference that is in every heat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Race {
    /// Targets of a heat at most, the reference included: so many are ready at once.
    pub places: u32,
    /// The probability with which the answer may be worse than the best by more than the plan's θ.
    pub error: f64,
    /// What the targets are, in their order.
    pub candidates: Vec<Candidate>,
    /// Candidates that were not raced, and why: what this kernel or the tools refuse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// Heats of a first stage that are fixed beforehand, by the places of their targets in the plan: what options contribute
    /// is told from these alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_stage: Vec<Vec<u32>>,
    /// The options whose effects are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factor>,
}

/// A candidate beside its target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Candidate {
    /// Why it may be faster, or what it is.
    pub why: String,
    /// What may be lost with it; absent where nothing is that the defaults keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// A candidate that was not raced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// The target's name.
    pub name: String,
    /// What refused it, and why.
    pub why: String,
}

/// An option whose effect is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Factor {
    /// As it is written behind the file system's name.
    pub option: String,
    /// Places in the plan of the targets that have it, among those of the first stage.
    pub with: Vec<u32>,
    /// Of those that do not.
    pub without: Vec<u32>,
}

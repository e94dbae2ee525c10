//! A race: it chooses one of many targets, and measures a few of them in each round.

use serde::{Deserialize, Serialize};

/// The parameters of a race. The plan's targets are the candidates. The first one is the baseline, which is in every
/// race round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Race {
    /// The most targets of a race round, the baseline included. All of them are ready at the same time.
    pub places: u32,
    /// The probability with which the answer may be worse than the best by more than the plan's θ.
    pub error: f64,
    /// Descriptions of the targets, in their order.
    pub candidates: Vec<Candidate>,
    /// Candidates that this kernel or the tools refuse, with the reasons. They are not raced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// Race rounds of the first stage, which are fixed beforehand, as places of their targets in the plan. The effects
    /// of options are estimated from these rounds alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_stage: Vec<Vec<u32>>,
    /// The options whose effects are estimated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factor>,
}

/// The description of a candidate, besides its target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Candidate {
    /// The reason why it may be faster, or a description.
    pub why: String,
    /// The data that may be lost with it; absent if it keeps all data that the defaults keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// A candidate that was not raced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// The target's name.
    pub name: String,
    /// The tool or kernel that refused it, and the reason.
    pub why: String,
}

/// An option whose effect is estimated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Factor {
    /// The option as it is written after the file system's name.
    pub option: String,
    /// Places in the plan of the targets that have it, among those of the first stage.
    pub with: Vec<u32>,
    /// Places of the targets of the first stage that do not have it.
    pub without: Vec<u32>,
}

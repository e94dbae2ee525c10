//! The rule by which a run ends, and the reason why it ended, as data. `fsb-report` renders them as
//! text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Repetition;
use crate::plan::{FEWEST_BLOCKS_JUDGED, MOST_BLOCKS};

/// The rule by which a run ends. It is fixed after warm-up, before the first measured block.
///
/// It is an object with the tag `kind` in `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StoppingRule {
    /// A fixed number of blocks, or fewer if a budget ends earlier.
    Blocks {
        /// The requested number of blocks.
        blocks: u32,
        /// The budget in seconds; absent for no budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget_seconds: Option<f64>,
    },
    /// As many blocks as the budget holds.
    Budget {
        /// The budget in seconds.
        budget_seconds: f64,
        /// The largest number of blocks, however long the budget is.
        most_blocks: u32,
        /// The number of blocks that were planned after warm-up.
        planned: u32,
    },
    /// One more block until every interval is narrow enough or the budget ends.
    Precision {
        /// The relative half-width that every interval must reach: 0.02 for ±2 %.
        half_width: f64,
        /// Whether the intervals are those of ratios between targets; otherwise those of the only
        /// target.
        of_ratios: bool,
        /// The number of blocks from which intervals are compared with the half-width.
        fewest_blocks: u32,
        /// The budget in seconds.
        budget_seconds: f64,
        /// The number of blocks that were planned after warm-up.
        planned: u32,
    },
    /// Planned interim analyses: a workload ends at one of them, and the run when all workloads
    /// have ended.
    InterimAnalyses {
        /// The number of blocks that were planned after warm-up.
        planned: u32,
        /// The budget in seconds.
        budget_seconds: f64,
        /// The numbers of blocks after which results are analysed.
        after: Vec<u32>,
        /// The relative half-width at which a workload ends; absent where it ends when it is
        /// decided.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        half_width: Option<f64>,
    },
    /// Race rounds until no candidate can be faster than the leader by more than θ, or until the
    /// budget ends.
    Race {
        /// The number of targets in a round.
        slots: u32,
        /// The expected duration of a round in seconds.
        round_seconds: f64,
        /// The probability of a wrong answer at most.
        error: f64,
    },
    /// A kind of a newer minor version, kept as found.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl StoppingRule {
    /// Returns the rule by which a run of this number of targets ends, once the number of blocks is
    /// planned. `analyses` are the numbers of blocks after which results are analysed.
    pub fn new(
        repetition: Repetition,
        targets: usize,
        planned: u32,
        analyses: &[u32],
    ) -> StoppingRule {
        if !analyses.is_empty() {
            return StoppingRule::InterimAnalyses {
                planned,
                budget_seconds: repetition.budget().unwrap_or_default().as_secs_f64(),
                after: analyses.to_vec(),
                half_width: match repetition {
                    Repetition::Precision { half_width, .. } => Some(half_width),
                    _ => None,
                },
            };
        }
        match repetition {
            Repetition::Blocks { blocks, seconds } => StoppingRule::Blocks {
                blocks,
                budget_seconds: seconds,
            },
            Repetition::Budget { seconds } => StoppingRule::Budget {
                budget_seconds: seconds,
                most_blocks: MOST_BLOCKS,
                planned,
            },
            Repetition::Precision {
                half_width,
                seconds,
            } => StoppingRule::Precision {
                half_width,
                of_ratios: targets > 1,
                fewest_blocks: FEWEST_BLOCKS_JUDGED,
                budget_seconds: seconds,
                planned,
            },
        }
    }
}

/// The workload whose interval is the widest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WidestInterval {
    /// The relative half-width of its 95 % interval: 0.02 for ±2 %. Absent where there are too few
    /// values for an interval.
    pub half_width: Option<f64>,
    /// The label of the workload: `read 1M, cold`.
    pub workload: String,
}

impl WidestInterval {
    /// Returns true if the interval is known and not wider than `half_width`.
    pub fn is_within(&self, half_width: f64) -> bool {
        self.half_width.is_some_and(|found| found <= half_width)
    }
}

/// The reason why a run ended, with the number of blocks (of a race: rounds) that were made.
///
/// It is an object with the tag `kind` in `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StopReason {
    /// The requested number of blocks was made.
    Requested {
        /// Blocks that were made.
        blocks: u32,
    },
    /// As many blocks were made as the budget was planned to hold.
    BudgetPlanned {
        /// Blocks that were made.
        blocks: u32,
        /// Whether that is the largest number that a budget makes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        most: bool,
    },
    /// All planned blocks were made, and some workloads did not end at an interim analysis: they
    /// are not decided, or their intervals are wide.
    Undecided {
        /// Blocks that were made.
        blocks: u32,
        /// The number of workloads that were measured to the end.
        open: usize,
        /// The number of workloads.
        workloads: usize,
    },
    /// Every workload that has values is decided, and its intervals are narrow.
    Decided {
        /// Blocks that were made.
        blocks: u32,
        /// Workloads that no target has a value of.
        #[serde(default, skip_serializing_if = "is_zero")]
        without_values: u32,
    },
    /// Every interval is within the requested half-width.
    Precise {
        /// Blocks that were made.
        blocks: u32,
        /// The requested relative half-width.
        half_width: f64,
        /// Whether the intervals are those of ratios between targets; otherwise those of the only
        /// target.
        of_ratios: bool,
        /// The relative half-width that the widest interval reached; absent where interim analyses
        /// ended the workloads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reached: Option<f64>,
        /// Workloads that no target has a value of.
        #[serde(default, skip_serializing_if = "is_zero")]
        without_values: u32,
    },
    /// The budget held all planned blocks, and the widest interval is wider than requested.
    Imprecise {
        /// Blocks that were made.
        blocks: u32,
        /// The shortfall; absent where no intervals were compared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortfall: Option<Shortfall>,
    },
    /// Another block would have passed the budget.
    BudgetWouldBePassed {
        /// Blocks that were made.
        blocks: u32,
        /// Blocks that were planned.
        planned: u32,
        /// The shortfall; absent where no intervals were compared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortfall: Option<Shortfall>,
    },
    /// The budget ended within a block.
    BudgetCut {
        /// Blocks that were made, the last one not whole.
        blocks: u32,
        /// Blocks that were planned.
        planned: u32,
    },
    /// Every trial failed or was not applicable, in warm-up too.
    Hopeless {
        /// Blocks that were made.
        blocks: u32,
        /// Whether any trial failed; otherwise none applies to these targets.
        failed: bool,
    },
    /// No cell has a value.
    NoValues {
        /// Blocks that were made.
        blocks: u32,
    },
    /// Two targets printed different output at a command whose output must be the same.
    OutputsDiffer {
        /// Blocks that were made.
        blocks: u32,
        /// The label of the workload.
        workload: String,
        /// The two targets.
        targets: [String; 2],
        /// The first line in which they differ, of each; empty if one printed less.
        output: [String; 2],
    },
    /// A race ended.
    Race {
        /// Rounds that were made.
        rounds: u32,
        /// The reason.
        reason: RaceEnd,
    },
    /// A kind of a newer minor version, kept as found.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl StopReason {
    /// Returns the number of blocks that were made. Returns `None` for a race, and if it is
    /// unknown.
    pub fn blocks(&self) -> Option<u32> {
        match self {
            StopReason::Requested { blocks }
            | StopReason::BudgetPlanned { blocks, .. }
            | StopReason::Undecided { blocks, .. }
            | StopReason::Decided { blocks, .. }
            | StopReason::Precise { blocks, .. }
            | StopReason::Imprecise { blocks, .. }
            | StopReason::BudgetWouldBePassed { blocks, .. }
            | StopReason::BudgetCut { blocks, .. }
            | StopReason::Hopeless { blocks, .. }
            | StopReason::OutputsDiffer { blocks, .. }
            | StopReason::NoValues { blocks } => Some(*blocks),
            StopReason::Race { .. } | StopReason::Unknown(_) => None,
        }
    }

    /// Returns whether a number of blocks or a budget ended the run, independently of its results.
    pub fn is_planned(&self) -> bool {
        match self {
            StopReason::Requested { .. }
            | StopReason::BudgetPlanned { .. }
            | StopReason::Undecided { .. }
            | StopReason::Imprecise { .. }
            | StopReason::BudgetWouldBePassed { .. }
            | StopReason::BudgetCut { .. } => true,
            StopReason::Decided { .. }
            | StopReason::Precise { .. }
            | StopReason::Hopeless { .. }
            | StopReason::NoValues { .. }
            | StopReason::OutputsDiffer { .. }
            | StopReason::Race { .. }
            | StopReason::Unknown(_) => false,
        }
    }
}

/// The interim analyses of a run and how it ended, as far as intervals depend on them. The default
/// is a fixed number of blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analyses {
    /// The numbers of blocks after which results are analysed, planned before the first block;
    /// empty for none.
    pub after: Vec<u32>,
    /// The last block of the run.
    pub last_block: u32,
    /// Whether results may have ended the run, or it has not ended; otherwise a number of blocks or
    /// a budget did.
    pub ended_by_results: bool,
}

/// The workload with the widest interval beside the half-width that was requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shortfall {
    /// The workload.
    pub widest: WidestInterval,
    /// The requested relative half-width.
    pub half_width: f64,
}

/// The reason why a race ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RaceEnd {
    /// The baseline cannot be measured, so nothing can be compared with it.
    BaselineFailed {
        /// The name of the baseline's target.
        target: String,
        /// The error.
        error: String,
    },
    /// Every other candidate is significantly slower than the leader.
    OthersSlower,
    /// No candidate that is left can be faster than the leader by more than θ.
    NoneFaster,
    /// Fewer than two candidates are left.
    NoneLeft,
    /// The budget ended.
    Budget,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_reasons_survive_a_round_trip() {
        for reason in [
            StopReason::Requested { blocks: 5 },
            StopReason::Race {
                rounds: 7,
                reason: RaceEnd::OthersSlower,
            },
            StopReason::Imprecise {
                blocks: 9,
                shortfall: Some(Shortfall {
                    widest: WidestInterval {
                        half_width: None,
                        workload: "w".to_owned(),
                    },
                    half_width: 0.02,
                }),
            },
        ] {
            let text = serde_json::to_string(&reason).expect("JSON");
            assert_eq!(
                serde_json::from_str::<StopReason>(&text).expect("a reason"),
                reason,
                "{text}"
            );
        }
        let rule = StoppingRule::Budget {
            budget_seconds: 60.0,
            most_blocks: 30,
            planned: 7,
        };
        let text = serde_json::to_string(&rule).expect("JSON");
        assert_eq!(
            text,
            r#"{"kind":"budget","budget_seconds":60.0,"most_blocks":30,"planned":7}"#
        );
        assert_eq!(
            serde_json::from_str::<StoppingRule>(&text).expect("a rule"),
            rule
        );
    }

    #[test]
    fn a_kind_of_a_newer_version_is_kept_as_found() {
        let text = r#"{"kind":"full_moon","blocks":3}"#;
        let reason: StopReason = serde_json::from_str(text).expect("a reason");
        assert!(matches!(reason, StopReason::Unknown(_)), "{reason:?}");
        assert_eq!(serde_json::to_string(&reason).expect("JSON"), text);
    }
}

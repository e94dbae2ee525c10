//! The results of a run: the contract `fsbench/report/1`, with everything that a report of a run shows.

use std::fmt;

use fsb_model::run::Risk;
use fsb_model::{Better, Unit};
use fsb_stats::compare::{Document, Finding};
use fsb_stats::{
    BlockValue, Comparison, Correlation, Description, Estimate, Interval, NotStationary, Ranking, Resolution, Scatter,
};
use serde::Serialize;

use super::causes::Explanation;
use super::curve::Scaling;
use super::earlier::EarlierRun;
use super::environment::EnvironmentTable;
use super::joined_timeline::JoinedTimeline;
use super::latency::Latency;
use super::published::Published;
use super::withheld::Withheld;
use crate::mark;
use crate::show::NOT_HERE;
use crate::show::Paragraph;

/// A run, ready to be shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The run's name.
    pub name: String,
    /// The suite or plan.
    pub suite: String,
    /// The answer, in one sentence.
    pub headline: String,
    /// The headline without the part about all workloads together.
    #[serde(skip)]
    pub answer: String,
    /// The part of the headline about all workloads together.
    #[serde(skip)]
    pub overall_answer: Option<String>,
    /// The reason why there are numbers but no ranks, verdicts or findings (`emulated: a functional run`); absent if
    /// results are judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// Whether processors were emulated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The baseline: the target that the others are compared with, a place in `targets`.
    pub reference: usize,
    /// The targets that were compared.
    pub targets: Vec<TargetSummary>,
    /// One row per workload, in the plan's order.
    pub rows: Vec<Workload>,
    /// Labels of the workloads that the budget left out: they have no row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// All workloads together, by target; absent for the baseline and for targets without a comparison.
    pub overall: Vec<Option<Overall>>,
    /// The correlation of neighbouring blocks, pooled over all workloads; absent if the blocks do not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlation>,
    /// Measured blocks that have trials.
    pub blocks: u32,
    /// Advice on deciding the undecided rows.
    pub advice: Option<String>,
    /// The run in a line, part by part: medium, kernel, blocks, seed, time.
    pub facts: Vec<String>,
    /// The reason why the run ended, if a budget or a precision determined the number of blocks.
    pub stopped: Option<String>,
    /// Whether `stopped` is one of the warnings.
    #[serde(skip)]
    pub ended_early: bool,
    /// The difference to the last run of the same plan on this machine; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierRun>,
    /// The trust in the numbers; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// The warnings: first those that a reader must act on, then those that `trust` sums up.
    pub warnings: Vec<String>,
    /// The number of warnings, from the first, that `trust` does not sum up.
    #[serde(skip)]
    pub urgent: usize,
    /// Trials, cells and targets without a value, with their reasons.
    pub problems: Vec<String>,
    /// The machine, the targets and the controls, requested beside observed.
    pub environment: Vec<EnvironmentTable>,
    /// The methods behind the numbers.
    pub method: Vec<Paragraph>,
    /// Published values beside ours.
    pub published: Option<Published>,
    /// Rows that are curves over threads, requests under way or rates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scaling>,
    /// The causes of significant differences from the baseline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
    /// The findings in a matrix of sizes, for any two targets; absent without a matrix, or if nothing was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// The matrix of sizes as a comparison of targets, for charts over sizes; absent without a matrix.
    #[serde(skip)]
    pub matrix: Option<Document>,
}

/// The trust in the numbers of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trust {
    /// The level of trust.
    pub level: TrustLevel,
    /// The reasons, the strongest first.
    pub because: Vec<String>,
    /// The command or action that raises it. `None` at the highest level and if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// The level of trust in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrustLevel {
    /// Something else was measured along with the targets, or the data are too few: no case is judged.
    Low,
    /// Interference affected some trials, values vary or drift, or some cases are not judged.
    Fair,
    /// Nothing relevant was found.
    High,
}

impl fmt::Display for TrustLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrustLevel::Low => "low",
            TrustLevel::Fair => "fair",
            TrustLevel::High => "high",
        })
    }
}

impl Trust {
    /// `trust: low, because CPU steal 58 % affected 86 of 96 trials`: the level with the strongest reason.
    pub(crate) fn line(&self) -> String {
        format!("trust: {}, because {}", self.level, self.because[0])
    }
}

/// The target of one column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetSummary {
    /// Its name.
    pub name: String,
    /// The file system, or the directory.
    pub what: String,
    /// The name of its file system, if it has one.
    pub file_system: Option<String>,
    /// The reason why nothing could be measured on it.
    pub failed: Option<String>,
    /// The reason why it has numbers but is not ranked beside others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// The reason why this machine cannot make it, if the plan says that some machines cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// The reasons why it is unsafe: data that it reports as synced may be lost. Empty for a safe target.
    #[serde(rename = "unsafe", skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<Risk>,
    /// Whether it may win: an unsafe target beside safe ones may not, unless the plan says so.
    pub may_win: bool,
}

impl TargetSummary {
    /// The name with the mark of an unsafe target, as every output shows it.
    pub fn label(&self) -> String {
        mark::name(&self.name, &self.risks)
    }
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Workload {
    /// Its label.
    pub workload: String,
    /// The operation on a file.
    pub operation: String,
    /// Whether its data must be on the device when the clock stops.
    pub durable: bool,
    /// The roles of machines whose work it resembles: `mail server`.
    #[serde(skip)]
    pub roles: Vec<&'static str>,
    /// The metric that targets are compared by.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The direction that is good.
    pub better: Better,
    /// One cell per target, in their order.
    pub cells: Vec<Measured>,
    /// Every pair, letters and the outcome.
    pub ranking: Ranking,
    /// The size of the difference that remains possible; absent if a target wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// The reason why nothing is judged although there are enough values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// The conclusion that the data support, in a sentence.
    pub finding: String,
}

/// One target at one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Whether it has values, and why not.
    pub state: State,
    /// The estimate, if there are values.
    pub estimate: Option<Estimate>,
    /// The comparison with the baseline; absent for the baseline itself.
    pub against: Option<Comparison>,
    /// Letters of the ranking, then `†` if the difference from the baseline is not confirmed, or else `?` if the row
    /// has no winner and this target may be the fastest.
    pub mark: String,
    /// The sources of the scatter of the ratio to the baseline; absent if there were no rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scatter: Option<Scatter>,
    /// The differences between its samples; absent if they are all of one kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_stationary: Option<NotStationary>,
    /// Trials with a value, in run order.
    pub trials: Vec<TrialPoint>,
    /// Trials without a value.
    pub lost: Vec<Lost>,
    /// Latencies and costs.
    pub secondary: Vec<Secondary>,
    /// Latencies by operation, of all trials together.
    pub latency: Vec<Latency>,
    /// The timeline of one trial; absent if none lasted. The record contains it in full.
    #[serde(skip)]
    pub timeline: Option<JoinedTimeline>,
}

/// Whether a cell has values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum State {
    /// It has values.
    Measured,
    /// The workload does not apply to this target.
    NotApplicable(String),
    /// This machine cannot make the target, and the plan says that some machines cannot.
    Unavailable(String),
    /// Every trial failed.
    Failed(String),
    /// Every trial failed a validity check.
    Invalid(String),
    /// No trial exists.
    Missing(String),
}

/// A trial with a value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialPoint {
    /// The block.
    pub block: u32,
    /// The place in run order.
    pub order: u32,
    /// The value in base units.
    pub value: f64,
    /// Beyond Tukey's fences.
    pub outlier: bool,
    /// The slice of the medium, if targets exchange slices. Numbers continue over the segments of a resumed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// As in [`BlockValue::within`].
    #[serde(skip)]
    pub within: Option<f64>,
    /// Nanoseconds of all its samples; 0 if it has none.
    #[serde(skip)]
    pub timed_ns: u64,
}

/// A trial without a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lost {
    /// The block.
    pub block: u32,
    /// The place in run order.
    pub order: u32,
    /// The reason: `failed: No space left on device`.
    pub reason: String,
}

/// A metric beside the one that targets are compared by.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Secondary {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The direction that is good.
    pub better: Better,
    /// Its values over the trials, on the plain scale (costs may be zero).
    pub description: Description,
    /// 95 % t-interval of the mean; absent where not judged.
    pub interval: Option<Interval>,
    /// The comparison of a cost with that of the baseline, or of a rate with deferred work with the rate without it.
    /// Corrected for all such comparisons of the page. Absent for other metrics and if not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
    /// The values that a comparison rests on. Empty if the metric is not compared.
    #[serde(skip)]
    pub(crate) points: Vec<BlockValue>,
}

/// All workloads together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overall {
    /// The geometric mean of speed ratios, equal weights; more than 1 is faster.
    pub comparison: Comparison,
    /// The number of workloads: those at which both targets have values.
    pub workloads: usize,
}

impl Summary {
    /// Returns the label of the baseline.
    pub fn reference_name(&self) -> String {
        self.targets.get(self.reference).map_or_else(String::new, TargetSummary::label)
    }

    /// Returns whether any row is ranked.
    pub fn is_judged(&self) -> bool {
        self.rows.iter().any(|row| row.ranking.letters.iter().any(Option::is_some))
    }

    /// Returns whether any cell has a value.
    pub(crate) fn has_values(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.estimate.is_some())
    }

    /// Returns whether there are several targets.
    pub fn is_comparison(&self) -> bool {
        self.targets.len() > 1
    }

    /// Returns whether targets are compared with each other at all.
    pub fn compares(&self) -> bool {
        self.is_comparison() && self.unjudged.is_none()
    }
}

impl Workload {
    /// Returns whether any target has a value.
    pub(crate) fn has_values(&self) -> bool {
        self.cells.iter().any(|cell| cell.estimate.is_some())
    }

    /// Returns the operations whose latencies are known, in the order in which targets record them.
    pub(crate) fn timed_operations(&self) -> Vec<&str> {
        let mut operations: Vec<&str> = Vec::new();
        for latency in self.cells.iter().flat_map(|cell| &cell.latency) {
            if !operations.contains(&latency.operation.as_str()) {
                operations.push(&latency.operation);
            }
        }
        operations
    }
}

impl Measured {
    /// Returns the values of its trials, as comparisons take them.
    pub(crate) fn values(&self) -> Vec<BlockValue> {
        let value =
            |&TrialPoint { block, value, part, within, .. }: &TrialPoint| BlockValue { block, value, part, within };
        self.trials.iter().map(value).collect()
    }

    /// Returns a metric beside the one that targets are compared by.
    pub(crate) fn beside(&self, metric: &str) -> Option<&Secondary> {
        self.secondary.iter().find(|secondary| secondary.metric == metric)
    }

    /// Returns the reason for a missing value as a short word for a table: `not applicable`, `failed`.
    pub fn absence(&self) -> Option<&'static str> {
        match self.state {
            State::Measured => None,
            State::NotApplicable(_) => Some("not applicable"),
            State::Unavailable(_) => Some(NOT_HERE),
            State::Failed(_) => Some("failed"),
            State::Invalid(_) => Some("invalid"),
            State::Missing(_) => Some("not measured"),
        }
    }

    /// Returns the reason for a missing value, in full.
    pub fn reason(&self) -> Option<&str> {
        match &self.state {
            State::Measured => None,
            State::NotApplicable(reason)
            | State::Unavailable(reason)
            | State::Failed(reason)
            | State::Invalid(reason)
            | State::Missing(reason) => Some(reason),
        }
    }
}

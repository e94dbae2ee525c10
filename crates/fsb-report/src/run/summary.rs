//! What a run found: the contract `fsbench/report/1`, and all that a report of a run says.

use std::fmt;

use fsb_model::run::Risk;
use fsb_model::{Better, Unit};
use fsb_stats::compare::Finding;
use fsb_stats::{
    BlockValue, Comparison, Correlation, Description, Estimate, Interval, NotStationary, Ranking, Resolution, Scatter,
};
use serde::Serialize;

use super::course::Course;
use super::curve::Scaling;
use super::earlier::EarlierRun;
use super::environment::EnvironmentTable;
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
    /// That part.
    #[serde(skip)]
    pub overall_answer: Option<String>,
    /// Why there are numbers but no ranks, verdicts or findings; absent where there are: `emulated: a functional run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// Processors were emulated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The target that the others are compared with, a place in `targets`.
    pub reference: usize,
    /// What was compared.
    pub targets: Vec<TargetSummary>,
    /// One row a workload, in the plan's order.
    pub rows: Vec<Workload>,
    /// Labels of the workloads that the budget left out: they have no row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// All workloads together, by target; absent for the reference and where nothing can be said.
    pub overall: Vec<Option<Overall>>,
    /// The correlation of neighbouring blocks, pooled over all workloads; absent where no blocks tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlation>,
    /// Measured blocks that have trials.
    pub blocks: u32,
    /// What would settle the undecided rows.
    pub advice: Option<String>,
    /// The run in a line, part by part: medium, kernel, blocks, seed, time.
    pub facts: Vec<String>,
    /// How many blocks were made and why no more, where a budget or a precision decided it.
    pub stopped: Option<String>,
    /// Whether `stopped` is one of the warnings.
    #[serde(skip)]
    pub ended_early: bool,
    /// The difference to the last run of the same plan on this machine; absent where none was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierRun>,
    /// How far the numbers can be trusted; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// What the reader must know: first what somebody must act on, then what `trust` sums up.
    pub warnings: Vec<String>,
    /// So many of the warnings are not summed up by `trust`.
    #[serde(skip)]
    pub urgent: usize,
    /// Trials, cells and targets without a value, with their reasons.
    pub problems: Vec<String>,
    /// The machine, the targets and the controls, requested beside observed.
    pub environment: Vec<EnvironmentTable>,
    /// How the numbers were made.
    pub method: Vec<Paragraph>,
    /// Published values beside ours.
    pub published: Option<Published>,
    /// Rows that are curves over threads or requests under way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scaling>,
    /// What a matrix of sizes shows of any two targets; absent where there is none, or nothing was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
}

/// How far the numbers of a run can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trust {
    /// How far.
    pub level: TrustLevel,
    /// Why, the strongest reasons first.
    pub because: Vec<String>,
    /// The command or action that raises it. `None` at the highest level and if none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// How far numbers can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrustLevel {
    /// Something else was measured along with the targets, or there is too little of everything: no case is judged.
    Low,
    /// Interference affected some trials, values vary or drift, or some cases are not judged.
    Fair,
    /// Nothing was met that matters.
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

/// What one column is measured on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetSummary {
    /// Its name.
    pub name: String,
    /// The file system, or the directory.
    pub what: String,
    /// The name of its file system, where it has one.
    pub file_system: Option<String>,
    /// Why nothing could be measured on it.
    pub failed: Option<String>,
    /// Why it has numbers but is not ranked beside others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// Why this machine cannot make it, where the plan said that some cannot.
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
    /// What it does to a file.
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
    /// Which way is good.
    pub better: Better,
    /// One cell a target, in their order.
    pub cells: Vec<Measured>,
    /// Every pair, letters and the outcome.
    pub ranking: Ranking,
    /// Where nobody wins: how large a difference could still be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// The reason why nothing is judged although there are values enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// What the data support, in a sentence.
    pub finding: String,
}

/// One target at one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Whether it has values, and why not.
    pub state: State,
    /// The estimate, where there are values.
    pub estimate: Option<Estimate>,
    /// Compared with the reference; absent for the reference itself.
    pub against: Option<Comparison>,
    /// Letters of the ranking; behind them `†` where the difference from the reference is not confirmed, or else `?` where the row has
    /// no winner and this target may be the fastest.
    pub mark: String,
    /// Where the scatter of the ratio to the reference comes from; absent where there were no rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scatter: Option<Scatter>,
    /// How its stretches differ from each other; absent where they are all of one kind.
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
    /// One trial over time; absent where none lasted. It stands in full in the record.
    #[serde(skip)]
    pub course: Option<Course>,
}

/// Whether a cell has values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum State {
    /// It has.
    Measured,
    /// It makes no sense on this target.
    NotApplicable(String),
    /// This machine cannot make the target, and the plan said that some cannot.
    Unavailable(String),
    /// Every trial failed.
    Failed(String),
    /// Every trial failed a proof.
    Invalid(String),
    /// No trial was made.
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
    /// The part of the medium, where targets exchange parts; counted on over the segments of a resumed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// As in [`BlockValue::within`].
    #[serde(skip)]
    pub within: Option<f64>,
    /// Nanoseconds of all its samples; 0 where it has none.
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
    /// Why: `failed: No space left on device`.
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
    /// Which way is good.
    pub better: Better,
    /// Its values over the trials, on the plain scale (costs may be zero).
    pub description: Description,
    /// 95 % t-interval of the mean; absent where not judged.
    pub interval: Option<Interval>,
    /// Costs that the first screen compares: against the reference's; of a rate with deferred work, against the rate
    /// without. Corrected for all such comparisons of the page. Absent for other metrics and where not compared.
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
    /// Over how many workloads: those where both targets have values.
    pub workloads: usize,
}

impl Summary {
    /// The label of the target that the others are compared with.
    pub fn reference_name(&self) -> String {
        self.targets.get(self.reference).map_or_else(String::new, TargetSummary::label)
    }

    /// Whether any row is ranked.
    pub fn is_judged(&self) -> bool {
        self.rows.iter().any(|row| row.ranking.letters.iter().any(Option::is_some))
    }

    /// Whether any cell has a value.
    pub(crate) fn has_values(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.estimate.is_some())
    }

    /// Whether there are several targets.
    pub fn is_comparison(&self) -> bool {
        self.targets.len() > 1
    }

    /// Whether targets are set against each other at all.
    pub fn compares(&self) -> bool {
        self.is_comparison() && self.unjudged.is_none()
    }
}

impl Workload {
    /// Whether any target has a value.
    pub(crate) fn has_values(&self) -> bool {
        self.cells.iter().any(|cell| cell.estimate.is_some())
    }

    /// The operations whose latencies are known, in the order in which targets record them.
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
    /// The values of its trials, as comparisons take them.
    pub(crate) fn values(&self) -> Vec<BlockValue> {
        let value =
            |&TrialPoint { block, value, part, within, .. }: &TrialPoint| BlockValue { block, value, part, within };
        self.trials.iter().map(value).collect()
    }

    /// A metric beside the one that targets are compared by.
    pub(crate) fn beside(&self, metric: &str) -> Option<&Secondary> {
        self.secondary.iter().find(|secondary| secondary.metric == metric)
    }

    /// Why there is no value, as a short word for a table: `not applicable`, `failed`.
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

    /// Why there is no value, in full.
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

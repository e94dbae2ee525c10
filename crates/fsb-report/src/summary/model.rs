//! The results of a run, with the schema `fsbench/report/1`. They contain everything that a report
//! of a run shows.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use fsb_model::run::Risk;
use fsb_model::storage::Promise;
use fsb_model::units::show_rate;
use fsb_model::{Better, Unit};
use fsb_stats::compare::{Document, Finding};
use fsb_stats::{
    BlockValue, Comparison, Correlation, Description, Estimate, Interval, Knee, NotStationary,
    Ranking, Resolution, Scatter,
};
use serde::Serialize;

use super::causes::Explanation;
use super::claims::PublishedClaims;
use super::environment::EnvironmentTable;
use super::latency::{Latency, Quantile};
use super::published::Published;
use super::timeline::{JoinedTimeline, WarmUps};
use super::traced::TracedExplanation;
use super::trial_value::Cycles;
use super::withheld::Withheld;
use crate::mark;
use crate::releases::Fact;
use crate::show::{Change, NOT_HERE, Paragraph, counted, percent};

/// A run, ready to be shown: its numbers, and the sentences about them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The numbers.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// The answer, in one sentence.
    pub headline: String,
    /// The headline without the part about all workloads together.
    #[serde(skip)]
    pub answer: String,
    /// The part of the headline about all workloads together.
    #[serde(skip)]
    pub overall_answer: Option<String>,
    /// Advice on deciding the undecided cases.
    pub advice: Option<String>,
    /// The run in a line, part by part: medium, kernel, blocks, seed, time.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub facts: Vec<Fact>,
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
    /// Published statements beside the same quantities of the run; absent without any about its
    /// operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<PublishedClaims>,
    /// The findings in a matrix of sizes, for any two targets; absent without a matrix, or if
    /// nothing was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// The matrix of sizes as a comparison of targets, for charts over sizes; absent without a
    /// matrix.
    #[serde(skip)]
    pub matrix: Option<Document>,
}

impl Summary {
    /// Returns the comparisons of the order of the file systems with published ones, a sentence
    /// each.
    pub fn published_orders(&self) -> Vec<&str> {
        let of_table = self
            .published
            .as_ref()
            .and_then(|table| table.order.as_ref());
        let of_claims = self
            .claims
            .as_ref()
            .and_then(|claims| claims.order.as_ref());
        let orders = of_table.into_iter().chain(of_claims);
        orders.map(|order| order.text.as_str()).collect()
    }
}

impl Deref for Summary {
    type Target = Numbers;

    fn deref(&self) -> &Numbers {
        &self.numbers
    }
}

/// The numbers of a run, from which every sentence about it follows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Numbers {
    /// The run's name.
    pub name: String,
    /// The suite or plan.
    pub suite: String,
    /// The reason why there are numbers but no ranks, verdicts or findings (`emulated: a functional
    /// run`); absent if results are judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// Whether processors were emulated.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The baseline: the target that the others are compared with, a place in `targets`.
    pub baseline: usize,
    /// The targets that were compared.
    pub targets: Vec<TargetSummary>,
    /// One case per workload, in the plan's order.
    pub cases: Vec<Workload>,
    /// Labels of the workloads that the budget left out: they have no case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// All workloads together, by target; absent for the baseline and for targets without a
    /// comparison.
    pub overall: Vec<Option<Overall>>,
    /// The correlation of neighbouring blocks, pooled over all workloads; absent if the blocks do
    /// not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Correlation>,
    /// Measured blocks that have trials.
    pub blocks: u32,
    /// Seconds of a block; absent if times are not known.
    #[serde(skip)]
    pub per_block: Option<f64>,
    /// Cases that are curves over threads, requests under way or rates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scaling>,
    /// Cases that were measured alone and beside a background.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<BesideBackground>,
    /// The causes of significant differences from the baseline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
    /// The classes of time that significant differences consist of; only of a run with traced
    /// blocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traced_explanations: Vec<TracedExplanation>,
    /// The number of traced blocks; absent if the run had none to make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traced_blocks: Option<u32>,
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
    /// Something else was measured along with the targets, or the data are too few: no case is
    /// judged.
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
    /// Returns the level with its strongest reason, such as `trust: low, because CPU steal 58 %
    /// affected 86 of 96 trials`.
    pub(crate) fn line(&self) -> String {
        format!("trust: {}, because {}", self.level, self.because[0])
    }
}

/// The target of one column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetSummary {
    /// The name.
    pub name: String,
    /// The file system, or the directory.
    pub what: String,
    /// The name of its file system, if it has one.
    pub file_system: Option<String>,
    /// Whether its times are simulated, so that they say nothing of a file system.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// The place among the targets of the one beneath it: the same file system without the FUSE
    /// server over it. Absent if the run does not have that target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<usize>,
    /// The reason why nothing could be measured on it.
    pub failed: Option<String>,
    /// The reason why it has numbers but is not ranked beside others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// The reason why this machine cannot make it, if the plan says that some machines cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// The reasons why it is unsafe: data that it reports as synced may be lost. Empty for a safe
    /// target.
    #[serde(rename = "unsafe", skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<Risk>,
    /// Whether it may win: an unsafe target beside safe ones may not, unless the plan says so.
    pub may_win: bool,
}

impl TargetSummary {
    /// Returns the name with the mark of an unsafe target, as every output shows it.
    pub fn label(&self) -> String {
        mark::name(&self.name, &self.risks)
    }
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Workload {
    /// The label.
    pub workload: String,
    /// The operation on a file.
    pub operation: String,
    /// Whether its data must be on the device when the clock stops.
    pub durable: bool,
    /// The roles of machines whose work it resembles: `mail server`.
    #[serde(skip)]
    pub roles: Vec<&'static str>,
    /// The bound of its 99th percentile, in seconds.
    #[serde(skip)]
    pub p99_below: Option<f64>,
    /// The metric that targets are compared by.
    pub metric: String,
    /// The unit.
    pub unit: Unit,
    /// The direction that is good.
    pub better: Better,
    /// One cell per target, in their order.
    pub cells: Vec<MeasuredCell>,
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
pub struct MeasuredCell {
    /// Whether it has values, and why not.
    pub state: CellState,
    /// The estimate, if there are values.
    pub estimate: Option<Estimate>,
    /// The comparison with the baseline; absent for the baseline itself.
    pub against: Option<Comparison>,
    /// Whether its 99th percentile is below the bound of the case; absent without a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundAnswer>,
    /// The promises of the case's name that the target has not been shown to keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Promise>,
    /// Letters of the ranking, then `†` if the difference from the baseline is not confirmed, or
    /// else `?` if the case has no winner and this target may be the fastest.
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
    /// The warm-up of the cache; absent for workloads other than `cache-warm-up`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUps>,
    /// The cycles of the first trial; absent for workloads other than the micro-benchmarks of 2023.
    #[serde(skip)]
    pub cycles: Option<Cycles>,
}

/// The answer of one target to the bound of a case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundAnswer {
    /// The bound in seconds.
    pub below: f64,
    /// The answer.
    pub state: BoundState,
    /// Further seconds after which there probably is an answer. Absent if there is one, and if no
    /// time is known to be enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// Whether the 99th percentile is below the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BoundState {
    /// Its whole interval is.
    Pass,
    /// Its whole interval is above.
    Fail,
    /// The interval contains the bound, or there is none.
    CannotTell,
}

/// Whether a cell has values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum CellState {
    /// The cell has values.
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
    /// The slice of the medium, if targets exchange slices. Numbers continue over the segments of a
    /// resumed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<u32>,
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
    /// The name.
    pub metric: String,
    /// The unit.
    pub unit: Unit,
    /// The direction that is good.
    pub better: Better,
    /// The values over the trials, on the plain scale (costs may be zero).
    pub description: Description,
    /// 95 % t-interval of the mean; absent where not judged.
    pub interval: Option<Interval>,
    /// The comparison of a cost with that of the baseline, or of a rate with deferred work with the
    /// rate without it. Corrected for all such comparisons of the page. Absent for other metrics
    /// and if not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
    /// The values that a comparison rests on. Empty if the metric is not compared.
    #[serde(skip)]
    pub(crate) points: Vec<BlockValue>,
}

/// A case beside a background, against the same case alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BesideBackground {
    /// The case alone, a place in `rows`.
    pub alone: usize,
    /// The case beside the background, a place in `rows`.
    pub beside: usize,
    /// The label of the background.
    pub background: String,
    /// Whether operations start at a rate whether or not earlier ones have ended. Otherwise an
    /// operation that stalls keeps later ones from starting, and percentiles miss their waits.
    pub open_loop: bool,
    /// One entry per target; absent if one of the two cases has no value on it.
    pub targets: Vec<Option<Slowdown>>,
}

/// The effect of a background on one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slowdown {
    /// The time of an operation beside the background over that alone, by block.
    pub time: Comparison,
    /// The value alone, in the unit of the case.
    pub alone: f64,
    /// The value beside the background, in the unit of the case.
    pub beside: f64,
    /// The median latency, and the highest percentile that the operations of every block permit.
    pub quantiles: Vec<QuantileSlowdown>,
    /// The longest operation of all blocks; absent if latencies are not known. It is a maximum, so
    /// it has no interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<AloneAndBeside>,
    /// The work of the background itself; absent if no trial records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundRate>,
    /// The slowdown `time` over that of the baseline target, by block; absent for the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
}

/// A percentile of the latency beside a background, against that alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuantileSlowdown {
    /// The share of operations that took at most this time.
    pub q: f64,
    /// Geometric means over the blocks.
    pub seconds: AloneAndBeside,
    /// Beside the background over alone, by block.
    pub ratio: Comparison,
}

/// Seconds of a case alone and beside its background.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AloneAndBeside {
    /// Alone.
    pub alone: f64,
    /// Beside the background.
    pub beside: f64,
}

/// The rates of a background while a case was measured beside it, all blocks together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackgroundRate {
    /// Operations per second.
    pub operations: f64,
    /// Bytes per second; 0 for a command.
    pub bytes: f64,
    /// CPU seconds per second.
    pub cpu: f64,
    /// The rates while it ran without the case; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone: Option<RateAlone>,
}

/// The rates of a background without a case, all blocks together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateAlone {
    /// Operations per second.
    pub operations: f64,
    /// Bytes per second; 0 for a command.
    pub bytes: f64,
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

impl Numbers {
    /// Returns the label of the baseline.
    pub fn baseline_name(&self) -> String {
        self.targets
            .get(self.baseline)
            .map_or_else(String::new, TargetSummary::label)
    }

    /// Returns whether any case is ranked.
    pub fn is_judged(&self) -> bool {
        self.cases
            .iter()
            .any(|case| case.ranking.letters.iter().any(Option::is_some))
    }

    /// Returns whether any cell has a value.
    pub(crate) fn has_values(&self) -> bool {
        self.cells().any(|cell| cell.estimate.is_some())
    }

    /// Returns the label of each target.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.targets.iter().map(TargetSummary::label).collect()
    }

    /// Returns the cells of all cases.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &MeasuredCell> {
        self.cases.iter().flat_map(|case| &case.cells)
    }

    /// Returns the cells of a case, each with its target.
    pub(crate) fn cells_of<'a>(
        &'a self,
        case: &'a Workload,
    ) -> impl Iterator<Item = (&'a TargetSummary, &'a MeasuredCell)> + Clone {
        self.targets.iter().zip(&case.cells)
    }

    /// Returns the estimates of all cells that have values.
    pub(crate) fn estimates(&self) -> impl Iterator<Item = &Estimate> {
        self.cells().filter_map(|cell| cell.estimate.as_ref())
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

impl MeasuredCell {
    /// Returns the values of its trials, as comparisons take them.
    pub(crate) fn values(&self) -> Vec<BlockValue> {
        self.trials
            .iter()
            .map(
                |&TrialPoint {
                     block,
                     value,
                     slice,
                     within,
                     ..
                 }| BlockValue {
                    block,
                    value,
                    slice,
                    within,
                },
            )
            .collect()
    }

    /// Returns the curve of an operation's latencies; empty if they are not known.
    pub(crate) fn latency_curve(&self, operation: &str) -> &[Quantile] {
        let found = self
            .latency
            .iter()
            .find(|latency| latency.operation == operation);
        found.map_or(&[], |latency| &latency.curve)
    }

    /// Returns a metric beside the one that targets are compared by.
    pub(crate) fn beside(&self, metric: &str) -> Option<&Secondary> {
        self.secondary
            .iter()
            .find(|secondary| secondary.metric == metric)
    }

    /// Returns the reason for a missing value as a short word for a table: `not applicable`,
    /// `failed`.
    pub fn absence(&self) -> Option<&'static str> {
        match self.state {
            CellState::Measured => None,
            CellState::NotApplicable(_) => Some("not applicable"),
            CellState::Unavailable(_) => Some(NOT_HERE),
            CellState::Failed(_) => Some("failed"),
            CellState::Invalid(_) => Some("invalid"),
            CellState::Missing(_) => Some("not measured"),
        }
    }

    /// Returns the reason for a missing value, in full.
    pub fn reason(&self) -> Option<&str> {
        match &self.state {
            CellState::Measured => None,
            CellState::NotApplicable(reason)
            | CellState::Unavailable(reason)
            | CellState::Failed(reason)
            | CellState::Invalid(reason)
            | CellState::Missing(reason) => Some(reason),
        }
    }
}

/// Cases of a page that form one curve per target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scaling {
    /// The workload without the number that varies: `create 4K files, durable`.
    pub what: String,
    /// The parameter that varies.
    pub by: By,
    /// The values of that parameter, rising.
    pub levels: Vec<u64>,
    /// The indices of its cases, in the order of the levels.
    pub cases: Vec<usize>,
    /// The level beyond which each target's curve shows no gain, in the order of targets; absent if
    /// too little is known.
    pub knees: Vec<Option<Knee>>,
    /// The number of seconds below which the plan wants the 99th percentile to stay; for rates
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// For rates: the index of the highest level up to which each target keeps up with all levels,
    /// in the order of targets; absent if it keeps up with none.
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
    /// Ranks of an MPI job.
    Ranks,
    /// Requests under way.
    Depth,
    /// Operations started per second.
    Rate,
}

impl By {
    pub(super) const ALL: [By; 4] = [By::Threads, By::Ranks, By::Depth, By::Rate];

    /// Returns the name of the parameter.
    pub(super) fn key(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Ranks => "ranks",
            By::Depth => "depth",
            By::Rate => "rate",
        }
    }

    /// Returns the name in words: `threads`, `requests under way`.
    pub(crate) fn words(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Ranks => "ranks",
            By::Depth => "requests under way",
            By::Rate => "operations started a second",
        }
    }

    /// Returns a level with its name: `2 threads`, `16 under way`.
    pub(super) fn counted(self, count: u64) -> String {
        match self {
            By::Threads => counted(count as usize, "thread"),
            By::Ranks => counted(count as usize, "rank"),
            By::Depth => format!("{count} under way"),
            By::Rate => show_rate(count as f64),
        }
    }
}

/// The difference between this run and an earlier run of the same plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlierRun {
    /// When the earlier run began, RFC 3339 in UTC.
    pub started: String,
    /// The number of cases that have values in both runs.
    pub cases: usize,
    /// The median of the differences, as a share: 0.03 for 3 %.
    pub median: f64,
    /// The cell that differs most.
    pub most: CellChange,
}

/// One cell in two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellChange {
    /// The label of the case.
    pub workload: String,
    /// The target.
    pub target: String,
    /// The earlier run's value.
    pub then: CellValue,
    /// This run's value.
    pub now: CellValue,
}

/// The quantity that two runs are compared by.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CellValue {
    /// The ratio to the baseline, of a run with several targets.
    Ratio(f64),
    /// The value of the only target, and its text.
    Value(f64, String),
}

impl CellValue {
    pub(super) fn number(&self) -> f64 {
        match self {
            CellValue::Ratio(value) | CellValue::Value(value, _) => *value,
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            CellValue::Ratio(ratio) => Change::between(*ratio, None).center,
            CellValue::Value(_, text) => text.clone(),
        }
    }
}

impl CellChange {
    /// Returns the absolute difference of the logarithms.
    pub(super) fn distance(&self) -> f64 {
        (self.now.number() / self.then.number()).ln().abs()
    }
}

impl EarlierRun {
    /// Returns text such as `the run of 2026-11-24 15:30 UTC differed by 3 % (median over 12
    /// cases), most at create, 2 threads: xfs −3 % then, −11 % now`.
    pub(crate) fn line(&self) -> String {
        let CellChange {
            workload,
            target,
            then,
            now,
        } = &self.most;
        let when = self
            .started
            .get(..16)
            .unwrap_or(&self.started)
            .replace('T', " ");
        let median = percent((self.median * 1e3).round() / 1e3);
        let cases = counted(self.cases, "case");
        let (then, now) = (then.text(), now.text());
        if self.cases == 1 {
            return format!(
                "the run of {when} UTC differed by {median}: {target} {then} then, {now} now"
            );
        }
        format!(
            "the run of {when} UTC differed by {median} (median over {cases}), most at {workload}: {target} {then} then, \
             {now} now"
        )
    }
}

/// The largest number of trials that a page shows one by one. A page of 400,000 trials had 147 MB:
/// no browser scrolls through that, and no chart can draw it.
pub(crate) const MOST_TRIALS: usize = 20_000;
/// The largest number of medians that the page of a run with more trials shows: with them it has
/// less than 3 MB.
const MOST_MEDIANS: usize = 4_000;

/// Values of one target in consecutive blocks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockGroup {
    /// The first block and the last one that has a value.
    pub(crate) blocks: (u32, u32),
    /// The number of values.
    pub(crate) n: usize,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Returns the number of blocks of which a page shows the median: 1 if it shows every trial.
pub(crate) fn group_size(cases: &[Workload]) -> u32 {
    size_of(
        cases
            .iter()
            .flat_map(|case| &case.cells)
            .map(|cell| cell.trials.len() + cell.lost.len())
            .sum(),
    )
}

fn size_of(trials: usize) -> u32 {
    if trials <= MOST_TRIALS {
        return 1;
    }
    u32::try_from(trials.div_ceil(MOST_MEDIANS)).unwrap_or(u32::MAX)
}

/// Returns the number of the group that a block belongs to.
fn group_number(block: u32, size: u32) -> u32 {
    block.saturating_sub(1) / size
}

impl BlockGroup {
    /// Returns the groups of one target's trials by their number.
    pub(crate) fn by_number(trials: &[TrialPoint], size: u32) -> BTreeMap<u32, BlockGroup> {
        let mut members: BTreeMap<u32, Vec<&TrialPoint>> = BTreeMap::new();
        for point in trials {
            members
                .entry(group_number(point.block, size))
                .or_default()
                .push(point);
        }
        members
            .into_iter()
            .filter_map(|(number, points)| Some((number, BlockGroup::from_points(&points)?)))
            .collect()
    }

    fn from_points(points: &[&TrialPoint]) -> Option<BlockGroup> {
        let values: Vec<f64> = points.iter().map(|point| point.value).collect();
        let blocks = points.iter().map(|point| point.block);
        Some(BlockGroup {
            blocks: (blocks.clone().min()?, blocks.max()?),
            n: values.len(),
            median: fsb_stats::quantile(&values, 0.5).ok()?,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_every_trial_up_to_the_limit_and_medians_above() {
        assert_eq!([0, 1, MOST_TRIALS].map(size_of), [1, 1, 1]);
        assert_eq!([MOST_TRIALS + 1, 400_000].map(size_of), [6, 100]);
    }

    #[test]
    fn groups_hold_consecutive_blocks() {
        let point = |block: u32, value| TrialPoint {
            block,
            order: block,
            value,
            outlier: false,
            slice: None,
            within: None,
            timed_ns: 0,
        };
        let trials = [
            point(1, 3.0),
            point(2, 1.0),
            point(3, 9.0),
            point(5, 4.0),
            point(6, 8.0),
        ];
        let groups = BlockGroup::by_number(&trials, 3);
        assert_eq!(
            groups[&0],
            BlockGroup {
                blocks: (1, 3),
                n: 3,
                median: 3.0,
                min: 1.0,
                max: 9.0
            }
        );
        assert_eq!(
            groups[&1],
            BlockGroup {
                blocks: (5, 6),
                n: 2,
                median: 6.0,
                min: 4.0,
                max: 8.0
            }
        );
    }
}

//! Everything that is shown, assembled once.
//!
//! A renderer decides where things stand and how they look, never what they are: whatever appears in two formats is
//! computed here.

mod cell;
mod disturbed;
mod environment;
mod facts;
mod headline;
mod latency;
mod method;
mod published;
mod rows;
mod short;
mod unjudged;
mod warnings;

use fsb_analysis::compare::Finding;
use fsb_analysis::{Comparison, Description, Estimate, Interval, Ranking};
use fsb_model::{Better, RunRecord, Trial, Unit};
use serde::Serialize;

pub use environment::{EnvironmentRow, EnvironmentTable};
pub(crate) use headline::level;
pub use latency::{Latency, Quantile};
pub(crate) use latency::{columns, quantile_name};
pub use method::Paragraph;
pub use published::{Published, PublishedLayout, PublishedRow, PublishedTable, PublishedValue};
pub(crate) use unjudged::capital;
#[cfg(test)]
pub(crate) use unjudged::samples;

/// A run, ready to be shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// The run's name.
    pub name: String,
    /// The suite or plan.
    pub suite: String,
    /// The answer, in one sentence.
    pub headline: String,
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
    pub targets: Vec<TargetView>,
    /// One row a workload, in the plan's order.
    pub rows: Vec<Row>,
    /// All workloads together, by target; absent for the reference and where nothing can be said.
    pub overall: Vec<Option<Overall>>,
    /// Measured blocks that have trials.
    pub blocks: u32,
    /// What would settle the undecided rows.
    pub advice: Option<String>,
    /// The run in a line, part by part: medium, kernel, blocks, seed, time.
    pub facts: Vec<String>,
    /// How many blocks were made and why no more, where a budget or a precision decided it.
    pub stopped: Option<String>,
    /// What the reader must know.
    pub warnings: Vec<String>,
    /// Trials, cells and targets without a value, with their reasons.
    pub problems: Vec<String>,
    /// The machine, the targets and the controls, requested beside observed.
    pub environment: Vec<EnvironmentTable>,
    /// How the numbers were made.
    pub method: Vec<Paragraph>,
    /// Published values beside ours.
    pub published: Option<Published>,
    /// What a matrix of sizes shows of any two targets; absent where there is none, or nothing was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
}

/// What one column is measured on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetView {
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
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its label.
    pub workload: String,
    /// What it does to a file.
    pub operation: String,
    /// The metric that targets are compared by.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// One cell a target, in their order.
    pub cells: Vec<CellView>,
    /// Every pair, letters and the outcome.
    pub ranking: Ranking,
    /// What the data support, in a sentence.
    pub finding: String,
}

/// One target at one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellView {
    /// Whether it has values, and why not.
    pub state: State,
    /// The estimate, where there are values.
    pub estimate: Option<Estimate>,
    /// Compared with the reference; absent for the reference itself.
    pub against: Option<Comparison>,
    /// Letters of the ranking; `?` where the row is undecided and this target may be the fastest; else empty.
    pub mark: String,
    /// Trials with a value, in run order.
    pub trials: Vec<Point>,
    /// Trials without a value.
    pub lost: Vec<Lost>,
    /// Latencies and costs.
    pub secondary: Vec<Secondary>,
    /// Latencies by operation, of all trials together.
    pub latency: Vec<Latency>,
}

/// What stands where a target would, had this machine one.
pub(crate) const NOT_HERE: &str = "not available here";

/// Whether a cell has values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
pub struct Point {
    /// The block.
    pub block: u32,
    /// The place in run order.
    pub order: u32,
    /// The value in base units.
    pub value: f64,
    /// Beyond Tukey's fences.
    pub outlier: bool,
}

/// A trial without a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
}

/// All workloads together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overall {
    /// The geometric mean of speed ratios, equal weights; more than 1 is faster.
    pub comparison: Comparison,
    /// Over how many workloads: those where both targets have values.
    pub workloads: usize,
}

impl View {
    /// Assembles the view of a run. The first target of the plan is the one that others are compared with.
    pub fn of_run(record: &RunRecord, trials: &[Trial]) -> View {
        let targets = facts::targets(record);
        let rows = rows::rows(record, trials);
        let overall = rows::overall(&rows, &targets, record.plan.theta);
        let blocks = facts::blocks(trials);
        let mut view = View {
            name: record.name.clone(),
            suite: record.plan.name.clone(),
            headline: String::new(),
            unjudged: record.unjudged(),
            emulated: record.emulated,
            theta: record.plan.theta,
            reference: 0,
            targets,
            rows,
            overall,
            blocks,
            advice: None,
            facts: facts::facts(record, trials, blocks),
            stopped: facts::stopped(record),
            warnings: Vec::new(),
            problems: Vec::new(),
            environment: environment::tables(record),
            method: Vec::new(),
            published: None,
            findings: None,
        };
        if view.unjudged.is_some() {
            unjudged::strip(&mut view);
        }
        headline::add_findings(&mut view);
        view.headline = headline::headline(&view);
        view.advice = facts::advice(&view, facts::seconds(record, trials));
        view.problems = warnings::problems(&view);
        view.warnings = warnings::warnings(&view, record, trials);
        view.method = method::paragraphs(&view, record);
        view
    }

    /// Lays published values beside the view's own, matched by workload and file system.
    #[must_use]
    pub fn with_published(mut self, table: &PublishedTable) -> View {
        self.published = Some(published::beside(&self, table));
        self
    }

    /// Adds what the cells of a matrix show together, the widest first, and what the reader must know of it.
    #[must_use]
    pub fn with_findings(mut self, findings: Vec<Finding>, warnings: Vec<String>) -> View {
        self.method.push(method::findings(self.theta));
        self.findings = Some(findings);
        self.warnings.extend(warnings);
        self
    }

    /// The name of the target that the others are compared with.
    pub fn reference_name(&self) -> &str {
        self.targets.get(self.reference).map_or("", |target| &target.name)
    }

    /// Whether any row is ranked.
    pub fn is_judged(&self) -> bool {
        self.rows.iter().any(|row| row.ranking.letters.iter().any(Option::is_some))
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

impl CellView {
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

#[cfg(test)]
mod tests;

//! The compared data of the trials of a run directory. Data that many trials share is stored once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fsb_model::metric::{self, Role};
use fsb_model::trial::{Phase, squared_error_of_mean};
use fsb_model::workload::Params;
use fsb_model::{Better, Metric, Outcome, Unit};
use fsb_report::run::{ReportTrial, writes};
use fsb_store::Line;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The parameters that span a grid.
const FILE_SIZE: &str = "file_size";
const RECORD_SIZE: &str = "block_size";

/// A trial that counts.
#[derive(Debug)]
pub(super) struct OwnTrial {
    /// The number of its line in the journal.
    pub(super) line: u32,
    pub(super) block: u32,
    pub(super) order: u32,
    pub(super) attempt: u32,
    /// Its index in [`Trials::targets`].
    pub(super) target: u32,
    /// Its index in [`Trials::cells`].
    pub(super) cell: u32,
    pub(super) outcome: Outcome,
    /// The slice of the medium that the target had.
    pub(super) part: Option<u32>,
    /// The first metric, by which targets are compared, and latencies: indices into [`Trials::metrics`], and values.
    pub(super) values: Box<[(u32, f64)]>,
    /// As in [`BlockValue::within`](fsb_stats::BlockValue::within).
    pub(super) within: Option<f64>,
}

/// The work of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnCell {
    /// The label.
    pub(super) workload: String,
    pub(super) operation: String,
    /// The other parameters that make it a different cell, without the sizes.
    pub(super) kind: String,
    /// Bytes of a file.
    pub(super) file_size: Option<u64>,
    /// Bytes of a call.
    pub(super) record_size: Option<u64>,
    /// Whether it writes, or makes data durable.
    pub(super) writes: bool,
    /// The same cell with the parameters of the whole workload, if this is a unit of it.
    whole: Option<Box<OwnCell>>,
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OwnMetric {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) better: Better,
}

/// The trials of a run that count, in the order of their lines.
#[derive(Debug, Default)]
pub(super) struct Trials {
    pub(super) list: Vec<OwnTrial>,
    pub(super) targets: Vec<String>,
    pub(super) cells: Vec<OwnCell>,
    pub(super) metrics: Vec<OwnMetric>,
    /// Memory limits in bytes; `None` for a trial without one.
    pub(super) limits: BTreeSet<Option<u64>>,
    /// The mechanisms that limited memory.
    pub(super) mechanisms: BTreeSet<String>,
    /// For each cell, the number of trials, and of those that were affected by interference or invalid.
    spoilt: BTreeMap<u32, [usize; 2]>,
    /// Parameters in which units differ from their cells, by label. In rounds, units are what was measured.
    units: BTreeMap<String, Params>,
    /// Indices of cells by label, operation and all parameters.
    known: HashMap<(String, String, String), u32>,
}

/// A line of the journal without the data that is not compared. A second pass reads its latencies.
#[derive(Debug, Deserialize)]
pub(super) struct Compared {
    schema: String,
    #[serde(rename = "id")]
    _id: IgnoredAny,
    phase: Phase,
    block: u32,
    order: u32,
    attempt: u32,
    target: String,
    #[serde(rename = "kernel")]
    _kernel: IgnoredAny,
    workload: String,
    operation: String,
    params: Params,
    #[serde(rename = "started")]
    _started: IgnoredAny,
    outcome: Outcome,
    #[serde(default)]
    metrics: Vec<Metric>,
    #[serde(default)]
    observed: Observed,
    #[serde(default)]
    superseded: bool,
    #[serde(default, alias = "disturbed")]
    interference: Vec<IgnoredAny>,
    #[serde(default)]
    part: Option<u32>,
    #[serde(default)]
    #[serde(rename = "stretches")]
    samples: Times,
}

/// The times of the samples.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Times {
    timed_ns: Vec<u64>,
}

/// The observed memory limit.
#[derive(Debug, Default, Deserialize)]
struct Observed {
    memory_limit: Option<Value>,
}

impl Line<'_> for Compared {
    fn schema(&self) -> &str {
        &self.schema
    }
}

impl Compared {
    /// As [`fsb_model::Trial::counts`].
    pub(super) fn counts(&self) -> bool {
        self.phase == Phase::Measured && !self.superseded
    }
}

impl Trials {
    /// Returns an empty list for a run with such units.
    pub(super) fn of_units(units: &BTreeMap<String, Params>) -> Trials {
        Trials { units: units.clone(), ..Trials::default() }
    }

    /// Returns whether the units of a workload are known.
    pub(super) fn has_unit(&self, workload: &str) -> bool {
        self.units.contains_key(workload)
    }

    /// Uses the whole workload instead of its units, because not all runs record them.
    pub(super) fn forget_unit(&mut self, workload: &str) {
        for cell in self.cells.iter_mut().filter(|cell| cell.workload == workload) {
            if let Some(whole) = cell.whole.take() {
                *cell = *whole;
            }
        }
    }

    /// Returns the cell of a trial that was added.
    pub(super) fn known_cell(&self, workload: &str, operation: &str, params: &Params) -> Option<&OwnCell> {
        self.known.get(&key(workload, operation, params)).map(|place| &self.cells[*place as usize])
    }

    fn cell_of(&self, workload: &str, operation: &str, params: &Params) -> OwnCell {
        let whole = OwnCell::new(workload, operation, params);
        let Some(unit) = self.units.get(workload) else { return whole };
        let mut params = params.clone();
        params.extend(unit.clone());
        OwnCell { whole: Some(Box::new(whole)), ..OwnCell::new(workload, operation, &params) }
    }

    /// Adds a line of a journal.
    pub(super) fn push_line(&mut self, line: usize, trial: &Compared) {
        let memory = trial.observed.memory_limit.as_ref();
        self.limits.insert(memory.and_then(|memory| memory.get("limit_bytes")).and_then(Value::as_u64));
        if let Some(mechanism) = memory.and_then(|memory| memory.get("mechanism")).and_then(Value::as_str)
            && !self.mechanisms.contains(mechanism)
        {
            self.mechanisms.insert(mechanism.to_owned());
        }
        let cell = self.cell(&trial.workload, &trial.operation, &trial.params);
        let (target, values) = (self.target(&trial.target), self.values(&trial.metrics));
        let Compared { block, order, attempt, outcome, part, .. } = *trial;
        let [all, spoilt] = self.spoilt.entry(cell).or_default();
        *all += 1;
        *spoilt += usize::from(!trial.interference.is_empty() || outcome == Outcome::Invalid);
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        let within = squared_error_of_mean(&trial.samples.timed_ns);
        self.list.push(OwnTrial { line, block, order, attempt, target, cell, outcome, part, values, within });
    }

    /// Returns the labels of cells most of whose trials were affected by interference or invalid.
    pub(super) fn mostly_spoilt(&self) -> impl Iterator<Item = &str> {
        let most = self.spoilt.iter().filter(|(_, [all, spoilt])| 2 * spoilt > *all);
        most.map(|(cell, _)| self.cells[*cell as usize].workload.as_str())
    }

    /// Adds a trial that is not in a file.
    pub(super) fn push(&mut self, trial: &ReportTrial) {
        let what = &*trial.what;
        let cell = self.cell(&what.workload, &what.operation, &what.params);
        let metrics: Vec<Metric> = trial.metrics().map(Metric::from).collect();
        let (target, values) = (self.target(&what.target), self.values(&metrics));
        let ReportTrial { block, order, attempt, outcome, part, .. } = *trial;
        let line = u32::try_from(self.list.len() + 1).unwrap_or(u32::MAX);
        let within = squared_error_of_mean(&trial.timed_ns.to_vec());
        self.list.push(OwnTrial { line, block, order, attempt, target, cell, outcome, part, values, within });
    }

    fn target(&mut self, name: &str) -> u32 {
        place(&mut self.targets, |known| known == name, || name.to_owned())
    }

    fn cell(&mut self, workload: &str, operation: &str, params: &Params) -> u32 {
        let key = key(workload, operation, params);
        if let Some(place) = self.known.get(&key) {
            return *place;
        }
        self.cells.push(self.cell_of(workload, operation, params));
        let place = self.cells.len() as u32 - 1;
        self.known.insert(key, place);
        place
    }

    fn values(&mut self, metrics: &[Metric]) -> Box<[(u32, f64)]> {
        let shown = metrics.iter().enumerate().filter(|(at, metric)| *at == 0 || is_latency(metric));
        let of = |(_, metric): (usize, &Metric)| {
            let Metric { name, unit, better, value } = metric;
            let is_same = |known: &OwnMetric| (&known.name, known.unit, known.better) == (name, *unit, *better);
            let make = || OwnMetric { name: name.clone(), unit: *unit, better: *better };
            (place(&mut self.metrics, is_same, make), *value)
        };
        shown.map(of).collect()
    }
}

fn key(workload: &str, operation: &str, params: &Params) -> (String, String, String) {
    (workload.to_owned(), operation.to_owned(), serde_json::json!(params).to_string())
}

/// Returns whether the metric is a latency.
fn is_latency(metric: &Metric) -> bool {
    metric::find(&metric.name).is_some_and(|kind| kind.role == Role::Latency)
}

/// Returns the index of an element in a short list; adds the element if it is missing.
fn place<T>(known: &mut Vec<T>, is_same: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> u32 {
    let found = known.iter().position(is_same).unwrap_or_else(|| {
        known.push(make());
        known.len() - 1
    });
    found as u32
}

impl OwnCell {
    pub(super) fn new(workload: &str, operation: &str, params: &Params) -> OwnCell {
        let size = |key: &str| params.get(key).and_then(Value::as_u64).filter(|size| *size > 0);
        let others = params.iter().filter(|(key, _)| ![FILE_SIZE, RECORD_SIZE].contains(&key.as_str()));
        let others: std::collections::BTreeMap<&String, &Value> = others.collect();
        OwnCell {
            workload: workload.to_owned(),
            operation: operation.to_owned(),
            kind: format!("{operation} {}", serde_json::json!(others)),
            file_size: size(FILE_SIZE),
            record_size: size(RECORD_SIZE),
            whole: None,
            writes: writes(operation, params),
        }
    }
}

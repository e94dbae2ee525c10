//! The work of trials, and targets of a run as sets: each block is a run of the set.
//!
//! Cells that differ only in the sizes of file and record form a grid. The names of workloads come
//! from the cells of all compared runs, so that a run that measured one size is compared with a run
//! that measured ten.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use fsb_model::metric;
use fsb_model::set::{Gap, GapReason, Point, Run, Series, Set};
use fsb_model::trial::squared_error_of_mean;
use fsb_model::units::Bytes;
use fsb_model::workload::Params;
use fsb_model::{Outcome, RunRecord};
use fsb_report::mark;
use fsb_stats::compare::OURS;
use fsb_store::journal::{CompactTrial, MetricKind, MetricValue, TrialCell, last_attempts, writes};
use serde_json::Value;

/// The parameters that span a grid.
pub(crate) const FILE_SIZE: &str = "file_size";
pub(crate) const RECORD_SIZE: &str = "block_size";

/// The work of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The label.
    pub workload: String,
    operation: String,
    /// The other parameters that make it a different cell, without the sizes.
    pub(crate) kind: String,
    /// Bytes of a file.
    pub file_size: Option<u64>,
    /// Bytes of a call.
    pub record_size: Option<u64>,
    /// Whether it writes, or makes data durable.
    pub(crate) writes: bool,
    /// The work with the parameters of the whole workload, if this is a unit of it.
    whole: Option<Box<Work>>,
}

/// The different works of the trials of a run that count.
#[derive(Debug, Default)]
pub struct Cells {
    /// In the order of their first trials.
    pub list: Vec<Work>,
    /// Indices of works by the address of a trial's cell.
    places: HashMap<usize, usize>,
    /// Memory limits in bytes; `None` for a trial without one.
    pub(crate) limits: BTreeSet<Option<u64>>,
    /// The mechanisms that limited memory.
    pub(crate) mechanisms: BTreeSet<String>,
    /// For each work, the number of trials, and of those that were affected by interference or
    /// invalid.
    spoilt: Vec<[usize; 2]>,
    /// Labels of workloads whose units are known. In rounds, units are what was measured.
    units: BTreeSet<String>,
}

fn address(cell: &Arc<TrialCell>) -> usize {
    Arc::as_ptr(cell) as usize
}

impl Cells {
    /// Returns the works of the trials that count. `units` holds parameters in which units differ
    /// from their workloads, by label.
    pub fn new(units: &BTreeMap<String, Params>, trials: &[CompactTrial]) -> Cells {
        let mut cells = Cells {
            units: units.keys().cloned().collect(),
            ..Cells::default()
        };
        let mut known: HashMap<(&str, &str, String), usize> = HashMap::new();
        for trial in trials.iter().filter(|trial| trial.counts()) {
            let cell = &trial.what;
            let place = match cells.places.get(&address(cell)) {
                Some(place) => *place,
                None => {
                    let parameters = serde_json::json!(cell.params).to_string();
                    let place = *known
                        .entry((&cell.workload, &cell.operation, parameters))
                        .or_insert_with(|| {
                            cells.list.push(Work::of_unit(cell, units));
                            cells.spoilt.push([0, 0]);
                            cells.list.len() - 1
                        });
                    cells.places.insert(address(cell), place);
                    let limit = cell.memory_limit.as_ref();
                    cells.limits.insert(limit.map(|limit| limit.limit_bytes));
                    cells
                        .mechanisms
                        .extend(limit.map(|limit| limit.mechanism.clone()));
                    place
                }
            };
            let [all, spoilt] = &mut cells.spoilt[place];
            *all += 1;
            let is_spoilt =
                !trial.extras().interference.is_empty() || trial.outcome == Outcome::Invalid;
            *spoilt += usize::from(is_spoilt);
        }
        cells
    }

    /// Returns the index of the work of a trial that counts.
    pub(crate) fn place(&self, trial: &CompactTrial) -> usize {
        self.places[&address(&trial.what)]
    }

    /// Returns the work of a trial that counts.
    pub(crate) fn of(&self, trial: &CompactTrial) -> &Work {
        &self.list[self.place(trial)]
    }

    /// Returns whether the units of a workload are known.
    pub(crate) fn has_unit(&self, workload: &str) -> bool {
        self.units.contains(workload)
    }

    /// Uses the whole workload instead of its units, because not all runs record them.
    pub(crate) fn forget_unit(&mut self, workload: &str) {
        for cell in &mut self.list {
            if cell.workload == workload
                && let Some(whole) = cell.whole.take()
            {
                *cell = *whole;
            }
        }
    }

    /// Removes parameters from all works, so that works which differ in them alone are the same.
    /// Returns names and values with the labels of their works.
    pub(crate) fn forget_parameters(&mut self, names: &[String]) -> Vec<(String, String, String)> {
        let mut taken = Vec::new();
        for work in &mut self.list {
            let label = work.workload.clone();
            let values = work.forget(names).into_iter();
            taken.extend(values.map(|(name, value)| (name, value, label.clone())));
            if let Some(whole) = &mut work.whole {
                whole.forget(names);
            }
        }
        taken
    }

    /// Returns the labels of works most of whose trials were affected by interference or invalid.
    pub(crate) fn mostly_spoilt(&self) -> Vec<&str> {
        let mut labels = Vec::new();
        for (work, [all, spoilt]) in self.list.iter().zip(&self.spoilt) {
            if 2 * spoilt > *all {
                labels.push(work.workload.as_str());
            }
        }
        labels
    }

    /// Returns the squared standard errors of the logarithms of rates, by workload.
    pub(crate) fn within(
        &self,
        trials: &[&CompactTrial],
        workloads: &Workloads,
    ) -> BTreeMap<String, f64> {
        let mut within = BTreeMap::new();
        for trial in trials {
            if let Some(error) = squared_error_of_mean(&trial.timed_ns.to_vec()) {
                let place = workloads.place(self.of(trial));
                within.insert(place.workload.to_owned(), error);
            }
        }
        within
    }
}

/// The values of the trials of one block after another, in memory that is used again: the names of
/// thousands of blocks are the same.
pub(crate) struct BlockSeries<'c> {
    cells: &'c Cells,
    workloads: &'c Workloads,
    /// Those of the last block, and empty ones of earlier blocks.
    pub(crate) list: Vec<Series>,
    /// Indices by the address of a trial's cell and the number of the metric.
    places: HashMap<(usize, usize), usize>,
    /// Indices by workload, operation and metric.
    names: HashMap<(&'c str, &'c str, String), usize>,
}

impl<'c> BlockSeries<'c> {
    pub(crate) fn new(cells: &'c Cells, workloads: &'c Workloads) -> BlockSeries<'c> {
        BlockSeries {
            cells,
            workloads,
            list: Vec::new(),
            places: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// Replaces the values by those of trials: of each the metric by which targets are compared,
    /// and latencies.
    pub(crate) fn fill(&mut self, trials: &[&CompactTrial]) {
        for series in &mut self.list {
            series.points.clear();
            series.gaps.clear();
        }
        for trial in trials {
            let work = self.cells.of(trial);
            let place = self.workloads.place(work);
            for (at, MetricValue { kind, value }) in trial.metrics().enumerate() {
                if at > 0 && !metric::is_latency(&kind.name) {
                    continue;
                }
                let list = &mut self.list;
                let key = (address(&trial.what), at);
                let series = *self.places.entry(key).or_insert_with(|| {
                    let name = (place.workload, &*work.operation, kind.name.clone());
                    *self.names.entry(name).or_insert_with(|| {
                        list.push(empty_series(place.workload, &work.operation, kind));
                        list.len() - 1
                    })
                });
                add(&mut self.list[series], &place, value, trial.line);
            }
        }
    }
}

fn add(series: &mut Series, place: &GridPlace<'_>, value: f64, line: u32) {
    let GridPlace {
        file_size,
        record_size,
        ..
    } = *place;
    if value.is_finite() && value > 0.0 {
        series.points.push(Point {
            file_size,
            record_size,
            value,
            line,
        });
    } else {
        series.gaps.push(Gap {
            file_size,
            record_size,
            line,
            why: GapReason::Zero,
        });
    }
}

fn empty_series(workload: &str, operation: &str, metric: &MetricKind) -> Series {
    Series {
        workload: Some(workload.to_owned()),
        operation: operation.to_owned(),
        metric: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        found_unit: metric.unit.name().to_owned(),
        points: Vec::new(),
        gaps: Vec::new(),
    }
}

/// Returns the targets of a run, each as a set of its matrices alone, without latencies.
pub fn of_matrices(record: &RunRecord, trials: &[CompactTrial]) -> Vec<Set> {
    let cells = Cells::new(&BTreeMap::new(), trials);
    let parts: Vec<&CompactTrial> = (trials.iter())
        .filter(|trial| {
            trial.counts() && trial.what.params.get("matrix") == Some(&Value::Bool(true))
        })
        .collect();
    let workloads = Workloads::from_cells(parts.iter().map(|trial| cells.of(trial)));
    let mut sets = Vec::new();
    for target in &record.plan.targets {
        let own = (parts.iter().copied()).filter(|trial| trial.what.target == target.name);
        let mut series = BlockSeries::new(&cells, &workloads);
        let mut runs = Vec::new();
        for (block, trials) in good_by_block(last_attempts(own)) {
            series.fill(&trials);
            let has_values =
                |series: &&Series| !series.points.is_empty() || !series.gaps.is_empty();
            runs.push(Run {
                tool: OURS.to_owned(),
                block: Some(block),
                slice: slice(&trials),
                series: series.list.iter().filter(has_values).cloned().collect(),
                within: cells.within(&trials, &workloads),
                ..Run::default()
            });
        }
        let risks = (record.targets.get(&target.name)).map_or(&[][..], |found| &found.risks);
        if !runs.is_empty() {
            sets.push(Set {
                name: mark::name(&target.name, risks),
                pairing: Some(record.name.clone()),
                analyses: record.analyses(),
                runs,
            });
        }
    }
    sets
}

/// Returns the successful trials, by block.
pub(crate) fn good_by_block(trials: Vec<&CompactTrial>) -> BTreeMap<u32, Vec<&CompactTrial>> {
    let mut blocks: BTreeMap<u32, Vec<&CompactTrial>> = BTreeMap::new();
    for trial in trials {
        if trial.outcome == Outcome::Ok {
            blocks.entry(trial.block).or_default().push(trial);
        }
    }
    blocks
}

/// Returns the slice of a target in a block, which is the same for all its trials.
pub(crate) fn slice(trials: &[&CompactTrial]) -> Option<u32> {
    trials.first().and_then(|trial| trial.slice)
}

impl Work {
    fn of_unit(cell: &TrialCell, units: &BTreeMap<String, Params>) -> Work {
        let whole = Work::new(&cell.workload, &cell.operation, &cell.params);
        let Some(unit) = units.get(&cell.workload) else {
            return whole;
        };
        let mut params = cell.params.clone();
        params.extend(unit.clone());
        Work {
            whole: Some(Box::new(whole)),
            ..Work::new(&cell.workload, &cell.operation, &params)
        }
    }

    fn new(workload: &str, operation: &str, params: &Params) -> Work {
        let size = |key: &str| {
            params
                .get(key)
                .and_then(Value::as_u64)
                .filter(|size| *size > 0)
        };
        let others = params
            .iter()
            .filter(|(key, _)| ![FILE_SIZE, RECORD_SIZE].contains(&key.as_str()));
        let others: std::collections::BTreeMap<&String, &Value> = others.collect();
        Work {
            workload: workload.to_owned(),
            operation: operation.to_owned(),
            kind: kind_of(operation, &serde_json::json!(others)),
            file_size: size(FILE_SIZE),
            record_size: size(RECORD_SIZE),
            whole: None,
            writes: writes(operation, params),
        }
    }
}

impl Work {
    /// Returns the parameters of the kind by name.
    fn others(&self) -> BTreeMap<String, Value> {
        let json = self.kind.strip_prefix(&self.operation).unwrap_or_default();
        serde_json::from_str(json).unwrap_or_default()
    }

    /// Returns the names of its parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = String> + use<> {
        let sizes = [(FILE_SIZE, self.file_size), (RECORD_SIZE, self.record_size)];
        let sizes = sizes.into_iter().filter(|(_, size)| size.is_some());
        let sizes = sizes.map(|(name, _)| name.to_owned());
        self.others().into_keys().chain(sizes)
    }

    /// Returns a text that is the same for works whose rows are the same.
    pub(crate) fn identity(&self) -> String {
        format!("{} {:?} {:?}", self.kind, self.file_size, self.record_size)
    }

    /// Removes parameters. Returns those that it had, with their values.
    fn forget(&mut self, names: &[String]) -> Vec<(String, String)> {
        let mut taken = Vec::new();
        let mut others = self.others();
        for name in names {
            let size = match name.as_str() {
                FILE_SIZE => self.file_size.take(),
                RECORD_SIZE => self.record_size.take(),
                _ => None,
            };
            let value = others.remove(name).map(|value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            });
            let value = size.map(|bytes| Bytes(bytes).to_string()).or(value);
            taken.extend(value.map(|value| (name.clone(), value)));
        }
        self.kind = kind_of(&self.operation, &serde_json::json!(others));
        taken
    }
}

/// Returns the text of an operation and of its parameters without the sizes.
fn kind_of(operation: &str, parameters: &Value) -> String {
    format!("{operation} {parameters}")
}

/// The place of a work in the grid of its workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GridPlace<'w> {
    /// The name of the workload.
    pub(crate) workload: &'w str,
    /// Bytes of a file.
    file_size: Option<u64>,
    /// Bytes of a call.
    record_size: Option<u64>,
}

/// The names of workloads, by kind.
#[derive(Debug, Default)]
pub struct Workloads {
    names: BTreeMap<String, Option<String>>,
}

impl Workloads {
    /// Names the workloads of all cells.
    pub fn from_cells<'t>(cells: impl Iterator<Item = &'t Work>) -> Workloads {
        let mut labels: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut operations: BTreeMap<String, &str> = BTreeMap::new();
        for cell in cells {
            let known = labels.entry(cell.kind.clone()).or_default();
            if !known.contains(&cell.workload.as_str()) {
                known.push(&cell.workload);
            }
            operations.insert(cell.kind.clone(), &cell.operation);
        }
        let mut names: BTreeMap<String, Option<String>> = labels
            .iter()
            .map(|(kind, labels)| {
                (
                    kind.clone(),
                    (labels.len() > 1).then(|| shared_name(operations[kind], labels)),
                )
            })
            .collect();
        forget_ambiguous(&mut names, &labels);
        Workloads { names }
    }

    /// Returns the workload and the sizes of a cell.
    pub(crate) fn place<'w>(&'w self, cell: &'w Work) -> GridPlace<'w> {
        let name = self.names.get(&cell.kind).and_then(Option::as_deref);
        let Work {
            file_size,
            record_size,
            ..
        } = *cell;
        GridPlace {
            workload: name.unwrap_or(&cell.workload),
            file_size,
            record_size,
        }
    }
}

/// Drops names that two different workloads would share: their cells keep their own labels.
fn forget_ambiguous(
    names: &mut BTreeMap<String, Option<String>>,
    labels: &BTreeMap<String, Vec<&str>>,
) {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for (kind, name) in names.iter() {
        match name {
            Some(name) => *uses.entry(name.clone()).or_default() += 1,
            None => labels[kind]
                .iter()
                .for_each(|label| *uses.entry((*label).to_owned()).or_default() += 1),
        }
    }
    for name in names.values_mut() {
        if name.as_ref().is_some_and(|name| uses[name] > 1) {
            *name = None;
        }
    }
}

/// Returns the common part of labels: `random read, cold` of `random read 4K, cold` and `random
/// read 64K, cold`.
fn shared_name(operation: &str, labels: &[&str]) -> String {
    let mut parts = labels
        .iter()
        .map(|label| label.split(", ").collect::<Vec<_>>());
    let first = parts.next().unwrap_or_default();
    let rest: Vec<Vec<&str>> = parts.collect();
    let what = first.first().copied().unwrap_or_default();
    let words: Vec<&str> = what
        .split(' ')
        .filter(|word| {
            rest.iter().all(|parts| {
                parts
                    .first()
                    .is_some_and(|other| other.split(' ').any(|w| w == *word))
            })
        })
        .collect();
    let what = if words.is_empty() {
        operation.to_owned()
    } else {
        words.join(" ")
    };
    let manner = first
        .iter()
        .skip(1)
        .filter(|part| rest.iter().all(|parts| parts[1..].contains(*part)));
    std::iter::once(what.as_str())
        .chain(manner.copied())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trial(label: &str, params: Value) -> Work {
        let params = params.as_object().unwrap();
        Work::new(label, "read", &params.clone().into_iter().collect())
    }

    fn names(cells: &[Work]) -> Vec<String> {
        let workloads = Workloads::from_cells(cells.iter());
        cells
            .iter()
            .map(|cell| workloads.place(cell).workload.to_owned())
            .collect()
    }

    #[test]
    fn cells_that_differ_in_sizes_are_one_workload() {
        let cell = |label: &str, access: &str, size: u64| {
            trial(
                label,
                json!({"name": "read", "access": access, "file_size": 1 << 20, "block_size": size}),
            )
        };
        let trials = [
            cell("read 4K, cold", "sequential", 4096),
            cell("read 64K, cold", "sequential", 65536),
            cell("random read 4K, cold", "random", 4096),
            cell("random read 8K, cold", "random", 8192),
            trial("rename 4K files", json!({"name": "rename", "files": 5})),
        ];
        assert_eq!(
            names(&trials),
            [
                "read, cold",
                "read, cold",
                "random read, cold",
                "random read, cold",
                "rename 4K files"
            ]
        );
        let workloads = Workloads::from_cells(trials.iter());
        let place = workloads.place(&trials[1]);
        assert_eq!(
            (place.file_size, place.record_size),
            (Some(1 << 20), Some(65536))
        );
        assert_eq!(workloads.place(&trials[4]).file_size, None);
    }

    #[test]
    fn labels_without_a_common_word_leave_the_operation() {
        let cell =
            |label: &str, size: u64| trial(label, json!({"name": "read", "block_size": size}));
        assert_eq!(
            names(&[cell("small", 1), cell("large", 2)]),
            ["read", "read"]
        );
    }

    #[test]
    fn a_name_for_two_things_is_none() {
        let cell = |label: &str, files: u64, size: u64| {
            trial(
                label,
                json!({"name": "read", "files": files, "block_size": size}),
            )
        };
        let trials = [
            cell("read 4K", 1, 4),
            cell("read 8K", 1, 8),
            cell("read 1K", 2, 1),
            cell("read 2K", 2, 2),
        ];
        assert_eq!(names(&trials), ["read 4K", "read 8K", "read 1K", "read 2K"]);
    }
}

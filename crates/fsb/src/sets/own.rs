//! Run directories of fsb: each target is a set, each block a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use fsb_model::metric::{self, Role};
use fsb_model::run::Risk;
use fsb_model::set::{Gap, GapReason, Histogram, Point, Run, Series, Set};
use fsb_model::trial::{Phase, squared_error_of_mean};
use fsb_model::workload::{Params, REUSE};
use fsb_model::{Better, Metric, Outcome, RunRecord, Target, Unit};
use fsb_report::summary::{ReportTrial, in_rounds, withheld_by_record, writes};
use fsb_report::{incomplete_text, mark, warning_text};
use fsb_stats::compare::OURS;
use fsb_stats::histogram;
use fsb_store::{Line, RUN_FILE, Reader};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The largest number of warnings of one run that a comparison repeats.
const SHOWN: usize = 5;

/// A run directory or a published page without its latencies, which are read when their workloads
/// are known.
#[derive(Debug)]
pub(super) struct OwnRun {
    pub(super) path: PathBuf,
    /// The canonical path of the run, whatever path the user named.
    pub(super) identity: PathBuf,
    pub(super) record: RunRecord,
    /// Labels of cells of an earlier version, with the labels of the same work today.
    renamed: BTreeMap<String, String>,
    /// The trials that count.
    pub(super) trials: Trials,
    warnings: Vec<String>,
    reader: Reader,
}

/// One target of a run directory.
#[derive(Debug)]
pub(super) struct OwnTarget<'t> {
    /// The name in the run.
    pub(super) name: String,
    /// The trials that have values, by block.
    pub(super) blocks: BTreeMap<u32, Vec<&'t OwnTrial>>,
}

/// A line of the journal with nothing but its latencies.
#[derive(Debug, Deserialize)]
struct Latencies {
    schema: String,
    workload: String,
    operation: String,
    params: Params,
    #[serde(default)]
    latency: BTreeMap<String, String>,
}

impl Line<'_> for Latencies {
    fn schema(&self) -> &str {
        &self.schema
    }
}

/// Gives a trial of an earlier version the label and the parameters of the same work today.
fn rename(renamed: &BTreeMap<String, String>, label: &mut String, params: &mut Params) {
    if let Some(today) = renamed.get(label) {
        label.clone_from(today);
        params.insert(REUSE.to_owned(), true.into());
    }
}

impl OwnRun {
    /// Reads a run directory, finished or not.
    pub(super) fn read(path: &Path) -> anyhow::Result<OwnRun> {
        let mut reader = Reader::open(path)?;
        let mut record = reader.record.clone();
        let renamed = record.name_reused_directories();
        let mut trials = Trials::of_units(&record.units);
        let mut measured = BTreeSet::new();
        let mut warnings = reader.trials(|line, mut trial: Compared| {
            if trial.phase == Phase::Measured {
                measured.insert(trial.block);
            }
            if trial.counts() {
                rename(&renamed, &mut trial.workload, &mut trial.params);
                trials.push_line(line, &trial);
            }
        })?;
        let incomplete = incomplete_text(&reader.record, measured);
        warnings.extend(incomplete.map(|why| format!("{}: {why}", path.display())));
        let identity = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(OwnRun {
            path: path.to_owned(),
            identity,
            record,
            renamed,
            trials,
            warnings,
            reader,
        })
    }

    /// Returns the file that holds the trials.
    pub(super) fn journal_path(&self) -> &Path {
        self.reader.journal_path()
    }

    /// Returns the files that were read.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let journal = self.reader.journal_path().to_owned();
        if self.reader.publication.is_some() {
            vec![journal]
        } else {
            vec![self.path.join(RUN_FILE), journal]
        }
    }

    /// Returns the targets in the plan's order, and warnings for the reader.
    pub(super) fn targets(&self) -> (Vec<OwnTarget<'_>>, Vec<String>) {
        let mut warnings: Vec<String> = self.warnings.clone();
        let said = &self.record.warnings;
        warnings.extend(
            said.iter()
                .take(SHOWN)
                .map(|warning| format!("{}: {}", self.path.display(), warning_text(warning))),
        );
        if said.len() > SHOWN {
            let more = said.len() - SHOWN;
            warnings.push(format!(
                "{}: {more} more warnings are in its {RUN_FILE}",
                self.path.display()
            ));
        }
        let mut targets = Vec::new();
        for target in &self.record.plan.targets {
            let trials = self.trials.last_attempts(&target.name);
            warnings.extend(self.lost(&target.name, &trials));
            let mut blocks = by_block(trials);
            // Each block had an order of its own; tables use the plan's.
            let places: Vec<Option<usize>> = self
                .trials
                .cells
                .iter()
                .map(|cell| self.place_in_plan(&cell.workload))
                .collect();
            blocks
                .values_mut()
                .for_each(|trials| trials.sort_by_key(|trial| places[trial.cell as usize]));
            targets.push(OwnTarget {
                name: target.name.clone(),
                blocks,
            });
        }
        (targets, warnings)
    }

    /// Returns the workloads of this run that no comparison may judge, each with the reason. These
    /// are workloads most of whose trials were affected by interference or invalid, if they have
    /// one sample per block or the run has one target. Workloads of a run whose memory was not
    /// touched first, or with another run beside it, are withheld, too.
    pub(super) fn withheld(&self) -> BTreeMap<String, &'static str> {
        // In rounds interference affects all targets of a run equally, but not a target of another
        // run that it is compared with.
        let is_alone = self.record.plan.targets.len() == 1;
        let spoilt = self
            .trials
            .mostly_spoilt()
            .filter(|label| is_alone || !in_rounds(&self.record, label));
        let spoilt = spoilt.map(|label| {
            (
                label.to_owned(),
                "most trials were affected by interference or invalid",
            )
        });
        let writes = |label: &str| {
            self.trials
                .cells
                .iter()
                .any(|cell| cell.workload == label && cell.writes)
        };
        let recorded = withheld_by_record(&self.record, writes).into_iter();
        let recorded = recorded.map(|label| {
            (
                label,
                "memory was not touched first, or another run measured beside it",
            )
        });
        recorded.chain(spoilt).collect()
    }

    /// Returns the risks of a target, and whether it may win nevertheless.
    pub(super) fn risks(&self, target: &str) -> (&[Risk], bool) {
        let risks = self
            .record
            .targets
            .get(target)
            .map_or(&[][..], |found| &found.risks);
        (risks, risks.is_empty() || self.record.plan.risky)
    }

    /// Returns a number larger than that of every slice of the medium, which are counted from 0
    /// over all segments of the run.
    pub(super) fn slices(&self) -> u32 {
        self.trials
            .list
            .iter()
            .filter_map(|trial| trial.slice)
            .max()
            .map_or(0, |slice| slice.saturating_add(1))
    }

    /// Returns the number of the last block; 0 if none was measured.
    pub(super) fn last_block(&self) -> u32 {
        self.trials
            .list
            .iter()
            .map(|trial| trial.block)
            .max()
            .unwrap_or(0)
    }

    /// Reads the journal again and calls `visit` with the latencies of every line that has some.
    pub(super) fn latencies(
        &mut self,
        workloads: &Workloads,
        mut visit: impl FnMut(u32, Vec<Histogram>),
        is_wanted: impl Fn(u32) -> bool,
    ) -> anyhow::Result<()> {
        let trials = &self.trials;
        let renamed = &self.renamed;
        self.reader.trials(|line, mut trial: Latencies| {
            rename(renamed, &mut trial.workload, &mut trial.params);
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            if trial.latency.is_empty() || !is_wanted(line) {
                return;
            }
            let Some(cell) = trials.known_cell(&trial.workload, &trial.operation, &trial.params)
            else {
                return;
            };
            let workload = workloads.place(cell).workload;
            // Skip a malformed histogram: it only describes a trial, whose value remains valid.
            let of = |(operation, text): (&String, &String)| {
                let bins = decode(text).filter(|bins| !bins.is_empty())?;
                Some(Histogram {
                    workload: Some(workload.to_owned()),
                    operation: operation.clone(),
                    bins,
                })
            };
            visit(line, trial.latency.iter().filter_map(of).collect());
        })?;
        Ok(())
    }

    fn place_in_plan(&self, label: &str) -> Option<usize> {
        self.record
            .cells
            .iter()
            .position(|cell| cell.label == label)
    }

    /// Returns a warning with the number of trials that have no usable value.
    fn lost(&self, target: &str, trials: &[&OwnTrial]) -> Option<String> {
        let count = |outcome| {
            trials
                .iter()
                .filter(|trial| trial.outcome == outcome)
                .count()
        };
        let words: Vec<String> = [
            (count(Outcome::Failed), "failed"),
            (count(Outcome::Invalid), "invalid"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
        let all = trials.len();
        (!words.is_empty()).then(|| {
            format!(
                "{}, {target}: left out of {all} trials: {}",
                self.path.display(),
                words.join(", ")
            )
        })
    }

    /// Returns one block of a target as a run.
    pub(super) fn run(&self, block: u32, trials: &[&OwnTrial], workloads: &Workloads) -> Run {
        Run {
            tool: OURS.to_owned(),
            version: self
                .record
                .segments
                .last()
                .map(|segment| segment.fsb_version.clone()),
            path: self.reader.journal_path().display().to_string(),
            block: Some(block),
            slice: slice(trials),
            sessions: self.sessions(),
            series: self.trials.series(trials, workloads),
            within: self.trials.within(trials, workloads),
            ..Run::default()
        }
    }

    /// Returns the boot and the UTC day of each of its segments.
    fn sessions(&self) -> Vec<String> {
        let day = |started: &str| started.split('T').next().unwrap_or_default().to_owned();
        let segments = self.record.segments.iter();
        segments
            .map(|segment| format!("{} {}", segment.boot_id, day(&segment.started)))
            .collect()
    }
}

/// Returns the targets of a run that is in memory, each as a set of its matrices alone, without
/// latencies.
pub fn of_matrices(record: &RunRecord, trials: &[ReportTrial]) -> Vec<Set> {
    let mut parts = Trials::default();
    let is_part = |trial: &&ReportTrial| {
        trial.counts() && trial.what.params.get("matrix") == Some(&Value::Bool(true))
    };
    trials
        .iter()
        .filter(is_part)
        .for_each(|trial| parts.push(trial));
    let workloads = Workloads::from_cells(parts.cells.iter());
    let set = |target: &Target| {
        let blocks = by_block(parts.last_attempts(&target.name));
        let run = |(block, trials): (&u32, &Vec<&OwnTrial>)| Run {
            tool: OURS.to_owned(),
            block: Some(*block),
            slice: slice(trials),
            series: parts.series(trials, &workloads),
            within: parts.within(trials, &workloads),
            ..Run::default()
        };
        let pairing = Some(record.name.clone());
        let risks = record
            .targets
            .get(&target.name)
            .map_or(&[][..], |found| &found.risks);
        Set {
            name: mark::name(&target.name, risks),
            pairing,
            analyses: record.analyses(),
            runs: blocks.iter().map(run).collect(),
        }
    };
    record
        .plan
        .targets
        .iter()
        .map(set)
        .filter(|set| !set.runs.is_empty())
        .collect()
}

/// Returns the successful trials, by block.
fn by_block(trials: Vec<&OwnTrial>) -> BTreeMap<u32, Vec<&OwnTrial>> {
    let mut blocks: BTreeMap<u32, Vec<&OwnTrial>> = BTreeMap::new();
    for trial in trials
        .into_iter()
        .filter(|trial| trial.outcome == Outcome::Ok)
    {
        blocks.entry(trial.block).or_default().push(trial);
    }
    blocks
}

/// Returns the slice of a target in a block, which is the same for all its trials.
fn slice(trials: &[&OwnTrial]) -> Option<u32> {
    trials.first().and_then(|trial| trial.slice)
}

impl Trials {
    /// Returns the trials of a target in the order of their lines. Of a retried trial the last
    /// attempt counts.
    fn last_attempts(&self, target: &str) -> Vec<&OwnTrial> {
        let mut last: BTreeMap<(u32, &str), &OwnTrial> = BTreeMap::new();
        for trial in self
            .list
            .iter()
            .filter(|trial| self.targets[trial.target as usize] == target)
        {
            let held = last
                .entry((trial.block, &self.cells[trial.cell as usize].workload))
                .or_insert(trial);
            if (trial.attempt, trial.order) >= (held.attempt, held.order) {
                *held = trial;
            }
        }
        let mut trials: Vec<&OwnTrial> = last.into_values().collect();
        trials.sort_by_key(|trial| trial.line);
        trials
    }

    fn within(&self, trials: &[&OwnTrial], workloads: &Workloads) -> BTreeMap<String, f64> {
        let of = |trial: &&OwnTrial| {
            let place = workloads.place(&self.cells[trial.cell as usize]);
            Some((place.workload.to_owned(), trial.within?))
        };
        trials.iter().filter_map(of).collect()
    }

    fn series(&self, trials: &[&OwnTrial], workloads: &Workloads) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for trial in trials {
            let cell = &self.cells[trial.cell as usize];
            let place = workloads.place(cell);
            for (metric, value) in &trial.values {
                let metric = &self.metrics[*metric as usize];
                let same = |series: &&mut Series| {
                    series.workload.as_deref() == Some(place.workload)
                        && series.operation == cell.operation
                        && series.metric == metric.name
                };
                let series = match all.iter_mut().find(same) {
                    Some(series) => series,
                    None => {
                        all.push(empty_series(place.workload, &cell.operation, metric));
                        all.last_mut().expect("one was pushed")
                    }
                };
                let (file_size, record_size, line) =
                    (place.file_size, place.record_size, trial.line);
                if value.is_finite() && *value > 0.0 {
                    series.points.push(Point {
                        file_size,
                        record_size,
                        value: *value,
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
        }
        all
    }
}

fn empty_series(workload: &str, operation: &str, metric: &OwnMetric) -> Series {
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

/// Decodes a histogram to nanoseconds and counts.
fn decode(text: &str) -> Option<Vec<(u64, u64)>> {
    let histogram = histogram::decode(text)?;
    Some(
        histogram
            .iter_recorded()
            .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
            .collect(),
    )
}

/// Warns of workloads that have the same label with other parameters: perhaps comparable, but
/// hardly the same.
pub(super) fn relabelled<'r>(runs: impl Iterator<Item = &'r OwnRun>) -> Vec<String> {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for cell in runs.flat_map(|run| &run.trials.cells) {
        seen.entry(&cell.workload).or_default().insert(&cell.kind);
    }
    let differs = |(_, kinds): &(&str, BTreeSet<&str>)| kinds.len() > 1;
    seen.into_iter()
        .filter(differs)
        .map(|(label, _)| {
            format!(
                "'{label}' was measured with different parameters in these runs: see their run.json"
            )
        })
        .collect()
}

// The compared data of the trials of a run directory. Data that many trials share is stored once.

/// The parameters that span a grid.
const FILE_SIZE: &str = "file_size";
const RECORD_SIZE: &str = "block_size";

/// A trial that counts.
#[derive(Debug)]
pub(super) struct OwnTrial {
    /// The number of its line in the journal.
    pub(super) line: u32,
    block: u32,
    order: u32,
    attempt: u32,
    /// The index in [`Trials::targets`].
    target: u32,
    /// The index in [`Trials::cells`].
    cell: u32,
    outcome: Outcome,
    /// The slice of the medium that the target had.
    slice: Option<u32>,
    /// The first metric, by which targets are compared, and latencies: indices into
    /// [`Trials::metrics`], and values.
    values: Box<[(u32, f64)]>,
    /// As in [`BlockValue::within`](fsb_stats::BlockValue::within).
    within: Option<f64>,
}

/// The work of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnCell {
    /// The label.
    pub(super) workload: String,
    operation: String,
    /// The other parameters that make it a different cell, without the sizes.
    kind: String,
    /// Bytes of a file.
    pub(super) file_size: Option<u64>,
    /// Bytes of a call.
    pub(super) record_size: Option<u64>,
    /// Whether it writes, or makes data durable.
    writes: bool,
    /// The cell with the parameters of the whole workload, if this cell is a unit of it.
    whole: Option<Box<OwnCell>>,
}

/// A metric.
#[derive(Debug, Clone, PartialEq)]
struct OwnMetric {
    name: String,
    unit: Unit,
    better: Better,
}

/// The trials of a run that count, in the order of their lines.
#[derive(Debug, Default)]
pub(super) struct Trials {
    list: Vec<OwnTrial>,
    targets: Vec<String>,
    pub(super) cells: Vec<OwnCell>,
    metrics: Vec<OwnMetric>,
    /// Memory limits in bytes; `None` for a trial without one.
    pub(super) limits: BTreeSet<Option<u64>>,
    /// The mechanisms that limited memory.
    pub(super) mechanisms: BTreeSet<String>,
    /// For each cell, the number of trials, and of those that were affected by interference or
    /// invalid.
    spoilt: BTreeMap<u32, [usize; 2]>,
    /// Parameters in which units differ from their cells, by label. In rounds, units are what was
    /// measured.
    units: BTreeMap<String, Params>,
    /// Indices of cells by label, operation and all parameters.
    known: HashMap<(String, String, String), u32>,
}

/// A line of the journal without the data that is not compared. A second pass reads its latencies.
#[derive(Debug, Deserialize)]
struct Compared {
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
    #[serde(default, rename = "part")]
    slice: Option<u32>,
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
    fn counts(&self) -> bool {
        self.phase == Phase::Measured && !self.superseded
    }
}

impl Trials {
    /// Returns an empty list for a run with such units.
    fn of_units(units: &BTreeMap<String, Params>) -> Trials {
        Trials {
            units: units.clone(),
            ..Trials::default()
        }
    }

    /// Returns whether the units of a workload are known.
    pub(super) fn has_unit(&self, workload: &str) -> bool {
        self.units.contains_key(workload)
    }

    /// Uses the whole workload instead of its units, because not all runs record them.
    pub(super) fn forget_unit(&mut self, workload: &str) {
        for cell in self
            .cells
            .iter_mut()
            .filter(|cell| cell.workload == workload)
        {
            if let Some(whole) = cell.whole.take() {
                *cell = *whole;
            }
        }
    }

    /// Returns the cell of a trial that was added.
    fn known_cell(&self, workload: &str, operation: &str, params: &Params) -> Option<&OwnCell> {
        self.known
            .get(&key(workload, operation, params))
            .map(|place| &self.cells[*place as usize])
    }

    fn cell_of(&self, workload: &str, operation: &str, params: &Params) -> OwnCell {
        let whole = OwnCell::new(workload, operation, params);
        let Some(unit) = self.units.get(workload) else {
            return whole;
        };
        let mut params = params.clone();
        params.extend(unit.clone());
        OwnCell {
            whole: Some(Box::new(whole)),
            ..OwnCell::new(workload, operation, &params)
        }
    }

    /// Adds a line of a journal.
    fn push_line(&mut self, line: usize, trial: &Compared) {
        let memory = trial.observed.memory_limit.as_ref();
        self.limits.insert(
            memory
                .and_then(|memory| memory.get("limit_bytes"))
                .and_then(Value::as_u64),
        );
        if let Some(mechanism) = memory
            .and_then(|memory| memory.get("mechanism"))
            .and_then(Value::as_str)
            && !self.mechanisms.contains(mechanism)
        {
            self.mechanisms.insert(mechanism.to_owned());
        }
        let cell = self.cell(&trial.workload, &trial.operation, &trial.params);
        let (target, values) = (self.target(&trial.target), self.values(&trial.metrics));
        let Compared {
            block,
            order,
            attempt,
            outcome,
            slice,
            ..
        } = *trial;
        let [all, spoilt] = self.spoilt.entry(cell).or_default();
        *all += 1;
        *spoilt += usize::from(!trial.interference.is_empty() || outcome == Outcome::Invalid);
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        let within = squared_error_of_mean(&trial.samples.timed_ns);
        self.list.push(OwnTrial {
            line,
            block,
            order,
            attempt,
            target,
            cell,
            outcome,
            slice,
            values,
            within,
        });
    }

    /// Returns the labels of cells most of whose trials were affected by interference or invalid.
    fn mostly_spoilt(&self) -> impl Iterator<Item = &str> {
        let most = self
            .spoilt
            .iter()
            .filter(|(_, [all, spoilt])| 2 * spoilt > *all);
        most.map(|(cell, _)| self.cells[*cell as usize].workload.as_str())
    }

    /// Adds a trial that is not in a file.
    fn push(&mut self, trial: &ReportTrial) {
        let what = &*trial.what;
        let cell = self.cell(&what.workload, &what.operation, &what.params);
        let metrics: Vec<Metric> = trial.metrics().map(Metric::from).collect();
        let (target, values) = (self.target(&what.target), self.values(&metrics));
        let ReportTrial {
            block,
            order,
            attempt,
            outcome,
            slice,
            ..
        } = *trial;
        let line = u32::try_from(self.list.len() + 1).unwrap_or(u32::MAX);
        let within = squared_error_of_mean(&trial.timed_ns.to_vec());
        self.list.push(OwnTrial {
            line,
            block,
            order,
            attempt,
            target,
            cell,
            outcome,
            slice,
            values,
            within,
        });
    }

    fn target(&mut self, name: &str) -> u32 {
        place_in(&mut self.targets, |known| known == name, || name.to_owned())
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
        let shown = metrics
            .iter()
            .enumerate()
            .filter(|(at, metric)| *at == 0 || is_latency(metric));
        let of = |(_, metric): (usize, &Metric)| {
            let Metric {
                name,
                unit,
                better,
                value,
            } = metric;
            let is_same = |known: &OwnMetric| {
                (&known.name, known.unit, known.better) == (name, *unit, *better)
            };
            let make = || OwnMetric {
                name: name.clone(),
                unit: *unit,
                better: *better,
            };
            (place_in(&mut self.metrics, is_same, make), *value)
        };
        shown.map(of).collect()
    }
}

fn key(workload: &str, operation: &str, params: &Params) -> (String, String, String) {
    (
        workload.to_owned(),
        operation.to_owned(),
        serde_json::json!(params).to_string(),
    )
}

/// Returns whether the metric is a latency.
fn is_latency(metric: &Metric) -> bool {
    metric::find(&metric.name).is_some_and(|kind| kind.role == Role::Latency)
}

/// Returns the index of an element in a short list; adds the element if it is missing.
fn place_in<T>(known: &mut Vec<T>, is_same: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> u32 {
    let found = known.iter().position(is_same).unwrap_or_else(|| {
        known.push(make());
        known.len() - 1
    });
    found as u32
}

impl OwnCell {
    fn new(workload: &str, operation: &str, params: &Params) -> OwnCell {
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

// Groups cells into workloads: cells that differ only in the sizes of file and record form a grid.
//
// The names come from the cells of all compared runs, so that a run that measured one size is
// compared with a run that measured ten.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CellPlace<'w> {
    /// The name of the workload.
    workload: &'w str,
    /// Bytes of a file.
    file_size: Option<u64>,
    /// Bytes of a call.
    record_size: Option<u64>,
}

/// The names of workloads, by kind.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    names: BTreeMap<String, Option<String>>,
}

impl Workloads {
    /// Names the workloads of all cells.
    pub(super) fn from_cells<'t>(cells: impl Iterator<Item = &'t OwnCell>) -> Workloads {
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
    pub(super) fn place<'w>(&'w self, cell: &'w OwnCell) -> CellPlace<'w> {
        let name = self.names.get(&cell.kind).and_then(Option::as_deref);
        let OwnCell {
            file_size,
            record_size,
            ..
        } = *cell;
        CellPlace {
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

    fn trial(label: &str, params: Value) -> OwnCell {
        let params = params.as_object().unwrap();
        OwnCell::new(label, "read", &params.clone().into_iter().collect())
    }

    fn names(cells: &[OwnCell]) -> Vec<String> {
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

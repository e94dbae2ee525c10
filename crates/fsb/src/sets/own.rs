//! Run directories of ours: each target is a set, each block a run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fsb_model::metric::{self, Role};
use fsb_model::set::{Gap, GapReason, Histogram, Point, Run, Series, Set};
use fsb_model::{Metric, Outcome, RunRecord, Target, Trial};
use fsb_store::{Contents, RUN_FILE, TRIALS_FILE};
use hdrhistogram::serialization::Deserializer;
use serde_json::Value;

use super::workloads::Workloads;

/// What results of ours are made with.
const TOOL: &str = "fsb";

/// So many warnings of one run are told again.
const TOLD: usize = 5;

/// A run directory as it was read.
#[derive(Debug)]
pub(super) struct OwnRun {
    /// As given.
    pub(super) path: PathBuf,
    /// Which run it is, whatever path it was reached by.
    pub(super) identity: PathBuf,
    /// What it holds.
    pub(super) contents: Contents,
}

/// One target of a run directory.
#[derive(Debug)]
pub(super) struct OwnTarget {
    /// Its name in the run.
    pub(super) name: String,
    /// One a block, in the order of the blocks.
    pub(super) runs: Vec<Run>,
}

/// A trial and the line that it stands on.
type Lined<'t> = (u32, &'t Trial);

impl OwnRun {
    /// Reads a run directory, finished or not.
    pub(super) fn read(path: &Path) -> anyhow::Result<OwnRun> {
        let contents = fsb_store::read(path)?;
        let identity = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(OwnRun { path: path.to_owned(), identity, contents })
    }

    /// The targets in the plan's order, with their blocks counted from `first_block`, and what the reader must know.
    pub(super) fn targets(&self, workloads: &Workloads, first_block: u32) -> (Vec<OwnTarget>, Vec<String>) {
        let mut warnings: Vec<String> = self.contents.warnings.clone();
        let said = &self.contents.record.warnings;
        warnings.extend(said.iter().take(TOLD).map(|text| format!("{}: {text}", self.path.display())));
        if said.len() > TOLD {
            let more = said.len() - TOLD;
            warnings.push(format!("{}: {more} more warnings stand in its {RUN_FILE}", self.path.display()));
        }
        let mut targets = Vec::new();
        for target in &self.contents.record.plan.targets {
            let trials = last_attempts(self.trials().filter(|(_, trial)| trial.target == target.name));
            warnings.extend(self.lost(&target.name, &trials));
            let mut blocks: BTreeMap<u32, Vec<Lined<'_>>> = BTreeMap::new();
            for (line, trial) in trials {
                if trial.outcome == Outcome::Ok {
                    blocks.entry(trial.block).or_default().push((line, trial));
                }
            }
            // Each block had an order of its own: tables have the plan's.
            blocks.values_mut().for_each(|trials| trials.sort_by_key(|(_, trial)| self.place_in_plan(&trial.workload)));
            let runs = blocks.iter().map(|(block, trials)| self.run(first_block + block, trials, workloads)).collect();
            targets.push(OwnTarget { name: target.name.clone(), runs });
        }
        (targets, warnings)
    }

    /// The last block's number; 0 where none was measured.
    pub(super) fn last_block(&self) -> u32 {
        self.trials().map(|(_, trial)| trial.block).max().unwrap_or(0)
    }

    /// The trials that count, each with its line: the store keeps every line.
    pub(super) fn trials(&self) -> impl Iterator<Item = Lined<'_>> {
        (1..).zip(&self.contents.trials).filter(|(_, trial)| trial.counts())
    }

    fn place_in_plan(&self, label: &str) -> Option<usize> {
        self.contents.record.cells.iter().position(|cell| cell.label == label)
    }

    /// How many trials have no value that can be used.
    fn lost(&self, target: &str, trials: &[Lined<'_>]) -> Option<String> {
        let count = |outcome| trials.iter().filter(|(_, trial)| trial.outcome == outcome).count();
        let words: Vec<String> = [(count(Outcome::Failed), "failed"), (count(Outcome::Invalid), "invalid")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let all = trials.len();
        (!words.is_empty())
            .then(|| format!("{}, {target}: left out of {all} trials: {}", self.path.display(), words.join(", ")))
    }

    fn run(&self, block: u32, trials: &[Lined<'_>], workloads: &Workloads) -> Run {
        Run {
            tool: TOOL.to_owned(),
            version: self.contents.record.segments.last().map(|segment| segment.fsb_version.clone()),
            path: self.path.join(TRIALS_FILE).display().to_string(),
            block: Some(block),
            series: series(trials, workloads),
            histograms: histograms(trials, workloads),
            ..Run::default()
        }
    }
}

/// The targets of a run that is not read from a directory, each as a set: of its matrices alone, and without latencies.
pub fn of_matrices(record: &RunRecord, trials: &[Trial]) -> Vec<Set> {
    let is_part = |trial: &&Trial| trial.params.get("matrix") == Some(&Value::Bool(true));
    let parts: Vec<&Trial> = trials.iter().filter(|trial| trial.counts()).filter(is_part).collect();
    let workloads = Workloads::of(parts.iter().copied());
    let set = |target: &Target| {
        let own = parts.iter().copied().filter(|trial| trial.target == target.name);
        let mut blocks: BTreeMap<u32, Vec<Lined<'_>>> = BTreeMap::new();
        for (line, trial) in last_attempts((1..).zip(own)).into_iter().filter(|(_, t)| t.outcome == Outcome::Ok) {
            blocks.entry(trial.block).or_default().push((line, trial));
        }
        let run = |(block, trials): (&u32, &Vec<Lined<'_>>)| Run {
            tool: TOOL.to_owned(),
            block: Some(*block),
            series: series(trials, &workloads),
            ..Run::default()
        };
        let pairing = Some(record.name.clone());
        Set { name: target.name.clone(), pairing, runs: blocks.iter().map(run).collect() }
    };
    record.plan.targets.iter().map(set).filter(|set| !set.runs.is_empty()).collect()
}

/// Where a trial was made again, the last attempt counts.
fn last_attempts<'t>(trials: impl Iterator<Item = Lined<'t>>) -> Vec<Lined<'t>> {
    let mut last: BTreeMap<(u32, &str), Lined<'t>> = BTreeMap::new();
    for (line, trial) in trials {
        let held = last.entry((trial.block, &trial.workload)).or_insert((line, trial));
        if (trial.attempt, trial.order) >= (held.1.attempt, held.1.order) {
            *held = (line, trial);
        }
    }
    let mut trials: Vec<Lined<'t>> = last.into_values().collect();
    trials.sort_by_key(|(line, _)| *line);
    trials
}

/// The first metric, which targets are compared by, and latencies. What a trial cost explains a result and is none.
fn shown(trial: &Trial) -> impl Iterator<Item = &Metric> {
    let latency = |metric: &Metric| metric::find(&metric.name).is_some_and(|kind| kind.role == Role::Latency);
    trial.metrics.iter().enumerate().filter(move |(at, metric)| *at == 0 || latency(metric)).map(|(_, metric)| metric)
}

fn series(trials: &[Lined<'_>], workloads: &Workloads) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for (line, trial) in trials {
        let place = workloads.place(trial);
        for metric in shown(trial) {
            let same = |series: &&mut Series| {
                series.workload.as_deref() == Some(place.workload)
                    && series.operation == trial.operation
                    && series.metric == metric.name
            };
            let series = match all.iter_mut().find(same) {
                Some(series) => series,
                None => {
                    all.push(empty_series(place.workload, trial, metric));
                    all.last_mut().expect("one was pushed")
                }
            };
            let (file_size, record_size) = (place.file_size, place.record_size);
            if metric.value.is_finite() && metric.value > 0.0 {
                series.points.push(Point { file_size, record_size, value: metric.value, line: *line });
            } else {
                series.gaps.push(Gap { file_size, record_size, line: *line, why: GapReason::Zero });
            }
        }
    }
    all
}

fn empty_series(workload: &str, trial: &Trial, metric: &Metric) -> Series {
    Series {
        workload: Some(workload.to_owned()),
        operation: trial.operation.clone(),
        metric: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        found_unit: metric.unit.name().to_owned(),
        points: Vec::new(),
        gaps: Vec::new(),
    }
}

/// Latencies by workload and operation, merged and never averaged. What is no histogram is left out: it describes a
/// trial, and the trial's value stands without it.
fn histograms(trials: &[Lined<'_>], workloads: &Workloads) -> Vec<Histogram> {
    let mut merged: BTreeMap<(&str, &str), BTreeMap<u64, u64>> = BTreeMap::new();
    for (_, trial) in trials {
        let workload = workloads.place(trial).workload;
        for (operation, text) in &trial.latency {
            let bins = merged.entry((workload, operation)).or_default();
            for (nanoseconds, count) in decode(text).unwrap_or_default() {
                *bins.entry(nanoseconds).or_default() += count;
            }
        }
    }
    merged
        .into_iter()
        .filter(|(_, bins)| !bins.is_empty())
        .map(|((workload, operation), bins)| Histogram {
            workload: Some(workload.to_owned()),
            operation: operation.to_owned(),
            bins: bins.into_iter().collect(),
        })
        .collect()
}

/// Nanoseconds and how often.
fn decode(text: &str) -> Option<Vec<(u64, u64)>> {
    let bytes = STANDARD.decode(text).ok()?;
    let histogram: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut Cursor::new(bytes)).ok()?;
    Some(histogram.iter_recorded().map(|bin| (bin.value_iterated_to(), bin.count_at_value())).collect())
}

/// Workloads that were given the same label with other parameters: comparable perhaps, the same thing hardly.
pub(super) fn relabelled<'r>(runs: impl Iterator<Item = &'r OwnRun>) -> Vec<String> {
    let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (_, trial) in runs.flat_map(OwnRun::trials) {
        seen.entry(&trial.workload).or_default().insert(super::workloads::kind(trial));
    }
    let differs = |(_, kinds): &(&str, BTreeSet<String>)| kinds.len() > 1;
    seen.into_iter()
        .filter(differs)
        .map(|(label, _)| format!("'{label}' was measured with different parameters in these runs: see their run.json"))
        .collect()
}

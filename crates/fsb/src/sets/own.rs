//! Run directories of fsb: each target is a set, each block a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsb_model::run::Risk;
use fsb_model::set::{Gap, GapReason, Histogram, Point, Run, Series, Set};
use fsb_model::workload::Params;
use fsb_model::{Outcome, RunRecord, Target};
use fsb_report::mark;
use fsb_report::run::{ReportTrial, in_rounds, withheld_by_record};
use fsb_report::warning_text;
use fsb_stats::compare::OURS;
use fsb_stats::histogram;
use fsb_store::{Line, RUN_FILE, Reader, TRIALS_FILE};
use serde::Deserialize;
use serde_json::Value;

use super::trials::{Compared, OwnMetric, OwnTrial, Trials};
use super::workloads::Workloads;

/// The largest number of warnings of one run that a comparison repeats.
const SHOWN: usize = 5;

/// A run directory without its latencies, which are read when their workloads are known.
#[derive(Debug)]
pub(super) struct OwnRun {
    pub(super) path: PathBuf,
    /// The canonical path of the run, whatever path the user named.
    pub(super) identity: PathBuf,
    pub(super) record: RunRecord,
    /// The trials that count.
    pub(super) trials: Trials,
    warnings: Vec<String>,
    reader: Reader,
}

/// One target of a run directory.
#[derive(Debug)]
pub(super) struct OwnTarget<'t> {
    /// Its name in the run.
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

impl OwnRun {
    /// Reads a run directory, finished or not.
    pub(super) fn read(path: &Path) -> anyhow::Result<OwnRun> {
        let mut reader = Reader::open(path)?;
        let mut trials = Trials::of_units(&reader.record.units);
        let warnings = reader.trials(|line, trial: Compared| {
            if trial.counts() {
                trials.push_line(line, &trial);
            }
        })?;
        let identity = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(OwnRun { path: path.to_owned(), identity, record: reader.record.clone(), trials, warnings, reader })
    }

    /// Returns the targets in the plan's order, and warnings for the reader.
    pub(super) fn targets(&self) -> (Vec<OwnTarget<'_>>, Vec<String>) {
        let mut warnings: Vec<String> = self.warnings.clone();
        let said = &self.record.warnings;
        warnings.extend(
            said.iter().take(SHOWN).map(|warning| format!("{}: {}", self.path.display(), warning_text(warning))),
        );
        if said.len() > SHOWN {
            let more = said.len() - SHOWN;
            warnings.push(format!("{}: {more} more warnings are in its {RUN_FILE}", self.path.display()));
        }
        let mut targets = Vec::new();
        for target in &self.record.plan.targets {
            let trials = self.trials.last_attempts(&target.name);
            warnings.extend(self.lost(&target.name, &trials));
            let mut blocks = by_block(trials);
            // Each block had an order of its own; tables use the plan's.
            let places: Vec<Option<usize>> =
                self.trials.cells.iter().map(|cell| self.place_in_plan(&cell.workload)).collect();
            blocks.values_mut().for_each(|trials| trials.sort_by_key(|trial| places[trial.cell as usize]));
            targets.push(OwnTarget { name: target.name.clone(), blocks });
        }
        (targets, warnings)
    }

    /// Returns the workloads of this run that no comparison may judge, each with the reason. These are workloads most of
    /// whose trials were affected by interference or invalid, if they have one sample per block or the run has one
    /// target. Workloads of a run whose memory was not touched first, or with another run beside it, are withheld, too.
    pub(super) fn withheld(&self) -> BTreeMap<String, &'static str> {
        // In rounds interference affects all targets of a run equally, but not a target of another run that it is
        // compared with.
        let is_alone = self.record.plan.targets.len() == 1;
        let spoilt = self.trials.mostly_spoilt().filter(|label| is_alone || !in_rounds(&self.record, label));
        let spoilt = spoilt.map(|label| (label.to_owned(), "most trials were affected by interference or invalid"));
        let writes = |label: &str| self.trials.cells.iter().any(|cell| cell.workload == label && cell.writes);
        let recorded = withheld_by_record(&self.record, writes).into_iter();
        let recorded = recorded.map(|label| (label, "memory was not touched first, or another run measured beside it"));
        recorded.chain(spoilt).collect()
    }

    /// Returns the risks of a target, and whether it may win nevertheless.
    pub(super) fn risks(&self, target: &str) -> (&[Risk], bool) {
        let risks = self.record.targets.get(target).map_or(&[][..], |found| &found.risks);
        (risks, risks.is_empty() || self.record.plan.risky)
    }

    /// Returns a number larger than that of every slice of the medium, which are counted from 0 over all segments of
    /// the run.
    pub(super) fn parts(&self) -> u32 {
        self.trials.list.iter().filter_map(|trial| trial.part).max().map_or(0, |part| part.saturating_add(1))
    }

    /// Returns the number of the last block; 0 if none was measured.
    pub(super) fn last_block(&self) -> u32 {
        self.trials.list.iter().map(|trial| trial.block).max().unwrap_or(0)
    }

    /// Reads the journal again and calls `visit` with the latencies of every line that has some.
    pub(super) fn latencies(
        &mut self,
        workloads: &Workloads,
        mut visit: impl FnMut(u32, Vec<Histogram>),
        is_wanted: impl Fn(u32) -> bool,
    ) -> anyhow::Result<()> {
        let trials = &self.trials;
        self.reader.trials(|line, trial: Latencies| {
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            if trial.latency.is_empty() || !is_wanted(line) {
                return;
            }
            let Some(cell) = trials.known_cell(&trial.workload, &trial.operation, &trial.params) else { return };
            let workload = workloads.place(cell).workload;
            // Skip a malformed histogram: it only describes a trial, whose value remains valid.
            let of = |(operation, text): (&String, &String)| {
                let bins = decode(text).filter(|bins| !bins.is_empty())?;
                Some(Histogram { workload: Some(workload.to_owned()), operation: operation.clone(), bins })
            };
            visit(line, trial.latency.iter().filter_map(of).collect());
        })?;
        Ok(())
    }

    fn place_in_plan(&self, label: &str) -> Option<usize> {
        self.record.cells.iter().position(|cell| cell.label == label)
    }

    /// Returns a warning with the number of trials that have no usable value.
    fn lost(&self, target: &str, trials: &[&OwnTrial]) -> Option<String> {
        let count = |outcome| trials.iter().filter(|trial| trial.outcome == outcome).count();
        let words: Vec<String> = [(count(Outcome::Failed), "failed"), (count(Outcome::Invalid), "invalid")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let all = trials.len();
        (!words.is_empty())
            .then(|| format!("{}, {target}: left out of {all} trials: {}", self.path.display(), words.join(", ")))
    }

    /// Returns one block of a target as a run.
    pub(super) fn run(&self, block: u32, trials: &[&OwnTrial], workloads: &Workloads) -> Run {
        Run {
            tool: OURS.to_owned(),
            version: self.record.segments.last().map(|segment| segment.fsb_version.clone()),
            path: self.path.join(TRIALS_FILE).display().to_string(),
            block: Some(block),
            part: part(trials),
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
        segments.map(|segment| format!("{} {}", segment.boot_id, day(&segment.started))).collect()
    }
}

/// Returns the targets of a run that is in memory, each as a set of its matrices alone, without latencies.
pub fn of_matrices(record: &RunRecord, trials: &[ReportTrial]) -> Vec<Set> {
    let mut parts = Trials::default();
    let is_part = |trial: &&ReportTrial| trial.counts() && trial.what.params.get("matrix") == Some(&Value::Bool(true));
    trials.iter().filter(is_part).for_each(|trial| parts.push(trial));
    let workloads = Workloads::of(parts.cells.iter());
    let set = |target: &Target| {
        let blocks = by_block(parts.last_attempts(&target.name));
        let run = |(block, trials): (&u32, &Vec<&OwnTrial>)| Run {
            tool: OURS.to_owned(),
            block: Some(*block),
            part: part(trials),
            series: parts.series(trials, &workloads),
            within: parts.within(trials, &workloads),
            ..Run::default()
        };
        let pairing = Some(record.name.clone());
        let risks = record.targets.get(&target.name).map_or(&[][..], |found| &found.risks);
        Set {
            name: mark::name(&target.name, risks),
            pairing,
            analyses: record.analyses(),
            runs: blocks.iter().map(run).collect(),
        }
    };
    record.plan.targets.iter().map(set).filter(|set| !set.runs.is_empty()).collect()
}

/// Returns the successful trials, by block.
fn by_block(trials: Vec<&OwnTrial>) -> BTreeMap<u32, Vec<&OwnTrial>> {
    let mut blocks: BTreeMap<u32, Vec<&OwnTrial>> = BTreeMap::new();
    for trial in trials.into_iter().filter(|trial| trial.outcome == Outcome::Ok) {
        blocks.entry(trial.block).or_default().push(trial);
    }
    blocks
}

/// Returns the slice of a target in a block, which is the same for all its trials.
fn part(trials: &[&OwnTrial]) -> Option<u32> {
    trials.first().and_then(|trial| trial.part)
}

impl Trials {
    /// Returns the trials of a target in the order of their lines. Of a retried trial the last attempt counts.
    fn last_attempts(&self, target: &str) -> Vec<&OwnTrial> {
        let mut last: BTreeMap<(u32, &str), &OwnTrial> = BTreeMap::new();
        for trial in self.list.iter().filter(|trial| self.targets[trial.target as usize] == target) {
            let held = last.entry((trial.block, &self.cells[trial.cell as usize].workload)).or_insert(trial);
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
                let (file_size, record_size, line) = (place.file_size, place.record_size, trial.line);
                if value.is_finite() && *value > 0.0 {
                    series.points.push(Point { file_size, record_size, value: *value, line });
                } else {
                    series.gaps.push(Gap { file_size, record_size, line, why: GapReason::Zero });
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
    Some(histogram.iter_recorded().map(|bin| (bin.value_iterated_to(), bin.count_at_value())).collect())
}

/// Warns of workloads that have the same label with other parameters: perhaps comparable, but hardly the same.
pub(super) fn relabelled<'r>(runs: impl Iterator<Item = &'r OwnRun>) -> Vec<String> {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for cell in runs.flat_map(|run| &run.trials.cells) {
        seen.entry(&cell.workload).or_default().insert(&cell.kind);
    }
    let differs = |(_, kinds): &(&str, BTreeSet<&str>)| kinds.len() > 1;
    seen.into_iter()
        .filter(differs)
        .map(|(label, _)| format!("'{label}' was measured with different parameters in these runs: see their run.json"))
        .collect()
}

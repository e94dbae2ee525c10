//! A run directory as reports show it: trials with only the reported data, and the merged latencies
//! of a cell. Also finds the earlier runs of a plan, and the runs of a set.
//!
//! Histograms, requested values and observed values are most of a journal. They are read one line
//! at a time and never held together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::mem::{self, discriminant};
use std::path::{Path, PathBuf};

use fsb_model::host::{DeviceManifest, HostManifest};
use fsb_model::{Outcome, Plan, RunRecord};
use fsb_report::summary::{ReportTrial, ShownTrials, TrialFields};
use fsb_stats::histogram::Decoder;
use fsb_store::{Line, RUN_FILE, Reader, StoreError, owner};
use serde::Deserialize;

/// The number of histograms that are held until they are merged.
const BATCH: usize = 8;

/// A run that is shown.
pub struct Stored {
    /// The record.
    pub record: RunRecord,
    /// The trials in the order in which they ended. The first trial with latencies of a cell holds
    /// those of all its trials.
    pub trials: Vec<ReportTrial>,
    /// Warnings about skipped data.
    pub warnings: Vec<String>,
}

/// A line of the journal.
#[derive(Deserialize)]
#[serde(transparent)]
struct ShownLine<'a>(#[serde(borrow)] TrialFields<'a>);

impl<'a> Line<'a> for ShownLine<'a> {
    fn schema(&self) -> &str {
        &self.0.schema
    }
}

/// Histograms by operation.
type Histograms = BTreeMap<String, Vec<String>>;

/// Reads a run to show it.
pub fn read(path: &Path) -> Result<Stored, StoreError> {
    let mut reader = Reader::open(path)?;
    let mut decoder = Decoder::default();
    let mut replaced: HashSet<usize> = HashSet::new();
    loop {
        let mut trials = ShownTrials::default();
        let mut cells: HashMap<(String, String), Histograms> = HashMap::new();
        let mut journal = reader.journal()?;
        while let Some((_, ShownLine(mut trial))) = journal.next_trial()? {
            let latency = mem::take(&mut trial.latency);
            if trial.has_values() && !replaced.contains(&trials.count()) {
                let cell = cells
                    .entry((trial.target.to_string(), trial.workload.to_string()))
                    .or_default();
                for (operation, text) in latency {
                    let texts = cell.entry(operation.0.into_owned()).or_default();
                    texts.push(text.0.into_owned());
                    if texts.len() == BATCH {
                        decoder.merge(texts);
                    }
                }
            }
            trials.push(trial);
        }
        let warnings = journal.warnings;
        let mut trials = trials.finish();
        let (first, now_replaced) = last_attempts(&trials);
        // Only a later attempt shows that a trial does not count. This is rare and takes a second
        // pass.
        if now_replaced != replaced {
            replaced = now_replaced;
            continue;
        }
        for place in first {
            let trial = &mut trials[place];
            let histograms =
                cells.remove(&(trial.what.target.clone(), trial.what.workload.clone()));
            let merged = histograms
                .into_iter()
                .flatten()
                .filter_map(|(operation, mut texts)| {
                    decoder.merge(&mut texts);
                    Some((operation, texts.pop()?))
                });
            let merged: BTreeMap<String, String> = merged.collect();
            trial.set_latency(merged);
        }
        return Ok(Stored {
            record: reader.record,
            trials,
            warnings,
        });
    }
}

/// Returns the indices of two kinds of trials: the first trial with values of each cell, and trials
/// with values that a later attempt in the same block replaces.
fn last_attempts(trials: &[ReportTrial]) -> (Vec<usize>, HashSet<usize>) {
    let mut cells: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (place, trial) in trials
        .iter()
        .enumerate()
        .filter(|(_, trial)| trial.counts())
    {
        cells
            .entry((&trial.what.target, &trial.what.workload))
            .or_default()
            .push(place);
    }
    let (mut first, mut replaced) = (Vec::new(), HashSet::new());
    for mut places in cells.into_values() {
        let of = |place: &usize| &trials[*place];
        // The sort keeps the order of equals: the last of them was made last.
        places.sort_by_key(|place| (of(place).block, of(place).attempt, of(place).order));
        let mut first_good = None;
        for block in places.chunk_by(|one, next| of(one).block == of(next).block) {
            let (last, earlier) = block.split_last().expect("a chunk is not empty");
            first_good = first_good.or((of(last).outcome == Outcome::Ok).then_some(*last));
            replaced.extend(
                earlier
                    .iter()
                    .copied()
                    .filter(|place| of(place).outcome == Outcome::Ok),
            );
        }
        first.extend(first_good);
    }
    (first, replaced)
}

// Earlier runs of the same plan on this machine, found in a results directory.

/// The file whose presence makes a directory of runs a set.
pub const SET_FILE: &str = "set.json";

/// The prefix of the names of a set's run directories: `run-1`, `run-2`, …
pub const RUN_OF_SET: &str = "run-";

/// A finished run of the same plan on the same machine.
#[derive(Debug)]
pub struct EarlierRun {
    /// The run directory.
    pub path: PathBuf,
    /// The record.
    pub record: RunRecord,
}

/// Returns the directory that holds a run beside others: the parent of a run directory, or the
/// parent of its set.
pub fn results_directory(run: &Path) -> Option<PathBuf> {
    let run = std::path::absolute(run).ok()?;
    let parent = run.parent()?;
    if parent.join(SET_FILE).is_file() {
        parent.parent().map(Path::to_owned)
    } else {
        Some(parent.to_owned())
    }
}

/// Returns the finished runs in `directory` that began before this one, measured the same plan and
/// ran on the same machine; the oldest first. The runs of sets are included. Directories and
/// records that cannot be read are skipped.
pub fn earlier_runs(record: &RunRecord, directory: &Path) -> Vec<EarlierRun> {
    let Some(began) = started(record) else {
        return Vec::new();
    };
    let mut found = runs_of_plan(record, directory);
    found.retain(|earlier| started(&earlier.record).is_some_and(|time| time < began));
    found
}

/// Returns the finished runs in `directory` without a known change up to this one: the same plan,
/// machine, kernel, version of this program, geometry and features; the oldest first.
pub fn unchanged_runs(record: &RunRecord, directory: &Path) -> Vec<EarlierRun> {
    let mut found = runs_of_plan(record, directory);
    found.retain(|run| is_unchanged(&run.record, record));
    found
}

fn runs_of_plan(record: &RunRecord, directory: &Path) -> Vec<EarlierRun> {
    let mut found: Vec<EarlierRun> = run_directories(directory)
        .into_iter()
        .filter_map(|path| {
            let earlier = Reader::open(&path).ok()?.record;
            Some(EarlierRun {
                path,
                record: earlier,
            })
        })
        .filter(|earlier| {
            earlier.record.stop_reason.is_some() && same_plan(&earlier.record, record)
        })
        .collect();
    found.sort_by(|one, other| started(&one.record).cmp(&started(&other.record)));
    found
}

fn is_unchanged(one: &RunRecord, other: &RunRecord) -> bool {
    let software = |record: &RunRecord| {
        record
            .segments
            .last()
            .map(|segment| (segment.kernel.clone(), segment.fsb_version.clone()))
    };
    let disks = |record: &RunRecord| -> Vec<Vec<String>> {
        record
            .media
            .values()
            .map(|medium| disks_beneath(&medium.device))
            .collect()
    };
    let targets = |record: &RunRecord| -> Vec<_> {
        let made = record.targets.iter();
        made.map(|(name, target)| {
            (
                name.clone(),
                target.geometry.clone(),
                target.features.clone(),
            )
        })
        .collect()
    };
    software(one) == software(other) && disks(one) == disks(other) && targets(one) == targets(other)
}

/// Returns the model and the serial number of each disk.
fn disks_beneath(device: &DeviceManifest) -> Vec<String> {
    let own = device.model.iter().chain(&device.serial).cloned();
    own.chain(device.beneath.iter().flat_map(disks_beneath))
        .collect()
}

/// Reads the last run of the same plan in the same results directory. Returns `None` without one
/// that can be read.
pub fn last_run(record: &RunRecord, run: &Path) -> Option<Stored> {
    let last = earlier_runs(record, &results_directory(run)?).pop()?;
    read(&last.path).ok()
}

/// Returns the time at which a run began: RFC 3339 in UTC, which sorts as text.
fn started(record: &RunRecord) -> Option<&str> {
    record
        .segments
        .first()
        .map(|segment| segment.started.as_str())
}

/// Returns whether two runs measure the same work on the same targets in the same place, on the
/// same machine.
fn same_plan(one: &RunRecord, other: &RunRecord) -> bool {
    same_machine(&one.host, &other.host)
        && one.placement == other.placement
        && same_request(&one.plan, &other.plan)
}

fn same_machine(one: &HostManifest, other: &HostManifest) -> bool {
    /// Kernels reserve different amounts of the same memory.
    const RESERVED: f64 = 0.02;
    let memory = one.memory_bytes as f64;
    one.architecture == other.architecture
        && one.cpu == other.cpu
        && one.cpus == other.cpus
        && one.hypervisor == other.hypervisor
        && (memory - other.memory_bytes as f64).abs() <= memory * RESERVED
}

/// Returns whether two plans request the same; seeds and lengths of budgets may differ.
fn same_request(one: &Plan, other: &Plan) -> bool {
    one.race.is_none()
        && other.race.is_none()
        && one.targets == other.targets
        && one.workloads == other.workloads
        && one.controls == other.controls
        && discriminant(&one.repetition) == discriminant(&other.repetition)
        && one.sample_time == other.sample_time
        && one.one_at_a_time == other.one_at_a_time
        && one.keep_affected == other.keep_affected
        && one.mkfs_defaults == other.mkfs_defaults
        && one.like_disk == other.like_disk
        && one.size == other.size
        && one.scale == other.scale
        && one.dir == other.dir
        && one.place == other.place
        && one.kernels == other.kernels
        && one.vm == other.vm
}

/// Returns the run directories in a directory and in the sets there. It looks with the rights of
/// the invoking user.
pub fn run_directories(directory: &Path) -> Vec<PathBuf> {
    let is_run = |path: &PathBuf| path.join(RUN_FILE).is_file();
    let runs = || {
        let found = subdirectories(directory).into_iter();
        found
            .flat_map(|path| {
                if is_run(&path) {
                    vec![path]
                } else {
                    runs_of_set(&path)
                }
            })
            .collect()
    };
    owner::looking(runs).unwrap_or_default()
}

/// Returns the run directories of a set, in the order of their numbers; empty if there are none.
pub fn runs_of_set(directory: &Path) -> Vec<PathBuf> {
    let number = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str())?;
        name.strip_prefix(RUN_OF_SET)?.parse::<u32>().ok()
    };
    let is_run = |path: &PathBuf| number(path).is_some() && path.join(RUN_FILE).is_file();
    let mut runs: Vec<PathBuf> = subdirectories(directory)
        .into_iter()
        .filter(is_run)
        .collect();
    runs.sort_by_key(number);
    runs
}

fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fsb_runner::plan_file;
    use fsb_store::{RUN_FILE, TRIALS_FILE};
    use hdrhistogram::Histogram;
    use serde_json::{Value, json};

    use super::*;
    use crate::results;
    use crate::run::record::new_record;

    fn trial(block: u32, attempt: u32, outcome: &str, nanoseconds: u64) -> Value {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
        (0..300).for_each(|number| histogram.record(nanoseconds + number * 1000).unwrap());
        json!({
            "schema": fsb_model::trial::SCHEMA, "id": format!("b{block}"), "phase": "measured", "block": block,
            "order": block * 10 + attempt, "attempt": attempt, "target": "a", "kernel": "6.18", "workload": "read",
            "operation": "read", "params": {"name": "read"}, "started": "2026-01-01T00:00:00Z", "outcome": outcome,
            "metrics": [{"name": "throughput", "value": 1e6, "unit": "bytes_per_second", "better": "higher"}],
            "latency": {"read": fsb_engine::latency::encode(&histogram), "write": "nonsense"}, "observed": {"seen": [1, 2]},
        })
    }

    #[test]
    fn a_report_of_merged_latencies_is_that_of_all_trials() {
        let directory = tempfile::tempdir().unwrap();
        let record = json!({
            "schema": fsb_model::run::SCHEMA, "name": "a", "cells": [],
            "plan": {"name": "quick", "targets": [{"name": "a", "directory": "/a"}], "workloads": [], "seed": 1,
                     "repetition": {"blocks": {"blocks": 5}}, "size": "2G", "dir": ".", "theta": 0.03},
        });
        fs::write(directory.path().join(RUN_FILE), record.to_string()).unwrap();
        let mut lines: Vec<Value> = (1..=5)
            .map(|block| trial(block, 1, "ok", u64::from(block) * 50_000))
            .collect();
        lines.insert(2, trial(2, 2, "ok", 900_000));
        lines.push(trial(6, 1, "failed", 5_000_000));
        let journal: Vec<u8> = lines
            .iter()
            .flat_map(|line| fsb_store::journal_line(line).unwrap())
            .collect();
        fs::write(directory.path().join(TRIALS_FILE), journal).unwrap();
        let whole = fsb_store::read(directory.path()).unwrap();
        let stored = read(directory.path()).unwrap();
        assert!(
            stored
                .trials
                .iter()
                .filter(|trial| !trial.extras().latency.is_empty())
                .count()
                == 1
        );
        let expected = results::summary(&whole.record, &whole.trials);
        assert!(expected.cases[0].cells[0].latency[0].n == 1500);
        assert_eq!(
            results::summary_of_shown(&stored.record, &stored.trials),
            expected
        );
    }

    fn record(started: &str, change: impl FnOnce(&mut RunRecord)) -> RunRecord {
        let plan = "targets = ['null', 'null']\n[[workload]]\nname = 'rename'\nfiles = 10\n";
        let resolved = plan_file::parse(plan, "p").unwrap().resolve(2, 7).unwrap();
        let mut record = new_record(resolved).unwrap().0;
        record.segments[0].started = started.to_owned();
        record.stop_reason = Some(fsb_model::StopReason::Requested { blocks: 5 });
        change(&mut record);
        record
    }

    fn store(directory: &Path, name: &str, record: &RunRecord) {
        let path = directory.join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(RUN_FILE), serde_json::to_string(record).unwrap()).unwrap();
    }

    #[test]
    fn only_finished_runs_of_the_same_plan_and_machine_are_earlier_runs() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str, record: RunRecord| store(directory.path(), name, &record);
        at(
            "seed",
            record("2026-11-01T00:00:00Z", |record| record.plan.seed = 99),
        );
        at("set/run-2", record("2026-11-02T00:00:00Z", |_| ()));
        at("set/notes", record("2026-11-02T00:00:01Z", |_| ()));
        at(
            "unfinished",
            record("2026-11-03T00:00:00Z", |record| record.stop_reason = None),
        );
        at(
            "size",
            record("2026-11-03T00:00:00Z", |record| record.plan.size.0 /= 2),
        );
        at(
            "machine",
            record("2026-11-03T00:00:00Z", |record| record.host.cpus = 99),
        );
        at(
            "target",
            record("2026-11-03T00:00:00Z", |record| {
                drop(record.plan.targets.pop())
            }),
        );
        at("later", record("2026-11-05T00:00:00Z", |_| ()));
        fs::create_dir(directory.path().join("empty")).unwrap();
        fs::create_dir(directory.path().join("damaged")).unwrap();
        fs::write(directory.path().join("damaged").join(RUN_FILE), "{").unwrap();
        let this = record("2026-11-04T00:00:00Z", |_| ());
        at("this", this.clone());
        let found: Vec<PathBuf> = earlier_runs(&this, directory.path())
            .into_iter()
            .map(|earlier| earlier.path)
            .collect();
        assert_eq!(
            found,
            [
                directory.path().join("seed"),
                directory.path().join("set/run-2")
            ]
        );
    }

    #[test]
    fn the_runs_of_a_set_are_in_the_order_of_their_numbers() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["run-2", "run-10", "run-1", "run-x", "notes"] {
            store(
                directory.path(),
                name,
                &record("2026-11-01T00:00:00Z", |_| ()),
            );
        }
        fs::create_dir(directory.path().join("run-3")).unwrap();
        let runs = runs_of_set(directory.path());
        assert_eq!(
            runs,
            ["run-1", "run-2", "run-10"].map(|name| directory.path().join(name))
        );
    }

    #[test]
    fn the_runs_of_a_set_are_searched_beside_the_set() {
        let directory = tempfile::tempdir().unwrap();
        let results = directory.path();
        fs::create_dir(results.join("a-set")).unwrap();
        assert_eq!(
            results_directory(&results.join("run-3")),
            Some(results.to_owned())
        );
        assert_eq!(
            results_directory(&results.join("a-set/run-3")),
            Some(results.join("a-set"))
        );
        fs::write(results.join("a-set").join(SET_FILE), "{}").unwrap();
        assert_eq!(
            results_directory(&results.join("a-set/run-3")),
            Some(results.to_owned())
        );
    }
}

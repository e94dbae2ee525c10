//! A run directory as reports show it: trials with only the reported data, and the merged latencies of a cell.
//!
//! Histograms, requested values and observed values are most of a journal. They are read one line at a time and never
//! held together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::path::Path;

use fsb_model::{Outcome, RunRecord};
use fsb_report::run::{ReportTrial, ShownTrials, TrialFields};
use fsb_stats::histogram::Decoder;
use fsb_store::{Line, Reader, StoreError};
use serde::Deserialize;

/// The number of histograms that are held until they are merged.
const BATCH: usize = 8;

/// A run that is shown.
pub struct Stored {
    /// The record.
    pub record: RunRecord,
    /// The trials in the order in which they ended. The first trial with latencies of a cell holds those of all its
    /// trials.
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
                let cell = cells.entry((trial.target.to_string(), trial.workload.to_string())).or_default();
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
        // Only a later attempt shows that a trial does not count. This is rare and takes a second pass.
        if now_replaced != replaced {
            replaced = now_replaced;
            continue;
        }
        for place in first {
            let trial = &mut trials[place];
            let histograms = cells.remove(&(trial.what.target.clone(), trial.what.workload.clone()));
            let merged = histograms.into_iter().flatten().filter_map(|(operation, mut texts)| {
                decoder.merge(&mut texts);
                Some((operation, texts.pop()?))
            });
            let merged: BTreeMap<String, String> = merged.collect();
            trial.set_latency(merged);
        }
        return Ok(Stored { record: reader.record, trials, warnings });
    }
}

/// Returns the indices of two kinds of trials: the first trial with values of each cell, and trials with values that a
/// later attempt in the same block replaces.
fn last_attempts(trials: &[ReportTrial]) -> (Vec<usize>, HashSet<usize>) {
    let mut cells: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (place, trial) in trials.iter().enumerate().filter(|(_, trial)| trial.counts()) {
        cells.entry((&trial.what.target, &trial.what.workload)).or_default().push(place);
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
            replaced.extend(earlier.iter().copied().filter(|place| of(place).outcome == Outcome::Ok));
        }
        first.extend(first_good);
    }
    (first, replaced)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fsb_store::{RUN_FILE, TRIALS_FILE};
    use hdrhistogram::Histogram;
    use serde_json::{Value, json};

    use super::*;
    use crate::results;

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
        let mut lines: Vec<Value> = (1..=5).map(|block| trial(block, 1, "ok", u64::from(block) * 50_000)).collect();
        lines.insert(2, trial(2, 2, "ok", 900_000));
        lines.push(trial(6, 1, "failed", 5_000_000));
        let journal: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(directory.path().join(TRIALS_FILE), journal).unwrap();
        let whole = fsb_store::read(directory.path()).unwrap();
        let stored = read(directory.path()).unwrap();
        assert!(stored.trials.iter().filter(|trial| !trial.extras().latency.is_empty()).count() == 1);
        let expected = results::summary(&whole.record, &whole.trials);
        assert!(expected.cases[0].cells[0].latency[0].n == 1500);
        assert_eq!(results::summary_of_shown(&stored.record, &stored.trials), expected);
    }
}

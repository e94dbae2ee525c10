//! A run directory as it is shown: its trials without what no report tells, and the latencies of a cell merged.
//!
//! The histograms of all trials, what was asked and what was seen are most of a journal. They are read one line at a
//! time, and never held together.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fsb_analysis::histogram;
use fsb_engine::latency::encode_foreign;
use fsb_model::timeline::Timeline;
use fsb_model::trial::{Phase, Stretches};
use fsb_model::workload::Params;
use fsb_model::{Metric, Outcome, RunRecord, Trial};
use fsb_report::run::{ShownTrial, ShownTrials};
use fsb_store::{Line, Reader, StoreError};
use hdrhistogram::Histogram;
use serde::Deserialize;

/// A run that is shown.
pub struct Stored {
    /// The record.
    pub record: RunRecord,
    /// The trials in the order in which they ended. The first one of a cell that has latencies has those of all of them.
    pub trials: Vec<ShownTrial>,
    /// What had to be passed over.
    pub warnings: Vec<String>,
}

/// A line without what no report tells.
#[derive(Deserialize)]
struct Shown {
    schema: String,
    id: String,
    phase: Phase,
    block: u32,
    order: u32,
    attempt: u32,
    target: String,
    kernel: String,
    workload: String,
    operation: String,
    params: Params,
    started: String,
    outcome: Outcome,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    metrics: Vec<Metric>,
    #[serde(default)]
    disturbed: Vec<String>,
    #[serde(default)]
    superseded: bool,
    #[serde(default)]
    part: Option<u32>,
    #[serde(default)]
    stretches: Stretches,
    #[serde(default)]
    timelines: Vec<Timeline>,
}

/// A line with nothing but its latencies.
#[derive(Deserialize)]
struct Latencies {
    schema: String,
    #[serde(default)]
    latency: BTreeMap<String, String>,
}

impl Line for Shown {
    fn schema(&self) -> &str {
        &self.schema
    }
}

impl Line for Latencies {
    fn schema(&self) -> &str {
        &self.schema
    }
}

impl From<Shown> for Trial {
    fn from(shown: Shown) -> Trial {
        let Shown { schema, id, phase, block, order, attempt, target, kernel, workload, operation, .. } = shown;
        let Shown {
            params, started, outcome, error, metrics, disturbed, superseded, part, stretches, timelines, ..
        } = shown;
        Trial {
            schema,
            id,
            phase,
            block,
            order,
            attempt,
            target,
            kernel,
            workload,
            operation,
            params,
            started,
            outcome,
            error,
            metrics,
            latency: BTreeMap::new(),
            workers: Vec::new(),
            requested: Default::default(),
            observed: Default::default(),
            disturbed,
            superseded,
            part,
            stretches,
            timelines,
            extra: Default::default(),
        }
    }
}

/// Reads a run to show it.
pub fn read(path: &Path) -> Result<Stored, StoreError> {
    let mut reader = Reader::open(path)?;
    let mut trials = ShownTrials::default();
    let mut lines: Vec<u32> = Vec::new();
    let warnings = reader.trials(|line, shown: Shown| {
        lines.push(u32::try_from(line).unwrap_or(u32::MAX));
        trials.push(&shown.into());
    })?;
    let mut trials = trials.finish();
    let heirs = heirs(&trials);
    let mut merged: BTreeMap<u32, BTreeMap<String, Histogram<u64>>> = BTreeMap::new();
    let mut decoder = histogram::Decoder::default();
    reader.trials(|line, Latencies { latency, .. }: Latencies| {
        // Both passes show the same lines in the same order.
        let place = lines.binary_search(&u32::try_from(line).unwrap_or(u32::MAX)).ok();
        let Some(heir) = place.and_then(|place| heirs[place]) else { return };
        let sums = merged.entry(heir).or_default();
        for (operation, text) in latency {
            // As the report takes them: what is no histogram, and what does not fit to the first one, is left out.
            let Some(found) = decoder.decode(&text) else { continue };
            match sums.entry(operation) {
                std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(found)),
                std::collections::btree_map::Entry::Occupied(mut sum) => drop(sum.get_mut().add(found)),
            }
        }
    })?;
    for (heir, histograms) in merged {
        let encoded = histograms.into_iter().filter_map(|(operation, sum)| Some((operation, encode_foreign(&sum)?)));
        trials[heir as usize].latency = encoded.collect();
    }
    Ok(Stored { record: reader.record, trials, warnings })
}

/// The trial, by its place, that is to have the latencies of each: of the last attempts in each block of a cell, where they
/// ended well, the first one. `None` for trials whose latencies do not count.
fn heirs(trials: &[ShownTrial]) -> Vec<Option<u32>> {
    let mut cells: HashMap<(&str, &str), Vec<u32>> = HashMap::new();
    for (place, trial) in (0..).zip(trials).filter(|(_, trial)| trial.counts()) {
        cells.entry((&trial.what.target, &trial.what.workload)).or_default().push(place);
    }
    let mut heirs = vec![None; trials.len()];
    for mut places in cells.into_values() {
        let of = |place: &u32| &trials[*place as usize];
        // The sort keeps the order of equals: the last one of them is the last one that was made.
        places.sort_by_key(|place| (of(place).block, of(place).attempt, of(place).order));
        let last = places.chunk_by(|one, next| of(one).block == of(next).block).filter_map(|block| block.last());
        let good: Vec<u32> = last.copied().filter(|place| of(place).outcome == Outcome::Ok).collect();
        for place in &good {
            heirs[*place as usize] = good.first().copied();
        }
    }
    heirs
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fsb_store::{RUN_FILE, TRIALS_FILE};
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
        assert!(stored.trials.iter().filter(|trial| !trial.latency.is_empty()).count() == 1);
        let expected = results::summary(&whole.record, &whole.trials);
        assert!(expected.rows[0].cells[0].latency[0].n == 1500);
        assert_eq!(results::summary_of_shown(&stored.record, &stored.trials), expected);
    }
}

//! The summary of a run, with what lies beside it: published results, and the last run of the same
//! plan.

use std::path::Path;

use fsb_model::{RunRecord, Trial, WidestInterval};
use fsb_report::summary::{Summary, SummaryInputs, TrustLevel, case_states};
use fsb_store::journal::CompactTrial;

use crate::Latencies;
use crate::directory::{earlier_runs, results_directory};
use crate::matrices::of_matrices;
use crate::run::StoredRun;
use crate::{claims, published};

/// Returns the summary of a run, with published results for the same workloads.
pub fn of_run_in_memory(record: &RunRecord, trials: &[Trial]) -> Summary {
    of_trials(record, &CompactTrial::all(trials), None)
}

/// Returns the summary of a stored run, beside the last run of the same plan. The runs beside a
/// published page are not those of its machine.
pub fn of_stored(run: &StoredRun) -> Summary {
    let earlier = match run.publication {
        Some(_) => None,
        None => last_run(&run.record, &run.path),
    };
    of_trials(&run.record, &run.trials, earlier.as_ref())
}

/// Returns the same summary from trials that hold only the data of reports, beside an earlier run
/// of the same plan.
pub fn of_trials(
    record: &RunRecord,
    trials: &[CompactTrial],
    earlier: Option<&StoredRun>,
) -> Summary {
    Summary::new(&SummaryInputs {
        record,
        trials,
        matrices: &of_matrices(record, trials),
        published: published::beside(record).as_ref(),
        claims: claims::claims_beside(record, trials).as_ref(),
        earlier: earlier.map(|run| (&run.record, &run.trials[..])),
    })
}

/// Returns why a run is not trusted enough to decide a gate; `None` if it is. A run of which a part
/// of the journal is left out is not.
pub fn low_trust(run: &StoredRun) -> Option<String> {
    if run.is_damaged {
        return Some(run.warnings.join("; "));
    }
    let trust = Summary::of_shown(&run.record, &run.trials).trust?;
    (trust.level == TrustLevel::Low).then(|| trust.because.join("; "))
}

/// Returns the workload whose ratios (of one target: whose values) have the widest 95 % interval,
/// or `None` if none has a value.
pub fn widest_interval(record: &RunRecord, trials: &[Trial]) -> Option<WidestInterval> {
    let widths = case_states(record, trials)
        .into_iter()
        .filter_map(|row| Some((row.state.half_width?, row.workload)));
    let (half_width, workload) = widths.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(WidestInterval {
        half_width: Some(half_width).filter(|half_width| half_width.is_finite()),
        workload,
    })
}

/// Returns the workloads that need no more blocks after an interim analysis, including those that
/// have no interval.
pub fn analyse_interim(record: &RunRecord, trials: &[Trial]) -> Vec<String> {
    case_states(record, trials)
        .into_iter()
        .filter(|row| row.state.enough || row.state.half_width.is_none())
        .map(|row| row.workload)
        .collect()
}

/// Reads the last run of the same plan in the same results directory, whose values are compared.
/// Returns `None` without one that can be read.
pub fn last_run(record: &RunRecord, run: &Path) -> Option<StoredRun> {
    let last = earlier_runs(record, &results_directory(run)?).pop()?;
    StoredRun::read(&last.path, Latencies::LeftOut).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use fsb_store::{RUN_FILE, TRIALS_FILE};
    use hdrhistogram::Histogram;
    use serde_json::{Value, json};

    use super::*;

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
        let stored = StoredRun::read(directory.path(), Latencies::Added).unwrap();
        assert!(
            stored
                .trials
                .iter()
                .filter(|trial| !trial.extras().latency.is_empty())
                .count()
                == 1
        );
        let expected = of_run_in_memory(&whole.record, &whole.trials);
        assert!(expected.cases[0].cells[0].latency[0].n == 1500);
        assert_eq!(of_trials(&stored.record, &stored.trials, None), expected);
        let without = StoredRun::read(directory.path(), Latencies::LeftOut).unwrap();
        let mut trials = stored.trials;
        for trial in &mut trials {
            trial.set_latency(BTreeMap::new());
        }
        assert_eq!(without.trials, trials, "all else is read");
    }
}

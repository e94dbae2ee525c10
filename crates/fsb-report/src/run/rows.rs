//! Rows: one a workload.

use fsb_analysis::{BlockValue, Outcome, Ranking, Weighted};
use fsb_model::{Better, Metric, RunRecord, Trial, Unit};

use super::cell;
use super::summary::{Measured, Overall, TargetSummary, Workload};

/// One row a cell of the plan, then one for every label that only the trials know.
pub(super) fn rows(record: &RunRecord, trials: &[Trial]) -> Vec<Workload> {
    let mut labels: Vec<&str> = record.cells.iter().map(|cell| cell.label.as_str()).collect();
    for trial in trials.iter().filter(|trial| trial.counts()) {
        if !labels.contains(&trial.workload.as_str()) {
            labels.push(&trial.workload);
        }
    }
    labels.into_iter().map(|label| row(record, label, trials)).collect()
}

fn row(record: &RunRecord, label: &str, trials: &[Trial]) -> Workload {
    let trials: Vec<&Trial> = trials.iter().filter(|trial| trial.counts() && trial.workload == label).collect();
    let primary = trials.iter().find_map(|trial| trial.primary()).map_or_else(nothing_measured, Clone::clone);
    let targets = &record.plan.targets;
    let mut cells: Vec<Measured> = targets
        .iter()
        .map(|target| {
            let own: Vec<&Trial> = trials.iter().copied().filter(|trial| trial.target == target.name).collect();
            cell::cell(&own, &primary, record.targets.get(&target.name))
        })
        .collect();
    let ranked: Vec<bool> = targets.iter().map(|target| record.unjudged_target(target).is_none()).collect();
    let ranking = rank(&cells, &ranked, primary.better, record.plan.theta);
    for (index, cell) in cells.iter_mut().enumerate() {
        cell.against = (index > 0).then(|| ranking.comparison(0, index)).flatten();
        cell.mark = mark(&ranking, index);
    }
    Workload {
        workload: label.to_owned(),
        operation: trials.first().map(|trial| trial.operation.clone()).unwrap_or_default(),
        metric: primary.name,
        unit: primary.unit,
        better: primary.better,
        cells,
        ranking,
        finding: String::new(),
    }
}

/// Stands in where no trial of a row has a value: nothing of it is shown but the absence.
fn nothing_measured() -> Metric {
    Metric { name: String::new(), value: 0.0, unit: Unit::Count, better: Better::Higher }
}

/// A target that is not judged is one without values here.
fn rank(cells: &[Measured], ranked: &[bool], better: Better, theta: f64) -> Ranking {
    let values_of = |(cell, ranked): (&Measured, &bool)| if *ranked { values(cell) } else { Vec::new() };
    let samples: Vec<Vec<BlockValue>> = cells.iter().zip(ranked).map(values_of).collect();
    // Cells hold only values that are finite and above zero, so the error cannot occur; if it did, an unranked row
    // is the honest answer.
    Ranking::of(&samples, better, theta).unwrap_or(Ranking {
        pairs: Vec::new(),
        letters: vec![None; cells.len()],
        outcome: Outcome::Nothing,
    })
}

fn values(cell: &Measured) -> Vec<BlockValue> {
    cell.trials.iter().map(|point| BlockValue::new(point.block, point.value)).collect()
}

fn mark(ranking: &Ranking, target: usize) -> String {
    match &ranking.outcome {
        Outcome::Undecided(contenders) if contenders.contains(&target) => "?".to_owned(),
        Outcome::Alone(_) => String::new(),
        _ => ranking.letters[target].clone().unwrap_or_default(),
    }
}

/// Each target against the reference over all workloads where both have values.
pub(super) fn overall(rows: &[Workload], targets: &[TargetSummary], theta: f64) -> Vec<Option<Overall>> {
    let against = |candidate: usize| {
        if targets[0].unjudged.is_some() || targets[candidate].unjudged.is_some() {
            return None;
        }
        let pairs: Vec<_> = rows
            .iter()
            .map(|row| (row.better, values(&row.cells[0]), values(&row.cells[candidate])))
            .filter(|(_, baseline, candidate)| !baseline.is_empty() && !candidate.is_empty())
            .collect();
        let workloads: Vec<Weighted<'_>> = pairs
            .iter()
            .map(|(better, baseline, candidate)| Weighted { weight: 1.0, better: *better, baseline, candidate })
            .collect();
        let comparison = fsb_analysis::overall(&workloads, theta).ok().flatten()?;
        (workloads.len() > 1).then_some(Overall { comparison, workloads: workloads.len() })
    };
    (0..targets.len()).map(|target| (target > 0).then(|| against(target)).flatten()).collect()
}

//! Rows: one a workload.

use fsb_analysis::{
    BlockValue, Outcome, Pair, Ranking, RoundLogs, RowState, Weighted, hold_over_page, row_state_on_page, scatter,
};
use fsb_model::units::show_bytes;
use fsb_model::{Better, Metric, Repetition, RunRecord, Target, Trial, Unit, trial};

use super::shown::ShownTrial;
use super::summary::{Measured, Overall, TargetSummary, TrialPoint, Workload};
use super::{cell, stretches};
use crate::show::listed;

/// One row a cell of the plan, then one for every label that only the trials know.
pub(super) fn rows(record: &RunRecord, trials: &[ShownTrial]) -> Vec<Workload> {
    let mut rows: Vec<Workload> = labels(record, trials).into_iter().map(|label| row(record, label, trials)).collect();
    hold_over_page(rows.iter_mut().map(|row| &mut row.ranking));
    for row in &mut rows {
        row.withheld = withheld(record, &row.workload, trials).filter(|_| row.ranking.outcome != Outcome::Nothing);
        if row.withheld.is_some() {
            row.ranking.withhold();
        }
        for (index, cell) in row.cells.iter_mut().enumerate() {
            cell.against = (index > 0).then(|| row.ranking.comparison(0, index)).flatten();
            cell.mark = mark(&row.ranking, index);
        }
        row.resolution = row.ranking.resolution();
    }
    rows
}

/// The reason why a workload that has enough values is not judged.
fn withheld(record: &RunRecord, label: &str, trials: &[ShownTrial]) -> Option<String> {
    let lacking = record.memory_lacking(label).map(|memory| {
        let (touched, needed) = (show_bytes(memory.touched as f64), show_bytes(memory.needed as f64));
        format!("only {touched} of {needed} of memory were backed by the hypervisor")
    });
    lacking.or_else(|| spoilt(record, label, trials))
}

/// What spoilt more than half of the trials of a workload that targets are measured at in turn. What happens during one
/// visit the others do not see, so that it falls on one target alone; in rounds it falls on all, and intervals hold all the
/// same (docs/calibration.md).
fn spoilt(record: &RunRecord, label: &str, trials: &[ShownTrial]) -> Option<String> {
    if record.rounds.contains_key(label) {
        return None;
    }
    let counted: Vec<&ShownTrial> =
        trials.iter().filter(|trial| trial.counts() && trial.what.workload == label).collect();
    let disturbed = counted.iter().filter(|trial| !trial.disturbed.is_empty()).count();
    let is_invalid = |trial: &&&ShownTrial| trial.outcome == trial::Outcome::Invalid && trial.disturbed.is_empty();
    let invalid = counted.iter().filter(is_invalid).count();
    let kinds = [(disturbed, "disturbed"), (invalid, "invalid")];
    let kinds: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    let all = crate::show::counted(counted.len(), "trial");
    (2 * (disturbed + invalid) > counted.len()).then(|| format!("of {all} {}", listed(&kinds)))
}

fn labels<'a>(record: &'a RunRecord, trials: &'a [ShownTrial]) -> Vec<&'a str> {
    let mut labels: Vec<&str> = record.cells.iter().map(|cell| cell.label.as_str()).collect();
    for trial in trials.iter().filter(|trial| trial.counts()) {
        if !labels.contains(&trial.what.workload.as_str()) {
            labels.push(&trial.what.workload);
        }
    }
    labels
}

/// A row while its run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct RowNow {
    /// Its label.
    pub workload: String,
    /// Whether it needs more blocks.
    pub state: RowState,
}

/// Every row as it stands after the trials so far: what a run asks after each look.
pub fn row_states(record: &RunRecord, trials: &[Trial]) -> Vec<RowNow> {
    let trials = &*ShownTrial::all(trials);
    let precision = match record.plan.repetition {
        Repetition::Precision { half_width, .. } => Some(half_width),
        _ => None,
    };
    let row = |label: &str| {
        let (primary, cells) = cells(record, label, trials);
        let samples = samples(record, &cells.iter().map(|(cell, _)| cell).collect::<Vec<_>>());
        (label.to_owned(), primary.better, samples)
    };
    let rows: Vec<(String, Better, Vec<Vec<BlockValue>>)> = labels(record, trials).into_iter().map(row).collect();
    let pairs = |samples: &[Vec<BlockValue>]| {
        let present = samples.iter().filter(|values| !values.is_empty()).count();
        present * present.saturating_sub(1) / 2
    };
    let page: usize = rows.iter().map(|(_, _, samples)| pairs(samples)).sum();
    let nothing = RowState { decided: false, half_width: None, enough: false };
    let now = |(workload, better, samples): (String, Better, Vec<Vec<BlockValue>>)| {
        let state = row_state_on_page(&samples, &record.looks, better, record.plan.theta, precision, page);
        let state = state.unwrap_or(nothing);
        // What would not be judged is not decided.
        let withheld = withheld(record, &workload, trials).is_some();
        let state = RowState { decided: state.decided && !withheld, enough: state.enough && !withheld, ..state };
        RowNow { workload, state }
    };
    rows.into_iter().map(now).collect()
}

/// The metric that a row is compared by, and its cells with their rounds, one a target.
fn cells(record: &RunRecord, label: &str, trials: &[ShownTrial]) -> (Metric, Vec<(Measured, Vec<RoundLogs>)>) {
    let trials: Vec<&ShownTrial> =
        trials.iter().filter(|trial| trial.counts() && trial.what.workload == label).collect();
    let primary = trials.iter().find_map(|trial| trial.primary()).map_or_else(nothing_measured, Metric::from);
    let cell = |target: &Target| {
        let own: Vec<&ShownTrial> = trials.iter().copied().filter(|trial| trial.what.target == target.name).collect();
        let rounds = stretches::rounds(&own, &primary);
        (cell::cell(&own, &primary, record.targets.get(&target.name)), rounds)
    };
    let cells = record.plan.targets.iter().map(cell).collect();
    (primary, cells)
}

fn row(record: &RunRecord, label: &str, trials: &[ShownTrial]) -> Workload {
    let (primary, cells) = cells(record, label, trials);
    let (mut cells, rounds): (Vec<Measured>, Vec<Vec<RoundLogs>>) = cells.into_iter().unzip();
    let ranking = rank(record, &cells, primary.better);
    for (index, cell) in cells.iter_mut().enumerate() {
        let spread = |pair: &Pair| (pair.baseline == 0 && pair.candidate == index).then_some(pair.spread).flatten();
        let spread = ranking.pairs.iter().find_map(spread);
        cell.scatter = spread.and_then(|spread| scatter(spread, &rounds[0], &rounds[index]));
        cell.not_stationary = stretches::judged(&rounds[index], record.plan.theta);
    }
    let operation = trials.iter().find(|trial| trial.counts() && trial.what.workload == label);
    Workload {
        workload: label.to_owned(),
        operation: operation.map(|trial| trial.what.operation.clone()).unwrap_or_default(),
        metric: primary.name,
        unit: primary.unit,
        better: primary.better,
        cells,
        resolution: None,
        ranking,
        withheld: None,
        finding: String::new(),
    }
}

/// Stands in where no trial of a row has a value: nothing of it is shown but the absence.
fn nothing_measured() -> Metric {
    Metric { name: String::new(), value: 0.0, unit: Unit::Count, better: Better::Higher }
}

/// The values of each target; none of one that is not judged.
fn samples(record: &RunRecord, cells: &[&Measured]) -> Vec<Vec<BlockValue>> {
    let ranked = record.plan.targets.iter().map(|target| record.unjudged_target(target).is_none());
    cells.iter().zip(ranked).map(|(cell, ranked)| if ranked { values(cell) } else { Vec::new() }).collect()
}

fn rank(record: &RunRecord, cells: &[Measured], better: Better) -> Ranking {
    let samples = samples(record, &cells.iter().collect::<Vec<_>>());
    // Cells hold only values that are finite and above zero, so the error cannot occur; if it did, an unranked row
    // is the honest answer.
    Ranking::at_look(&samples, &record.looks, better, record.plan.theta)
        .unwrap_or_else(|_| Ranking::without_pairs(cells.len(), Outcome::Nothing))
}

fn values(cell: &Measured) -> Vec<BlockValue> {
    let value = |point: &TrialPoint| BlockValue { block: point.block, value: point.value, part: point.part };
    cell.trials.iter().map(value).collect()
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
            .filter(|row| row.withheld.is_none())
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

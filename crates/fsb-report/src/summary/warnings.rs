//! The warnings of a run, each with its likely cause and its remedy.

use std::collections::BTreeMap;

use fsb_model::trial::LOST_EARLIER;
use fsb_model::{Outcome, Phase, RunRecord, StopReason, Warning};
use fsb_stats::Noise;

use super::model::{MeasuredCell, Numbers};
use super::trial_value::CompactTrial;
use super::{device, geometry, headline, interference, risks, samples, trust, unproven};
use crate::record_text::{incomplete_text, stop_reason_text, warning_text};
use crate::show::{NOT_HERE, counted, some_cases, some_of};
use crate::summary::{CellState, Workload};

/// A warning names at most this number of cells.
const NAMED: usize = 3;

fn unfinished(record: &RunRecord) -> String {
    let next = record.completion();
    format!("unfinished: {next}; the report shows the saved trials")
}

/// Returns the warnings that may change the meaning of the answer, and those that the trust covers.
pub(super) fn warnings(
    summary: &Numbers,
    record: &RunRecord,
    trials: &[CompactTrial],
) -> (Vec<String>, Vec<String>) {
    let (reported, others): (Vec<&Warning>, Vec<&Warning>) = record
        .warnings
        .iter()
        .partition(|warning| trust::reports(warning));
    // The most severe warning comes first, because a screen has room for one.
    let mut urgent: Vec<String> = Vec::new();
    let measured = trials.iter().filter(|trial| trial.phase == Phase::Measured);
    urgent.extend(incomplete_text(record, measured.map(|trial| trial.block)));
    if record.stop_reason.is_none() && summary.blocks > 0 {
        urgent.push(unfinished(record));
    }
    if let Some(reason) = record
        .stop_reason
        .as_ref()
        .filter(|reason| is_early(reason))
    {
        urgent.push(format!("the run ended after {}", stop_reason_text(reason)));
    }
    urgent.extend(withheld(summary, trials));
    urgent.extend(risks::durable(summary).or_else(|| unflushed(record)));
    let (storage, others): (Vec<&Warning>, Vec<&Warning>) = others
        .into_iter()
        .partition(|warning| matches!(warning, Warning::Storage { .. }));
    urgent.extend(storage.into_iter().map(warning_text));
    urgent.extend(geometry::warnings(record));
    let (costs, others): (Vec<&Warning>, Vec<&Warning>) = others
        .into_iter()
        .partition(|warning| matches!(warning, Warning::LongPreparation { .. }));
    urgent.extend(others.into_iter().map(warning_text));
    urgent.extend(lost(summary));
    urgent.extend(warm_up(trials));
    urgent.extend(costs.into_iter().map(warning_text));
    // `different_media` below describes the media as observed.
    let reported = reported
        .into_iter()
        .filter(|warning| **warning != Warning::DifferentMedia);
    let mut warnings: Vec<String> = reported.map(warning_text).collect();
    warnings.extend(shared_directories(record));
    warnings.extend(unjudged(summary));
    warnings.extend(device::different_media(record));
    // If nothing is judged, more blocks and a quieter machine would change nothing.
    if summary.unjudged.is_none() {
        warnings.extend(noise(summary));
        warnings.extend(trends(summary));
        warnings.extend(correlated(summary));
    }
    warnings.extend(not_stationary(summary));
    warnings.extend(samples::unsteady_warning(summary));
    warnings.extend(device::warning(record));
    warnings.extend(restless(trials));
    warnings.extend(interference::warning(trials));
    (urgent, warnings)
}

/// Returns a warning for each reason why some cases are not judged, with those cases, unless the
/// headline names them.
fn withheld(summary: &Numbers, trials: &[CompactTrial]) -> Vec<String> {
    if !summary.is_comparison()
        || summary.unjudged.is_some()
        || headline::names_withheld(summary, trials)
    {
        return Vec::new();
    }
    headline::withheld_reasons(summary)
        .into_iter()
        .map(|(why, cases)| format!("not judged: {}: {}", some_cases(&cases), why.summarized()))
        .collect()
}

/// Returns a warning on commands that ran several times in one directory.
fn shared_directories(record: &RunRecord) -> Option<String> {
    let found = record
        .cells
        .iter()
        .filter(|cell| record.repeats_in_one_directory(cell));
    let cases: Vec<String> = found.map(|cell| cell.label.clone()).collect();
    (!cases.is_empty()).then(|| {
        format!(
            "in each block, all runs but the first found the files of earlier runs (reuse): {}",
            some_of(&cases, NAMED)
        )
    })
}

/// Returns whether a run made fewer blocks than it was to, or missed the precision that was
/// requested.
pub(super) fn is_early(reason: &StopReason) -> bool {
    match reason {
        StopReason::Imprecise { .. }
        | StopReason::BudgetWouldBePassed { .. }
        | StopReason::BudgetCut { .. }
        | StopReason::Hopeless { .. }
        | StopReason::OutputsDiffer { .. }
        | StopReason::NoValues { .. } => true,
        StopReason::Requested { .. }
        | StopReason::BudgetPlanned { .. }
        | StopReason::Undecided { .. }
        | StopReason::Decided { .. }
        | StopReason::Precise { .. }
        | StopReason::Race { .. }
        | StopReason::Unknown(_) => false,
    }
}

/// Returns a warning on the meaning of durable if `barriers=off` keeps the kernel from flushing the
/// device.
fn unflushed(record: &RunRecord) -> Option<String> {
    let plan = &record.plan;
    let mut controls = plan
        .targets
        .iter()
        .map(|target| target.controls_over(&plan.controls));
    controls.any(|controls| controls.get("barriers").is_some_and(|value| value == "off")).then(|| {
        "barriers=off: the kernel does not flush the device, so data that this run calls durable or synced would not survive a power failure"
            .to_owned()
    })
}

/// Returns a warning if neighbouring blocks are more alike than usual.
fn correlated(summary: &Numbers) -> Option<String> {
    let correlation = summary
        .correlation
        .filter(|correlation| correlation.is_remarkable())?;
    Some(format!(
        "neighbouring blocks are correlated ({:.2} ± {:.2}), as on a machine that changes slowly; intervals of ratios are \
         therefore {:.0} % wider",
        correlation.estimate,
        correlation.error,
        100.0 * (correlation.inflation() - 1.0)
    ))
}

/// Returns the values that are not known to be what their case says, then the cells and targets
/// without any value, a line for each reason.
pub(super) fn problems(record: &RunRecord, summary: &Numbers) -> Vec<String> {
    let mut problems = unproven::statements(record, summary);
    for (target, found) in summary.targets.iter().enumerate() {
        if let Some(reason) = &found.failed {
            problems.push(format!("{}: failed: {reason}", found.name));
        }
        if let Some(reason) = &found.unavailable {
            problems.push(format!("{}: {NOT_HERE}: {reason}", found.name));
            continue;
        }
        let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for case in &summary.cases {
            let cell = &case.cells[target];
            // Cells that failed because the target did are covered by the line above.
            if let (Some(kind), Some(reason)) = (cell.absence(), cell.reason())
                && found.failed.as_deref() != Some(reason)
            {
                by_reason
                    .entry(format!("{kind}: {reason}"))
                    .or_default()
                    .push(&case.workload);
            }
        }
        for (reason, workloads) in by_reason {
            if workloads.len() == summary.cases.len() && workloads.len() > 1 {
                problems.push(format!("{}: {reason}", found.name));
                continue;
            }
            let kinds: Vec<String> = workloads
                .iter()
                .map(|workload| (*workload).to_owned())
                .collect();
            problems.push(format!(
                "{}: {reason} ({})",
                found.name,
                some_of(&kinds, NAMED)
            ));
        }
    }
    problems
}

fn cells(summary: &Numbers) -> impl Iterator<Item = (String, &Workload, &MeasuredCell)> {
    summary.cases.iter().flat_map(|case| {
        summary
            .cells_of(case)
            .map(move |(target, cell)| (target.label(), case, cell))
    })
}

/// Returns the targets that have numbers beside others that are ranked, a line for each reason.
fn unjudged(summary: &Numbers) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for target in summary
        .targets
        .iter()
        .filter(|_| summary.unjudged.is_none())
    {
        if let Some(reason) = &target.unjudged {
            by_reason.entry(reason).or_default().push(target.label());
        }
    }
    by_reason
        .into_iter()
        .map(|(why, names)| format!("{}: {why}: numbers, no ranks", some_of(&names, NAMED)))
        .collect()
}

/// Returns a warning on single failed trials in cells that have other values.
fn lost(summary: &Numbers) -> Option<String> {
    let mut total = 0;
    let mut named = Vec::new();
    for (target, case, cell) in
        cells(summary).filter(|(_, _, cell)| cell.state == CellState::Measured)
    {
        total += cell.lost.len();
        if let Some(first) = cell.lost.first() {
            let (lost, all) = (cell.lost.len(), cell.lost.len() + cell.trials.len());
            let first = format!("first in block {}: {}", first.block, first.reason);
            named.push(format!(
                "{target} at {}, {lost} of {all}, {first}",
                case.workload
            ));
        }
    }
    let are = if total == 1 {
        "trial has no value and is"
    } else {
        "trials have no value and are"
    };
    (total > 0).then(|| format!("{total} {are} left out: {}", some_of(&named, NAMED)))
}

/// Returns a warning on failed trials of the warm-up in cells with values. No other message names
/// them.
fn warm_up(trials: &[CompactTrial]) -> Option<String> {
    let has_values = |failed: &CompactTrial| {
        let place = (&failed.what.target, &failed.what.workload);
        trials.iter().any(|trial| {
            (&trial.what.target, &trial.what.workload) == place
                && trial.counts()
                && trial.primary().is_some()
        })
    };
    let failed = trials.iter().filter(|trial| {
        let ended_badly = matches!(trial.outcome, Outcome::Failed | Outcome::Invalid);
        trial.phase == Phase::Warmup && !trial.superseded && ended_badly && has_values(trial)
    });
    // One cause may cost a target all of its trials.
    let mut by_reason: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for trial in failed {
        let place = (
            &*trial.what.target,
            trial.reason().replace(LOST_EARLIER, ""),
        );
        let labels = by_reason.entry(place).or_default();
        labels.push(trial.what.workload.to_string());
    }
    let named: Vec<String> = by_reason
        .iter()
        .map(|((target, reason), labels)| {
            format!("{target} at {}: {reason}", some_of(labels, NAMED))
        })
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "{} of the warm-up failed; fsb planned amounts and times without: {}",
            counted(by_reason.values().map(Vec::len).sum(), "trial"),
            some_of(&named, NAMED)
        )
    })
}

/// Returns a warning on trials whose targets were still busy with something else.
fn restless(trials: &[CompactTrial]) -> Option<String> {
    let mut named = Vec::new();
    for trial in trials.iter().filter(|trial| trial.counts() && !trial.idle) {
        let (target, workload) = (&trial.what.target, &trial.what.workload);
        named.push(format!("{target} at {workload}, block {}", trial.block));
    }
    let end = "; their remaining writes may be part of the numbers";
    counted_warning(
        &named,
        "trial",
        "on targets that were not idle within 10 s",
        end,
    )
}

/// Returns `2 cells drifted: xfs at read 1M and 1 more; see the trials`. Returns `None` if nothing
/// is named.
fn counted_warning(named: &[String], noun: &str, what: &str, end: &str) -> Option<String> {
    let some = some_of(named, NAMED);
    (!named.is_empty()).then(|| format!("{} {what}: {some}{end}", counted(named.len(), noun)))
}

fn noise(summary: &Numbers) -> impl Iterator<Item = String> {
    let named = |wanted: Noise| -> Vec<String> {
        let mut found: Vec<(f64, String)> = Vec::new();
        for (target, case, cell) in cells(summary) {
            if let Some(estimate) = &cell.estimate
                && estimate.noise() == wanted
            {
                let cv = estimate.cv;
                let text = format!("{target} at {}, CV {:.0} %", case.workload, cv * 100.0);
                found.push((cv, text));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, text)| text).collect()
    };
    let load = "; fsb doctor shows other load on the machine";
    let blocks = "; more blocks narrow the intervals";
    [
        (Noise::Unreliable, "unreliable, CV above 10 %", load),
        (Noise::Noisy, "noisy, CV above 5 %", blocks),
    ]
    .into_iter()
    .filter_map(move |(noise, what, end)| counted_warning(&named(noise), "cell", what, end))
}

/// Returns a warning on cells whose number averages over several states.
fn not_stationary(summary: &Numbers) -> Option<String> {
    let mut named = Vec::new();
    for (target, case, cell) in cells(summary) {
        if let Some(found) = &cell.not_stationary {
            let words = samples::words(found, case.unit, case.better);
            named.push(format!("{target} at {}, {words}", case.workload));
        }
    }
    counted_warning(&named, "cell", "not stationary", "").map(|text| format!("~ {text}"))
}

fn trends(summary: &Numbers) -> Option<String> {
    let mut named = Vec::new();
    for (target, case, cell) in cells(summary) {
        if let Some(trend) = cell
            .estimate
            .as_ref()
            .and_then(|found| found.significant_trend())
        {
            let change = (trend.change - 1.0) * 100.0;
            named.push(format!(
                "{target} at {}, {change:+.0} % from first to last",
                case.workload
            ));
        }
    }
    let what = "drifted over the run (Mann-Kendall, p < 0.01)";
    let end = "; blocks cancel what all targets share, but see the trials in run order";
    counted_warning(&named, "cell", what, end)
}

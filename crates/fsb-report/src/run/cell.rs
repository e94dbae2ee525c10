//! One target at one workload, from its trials.

use std::collections::BTreeMap;

use fsb_analysis::{BlockValue, Description, Estimate, FEWEST_JUDGED, LEVEL, describe, t_interval};
use fsb_model::run::TargetRecord;
use fsb_model::{Metric, Outcome};

use super::course::Course;
use super::latency;
use super::secondary;
use super::shown::{MetricKind, ShownTrial};
use super::summary::{Lost, Measured, Secondary, State, TrialPoint};

/// Assembles a cell from its measured trials. `primary` names the row's metric; `target` says why the target as a
/// whole could not be measured.
pub(super) fn cell(trials: &[&ShownTrial], primary: &Metric, target: Option<&TargetRecord>) -> Measured {
    let trials = last_attempts(trials);
    let mut points = Vec::new();
    let mut lost = Vec::new();
    let mut valued: Vec<(&ShownTrial, f64)> = Vec::new();
    for trial in &trials {
        match value(trial, primary) {
            Ok(value) => {
                valued.push((trial, value));
                points.push(TrialPoint {
                    block: trial.block,
                    order: trial.order,
                    value,
                    outlier: false,
                    part: trial.part,
                });
            }
            Err(reason) => lost.push(Lost { block: trial.block, order: trial.order, reason }),
        }
    }
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let estimate = Estimate::of(&values).ok();
    for index in estimate.iter().flat_map(|estimate| &estimate.outliers) {
        points[*index].outlier = true;
    }
    let good: Vec<&ShownTrial> = trials.iter().copied().filter(|trial| trial.outcome == Outcome::Ok).collect();
    Measured {
        state: if points.is_empty() { absence(&trials, &lost, target) } else { State::Measured },
        estimate,
        against: None,
        mark: String::new(),
        scatter: None,
        not_stationary: None,
        trials: points,
        lost,
        secondary: beside(&good, primary),
        latency: latency::merged(&good),
        course: Course::of(&valued),
    }
}

/// In run order, one trial a block: where a trial was made again, the last attempt.
pub(super) fn last_attempts<'a>(trials: &[&'a ShownTrial]) -> Vec<&'a ShownTrial> {
    let mut by_block: BTreeMap<u32, &ShownTrial> = BTreeMap::new();
    for trial in trials {
        let later = |held: &&ShownTrial| (trial.attempt, trial.order) >= (held.attempt, held.order);
        if by_block.get(&trial.block).is_none_or(later) {
            by_block.insert(trial.block, trial);
        }
    }
    let mut trials: Vec<&ShownTrial> = by_block.into_values().collect();
    trials.sort_by_key(|trial| trial.order);
    trials
}

pub(super) fn value(trial: &ShownTrial, primary: &Metric) -> Result<f64, String> {
    if trial.outcome != Outcome::Ok {
        return Err(trial.reason());
    }
    match trial.metric(&primary.name) {
        Some(value) if value.is_finite() && value > 0.0 => Ok(value),
        Some(value) => Err(format!("invalid: {value} is not a measurement")),
        None => Err(format!("invalid: it has no {}", primary.name)),
    }
}

fn absence(trials: &[&ShownTrial], lost: &[Lost], target: Option<&TargetRecord>) -> State {
    if let Some(why) = target.and_then(|target| target.unavailable.as_ref()) {
        return State::Unavailable(why.clone());
    }
    // The words of the reason without its kind, which the state itself says.
    let bare = |reason: &str| reason.split_once(": ").map_or(reason, |(_, rest)| rest).to_owned();
    let first = lost.first().map(|lost| bare(&lost.reason));
    match (trials.first().map(|trial| trial.outcome), first) {
        (Some(Outcome::NotApplicable), Some(reason)) => State::NotApplicable(reason),
        (Some(Outcome::Failed), Some(reason)) => State::Failed(reason),
        (Some(_), Some(reason)) => State::Invalid(reason),
        _ => match target.and_then(|target| target.failed.as_ref()) {
            Some(reason) => State::Failed(reason.clone()),
            None => State::Missing("no block reached it".to_owned()),
        },
    }
}

/// Every other metric of the good trials, in the order in which they record them.
fn beside(good: &[&ShownTrial], primary: &Metric) -> Vec<Secondary> {
    let mut names: Vec<&MetricKind> = Vec::new();
    for metric in good.iter().flat_map(|trial| trial.metrics()) {
        if metric.kind.name != primary.name && !names.iter().any(|known| known.name == metric.kind.name) {
            names.push(metric.kind);
        }
    }
    names.into_iter().filter_map(|metric| described(good, metric)).collect()
}

fn described(good: &[&ShownTrial], metric: &MetricKind) -> Option<Secondary> {
    let point = |trial: &&ShownTrial| {
        let value = trial.metric(&metric.name)?;
        Some(BlockValue { block: trial.block, value, part: trial.part })
    };
    let points: Vec<BlockValue> = good.iter().filter_map(point).collect();
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let description: Description = describe(&values).ok()?;
    let interval = t_interval(&values, LEVEL).ok()?.filter(|_| description.n >= FEWEST_JUDGED);
    Some(Secondary {
        metric: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        description,
        interval,
        against: None,
        points: if secondary::is_compared(&metric.name) { points } else { Vec::new() },
    })
}

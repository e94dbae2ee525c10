//! The cases of a run: one per workload.

use std::collections::HashMap;

use fsb_model::run::TargetRecord;
use fsb_model::trial::squared_error_of_mean;
use fsb_model::{Better, Metric, Outcome, Repetition, RunRecord, Trial, Unit};
use fsb_stats::{
    BlockValue, CaseState, Correlation, Description, Estimate, FEWEST_JUDGED, LEVEL, Ranking,
    RankingOutcome, RoundLogs, Weighted, describe, hold_over_page, scatter, t_interval,
};

use super::model::{
    CellState, Lost, MeasuredCell, Overall, Secondary, TargetSummary, TrialPoint, Workload,
};
use super::timeline::{JoinedTimeline, WarmUps};
use super::trial_value::{CompactTrial, MetricKind, NoValue, last_attempts, value};
use super::{bounds, costs, latency, risks, roles, samples, unproven, withheld};
use crate::mark;

/// Returns one case per cell of the plan, then one for every label that only the trials have, and
/// the correlation of neighbouring blocks.
pub(super) fn cases(
    record: &RunRecord,
    trials: &[CompactTrial],
) -> (Vec<Workload>, Option<Correlation>) {
    let sorted = sort_into_cases(record, trials);
    let mut cases: Vec<Workload> = sorted
        .iter()
        .map(|trials| summarize(record, trials))
        .collect();
    let barred = risks::barred(record);
    cases.iter_mut().for_each(|case| {
        let unproven = unproven::places(&case.cells);
        case.ranking.bar(&barred, &unproven);
    });
    let correlation = hold_over_page(cases.iter_mut().map(|case| &mut case.ranking));
    let of_run = withheld::of_run(record, trials);
    // A target alone is not judged.
    for (case, trials) in cases
        .iter_mut()
        .zip(&sorted)
        .filter(|_| record.plan.targets.len() > 1)
    {
        let found = of_run
            .clone()
            .or_else(|| withheld::of_case(record, trials.label, &trials.trials));
        case.withheld = found.filter(|_| case.ranking.outcome != RankingOutcome::Nothing);
        if case.withheld.is_some() {
            case.ranking.withhold();
        }
    }
    costs::compare(&mut cases, record);
    for case in &mut cases {
        for (index, cell) in case.cells.iter_mut().enumerate() {
            cell.against = (index > 0)
                .then(|| case.ranking.comparison(0, index))
                .flatten();
            let verdict = cell.against.as_ref().map(|against| against.verdict);
            let letters = case.ranking.letters[index].as_deref();
            cell.mark = mark::of_value(&case.ranking.outcome, index, letters, verdict);
        }
        case.resolution = case.ranking.resolution();
    }
    (cases, correlation)
}

/// One case with its trials that count.
struct CaseTrials<'a> {
    label: &'a str,
    trials: Vec<&'a CompactTrial>,
}

/// Sorts the trials that count into cases: those of the plan in its order, then those that only the
/// trials know. Each trial is visited once, for a run may have hundreds of thousands.
fn sort_into_cases<'a>(record: &'a RunRecord, trials: &'a [CompactTrial]) -> Vec<CaseTrials<'a>> {
    let case = |label| CaseTrials {
        label,
        trials: Vec::new(),
    };
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut cases: Vec<CaseTrials<'_>> = Vec::new();
    for label in record.cells.iter().map(|cell| cell.label.as_str()) {
        places.entry(label).or_insert(cases.len());
        cases.push(case(label));
    }
    for trial in trials.iter().filter(|trial| trial.counts()) {
        let place = *places.entry(&trial.what.workload).or_insert(cases.len());
        if place == cases.len() {
            cases.push(case(&trial.what.workload));
        }
        cases[place].trials.push(trial);
    }
    cases
}

/// The state of a case while its run continues.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseNow {
    /// The label.
    pub workload: String,
    /// Whether it needs more blocks.
    pub state: CaseState,
}

/// Returns the state of every case after the trials so far. A run calls this at each interim
/// analysis.
pub fn case_states(record: &RunRecord, trials: &[Trial]) -> Vec<CaseNow> {
    let trials = &*CompactTrial::all(trials);
    let precision = match record.plan.repetition {
        Repetition::Precision { half_width, .. } => Some(half_width),
        _ => None,
    };
    let sorted = sort_into_cases(record, trials);
    let mut rankings: Vec<Ranking> = sorted
        .iter()
        .map(|case| {
            let (primary, cells) = cells(record, case);
            rank(
                record,
                &cells.into_iter().map(|(cell, _)| cell).collect::<Vec<_>>(),
                primary.better,
            )
        })
        .collect();
    let page = rankings.iter().map(|ranking| ranking.pairs.len()).sum();
    hold_over_page(&mut rankings);
    let nothing = CaseState {
        decided: false,
        half_width: None,
        enough: false,
    };
    sorted
        .iter()
        .zip(&rankings)
        .map(|(case, ranking)| {
            let state = ranking.state(precision, page).unwrap_or(nothing);
            // A case that would be withheld is not decided.
            let spoilt = withheld::is_spoilt(record, case.label, &case.trials);
            let state = CaseState {
                decided: state.decided && !spoilt,
                enough: state.enough && !spoilt,
                ..state
            };
            CaseNow {
                workload: case.label.to_owned(),
                state,
            }
        })
        .collect()
}

/// Returns the metric that a case is compared by, and its cells with their rounds, one per target.
fn cells(
    record: &RunRecord,
    case: &CaseTrials<'_>,
) -> (Metric, Vec<(MeasuredCell, Vec<RoundLogs>)>) {
    let primary = case
        .trials
        .iter()
        .find_map(|trial| trial.primary())
        .map_or_else(nothing_measured, Metric::from);
    let mut by_target: HashMap<&str, Vec<&CompactTrial>> = HashMap::new();
    for trial in &case.trials {
        by_target.entry(&trial.what.target).or_default().push(trial);
    }
    let cells = record
        .plan
        .targets
        .iter()
        .map(|target| {
            let own = by_target.get(&*target.name).map_or(&[][..], Vec::as_slice);
            let rounds = samples::rounds(own, &primary);
            (
                cell(own, &primary, record.targets.get(&target.name)),
                rounds,
            )
        })
        .collect();
    (primary, cells)
}

fn summarize(record: &RunRecord, case: &CaseTrials<'_>) -> Workload {
    let (primary, cells) = cells(record, case);
    let (mut cells, rounds): (Vec<MeasuredCell>, Vec<Vec<RoundLogs>>) = cells.into_iter().unzip();
    let ranking = rank(record, &cells, primary.better);
    for (index, cell) in cells.iter_mut().enumerate() {
        let spread = ranking.pairs.iter().find_map(|pair| {
            (pair.baseline == 0 && pair.candidate == index)
                .then_some(pair.spread)
                .flatten()
        });
        cell.scatter = spread.and_then(|spread| scatter(spread, &rounds[0], &rounds[index]));
        cell.not_stationary = samples::judged(&rounds[index], record.plan.theta);
    }
    let operation = case.trials.first();
    Workload {
        workload: case.label.to_owned(),
        operation: operation
            .map(|trial| trial.what.operation.clone())
            .unwrap_or_default(),
        durable: operation.is_some_and(|trial| trial.what.is_durable()),
        roles: operation
            .map(|trial| roles::resembled(&trial.what.params))
            .unwrap_or_default(),
        p99_below: operation.and_then(|trial| bounds::bound(&trial.what.params)),
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

/// Returns the metric of a case without any value, of which the report shows only the absence.
fn nothing_measured() -> Metric {
    Metric {
        name: String::new(),
        value: 0.0,
        unit: Unit::Count,
        better: Better::Higher,
    }
}

/// Returns the values of each target. A target that is not judged has none.
fn samples(record: &RunRecord, cells: &[&MeasuredCell]) -> Vec<Vec<BlockValue>> {
    let ranked = record
        .plan
        .targets
        .iter()
        .map(|target| record.unjudged_target(target).is_none());
    cells
        .iter()
        .zip(ranked)
        .map(|(cell, ranked)| if ranked { cell.values() } else { Vec::new() })
        .collect()
}

/// Ranks the targets at a case by a metric that is not the one of the case. The intervals hold for
/// the pairs of this case together, not for those of the page.
pub(super) fn rank_by(
    record: &RunRecord,
    trials: &[CompactTrial],
    label: &str,
    metric: &Metric,
) -> Ranking {
    let mut cells = Vec::new();
    for target in &record.plan.targets {
        let mut own = Vec::new();
        for trial in trials {
            let what = &trial.what;
            if trial.counts() && what.workload == label && what.target == target.name {
                own.push(trial);
            }
        }
        cells.push(cell(&own, metric, None));
    }
    rank(record, &cells, metric.better)
}

fn rank(record: &RunRecord, cells: &[MeasuredCell], better: Better) -> Ranking {
    let samples = samples(record, &cells.iter().collect::<Vec<_>>());
    // Cells hold only values that are finite and above zero, so the error cannot occur. If it does,
    // the case is not ranked.
    Ranking::of_run(&samples, &record.analyses(), better, record.plan.theta)
        .unwrap_or_else(|_| Ranking::without_pairs(cells.len(), RankingOutcome::Nothing))
}

/// Compares each target that may win with the baseline, over all workloads at which both have
/// values. The intervals hold together.
pub(super) fn overall(
    cases: &[Workload],
    targets: &[TargetSummary],
    correlation: Option<Correlation>,
    theta: f64,
) -> Vec<Option<Overall>> {
    let counts = |target: usize| targets[target].unjudged.is_none() && targets[target].may_win;
    let compared = (1..targets.len()).filter(|target| counts(*target)).count();
    let against = |candidate: usize| {
        if !counts(0) || !counts(candidate) {
            return None;
        }
        let cases = cases
            .iter()
            .filter(|case| case.withheld.is_none() && unproven::are_alike(case, 0, candidate))
            .filter(|case| case.ranking.comparison(0, candidate).is_some());
        let workloads: Vec<Weighted<'_>> = cases
            .map(|case| Weighted {
                weight: 1.0,
                ranking: &case.ranking,
            })
            .collect();
        let comparison = fsb_stats::overall(&workloads, 0, candidate, correlation, theta, compared)
            .ok()
            .flatten()?;
        (workloads.len() > 1).then_some(Overall {
            comparison,
            workloads: workloads.len(),
        })
    };
    (0..targets.len())
        .map(|target| (target > 0).then(|| against(target)).flatten())
        .collect()
}

/// Assembles a cell from its measured trials. `primary` names the case's metric; `target` says why
/// the target as a whole could not be measured.
pub(super) fn cell(
    trials: &[&CompactTrial],
    primary: &Metric,
    target: Option<&TargetRecord>,
) -> MeasuredCell {
    let trials = last_attempts(trials);
    let mut points = Vec::new();
    let mut lost = Vec::new();
    let mut first_lost: Option<NoValue> = None;
    let mut valued: Vec<(&CompactTrial, f64)> = Vec::new();
    for trial in &trials {
        match value(trial, primary) {
            Ok(value) => {
                valued.push((trial, value));
                let times = trial.timed_ns.to_vec();
                points.push(TrialPoint {
                    block: trial.block,
                    order: trial.order,
                    value,
                    outlier: false,
                    slice: trial.slice,
                    within: squared_error_of_mean(&times),
                    timed_ns: times.iter().sum(),
                });
            }
            Err(why) => {
                lost.push(Lost {
                    block: trial.block,
                    order: trial.order,
                    reason: why.to_text(),
                });
                first_lost.get_or_insert(why);
            }
        }
    }
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let estimate = Estimate::from_values(&values).ok();
    for index in estimate.iter().flat_map(|estimate| &estimate.outliers) {
        points[*index].outlier = true;
    }
    let good: Vec<&CompactTrial> = trials
        .iter()
        .copied()
        .filter(|trial| trial.outcome == Outcome::Ok)
        .collect();
    MeasuredCell {
        state: if points.is_empty() {
            state_of(first_lost, target)
        } else {
            CellState::Measured
        },
        estimate,
        against: None,
        bound: None,
        unproven: unproven::of_trials(&good),
        mark: String::new(),
        scatter: None,
        not_stationary: None,
        trials: points,
        lost,
        secondary: other_metrics(&good, primary),
        latency: latency::merged(&good),
        timeline: JoinedTimeline::join(&valued),
        warm_up: WarmUps::from_trials(valued.iter().map(|(trial, _)| *trial)),
        cycles: good
            .iter()
            .find_map(|trial| trial.extras().cycles.as_deref().cloned()),
    }
}

/// Returns the state of a cell without values, of whose trials the first had none for this reason.
fn state_of(first_lost: Option<NoValue>, target: Option<&TargetRecord>) -> CellState {
    if let Some(why) = target.and_then(|target| target.unavailable.as_ref()) {
        return CellState::Unavailable(why.clone());
    }
    if let Some(why) = first_lost {
        let text = why.to_text();
        // The state names the outcome.
        let cause = why.cause.unwrap_or(text);
        return match why.outcome {
            Outcome::NotApplicable => CellState::NotApplicable(cause),
            Outcome::Failed => CellState::Failed(cause),
            Outcome::Invalid | Outcome::Ok => CellState::Invalid(cause),
        };
    }
    match target.and_then(|target| target.failed.as_ref()) {
        Some(reason) => CellState::Failed(reason.clone()),
        None => CellState::Missing("no block reached it".to_owned()),
    }
}

/// Returns every other metric of the good trials, in the order in which they record them.
fn other_metrics(good: &[&CompactTrial], primary: &Metric) -> Vec<Secondary> {
    let mut names: Vec<&MetricKind> = Vec::new();
    for metric in good.iter().flat_map(|trial| trial.metrics()) {
        if metric.kind.name != primary.name
            && !names.iter().any(|known| known.name == metric.kind.name)
        {
            names.push(metric.kind);
        }
    }
    names
        .into_iter()
        .filter_map(|metric| describe_metric(good, metric))
        .collect()
}

fn describe_metric(good: &[&CompactTrial], metric: &MetricKind) -> Option<Secondary> {
    let points: Vec<BlockValue> = good
        .iter()
        .filter_map(|trial| {
            let value = trial.metric(&metric.name)?;
            Some(BlockValue {
                slice: trial.slice,
                ..BlockValue::new(trial.block, value)
            })
        })
        .collect();
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let description: Description = describe(&values).ok()?;
    let interval = t_interval(&values, LEVEL)
        .ok()?
        .filter(|_| description.n >= FEWEST_JUDGED);
    Some(Secondary {
        metric: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        description,
        interval,
        against: None,
        points: if costs::keeps_points(&metric.name) {
            points
        } else {
            Vec::new()
        },
    })
}

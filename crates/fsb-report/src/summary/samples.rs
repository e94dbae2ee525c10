//! Analysis of the samples of a cell's trials: the sources of scatter, and whether all samples are
//! of one kind.

use std::collections::HashMap;

use fsb_model::metric::{BEFORE_STEADY, JOURNAL_TURNS, STEADY_DRIFT};
use fsb_model::{Better, Metric, Unit};
use fsb_stats::{NotStationary, RoundLogs, Verdict, stationarity};

use super::cell_sentence::ReportedCells;
use super::model::{MeasuredCell, Numbers, Workload};
use super::trial_value::{self, CompactTrial};
use crate::show::{Change, percent, some_of};

/// Returns the logarithms of the rates of all rounds, by block, on the scale of the trials' own
/// values. Every sample does the same work, so its time determines its rate.
pub(crate) fn rounds(trials: &[&CompactTrial], primary: &Metric) -> Vec<RoundLogs> {
    trial_value::last_attempts(trials)
        .into_iter()
        .filter_map(|trial| of_trial(trial, primary))
        .collect()
}

fn of_trial(trial: &CompactTrial, primary: &Metric) -> Option<RoundLogs> {
    let times = trial.timed_ns.to_vec();
    let value = trial_value::value(trial, primary).ok()?;
    if times.is_empty() || times.contains(&0) {
        return None;
    }
    let speeds: Vec<f64> = times.iter().map(|time| -(*time as f64).ln()).collect();
    let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
    let own = if primary.better == Better::Higher {
        value.ln()
    } else {
        -value.ln()
    };
    let logs = speeds.iter().map(|speed| speed - mean + own).collect();
    Some(RoundLogs {
        block: trial.block,
        logs,
    })
}

/// Tests whether the samples have a trend or come in two kinds. Returns `None` if they are
/// stationary.
pub(crate) fn judged(rounds: &[RoundLogs], theta: f64) -> Option<NotStationary> {
    let rates: Vec<Vec<f64>> = rounds
        .iter()
        .map(|block| block.logs.iter().map(|log| log.exp()).collect())
        .collect();
    stationarity(&rates, theta).ok().flatten()
}

/// Describes the result: `rates fall by 12 % over the rounds`; `two kinds: 62 % at 17.7 kop/s, the
/// rest at 6.50 kop/s`.
pub(crate) fn words(found: &NotStationary, unit: Unit, better: Better) -> String {
    match *found {
        NotStationary::Trend { change, .. } => {
            let verb = if change < 1.0 { "fall" } else { "rise" };
            format!(
                "rates {verb} by {} over the rounds",
                percent((change - 1.0).abs().min(99.0).mul_add(100.0, 0.0).round() / 100.0)
            )
        }
        NotStationary::TwoKinds {
            fast_share,
            fast,
            slow,
        } => {
            let show = |rate: f64| {
                unit.show(if better == Better::Higher {
                    rate
                } else {
                    1.0 / rate
                })
            };
            format!(
                "two kinds: {} at {}, the rest at {}",
                percent((fast_share * 100.0).round() / 100.0),
                show(fast),
                show(slow)
            )
        }
    }
}

/// Returns a sentence such as `By total time: xfs +38 % instead of +42 % at write 1M, durable.` A
/// geometric mean of samples hides a few that take very long.
pub(crate) fn total_time_line(summary: &Numbers) -> Option<String> {
    ReportedCells::new(summary, |case, cell| {
        let (total, usual) = total_time_ratio(case, cell, summary.theta)?;
        let [total, usual] = [total, usual].map(|ratio| Change::between(ratio, None).text());
        let is_told = summary.compares() && total != usual;
        is_told.then(|| format!("{total} instead of {usual}"))
    })
    .sentence("By total time")
}

/// Returns the ratio of speeds by the total time of all samples in common blocks, and the ratio of
/// geometric means. Returns `None` unless the two differ by more than half of what matters. All
/// samples of a cell do the same work.
fn total_time_ratio(case: &Workload, cell: &MeasuredCell, theta: f64) -> Option<(f64, f64)> {
    let against = cell
        .against
        .as_ref()
        .filter(|against| against.verdict != Verdict::NotJudged)?;
    let reference: HashMap<u32, u64> = case.cells[0]
        .trials
        .iter()
        .map(|point| (point.block, point.timed_ns))
        .collect();
    let common = || {
        cell.trials
            .iter()
            .filter_map(|point| Some((point.timed_ns, *reference.get(&point.block)?)))
    };
    let total = |time: fn((u64, u64)) -> u64| common().map(time).sum::<u64>() as f64;
    let (own, other) = (total(|(own, _)| own), total(|(_, other)| other));
    if own == 0.0 || other == 0.0 || case.better != Better::Higher {
        return None;
    }
    let ratio = other / own;
    ((ratio / against.ratio).ln().abs() > theta.ln_1p() / 2.0).then_some((ratio, against.ratio))
}

/// Returns the lines on sustained workloads below the table.
pub(crate) fn sustained_lines(summary: &Numbers) -> Vec<String> {
    slower_than_before(summary)
        .into_iter()
        .chain(unwritten(summary))
        .collect()
}

/// Returns a sentence such as `Rates before the steady state differed: ext4 +38 % at make and
/// delete 4K files, sustained.`
fn slower_than_before(summary: &Numbers) -> Option<String> {
    ReportedCells::new(summary, |_, cell| {
        drift(cell, BEFORE_STEADY.name, summary.theta)
    })
    .sentence_of_each("Rates before the steady state differed")
}

/// Returns the change of a ratio among a cell's metrics, if it is larger than that.
fn drift(cell: &MeasuredCell, metric: &str, least: f64) -> Option<String> {
    let change = cell.beside(metric)?.description.mean - 1.0;
    (change.abs() > least).then(|| format!("{:+.0} %", change * 100.0))
}

/// Returns a sentence such as `The journal was written less than once during the work: ext4 0.2
/// times at rename 4K files, sustained.`
fn unwritten(summary: &Numbers) -> Option<String> {
    ReportedCells::new(summary, |_, cell| {
        let turns = cell.beside(JOURNAL_TURNS.name)?.description.mean;
        (turns < 1.0).then(|| format!("{turns:.1} times"))
    })
    .sentence_of_each("The journal was written less than once during the work")
}

/// Returns a sentence such as `Time constant of the cache's warm-up: ext4 64.0 MiB, 812 ms at
/// random warm up read 4K, cold.`
pub(crate) fn warm_up_line(summary: &Numbers) -> Option<String> {
    ReportedCells::new(summary, |_, cell| Some(cell.warm_up.as_ref()?.describe()))
        .sentence_of_each("Time constant of the cache's warm-up")
}

/// Returns the warning of cells whose rate still changed.
pub(crate) fn unsteady_warning(summary: &Numbers) -> Option<String> {
    /// The largest difference between the halves of a steady part.
    const STEADY: f64 = 0.1;
    let cases =
        ReportedCells::new(summary, |_, cell| drift(cell, STEADY_DRIFT.name, STEADY)).each();
    (!cases.is_empty()).then(|| {
        format!(
            "the rate still changed between the two halves: {}; use a longer 'sample_time' in the plan",
            some_of(&cases, 3)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    /// Returns a run side by side in which one sample of xfs in each block takes `longer` times as
    /// long as the others.
    fn line(longer: u64) -> Option<String> {
        let (record, mut trials) = sample::side_by_side(&["ext4", "xfs"], 12);
        let first = record.cells[0].label.clone();
        for trial in trials.iter_mut().filter(|trial| trial.workload == first) {
            let times = &mut trial.samples.timed_ns;
            times.fill(1_000_000 + u64::from(trial.block));
            if trial.target == "xfs" {
                times[0] *= longer;
            }
            let mean =
                times.iter().map(|time| (*time as f64).ln()).sum::<f64>() / times.len() as f64;
            trial.metrics[0].value = 1e15 / mean.exp();
        }
        total_time_line(&Summary::of_run(&record, &trials))
    }

    #[test]
    fn stalls_that_a_geometric_mean_hides_are_printed() {
        let at_first = |longer: u64| {
            let line = line(longer).expect("the sample's other times do not fit its rates");
            line.split("; ")
                .find(|ratio| ratio.ends_with("at write 1M, durable"))
                .map(str::to_owned)
        };
        let found = at_first(8).expect("a ratio");
        assert!(
            found.starts_with("By total time: xfs -") && found.contains(" instead of -"),
            "{found}"
        );
        assert_eq!(at_first(1), None);
    }
}

//! What the stretches of a cell's trials tell: where scatter comes from, and whether all are of one kind.

use fsb_model::metric::{BEFORE_STEADY, JOURNAL_TURNS, STEADY_DRIFT};
use fsb_model::{Better, Metric, Unit};
use fsb_stats::{NotStationary, RoundLogs, stationarity};

use super::shown;
use super::shown::ShownTrial;
use super::summary::{Measured, Summary, Workload};
use crate::show::{listed, percent, some_of, some_rows};

/// The logarithms of the rates of all rounds, by block, on the scale of the trials' own values: a stretch is the same work
/// every time, so that its time is all it takes.
pub(super) fn rounds(trials: &[&ShownTrial], primary: &Metric) -> Vec<RoundLogs> {
    shown::last_attempts(trials).into_iter().filter_map(|trial| of_trial(trial, primary)).collect()
}

fn of_trial(trial: &ShownTrial, primary: &Metric) -> Option<RoundLogs> {
    let times = trial.timed_ns.to_vec();
    let value = shown::value(trial, primary).ok()?;
    if times.is_empty() || times.contains(&0) {
        return None;
    }
    let speeds: Vec<f64> = times.iter().map(|time| -(*time as f64).ln()).collect();
    let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
    let own = if primary.better == Better::Higher { value.ln() } else { -value.ln() };
    let logs = speeds.iter().map(|speed| speed - mean + own).collect();
    Some(RoundLogs { block: trial.block, logs })
}

/// Whether the stretches trend or come in two kinds.
pub(super) fn judged(rounds: &[RoundLogs], theta: f64) -> Option<NotStationary> {
    let rates: Vec<Vec<f64>> = rounds.iter().map(|block| block.logs.iter().map(|log| log.exp()).collect()).collect();
    stationarity(&rates, theta).ok().flatten()
}

/// `rates fall by 12 % over the rounds`; `two kinds: 62 % at 17.7 kop/s, the rest at 6.50 kop/s`.
pub(super) fn words(found: &NotStationary, unit: Unit, better: Better) -> String {
    match *found {
        NotStationary::Trend { change, .. } => {
            let verb = if change < 1.0 { "fall" } else { "rise" };
            format!(
                "rates {verb} by {} over the rounds",
                percent((change - 1.0).abs().min(99.0).mul_add(100.0, 0.0).round() / 100.0)
            )
        }
        NotStationary::TwoKinds { fast_share, fast, slow } => {
            let show = |rate: f64| unit.show(if better == Better::Higher { rate } else { 1.0 / rate });
            format!(
                "two kinds: {} at {}, the rest at {}",
                percent((fast_share * 100.0).round() / 100.0),
                show(fast),
                show(slow)
            )
        }
    }
}

/// Some lines below the table, where there is something to tell.
pub(super) fn sustained_lines(summary: &Summary) -> Vec<String> {
    slower_than_before(summary).into_iter().chain(unwritten(summary)).collect()
}

/// `Before the steady state: ext4 +38 % at make and delete 4K files, sustained.`
fn slower_than_before(summary: &Summary) -> Option<String> {
    let told = |cell: &Measured| {
        let change = cell.beside(BEFORE_STEADY.name)?.description.mean - 1.0;
        (change.abs() > summary.theta).then(|| format!("{:+.0} %", change * 100.0))
    };
    let rows = sustained_rows(summary, &told);
    (!rows.is_empty()).then(|| format!("Rates before the steady state differed: {}.", some_rows(&rows)))
}

/// `Journals that were not written once while work was held: ext4 0.2 times at rename 4K files, sustained.`
fn unwritten(summary: &Summary) -> Option<String> {
    let told = |cell: &Measured| {
        let turns = cell.beside(JOURNAL_TURNS.name)?.description.mean;
        (turns < 1.0).then(|| format!("{turns:.1} times"))
    };
    let rows = sustained_rows(summary, &told);
    (!rows.is_empty()).then(|| format!("The journal was written less than once during the work: {}.", some_rows(&rows)))
}

/// Cells whose rate went on changing.
pub(super) fn unsteady_warning(summary: &Summary) -> Option<String> {
    /// The difference that is allowed between the halves of a steady part.
    const STEADY: f64 = 0.1;
    let told = |cell: &Measured| {
        let change = cell.beside(STEADY_DRIFT.name)?.description.mean - 1.0;
        (change.abs() > STEADY).then(|| format!("{:+.0} %", change * 100.0))
    };
    let rows = sustained_rows(summary, &told);
    (!rows.is_empty()).then(|| {
        format!(
            "the rate still changed between the two halves: {}; use a longer 'stretch' in the plan",
            some_of(&rows, 3)
        )
    })
}

/// The texts on cells, row by row.
fn sustained_rows(summary: &Summary, told: &dyn Fn(&Measured) -> Option<String>) -> Vec<String> {
    let of_row = |row: &Workload| {
        let cells = summary.targets.iter().zip(&row.cells);
        let cells = cells.filter_map(|(target, cell)| Some(format!("{} {}", target.label(), told(cell)?)));
        let cells: Vec<String> = cells.collect();
        (!cells.is_empty()).then(|| format!("{} at {}", listed(&cells), row.workload))
    };
    summary.rows.iter().filter_map(of_row).collect()
}

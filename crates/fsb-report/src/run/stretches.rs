//! What the stretches of a cell's trials tell: where scatter comes from, and whether all are of one kind.

use fsb_analysis::{NotStationary, RoundLogs, stationarity};
use fsb_model::{Better, Metric, Unit};

use super::cell;
use super::shown::ShownTrial;
use crate::show::percent;

/// The logarithms of the rates of all rounds, by block, on the scale of the trials' own values: a stretch is the same work
/// every time, so that its time is all it takes.
pub(super) fn rounds(trials: &[&ShownTrial], primary: &Metric) -> Vec<RoundLogs> {
    cell::last_attempts(trials).into_iter().filter_map(|trial| of_trial(trial, primary)).collect()
}

fn of_trial(trial: &ShownTrial, primary: &Metric) -> Option<RoundLogs> {
    let times = trial.timed_ns.to_vec();
    let value = cell::value(trial, primary).ok()?;
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

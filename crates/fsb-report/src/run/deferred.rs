//! Rows where what a target left for later would change its number by more than matters.

use fsb_model::Better;
use fsb_model::metric::WITH_DEFERRED;

use super::summary::{Measured, Summary, Workload};
use crate::show::{listed, some_rows};

/// `With what was left for later: ext4 -12 % and xfs -4 % at delete 4K files, durable; …`; absent where it matters nowhere.
pub(super) fn line(summary: &Summary) -> Option<String> {
    let of_row = |row: &Workload| {
        let cells = summary.targets.iter().zip(&row.cells);
        let changes: Vec<f64> = row.cells.iter().filter_map(|cell| change(cell, row.better)).collect();
        if changes.iter().all(|change| change.abs() <= summary.theta) {
            return None;
        }
        let named = cells.filter_map(|(target, cell)| {
            let percent = (change(cell, row.better)? * 100.0).round();
            Some(format!("{} {percent:+.0} %", target.name))
        });
        Some(format!("{} at {}", listed(&named.collect::<Vec<_>>()), row.workload))
    };
    let rows: Vec<String> = summary.rows.iter().filter_map(of_row).collect();
    (!rows.is_empty()).then(|| format!("Until all is at rest, what was left for later included: {}.", some_rows(&rows)))
}

/// By how much the speed of a cell changes when the clock goes on until the target is at rest: never above 0.
fn change(cell: &Measured, better: Better) -> Option<f64> {
    let estimate = cell.estimate.as_ref()?;
    let found = cell.secondary.iter().find(|secondary| secondary.metric.ends_with(WITH_DEFERRED))?;
    let ratio = found.description.mean / (cell.trials.iter().map(|point| point.value).sum::<f64>() / estimate.n as f64);
    Some(if better == Better::Higher { ratio - 1.0 } else { 1.0 / ratio - 1.0 }.min(0.0))
}

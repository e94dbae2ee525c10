//! Rows where what a target left for later would change its number by more than matters.

use fsb_model::Better;
use fsb_model::metric::WITH_DEFERRED;

use super::summary::{Measured, Summary, Workload};
use crate::show::{listed, told_of_rows};

/// `Until all is at rest, what was left for later included: ext4 -12 % and xfs -4 % at delete 4K files, durable; …`: those that it
/// changes by more than matters.
pub(super) fn line(summary: &Summary) -> Option<String> {
    let of_row = |row: &Workload| {
        let cells = summary.targets.iter().zip(&row.cells);
        let named = cells.filter_map(|(target, cell)| {
            let change = change(cell, row.better).filter(|change| change.abs() > summary.theta)?;
            Some(format!("{} {:+.0} %", target.name, change * 100.0))
        });
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| (listed(&named), row.workload.clone()))
    };
    let rows: Vec<(String, String)> = summary.rows.iter().filter_map(of_row).collect();
    (!rows.is_empty())
        .then(|| format!("Until all is at rest, what was left for later included: {}.", told_of_rows(&rows)))
}

/// By how much the speed of a cell changes when the clock goes on until the target is at rest: never above 0.
fn change(cell: &Measured, better: Better) -> Option<f64> {
    let estimate = cell.estimate.as_ref()?;
    let found = cell.secondary.iter().find(|secondary| secondary.metric.ends_with(WITH_DEFERRED))?;
    let ratio = found.description.mean / (cell.trials.iter().map(|point| point.value).sum::<f64>() / estimate.n as f64);
    Some(if better == Better::Higher { ratio - 1.0 } else { 1.0 / ratio - 1.0 }.min(0.0))
}

//! Rows where deferred work changes a target's number by more than matters.

use fsb_model::Better;
use fsb_model::metric::WITH_DEFERRED;

use super::secondary;
use super::summary::{Measured, Summary, Workload};
use crate::show::{Change, listed, told_of_rows};

/// `Including deferred work: ext4 -12 % [-14 -10] and xfs -4 % [-5 -3] at delete 4K files, durable.`: the speeds that it
/// significantly changes by more than matters.
pub(super) fn line(summary: &Summary) -> Option<String> {
    let of_row = |row: &Workload| {
        let cells = summary.targets.iter().zip(&row.cells);
        let named =
            cells.filter_map(|(target, cell)| Some(format!("{} {}", target.label(), change(cell, row.better)?)));
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| (listed(&named), row.workload.clone()))
    };
    let rows: Vec<(String, String)> = summary.rows.iter().filter_map(of_row).collect();
    (!rows.is_empty()).then(|| format!("Including deferred work: {}.", told_of_rows(&rows)))
}

/// The change of a cell's speed if the clock goes on until the target is idle.
fn change(cell: &Measured, better: Better) -> Option<String> {
    let comparison = secondary::significant(cell, |metric| metric.ends_with(WITH_DEFERRED))?;
    let speed = if better == Better::Higher { comparison.clone() } else { comparison.inverse() };
    Some(Change::of(&speed).text())
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::{OPERATION_RATE, WITH_DEFERRED};
    use fsb_model::{RunRecord, Trial};

    use super::*;
    use crate::sample;

    /// The line of a run whose first row has these rates with deferred work, as shares of its rates, by block.
    fn line_of(share: impl Fn(u32) -> f64) -> Option<String> {
        line_of_run(sample::run(&["ext4", "xfs"], 6), share)
    }

    fn line_of_run((record, mut trials): (RunRecord, Vec<Trial>), share: impl Fn(u32) -> f64) -> Option<String> {
        for trial in trials.iter_mut().filter(|trial| trial.workload == record.cells[0].label && trial.target == "xfs")
        {
            let mut with = OPERATION_RATE.of(trial.metrics[0].value * share(trial.block));
            with.name = format!("{}{WITH_DEFERRED}", trial.metrics[0].name);
            trial.metrics.push(with);
        }
        line(&Summary::of_run(&record, &trials))
    }

    #[test]
    fn deferred_work_is_told_with_its_interval_where_it_is_significant() {
        let steady = line_of(|block| 0.9 - 0.002 * f64::from(block % 3)).unwrap();
        assert_eq!(steady, "Including deferred work: xfs -10 % [-10 -10] at write 1M, durable.");
        let on_parts =
            line_of_run(sample::side_by_side(&["ext4", "xfs"], 6), |block| 0.9 - 0.002 * f64::from(block % 3));
        assert_eq!(on_parts.unwrap(), "Including deferred work: xfs -10 % [-10 -10] at write 1M, durable.");
        assert_eq!(line_of(|block| if block == 3 { 0.3 } else { 0.99 }), None, "one block alone is not significant");
        assert_eq!(line_of(|block| 0.98 - 0.002 * f64::from(block % 3)), None, "less than matters");
    }
}

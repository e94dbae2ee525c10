//! Compares a run with an earlier run of the same plan, case by case.

use std::collections::HashMap;

use fsb_model::RunRecord;

use super::earlier::{CellChange, CellValue, EarlierRun};
use super::summary::{Measured, Summary, Workload};

/// Compares the cases that have the same units and values in both runs; `None` without any.
pub(super) fn compare(
    (now, record): (&Summary, &RunRecord),
    (then, earlier): (&Summary, &RunRecord),
) -> Option<EarlierRun> {
    let mut cases = 0;
    let mut changes: Vec<CellChange> = Vec::new();
    let old_rows: HashMap<&str, &Workload> = then.rows.iter().rev().map(|old| (&*old.workload, old)).collect();
    for row in &now.rows {
        let Some(old) = old_rows.get(&*row.workload) else { continue };
        if record.units.get(&row.workload) != earlier.units.get(&row.workload) {
            continue;
        }
        let before = changes.len();
        let cells = now.targets.iter().zip(row.cells.iter().zip(&old.cells));
        changes.extend(cells.filter_map(|(target, (cell, old_cell))| {
            Some(CellChange {
                workload: row.workload.clone(),
                target: target.name.clone(),
                then: value(then, old, old_cell)?,
                now: value(now, row, cell)?,
            })
        }));
        cases += usize::from(changes.len() > before);
    }
    changes.retain(|change| change.distance().is_finite());
    changes.sort_by(|one, other| one.distance().total_cmp(&other.distance()));
    let (lower, upper) = (changes.get((changes.len().max(1) - 1) / 2)?, changes.get(changes.len() / 2)?);
    let median = ((lower.distance() + upper.distance()) / 2.0).exp_m1();
    let started = earlier.segments.first()?.started.clone();
    Some(EarlierRun { started, cases, median, most: changes.pop()? })
}

fn value(summary: &Summary, row: &Workload, cell: &Measured) -> Option<CellValue> {
    if summary.is_comparison() {
        return cell.against.as_ref().map(|against| CellValue::Ratio(against.ratio));
    }
    let value = cell.estimate.as_ref()?.value;
    Some(CellValue::Value(value, row.unit.show(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn compared(targets: &[&str], factor: f64) -> EarlierRun {
        let (record, trials) = sample::run(targets, 6);
        let now = Summary::of_run(&record, &trials);
        let mut changed = trials.clone();
        let last = *targets.last().unwrap();
        for trial in changed.iter_mut().filter(|trial| trial.target == last && trial.workload == "rename 4K files") {
            trial.metrics.iter_mut().for_each(|metric| metric.value *= factor);
        }
        let then = Summary::of_run(&record, &changed);
        compare((&now, &record), (&then, &record)).unwrap()
    }

    #[test]
    fn the_cell_that_differs_most_is_named_with_both_ratios() {
        let earlier = compared(&["ext4", "xfs"], 1.2);
        assert_eq!((earlier.median, earlier.most.target.as_str()), (0.0, "xfs"));
        let line = earlier.line();
        assert!(
            line.contains(" UTC differed by 0 % (median over ") && line.contains("most at rename 4K files: xfs "),
            "{line}"
        );
        let ratio = earlier.most.then.number() / earlier.most.now.number();
        assert!((ratio - 1.2).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn the_values_of_a_single_target_are_compared() {
        let line = compared(&["ext4"], 0.5).line();
        assert!(line.contains("/s then, ") && line.ends_with("/s now"), "{line}");
    }

    #[test]
    fn cases_of_other_units_are_not_compared() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let mut other = record.clone();
        let units = summary
            .rows
            .iter()
            .map(|row| (row.workload.clone(), [("files".to_owned(), 7.into())].into_iter().collect()));
        other.units = units.collect();
        assert_eq!(compare((&summary, &record), (&summary, &other)), None);
    }
}

//! The difference between a run and an earlier run of the same plan.

use std::collections::HashMap;

use fsb_model::RunRecord;

use super::model::{CellChange, CellValue, EarlierRun, MeasuredCell, Numbers, Workload};

/// Compares the cases that have the same units and values in both runs; `None` without any.
pub(super) fn compare_earlier(
    (now, record): (&Numbers, &RunRecord),
    (then, earlier): (&Numbers, &RunRecord),
) -> Option<EarlierRun> {
    let mut cases = 0;
    let mut changes: Vec<CellChange> = Vec::new();
    let old_cases: HashMap<&str, &Workload> = then
        .cases
        .iter()
        .rev()
        .map(|old| (&*old.workload, old))
        .collect();
    for case in &now.cases {
        let Some(old) = old_cases.get(&*case.workload) else {
            continue;
        };
        if record.units.get(&case.workload) != earlier.units.get(&case.workload) {
            continue;
        }
        let before = changes.len();
        let cells = now.targets.iter().zip(case.cells.iter().zip(&old.cells));
        changes.extend(cells.filter_map(|(target, (cell, old_cell))| {
            Some(CellChange {
                workload: case.workload.clone(),
                target: target.name.clone(),
                then: compared_value(then, old, old_cell)?,
                now: compared_value(now, case, cell)?,
            })
        }));
        cases += usize::from(changes.len() > before);
    }
    changes.retain(|change| change.distance().is_finite());
    changes.sort_by(|one, other| one.distance().total_cmp(&other.distance()));
    let (lower, upper) = (
        changes.get((changes.len().max(1) - 1) / 2)?,
        changes.get(changes.len() / 2)?,
    );
    let median = ((lower.distance() + upper.distance()) / 2.0).exp_m1();
    let started = earlier.segments.first()?.started.clone();
    Some(EarlierRun {
        started,
        cases,
        median,
        most: changes.pop()?,
    })
}

fn compared_value(summary: &Numbers, case: &Workload, cell: &MeasuredCell) -> Option<CellValue> {
    if summary.is_comparison() {
        return cell
            .against
            .as_ref()
            .map(|against| CellValue::Ratio(against.ratio));
    }
    let value = cell.estimate.as_ref()?.value;
    Some(CellValue::Value(value, case.unit.show(value)))
}

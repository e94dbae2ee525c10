//! Work that was held until it was steady: how the rate differs from what it was at first, and whether it is steady at all.

use fsb_model::metric::{BEFORE_STEADY, JOURNAL_TURNS, STEADY_DRIFT};

use super::summary::{Measured, Summary, Workload};
use crate::show::{listed, some_of, some_rows};

/// Some lines below the table, where there is something to tell.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    before(summary).into_iter().chain(unwritten(summary)).collect()
}

/// `Before the steady state: ext4 +38 % at make and delete 4K files, sustained.`
fn before(summary: &Summary) -> Option<String> {
    let told = |cell: &Measured| {
        let change = cell.beside(BEFORE_STEADY.name)?.description.mean - 1.0;
        (change.abs() > summary.theta).then(|| format!("{:+.0} %", change * 100.0))
    };
    let rows = rows(summary, &told);
    (!rows.is_empty()).then(|| format!("Rates before the steady state differed: {}.", some_rows(&rows)))
}

/// `Journals that were not written once while work was held: ext4 0.2 times at rename 4K files, sustained.`
fn unwritten(summary: &Summary) -> Option<String> {
    let told = |cell: &Measured| {
        let turns = cell.beside(JOURNAL_TURNS.name)?.description.mean;
        (turns < 1.0).then(|| format!("{turns:.1} times"))
    };
    let rows = rows(summary, &told);
    (!rows.is_empty()).then(|| format!("The journal was written less than once during the work: {}.", some_rows(&rows)))
}

/// Cells whose rate went on changing.
pub(super) fn warning(summary: &Summary) -> Option<String> {
    /// What the later half of a steady part may differ from its first one.
    const STEADY: f64 = 0.1;
    let told = |cell: &Measured| {
        let change = cell.beside(STEADY_DRIFT.name)?.description.mean - 1.0;
        (change.abs() > STEADY).then(|| format!("{:+.0} %", change * 100.0))
    };
    let rows = rows(summary, &told);
    (!rows.is_empty()).then(|| {
        format!(
            "the rate still changed between the two halves: {}; use a longer 'stretch' in the plan",
            some_of(&rows, 3)
        )
    })
}

/// What is told of cells, row by row.
fn rows(summary: &Summary, told: &dyn Fn(&Measured) -> Option<String>) -> Vec<String> {
    let of_row = |row: &Workload| {
        let cells = summary.targets.iter().zip(&row.cells);
        let cells = cells.filter_map(|(target, cell)| Some(format!("{} {}", target.label(), told(cell)?)));
        let cells: Vec<String> = cells.collect();
        (!cells.is_empty()).then(|| format!("{} at {}", listed(&cells), row.workload))
    };
    summary.rows.iter().filter_map(of_row).collect()
}

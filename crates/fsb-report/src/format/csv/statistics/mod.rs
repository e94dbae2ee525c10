//! Every statistic in long form, one number per line, for R, pandas and a spreadsheet.
//!
//! `scope` names the subject of a statistic: the whole operation, one file size, one record size, one cell of the grid,
//! or one run in one cell. `baseline` is filled in if a number compares. Verdicts are lines too, with a word as their
//! value. A missing value has no line. If nothing is judged, the last column `unjudged` contains the reason.

mod lines;

use fsb_stats::compare::{Classic, Estimates, Grid, Operation};

use crate::compare::Selection;
use crate::compare::operation::{colour_word, method_name, t_word};
use lines::{LongTable, Record, Scope};

/// Returns the whole table.
pub(in crate::format) fn render(selection: Selection<'_>) -> String {
    let mut lines = LongTable::new(&selection.document.baseline, selection.document.unjudged.as_deref());
    let mut last = None;
    for operation in selection.operations() {
        whole(&mut lines, operation);
        // Latencies belong to the operation, so they are written once and not for each of its metrics.
        let what = (&operation.workload, &operation.operation);
        if last.replace(what) != Some(what) {
            latencies(&mut lines, operation);
        }
        sizes(&mut lines, operation);
        cells(&mut lines, operation);
    }
    lines.finish()
}

fn whole(lines: &mut LongTable<'_>, operation: &Operation) {
    let line = Record::of(operation, Scope::Operation);
    classic(lines, line, &operation.classic);
    estimates(lines, line, &operation.estimate);
    if let Some(found) = &operation.grid {
        grid(lines, line, found);
    }
    for (set, letters) in &operation.letters {
        lines.word(&line.about(set), "letters", letters.as_deref());
    }
}

fn latencies(lines: &mut LongTable<'_>, operation: &Operation) {
    let line = Record::of(operation, Scope::Operation);
    for (set, quantiles) in &operation.latencies {
        for quantile in quantiles {
            // Latencies are in seconds, independent of the operation's unit.
            let line = Record { unit: "seconds", ..line.about(set) };
            lines.number(&line, &format!("latency_q{}", quantile.q), quantile.seconds);
        }
    }
}

fn sizes(lines: &mut LongTable<'_>, operation: &Operation) {
    for slice in &operation.by_file_size {
        let line = Record { file_size: Some(slice.bytes), ..Record::of(operation, Scope::FileSize) };
        classic(lines, line, &slice.classic);
        grid(lines, line, &slice.grid);
    }
    for slice in &operation.by_record_size {
        let line = Record { record_size: Some(slice.bytes), ..Record::of(operation, Scope::RecordSize) };
        classic(lines, line, &slice.classic);
        grid(lines, line, &slice.grid);
    }
}

fn classic<'a>(lines: &mut LongTable<'_>, line: Record<'a>, classic: &'a Classic) {
    for (set, pooled) in &classic.sets {
        let Some(pooled) = pooled else { continue };
        let line = &line.about(set);
        lines.count(line, "n", pooled.n);
        lines.number(line, "mean", pooled.mean);
        lines.optional(line, "sd", pooled.sd);
        lines.interval(line, ["ci90_lo", "ci90_hi"], pooled.ci90);
        lines.number(line, "geometric_mean", pooled.geometric_mean);
        lines.number(line, "median", pooled.median);
        lines.number(line, "q1", pooled.q1);
        lines.number(line, "q3", pooled.q3);
        lines.number(line, "min", pooled.min);
        lines.number(line, "max", pooled.max);
    }
    for (set, against) in &classic.against {
        let Some(against) = against else { continue };
        let line = &line.against(set);
        lines.number(line, "median_change", against.median_change);
        lines.optional(line, "t_p", against.t_p);
        lines.word(line, "t_verdict", against.t_verdict.map(t_word));
        lines.optional(line, "slope", against.slope);
        lines.optional(line, "slope_se", against.slope_se);
        lines.interval(line, ["slope_ci90_lo", "slope_ci90_hi"], against.slope_ci90);
    }
}

fn estimates<'a>(lines: &mut LongTable<'_>, line: Record<'a>, estimates: &'a Estimates) {
    for (set, estimate) in &estimates.against {
        let Some(estimate) = estimate else { continue };
        let line = &line.against(set);
        lines.number(line, "estimate_ratio", estimate.ratio);
        lines.interval(line, ["estimate_ci95_lo", "estimate_ci95_hi"], estimate.ci95);
        lines.count(line, "estimate_n", estimate.n);
        lines.word(line, "estimate_method", Some(method_name(estimate.method)));
        lines.word(line, "estimate_verdict", Some(estimate.verdict.name()));
    }
}

fn grid<'a>(lines: &mut LongTable<'_>, line: Record<'a>, grid: &'a Grid) {
    for (set, found) in &grid.against {
        let Some(found) = found else { continue };
        let line = &line.against(set);
        lines.optional(line, "grid_ratio", found.ratio);
        lines.interval(line, ["grid_ci95_lo", "grid_ci95_hi"], found.ci95);
        lines.count(line, "grid_cells", found.cells);
        lines.count(line, "grid_faster", found.faster);
        lines.count(line, "grid_slower", found.slower);
        lines.count(line, "grid_same", found.same);
        lines.count(line, "grid_uncertain", found.uncertain);
        lines.word(line, "grid_verdict", Some(found.verdict.name()));
    }
}

fn cells(lines: &mut LongTable<'_>, operation: &Operation) {
    for cell in &operation.cells {
        let at =
            |scope| Record { file_size: cell.file_size, record_size: cell.record_size, ..Record::of(operation, scope) };
        let line = at(Scope::Cell);
        for (set, against) in &cell.against {
            let line = &line.against(set);
            lines.number(line, "cell_ratio", against.ratio);
            lines.interval(line, ["cell_ci95_lo", "cell_ci95_hi"], against.ci95);
            lines.word(line, "cell_colour", Some(colour_word(against.colour)));
        }
        let line = at(Scope::Run);
        for (set, values) in &cell.values {
            for value in values {
                let line = Record { run: Some(value.run + 1), ..line.about(set) };
                lines.number(&line, "value", value.value);
            }
        }
    }
}

#[cfg(test)]
mod tests;

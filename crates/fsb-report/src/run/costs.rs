//! What rows cost beside time, as far as the first screen tells it: which touch no device, and where processors are what
//! differs.

use super::summary::{Measured, Summary, Workload};
use crate::show::{listed, some_rows, told_of_rows};

/// Some lines below the table, where there is something to tell.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let lines = [flushed(summary), in_memory(summary), processors(summary), space(summary)];
    lines.into_iter().flatten().collect()
}

/// `p99 where each operation is flushed: ext4 1.21 ms, xfs 980 µs at append 4K, durable each.`
fn flushed(summary: &Summary) -> Option<String> {
    /// Of the operations of a file system that flushes at each, not quite all reach a device as a flush of their own.
    const EACH: f64 = 0.9;
    let rows = summary.rows.iter().filter_map(|row| {
        let each = |cell: &Measured| {
            cell.beside("device_flushes_per_operation").is_some_and(|found| found.description.mean >= EACH)
        };
        let measured = || row.cells.iter().filter(|cell| cell.estimate.is_some());
        if !measured().any(each) {
            return None;
        }
        let p99 = |cell: &Measured| {
            let own = cell.latency.iter().find(|latency| latency.operation == row.operation);
            own.and_then(|latency| latency.at(0.99))
        };
        let told = summary.targets.iter().zip(&row.cells).filter_map(|(target, cell)| {
            Some(format!("{} {}", target.name, fsb_model::units::show_seconds(p99(cell)?)))
        });
        let told: Vec<String> = told.collect();
        // Beside fewer than all it would look as if the others had none.
        (told.len() == measured().count()).then(|| format!("{} at {}", told.join(", "), row.workload))
    });
    let rows: Vec<String> = rows.collect();
    (!rows.is_empty()).then(|| format!("p99 where each operation is flushed: {}.", rows.join("; ")))
}

/// `Space that the files take differs: xfs +13 % at create 4K files, durable.`
fn space(summary: &Summary) -> Option<String> {
    if !summary.compares() {
        return None;
    }
    let taken = |cell: &Measured| cell.beside(SPACE).map(|found| found.description.mean);
    let rows = summary.rows.iter().filter_map(|row| {
        let reference = taken(row.cells.get(summary.reference)?)?;
        let told = summary.targets.iter().zip(&row.cells).filter_map(|(target, cell)| {
            let change = taken(cell)? / reference - 1.0;
            (change.abs() > summary.theta).then(|| format!("{} {:+.0} %", target.name, change * 100.0))
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| (listed(&told), row.workload.clone()))
    });
    let rows: Vec<(String, String)> = rows.collect();
    (!rows.is_empty()).then(|| format!("Space that the files take differs: {}.", told_of_rows(&rows)))
}

/// `In memory inside the clock, no device did anything: read 1M, warm; rename 4K files.`
fn in_memory(summary: &Summary) -> Option<String> {
    let idle = |cell: &Measured| {
        let moved = cell.beside("device_bytes_per_operation").map(|found| found.description.max);
        let flushed = cell.beside("device_flushes_per_operation").map(|found| found.description.max);
        moved == Some(0.0) && flushed.is_none_or(|flushed| flushed == 0.0)
    };
    let rows: Vec<String> = summary
        .rows
        .iter()
        .filter(|row| {
            let mut measured = row.cells.iter().filter(|cell| cell.estimate.is_some()).peekable();
            measured.peek().is_some() && measured.all(idle)
        })
        .map(|row| row.workload.clone())
        .collect();
    (!rows.is_empty()).then(|| format!("In memory inside the clock, no device did anything: {}.", some_rows(&rows)))
}

/// `CPU an operation differs where speed was not told apart: xfs +12 % [+8, +16] at read 1M, warm.`
fn processors(summary: &Summary) -> Option<String> {
    if !summary.compares() {
        return None;
    }
    let rows: Vec<(String, String)> = summary.rows.iter().filter_map(|row| of_row(summary, row)).collect();
    (!rows.is_empty())
        .then(|| format!("CPU an operation differs where speed was not told apart: {}.", told_of_rows(&rows)))
}

/// What differs, and the row's name.
fn of_row(summary: &Summary, row: &Workload) -> Option<(String, String)> {
    let reference = row.cells.get(summary.reference)?.beside(CPU)?;
    let base = reference.interval.as_ref()?;
    let differing = summary.targets.iter().zip(&row.cells).filter_map(|(target, cell)| {
        let found = cell.beside(CPU)?;
        let own = found.interval.as_ref()?;
        let ratio = found.description.mean / reference.description.mean;
        // Intervals that do not meet are further apart than 95 % asks for.
        let apart = own.lo > base.hi || own.hi < base.lo;
        let verdict = cell.against.as_ref()?.verdict;
        let even = !matches!(verdict, fsb_analysis::Verdict::Faster | fsb_analysis::Verdict::Slower);
        let told = apart && even && base.lo > 0.0 && (ratio - 1.0).abs() > summary.theta;
        told.then(|| format!("{} {:+.0} %", target.name, (ratio - 1.0) * 100.0))
    });
    let differing: Vec<String> = differing.collect();
    (!differing.is_empty()).then(|| (listed(&differing), row.workload.clone()))
}

const CPU: &str = "cpu_per_operation";
const SPACE: &str = "space";

#[cfg(test)]
mod tests {
    use fsb_model::metric::{CPU_PER_OPERATION, DEVICE_BYTES_PER_OPERATION};

    use super::*;
    use crate::sample;

    /// The first screen's lines of a run where each trial has these costs.
    fn lines_of(cost: impl Fn(&str, u32) -> (f64, f64)) -> Vec<String> {
        let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
        for trial in &mut trials {
            let (cpu, bytes) = cost(&trial.target, trial.block);
            // Equal speeds, or there is nothing to tell of processors.
            trial.metrics.truncate(1);
            trial.metrics[0].value = 100.0 + f64::from(trial.block);
            trial.metrics.push(CPU_PER_OPERATION.of(cpu));
            trial.metrics.push(DEVICE_BYTES_PER_OPERATION.of(bytes));
        }
        let summary = Summary::of_run(&record, &trials);
        lines(&summary)
    }

    #[test]
    fn processors_are_told_where_they_alone_differ() {
        let noise = |block: u32| 1.0 + f64::from(block % 3) * 0.01;
        let told = lines_of(|target, block| (if target == "xfs" { 1.3e-6 } else { 1e-6 } * noise(block), 4096.0));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("CPU an operation differs where speed was not told apart: xfs +30 % at "),
            "{told:?}"
        );
        assert_eq!(lines_of(|_, block| (1e-6 * noise(block), 4096.0)), Vec::<String>::new());
    }

    #[test]
    fn rows_that_touch_no_device_say_so() {
        let told = lines_of(|_, _| (1e-6, 0.0));
        assert!(told[0].starts_with("In memory inside the clock, no device did anything: "), "{told:?}");
        assert_eq!(lines_of(|_, block| (1e-6, f64::from(block == 3))), Vec::<String>::new(), "one byte is not nothing");
    }
}

//! The tables of a run.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::{Unit, metric};
use fsb_stats::{Comparison, LEVEL, Outcome, Verdict};

use super::environment::EnvironmentTable;
use super::groups::{self, BlockGroup};
use super::headline::level;
use super::latency::{columns, quantile_name};
use super::published::{Published, PublishedLayout, PublishedRow};
use super::summary::{Measured, Summary, TargetSummary, Workload};
use crate::judged::Judged;
use crate::page::table::{Table, TableCell, TableRow};
use crate::show::{counted, grouped, percent};
use crate::view::{CellView, Row};

/// Returns the caption of the answer's table.
pub(super) fn caption(summary: &Summary) -> String {
    let reference = summary.reference_name();
    match (summary.is_comparison(), summary.is_judged()) {
        _ if summary.unjudged.is_some() => "Estimates with their 95 % intervals; nothing is judged.".to_owned(),
        (false, _) => "Estimates with their 95 % intervals.".to_owned(),
        (true, false) => format!("Change against {reference}. Too few blocks to judge."),
        (true, true) => format!("Change against {reference} in this run, with its interval and verdict."),
    }
}

/// Returns the line of all workloads together, below the answer.
pub(super) fn total(summary: &Summary) -> Option<TableRow> {
    if summary.overall.iter().all(Option::is_none) {
        return None;
    }
    let cells = summary.overall.iter().enumerate().map(|(target, overall)| match overall {
        Some(overall) => {
            let mut cell = TableCell::change(&Judged::of_target(&overall.comparison), "");
            if overall.workloads < summary.rows.len() {
                cell.small = format!("{}, over {} of {}", cell.small, overall.workloads, summary.rows.len());
            }
            cell
        }
        None if target == summary.reference => {
            TableCell { text: "1".to_owned(), class: "value", ..TableCell::default() }
        }
        None => TableCell::absent("not available"),
    });
    Some(TableRow::new("All workloads (geometric mean of speeds)", cells.collect()))
}

fn names(summary: &Summary) -> Vec<String> {
    summary.targets.iter().map(TargetSummary::label).collect()
}

/// Returns the table of every statistic of one workload, with one row per target.
pub(super) fn numbers(summary: &Summary, workload: &Workload, row: &Row<'_>) -> Table {
    let mut head = vec!["Target".to_owned(), "Estimate".to_owned()];
    if summary.compares() {
        head.push(format!("Against {}", summary.reference_name()));
    }
    head.extend(["Trials", "Median and range", "CV", "Trend"].map(str::to_owned));
    let rows = summary.targets.iter().enumerate().map(|(target, found)| {
        let best = row.outcome == Outcome::Winner(target);
        let cells = statistics(summary, workload, &workload.cells[target], &row.cells[target], best);
        TableRow::of_column(target, &found.label(), cells)
    });
    Table::new(caption_of_numbers(summary, workload), head, rows.collect())
}

fn statistics(
    summary: &Summary,
    workload: &Workload,
    measured: &Measured,
    cell: &CellView,
    best: bool,
) -> Vec<TableCell> {
    let dash = || TableCell::of("–");
    let mut cells = vec![TableCell { best, ..TableCell::value(cell) }];
    if summary.compares() {
        cells.push(measured.against.as_ref().map_or_else(dash, against));
    }
    let Some(estimate) = &measured.estimate else {
        cells.extend(std::iter::repeat_with(dash).take(4));
        return cells;
    };
    let trend = estimate.trend.as_ref().map_or_else(dash, |trend| {
        let mark = if estimate.significant_trend().is_some() { "drift " } else { "" };
        let small = format!("p {}", p_value(trend.p_value));
        TableCell { small, ..TableCell::of(format!("{mark}{:+.1} %", (trend.change - 1.0) * 100.0)) }
    });
    let show = |value| workload.unit.show(value);
    let range = format!("{} – {}", show(estimate.min), show(estimate.max));
    let outliers = match estimate.outliers.len() {
        0 => String::new(),
        n => counted(n, "outlier"),
    };
    cells.extend([
        TableCell::of(estimate.n.to_string()),
        TableCell { small: range, ..TableCell::of(show(estimate.median)) },
        TableCell { small: outliers, ..TableCell::of(percent((estimate.cv * 1e3).round() / 1e3)) },
        trend,
    ]);
    cells
}

fn against(comparison: &Comparison) -> TableCell {
    TableCell::change(&Judged::of_target(comparison), "")
}

/// Returns the caption of the table of numbers. If several comparisons hold together, it states the level of each one.
fn caption_of_numbers(summary: &Summary, workload: &Workload) -> String {
    let caption = "Estimates with 95 % intervals, and the trials that they rest on";
    let compared = workload.cells.iter().filter_map(|cell| cell.against.as_ref());
    let judged = compared.filter(|comparison| comparison.verdict != Verdict::NotJudged);
    let highest = judged.map(|comparison| comparison.level).fold(LEVEL, f64::max);
    if highest <= LEVEL {
        return caption.to_owned();
    }
    format!(
        "{caption}. The intervals of all changes against {} hold together at 95 %, so each alone has a level of {}.",
        summary.reference_name(),
        level(highest)
    )
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("= {p:.3}") }
}

/// Returns the table of the latency quantiles of one operation, with one row per target.
pub(super) fn latency(summary: &Summary, workload: &Workload, operation: &str) -> Option<Table> {
    let show = fsb_model::units::show_seconds;
    let quantiles = columns();
    let mut rows = Vec::new();
    for (target, cell) in workload.cells.iter().enumerate() {
        let Some(latency) = cell.latency.iter().find(|latency| latency.operation == operation) else { continue };
        let mut cells = vec![TableCell::of(grouped(latency.n as f64)), TableCell::of(show(latency.mean))];
        cells.extend(
            quantiles.iter().map(|q| latency.at(*q).map_or_else(|| TableCell::of("–"), |s| TableCell::of(show(s)))),
        );
        rows.push(TableRow::of_column(target, &summary.targets[target].label(), cells));
    }
    let head = ["Target".to_owned(), "Operations".to_owned(), "Mean".to_owned()];
    let head = head.into_iter().chain(quantiles.iter().map(|q| quantile_name(*q))).collect();
    let caption = format!("Latency of {operation}, all trials together; – where fewer than 100 operations lie beyond");
    (!rows.is_empty()).then(|| Table::new(caption, head, rows))
}

/// Returns the table of costs besides time, with one row per metric and one column per target.
pub(super) fn costs(summary: &Summary, workload: &Workload) -> Option<Table> {
    let mut metrics: Vec<&str> = Vec::new();
    for secondary in workload.cells.iter().flat_map(|cell| &cell.secondary) {
        if !metrics.contains(&secondary.metric.as_str()) {
            metrics.push(&secondary.metric);
        }
    }
    // Costs come before latencies, which have tables of their own.
    let is_cost = |name: &str| metric::find(name).is_some_and(|kind| kind.role == metric::Role::Cost);
    metrics.sort_by_key(|name| !is_cost(name));
    let row = |name: &&str| TableRow::new(spoken(name), workload.cells.iter().map(|cell| cost(cell, name)).collect());
    let rows: Vec<TableRow> = metrics.iter().map(row).collect();
    let caption = "Costs and latencies a trial: mean and 95 % interval";
    (!rows.is_empty()).then(|| Table::of_columns(caption, "Quantity", &names(summary), rows))
}

fn cost(cell: &Measured, name: &str) -> TableCell {
    let Some(found) = cell.beside(name) else {
        return TableCell::of("–");
    };
    let show = |value: f64| if value == 0.0 { "0".to_owned() } else { found.unit.show(value) };
    let small = found.interval.map(|i| format!("[{}, {}]", show(i.lo.max(0.0)), show(i.hi)));
    TableCell { small: small.unwrap_or_default(), ..TableCell::of(show(found.description.mean)) }
}

/// Returns the readable name of a metric, such as `cpu_per_operation`.
fn spoken(name: &str) -> String {
    match name {
        "cpu_per_operation" => "CPU time an operation".to_owned(),
        "device_bytes_per_operation" => "device bytes an operation".to_owned(),
        "deferred_bytes_per_operation" => "device bytes of deferred work, an operation".to_owned(),
        "deferred_flushes_per_operation" => "device flushes of deferred work, an operation".to_owned(),
        "deferred_time_per_operation" => "time of deferred work, an operation".to_owned(),
        "share_of_device" => "share of the raw device".to_owned(),
        "write_amplification" => "device bytes for each byte written".to_owned(),
        "space" => "space that the files take".to_owned(),
        "device_flushes_per_operation" => "device flushes an operation".to_owned(),
        "latency_mean" => "mean latency".to_owned(),
        "latency_max" => "longest operation".to_owned(),
        other => match other.strip_prefix("latency_p") {
            Some("999") => "latency p99.9".to_owned(),
            Some(percentile) => format!("latency p{percentile}"),
            None => match other.strip_suffix(metric::WITH_DEFERRED) {
                Some(rate) => format!("{}, deferred work included", rate.replace('_', " ")),
                None => other.replace('_', " "),
            },
        },
    }
}

/// Returns the table of every trial, with one row per block and one column per target.
pub(super) fn trials(summary: &Summary, workload: &Workload) -> Table {
    let mut rows: BTreeMap<u32, Vec<TableCell>> = BTreeMap::new();
    let columns = workload.cells.len();
    let mut put = |block: u32, column: usize, cell: TableCell| {
        let empty = || (0..columns).map(|_| TableCell::of("–")).collect();
        let row: &mut Vec<TableCell> = rows.entry(block).or_insert_with(empty);
        row[column] = cell;
    };
    for (column, cell) in workload.cells.iter().enumerate() {
        for lost in &cell.lost {
            put(lost.block, column, TableCell::absent(lost.reason.clone()));
        }
        for point in &cell.trials {
            let small = if point.outlier { "outlier" } else { "" };
            let shown = TableCell::of(workload.unit.show(point.value));
            put(point.block, column, TableCell { small: small.to_owned(), ..shown });
        }
    }
    let rows = rows.into_iter().map(|(block, cells)| TableRow::new(block.to_string(), cells)).collect();
    Table::of_columns("Every trial, by block", "Block", &names(summary), rows)
}

/// Returns the table of medians of groups of blocks, for a run that is too long for [`trials`].
pub(super) fn block_groups(summary: &Summary, workload: &Workload, size: u32) -> Table {
    let cells: Vec<BTreeMap<u32, BlockGroup>> =
        workload.cells.iter().map(|cell| groups::of(&cell.trials, size)).collect();
    let numbers: BTreeSet<u32> = cells.iter().flat_map(|groups| groups.keys().copied()).collect();
    let row = |number: &u32| {
        let cell = |groups: &BTreeMap<u32, BlockGroup>| match groups.get(number) {
            Some(BlockGroup { n, median, min, max, .. }) => TableCell {
                small: format!("{n}: {} to {}", workload.unit.show(*min), workload.unit.show(*max)),
                ..TableCell::of(workload.unit.show(*median))
            },
            None => TableCell::of("–"),
        };
        let first = number * size + 1;
        TableRow::new(format!("{first} to {}", first + size - 1), cells.iter().map(cell).collect())
    };
    let rows = numbers.iter().map(row).collect();
    let caption = format!("Medians of {size} blocks, with the number of trials and their range");
    Table::of_columns(caption, "Blocks", &names(summary), rows)
}

/// Returns the table of requested and observed facts.
pub(super) fn environment(table: &EnvironmentTable) -> Table {
    let asked = table.rows.iter().any(|row| row.requested.is_some());
    let cell = |text: &Option<String>| match text {
        Some(text) => TableCell { text: text.clone(), class: "text", ..TableCell::default() },
        None => TableCell { text: "–".to_owned(), class: "text", ..TableCell::default() },
    };
    let rows = table.rows.iter().map(|row| {
        let requested = asked.then(|| cell(&row.requested));
        TableRow::new(&row.what, requested.into_iter().chain([cell(&row.observed)]).collect())
    });
    let head: &[&str] = if asked { &["What", "Requested", "Observed"] } else { &["What", "Observed"] };
    Table::new(&table.title, head.iter().map(|text| (*text).to_owned()).collect(), rows.collect())
}

/// Returns the table of measured and published values.
pub(super) fn published(summary: &Summary, published: &Published) -> Table {
    if published.layout == PublishedLayout::Configurations {
        return configurations(summary, published);
    }
    let mut head = vec!["Test".to_owned()];
    head.extend(summary.targets.iter().map(|target| format!("{}, here", target.label())));
    head.extend(published.file_systems.iter().map(|name| format!("{name}, published")));
    let cell = |row: &PublishedRow, value: &Option<f64>, shown: String, class: &'static str| match value {
        Some(value) if row.unit == Unit::Seconds => TableCell { class, ..TableCell::of(grouped(value * 1e6)) },
        Some(_) => TableCell { class, ..TableCell::of(shown) },
        None => TableCell::of("–"),
    };
    let rows = published.rows.iter().map(|row| {
        let ours = row.ours.iter().map(|value| cell(row, value, row.show(*value), "value"));
        let theirs = row.theirs.iter().enumerate();
        let theirs = theirs.map(|(place, value)| cell(row, value, row.show_theirs(place), "published"));
        TableRow::new(row.label(), ours.chain(theirs).collect())
    });
    let timed = published.rows.iter().any(|row| row.unit == Unit::Seconds);
    let caption = if timed { "microseconds an iteration, arithmetic means" } else { "arithmetic means" };
    Table::new(caption, head, rows.collect())
}

/// Returns the table of measured and published values with one row per file system.
fn configurations(summary: &Summary, published: &Published) -> Table {
    let targets = names(summary);
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let rows = published.configurations(&targets).into_iter().map(|one| {
        let (whose, class) = if one.published { ("published", "published") } else { ("here", "value") };
        let cells = one.values.into_iter().map(|value| TableCell { class, ..TableCell::of(value) });
        TableRow::new(format!("{}, {whose}", one.name), cells.collect())
    });
    let tests = published.rows.iter().map(|row| row.workload.clone());
    let head = std::iter::once("File system".to_owned()).chain(tests).collect();
    Table::new("minutes and seconds, arithmetic means", head, rows.collect())
}

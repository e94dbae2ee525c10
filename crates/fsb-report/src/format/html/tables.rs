//! The tables of a run.

use fsb_analysis::{Comparison, LEVEL, Outcome, Verdict};
use fsb_model::{Unit, metric};

use crate::View;
use crate::page::table::{Cell, Line, Table};
use crate::show::{Change, counted, grouped, percent};
use crate::view::{
    CellView, EnvironmentTable, Published, PublishedLayout, PublishedRow, Row, columns, level, quantile_name,
};

fn change(comparison: &Comparison, mark: &str) -> Cell {
    Cell::change(Change::of(comparison), comparison.verdict, mark)
}

/// The answer: workloads down, targets across.
pub(super) fn overview(view: &View) -> Table {
    let rows = view.rows.iter().enumerate().map(|(index, row)| Line {
        head: row.workload.clone(),
        target: None,
        link: Some(format!("#workload-{index}")),
        cells: row.cells.iter().enumerate().map(|(target, cell)| summary(row, target, cell)).collect(),
    });
    let reference = view.reference_name();
    let caption = match (view.is_comparison(), view.is_judged()) {
        _ if view.unjudged.is_some() => "Estimates with their 95 % intervals; nothing is judged.".to_owned(),
        (false, _) => "Estimates with their 95 % intervals.".to_owned(),
        (true, false) => format!("Change against {reference}. Too few blocks to judge."),
        (true, true) => format!(
            "Change against {reference}, with its interval and verdict. Targets that share a letter are not told apart; \
             ? is undecided."
        ),
    };
    Table { caption, head: head(view, "Workload"), rows: rows.collect(), foot: total(view), head_targets: true }
}

fn head(view: &View, first: &str) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(view.targets.iter().map(|target| target.name.clone())).collect()
}

fn summary(row: &Row, target: usize, cell: &CellView) -> Cell {
    let best = row.ranking.outcome == Outcome::Winner(target);
    match &cell.against {
        Some(comparison) => Cell { best, ..change(comparison, &cell.mark) },
        None => Cell { best, ..estimated(row, cell) },
    }
}

/// The estimate with its interval below.
fn estimated(row: &Row, cell: &CellView) -> Cell {
    let Some(estimate) = &cell.estimate else { return Cell::absent(cell.absence().unwrap_or_default()) };
    let interval = estimate.interval.filter(|_| estimate.is_judged());
    let small = interval.map(|i| format!("[{}, {}]", row.unit.show(i.lo), row.unit.show(i.hi)));
    Cell {
        text: row.unit.show(estimate.value),
        letter: cell.mark.clone(),
        small: small.unwrap_or_default(),
        class: "value",
        ..Cell::default()
    }
}

fn total(view: &View) -> Option<Line> {
    if view.overall.iter().all(Option::is_none) {
        return None;
    }
    let cells = view.overall.iter().enumerate().map(|(target, overall)| match overall {
        Some(overall) => {
            let mut cell = change(&overall.comparison, "");
            if overall.workloads < view.rows.len() {
                cell.small = format!("{}, over {} of {}", cell.small, overall.workloads, view.rows.len());
            }
            cell
        }
        None if target == view.reference => Cell { text: "1".to_owned(), class: "value", ..Cell::default() },
        None => Cell::absent("not available"),
    });
    Some(Line {
        head: "All workloads (geometric mean of speeds)".to_owned(),
        target: None,
        link: None,
        cells: cells.collect(),
    })
}

/// Every statistic of one workload, targets down.
pub(super) fn numbers(view: &View, row: &Row) -> Table {
    let mut head = vec!["Target".to_owned(), "Estimate".to_owned()];
    if view.compares() {
        head.push(format!("Against {}", view.reference_name()));
    }
    head.extend(["Trials", "Median and range", "CV", "Trend"].map(str::to_owned));
    let rows = row.cells.iter().enumerate().map(|(target, cell)| Line {
        head: view.targets[target].name.clone(),
        target: Some(target),
        link: None,
        cells: statistics(view, row, target, cell),
    });
    let caption = "Estimates with 95 % intervals, and the trials that they rest on".to_owned();
    Table { caption, rows: rows.collect(), head, foot: None, head_targets: false }
}

fn statistics(view: &View, row: &Row, target: usize, cell: &CellView) -> Vec<Cell> {
    let dash = || Cell::of("–");
    let best = row.ranking.outcome == Outcome::Winner(target);
    let mut cells = vec![Cell { best, ..estimated(row, cell) }];
    if view.compares() {
        cells.push(cell.against.as_ref().map_or_else(dash, against));
    }
    let Some(estimate) = &cell.estimate else {
        cells.extend(std::iter::repeat_with(dash).take(4));
        return cells;
    };
    let trend = estimate.trend.as_ref().map_or_else(dash, |trend| {
        let mark = if estimate.significant_trend().is_some() { "drift " } else { "" };
        let small = format!("p {}", p_value(trend.p_value));
        Cell { small, ..Cell::of(format!("{mark}{:+.1} %", (trend.change - 1.0) * 100.0)) }
    });
    let range = format!("{} – {}", row.unit.show(estimate.min), row.unit.show(estimate.max));
    let outliers = match estimate.outliers.len() {
        0 => String::new(),
        n => counted(n, "outlier"),
    };
    cells.extend([
        Cell::of(estimate.n.to_string()),
        Cell { small: range, ..Cell::of(row.unit.show(estimate.median)) },
        Cell { small: outliers, ..Cell::of(percent((estimate.cv * 1e3).round() / 1e3)) },
        trend,
    ]);
    cells
}

/// A change with its level, which is above 95 % where several intervals hold together.
fn against(comparison: &Comparison) -> Cell {
    let mut cell = change(comparison, "");
    if comparison.verdict != Verdict::NotJudged && comparison.level > LEVEL {
        cell.small = format!("{} at {}", cell.small, level(comparison.level));
    }
    cell
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("= {p:.3}") }
}

/// Quantiles of one operation, targets down.
pub(super) fn latency(view: &View, row: &Row, operation: &str) -> Option<Table> {
    let show = fsb_model::units::show_seconds;
    let quantiles = columns();
    let mut rows = Vec::new();
    for (target, cell) in row.cells.iter().enumerate() {
        let Some(latency) = cell.latency.iter().find(|latency| latency.operation == operation) else { continue };
        let mut cells = vec![Cell::of(grouped(latency.n as f64)), Cell::of(show(latency.mean))];
        cells.extend(quantiles.iter().map(|q| latency.at(*q).map_or_else(|| Cell::of("–"), |s| Cell::of(show(s)))));
        rows.push(Line { head: view.targets[target].name.clone(), target: Some(target), link: None, cells });
    }
    let head = ["Target".to_owned(), "Operations".to_owned(), "Mean".to_owned()];
    let head = head.into_iter().chain(quantiles.iter().map(|q| quantile_name(*q))).collect();
    let caption = format!("Latency of {operation}, all trials together; – where fewer than 100 operations lie beyond");
    (!rows.is_empty()).then_some(Table { caption, head, rows, foot: None, head_targets: false })
}

/// What it cost beside time: metrics down, targets across.
pub(super) fn costs(view: &View, row: &Row) -> Option<Table> {
    let mut names: Vec<&str> = Vec::new();
    for secondary in row.cells.iter().flat_map(|cell| &cell.secondary) {
        if !names.contains(&secondary.metric.as_str()) {
            names.push(&secondary.metric);
        }
    }
    // Costs before latencies: the latter stand in full in their own tables.
    let is_cost = |name: &str| metric::find(name).is_some_and(|kind| kind.role == metric::Role::Cost);
    names.sort_by_key(|name| !is_cost(name));
    let rows: Vec<Line> = names
        .iter()
        .map(|name| Line {
            head: spoken(name),
            target: None,
            link: None,
            cells: row.cells.iter().map(|cell| cost(cell, name)).collect(),
        })
        .collect();
    let caption = "Costs and latencies a trial: mean and 95 % interval".to_owned();
    (!rows.is_empty()).then(|| Table { caption, head: head(view, "Quantity"), rows, foot: None, head_targets: true })
}

fn cost(cell: &CellView, name: &str) -> Cell {
    let Some(found) = cell.secondary.iter().find(|secondary| secondary.metric == name) else { return Cell::of("–") };
    let show = |value: f64| if value == 0.0 { "0".to_owned() } else { found.unit.show(value) };
    let small = found.interval.map(|i| format!("[{}, {}]", show(i.lo.max(0.0)), show(i.hi)));
    Cell { small: small.unwrap_or_default(), ..Cell::of(show(found.description.mean)) }
}

/// `cpu_per_operation` as people say it.
fn spoken(name: &str) -> String {
    match name {
        "cpu_per_operation" => "CPU time an operation".to_owned(),
        "device_bytes_per_operation" => "device bytes an operation".to_owned(),
        "device_flushes_per_operation" => "device flushes an operation".to_owned(),
        "latency_mean" => "mean latency".to_owned(),
        other => match other.strip_prefix("latency_p") {
            Some("999") => "latency p99.9".to_owned(),
            Some(percentile) => format!("latency p{percentile}"),
            None => other.replace('_', " "),
        },
    }
}

/// Every trial, blocks down, targets across.
pub(super) fn trials(view: &View, row: &Row) -> Table {
    let mut blocks: Vec<u32> = row.cells.iter().flat_map(|cell| cell.trials.iter().map(|point| point.block)).collect();
    blocks.extend(row.cells.iter().flat_map(|cell| cell.lost.iter().map(|lost| lost.block)));
    blocks.sort_unstable();
    blocks.dedup();
    let rows = blocks.into_iter().map(|block| Line {
        head: block.to_string(),
        target: None,
        link: None,
        cells: row.cells.iter().map(|cell| trial(row, cell, block)).collect(),
    });
    Table {
        caption: "Every trial, by block".to_owned(),
        head: head(view, "Block"),
        rows: rows.collect(),
        foot: None,
        head_targets: true,
    }
}

fn trial(row: &Row, cell: &CellView, block: u32) -> Cell {
    if let Some(point) = cell.trials.iter().find(|point| point.block == block) {
        let small = if point.outlier { "outlier" } else { "" };
        return Cell { small: small.to_owned(), ..Cell::of(row.unit.show(point.value)) };
    }
    match cell.lost.iter().find(|lost| lost.block == block) {
        Some(lost) => Cell::absent(lost.reason.clone()),
        None => Cell::of("–"),
    }
}

/// Requested beside observed.
pub(super) fn environment(table: &EnvironmentTable) -> Table {
    let asked = table.rows.iter().any(|row| row.requested.is_some());
    let cell = |text: &Option<String>| match text {
        Some(text) => Cell { text: text.clone(), class: "text", ..Cell::default() },
        None => Cell { text: "–".to_owned(), class: "text", ..Cell::default() },
    };
    let rows = table.rows.iter().map(|row| Line {
        head: row.what.clone(),
        target: None,
        link: None,
        cells: if asked { vec![cell(&row.requested), cell(&row.observed)] } else { vec![cell(&row.observed)] },
    });
    let head: &[&str] = if asked { &["What", "Requested", "Observed"] } else { &["What", "Observed"] };
    Table {
        caption: table.title.clone(),
        head: head.iter().map(|text| (*text).to_owned()).collect(),
        rows: rows.collect(),
        foot: None,
        head_targets: false,
    }
}

/// Ours beside the published values.
pub(super) fn published(view: &View, published: &Published) -> Table {
    if published.layout == PublishedLayout::Configurations {
        return configurations(view, published);
    }
    let mut head = vec!["Test".to_owned()];
    head.extend(view.targets.iter().map(|target| format!("{}, here", target.name)));
    head.extend(published.file_systems.iter().map(|name| format!("{name}, published")));
    let cell = |row: &PublishedRow, value: &Option<f64>, class: &'static str| match value {
        Some(value) if row.unit == Unit::Seconds => Cell { class, ..Cell::of(grouped(value * 1e6)) },
        Some(_) => Cell { class, ..Cell::of(row.show(*value)) },
        None => Cell::of("–"),
    };
    let rows = published.rows.iter().map(|row| Line {
        head: row.workload.clone(),
        target: None,
        link: None,
        cells: row
            .ours
            .iter()
            .map(|value| cell(row, value, "value"))
            .chain(row.theirs.iter().map(|value| cell(row, value, "published")))
            .collect(),
    });
    let timed = published.rows.iter().any(|row| row.unit == Unit::Seconds);
    let caption = if timed { "microseconds an iteration, arithmetic means" } else { "arithmetic means" };
    Table { caption: caption.to_owned(), head, rows: rows.collect(), foot: None, head_targets: false }
}

/// The same where rows are file systems.
fn configurations(view: &View, published: &Published) -> Table {
    let targets: Vec<&str> = view.targets.iter().map(|target| target.name.as_str()).collect();
    let rows = published.configurations(&targets).into_iter().map(|one| {
        let (whose, class) = if one.published { ("published", "published") } else { ("here", "value") };
        Line {
            head: format!("{}, {whose}", one.name),
            target: None,
            link: None,
            cells: one.values.into_iter().map(|value| Cell { class, ..Cell::of(value) }).collect(),
        }
    });
    Table {
        caption: "minutes and seconds, arithmetic means".to_owned(),
        head: std::iter::once("File system".to_owned())
            .chain(published.rows.iter().map(|row| row.workload.clone()))
            .collect(),
        rows: rows.collect(),
        foot: None,
        head_targets: false,
    }
}

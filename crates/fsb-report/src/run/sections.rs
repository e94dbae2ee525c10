//! The sections of a run's page, and their tables.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::units::{show_bytes, show_count, show_seconds};
use fsb_model::{Unit, metric};
use fsb_stats::{Comparison, LEVEL, RankingOutcome, Verdict};

use super::{neighbours, traced_tables};
use crate::judged::Judged;
use crate::page::{Block, ColumnItem, Opening, Section};
use crate::show::{counted, grouped, percent};
use crate::summary::environment::EnvironmentTable;
use crate::summary::latency::{self, quantile_name};
use crate::summary::timeline::{FEWEST, interval_text};
use crate::summary::{
    BlockGroup, MeasuredCell, Published, PublishedClaim, PublishedLayout, PublishedRow, Summary,
    Workload, roles, samples,
};
use crate::table::{Table, TableCell, TableRow};
use crate::view::{CellView, Row, View};
use crate::{chart, compare, mark};

/// Returns the sections between the overview and the method: published values, findings, sizes,
/// workloads, environment. The iterator makes each section on request, because sections of
/// workloads hold all trials as text.
pub(crate) fn list<'a>(
    summary: &'a Summary,
    view: &'a View<'a>,
) -> impl Iterator<Item = Section> + 'a {
    let rows = view
        .rows
        .iter()
        .enumerate()
        .filter(|_| view.has_row_sections);
    let workloads = rows.filter_map(|(place, row)| workload(summary, view, row, place));
    let matrix = summary
        .matrix
        .as_ref()
        .map(compare::sections::of_matrix)
        .unwrap_or_default();
    let tables = summary
        .environment
        .iter()
        .map(|table| Block::table("environment", environment_table(table)));
    let environment = Section::new("environment", "Environment", tables.collect());
    let first = machine_roles(summary)
        .into_iter()
        .chain(published(summary))
        .chain(claims(summary))
        .chain(neighbours::section(summary))
        .chain(findings(view))
        .chain(matrix);
    first.chain(workloads).chain([environment])
}

/// Returns the targets as the overview names them.
fn columns(summary: &Summary) -> Block {
    Block::Columns(
        summary
            .targets
            .iter()
            .enumerate()
            .map(|(place, target)| {
                let what = (target.what != target.name).then(|| target.what.clone());
                let is_baseline = place == summary.baseline && summary.compares();
                let risk = (!target.risks.is_empty())
                    .then(|| format!("unsafe: {}", mark::reason(&target.risks)));
                let baseline = is_baseline.then(|| "baseline".to_owned());
                ColumnItem {
                    name: target.label(),
                    remarks: what.into_iter().chain(baseline).chain(risk).collect(),
                    failed: target.failed.clone(),
                }
            })
            .collect(),
    )
}

/// Returns the opening of the overview.
pub(crate) fn opening(summary: &Summary) -> Opening {
    let columns = Some(columns(summary));
    Opening {
        columns,
        caption: caption(summary),
        total: total(summary),
    }
}

/// Returns the section with the results for each role of a machine.
fn machine_roles(summary: &Summary) -> Option<Section> {
    let items = roles::lines(summary);
    let label =
        "The results of this run for their work, and a command that measures it in five minutes";
    (!items.is_empty()).then(|| {
        Section::new(
            "roles",
            "Mail server, database, build machine",
            vec![Block::List {
                label,
                class: "lost",
                items,
            }],
        )
    })
}

fn published(summary: &Summary) -> Option<Section> {
    let published = summary.published.as_ref()?;
    let mut blocks = vec![
        Block::text("", &published.title),
        Block::table("published", published_table(summary, published)),
        Block::text("note", &published.note),
    ];
    blocks.extend(
        published
            .order
            .as_ref()
            .map(|order| Block::text("order", &order.text)),
    );
    Some(Section::new("published", "Beside published values", blocks))
}

/// Returns the section of published statements: a table for each group.
fn claims(summary: &Summary) -> Option<Section> {
    let claims = summary.claims.as_ref()?;
    let table = |(group, rows): (&str, &[PublishedClaim])| {
        let cells = |claim: &PublishedClaim| {
            let cell = |text: String, class| TableCell {
                class,
                ..TableCell::new(text)
            };
            vec![
                cell(claim.published.clone(), "published"),
                cell(claim.show_here(), "value"),
            ]
        };
        let rows = rows
            .iter()
            .map(|claim| TableRow::new(&claim.test, cells(claim)))
            .collect();
        let head = ["Test", "published", "here"];
        Block::table("published", Table::new(group, head, rows))
    };
    let blocks = std::iter::once(Block::text("", &claims.title)).chain(claims.groups().map(table));
    let withheld = claims.withheld.iter().map(|why| Block::text("note", why));
    let order = claims
        .order
        .iter()
        .map(|order| Block::text("order", &order.text));
    let note = [Block::text("note", &claims.note)];
    let blocks = blocks.chain(withheld).chain(note).chain(order).collect();
    Some(Section::new(
        "claims",
        "Beside published statements",
        blocks,
    ))
}

fn findings(view: &View<'_>) -> Option<Section> {
    let found = view.findings.as_ref()?;
    let blocks = match found.as_slice() {
        [] => vec![Block::text(
            "",
            "No region of sizes differs significantly by more than the smallest difference that matters.",
        )],
        found => vec![
            Block::text(
                "note",
                "Which target is faster for which operation, sizes and records; the widest first.",
            ),
            Block::Findings(
                found
                    .iter()
                    .map(|found| (found.faster, found.text.clone()))
                    .collect(),
            ),
        ],
    };
    Some(Section::new("findings", "Findings", blocks))
}

fn workload(summary: &Summary, view: &View<'_>, row: &Row<'_>, place: usize) -> Option<Section> {
    let found = row.workload()?;
    let (mut of_operations, own): (Vec<_>, Vec<_>) = chart::of_row(view, row, place)
        .into_iter()
        .partition(|chart| chart.operation.is_some());
    let mut blocks = vec![Block::text("finding", &row.sentence)];
    blocks.extend(rounds(summary, found).map(|text| Block::text("note", text)));
    blocks.extend([
        Block::Charts(own),
        Block::table("numbers", numbers_table(summary, found, row)),
    ]);
    let lost = lost(summary, found, view.group_size);
    if !lost.is_empty() {
        blocks.push(Block::List {
            label: "Without a value",
            class: "lost",
            items: lost,
        });
    }
    for operation in found.timed_operations() {
        let charts =
            of_operations.extract_if(.., |chart| chart.operation.as_deref() == Some(operation));
        blocks.push(Block::Charts(charts.collect()));
        blocks.extend(
            latency_table(summary, found, operation).map(|table| Block::table("latency", table)),
        );
    }
    blocks.extend(timeline_table(summary, found).map(|table| Block::table("timeline", table)));
    blocks.extend(warm_up_table(summary, found).map(|table| Block::table("warm-up", table)));
    let traced = view
        .traced
        .iter()
        .filter(|(_, traced)| traced.workload == found.workload);
    blocks.extend(traced.flat_map(|(_, traced)| traced_tables::blocks(traced)));
    blocks.extend(costs_table(summary, found).map(|table| Block::table("costs", table)));
    let (title, table) = match view.group_size {
        1 => ("Every trial".to_owned(), trials_table(summary, found)),
        size => (
            format!("Medians of {size} blocks"),
            block_groups_table(summary, found, size),
        ),
    };
    blocks.push(Block::Details {
        summary: title,
        blocks: vec![Block::table("trials", table)],
    });
    Some(Section {
        id: format!("workload-{place}"),
        title: row.label.clone(),
        is_row: true,
        blocks,
    })
}

/// Describes the scatter of a workload's cells between rounds and between blocks, and the cells
/// that are not stationary.
fn rounds(summary: &Summary, workload: &Workload) -> Option<String> {
    let baseline = summary.baseline_name();
    let cells = summary.cells_of(workload);
    let scatter = cells.clone().filter_map(|(target, cell)| {
        let found = cell.scatter?;
        let (rounds, blocks) = (brief(found.between_rounds), brief(found.between_blocks));
        Some(format!(
            "{} against {baseline}: between rounds {rounds}, between blocks {blocks}.",
            target.label()
        ))
    });
    let kinds = cells.filter_map(|(target, cell)| {
        let words = samples::words(
            cell.not_stationary.as_ref()?,
            workload.unit,
            workload.better,
        );
        Some(format!(
            "{} is not stationary (~): {words}.",
            target.label()
        ))
    });
    let said: Vec<String> = kinds.chain(scatter).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// Formats a scatter with two digits.
fn brief(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// Describes cells and trials without a value. If the page holds groups of blocks, trials with the
/// same reason are counted.
fn lost(summary: &Summary, workload: &Workload, group_size: u32) -> Vec<String> {
    let mut lines = Vec::new();
    for (target, cell) in summary.cells_of(workload) {
        match (cell.absence(), cell.reason()) {
            (Some(kind), Some(reason)) => lines.push(format!("{}: {kind}: {reason}", target.name)),
            _ if group_size > 1 => {
                let mut reasons: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
                cell.lost
                    .iter()
                    .for_each(|lost| reasons.entry(&lost.reason).or_default().push(lost.block));
                lines.extend(reasons.into_iter().map(|(reason, blocks)| {
                    let count = counted(blocks.len(), "block");
                    format!(
                        "{}, {count}, the first is {}: {reason}",
                        target.name, blocks[0]
                    )
                }));
            }
            _ => lines.extend(
                cell.lost
                    .iter()
                    .map(|lost| format!("{}, block {}: {}", target.name, lost.block, lost.reason)),
            ),
        }
    }
    lines
}

/// Returns the caption of the answer's table.
fn caption(summary: &Summary) -> String {
    let baseline = summary.baseline_name();
    match (summary.is_comparison(), summary.is_judged()) {
        _ if summary.unjudged.is_some() => {
            "Estimates with their 95 % intervals; nothing is judged.".to_owned()
        }
        (false, _) => "Estimates with their 95 % intervals.".to_owned(),
        (true, false) => format!("Change against {baseline}. Too few blocks to judge."),
        (true, true) => {
            format!("Change against {baseline} in this run, with its interval and verdict.")
        }
    }
}

/// Returns the line of all workloads together, below the answer.
fn total(summary: &Summary) -> Option<TableRow> {
    if summary.overall.iter().all(Option::is_none) {
        return None;
    }
    let cells = summary
        .overall
        .iter()
        .enumerate()
        .map(|(target, overall)| match overall {
            Some(overall) => {
                let mut cell = TableCell::change(&Judged::of_target(&overall.comparison), "");
                if overall.workloads < summary.cases.len() {
                    cell.small = format!(
                        "{}, over {} of {}",
                        cell.small,
                        overall.workloads,
                        summary.cases.len()
                    );
                }
                cell
            }
            None if target == summary.baseline => TableCell {
                text: "1".to_owned(),
                class: "value",
                ..TableCell::default()
            },
            None => TableCell::absent("not available"),
        });
    Some(TableRow::new(
        "All workloads (geometric mean of speeds)",
        cells.collect(),
    ))
}

fn names(summary: &Summary) -> Vec<String> {
    summary.labels()
}

/// Returns the table of every statistic of one workload, with one row per target.
fn numbers_table(summary: &Summary, workload: &Workload, row: &Row<'_>) -> Table {
    let mut head = vec!["Target".to_owned(), "Estimate".to_owned()];
    if summary.compares() {
        head.push(format!("Against {}", summary.baseline_name()));
    }
    head.extend(["Trials", "Median and range", "CV", "Trend"].map(str::to_owned));
    let rows = summary.targets.iter().enumerate().map(|(target, found)| {
        let best = row.outcome == RankingOutcome::Winner(target);
        let cells = statistics(
            summary,
            workload,
            &workload.cells[target],
            &row.cells[target],
            best,
        );
        TableRow::of_column(target, &found.label(), cells)
    });
    Table::new(caption_of_numbers(summary, workload), head, rows.collect())
}

fn statistics(
    summary: &Summary,
    workload: &Workload,
    measured: &MeasuredCell,
    cell: &CellView,
    best: bool,
) -> Vec<TableCell> {
    let dash = || TableCell::new("–");
    let mut cells = vec![TableCell {
        best,
        ..TableCell::value(cell)
    }];
    if summary.compares() {
        cells.push(measured.against.as_ref().map_or_else(dash, against));
    }
    let Some(estimate) = &measured.estimate else {
        cells.extend(std::iter::repeat_with(dash).take(4));
        return cells;
    };
    let trend = estimate.trend.as_ref().map_or_else(dash, |trend| {
        let mark = if estimate.significant_trend().is_some() {
            "drift "
        } else {
            ""
        };
        let small = format!("p {}", p_value(trend.p_value));
        TableCell::new(format!("{mark}{:+.1} %", (trend.change - 1.0) * 100.0)).with_small(small)
    });
    let show = |value| workload.unit.show(value);
    let range = format!("{} – {}", show(estimate.min), show(estimate.max));
    let outliers = match estimate.outliers.len() {
        0 => String::new(),
        n => counted(n, "outlier"),
    };
    cells.extend([
        TableCell::new(estimate.n.to_string()),
        TableCell::new(show(estimate.median)).with_small(range),
        TableCell::new(percent((estimate.cv * 1e3).round() / 1e3)).with_small(outliers),
        trend,
    ]);
    cells
}

fn against(comparison: &Comparison) -> TableCell {
    TableCell::change(&Judged::of_target(comparison), "")
}

/// Returns the caption of the table of numbers. It states whether several comparisons hold
/// together.
fn caption_of_numbers(summary: &Summary, workload: &Workload) -> String {
    let caption = "Estimates with 95 % intervals, and their trials";
    let compared = workload
        .cells
        .iter()
        .filter_map(|cell| cell.against.as_ref());
    let judged = compared.filter(|comparison| comparison.verdict != Verdict::NotJudged);
    let highest = judged
        .map(|comparison| comparison.level)
        .fold(LEVEL, f64::max);
    if highest <= LEVEL {
        return caption.to_owned();
    }
    format!(
        "{caption}. The intervals of all changes against {} hold together at 95 %.",
        summary.baseline_name()
    )
}

fn p_value(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("= {p:.3}")
    }
}

/// Returns the table of the latency quantiles of one operation, with one row per target.
fn latency_table(summary: &Summary, workload: &Workload, operation: &str) -> Option<Table> {
    let show = fsb_model::units::show_seconds;
    let quantiles = latency::columns();
    let mut rows = Vec::new();
    for (target, cell) in workload.cells.iter().enumerate() {
        let Some(latency) = cell
            .latency
            .iter()
            .find(|latency| latency.operation == operation)
        else {
            continue;
        };
        let mut cells = vec![
            TableCell::new(grouped(latency.n as f64)),
            TableCell::new(show(latency.mean)),
        ];
        cells.extend(quantiles.iter().map(|q| latency.at(*q).map(&show).into()));
        rows.push(TableRow::of_column(
            target,
            &summary.targets[target].label(),
            cells,
        ));
    }
    let head = [
        "Target".to_owned(),
        "Operations".to_owned(),
        "Mean".to_owned(),
    ];
    let head = head
        .into_iter()
        .chain(quantiles.iter().map(|q| quantile_name(*q)));
    let caption = format!(
        "Latency of {operation}, all trials together; – where fewer than 100 operations lie beyond"
    );
    (!rows.is_empty()).then(|| Table::new(caption, head, rows))
}

/// Returns the table of costs besides time, with one row per metric and one column per target.
fn costs_table(summary: &Summary, workload: &Workload) -> Option<Table> {
    let mut metrics: Vec<&str> = Vec::new();
    for secondary in workload.cells.iter().flat_map(|cell| &cell.secondary) {
        if !metrics.contains(&secondary.metric.as_str()) {
            metrics.push(&secondary.metric);
        }
    }
    // Costs come before latencies, which have tables of their own.
    metrics
        .sort_by_key(|name| metric::find(name).is_none_or(|kind| kind.role != metric::Role::Cost));
    let rows: Vec<TableRow> = metrics
        .iter()
        .map(|name| {
            TableRow::new(
                spoken(name),
                workload.cells.iter().map(|cell| cost(cell, name)).collect(),
            )
        })
        .collect();
    let caption = "Costs and latencies per trial: mean and 95 % interval";
    (!rows.is_empty()).then(|| Table::of_columns(caption, "Quantity", &names(summary), rows))
}

fn cost(cell: &MeasuredCell, name: &str) -> TableCell {
    let Some(found) = cell.beside(name) else {
        return TableCell::new("–");
    };
    let show = |value: f64| {
        if value == 0.0 {
            "0".to_owned()
        } else {
            found.unit.show(value)
        }
    };
    let small = found
        .interval
        .map(|i| format!("[{}, {}]", show(i.lo.max(0.0)), show(i.hi)));
    TableCell::new(show(found.description.mean)).with_small(small.unwrap_or_default())
}

/// Returns the readable name of a metric, such as `cpu_per_operation`.
fn spoken(name: &str) -> String {
    match name {
        "cpu_per_operation" => "CPU time per operation".to_owned(),
        "server_cpu_per_operation" => "CPU time of the FUSE server per operation".to_owned(),
        "server_memory" => "memory of the FUSE server".to_owned(),
        "device_bytes_per_operation" => "device bytes per operation".to_owned(),
        "deferred_bytes_per_operation" => "device bytes of deferred work per operation".to_owned(),
        "deferred_flushes_per_operation" => {
            "device flushes of deferred work per operation".to_owned()
        }
        "deferred_time_per_operation" => "time of deferred work per operation".to_owned(),
        "share_of_device" => "share of the raw device".to_owned(),
        "write_amplification" => "device bytes for each byte written".to_owned(),
        "space" => "space that the files take".to_owned(),
        "device_flushes_per_operation" => "device flushes per operation".to_owned(),
        "rpcs_per_operation" => "remote procedure calls per operation".to_owned(),
        "wire_bytes_per_operation" => "bytes on the network per operation".to_owned(),
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
fn trials_table(summary: &Summary, workload: &Workload) -> Table {
    let mut rows: BTreeMap<u32, Vec<TableCell>> = BTreeMap::new();
    let columns = workload.cells.len();
    let mut put = |block: u32, column: usize, cell: TableCell| {
        let row: &mut Vec<TableCell> = rows
            .entry(block)
            .or_insert_with(|| (0..columns).map(|_| TableCell::new("–")).collect());
        row[column] = cell;
    };
    for (column, cell) in workload.cells.iter().enumerate() {
        for lost in &cell.lost {
            put(lost.block, column, TableCell::absent(lost.reason.clone()));
        }
        for point in &cell.trials {
            let small = if point.outlier { "outlier" } else { "" };
            let shown = TableCell::new(workload.unit.show(point.value));
            put(point.block, column, shown.with_small(small.to_owned()));
        }
    }
    let rows = rows
        .into_iter()
        .map(|(block, cells)| TableRow::new(block.to_string(), cells))
        .collect();
    Table::of_columns("Every trial, by block", "Block", &names(summary), rows)
}

/// Returns the table of medians of groups of blocks, for a run that is too long for
/// [`trials_table`].
fn block_groups_table(summary: &Summary, workload: &Workload, size: u32) -> Table {
    let cells: Vec<BTreeMap<u32, BlockGroup>> = workload
        .cells
        .iter()
        .map(|cell| BlockGroup::by_number(&cell.trials, size))
        .collect();
    let numbers: BTreeSet<u32> = cells
        .iter()
        .flat_map(|groups| groups.keys().copied())
        .collect();
    let row = |number: &u32| {
        let cell = |groups: &BTreeMap<u32, BlockGroup>| match groups.get(number) {
            Some(BlockGroup {
                n,
                median,
                min,
                max,
                ..
            }) => TableCell::new(workload.unit.show(*median)).with_small(format!(
                "{n}: {} to {}",
                workload.unit.show(*min),
                workload.unit.show(*max)
            )),
            None => TableCell::new("–"),
        };
        let first = number * size + 1;
        TableRow::new(
            format!("{first} to {}", first + size - 1),
            cells.iter().map(cell).collect(),
        )
    };
    let rows = numbers.iter().map(row).collect();
    let caption = format!("Medians of {size} blocks, with the number of trials and their range");
    Table::of_columns(caption, "Blocks", &names(summary), rows)
}

/// Returns the table of requested and observed facts.
fn environment_table(table: &EnvironmentTable) -> Table {
    let asked = table.rows.iter().any(|row| row.requested.is_some());
    let cell = |text: &Option<String>| match text {
        Some(text) => TableCell {
            text: text.clone(),
            class: "text",
            ..TableCell::default()
        },
        None => TableCell {
            text: "–".to_owned(),
            class: "text",
            ..TableCell::default()
        },
    };
    let rows = table.rows.iter().map(|row| {
        let requested = asked.then(|| cell(&row.requested));
        TableRow::new(
            &row.what,
            requested.into_iter().chain([cell(&row.observed)]).collect(),
        )
    });
    let head: &[&str] = if asked {
        &["What", "Requested", "Observed"]
    } else {
        &["What", "Observed"]
    };
    Table::new(&table.title, head.iter().copied(), rows.collect())
}

/// Returns the table of measured and published values.
fn published_table(summary: &Summary, published: &Published) -> Table {
    if published.layout == PublishedLayout::Configurations {
        return configurations(summary, published);
    }
    let mut head = vec!["Test".to_owned()];
    head.extend(
        summary
            .targets
            .iter()
            .map(|target| format!("{}, here", target.label())),
    );
    head.extend(
        published
            .file_systems
            .iter()
            .map(|name| format!("{name}, published")),
    );
    let cell =
        |row: &PublishedRow, value: &Option<f64>, shown: String, class: &'static str| match value {
            Some(value) if row.unit == Unit::Seconds => TableCell {
                class,
                ..TableCell::new(grouped(value * 1e6))
            },
            Some(_) => TableCell {
                class,
                ..TableCell::new(shown)
            },
            None => TableCell::new("–"),
        };
    let rows = published.rows.iter().map(|row| {
        let ours = row
            .ours
            .iter()
            .map(|value| cell(row, value, row.show(*value), "value"));
        let theirs = row.theirs.iter().enumerate();
        let theirs =
            theirs.map(|(place, value)| cell(row, value, row.show_theirs(place), "published"));
        TableRow::new(row.label(), ours.chain(theirs).collect())
    });
    let timed = published.rows.iter().any(|row| row.unit == Unit::Seconds);
    let caption = if timed {
        "microseconds per iteration, arithmetic means"
    } else {
        "arithmetic means"
    };
    Table::new(caption, head, rows.collect())
}

/// Returns the table of measured and published values with one row per file system.
fn configurations(summary: &Summary, published: &Published) -> Table {
    let targets = names(summary);
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let rows = published.configurations(&targets).into_iter().map(|one| {
        let (whose, class) = if one.published {
            ("published", "published")
        } else {
            ("here", "value")
        };
        let cells = one.values.into_iter().map(|value| TableCell {
            class,
            ..TableCell::new(value)
        });
        TableRow::new(format!("{}, {whose}", one.name), cells.collect())
    });
    let tests = published.rows.iter().map(|row| row.workload.clone());
    let head = std::iter::once("File system".to_owned()).chain(tests);
    Table::new(
        "minutes and seconds, arithmetic means",
        head,
        rows.collect(),
    )
}

/// Returns the table of a workload's timelines, with one row per target. Returns `None` if no
/// target has a timeline.
fn timeline_table(summary: &Summary, workload: &Workload) -> Option<Table> {
    let cells = workload.cells.iter().enumerate();
    let rows: Vec<TableRow> = cells
        .filter_map(|(target, cell)| {
            let timeline = cell.timeline.as_ref()?;
            let longest = timeline
                .stalls
                .iter()
                .max_by(|a, b| a.lasted.total_cmp(&b.lasted));
            let stalls = match timeline.stalls.len() {
                0 => "none".to_owned(),
                n => format!(
                    "{n}, {} in all",
                    show_seconds(timeline.stalls.iter().map(|stall| stall.lasted).sum())
                ),
            };
            let worst = longest.map_or_else(
                || TableCell::new("–"),
                |stall| TableCell::new(show_seconds(stall.lasted)).with_small(stall.meanwhile()),
            );
            let typical = format!("{}/s", show_count(timeline.typical()));
            let cells = vec![
                TableCell::new(timeline.block.to_string()),
                TableCell::new(typical),
                TableCell::new(show_seconds(timeline.longest())),
                TableCell::new(stalls),
                worst,
            ];
            Some(TableRow::of_column(
                target,
                &summary.targets[target].label(),
                cells,
            ))
        })
        .collect();
    let bin = workload
        .cells
        .iter()
        .find_map(|cell| cell.timeline.as_ref())?
        .bin;
    let head = [
        "Target",
        "Block",
        "Typical rate",
        "Longest operation",
        "Stalls",
        "Longest stall",
    ];
    let caption = format!(
        "One trial over time, that with the median value, in bins of {}; a stall is {} or more below a tenth of the typical \
         rate",
        show_seconds(bin),
        counted(FEWEST, "bin"),
    );
    Some(Table::new(caption, head.map(str::to_owned).to_vec(), rows))
}

/// Returns the table of the warm-ups of a workload's cache, with one row per target. Returns `None`
/// for workloads other than `cache-warm-up`.
fn warm_up_table(summary: &Summary, workload: &Workload) -> Option<Table> {
    let rows: Vec<TableRow> = workload
        .cells
        .iter()
        .enumerate()
        .filter_map(|(target, cell)| {
            let found = cell.warm_up.as_ref()?;
            let constants = match (&found.bytes, &found.seconds) {
                (Some(bytes), Some(seconds)) => [
                    interval_text(bytes, show_bytes),
                    interval_text(seconds, show_seconds),
                    bytes.n.to_string(),
                ],
                _ => [found.describe(), "–".to_owned(), "0".to_owned()],
            };
            let rates = match found.shown.fit {
                Some(fit) => [fit.cold, fit.warm].map(|rate| Unit::BytesPerSecond.show(rate)),
                None => ["–", "–"].map(str::to_owned),
            };
            let block = found.shown.block.to_string();
            let cells = constants
                .into_iter()
                .chain([block])
                .chain(rates)
                .map(TableCell::new)
                .collect();
            Some(TableRow::of_column(
                target,
                &summary.targets[target].label(),
                cells,
            ))
        })
        .collect();
    let head = [
        "Target",
        "Time constant in bytes",
        "in seconds",
        "n",
        "Block of the chart",
        "Cold",
        "Warm",
    ];
    let caption = "The warm-up of the cache: bytes and seconds after which the share of misses has fallen to 1/e, with \
                   95 % intervals between blocks";
    (!rows.is_empty()).then(|| Table::new(caption, head.map(str::to_owned).to_vec(), rows))
}

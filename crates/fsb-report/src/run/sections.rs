//! The sections of a run's page.

use std::collections::BTreeMap;

use super::summary::{Summary, TargetSummary, Workload};
use super::{roles, samples, tables, timelines};
use crate::chart;
use crate::compare;
use crate::mark;
use crate::page::block::{Block, ColumnItem, Opening, Section};
use crate::show::counted;
use crate::view::{Row, View};

/// Returns the sections between the overview and the method: published values, findings, sizes, workloads, environment.
/// The iterator makes each section on request, because sections of workloads hold all trials as text.
pub(crate) fn of<'a>(summary: &'a Summary, view: &'a View<'a>) -> impl Iterator<Item = Section> + 'a {
    let rows = view.rows.iter().enumerate().filter(|_| view.has_row_sections);
    let workloads = rows.filter_map(|(place, row)| workload(summary, view, row, place));
    let matrix = summary.matrix.as_ref().map(compare::sections::of_matrix).unwrap_or_default();
    let tables = summary.environment.iter().map(|table| Block::table("environment", tables::environment(table)));
    let environment = Section::new("environment", "Environment", tables.collect());
    let first = machine_roles(summary).into_iter().chain(published(summary)).chain(findings(view)).chain(matrix);
    first.chain(workloads).chain([environment])
}

/// Returns the targets as the overview names them.
fn columns(summary: &Summary) -> Block {
    let item = |(place, target): (usize, &TargetSummary)| {
        let what = (target.what != target.name).then(|| target.what.clone());
        let is_reference = place == summary.reference && summary.compares();
        let risk = (!target.risks.is_empty()).then(|| format!("unsafe: {}", mark::reason(&target.risks)));
        let reference = is_reference.then(|| "baseline".to_owned());
        ColumnItem {
            name: target.label(),
            remarks: what.into_iter().chain(reference).chain(risk).collect(),
            failed: target.failed.clone(),
        }
    };
    Block::Columns(summary.targets.iter().enumerate().map(item).collect())
}

/// Returns the opening of the overview.
pub(crate) fn opening(summary: &Summary) -> Opening {
    let columns = Some(columns(summary));
    Opening { columns, caption: tables::caption(summary), total: tables::total(summary) }
}

/// Returns the section with the results for each role of a machine.
fn machine_roles(summary: &Summary) -> Option<Section> {
    let items = roles::lines(summary);
    let label = "The results of this run for their work, and a command that measures it in five minutes";
    (!items.is_empty()).then(|| {
        Section::new("roles", "Mail server, database, build machine", vec![Block::List { label, class: "lost", items }])
    })
}

fn published(summary: &Summary) -> Option<Section> {
    let published = summary.published.as_ref()?;
    let blocks = vec![
        Block::text("", &published.title),
        Block::table("published", tables::published(summary, published)),
        Block::text("note", &published.note),
    ];
    Some(Section::new("published", "Beside published values", blocks))
}

fn findings(view: &View<'_>) -> Option<Section> {
    let found = view.findings.as_ref()?;
    let blocks = match found.as_slice() {
        [] => vec![Block::text("", "No region of sizes differs significantly by more than matters.")],
        found => vec![
            Block::text("note", "Which target is faster for which operation, sizes and records; the widest first."),
            Block::Findings(found.iter().map(|found| (found.faster, found.text.clone())).collect()),
        ],
    };
    Some(Section::new("findings", "Findings", blocks))
}

fn workload(summary: &Summary, view: &View<'_>, row: &Row<'_>, place: usize) -> Option<Section> {
    let found = row.workload()?;
    let (mut of_operations, own): (Vec<_>, Vec<_>) =
        chart::of_row(view, row, place).into_iter().partition(|chart| chart.operation.is_some());
    let mut blocks = vec![Block::text("finding", &row.sentence)];
    blocks.extend(rounds(summary, found).map(|text| Block::text("note", text)));
    blocks.extend([Block::Charts(own), Block::table("numbers", tables::numbers(summary, found, row))]);
    let lost = lost(summary, found, view.group_size);
    if !lost.is_empty() {
        blocks.push(Block::List { label: "Without a value", class: "lost", items: lost });
    }
    for operation in found.timed_operations() {
        let charts = of_operations.extract_if(.., |chart| chart.operation.as_deref() == Some(operation));
        blocks.push(Block::Charts(charts.collect()));
        blocks.extend(tables::latency(summary, found, operation).map(|table| Block::table("latency", table)));
    }
    blocks.extend(timelines::table(summary, found).map(|table| Block::table("timeline", table)));
    blocks.extend(tables::costs(summary, found).map(|table| Block::table("costs", table)));
    let (title, table) = match view.group_size {
        1 => ("Every trial".to_owned(), tables::trials(summary, found)),
        size => (format!("Medians of {size} blocks"), tables::block_groups(summary, found, size)),
    };
    blocks.push(Block::Details { summary: title, blocks: vec![Block::table("trials", table)] });
    Some(Section { id: format!("workload-{place}"), title: row.label.clone(), is_row: true, blocks })
}

/// Describes the scatter of a workload's cells between rounds and between blocks, and the cells that are not
/// stationary.
fn rounds(summary: &Summary, workload: &Workload) -> Option<String> {
    let reference = summary.reference_name();
    let cells = summary.targets.iter().zip(&workload.cells);
    let scatter = cells.clone().filter_map(|(target, cell)| {
        let found = cell.scatter?;
        let (rounds, blocks) = (brief(found.between_rounds), brief(found.between_blocks));
        Some(format!("{} against {reference}: between rounds {rounds}, between blocks {blocks}.", target.label()))
    });
    let kinds = cells.filter_map(|(target, cell)| {
        let words = samples::words(cell.not_stationary.as_ref()?, workload.unit, workload.better);
        Some(format!("{} is not stationary (~): {words}.", target.label()))
    });
    let said: Vec<String> = kinds.chain(scatter).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// Formats a scatter with two digits.
fn brief(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Describes cells and trials without a value. If the page holds groups of blocks, trials with the same reason are
/// counted.
fn lost(summary: &Summary, workload: &Workload, group_size: u32) -> Vec<String> {
    let mut lines = Vec::new();
    for (target, cell) in summary.targets.iter().zip(&workload.cells) {
        match (cell.absence(), cell.reason()) {
            (Some(kind), Some(reason)) => lines.push(format!("{}: {kind}: {reason}", target.name)),
            _ if group_size > 1 => {
                let mut reasons: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
                cell.lost.iter().for_each(|lost| reasons.entry(&lost.reason).or_default().push(lost.block));
                let line = |(reason, blocks): (&str, Vec<u32>)| {
                    let count = counted(blocks.len(), "block");
                    format!("{}, {count}, the first is {}: {reason}", target.name, blocks[0])
                };
                lines.extend(reasons.into_iter().map(line));
            }
            _ => lines
                .extend(cell.lost.iter().map(|lost| format!("{}, block {}: {}", target.name, lost.block, lost.reason))),
        }
    }
    lines
}

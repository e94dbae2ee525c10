//! What the template is filled with.

use askama::Template;
use fsb_model::Trial;
use serde::Serialize;

use super::{charts, tables};
use crate::View;
use crate::page::chart::{Chart, hue, shape};
use crate::page::table::Table;
use crate::page::{PLOTLY, script_safe};
use crate::view::Row;

#[derive(Template)]
#[template(path = "report.html")]
pub(super) struct Page<'a> {
    view: &'a View,
    overview: Table,
    ratios: Option<Chart>,
    sections: Vec<Section<'a>>,
    published: Option<Table>,
    environment: Vec<Table>,
    charts: usize,
    data: String,
    plotly: &'static str,
}

/// One workload.
struct Section<'a> {
    row: &'a Row,
    trials: Option<Chart>,
    numbers: Table,
    latencies: Vec<(Option<Chart>, Option<Table>)>,
    costs: Option<Table>,
    all: Table,
    lost: Vec<String>,
}

impl<'a> Page<'a> {
    pub(super) fn of(view: &'a View, trials: &[Trial]) -> Page<'a> {
        let sections: Vec<Section<'_>> =
            view.rows.iter().enumerate().map(|(index, row)| Section::of(view, row, index)).collect();
        let ratios = charts::ratios(view);
        let charts = usize::from(ratios.is_some()) + sections.iter().map(Section::charts).sum::<usize>();
        Page {
            view,
            overview: tables::overview(view),
            ratios,
            sections,
            published: view.published.as_ref().map(|published| tables::published(view, published)),
            environment: view.environment.iter().map(tables::environment).collect(),
            charts,
            data: data(trials),
            plotly: PLOTLY,
        }
    }

    fn shape(&self, target: &usize) -> &'static str {
        shape(*target)
    }

    fn style(&self, target: &usize) -> usize {
        hue(*target)
    }
}

impl<'a> Section<'a> {
    fn of(view: &View, row: &'a Row, index: usize) -> Section<'a> {
        let mut operations: Vec<&str> = Vec::new();
        for latency in row.cells.iter().flat_map(|cell| &cell.latency) {
            if !operations.contains(&latency.operation.as_str()) {
                operations.push(&latency.operation);
            }
        }
        let latencies = operations
            .iter()
            .map(|operation| (charts::latency(view, row, index, operation), tables::latency(view, row, operation)));
        Section {
            row,
            trials: charts::trials(view, row, index),
            numbers: tables::numbers(view, row),
            latencies: latencies.collect(),
            costs: tables::costs(view, row),
            all: tables::trials(view, row),
            lost: lost(view, row),
        }
    }

    fn charts(&self) -> usize {
        let latencies = self.latencies.iter().filter(|(chart, _)| chart.is_some()).count();
        usize::from(self.trials.is_some()) + latencies
    }
}

/// Cells and trials without a value, in words.
fn lost(view: &View, row: &Row) -> Vec<String> {
    let mut lines = Vec::new();
    for (target, cell) in view.targets.iter().zip(&row.cells) {
        match (cell.absence(), cell.reason()) {
            (Some(kind), Some(reason)) => lines.push(format!("{}: {kind}: {reason}", target.name)),
            _ => lines
                .extend(cell.lost.iter().map(|lost| format!("{}, block {}: {}", target.name, lost.block, lost.reason))),
        }
    }
    lines
}

/// The numbers of the page for programs: of every measured trial with a value, the one that targets are compared by.
fn data(trials: &[Trial]) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        target: &'a str,
        workload: &'a str,
        block: u32,
        order: u32,
        metric: &'a str,
        value: f64,
        unit: &'static str,
    }
    let counted = trials.iter().filter(|trial| trial.counts());
    let lines: Vec<Line<'_>> = counted
        .filter_map(|trial| {
            let primary = trial.primary()?;
            Some(Line {
                target: &trial.target,
                workload: &trial.workload,
                block: trial.block,
                order: trial.order,
                metric: &primary.name,
                value: primary.value,
                unit: primary.unit.name(),
            })
        })
        .collect();
    script_safe(&lines)
}

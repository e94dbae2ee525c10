//! What the template is filled with.

use askama::Template;
use fsb_analysis::compare::{ALL, Finding};

use super::charts::{self, Chart};
use super::sizes::{self, Figures};
use super::tables;
use crate::compare::Page as Shown;
use crate::compare::view::{Fixed, Row, View, is_about};
use crate::page::chart::{hue, shape};
use crate::page::table::Table;
use crate::page::{PLOTLY, PLOTLY_3D};

/// So many stand in the open, the rest below them.
const FINDINGS: usize = 12;
const WARNINGS: usize = 5;

#[derive(Template)]
#[template(path = "compare.html")]
pub(super) struct Page<'a> {
    view: &'a View<'a>,
    overview: Table,
    overview_charts: Vec<Chart>,
    warnings: (&'a [String], &'a [String]),
    findings: (&'a [&'a Finding], &'a [&'a Finding]),
    sections: Vec<Section<'a>>,
    panels: Vec<Chart>,
    parts: Vec<Part>,
    sets: Table,
    charts: usize,
    plotly: &'static str,
    /// What draws surfaces, where there are any.
    plotly_3d: Option<&'static str>,
}

/// One operation.
struct Section<'a> {
    row: &'a Row<'a>,
    is_pool: bool,
    findings: Vec<&'a Finding>,
    judged: Table,
    pairs: Option<Table>,
    charts: Vec<Chart>,
    sizes: Vec<Table>,
    classic: Table,
    by_size: Vec<Figures>,
    others: Option<Table>,
    latencies: Option<Table>,
}

/// One half of the detail: every size of one kind.
struct Part {
    id: String,
    title: String,
    blocks: Vec<Block>,
}

/// One fixed size.
struct Block {
    title: String,
    charts: Vec<Chart>,
    values: Figures,
}

impl<'a> Page<'a> {
    pub(super) fn of(shown: &Shown<'_>, view: &'a View<'a>) -> Page<'a> {
        let sections: Vec<Section<'_>> =
            view.rows.iter().enumerate().map(|(place, row)| Section::of(view, row, place)).collect();
        let parts = if shown.detail.is_some() { parts(view) } else { Vec::new() };
        let overview_charts = charts::overview(view);
        let panels = charts::panels(view);
        let of_sections: usize = sections.iter().map(|section| section.charts.len()).sum();
        let of_parts: usize = parts.iter().flat_map(|part| &part.blocks).map(|block| block.charts.len()).sum();
        let charts = overview_charts.len() + panels.len() + of_sections + of_parts;
        let plotly_3d = (!panels.is_empty()).then_some(PLOTLY_3D);
        Page {
            view,
            overview: tables::overview(view),
            overview_charts,
            warnings: split(&view.document.warnings, WARNINGS),
            findings: split(&view.findings, FINDINGS),
            sections,
            panels,
            parts,
            sets: tables::sets(view),
            charts,
            plotly: PLOTLY,
            plotly_3d,
        }
    }

    fn shape(&self, set: &usize) -> &'static str {
        shape(*set)
    }

    fn style(&self, set: &usize) -> usize {
        hue(*set)
    }

    fn title(&self) -> String {
        let names: Vec<&str> = self.view.sets.iter().map(|set| set.name.as_str()).collect();
        match names.len() {
            0..=4 => names.join(", "),
            n => format!("{} and {} more", names[..3].join(", "), n - 3),
        }
    }
}

impl<'a> Section<'a> {
    fn of(view: &'a View<'a>, row: &'a Row<'a>, place: usize) -> Section<'a> {
        let operation = row.operation;
        let slices = [(&operation.by_file_size, "file size"), (&operation.by_record_size, "record size")];
        Section {
            row,
            is_pool: operation.operation == ALL,
            findings: view.findings.iter().copied().filter(|found| is_about(found, operation)).collect(),
            judged: tables::judged(view, row),
            pairs: tables::pairs(view, row),
            charts: charts::operation(view, row, place),
            sizes: slices.iter().filter_map(|(slices, what)| tables::sizes(view, row, slices, what)).collect(),
            classic: tables::classic(view, row),
            by_size: slices.iter().filter_map(|(slices, what)| sizes::classic(view, operation, slices, what)).collect(),
            others: tables::others(view, row),
            latencies: tables::latencies(view, row),
        }
    }
}

fn split<T>(items: &[T], most: usize) -> (&[T], &[T]) {
    items.split_at(items.len().min(most))
}

/// Both halves of every row.
fn parts(view: &View<'_>) -> Vec<Part> {
    let block = |fixed: &Fixed<'_>| Block {
        title: fixed.title.clone(),
        charts: charts::detail(view, fixed),
        values: sizes::values(fixed),
    };
    let part = |(place, row): (usize, &Row<'_>), what: &str, fixed: Vec<Fixed<'_>>| Part {
        id: format!("fixed-{what}-{place}"),
        title: format!("{} by fixed {what} size", row.label),
        blocks: fixed.iter().filter(|fixed| !fixed.lines.is_empty()).map(block).collect(),
    };
    let rows = view.rows.iter().enumerate();
    let halves = rows.flat_map(|(place, row)| {
        [part((place, row), "record", view.by_record_size(place)), part((place, row), "file", view.by_file_size(place))]
    });
    halves.filter(|part| !part.blocks.is_empty()).collect()
}

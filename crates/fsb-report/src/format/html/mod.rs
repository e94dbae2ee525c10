//! A self-contained page that opens from `file://`, without a network and without JavaScript.
//!
//! The page contains every finding and number as text and tables. Scripts only add charts, which Plotly draws from JSON
//! in the page. A Content-Security-Policy forbids the page every request.

use std::cell::RefCell;
use std::io::{self, Write};
use std::iter;

use askama::Template;
use fsb_stats::RankingOutcome;
use serde::{Serialize, Serializer};

use super::member::Format;
use crate::chart;
use crate::page::{Block, Blocks, Opening, PLOTLY, PLOTLY_3D, Section, Table, TableCell, TableRow};
use crate::report::Report;
use crate::run::ReportTrial;
use crate::run::summary::MOST_TRIALS;
use crate::show::{bound, capital, counted, grouped};
use crate::view::{Row, View, legend_of_marks};
use crate::visible::ScriptSafe;

pub(super) const FORMAT: Format = Format {
    name: "html",
    extension: "html",
    about: "one self-contained page with charts, for a browser (report.html)",
    binary: false,
    write,
};

/// The page folds warnings beyond this number.
const WARNINGS: usize = 5;

/// The input of the template.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    view: &'a View<'a>,
    sections: Vec<PageSection>,
    /// The sections again, in the same order.
    bodies: RefCell<Box<dyn Iterator<Item = Section> + 'a>>,
    /// The id of the first section that is a row. Empty if there are no rows.
    first_row: String,
    /// The number of charts; `plotly` is the script that draws them.
    charts: usize,
    plotly: &'static str,
    /// The script that draws surfaces. `None` if there are none.
    plotly_3d: Option<&'static str>,
    /// The trials, for programs. `None` for a run that is too long for a page, and for a published run, which the page
    /// holds as a whole.
    data: Option<ScriptSafe<Data<'a>>>,
    /// The element that holds a published run.
    run: Option<&'a str>,
}

impl Page<'_> {
    /// Returns the markup of the next section. All sections of a long run need more memory than the page may take, so
    /// the template requests them one by one.
    fn body(&self) -> String {
        let section = self.bodies.borrow_mut().next();
        section.map_or_else(String::new, |section| {
            Blocks(&section.blocks).render().expect("writing to a string does not fail")
        })
    }
}

/// A section in the contents.
struct PageSection {
    id: String,
    title: String,
    is_row: bool,
    charts: usize,
}

impl From<Section> for PageSection {
    fn from(section: Section) -> PageSection {
        let charts = section.blocks.iter().map(Block::charts).sum();
        let Section { id, title, is_row, .. } = section;
        PageSection { id, title, is_row, charts }
    }
}

/// Returns the whole page.
pub fn render(report: &Report<'_>) -> String {
    FORMAT.render(report)
}

/// The run that a published page holds.
#[derive(Debug, Clone)]
pub struct PublishedRun<'a> {
    /// The element with the data. It becomes part of the page unchanged.
    pub element: &'a str,
    /// The values that were removed from the run, a line for each kind.
    pub removed: &'a [String],
    /// The classes of values that were kept at the user's request.
    pub kept: &'a [String],
}

/// Writes the page of a run that is published, with the run inside.
pub fn write_published(report: &Report<'_>, run: &PublishedRun<'_>, output: &mut dyn Write) -> io::Result<()> {
    write_page(report, Some(run), output)
}

fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    write_page(report, None, output)
}

/// Writes the page. The sections are made twice: for the contents, and then one by one for their markup.
fn write_page(report: &Report<'_>, run: Option<&PublishedRun<'_>>, output: &mut dyn Write) -> io::Result<()> {
    let readable = report.readable();
    let view = readable.view();
    let sections = || -> Box<dyn Iterator<Item = Section> + '_> {
        let method = Section::new("method", "Method", vec![Block::Method(view.method.clone())]);
        let overview = iter::once_with(|| overview(&view, readable.opening(&view)));
        Box::new(overview.chain(readable.sections(&view)).chain([method]).chain(run.map(publication)))
    };
    let contents: Vec<PageSection> = sections().map(PageSection::from).collect();
    let charts = contents.iter().map(|section| section.charts).sum();
    let has_surface = contents.iter().any(|section| section.id == "surfaces");
    let first_row = contents.iter().find(|section| section.is_row).map(|section| section.id.clone());
    let page = Page {
        view: &view,
        first_row: first_row.unwrap_or_default(),
        sections: contents,
        bodies: RefCell::new(sections()),
        charts,
        plotly: &PLOTLY,
        plotly_3d: has_surface.then(|| PLOTLY_3D.as_str()),
        data: readable
            .trials()
            .filter(|_| view.group_size == 1 && run.is_none())
            .map(|trials| ScriptSafe(Data(trials))),
        run: run.map(|run| run.element),
    };
    page.write_into(&mut *output)?;
    output.write_all(b"\n")
}

/// Returns the section that names what was removed before the publication.
fn publication(run: &PublishedRun<'_>) -> Section {
    let holds = "This page holds the record of the run and every trial. fsb report FILE and fsb compare FILE … read them \
                 from it.";
    let mut blocks = vec![Block::text("note", holds)];
    blocks.push(match run.removed {
        [] => Block::text("note", "Nothing was removed."),
        removed => {
            let label = "Removed, with the number of different values and their class";
            Block::List { label, class: "lost", items: removed.to_vec() }
        }
    });
    if !run.kept.is_empty() {
        blocks.push(Block::text("note", format!("Kept at the author's request: {}.", run.kept.join(", "))));
    }
    Section::new("publication", "Publication", blocks)
}

/// Returns the section with the answer.
fn overview(view: &View<'_>, opening: Opening) -> Section {
    let mut blocks: Vec<Block> = opening.columns.into_iter().collect();
    if !view.conditions.is_empty() {
        let shown = view.conditions.iter().map(|condition| bound(condition)).collect();
        blocks.push(Block::Warnings { shown, more: Vec::new() });
    }
    if !view.rows.is_empty() {
        let rows = view.rows.iter().enumerate().map(|(place, row)| line(view, row, place)).collect();
        let first = capital(view.words.row);
        let table = Table::of_columns(opening.caption, &first, &view.names, rows);
        blocks.push(Block::table("overview", Table { foot: opening.total, ..table }));
    }
    blocks.extend(legend_of_marks(&view.rows, view.theta).map(|text| Block::text("note", text)));
    blocks.extend(warnings(view));
    blocks.extend(grouping(view).map(|text| Block::text("note", text)));
    let notes: Vec<Block> = view.notes.iter().map(|note| Block::text("note", note)).collect();
    // A comparison has few notes, and they state the scope of its intervals.
    if view.trust.is_none() {
        blocks.extend(notes);
    } else if !notes.is_empty() {
        blocks.push(Block::Details { summary: counted(notes.len(), "note"), blocks: notes });
    }
    blocks.push(Block::Charts(chart::overview(view)));
    Section::new("overview", "Overview", blocks)
}

/// Returns the most severe warnings and the trust; the other warnings are folded.
fn warnings(view: &View<'_>) -> Option<Block> {
    let open = if view.trust.is_some() { view.urgent } else { view.warnings.len() };
    let (open, folded) = view.warnings.split_at(open);
    let open: Vec<String> = view.problems.iter().chain(open).map(|warning| bound(warning)).collect();
    let (open, rest) = open.split_at(open.len().min(WARNINGS));
    let more: Vec<String> = rest.iter().cloned().chain(folded.iter().map(|warning| bound(warning))).collect();
    let help = view.remedy().map(|help| format!("; {help}")).unwrap_or_default();
    let trust = view.trust.iter().map(|trust| format!("{}{help}", trust.line));
    let shown: Vec<String> = open.iter().cloned().chain(trust.map(|trust| bound(&capital(&trust)))).collect();
    (!shown.is_empty() || !more.is_empty()).then_some(Block::Warnings { shown, more })
}

/// Returns the note of a long run that the page does not contain every trial.
fn grouping(view: &View<'_>) -> Option<String> {
    (view.group_size > 1).then(|| {
        format!(
            "This run has more than {} trials. The page shows medians of {} consecutive blocks instead of every trial. \
             All estimates and intervals use every trial. The trials are in trials.jsonl of the run directory, and \
             fsb report --format csv prints them.",
            grouped(MOST_TRIALS as f64),
            view.group_size
        )
    })
}

fn line(view: &View<'_>, row: &Row<'_>, place: usize) -> TableRow {
    let cells = row.cells.iter().enumerate();
    let cells = cells.map(|(column, cell)| TableCell::shown(cell, row.outcome == RankingOutcome::Winner(column)));
    let link = view.has_row_sections.then(|| format!("#{}-{place}", view.words.row));
    TableRow { link, ..TableRow::new(&row.label, cells.collect()) }
}

/// The numbers of the page for programs: the primary metric of every measured trial with a value.
struct Data<'a>(&'a [ReportTrial]);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().filter(|trial| trial.counts()).filter_map(DataLine::from_trial))
    }
}

#[derive(Serialize)]
struct DataLine<'a> {
    target: &'a str,
    workload: &'a str,
    block: u32,
    order: u32,
    metric: &'a str,
    value: f64,
    unit: &'static str,
}

impl DataLine<'_> {
    fn from_trial(trial: &ReportTrial) -> Option<DataLine<'_>> {
        let primary = trial.primary()?;
        Some(DataLine {
            target: &trial.what.target,
            workload: &trial.what.workload,
            block: trial.block,
            order: trial.order,
            metric: &primary.kind.name,
            value: primary.value,
            unit: primary.kind.unit.name(),
        })
    }
}

#[cfg(test)]
mod tests;

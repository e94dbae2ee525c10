//! A spreadsheet: the summary table, trials or statistics, the environment and the method, one sheet each.
//!
//! Texts are written as strings, so that none is a formula. The file is made in memory and then written.

mod sheet;

use std::borrow::Cow;
use std::io::{self, Write};

use fsb_stats::compare::{Document, SetSummary};
use rust_xlsxwriter::{DocProperties, ExcelDateTime, Workbook, XlsxError};

use super::csv::{statistics, trials};
use super::member::Format;
use crate::compare::Selection;
use crate::compare::between::condition_text;
use crate::report::Report;
use crate::run::{ReportTrial, Summary};
use crate::summary_line::{self, COLUMNS};
use crate::view::View;
use sheet::{Cell, Sheet, harmless};

pub(super) const FORMAT: Format = Format {
    name: "xlsx",
    extension: "xlsx",
    about: "a spreadsheet: summary, trials, environment, method",
    binary: true,
    write,
};

/// A sheet of trials or statistics has no more lines than this, to bound the memory.
const MOST_LINES: usize = 100_000;

fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    output.write_all(&workbook(report).map_err(io::Error::other)?)
}

fn workbook(report: &Report<'_>) -> Result<Vec<u8>, XlsxError> {
    let readable = report.readable();
    let view = readable.view();
    let mut book = Workbook::new();
    let mut properties = DocProperties::new().set_title(harmless(&view.title)).set_comment(harmless(&view.headline()));
    if let Some(created) = created(report) {
        properties = properties.set_creation_datetime(&created);
    }
    book.set_properties(&properties);
    summary(&mut book, report)?;
    let left_out = match report {
        Report::Run { summary, trials } => {
            let left_out = of_trials(&mut book, trials, summary)?;
            of_environment(&mut book, summary)?;
            left_out
        }
        Report::Comparison { document, detail } => {
            let left_out = of_statistics(&mut book, Selection { document, detail: *detail })?;
            of_sets(&mut book, document)?;
            left_out
        }
    };
    notes(&mut book, &view, left_out)?;
    book.save_to_buffer()
}

/// The start of the first trial, so that the same run gives the same file.
fn created(report: &Report<'_>) -> Option<ExcelDateTime> {
    let Report::Run { trials, .. } = report else { return None };
    let first = trials.iter().filter_map(|trial| trial.started).reduce(f64::min)?;
    ExcelDateTime::from_timestamp(first as i64).ok()
}

fn summary(book: &mut Workbook, report: &Report<'_>) -> Result<(), XlsxError> {
    let mut sheet = Sheet::new(book, "Summary", COLUMNS.iter().map(|column| column.name))?;
    for line in summary_line::lines(report) {
        sheet.line(COLUMNS.iter().map(|column| Cell::of_value((column.value)(&line), line.unit())))?;
    }
    sheet.finish()
}

/// Returns the number of lines that have no room.
fn of_trials(book: &mut Workbook, trials: &[ReportTrial], summary: &Summary) -> Result<usize, XlsxError> {
    /// Columns of numbers.
    const NUMBERS: [&str; 7] = ["file_size", "record_size", "threads", "block", "order", "value", "part"];
    let mut sheet = Sheet::new(book, "Trials", trials::COLUMNS)?;
    let mut records = trials::records(trials, summary, |text| Cow::Borrowed(text));
    for record in records.by_ref().take(MOST_LINES) {
        let cell = |(name, text): (&&str, &String)| Cell::of_text(text.clone(), NUMBERS.contains(name));
        sheet.line(trials::COLUMNS.iter().zip(&record).map(cell))?;
    }
    sheet.finish()?;
    Ok(records.count())
}

fn of_environment(book: &mut Workbook, summary: &Summary) -> Result<(), XlsxError> {
    let mut sheet = Sheet::new(book, "Environment", ["about", "what", "requested", "observed"])?;
    for table in &summary.environment {
        for row in &table.rows {
            let optional = |text: &Option<String>| Cell::of_text(text.clone().unwrap_or_default(), false);
            let names = [&table.title, &row.what].map(|text| Cell::of_text(text.clone(), false));
            sheet.line(names.into_iter().chain([&row.requested, &row.observed].map(optional)))?;
        }
    }
    sheet.finish()
}

/// Returns the number of lines that have no room.
fn of_statistics(book: &mut Workbook, selection: Selection<'_>) -> Result<usize, XlsxError> {
    /// Columns of numbers; a verdict is a word in the column of values.
    const NUMBERS: [&str; 4] = ["file_size", "record_size", "run", "value"];
    let table = statistics::render(selection);
    let mut reader = ::csv::Reader::from_reader(table.as_bytes());
    let columns = reader.headers().map_err(|error| XlsxError::ParameterError(error.to_string()))?.clone();
    let mut sheet = Sheet::new(book, "Statistics", &columns)?;
    let mut records = reader.records().flatten();
    for record in records.by_ref().take(MOST_LINES) {
        let cell = |(name, text): (&str, &str)| Cell::of_text(text.to_owned(), NUMBERS.contains(&name));
        sheet.line(columns.iter().zip(&record).map(cell))?;
    }
    sheet.finish()?;
    Ok(records.count())
}

fn of_sets(book: &mut Workbook, document: &Document) -> Result<(), XlsxError> {
    let columns = ["set", "tool", "version", "runs", "blocks", "pairing", "commands", "files"];
    let mut sheet = Sheet::new(book, "Sets", columns)?;
    let line = |set: &SetSummary| {
        let text = |text: &str| Cell::of_text(text.to_owned(), false);
        [
            text(&set.name),
            text(&set.tool),
            text(set.version.as_deref().unwrap_or_default()),
            Cell::of_count(set.runs),
            set.blocks.map_or(Cell::Empty, Cell::of_count),
            text(set.pairing.as_deref().unwrap_or_default()),
            text(&set.commands.join("\n")),
            text(&set.files.join("\n")),
        ]
    };
    for set in &document.sets {
        sheet.line(line(set))?;
    }
    for difference in &document.conditions {
        sheet.line([Cell::of_text(condition_text(difference), false)])?;
    }
    sheet.finish()
}

/// The answer, warnings, the method and the columns of the summary table.
fn notes(book: &mut Workbook, view: &View<'_>, left_out: usize) -> Result<(), XlsxError> {
    let mut sheet = Sheet::new(book, "Notes", ["about", "text"])?;
    let left_out = (left_out > 0).then(|| format!("{left_out} lines are left out: fsb report --format csv has all"));
    let headline = view.headline();
    let lines = [
        ("title", Some(view.title.as_str())),
        ("result", Some(headline.as_str())),
        ("not judged", view.unjudged),
        ("baseline", Some(view.baseline()).filter(|_| view.compares())),
        ("trust", view.trust.as_ref().map(|trust| trust.line.as_str())),
        ("advice", view.advice),
        ("lines left out", left_out.as_deref()),
    ];
    let lines = lines.into_iter().filter_map(|(about, text)| Some((about, text?)));
    let named = |about: &'static str| move |text: &'_ String| (about, text.clone());
    let lists = view.facts.iter().map(named("fact"));
    let lists = lists.chain(view.conditions.iter().map(named("condition")));
    let lists = lists.chain(view.problems.iter().map(named("problem")));
    let lists = lists.chain(view.warnings.iter().map(named("warning")));
    let method = view.method.iter().map(|paragraph| (paragraph.title, paragraph.text.clone()));
    let columns = COLUMNS.iter().map(|column| (column.name, format!("column of Summary: {}", column.about)));
    let lines = lines.map(|(about, text)| (about, text.to_owned())).chain(lists).chain(method).chain(columns);
    for (about, text) in lines {
        sheet.line([about.to_owned(), text].map(|text| Cell::of_text(text, false)))?;
    }
    sheet.finish()
}

#[cfg(test)]
mod tests;

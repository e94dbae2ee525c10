//! A spreadsheet: the summary table, trials or statistics, the environment and the method, one
//! sheet each.
//!
//! Texts are written as strings, so that none is a formula. The file is made in memory and then
//! written.

use std::borrow::Cow;
use std::io::{self, Write};

use fsb_model::Unit;
use fsb_stats::compare::{Document, SetSummary};
use rust_xlsxwriter::{
    DocProperties, ExcelDateTime, Format as CellFormat, Workbook, Worksheet, XlsxError,
};

use super::csv::{self, TRIAL_COLUMNS, trial_records};
use super::member::Format;
use crate::compare::Selection;
use crate::compare::between::condition_text;
use crate::report::Report;
use crate::summary::{CompactTrial, Summary};
use crate::summary_line::{self, COLUMNS, Value};
use crate::view::View;
use crate::visible;

pub(super) const FORMAT: Format = Format {
    name: "xlsx",
    extension: "xlsx",
    about: "a spreadsheet: summary, trials, environment, method",
    binary: true,
    checks: false,
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
    let mut properties = DocProperties::new()
        .set_title(harmless(&view.title))
        .set_comment(harmless(&view.headline()));
    if let Some(created) = created(report) {
        properties = properties.set_creation_datetime(&created);
    }
    book.set_properties(&properties);
    summary(&mut book, report)?;
    let left_out = match report {
        Report::Run {
            summary, trials, ..
        } => {
            let left_out = of_trials(&mut book, trials, summary)?;
            of_environment(&mut book, summary)?;
            left_out
        }
        Report::Comparison {
            document, detail, ..
        } => {
            let left_out = of_statistics(
                &mut book,
                Selection {
                    document,
                    detail: *detail,
                },
            )?;
            of_sets(&mut book, document)?;
            left_out
        }
    };
    notes(&mut book, &view, left_out)?;
    book.save_to_buffer()
}

/// Returns the start of the first trial, so that the same run gives the same file.
fn created(report: &Report<'_>) -> Option<ExcelDateTime> {
    let Report::Run { trials, .. } = report else {
        return None;
    };
    let first = trials
        .iter()
        .filter_map(|trial| trial.started)
        .reduce(f64::min)?;
    ExcelDateTime::from_timestamp(first as i64).ok()
}

fn summary(book: &mut Workbook, report: &Report<'_>) -> Result<(), XlsxError> {
    let mut sheet = Sheet::new(book, "Summary", COLUMNS.iter().map(|column| column.name))?;
    for line in summary_line::lines(report) {
        sheet.line(
            COLUMNS
                .iter()
                .map(|column| Cell::of_value((column.value)(&line), line.unit())),
        )?;
    }
    sheet.finish()
}

/// Returns the number of lines that have no room.
fn of_trials(
    book: &mut Workbook,
    trials: &[CompactTrial],
    summary: &Summary,
) -> Result<usize, XlsxError> {
    /// Columns of numbers.
    const NUMBERS: [&str; 7] = [
        "file_size",
        "record_size",
        "threads",
        "block",
        "order",
        "value",
        "slice",
    ];
    let mut sheet = Sheet::new(book, "Trials", TRIAL_COLUMNS)?;
    let mut records = trial_records(trials, summary, |text| Cow::Borrowed(text));
    for record in records.by_ref().take(MOST_LINES) {
        sheet.line(
            TRIAL_COLUMNS
                .iter()
                .zip(&record)
                .map(|(name, text)| Cell::of_text(text.clone(), NUMBERS.contains(name))),
        )?;
    }
    sheet.finish()?;
    Ok(records.count())
}

fn of_environment(book: &mut Workbook, summary: &Summary) -> Result<(), XlsxError> {
    let mut sheet = Sheet::new(
        book,
        "Environment",
        ["about", "what", "requested", "observed"],
    )?;
    for table in &summary.environment {
        for row in &table.rows {
            let names = [&table.title, &row.what].map(|text| Cell::of_text(text.clone(), false));
            sheet.line(
                names.into_iter().chain(
                    [&row.requested, &row.observed]
                        .map(|text| Cell::of_text(text.clone().unwrap_or_default(), false)),
                ),
            )?;
        }
    }
    sheet.finish()
}

/// Returns the number of lines that have no room.
fn of_statistics(book: &mut Workbook, selection: Selection<'_>) -> Result<usize, XlsxError> {
    /// Columns of numbers; a verdict is a word in the column of values.
    const NUMBERS: [&str; 4] = ["file_size", "record_size", "run", "value"];
    let table = csv::statistics(selection);
    let mut reader = ::csv::Reader::from_reader(table.as_bytes());
    let columns = reader
        .headers()
        .map_err(|error| XlsxError::ParameterError(error.to_string()))?
        .clone();
    let mut sheet = Sheet::new(book, "Statistics", &columns)?;
    let mut records = reader.records().flatten();
    for record in records.by_ref().take(MOST_LINES) {
        sheet.line(
            columns
                .iter()
                .zip(&record)
                .map(|(name, text)| Cell::of_text(text.to_owned(), NUMBERS.contains(&name))),
        )?;
    }
    sheet.finish()?;
    Ok(records.count())
}

fn of_sets(book: &mut Workbook, document: &Document) -> Result<(), XlsxError> {
    let columns = [
        "set", "tool", "version", "runs", "blocks", "pairing", "commands", "files",
    ];
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
    let left_out = (left_out > 0)
        .then(|| format!("{left_out} lines are left out: fsb report --format csv has all"));
    let headline = view.headline();
    let lines = [
        ("title", Some(view.title.as_str())),
        ("result", Some(headline.as_str())),
        ("not judged", view.unjudged),
        (
            "baseline",
            Some(view.baseline()).filter(|_| view.compares()),
        ),
        (
            "trust",
            view.trust.as_ref().map(|trust| trust.line.as_str()),
        ),
        ("advice", view.advice),
        ("lines left out", left_out.as_deref()),
    ];
    let lines = lines
        .into_iter()
        .filter_map(|(about, text)| Some((about, text?)));
    let named = |about: &'static str| move |text: &'_ String| (about, text.clone());
    let lists = view.facts.iter().map(named("fact"));
    let lists = lists.chain(view.conditions.iter().map(named("condition")));
    let lists = lists.chain(view.titled_changes());
    let lists = lists.chain(view.problems.iter().map(named("problem")));
    let lists = lists.chain(view.warnings.iter().map(named("warning")));
    let method = view
        .method
        .iter()
        .map(|paragraph| (paragraph.title, paragraph.text.clone()));
    let columns = COLUMNS
        .iter()
        .map(|column| (column.name, format!("column of Summary: {}", column.about)));
    let lines = lines
        .map(|(about, text)| (about, text.to_owned()))
        .chain(lists)
        .chain(method)
        .chain(columns);
    for (about, text) in lines {
        sheet.line([about.to_owned(), text].map(|text| Cell::of_text(text, false)))?;
    }
    sheet.finish()
}

/// A cell of a sheet.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Empty,
    Text(String),
    /// A number and its number format.
    Number(f64, &'static str),
    Flag(bool),
}

/// The format of numbers of any size.
const GENERAL: &str = "General";
/// The widest column, in characters.
const WIDEST: usize = 60;
/// The longest text of a cell.
const LONGEST: usize = 32_000;

impl Cell {
    /// Returns a value of the summary table.
    fn of_value(value: Value<'_>, unit: Unit) -> Cell {
        match value {
            Value::Empty => Cell::Empty,
            Value::Text(text) => Cell::of_text(text.to_owned(), false),
            Value::Count(count) => Cell::of_count(count),
            Value::Quantity(number) => Cell::Number(number, quantity_format(unit)),
            Value::Ratio(ratio) => Cell::Number(ratio, "0.0000"),
            Value::Percent(percent) => Cell::Number(percent, "+0.0;-0.0;0.0"),
            Value::Share(share) => Cell::Number(share, "0.0##"),
            Value::Flag(flag) => Cell::Flag(flag),
        }
    }

    fn of_count(count: usize) -> Cell {
        Cell::Number(count as f64, "0")
    }

    /// Returns a field of a table of text; a number if it is one and its column holds numbers.
    fn of_text(text: String, is_number: bool) -> Cell {
        match text.parse::<f64>() {
            _ if text.is_empty() => Cell::Empty,
            Ok(number) if is_number && number.is_finite() => Cell::Number(number, GENERAL),
            _ => Cell::Text(harmless(&text).chars().take(LONGEST).collect()),
        }
    }
}

/// Returns the text without invisible characters and characters that XML forbids.
fn harmless(text: &str) -> String {
    visible::lines(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

fn quantity_format(unit: Unit) -> &'static str {
    match unit {
        Unit::BytesPerSecond | Unit::Bytes => "#,##0",
        Unit::OperationsPerSecond | Unit::Count => "#,##0.0",
        Unit::Seconds => "0.000E+00",
    }
}

/// A sheet that is filled line by line.
struct Sheet<'b> {
    sheet: &'b mut Worksheet,
    /// By column, the most characters of a cell.
    widths: Vec<usize>,
    /// The next line.
    next: u32,
}

impl<'b> Sheet<'b> {
    pub(super) fn new<'n>(
        book: &'b mut Workbook,
        name: &str,
        columns: impl IntoIterator<Item = &'n str>,
    ) -> Result<Sheet<'b>, XlsxError> {
        let bold = CellFormat::new().set_bold();
        let sheet = book.add_worksheet().set_name(name)?;
        let mut widths = Vec::new();
        for (place, column) in columns.into_iter().enumerate() {
            sheet.write_string_with_format(0, place as u16, column, &bold)?;
            // The arrow of the filter takes the width of two characters.
            widths.push(column.chars().count() + 2);
        }
        sheet.set_freeze_panes(1, 0)?;
        Ok(Sheet {
            sheet,
            widths,
            next: 1,
        })
    }

    fn line(&mut self, cells: impl IntoIterator<Item = Cell>) -> Result<(), XlsxError> {
        for (place, cell) in cells.into_iter().enumerate() {
            let column = place as u16;
            let width = match &cell {
                Cell::Empty => continue,
                Cell::Text(text) => {
                    self.sheet.write_string(self.next, column, text)?;
                    text.lines()
                        .map(|line| line.chars().count())
                        .max()
                        .unwrap_or(0)
                }
                Cell::Number(number, format) => {
                    let format = CellFormat::new().set_num_format(*format);
                    self.sheet
                        .write_number_with_format(self.next, column, *number, &format)?;
                    12
                }
                Cell::Flag(flag) => {
                    self.sheet.write_boolean(self.next, column, *flag)?;
                    5
                }
            };
            if let Some(widest) = self.widths.get_mut(place) {
                *widest = (*widest).max(width);
            }
        }
        self.next += 1;
        Ok(())
    }

    /// Sets the widths of columns and the filter.
    fn finish(self) -> Result<(), XlsxError> {
        for (place, width) in self.widths.iter().enumerate() {
            self.sheet
                .set_column_width(place as u16, (*width).min(WIDEST) as f64 + 1.0)?;
        }
        if let Some(last) = self.widths.len().checked_sub(1) {
            self.sheet.autofilter(0, 0, self.next - 1, last as u16)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};

    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};

    /// Returns a file of the archive.
    fn part(book: &[u8], name: &str) -> String {
        let mut archive = zip::ZipArchive::new(Cursor::new(book)).expect("an archive");
        let mut text = String::new();
        archive
            .by_name(name)
            .expect(name)
            .read_to_string(&mut text)
            .expect("text");
        text
    }

    #[test]
    fn numbers_are_numbers_and_the_header_stays_in_view() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let report = Report::of_run(&summary, &trials);
        let book = FORMAT.render_bytes(&report);
        let names = part(&book, "xl/workbook.xml");
        for name in ["Summary", "Trials", "Environment", "Notes"] {
            assert!(names.contains(&format!("name=\"{name}\"")), "{names}");
        }
        let sheet = part(&book, "xl/worksheets/sheet1.xml");
        assert!(
            sheet.contains("state=\"frozen\"") && sheet.contains("<autoFilter ref=\"A1:Z25\"/>"),
            "{sheet}"
        );
        let ratio = summary.cases[0].cells[1]
            .against
            .as_ref()
            .expect("a comparison")
            .ratio;
        assert!(
            sheet.contains(&format!("<v>{ratio}</v>")),
            "{ratio} in {sheet}"
        );
        assert_eq!(
            book,
            FORMAT.render_bytes(&report),
            "the file depends on the run only"
        );
    }

    #[test]
    fn names_are_no_formulas() {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 2);
        record.plan.targets[1].name = "=1+1".to_owned();
        trials
            .iter_mut()
            .filter(|trial| trial.target == "xfs")
            .for_each(|trial| trial.target = "=1+1".to_owned());
        let summary = Summary::of_run(&record, &trials);
        let book = FORMAT.render_bytes(&Report::of_run(&summary, &trials));
        assert!(part(&book, "xl/sharedStrings.xml").contains("<t>=1+1</t>"));
        assert!(
            (1..=4).all(
                |sheet| !part(&book, &format!("xl/worksheets/sheet{sheet}.xml")).contains("<f>")
            )
        );
    }

    #[test]
    fn a_comparison_has_its_statistics_and_sets() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20));
        let book = FORMAT.render_bytes(&Report::of_comparison(&document, None));
        let names = part(&book, "xl/workbook.xml");
        assert!(
            names.contains("name=\"Statistics\"") && names.contains("name=\"Sets\""),
            "{names}"
        );
    }
}

//! Reading IOzone's output line by line: banner, table, throughput blocks, reports.

use std::io::BufRead;

use fsb_model::set::Run;

use super::banner::{self, Mode};
use super::excel::{self, Reports};
use super::layout::Layout;
use super::table::Table;
use super::throughput::Throughput;
use crate::draft::{Draft, Runs};
use crate::error::ReadError;
use crate::lines::{Line, Lines};

/// The name of the tool in lists and messages.
pub(super) const NAME: &str = "iozone";

/// Reads the executions in an input, each with at least one value.
pub(super) fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(NAME);
    let mut execution = Execution::new();
    while let Some(line) = lines.next()? {
        if execution.ends_before(&line) {
            runs.push(std::mem::replace(&mut execution, Execution::new()).finish())?;
        }
        execution.take(&line)?;
    }
    runs.push(execution.finish())?;
    runs.finish(|| {
        let none = "it holds no results: no table, no throughput and no -R report";
        format!("{none}; was IOzone stopped before its first one?")
    })
}

/// One execution of IOzone while it is read.
struct Execution {
    draft: Draft,
    mode: Mode,
    /// The table, from its heading to the line that says the test is complete.
    table: Option<Table>,
    throughput: Throughput,
    reports: Reports,
    /// Whether a banner, a heading of a table and the line of the end were seen.
    banner: bool,
    heading: bool,
    complete: bool,
}

impl Execution {
    fn new() -> Self {
        Execution {
            draft: Draft::new(NAME),
            mode: Mode::default(),
            table: None,
            throughput: Throughput::default(),
            reports: Reports::default(),
            banner: false,
            heading: false,
            complete: false,
        }
    }

    /// Returns whether a line belongs to the next execution: IOzone prints its banner, its command line and the heading
    /// of its table once.
    fn ends_before(&self, line: &Line) -> bool {
        let text = line.bytes.trim_ascii_start();
        let begun = self.heading || self.draft.has_values();
        (self.banner && is_banner(text))
            || (self.heading && is_heading(line))
            || (begun && self.draft.run.command.is_some() && text.starts_with(b"Command line used:"))
    }

    fn take(&mut self, line: &Line) -> Result<(), ReadError> {
        let trimmed = line.bytes.trim_ascii();
        match trimmed.first() {
            None => self.reports.end(),
            Some(b'"') => return self.quoted(line, trimmed),
            Some(b'0'..=b'9') if self.table.is_some() => return self.row(line),
            Some(_) => return self.words(line),
        }
        Ok(())
    }

    fn quoted(&mut self, line: &Line, trimmed: &[u8]) -> Result<(), ReadError> {
        if let Some(title) = excel::title(trimmed) {
            self.table = None;
            return self.reports.start(title, &mut self.draft, &self.mode);
        }
        // Other quoted lines are the reports of throughput mode, which repeat its lines.
        self.reports.take(line, &mut self.draft, &self.mode).map(|_| ())
    }

    fn row(&mut self, line: &Line) -> Result<(), ReadError> {
        match &mut self.table {
            Some(table) => table.row(line, &mut self.draft, &self.mode),
            None => Ok(()),
        }
    }

    fn words(&mut self, line: &Line) -> Result<(), ReadError> {
        if is_heading(line) {
            self.heading = true;
            self.table = Table::of_heading(line, &mut self.draft, &self.mode)?;
            return Ok(());
        }
        let text = line.text();
        if is_banner(text.as_bytes()) {
            self.banner = true;
        } else if text.starts_with("iozone test complete") {
            self.complete = true;
            self.table = None;
        } else if !banner::take(line.number, &text, &mut self.draft, &mut self.mode)
            && !self.throughput.take(line, &text, &mut self.draft)?
        {
            if self.table.is_some() {
                // Errors of IOzone, and output of other programs, can be between the rows.
                self.draft.remark(line.number, format_args!("no row of the table, left out: '{}'", line.excerpt()));
            } else if self.complete && !text.starts_with("Excel output is below") {
                self.draft
                    .remark(line.number, format_args!("after the end of the test, left out: '{}'", line.excerpt()));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Draft {
        if self.banner && !self.complete {
            let text = "no line 'iozone test complete.': IOzone was stopped, or the file is cut";
            self.draft.remark(None, text);
        }
        self.draft
    }
}

fn is_banner(text: &[u8]) -> bool {
    text.starts_with(b"Iozone: Performance Test")
}

fn is_heading(line: &Line) -> bool {
    Layout::of_heading(line.bytes).is_some()
}

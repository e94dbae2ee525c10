//! Tables in long form, for R, pandas and a spreadsheet: of a run every trial, of a comparison every statistic.

use std::borrow::Cow;
use std::io::{self, Write};

use super::member::Format;
use crate::compare::Selection;
use crate::report::Report;

pub(super) mod statistics;
pub(super) mod trials;

pub(super) const FORMAT: Format = Format {
    name: "csv",
    extension: "csv",
    about: "every trial in long form: rates and latencies, one line each (trials.csv)",
    binary: false,
    write,
};

/// Writes the whole table.
fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    match report {
        Report::Run { summary, trials } => trials::write(trials, summary, output),
        Report::Comparison { document, detail } => {
            output.write_all(statistics::render(Selection { document, detail: *detail }).as_bytes())
        }
    }
}

/// The column of runs and comparisons by which nothing is judged.
pub(super) const UNJUDGED: &str = "unjudged";

/// A text as a cell of a table that a spreadsheet may open: what would begin a formula there has an apostrophe before
/// it, which spreadsheets take for the sign of text. Numbers are no text and stay as they are.
pub(in crate::format) fn text(text: &str) -> Cow<'_, str> {
    const FORMULAS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];
    // Quoted as well: a name that begins like one that was quoted stays another name.
    let begins = text.trim_start_matches('\'').starts_with(FORMULAS);
    if begins { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}

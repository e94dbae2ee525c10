//! Tables in long form, for R, pandas and a spreadsheet: of a run every trial, of a comparison every statistic.

pub(super) mod statistics;
pub(super) mod trials;

use std::io::{self, Write};

use super::member::Format;
use crate::compare::Selection;
use crate::report::Report;

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

//! Tables in long form, for R, pandas and a spreadsheet: of a run every trial, of a comparison every statistic.

mod cell;
mod statistics;
mod trials;

use super::member::Format;
use crate::compare::Selection;
use crate::report::Report;

pub(super) const FORMAT: Format = Format {
    name: "csv",
    extension: "csv",
    about: "every trial in long form: rates and latencies, one line each (trials.csv)",
    render,
};

/// The whole table.
pub fn render(report: &Report<'_>) -> String {
    match report {
        Report::Run { summary, trials } => trials::render(trials, summary),
        Report::Comparison { document, detail } => statistics::render(Selection { document, detail: *detail }),
    }
}

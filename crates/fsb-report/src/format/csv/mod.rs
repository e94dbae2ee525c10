//! Tables in long form, for R, pandas and a spreadsheet: of a run every trial, of a comparison every statistic.

pub(super) mod statistics;
pub(super) mod trials;

use std::io::{self, Write};

use fsb_stats::compare::{Document, Operation};

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

/// Returns the values of an operation, one line each: the set, the run with its file, the sizes and the value.
///
/// The sets list the file of each run only if each run has one file.
pub fn values(document: &Document, operation: &Operation) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = ["set", "run", "path", "file_size", "record_size", "value", "unit"];
    writer.write_record(head).expect("a vector takes every record");
    let size = |size: Option<u64>| size.map(|size| size.to_string()).unwrap_or_default();
    for set in &document.sets {
        let path = |run: usize| set.files.get(run).filter(|_| set.files.len() == set.runs).map(String::as_str);
        for cell in &operation.cells {
            for value in cell.values.get(&set.name).into_iter().flatten() {
                let record = [
                    trials::text(&set.name).into_owned(),
                    (value.run + 1).to_string(),
                    path(value.run).map(trials::text).unwrap_or_default().into_owned(),
                    size(cell.file_size),
                    size(cell.record_size),
                    value.value.to_string(),
                    operation.unit.name().to_owned(),
                ];
                writer.write_record(record).expect("a vector takes every record");
            }
        }
    }
    String::from_utf8_lossy(&writer.into_inner().expect("a vector never fails to flush")).into_owned()
}

/// Writes the whole table.
fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    match report {
        Report::Run { summary, trials } => trials::write(trials, summary, output),
        Report::Comparison { document, detail, .. } => {
            output.write_all(statistics::render(Selection { document, detail: *detail }).as_bytes())
        }
    }
}

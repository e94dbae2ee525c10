//! `-b`: the reports as a spreadsheet. Texts are written as strings, whatever they begin with: none is a formula.

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use super::options::Options;
use super::print::report::{CPU_TITLE, Cells, chosen, throughput_heading, throughput_title};
use super::print::{Report, ThroughputTest};
use super::sequence::{MatrixRow, report_records};

/// A spreadsheet that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the spreadsheet cannot be made: {0}")]
pub struct SheetError(#[from] XlsxError);

/// Returns the reports of a table, as the bytes of an .xlsx file.
///
/// # Errors
/// Fails if there are more rows than a sheet has.
pub fn table_sheet(options: &Options, report: &Report) -> Result<Vec<u8>, SheetError> {
    let mut workbook = Workbook::new();
    let bold = Format::new().set_bold();
    let sheet = workbook.add_worksheet().set_name("iozone")?;
    sheet.write_string(0, 0, &options.command)?;
    sheet.write_string(2, 0, "The top row is records sizes, the left column is file sizes")?;
    let mut at = 3;
    for (_, _, title, column) in chosen(options) {
        sheet.write_string_with_format(at, 0, format!("{title} Report"), &bold)?;
        at = grid(sheet, at + 1, options, report, |cells| cells[column].map_or(0.0, |cell| cell.value as f64))?;
    }
    if options.cpu {
        at += 1;
        for (_, _, title, column) in chosen(options) {
            sheet.write_string_with_format(at, 0, format!("{title} {CPU_TITLE}"), &bold)?;
            at = grid(sheet, at + 1, options, report, |cells| cells[column].map_or(0.0, |cell| cell.cpu))?;
        }
    }
    Ok(workbook.save_to_buffer()?)
}

/// Writes the record sizes in a line, then a line for each file size. Returns the line below.
fn grid(
    sheet: &mut Worksheet,
    mut at: u32,
    options: &Options,
    report: &Report,
    value: impl Fn(&Cells) -> f64,
) -> Result<u32, XlsxError> {
    let records = report_records(options);
    for (place, record) in records.iter().enumerate() {
        sheet.write(at, place as u16 + 1, *record)?;
    }
    for (file, rows) in report.files() {
        at += 1;
        sheet.write(at, 0, file)?;
        for (row, cells) in rows {
            if let Some(place) = records.iter().position(|record| *record == row.record) {
                sheet.write(at, place as u16 + 1, value(cells))?;
            }
        }
    }
    Ok(at + 1)
}

/// Returns the report of throughput mode, as the bytes of an .xlsx file.
///
/// # Errors
/// Fails if there are more rows than a sheet has.
pub fn throughput_sheet(
    options: &Options,
    sizes: MatrixRow,
    runs: &[Vec<ThroughputTest>],
) -> Result<Vec<u8>, SheetError> {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet().set_name("iozone")?;
    sheet.write_string(0, 0, &options.command)?;
    let mut at = 1;
    for line in throughput_heading(options, sizes) {
        at += 1;
        sheet.write_string(at, 0, line)?;
    }
    at += 1;
    for (place, run) in runs.iter().enumerate() {
        let count = run.first().map_or(0, |test| test.children.len());
        sheet.write(at, place as u16 + 1, count as u64)?;
    }
    for test in runs.first().into_iter().flatten() {
        at += 1;
        sheet.write_string(at, 0, throughput_title(test.operation))?;
        for (place, run) in runs.iter().enumerate() {
            let rate = run.iter().find(|other| other.operation == test.operation).map_or(0.0, ThroughputTest::rate);
            sheet.write(at, place as u16 + 1, rate)?;
        }
    }
    Ok(workbook.save_to_buffer()?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::iozone::{Request, parse};

    #[test]
    fn a_command_that_looks_like_a_formula_stays_a_text() {
        let command = "=HYPERLINK(\"http://e.org\")".to_owned();
        let Ok(Request::Run(options)) = parse(["-a"].map(Into::into), command) else { panic!("a good command line") };
        let file = table_sheet(&options, &Report::default()).unwrap();
        let mut parts = zip::ZipArchive::new(std::io::Cursor::new(file)).unwrap();
        let mut part = |name: &str| {
            let mut text = String::new();
            parts.by_name(name).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        let sheet = part("xl/worksheets/sheet1.xml");
        assert!(sheet.contains("<c r=\"A1\" t=\"s\">") && !sheet.contains("<f>"), "{sheet}");
        assert!(part("xl/sharedStrings.xml").contains("<t>=HYPERLINK("));
    }
}

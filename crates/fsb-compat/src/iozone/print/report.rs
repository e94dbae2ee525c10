//! The reports of `-R`: the same numbers once more, an operation at a time, in a form that Excel reads.

use std::fmt::Write;

use super::throughput::{ThroughputTest, unit_name};
use crate::iozone::options::{Options, Unit};
use crate::iozone::sequence::{Column, MatrixRow, Operation, report_records};
use crate::iozone::test::Test;

/// A cell of a table: the number printed, and the share of the time that the processor worked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    pub value: u64,
    /// In percent.
    pub cpu: f64,
}

/// The columns of a row; `None` if nothing was measured.
pub(in crate::iozone) type Cells = [Option<Cell>; 13];

/// The numbers of a table.
#[derive(Debug, Clone, Default)]
pub struct Report {
    rows: Vec<(MatrixRow, Cells)>,
}

impl Report {
    /// Begins a row.
    pub fn start(&mut self, row: MatrixRow) {
        self.rows.push((row, [None; 13]));
    }

    /// Adds a number to the row that began last.
    pub fn put(&mut self, column: Column, value: u64, cpu: f64) {
        if let Some((_, cells)) = self.rows.last_mut() {
            cells[column] = Some(Cell { value, cpu });
        }
    }

    /// Returns the file sizes in order, each with its rows.
    pub(in crate::iozone) fn files(&self) -> impl Iterator<Item = (u64, &[(MatrixRow, Cells)])> {
        self.rows.chunk_by(|a, b| a.0.file == b.0.file).map(|rows| (rows[0].0.file, rows))
    }
}

/// A report: the test that it needs, its title on the screen and in the spreadsheet, its column.
pub(in crate::iozone) static TITLES: [(Test, &str, &str, Column); 13] = [
    (Test::Write, "Writer", "Writer", 0),
    (Test::Write, "Re-writer", "Re-writer", 1),
    (Test::Read, "Reader", "Reader", 2),
    (Test::Read, "Re-Reader", "Re-reader", 3),
    (Test::Random, "Random read", "Random Read", 4),
    (Test::Random, "Random write", "Random Write", 5),
    (Test::Backward, "Backward read", "Backward Read", 6),
    (Test::RecordRewrite, "Record rewrite", "Record Rewrite", 7),
    (Test::Stride, "Stride read", "Stride Read", 8),
    (Test::Fwrite, "Fwrite", "Fwrite", 9),
    (Test::Fwrite, "Re-Fwrite", "Re-fwrite", 10),
    (Test::Fread, "Fread", "Fread", 11),
    (Test::Fread, "Re-Fread", "Re-fread", 12),
];

/// The part of a title after the operation, in reports of processor time.
pub(in crate::iozone) const CPU_TITLE: &str = "CPU utilization report (Zero values should be ignored)";

/// Returns the reports of a table.
pub fn reports(options: &Options, report: &Report) -> String {
    let mut text = String::new();
    for (_, title, _, column) in chosen(options) {
        _ = writeln!(text, "\n\"{title} report\"");
        text.push_str(&body(
            options,
            report,
            |cell| format!(" {cell} "),
            |cells| cells[column].map_or(0, |cell| cell.value),
        ));
    }
    if options.cpu {
        for (_, title, _, column) in chosen(options) {
            _ = writeln!(text, "\n\"{title} {CPU_TITLE}\"");
            let percent = |cells: &Cells| cells[column].map_or(0.0, |cell| cell.cpu);
            text.push_str(&body(options, report, |cell| format!(" {cell:>6.2}"), percent));
        }
    }
    text
}

pub(in crate::iozone) fn chosen(options: &Options) -> impl Iterator<Item = (Test, &'static str, &'static str, Column)> {
    let wants = |(test, ..): &(Test, &str, &str, Column)| options.tests.wants(*test);
    TITLES.iter().filter(move |title| wants(title)).copied()
}

fn body<T>(options: &Options, report: &Report, show: impl Fn(T) -> String, value: impl Fn(&Cells) -> T) -> String
where
    T: Default,
{
    let records = report_records(options);
    let mut text = String::from("      ");
    for record in &records {
        _ = write!(text, "  \"{record}\"");
    }
    text.push('\n');
    for (file, rows) in report.files() {
        _ = write!(text, "\"{file}\"  ");
        // Record sizes that automatic mode leaves out have zeros. Record sizes larger than the file have no place, and
        // without automatic mode neither have those larger than the largest measured one.
        let measured = rows.iter().map(|(row, _)| row.record).max().unwrap_or(0);
        let largest = if options.auto { file } else { measured };
        for record in records.iter().filter(|record| **record <= largest) {
            let row = rows.iter().find(|(row, _)| row.record == *record);
            text.push_str(&show(row.map_or_else(T::default, |(_, cells)| value(cells))));
        }
        text.push('\n');
    }
    text
}

/// Returns the name of an operation in throughput mode.
pub(in crate::iozone) fn throughput_title(operation: Operation) -> &'static str {
    match operation {
        Operation::Write => "Initial write",
        Operation::Rewrite => "Rewrite",
        Operation::Read => "Read",
        Operation::Reread => "Re-read",
        Operation::BackwardRead => "Reverse Read",
        Operation::StrideRead => "Stride read",
        Operation::RandomRead => "Random read",
        Operation::Mix => "Mixed workload",
        Operation::RandomWrite => "Random write",
        Operation::Pwrite => "Pwrite",
        Operation::Pread => "Pread",
        Operation::Fwrite => "Fwrite",
        Operation::Fread => "Fread",
        Operation::RecordRewrite => "Record rewrite",
        Operation::Frewrite => "Re-fwrite",
        Operation::Freread => "Re-fread",
    }
}

/// Returns the heading of a report of throughput mode, without quotes.
pub(in crate::iozone) fn throughput_heading(options: &Options, sizes: MatrixRow) -> [String; 3] {
    let port = if options.threads { "threads" } else { "processes" };
    let output = if options.unit == Unit::Operations { "ops/sec".to_owned() } else { "kBytes/sec".to_owned() };
    debug_assert!(output.starts_with(unit_name(options)));
    [
        format!("Throughput report Y-axis is type of test X-axis is number of {port}"),
        format!("Record size = {} kBytes ", sizes.record),
        format!("Output is in {output}"),
    ]
}

/// Returns the report of throughput mode: a line for each operation, a number for each count of processes.
pub fn throughput_report(options: &Options, sizes: MatrixRow, runs: &[Vec<ThroughputTest>]) -> String {
    let mut text = String::from("\n");
    for line in throughput_heading(options, sizes) {
        _ = writeln!(text, "\"{line}\"");
    }
    text.push('\n');
    for test in runs.first().into_iter().flatten() {
        _ = write!(text, "\"{:>15} \"", throughput_title(test.operation));
        for run in runs {
            let rate = run.iter().find(|other| other.operation == test.operation).map_or(0.0, ThroughputTest::rate);
            _ = write!(text, " {rate:>10.2} ");
        }
        text.push_str("\n\n");
    }
    text
}

//! IOzone 3.471's text, piece by piece, so that it can be printed during the measurement.
//!
//! Words, widths and blanks are those of IOzone, because programs read them by position. Only the
//! name differs: the banner names the program that measured, in a line that readers of IOzone's
//! output skip.

use std::fmt::Write;

use super::options::{BannerLine, Means, Options, OutputUnit, Test};
use super::parse::{Known, OPTIONS};
use super::sequence::{COLUMNS, Column, MatrixRow, Operation, counts, report_records};
use super::sheet::Sheet;

/// The line after which nothing but reports follows.
pub const COMPLETE: &str = "\niozone test complete.\n";
/// The line before the reports of `-R`.
pub const REPORTS: &str = "Excel output is below:\n";

/// Returns the output of `-v`.
pub fn version(program: &str) -> String {
    format!(
        "{program}: the command line, the workloads and the text of IOzone 3.471. It is not IOzone.\n"
    )
}

/// Returns the list of options, supported and not supported.
pub fn list() -> String {
    let mut text =
        String::from("Options of 'fsb iozone', as in IOzone 3.471, with their [defaults].\n\n");
    for known in OPTIONS.iter().filter(|known| known.is_supported()) {
        let Known {
            name, value, about, ..
        } = known;
        let head = format!("{name} {value}");
        _ = writeln!(
            text,
            "  {head:<12} {}",
            about.replace('\n', "\n               ")
        );
    }
    text.push_str("\n  --repeat-until TIME  not IOzone's: repeat each operation until its times sum to this (100ms)\n");
    text.push_str("  --out DIR            not IOzone's: keep the run in a new directory, for 'fsb report' and 'fsb compare'\n");
    text.push_str("  --allow-concurrent   not IOzone's: measure while another fsb measures; both print a warning\n");
    let missing: Vec<&str> = OPTIONS
        .iter()
        .filter(|known| !known.is_supported())
        .map(|known| known.name)
        .collect();
    _ = writeln!(text, "\nNot supported, and refused by name:\n");
    for names in missing.chunks(16) {
        _ = writeln!(text, "  {}", names.join(" "));
    }
    text
}

// The lines before the numbers.

/// Facts that the banner prints and the options do not contain.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The program with its version, such as `fsb 0.1.0`.
    pub program: String,
    /// The platform, such as `linux-x86_64`.
    pub platform: String,
    /// The start time in the format of ctime(3), such as `Fri Nov 20 16:42:32 2026`.
    pub began: String,
    /// The output of `uname -a`, for `-M`.
    pub machine: String,
    /// The resolution of the clock, in seconds.
    pub resolution: f64,
}

/// Returns everything before the table or the first block of throughput mode.
pub fn banner(options: &Options, facts: &Facts) -> String {
    let Facts {
        program,
        platform,
        began,
        machine,
        resolution,
    } = facts;
    let mut text = format!(
        "\tIozone: Performance Test of File I/O\n\
         \t        Version $Revision: 3.471 ({program}) $\n\
         \t\tCompiled for {bits} bit mode.\n\
         \t\tBuild: {platform} \n\n\
         \tThis is not IOzone: {program} does what IOzone 3.471 does and prints it in the same form.\n\n\
         \tRun began: {began}\n\n",
        bits = usize::BITS
    );
    for line in &options.lines {
        match line {
            BannerLine::Text(line) => _ = writeln!(text, "\t{line}"),
            BannerLine::Machine => _ = write!(text, "\n\tMachine = {machine}\n"),
        }
    }
    _ = writeln!(text, "\tCommand line used: {}", options.command);
    if options.unit == OutputUnit::Kilobytes {
        text.push_str("\tOutput is in kBytes/sec\n");
    }
    _ = write!(
        text,
        "\tTime Resolution = {resolution:1.6} seconds.\n\
         \tProcessor cache size set to {} kBytes.\n\
         \tProcessor cache line size set to {} bytes.\n\
         \tFile stride size set to {} * record size.\n",
        options.cache_size, options.cache_line, options.stride
    );
    if options.throughput() {
        text.push_str(&processes(options));
    }
    text
}

fn processes(options: &Options) -> String {
    let (one, many) = if options.threads {
        ("thread", "threads")
    } else {
        ("process", "processes")
    };
    let counts = counts(options);
    let mut text = String::new();
    if options.least_processes.is_some() || options.most_processes.is_some() {
        let least = counts.iter().min().copied().unwrap_or(1);
        let most = counts.iter().max().copied().unwrap_or(1);
        _ = write!(text, "\tMin {one} = {least} \n\tMax {one} = {most} \n");
    }
    // Of several -t IOzone announces the last one typed, and begins with the first.
    let announced = if options.counts.is_empty() {
        counts.first()
    } else {
        counts.last()
    };
    let announced = announced.copied().unwrap_or(1);
    _ = writeln!(
        text,
        "\tThroughput test with {announced} {}",
        if announced > 1 { many } else { one }
    );
    text
}

// The table: a row for each pair of sizes, a column for each operation.

/// The widths of the thirteen columns.
const WIDTHS: [usize; COLUMNS] = [9, 9, 9, 9, 9, 9, 9, 10, 10, 9, 9, 9, 9, 9, 9, 8, 9];

/// Returns the two lines above the rows.
pub fn heading(options: &Options) -> String {
    let (above, below): (Vec<&str>, Vec<&str>) = if options.extension {
        // The same columns with -A and through a mapping, where IOzone leaves some empty.
        let mut above = vec![""; 6];
        above.extend(["random", "random", "bkwd", "record", "stride"]);
        above.extend([""; 8]);
        let mut below = vec!["kB", "reclen", "write", "rewrite", "read", "reread"];
        below.extend(["read", "write", "read", "rewrite", "read"]);
        below.extend(["fwrite", "frewrite", "fread", "freread"]);
        below.extend(["pwrite", "repwrite", "pread", "repread"]);
        (above, below)
    } else if options.read_write_only {
        (
            vec![""; 6],
            vec!["kB", "reclen", "write", "rewrite", "read", "reread"],
        )
    } else {
        let streams: [&str; 4] = if options.means == Means::Calls {
            ["fwrite", "frewrite", "fread", "freread"]
        } else {
            [""; 4]
        };
        let mut above = vec![""; 6];
        above.extend([
            "random", "random", "bkwd", "record", "stride", "", "", "", "",
        ]);
        let mut below = vec!["kB", "reclen", "write", "rewrite", "read", "reread"];
        below.extend(["read", "write", "read", "rewrite", "read"]);
        below.extend(streams);
        (above, below)
    };
    format!("{}\n{}\n", line(&above), line(&below))
}

/// Returns a line of the heading. Headings are not as wide as the numbers below them: these are
/// IOzone's widths, with its blanks in between.
fn line(words: &[&str]) -> String {
    const WIDTHS: [(usize, &str); 19] = [
        (16, ""),
        (8, ""),
        (9, ""),
        (9, ""),
        (8, ""),
        (10, ""),
        (8, ""),
        (9, " "),
        (9, ""),
        (9, " "),
        (9, " "),
        (9, ""),
        (9, ""),
        (9, ""),
        (9, ""),
        (8, ""),
        (9, ""),
        (8, ""),
        (10, ""),
    ];
    words
        .iter()
        .zip(WIDTHS)
        .map(|(word, (width, before))| format!("{before}{word:>width$}"))
        .collect()
}

/// Returns the start of a row.
pub fn row(row: MatrixRow) -> String {
    format!("{:>16}{:>8}", row.file, row.record)
}

/// Returns a number in its column.
pub fn number(column: Column, value: u64) -> String {
    format!("{value:>width$}", width = WIDTHS[column])
}

/// Returns the zero that replaces an operation that is not repeated.
pub fn zero(column: Column) -> String {
    number(column, 0)
}

/// Returns the blanks that replace a test that was not chosen.
pub fn blank(test: Test) -> &'static str {
    const BLANKS: &str = "                  ";
    let width = match test {
        Test::Backward => 9,
        Test::RecordRewrite | Test::Stride => 10,
        Test::Fread => 17,
        Test::Mix => 0,
        _ => 18,
    };
    &BLANKS[..width]
}

// Throughput mode: a block of lines for each operation.

/// The result of one process or thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Child {
    /// The amount that it moved before the stonewall, in kilobytes or operations.
    pub moved: f64,
    /// The amount per second until then.
    pub rate: f64,
    /// The amount per second over its whole work, if it did all of it.
    pub full: Option<f64>,
    /// Elapsed and processor time, in seconds.
    pub wall: f64,
    /// See `wall`.
    pub cpu: f64,
}

/// The results of all processes or threads.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputTest {
    pub operation: Operation,
    pub children: Vec<Child>,
    /// Seconds from the start signal to the end of the last one.
    pub seconds: f64,
}

impl ThroughputTest {
    /// Returns the sum of the children's rates.
    pub fn rate(&self) -> f64 {
        self.children.iter().map(|child| child.rate).sum()
    }
}

/// Returns `kB` or `ops`.
fn unit_name(options: &Options) -> &'static str {
    if options.unit == OutputUnit::Operations {
        "ops"
    } else {
        "kB"
    }
}

/// Returns the line before the blocks of one number of processes. The blocks themselves print that
/// number.
pub fn intro(options: &Options, sizes: MatrixRow) -> String {
    let one = if options.threads { "thread" } else { "process" };
    format!(
        "\tEach {one} writes a {} kByte file in {} kByte records\n",
        sizes.file, sizes.record
    )
}

/// Returns the names of the children: before the equals sign of the children's line and of the
/// parent's.
fn names(operation: Operation, count: usize) -> [String; 2] {
    let (wide, name, tabs) = match operation {
        Operation::Write => (true, "initial writers", ["\t", "\t"]),
        Operation::Rewrite => (true, "rewriters", ["\t", "\t"]),
        Operation::Read => (true, "readers", ["\t\t", "\t\t"]),
        Operation::Reread => (false, "re-readers", ["\t", "\t"]),
        Operation::BackwardRead => (false, "reverse readers", ["\t", "\t"]),
        Operation::StrideRead => (false, "stride readers", ["\t", "\t"]),
        Operation::RandomRead => (false, "random readers", ["\t", "\t"]),
        Operation::Mix => (false, "mixed workload", ["\t", "\t"]),
        Operation::RandomWrite => (false, "random writers", ["\t", "\t"]),
        Operation::Pwrite => (false, "pwrite writers", ["\t", "\t"]),
        Operation::Pread => (false, "pread readers", ["\t", "\t"]),
        Operation::Fwrite => (true, "fwriters", ["\t", "\t\t"]),
        Operation::Fread => (true, "freaders", ["\t", "\t\t"]),
        // Throughput mode has no such blocks.
        Operation::RecordRewrite => (false, "record rewriters", ["\t", "\t"]),
        Operation::Frewrite => (true, "re-fwriters", ["\t", "\t\t"]),
        Operation::Freread => (true, "re-freaders", ["\t", "\t\t"]),
        Operation::Repwrite => (false, "re-pwriters", ["\t", "\t"]),
        Operation::Repread => (false, "re-preaders", ["\t", "\t"]),
    };
    tabs.map(|tabs| {
        if wide {
            format!("{count:2} {name} {tabs}")
        } else {
            format!("{count} {name} {tabs}")
        }
    })
}

/// Returns the block of an operation.
pub fn block(options: &Options, test: &ThroughputTest) -> String {
    let unit = unit_name(options);
    let port = if options.threads { "thread" } else { "process" };
    let children = &test.children;
    let [children_name, parent_name] = names(test.operation, children.len());
    let total: f64 = children.iter().map(|child| child.moved).sum();
    let rates = || children.iter().map(|child| child.rate);
    let least = rates().fold(f64::INFINITY, f64::min);
    let most = rates().fold(0.0, f64::max);
    let least_moved = children
        .iter()
        .map(|child| child.moved)
        .fold(f64::INFINITY, f64::min);
    let mean = test.rate() / children.len() as f64;
    let mut text = format!(
        "\n\tChildren see throughput for {children_name}= {:>10.2} {unit}/sec\n\
         \tParent sees throughput for {parent_name}= {:>10.2} {unit}/sec\n\
         \tMin throughput per {port} \t\t\t= {least:>10.2} {unit}/sec \n\
         \tMax throughput per {port} \t\t\t= {most:>10.2} {unit}/sec\n\
         \tAvg throughput per {port} \t\t\t= {mean:>10.2} {unit}/sec\n\
         \tMin xfer \t\t\t\t\t= {least_moved:>10.2} {unit}\n",
        test.rate(),
        total / test.seconds,
    );
    if options.cpu {
        text.push_str(&cpu(children));
    }
    if options.show_children {
        for (rank, child) in children.iter().enumerate() {
            text.push_str(&line_of(options, rank, child));
        }
    }
    text
}

/// Returns the rates without the stonewall, which IOzone does not print. They follow all of
/// IOzone's own lines, so that a reader that counts lines still works. A test has such a rate only
/// if all its children finished. Returns an empty text if no test has one.
pub fn without_stonewall(options: &Options, runs: &[Vec<ThroughputTest>]) -> String {
    let unit = unit_name(options);
    let mut text = String::new();
    for test in runs
        .iter()
        .flatten()
        .filter(|test| options.stonewall && test.children.len() > 1)
    {
        let full: Option<f64> = test.children.iter().map(|child| child.full).sum();
        if let Some(full) = full {
            let [name, _] = names(test.operation, test.children.len());
            _ = writeln!(
                text,
                "\tWithout the stonewall: {name}= {full:>10.2} {unit}/sec"
            );
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
    }
}

fn cpu(children: &[Child]) -> String {
    let wall = children
        .iter()
        .map(|child| child.wall.max(child.cpu))
        .fold(0.0, f64::max);
    let cpu: f64 = children.iter().map(|child| child.cpu).sum();
    let percent = percent(cpu, wall);
    format!(
        "\tCPU Utilization: Wall time {wall:>8.3}    CPU time {cpu:>8.3}    CPU utilization {percent:>6.2} %\n\n"
    )
}

fn percent(cpu: f64, wall: f64) -> f64 {
    if wall > 0.0 { 100.0 * cpu / wall } else { 0.0 }
}

fn line_of(options: &Options, rank: usize, child: &Child) -> String {
    let unit = unit_name(options);
    let Child {
        moved,
        rate,
        wall,
        cpu,
        ..
    } = child;
    let times = match options.cpu {
        true => format!(
            ", wall={wall:>6.3}, cpu={cpu:>6.3}, %={:>6.2}",
            percent(*cpu, *wall)
        ),
        false => String::new(),
    };
    format!(
        "\tChild[{rank}] xfer count = {moved:>10.2} {unit}, Throughput = {rate:>10.2} {unit}/sec{times}\n"
    )
}

// The reports of `-R`: the same numbers once more, an operation at a time, in a form that Excel
// reads.

/// A cell of a table: the number printed, and the share of the time that the processor worked.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    value: u64,
    /// In percent.
    cpu: f64,
}

/// The columns of a row; `None` if nothing was measured.
type Cells = [Option<Cell>; COLUMNS];

/// The numbers of a table.
#[derive(Debug, Clone, Default)]
pub struct Report {
    rows: Vec<(MatrixRow, Cells)>,
}

impl Report {
    /// Begins a row.
    pub fn start(&mut self, row: MatrixRow) {
        self.rows.push((row, [None; COLUMNS]));
    }

    /// Adds a number to the row that began last.
    pub fn put(&mut self, column: Column, value: u64, cpu: f64) {
        if let Some((_, cells)) = self.rows.last_mut() {
            cells[column] = Some(Cell { value, cpu });
        }
    }

    /// Returns the file sizes in order, each with its rows.
    fn files(&self) -> impl Iterator<Item = (u64, &[(MatrixRow, Cells)])> {
        self.rows
            .chunk_by(|a, b| a.0.file == b.0.file)
            .map(|rows| (rows[0].0.file, rows))
    }
}

/// A report: the test that it needs, its title on the screen and in the spreadsheet, its column.
static TITLES: [(Test, &str, &str, Column); 17] = [
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
    (Test::Pwrite, "Pwrite", "Pwrite", 13),
    (Test::Pwrite, "Re-Pwrite", "Re-pwrite", 14),
    (Test::Pread, "Pread", "Pread", 15),
    (Test::Pread, "Re-Pread", "Re-pread", 16),
];

/// The part of a title after the operation, in reports of processor time.
const CPU_TITLE: &str = "CPU utilization report (Zero values should be ignored)";

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
            text.push_str(&body(
                options,
                report,
                |cell| format!(" {cell:>6.2}"),
                |cells| cells[column].map_or(0.0, |cell| cell.cpu),
            ));
        }
    }
    text
}

fn chosen(options: &Options) -> impl Iterator<Item = (Test, &'static str, &'static str, Column)> {
    let wants = |(test, ..): &(Test, &str, &str, Column)| {
        let extension = matches!(test, Test::Pwrite | Test::Pread);
        options.tests.wants(*test) && (options.extension || !extension)
    };
    TITLES.iter().filter(move |title| wants(title)).copied()
}

fn body<T>(
    options: &Options,
    report: &Report,
    show: impl Fn(T) -> String,
    value: impl Fn(&Cells) -> T,
) -> String
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
        // Record sizes that automatic mode leaves out have zeros. Record sizes larger than the file
        // have no place, and without automatic mode neither have those larger than the largest
        // measured one.
        let measured = rows.iter().map(|(row, _)| row.record).max().unwrap_or(0);
        let largest = if options.auto { file } else { measured };
        for record in records.iter().filter(|record| **record <= largest) {
            let row = rows.iter().find(|(row, _)| row.record == *record);
            text.push_str(&show(
                row.map_or_else(T::default, |(_, cells)| value(cells)),
            ));
        }
        text.push('\n');
    }
    text
}

/// Returns the name of an operation in throughput mode.
fn throughput_title(operation: Operation) -> &'static str {
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
        Operation::Repwrite => "Re-pwrite",
        Operation::Repread => "Re-pread",
    }
}

/// Returns the heading of a report of throughput mode, without quotes.
fn throughput_heading(options: &Options, sizes: MatrixRow) -> [String; 3] {
    let port = if options.threads {
        "threads"
    } else {
        "processes"
    };
    let output = if options.unit == OutputUnit::Operations {
        "ops/sec".to_owned()
    } else {
        "kBytes/sec".to_owned()
    };
    debug_assert!(output.starts_with(unit_name(options)));
    [
        format!("Throughput report Y-axis is type of test X-axis is number of {port}"),
        format!("Record size = {} kBytes ", sizes.record),
        format!("Output is in {output}"),
    ]
}

/// Returns the report of throughput mode: a line for each operation, a number for each count of
/// processes.
pub fn throughput_report(
    options: &Options,
    sizes: MatrixRow,
    runs: &[Vec<ThroughputTest>],
) -> String {
    let mut text = String::from("\n");
    for line in throughput_heading(options, sizes) {
        _ = writeln!(text, "\"{line}\"");
    }
    text.push('\n');
    for test in runs.first().into_iter().flatten() {
        _ = write!(text, "\"{:>15} \"", throughput_title(test.operation));
        for run in runs {
            let rate = run
                .iter()
                .find(|other| other.operation == test.operation)
                .map_or(0.0, ThroughputTest::rate);
            _ = write!(text, " {rate:>10.2} ");
        }
        text.push_str("\n\n");
    }
    text
}

// `-b`: the reports as a spreadsheet.

/// Returns the reports of a table as a spreadsheet.
pub fn table_sheet(options: &Options, report: &Report) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.text(0, 0, &options.command);
    sheet.text(
        2,
        0,
        "The top row is records sizes, the left column is file sizes",
    );
    let mut at = 3;
    for (_, _, title, column) in chosen(options) {
        sheet.title(at, &format!("{title} Report"));
        at = grid(&mut sheet, at + 1, options, report, |cells| {
            cells[column].map_or(0.0, |cell| cell.value as f64)
        });
    }
    if options.cpu {
        at += 1;
        for (_, _, title, column) in chosen(options) {
            sheet.title(at, &format!("{title} {CPU_TITLE}"));
            at = grid(&mut sheet, at + 1, options, report, |cells| {
                cells[column].map_or(0.0, |cell| cell.cpu)
            });
        }
    }
    sheet
}

/// Writes the record sizes in a line, then a line for each file size. Returns the line below.
fn grid(
    sheet: &mut Sheet,
    mut at: u32,
    options: &Options,
    report: &Report,
    value: impl Fn(&Cells) -> f64,
) -> u32 {
    let records = report_records(options);
    for (place, record) in records.iter().enumerate() {
        sheet.number(at, place as u16 + 1, *record as f64);
    }
    for (file, rows) in report.files() {
        at += 1;
        sheet.number(at, 0, file as f64);
        for (row, cells) in rows {
            if let Some(place) = records.iter().position(|record| *record == row.record) {
                sheet.number(at, place as u16 + 1, value(cells));
            }
        }
    }
    at + 1
}

/// Returns the report of throughput mode as a spreadsheet.
pub fn throughput_sheet(
    options: &Options,
    sizes: MatrixRow,
    runs: &[Vec<ThroughputTest>],
) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.text(0, 0, &options.command);
    let mut at = 1;
    for line in throughput_heading(options, sizes) {
        at += 1;
        sheet.text(at, 0, &line);
    }
    at += 1;
    for (place, run) in runs.iter().enumerate() {
        let count = run.first().map_or(0, |test| test.children.len());
        sheet.number(at, place as u16 + 1, count as f64);
    }
    for test in runs.first().into_iter().flatten() {
        at += 1;
        sheet.text(at, 0, throughput_title(test.operation));
        for (place, run) in runs.iter().enumerate() {
            let rate = run
                .iter()
                .find(|other| other.operation == test.operation)
                .map_or(0.0, ThroughputTest::rate);
            sheet.number(at, place as u16 + 1, rate);
        }
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iozone::sequence::{Piece, pieces, rows};
    use crate::iozone::{CommandLine, Options, parse};

    fn options(line: &str) -> Options {
        match parse(
            line.split_whitespace().map(Into::into),
            format!("iozone {line}"),
        ) {
            Ok(CommandLine::Run(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Returns a file of real output.
    fn real(name: &str) -> String {
        let root =
            std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tool-output"));
        std::fs::read_to_string(root.join(name)).unwrap()
    }

    /// Returns the command of an output, its table from the heading on, and the text after it.
    fn table_of(text: &str) -> (Options, String, String) {
        let command = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("Command line used: iozone "))
            .unwrap();
        let start = text
            .find("\n                                                              random")
            .unwrap()
            + 1;
        let end = text.find(COMPLETE).unwrap();
        (
            options(command),
            text[start..end].to_owned(),
            text[end..].to_owned(),
        )
    }

    /// Prints a real table's own numbers again.
    fn reprint(options: &Options, table: &str) -> (String, Report) {
        let mut lines = table.lines().skip(2);
        let (mut text, mut report) = (heading(options), Report::default());
        for sizes in rows(options) {
            report.start(sizes);
            text.push_str(&row(sizes));
            // Large numbers fill their columns, so that no blank divides them.
            let mut rest = &lines.next().unwrap()[row(sizes).len()..];
            for piece in pieces(options) {
                match piece {
                    Piece::Do(_, column) | Piece::Zero(column) => {
                        let (word, after) = rest.split_at(WIDTHS[column]);
                        let value = word.trim().parse().unwrap();
                        rest = after;
                        report.put(column, value, 0.0);
                        text.push_str(&number(column, value));
                    }
                    Piece::Silently(_) => {}
                    Piece::Blank(test) => {
                        rest = &rest[blank(test).len()..];
                        text.push_str(blank(test));
                    }
                }
            }
            text.push('\n');
        }
        (text, report)
    }

    #[test]
    fn real_tables_are_reprinted_to_the_last_blank() {
        for name in [
            "single", "N", "O", "R", "R-b", "cpu", "sync", "directio", "E", "E-R", "E-i",
        ] {
            let text = real(&format!("iozone-3.471-{name}.txt"));
            let (options, table, _) = table_of(&text);
            assert_eq!(reprint(&options, &table).0, table, "{name}");
        }
    }

    #[test]
    fn real_reports_are_reprinted_to_the_last_blank() {
        for name in ["R", "R-b", "E-R"] {
            let text = real(&format!("iozone-3.471-{name}.txt"));
            let (options, table, rest) = table_of(&text);
            let (_, report) = reprint(&options, &table);
            let (_, expected) = rest.split_once(REPORTS).unwrap();
            assert_eq!(reports(&options, &report), expected, "{name}");
        }
    }

    #[test]
    fn records_that_automatic_mode_leaves_out_are_zeros_in_a_report() {
        let options = options("-R -a -i 0 -+n -n 16m -g 32m -q 128");
        let mut report = Report::default();
        for file in [16_384, 32_768] {
            report.start(MatrixRow { file, record: 64 });
            report.put(0, 7, 0.0);
        }
        let text = reports(&options, &report);
        assert!(text.contains("\"32768\"   0  0  0  0  7  0 \n"), "{text}");
    }

    /// As IOzone 3.489 prints it: all records of automatic mode above, the measured ones below.
    #[test]
    fn a_report_of_one_pair_of_sizes_is_headed_by_all_records() {
        let of_one = |line: &str| {
            let options = options(line);
            let mut report = Report::default();
            report.start(rows(&options)[0]);
            report.put(0, 752_329, 0.0);
            reports(&options, &report)
                .lines()
                .skip(2)
                .take(2)
                .collect::<Vec<_>>()
                .join("\n")
        };
        let all = "        \"4\"  \"8\"  \"16\"  \"32\"  \"64\"  \"128\"  \"256\"  \"512\"  \"1024\"  \"2048\"  \"4096\"  \"8192\"  \"16384\"";
        assert_eq!(of_one("-R -s 64 -i 0"), format!("{all}\n\"64\"   752329 "));
        assert_eq!(
            of_one("-R -s 64 -r 16 -i 0"),
            "        \"16\"\n\"64\"   752329 "
        );
    }

    /// As IOzone prints it: the last -t typed, or the fewest processes. The blocks state the
    /// numbers that follow.
    #[test]
    fn the_number_of_processes_is_announced_once() {
        let facts = Facts {
            program: String::new(),
            platform: String::new(),
            began: String::new(),
            machine: String::new(),
            resolution: 0.0,
        };
        for (line, expected) in [
            ("-t 1 -t 3", "size.\n\tThroughput test with 3 processes\n"),
            ("-t 3 -t 1", "size.\n\tThroughput test with 1 process\n"),
            (
                "-l 1 -u 3",
                "size.\n\tMin process = 1 \n\tMax process = 3 \n\tThroughput test with 1 process\n",
            ),
        ] {
            let text = banner(&options(line), &facts);
            assert!(text.ends_with(expected), "{line}: {text}");
        }
    }

    #[test]
    fn a_real_block_of_throughput_mode_is_reprinted() {
        let text = real("iozone-3.471-throughput.txt");
        let options = options("-t 2 -s 32m -r 64k -i 0 -i 1 -i 2 -i 8 -F m/a m/b");
        let start = text
            .find("\n\tChildren see throughput for  2 readers")
            .unwrap();
        let end = text
            .find("\n\tChildren see throughput for 2 re-readers")
            .unwrap();
        let child = |moved, rate| Child {
            moved,
            rate,
            full: None,
            wall: 1.0,
            cpu: 0.5,
        };
        let children = vec![child(30_656.0, 7_729_611.0), child(32_768.0, 8_289_539.0)];
        let seconds = (30_656.0 + 32_768.0) / 11_125_029.21;
        let test = ThroughputTest {
            operation: Operation::Read,
            children,
            seconds,
        };
        assert_eq!(block(&options, &test), text[start..end]);
        assert!(text.contains(&intro(
            &options,
            MatrixRow {
                file: 32_768,
                record: 64
            }
        )));
    }

    #[test]
    fn the_lines_of_all_blocks_are_those_of_the_real_tool() {
        let text = real("iozone-3.471-throughput.txt");
        let options = options("-t 2 -s 32m -r 64k -i 0 -i 1 -i 2 -i 8 -F m/a m/b");
        let mut seen = 0;
        for operation in crate::iozone::sequence::throughput(&options) {
            let child = Child {
                moved: 1.0,
                rate: 1.0,
                full: None,
                wall: 1.0,
                cpu: 1.0,
            };
            let printed = block(
                &options,
                &ThroughputTest {
                    operation,
                    children: vec![child; 2],
                    seconds: 1.0,
                },
            );
            for line in printed.lines().filter(|line| line.contains(" for ")) {
                let start = line.split_once("= ").unwrap().0;
                assert!(text.lines().any(|line| line.starts_with(start)), "{line}");
                seen += 1;
            }
        }
        assert_eq!(seen, 14);
    }

    /// As other people's published output has it.
    #[test]
    fn the_report_of_throughput_mode_has_a_line_for_each_operation() {
        let options = options("-t 2 -t 4 -R -s 64 -r 4 -i 0 -+n");
        let test = |count: usize, rate| {
            let child = Child {
                moved: 1.0,
                rate,
                full: None,
                wall: 1.0,
                cpu: 1.0,
            };
            vec![ThroughputTest {
                operation: Operation::Write,
                children: vec![child; count],
                seconds: 1.0,
            }]
        };
        let runs = [test(2, 123_029.595), test(4, 1_000_000.0)];
        let expected = "\n\"Throughput report Y-axis is type of test X-axis is number of processes\"\n\"Record size = 4 kBytes \"\n\
                    \"Output is in kBytes/sec\"\n\n\"  Initial write \"  246059.19  4000000.00 \n\n";
        assert_eq!(
            throughput_report(
                &options,
                MatrixRow {
                    file: 64,
                    record: 4
                },
                &runs
            ),
            expected
        );
    }

    #[test]
    fn the_banner_of_the_real_tool_is_kept_but_for_who_measured() {
        let text = real("iozone-3.471-sync.txt");
        let (mut options, _, _) = table_of(&text);
        options.command = "iozone -a -n 64k -g 1m -e -c -o -i 0 -i 1 -f m/f".to_owned();
        let facts = Facts {
            program: "fsb 1.2.3".to_owned(),
            platform: "linux-AMD64".to_owned(),
            began: "Fri Nov 20 15:43:52 2026".to_owned(),
            machine: String::new(),
            resolution: 0.000_001,
        };
        let ours = banner(&options, &facts);
        let from = |text: &str| text[text.find("\tRun began").unwrap()..].to_owned();
        assert!(from(&text).starts_with(&from(&ours)), "{ours}");
        assert!(
            ours.starts_with(
                "\tIozone: Performance Test of File I/O\n\t        Version $Revision: 3.471 (fsb 1.2.3) $\n"
            )
        );
    }
}

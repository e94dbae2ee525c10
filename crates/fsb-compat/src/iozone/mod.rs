//! IOzone 3.327 to 3.5xx: automatic mode and its subsets, one size, `-R`, throughput mode, `-N`,
//! `-O`, `-+u`.

mod layout;
pub mod options;
mod parse;
pub mod print;
pub mod sequence;
mod sheet;
mod sheet_text;

use std::collections::HashMap;
use std::io::BufRead;

use fsb_model::metric::{Better, LATENCY_MEAN, MetricKind, OPERATION_RATE, Role, THROUGHPUT, Unit};
use fsb_model::set::{GapReason, Run, Series};

use crate::draft::{CPU_UTILIZATION, Draft, Name, Position, Runs, rate, time};
use crate::message::{self, Found, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, fixed, holds, split_unit, whole};
use crate::tool::{ReadError, Tool};

pub use layout::operation;
use layout::{Layout, Word, words};
pub use options::{Options, OptionsError, Test, TestSet};
pub use parse::{CommandLine, LONG_OPTIONS, parse};
pub use print::{table_sheet, throughput_sheet};
pub use sheet::{Sheet, SheetError};

/// The operations of its columns, by the names of fsb's workloads. The last four, through stdio,
/// have no `O_DIRECT`.
#[rustfmt::skip] // a table reads as one
pub const COLUMNS: [&str; 13] = [
    "write", "rewrite", "read", "reread", "random-read", "random-write", "backward-read",
    "record-rewrite", "stride-read", "fwrite", "frewrite", "fread", "freread",
];

/// Reads IOzone's text output.
pub(crate) const TOOL: Tool = Tool {
    name: NAME,
    title: "IOzone",
    about: "text of 3.327 to 3.5xx: automatic mode, one size, -R, -t, -N, -O, -+u; .wks, .xlsx of -b",
    looks_for: "its banner, the heading 'kB reclen write', a report of -R, or a spreadsheet of -b",
    values: "kB/s of 1024 bytes, with -O ops/s, with -N µs per operation (lower is better)",
    repetition: "an execution",
    recognise,
    read,
};

fn recognise(head: &[u8]) -> bool {
    sheet_text::is_sheet(head)
        || holds(head, b"Iozone: Performance Test")
        || holds(head, b"Children see throughput for")
        || head.split(|byte| *byte == b'\n').any(|line| {
            Layout::of_heading(line).is_some() || report_title(line.trim_ascii()).is_some()
        })
}

/// The name of the tool in lists and messages.
const NAME: &str = "iozone";

/// The messages of IOzone 3.3 to 3.5. It prints the name of the call or of the file before the
/// error of the system.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Start("Error in file: Position"), Severity::Harmless), // they follow the failure that they describe
    (Pattern::Start("Record # "), Severity::Harmless),
    (Pattern::Start("where "), Severity::Harmless),
    (Pattern::Start("Error "), Severity::Failure),
    (Pattern::Start("Error: "), Severity::Failure),
    (Pattern::Start("Can not "), Severity::Failure),
    (Pattern::Part("Sanity check failed"), Severity::Failure),
    (Pattern::Part("I/O error during read"), Severity::Failure),
    (Pattern::Part("reporting an error"), Severity::Failure),
    (Pattern::Part("Stopped by another"), Severity::Warning),
    (Pattern::Part(" failed"), Severity::Failure),
    (Pattern::Part(": No space left on device"), Severity::Failure),
    (Pattern::Part(": Disk quota exceeded"), Severity::Failure),
    (Pattern::Part(": Input/output error"), Severity::Failure),
    (Pattern::Part(": Read-only file system"), Severity::Failure),
    (Pattern::Part(": Permission denied"), Severity::Failure),
    (Pattern::Part(": No such file or directory"), Severity::Failure),
    (Pattern::Part(": Invalid argument"), Severity::Failure),
    (Pattern::Part(": Stale file handle"), Severity::Failure),
    (Pattern::Part(": Cannot allocate memory"), Severity::Failure),
];

/// Reads the executions in an input, each with at least one value.
fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    if !sheet_text::is_sheet(input.fill_buf()?) {
        return read_text(input);
    }
    let mut file = Vec::new();
    input.read_to_end(&mut file)?;
    let text = sheet_text::text_of(&file).map_err(|why| ReadError::refused(NAME, why))?;
    read_text(&mut text.as_bytes())
}

fn read_text(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
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

    /// Returns whether a line belongs to the next execution: IOzone prints its banner, its command
    /// line and the heading of its table once.
    fn ends_before(&self, line: &Line) -> bool {
        let text = line.bytes.trim_ascii_start();
        let begun = self.heading || self.draft.has_values();
        (self.banner && is_banner(text))
            || (self.heading && is_heading(line))
            || (begun
                && self.draft.run.command.is_some()
                && text.starts_with(b"Command line used:"))
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
        if let Some(title) = report_title(trimmed) {
            self.table = None;
            return self.reports.start(title, &mut self.draft, &self.mode);
        }
        // Other quoted lines are the reports of throughput mode, which repeat its lines.
        self.reports
            .take(line, &mut self.draft, &self.mode)
            .map(|_| ())
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
            self.draft.begin(line.number);
            self.table = Table::of_heading(line, &mut self.draft, &self.mode)?;
            return Ok(());
        }
        let text = line.text();
        if text.starts_with("Each process writes a ") {
            self.draft.begin(line.number);
        }
        if is_banner(text.as_bytes()) {
            self.banner = true;
        } else if [sheet_text::SIZE_IS_CUT, sheet_text::UNIT_IS_CUT].contains(&&*text) {
            self.draft.remark(line.number, &text);
        } else if text.starts_with("iozone test complete") {
            self.complete = true;
            self.table = None;
        } else if !take_fact(line.number, &text, &mut self.draft, &mut self.mode)
            && !self.throughput.take(line, &text, &mut self.draft)?
        {
            if let Some(message) = message::find(MESSAGES, line) {
                self.message(message);
            } else if self.table.is_some() {
                // Errors of IOzone, and output of other programs, can be between the rows.
                self.draft.remark(
                    line.number,
                    format_args!("no row of the table, left out: '{}'", line.excerpt()),
                );
            } else if self.table.is_none() && !self.complete && is_row(line) {
                self.draft.remark_once(line.number, ROWS_WITHOUT_HEADING);
            } else if self.complete && !text.starts_with("Excel output is below") {
                self.draft.remark(
                    line.number,
                    format_args!("after the end of the test, left out: '{}'", line.excerpt()),
                );
            }
        }
        Ok(())
    }

    /// Takes a message. In throughput mode it precedes the block of its operation. A table ends at
    /// a failure.
    fn message(&mut self, message: Found) {
        match self.throughput.workload.is_empty() {
            true => message.report(None, &mut self.draft),
            false if self.throughput.messages.len() < MOST_MESSAGES => {
                self.throughput.messages.push(message)
            }
            false => {}
        }
    }

    fn finish(mut self) -> Draft {
        self.throughput.end_phase(&mut self.draft);
        // No block follows these messages: the work did not go on.
        self.throughput
            .messages
            .drain(..)
            .for_each(|message| message.report(None, &mut self.draft));
        if self.banner && !self.complete {
            self.draft.remark(
                None,
                ends_early("IOzone", "the line 'iozone test complete.'"),
            );
        }
        self.draft
    }
}

/// The remark about rows of which no heading names the operations.
const ROWS_WITHOUT_HEADING: &str =
    "no heading precedes this row; it and those after it are left out";

/// Returns whether a line is like a row of a table: two sizes and at least one number.
fn is_row(line: &Line) -> bool {
    words(line.bytes).count() > 2
        && words(line.bytes).all(|word| word.bytes.iter().all(u8::is_ascii_digit))
}

fn is_banner(text: &[u8]) -> bool {
    text.starts_with(b"Iozone: Performance Test")
}

fn is_heading(line: &Line) -> bool {
    Layout::of_heading(line.bytes).is_some()
}

// Facts that IOzone prints about itself before and after its numbers.

/// The meaning of the numbers of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mode {
    quantity: Quantity,
    /// The unit as printed; `None` until IOzone has printed it.
    found_unit: Option<String>,
}

/// The quantity of a number in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    /// Kilobytes (1024 bytes) a second.
    Kilobytes,
    /// `-O`: operations a second.
    Operations,
    /// `-N`: microseconds an operation.
    Microseconds,
}

impl Quantity {
    /// Returns the metric that the quantity is stored as.
    fn metric(self) -> &'static MetricKind {
        match self {
            Quantity::Kilobytes => &THROUGHPUT,
            Quantity::Operations => &OPERATION_RATE,
            Quantity::Microseconds => &LATENCY_MEAN,
        }
    }

    /// Returns the value to store.
    fn value(self, printed: f64) -> Result<f64, GapReason> {
        match self {
            Quantity::Kilobytes => rate(printed * 1024.0),
            Quantity::Operations => rate(printed),
            Quantity::Microseconds => time(printed / 1e6),
        }
    }
}

impl Default for Mode {
    fn default() -> Self {
        Mode {
            quantity: Quantity::Kilobytes,
            found_unit: None,
        }
    }
}

/// Takes the facts that a line states about the run. Returns whether there were any.
fn take_fact(line: u32, text: &str, draft: &mut Draft, mode: &mut Mode) -> bool {
    if let Some(version) = text.strip_prefix("Version $Revision:") {
        draft.run.version = Some(version.trim_matches([' ', '$']).to_owned());
    } else if let Some(command) = text.strip_prefix("Command line used:") {
        draft.run.command = Some(command.trim().to_owned());
    } else if let Some((_, unit)) = text.split_once("Output is in ") {
        mode.found_unit = Some(unit.trim_end_matches(['.', ' ']).to_owned());
        mode.quantity = match unit.bytes().next() {
            Some(b'o' | b'O') => Quantity::Operations,
            Some(b'm' | b'M') => Quantity::Microseconds,
            _ => Quantity::Kilobytes,
        };
    } else if let Some(seconds) = text.strip_prefix("Time Resolution = ") {
        let number = seconds
            .split_whitespace()
            .next()
            .and_then(|text| fixed(text, 6..=6));
        draft.run.clock_resolution = number
            .map(|number| number.value)
            .filter(|seconds| *seconds > 0.0);
    } else {
        return notice(line, text, draft);
    }
    true
}

/// Adds remarks for IOzone's own warnings about its numbers. Returns whether the line belongs to
/// them.
fn notice(line: u32, text: &str, draft: &mut Draft) -> bool {
    if text.starts_with("Timer resolution is poor") {
        return true; // the next line says for which sizes
    }
    if let Some(sizes) = text.strip_prefix("reported inaccurate results. Sizes ") {
        let text = format!(
            "IOzone: timer resolution is poor; transfers may be inaccurate for record sizes of {sizes}"
        );
        draft.remark(line, text);
    } else if text.starts_with("iozone: interrupted") {
        draft.remark(line, "IOzone was interrupted");
    } else if text.contains("measurements are invalid in this mode")
        || text.contains("Results are NOT valid")
    {
        draft.remark(line, format_args!("IOzone: {text}"));
    } else {
        return text.starts_with("exiting iozone");
    }
    true
}

// The table of automatic mode: a row for each file size and record size, a column for each
// operation.

/// A table while it is read.
struct Table {
    layout: Layout,
    /// The series of each column.
    series: Vec<Option<usize>>,
    /// The line of each file size and record size, in kilobytes.
    seen: HashMap<(u64, u64), u32>,
    /// The line of the first row, and the number of operations in it.
    first: Option<(u32, usize)>,
}

impl Table {
    /// Returns the table that a heading starts.
    fn of_heading(line: &Line, draft: &mut Draft, mode: &Mode) -> Result<Option<Table>, ReadError> {
        let Some(layout) = Layout::of_heading(line.bytes) else {
            return Ok(None);
        };
        let unit = mode.found_unit.as_deref().unwrap_or_else(|| {
            draft.remark(
                line.number,
                "no line names the unit of the numbers; read as kilobytes (1024 bytes) a second",
            );
            "kB/s"
        });
        let unit = unit.to_owned();
        let mut series = Vec::new();
        for operation in &layout.operations {
            series.push(match operation {
                Some(operation) => {
                    let name = Name {
                        workload: None,
                        operation,
                    };
                    Some(draft.series(name, mode.quantity.metric(), &unit)?)
                }
                None => None,
            });
        }
        if layout.operations.iter().any(Option::is_none) {
            draft.remark(
                line.number,
                "a heading names no known operation; its column is left out",
            );
        }
        Ok(Some(Table {
            layout,
            series,
            seen: HashMap::new(),
            first: None,
        }))
    }

    /// Takes a row, or adds a remark if the line is not one.
    fn row(&mut self, line: &Line, draft: &mut Draft, mode: &Mode) -> Result<(), ReadError> {
        match self.parse(line) {
            Ok(row) => self.keep(row, line, draft, mode),
            Err(why) => {
                draft.remark(
                    line.number,
                    format_args!("no row of the table, left out: {why}"),
                );
                Ok(())
            }
        }
    }

    fn parse(&self, line: &Line) -> Result<GridRow, String> {
        let mut row: [Word; 32] = [Word { end: 0, bytes: b"" }; 32];
        let mut count = 0;
        for word in words(line.bytes) {
            *row.get_mut(count)
                .ok_or_else(|| format!("'{}'", line.excerpt()))? = word;
            count += 1;
        }
        let bad = row[..count]
            .iter()
            .find(|word| !word.bytes.iter().all(u8::is_ascii_digit));
        if line.too_long || bad.is_some() || count < 2 {
            return Err(format!("'{}'", line.excerpt()));
        }
        let cells = self.layout.place(row[0].end, &row[1..count], line.ended)?;
        let cut = !line.ended && cells.iter().flatten().count() < count - 1;
        let (file, record) = (whole(row[0].bytes).unwrap_or(0), cells[0].unwrap_or(0));
        if file == 0 || record > file || file > u64::MAX >> 10 {
            return Err(format!("file size {file} kB with record size {record} kB"));
        }
        Ok(GridRow {
            file,
            record,
            cells,
            cut,
        })
    }

    fn keep(
        &mut self,
        row: GridRow,
        line: &Line,
        draft: &mut Draft,
        mode: &Mode,
    ) -> Result<(), ReadError> {
        let GridRow {
            file,
            record,
            cells,
            cut,
        } = row;
        if let Some(first) = self.seen.get(&(file, record)) {
            let text = format!(
                "file size {file} kB with record size {record} kB is in line {first} too; the first is kept"
            );
            draft.remark(line.number, text);
            return Ok(());
        }
        if cut {
            draft.remark(
                line.number,
                "the file ends within this line; its last number is left out",
            );
        }
        if cells[1..].iter().any(Option::is_some) {
            self.seen.insert((file, record), line.number);
        }
        let count = cells[1..].iter().flatten().count();
        let (first, expected) = *self.first.get_or_insert((line.number, count));
        if count != expected && !cut {
            let text = format!(
                "this row has {count} operations, but the row in line {first} has {expected}"
            );
            draft.remark(line.number, text);
        }
        // A record size of 0 means records from a telemetry file.
        let record_size = Some(record << 10).filter(|bytes| *bytes > 0);
        let place = Position {
            file_size: Some(file << 10),
            record_size,
            line: line.number,
        };
        for (series, value) in self.series.iter().zip(&cells[1..]) {
            if let (Some(series), Some(value)) = (series, value) {
                draft.put(*series, place, mode.quantity.value(*value as f64))?;
            }
        }
        Ok(())
    }
}

/// A row: sizes in kilobytes and numbers by column.
struct GridRow {
    file: u64,
    record: u64,
    cells: layout::Cells,
    /// Whether a last number was left out for want of a line end.
    cut: bool,
}

// Throughput mode (`-t`): several processes or threads, one block of lines an operation.

/// The text before the `=`, and the metrics of the number after it: in bytes and in operations per
/// second.
#[rustfmt::skip] // a table reads as one
static LINES: &[(&str, MetricKind, MetricKind)] = &[
    ("Children see throughput for", THROUGHPUT, OPERATION_RATE),
    ("Parent sees throughput for", metric_kind("throughput_parent", Unit::BytesPerSecond), metric_kind("operation_rate_parent", Unit::OperationsPerSecond)),
    ("Min throughput per", metric_kind("throughput_min", Unit::BytesPerSecond), metric_kind("operation_rate_min", Unit::OperationsPerSecond)),
    ("Max throughput per", metric_kind("throughput_max", Unit::BytesPerSecond), metric_kind("operation_rate_max", Unit::OperationsPerSecond)),
    ("Avg throughput per", metric_kind("throughput_mean", Unit::BytesPerSecond), metric_kind("operation_rate_mean", Unit::OperationsPerSecond)),
];

const fn metric_kind(name: &'static str, unit: Unit) -> MetricKind {
    let about = "A rate of IOzone's throughput mode: as the parent sees it, or the least, most or mean of a process.";
    MetricKind {
        name,
        unit,
        better: Better::Higher,
        role: Role::Rate,
        about,
    }
}

/// Messages that are kept until the block of their operation.
const MOST_MESSAGES: usize = 1000;

/// Throughput mode while it is read.
#[derive(Default)]
struct Throughput {
    /// `throughput, 2 processes`.
    workload: String,
    place: Position,
    operation: Option<&'static str>,
    /// Messages since the last block.
    messages: Vec<Found>,
    phase: Phase,
}

/// A number as printed, and its line.
type Printed = Option<(f64, u32)>;

/// The numbers of a block, for checks when it is complete.
#[derive(Default)]
struct Phase {
    /// The rates in the order of `LINES`.
    rates: [Printed; 5],
    /// The unit of the rates: `kB/sec`.
    unit: String,
    /// The least amount that a process transferred.
    least: Printed,
}

impl Phase {
    /// Returns the line of a sign that a process transferred nothing, and the sign.
    ///
    /// Up to 3.487 at least, IOzone takes the rate of the second process as the least one if the
    /// first process has a rate of zero. The least rate is then above the mean.
    fn idle_process(&self) -> Option<(u32, String)> {
        let [.., min, _, mean] = self.rates;
        if let Some((_, line)) = self.least.filter(|(amount, _)| *amount == 0.0) {
            return Some((line, "it transferred 0".to_owned()));
        }
        let (min, line) = min?;
        let text = match mean {
            _ if min == 0.0 => "its rate is 0".to_owned(),
            Some((mean, _)) if min > 1.001 * mean + 0.01 => {
                format!("the least rate, {min}, is above the mean, {mean}")
            }
            _ => return None,
        };
        Some((line, text))
    }

    /// Returns the line of the parent's rate if it differs much from that of the children, and both
    /// rates. The start and the end of processes explain a difference of up to a second.
    fn contradiction(&self, work: Option<f64>) -> Option<(u32, String)> {
        let [Some((children, _)), Some((parent, line)), ..] = self.rates else {
            return None;
        };
        let is_apart =
            parent > 0.0 && children > 0.0 && (children / parent > 2.0 || parent / children > 2.0);
        let seconds = work? / parent - work? / children;
        let unit = &self.unit;
        (is_apart && seconds.abs() > 1.0).then(|| {
            (
                line,
                format!("the parent sees {parent} {unit}, but the children see {children} {unit}"),
            )
        })
    }
}

impl Throughput {
    /// Takes a line of this mode. Returns whether it is one.
    fn take(&mut self, line: &Line, text: &str, draft: &mut Draft) -> Result<bool, ReadError> {
        if let Some(workers) = text.strip_prefix("Throughput test with ") {
            self.end_phase(draft);
            self.workload = format!("throughput, {}", workers.trim());
            return Ok(true);
        }
        if text.starts_with("Each ") && text.contains(" writes a ") {
            self.end_phase(draft);
            self.sizes(text);
            return Ok(true);
        }
        // IOzone writes the second word small for all operations but the first.
        if text.starts_with("CPU Utilization: Wall time")
            || text.starts_with("CPU utilization: Wall time")
        {
            self.cpu(line, text, draft)?;
            return Ok(true);
        }
        let Some(index) = LINES.iter().position(|(start, ..)| text.starts_with(start)) else {
            if ["Min xfer", "Child["]
                .iter()
                .any(|start| text.starts_with(start))
            {
                self.amount(line, text);
                return Ok(true);
            }
            return Ok(text.starts_with("Without the stonewall"));
        };
        if index == 0 {
            self.end_phase(draft);
        }
        if !self.value(line, text, index, draft)? {
            draft.remark(
                line.number,
                format_args!("no line of throughput mode, left out: '{}'", line.excerpt()),
            );
        }
        Ok(true)
    }

    /// Reads `Min xfer = 31296.00 kB` and `Child[0] xfer count = 31296.00 kB, Throughput = …`.
    fn amount(&mut self, line: &Line, text: &str) {
        let amount = text
            .split_once('=')
            .and_then(|(_, right)| fixed(split_unit(right.trim()).0, 2..=2));
        let Some(amount) = amount.map(|amount| amount.value) else {
            return;
        };
        if self.phase.least.is_none_or(|(least, _)| amount < least) {
            self.phase.least = Some((amount, line.number));
        }
    }

    /// Ends a block: its operation fails if a message or a number of the block says so.
    fn end_phase(&mut self, draft: &mut Draft) {
        let phase = std::mem::take(&mut self.phase);
        let Some(operation) = self.operation else {
            return;
        };
        let name = Name {
            workload: Some(&self.workload),
            operation,
        };
        if let Some((line, text)) = phase.idle_process() {
            draft.fail_operation(
                line,
                name,
                format_args!("{operation}: a process transferred nothing ({text})"),
            );
        } else if let Some((line, text)) = phase.contradiction(self.work(&phase.unit)) {
            draft.fail_operation(line, name, format_args!("{operation}: {text}"));
        }
    }

    /// Returns the amount of an operation in kilobytes or in operations: all processes transfer a
    /// whole file.
    fn work(&self, unit: &str) -> Option<f64> {
        let (count, _) = split_unit(self.workload.strip_prefix("throughput, ")?);
        let Position {
            file_size,
            record_size,
            ..
        } = self.place;
        let size = if unit == "ops/sec" {
            file_size? / record_size?
        } else {
            file_size? / 1024
        };
        Some(whole(count.as_bytes())? as f64 * size as f64)
    }

    /// Reads `Each process writes a 32768 kByte file in 64 kByte records`.
    fn sizes(&mut self, text: &str) {
        let mut sizes = text
            .split_whitespace()
            .filter_map(|word| whole(word.as_bytes())?.checked_mul(1024));
        self.place = Position {
            file_size: sizes.next(),
            record_size: sizes.next().filter(|bytes| *bytes > 0),
            line: 0,
        };
    }

    /// Sets the number of processes from a block. IOzone announces only one number, even if several
    /// follow.
    fn count(&mut self, count: &str) {
        let (announced, names) = split_unit(
            self.workload
                .strip_prefix("throughput, ")
                .unwrap_or_default(),
        );
        if announced == count {
            return;
        }
        let names = match (names.get(..6), count) {
            (None, _) => String::new(),
            (Some("thread"), "1") => " thread".to_owned(),
            (Some("thread"), _) => " threads".to_owned(),
            (Some(_), "1") => " process".to_owned(),
            (Some(_), _) => " processes".to_owned(),
        };
        self.workload = format!("throughput, {count}{names}");
    }

    /// Reads `Children see throughput for  2 initial writers = 4263913.00 kB/sec`.
    fn value(
        &mut self,
        line: &Line,
        text: &str,
        index: usize,
        draft: &mut Draft,
    ) -> Result<bool, ReadError> {
        let (_, bytes, operations) = &LINES[index];
        let Some((left, right)) = text.split_once('=') else {
            return Ok(false);
        };
        if let Some((_, what)) = left.split_once(" for ") {
            let what = what.trim();
            self.operation =
                operation(what.trim_start_matches(|c: char| c.is_ascii_digit()).trim());
            self.count(split_unit(what).0);
        }
        if let Some(operation) = self.operation.filter(|_| index == 0) {
            self.report(
                Name {
                    workload: Some(&self.workload.clone()),
                    operation,
                },
                draft,
            );
        }
        let (number, unit) = split_unit(right.trim());
        let (Some(operation), Some(number)) = (self.operation, fixed(number, 2..=2)) else {
            return Ok(false);
        };
        let (metric, value) = match unit {
            "kB/sec" | "KB/sec" | "Kbytes/sec" => (bytes, number.value * 1024.0),
            "ops/sec" => (operations, number.value),
            _ => return Ok(false),
        };
        if number.comma {
            draft.remark_once(line.number, "numbers have a decimal comma; read as such");
        }
        self.phase.rates[index].get_or_insert((number.value, line.number));
        unit.clone_into(&mut self.phase.unit);
        let name = Name {
            workload: Some(&self.workload),
            operation,
        };
        draft.add(
            name,
            metric,
            unit,
            Position {
                line: line.number,
                ..self.place
            },
            rate(value),
        )?;
        Ok(true)
    }

    /// Adds the messages before a block to its operation.
    fn report(&mut self, name: Name, draft: &mut Draft) {
        for message in self.messages.drain(..) {
            match message.severity {
                Severity::Failure => {
                    draft.fail_operation(
                        message.line,
                        name,
                        format_args!("{}: {}", name.operation, message.text),
                    );
                }
                _ => message.report(None, draft),
            }
        }
    }

    /// Reads `CPU Utilization: Wall time    2.671    CPU time    1.974    CPU utilization  73.89
    /// %`.
    fn cpu(&self, line: &Line, text: &str, draft: &mut Draft) -> Result<(), ReadError> {
        let percent = text
            .rsplit_once("CPU utilization")
            .and_then(|(_, right)| fixed(split_unit(right.trim()).0, 2..=2));
        let (Some(operation), Some(percent)) = (self.operation, percent) else {
            return Ok(());
        };
        let name = Name {
            workload: Some(&self.workload),
            operation,
        };
        let place = Position {
            line: line.number,
            ..self.place
        };
        draft.add(
            name,
            &CPU_UTILIZATION,
            "%",
            place,
            time(percent.value / 100.0),
        )
    }
}

// The reports of `-R`, one per operation: matrices of file sizes and record sizes. They repeat the
// table above them, so each value is taken once. Values that the table lost are taken from the
// reports.

/// Values and their lines, by series and sizes in bytes.
type Known = HashMap<(usize, u64, u64), (f64, u32)>;

/// The kind of numbers in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// The results, which the table holds too.
    Results,
    /// `-+u`: CPU time in percent of elapsed time.
    Cpu,
}

/// Returns the operation and content of a report, from its title in quotes. Returns `None` if the
/// line is not a title.
fn report_title(text: &[u8]) -> Option<(&'static str, Content)> {
    let text = std::str::from_utf8(text)
        .ok()?
        .strip_prefix('"')?
        .strip_suffix('"')?;
    if let Some((name, _)) = text.split_once(" CPU utilization report") {
        return Some((operation(name)?, Content::Cpu));
    }
    Some((operation(text.strip_suffix(" report")?)?, Content::Results))
}

/// The reports of a run.
#[derive(Default)]
struct Reports {
    /// The values read so far; created when the first report starts.
    known: Option<Known>,
    /// The report that is being read.
    current: Option<Report>,
}

struct Report {
    series: usize,
    content: Content,
    /// Bytes of the record size of each column.
    records: Vec<u64>,
}

impl Reports {
    fn start(
        &mut self,
        (operation, content): (&'static str, Content),
        draft: &mut Draft,
        mode: &Mode,
    ) -> Result<(), ReadError> {
        self.known.get_or_insert_with(|| known(&draft.run.series));
        let (metric, unit) = match content {
            Content::Cpu => (&CPU_UTILIZATION, "%"),
            Content::Results => (
                mode.quantity.metric(),
                mode.found_unit.as_deref().unwrap_or("kB/s"),
            ),
        };
        let series = draft.series(
            Name {
                workload: None,
                operation,
            },
            metric,
            unit,
        )?;
        self.current = Some(Report {
            series,
            content,
            records: Vec::new(),
        });
        Ok(())
    }

    /// Takes a line that starts with a quote. Returns whether it belongs to a report.
    fn take(&mut self, line: &Line, draft: &mut Draft, mode: &Mode) -> Result<bool, ReadError> {
        let (Some(report), Some(known)) = (&mut self.current, &mut self.known) else {
            return Ok(false);
        };
        let Some(row) = parse_sheet_row(line) else {
            draft.remark(
                line.number,
                format_args!("no row of a report, left out: '{}'", line.excerpt()),
            );
            return Ok(true);
        };
        match row {
            SheetRow::Records(records) => report.records = records,
            SheetRow::Values(file, values) => {
                report.keep(file, &values, line, known, draft, mode)?
            }
        }
        Ok(true)
    }

    /// Ends a report: an empty line follows it.
    fn end(&mut self) {
        self.current = None;
    }
}

impl Report {
    fn keep(
        &self,
        file: u64,
        values: &[f64],
        line: &Line,
        known: &mut Known,
        draft: &mut Draft,
        mode: &Mode,
    ) -> Result<(), ReadError> {
        if values.len() > self.records.len() {
            let text = format!(
                "{} values under {} record sizes; left out",
                values.len(),
                self.records.len()
            );
            draft.remark(line.number, text);
            return Ok(());
        }
        let table = known.keys().next().is_some();
        for (record, printed) in self.records.iter().zip(values) {
            let value = match self.content {
                // Zeros "should be ignored", says the title: shorter than the tick that CPU time is
                // counted in.
                Content::Cpu if *printed == 0.0 => Err(GapReason::BelowClock),
                Content::Cpu => Ok(printed / 100.0),
                Content::Results => mode.quantity.value(*printed),
            };
            let found = known.get(&(self.series, file, *record)).copied();
            match (found, value) {
                (Some((first, at)), Ok(value))
                    if first != value && self.content == Content::Results =>
                {
                    draft.remark(
                        line.number,
                        format_args!("{printed} is another value than in line {at}, which is kept"),
                    );
                }
                (Some(_), _) => {}
                // Record sizes that automatic mode omits for large files are zeros here and have no
                // rows in the table.
                (None, Err(_)) if table && self.content == Content::Results => {}
                (None, value) => {
                    let place = Position {
                        file_size: Some(file),
                        record_size: Some(*record),
                        line: line.number,
                    };
                    draft.put(self.series, place, value)?;
                    known.insert(
                        (self.series, file, *record),
                        (value.unwrap_or(0.0), line.number),
                    );
                }
            }
        }
        Ok(())
    }
}

enum SheetRow {
    Records(Vec<u64>),
    Values(u64, Vec<f64>),
}

/// Parses a line. Sizes in quotes are a heading; a size in quotes with numbers after it is a row.
fn parse_sheet_row(line: &Line) -> Option<SheetRow> {
    let quoted = |bytes: &[u8]| {
        let kilobytes = whole(bytes.strip_prefix(b"\"")?.strip_suffix(b"\"")?)?;
        kilobytes.checked_mul(1024).filter(|bytes| *bytes > 0)
    };
    let mut found: Vec<&[u8]> = words(line.bytes).map(|word| word.bytes).collect();
    if line.too_long {
        return None;
    }
    if found.iter().all(|word| quoted(word).is_some())
        && (found.len() > 1 || line.bytes.starts_with(b" "))
    {
        return found
            .iter()
            .map(|word| quoted(word))
            .collect::<Option<_>>()
            .map(SheetRow::Records);
    }
    // IOzone prints a blank after each value: without it, the file may end within the number.
    if !line.ended && found.len() > 1 && !line.bytes.ends_with(b" ") {
        found.pop();
    }
    let number = |bytes: &&[u8]| {
        std::str::from_utf8(bytes)
            .ok()?
            .parse()
            .ok()
            .filter(|value: &f64| *value >= 0.0)
    };
    let (file, values) = found.split_first()?;
    Some(SheetRow::Values(
        quoted(file)?,
        values.iter().map(number).collect::<Option<_>>()?,
    ))
}

fn known(series: &[Series]) -> Known {
    let mut known = Known::new();
    for (at, series) in series.iter().enumerate() {
        let points = series
            .points
            .iter()
            .map(|point| (point.file_size, point.record_size, point.value, point.line));
        let gaps = series
            .gaps
            .iter()
            .map(|gap| (gap.file_size, gap.record_size, 0.0, gap.line));
        for (file, record, value, line) in points.chain(gaps) {
            known.insert((at, file.unwrap_or(0), record.unwrap_or(0)), (value, line));
        }
    }
    known
}

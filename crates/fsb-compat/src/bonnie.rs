//! bonnie++: the CSV line that it prints after its table.

use std::io::BufRead;

use fsb_model::metric::{Better, MetricKind, OPERATION_RATE, Role, THROUGHPUT, Unit};
use fsb_model::set::{GapReason, Remark, Run};

use crate::draft::{CPU_UTILIZATION, Draft, Name, Position, Runs, rate, time};
use crate::message::{self, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, holds, whole};
use crate::tool::{ReadError, Tool};

/// Reads bonnie++'s CSV.
pub(crate) const TOOL: Tool = Tool {
    name: "bonnie++",
    title: "bonnie++",
    about: "the CSV line of 1.03, 1.04, 1.9x and 2.00, alone or below the table",
    looks_for: "a CSV line: '1.98,2.00a,HOST,…', or 27 columns of 1.03 with the size second",
    values: "K/s of 1024 bytes, files/s; µs to s of the longest call and % of CPU (lower is better)",
    repetition: "a CSV line",
    recognise,
    read,
};

/// The longest that one call took.
const LATENCY_MAX: MetricKind = MetricKind {
    name: "latency_max",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Latency,
    about: "The longest time of one operation.",
};

/// The tests on one large file, in the order of the columns. `update` is the test that bonnie++
/// calls rewrite: it reads each block, changes it and writes it back. IOzone's rewrite is another
/// operation.
static LARGE: [(&str, MetricKind); 6] = [
    ("write_char", THROUGHPUT),
    ("write", THROUGHPUT),
    ("update", THROUGHPUT),
    ("read_char", THROUGHPUT),
    ("read", THROUGHPUT),
    ("seek", OPERATION_RATE),
];

/// The tests on many files.
static SMALL: [(&str, MetricKind); 6] = [
    ("create_sequential", OPERATION_RATE),
    ("stat_sequential", OPERATION_RATE),
    ("delete_sequential", OPERATION_RATE),
    ("create_random", OPERATION_RATE),
    ("stat_random", OPERATION_RATE),
    ("delete_random", OPERATION_RATE),
];

/// Lines that are complained of.
const MOST_ODD: usize = 20;

const TABLE: &[u8] = b"------Sequential Output------";

/// The messages of bonnie++ 1.03 to 2.00, which it prints among the lines of progress.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Part("Can't sync directory, turning off dir-sync"), Severity::Warning),
    (Pattern::Part("Can't handle SIG"), Severity::Warning),
    (Pattern::Part("Can't "), Severity::Failure),
    (Pattern::Part("drastic I/O error"), Severity::Failure),
    (Pattern::Part("rror in lseek"), Severity::Failure),
    (Pattern::Part("Cleaning up test directory after error"), Severity::Failure),
    (Pattern::Part("Exceeded CPU usage"), Severity::Failure),
    (Pattern::Part("exceeded file storage limits"), Severity::Failure),
    (Pattern::Part("Not enough ram to test with"), Severity::Failure),
    (Pattern::Part("semop failed"), Severity::Failure),
    (Pattern::Part("files but only got"), Severity::Failure),
    (Pattern::Part("File size should be double RAM"), Severity::Warning),
    (Pattern::Part("the system is likely to"), Severity::Warning),
];

fn recognise(head: &[u8]) -> bool {
    holds(head, TABLE)
        || head
            .split(|byte| *byte == b'\n')
            .any(|line| is_csv(line.trim_ascii()))
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let (mut runs, mut odd, mut messages) = (Runs::new(TOOL.name), Vec::new(), Vec::new());
    // The line of the first progress after the last results.
    let mut started = None;
    while let Some(line) = lines.next()? {
        if !is_csv(line.bytes.trim_ascii()) {
            if line.bytes.starts_with(b"Writing intelligently") {
                started.get_or_insert(line.number);
            }
            messages.extend(message::find(MESSAGES, &line).filter(|_| messages.len() < MOST_ODD));
            continue;
        }
        match fields(&line) {
            Ok(mut row) => {
                started = None;
                messages
                    .drain(..)
                    .for_each(|message: message::Found| message.report(None, &mut row.draft));
                runs.push(row.read()?)?;
            }
            Err(text) if odd.len() < MOST_ODD => odd.push(Remark {
                line: Some(line.number),
                text,
            }),
            Err(_) => {}
        }
    }
    // bonnie++ ends at a failure without its CSV line.
    let mut last = Draft::new(TOOL.name);
    started.into_iter().for_each(|line| last.begin(line));
    messages
        .into_iter()
        .for_each(|message| message.report(None, &mut last));
    runs.push(last)?;
    let first = odd
        .first()
        .map(|remark: &Remark| format!("line {} has {}", remark.line.unwrap_or(0), remark.text));
    if let Some(run) = runs.first_mut() {
        run.warnings.append(&mut odd);
    }
    runs.finish(|| {
        let none = "it holds no CSV line with values; bonnie++ prints one as the last line of its standard output";
        first.unwrap_or_else(|| none.to_owned())
    })
}

fn is_csv(line: &[u8]) -> bool {
    versions(line).is_some() || is_old(line)
}

/// Returns the version of the format and that of the program, if this is a line of CSV.
fn versions(line: &[u8]) -> Option<(&str, &str)> {
    let mut fields = line.splitn(3, |byte| *byte == b',');
    let version = |field: &'_ [u8]| {
        let known = [&b"1.9"[..], b"2."]
            .iter()
            .any(|start| field.starts_with(start));
        known
            && field.len() <= 8
            && field
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'.')
    };
    let (format, program) = (fields.next()?, fields.next()?);
    fields.next()?;
    let text = |field| std::str::from_utf8(field).ok();
    (version(format) && version(program))
        .then(|| Some((text(format)?, text(program)?)))
        .flatten()
}

/// Columns of a line of 1.03 and 1.04, which name no version.
const OLD_COLUMNS: usize = 27;

/// Returns whether this is a line of 1.03 or 1.04: the host, the size, twelve columns of a large
/// file, the number of files, and twelve columns of many files. Tests that did not run have empty
/// columns.
fn is_old(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else {
        return false;
    };
    let fields: Vec<&str> = line.split(',').collect();
    if fields.len() != OLD_COLUMNS || (fields[1].is_empty() && fields[14].is_empty()) {
        return false;
    }
    let numbers = || fields[2..14].iter().chain(&fields[15..]);
    (fields[1].is_empty() || bytes(size_part(fields[1])).is_some())
        && (fields[14].is_empty() || fields[14].starts_with(|c: char| c.is_ascii_digit()))
        && numbers().all(|text| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
                || text.bytes().all(|byte| byte == b'+')
        })
        && numbers().any(|text| !text.is_empty())
}

/// Returns the size without the size of a chunk: `1G` of `1G:4k`.
fn size_part(text: &str) -> &str {
    text.split(':').next().unwrap_or(text)
}

/// The places of the columns in a line.
#[derive(Debug, Clone, Copy)]
struct Columns {
    /// The size of the large file.
    size: usize,
    /// The first rate of a large file and of many files.
    large: usize,
    small: usize,
    /// The first of the longest times, which 1.03 does not have.
    latencies: Option<usize>,
    /// The settings with a column of their own.
    settings: &'static [(usize, &'static str)],
}

/// Settings by column since 1.97 and since 1.98.
static SETTINGS: [&[(usize, &str)]; 2] = [
    &[
        (3, "concurrency"),
        (6, "chunk size"),
        (19, "files"),
        (20, "largest file"),
        (21, "smallest file"),
        (22, "directories"),
    ],
    &[
        (3, "concurrency"),
        (6, "chunk size"),
        (7, "seeks"),
        (8, "seek processes"),
        (21, "files"),
        (22, "largest file"),
        (23, "smallest file"),
        (24, "directories"),
    ],
];

/// Columns of the many files' count and sizes, between the two groups of tests.
const BETWEEN: usize = 5;

impl Columns {
    /// Returns the columns of a line and their number.
    fn of(fields: &csv::StringRecord, is_old: bool) -> (Columns, usize) {
        if is_old {
            let columns = Columns {
                size: 1,
                large: 2,
                small: 15,
                latencies: None,
                settings: &[(14, "files")],
            };
            return (columns, OLD_COLUMNS);
        }
        // Since format 1.98, two columns state how seeks were made.
        let is_new = &fields[0] >= "1.98";
        let large = if is_new { 9 } else { 7 };
        let small = large + 2 * LARGE.len() + BETWEEN;
        let latencies = small + 2 * SMALL.len();
        let count = latencies + LARGE.len() + SMALL.len();
        let columns = Columns {
            size: 5,
            large,
            small,
            latencies: Some(latencies),
            settings: SETTINGS[usize::from(is_new)],
        };
        if fields.len() + 1 == count && fields.get(5) == Some("") {
            // Without a large file (-s 0) 1.9x leaves out one of the empty columns in its place.
            return (
                Columns {
                    small: small - 1,
                    latencies: Some(latencies - 1),
                    settings: &[],
                    ..columns
                },
                count - 1,
            );
        }
        (columns, count)
    }
}

/// A line of CSV while the reader splits it.
struct Fields {
    fields: csv::StringRecord,
    columns: Columns,
    line: u32,
    draft: Draft,
}

/// Splits a line into its columns, or returns the problem with it.
fn fields(line: &Line) -> Result<Fields, String> {
    let text = line.bytes.trim_ascii();
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text);
    let mut fields = csv::StringRecord::new();
    if !reader
        .read_record(&mut fields)
        .map_err(|error| error.to_string())?
    {
        return Err("no columns".to_owned());
    }
    let (columns, expected) = Columns::of(&fields, versions(text).is_none());
    if fields.len() > expected {
        let found = fields.len();
        return Err(format!(
            "{found} columns instead of {expected}, so no value can be assigned to an operation; check for decimal \
             commas"
        ));
    }
    let mut draft = Draft::new(TOOL.name);
    if fields.len() < expected {
        let text = format!(
            "{} columns instead of {expected}; fsb reads those that are present",
            fields.len()
        );
        draft.remark(line.number, text);
    }
    // The last column is a time since 1.97, so that its unit is certain to be its end.
    let is_whole = fields.len() == expected && columns.latencies.is_some() && text.ends_with(b"s");
    if !line.ended && !is_whole {
        draft.remark(
            line.number,
            ends_early(TOOL.name, "the rest of the CSV line"),
        );
        fields.truncate(fields.len() - 1);
    }
    Ok(Fields {
        fields,
        columns,
        line: line.number,
        draft,
    })
}

impl Fields {
    fn read(mut self) -> Result<Draft, ReadError> {
        let Columns {
            size,
            large,
            small,
            latencies,
            settings,
        } = self.columns;
        if latencies.is_some() {
            self.draft.run.version = self.fields.get(1).map(str::to_owned);
        }
        for (column, name) in settings {
            if let Some(value) = self.fields.get(*column).filter(|value| !value.is_empty()) {
                self.draft.setting(None, name, value);
            }
        }
        let file = self.fields.get(size).unwrap_or_default().to_owned();
        if latencies.is_none()
            && let Some((_, chunk)) = file.split_once(':')
        {
            self.draft.setting(None, "chunk size", chunk);
        }
        if !file.is_empty() {
            self.tests(&LARGE, large, latencies, bytes(size_part(&file)))?;
        }
        self.tests(
            &SMALL,
            small,
            latencies.map(|first| first + LARGE.len()),
            None,
        )?;
        Ok(self.draft)
    }

    /// Takes tests that start in a column (rate and CPU), with the longest times in others.
    fn tests(
        &mut self,
        tests: &[(&str, MetricKind)],
        rates: usize,
        latencies: Option<usize>,
        file_size: Option<u64>,
    ) -> Result<(), ReadError> {
        let place = Position {
            file_size,
            record_size: None,
            line: self.line,
        };
        for (at, (operation, metric)) in tests.iter().enumerate() {
            let name = Name {
                workload: None,
                operation,
            };
            let (unit, factor) = if metric.unit == Unit::BytesPerSecond {
                ("K/sec", 1024.0)
            } else {
                ("/sec", 1.0)
            };
            if let Some(value) = self.number(rates + 2 * at) {
                self.draft.add(
                    name,
                    metric,
                    unit,
                    place,
                    value.and_then(|value| rate(value * factor)),
                )?;
            }
            if let Some(value) = self.number(rates + 2 * at + 1) {
                self.draft.add(
                    name,
                    &CPU_UTILIZATION,
                    "%",
                    place,
                    value.and_then(|value| time(value / 100.0)),
                )?;
            }
            if let Some((seconds, unit)) = latencies.and_then(|first| self.time(first + at)) {
                self.draft
                    .add(name, &LATENCY_MAX, unit, place, time(seconds))?;
            }
        }
        Ok(())
    }

    /// Returns the number of a column. Pluses mean that the test was too fast. Returns `None` if
    /// the column is empty, because the test did not run.
    fn number(&mut self, column: usize) -> Option<Result<f64, GapReason>> {
        let text = self.fields.get(column).filter(|text| !text.is_empty())?;
        if text.bytes().all(|byte| byte == b'+') {
            return Some(Err(GapReason::TooFast));
        }
        let shaped = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        match text.parse() {
            Ok(number) if shaped => Some(Ok(number)),
            _ => {
                self.odd(column);
                None
            }
        }
    }

    /// Parses `2593us`, `1547ms`, `3s`.
    fn time(&mut self, column: usize) -> Option<(f64, &'static str)> {
        let text = self.fields.get(column).filter(|text| !text.is_empty())?;
        let units = [("us", 1e6), ("ms", 1e3), ("s", 1.0)];
        let found = units.into_iter().find_map(|(unit, a_second)| {
            Some((
                whole(text.strip_suffix(unit)?.as_bytes())? as f64 / a_second,
                unit,
            ))
        });
        if found.is_none() {
            self.odd(column);
        }
        found
    }

    fn odd(&mut self, column: usize) {
        let text: String = self.fields[column].chars().take(40).collect();
        self.draft.remark(
            self.line,
            format_args!("column {}: '{text}' is not a number; left out", column + 1),
        );
    }
}

/// Parses the bytes of the large file, such as `600M`.
fn bytes(text: &str) -> Option<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let (number, shift) = units.into_iter().find_map(|(unit, shift)| {
        Some((
            whole(
                text.strip_suffix([unit, unit.to_ascii_lowercase()])?
                    .as_bytes(),
            )?,
            shift,
        ))
    })?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

//! bonnie++: the CSV line that 1.9x and 2.00 print after their table.

use std::io::BufRead;

use fsb_model::metric::{Better, MetricKind, OPERATION_RATE, Role, THROUGHPUT, Unit};
use fsb_model::set::{GapReason, Remark, Run};

use crate::draft::{CPU_UTILIZATION, Draft, Name, Position, Runs, rate, time};
use crate::text::{Line, Lines, holds, whole};
use crate::tool::{ReadError, Tool};

/// Reads bonnie++'s CSV.
pub(crate) const TOOL: Tool = Tool {
    name: "bonnie++",
    title: "bonnie++",
    about: "the CSV line of 1.9x and 2.00, alone or below the table",
    looks_for: "a CSV line that starts with two versions, as '1.98,2.00a,'",
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

/// The tests on one large file, in the order of the columns. `update` is the test that bonnie++ calls rewrite: it reads
/// each block, changes it and writes it back. IOzone's rewrite is another operation.
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

/// Columns of the many files' count and sizes, between the two groups of tests.
const BETWEEN: usize = 5;

/// Lines that are complained of.
const MOST_ODD: usize = 20;

const TABLE: &[u8] = b"------Sequential Output------";

fn recognise(head: &[u8]) -> bool {
    holds(head, TABLE) || head.split(|byte| *byte == b'\n').any(|line| versions(line.trim_ascii_start()).is_some())
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let (mut runs, mut odd) = (Runs::new(TOOL.name), Vec::new());
    while let Some(line) = lines.next()? {
        if versions(line.bytes.trim_ascii_start()).is_none() {
            continue;
        }
        match fields(&line) {
            Ok(row) => runs.push(row.read()?)?,
            Err(text) if odd.len() < MOST_ODD => odd.push(Remark { line: Some(line.number), text }),
            Err(_) => {}
        }
    }
    let first = odd.first().map(|remark: &Remark| format!("line {} has {}", remark.line.unwrap_or(0), remark.text));
    if let Some(run) = runs.first_mut() {
        run.warnings.append(&mut odd);
    }
    runs.finish(|| {
        let none = "it holds no CSV line with values; bonnie++ prints one as the last line of its standard output";
        first.unwrap_or_else(|| none.to_owned())
    })
}

/// Returns the version of the format and that of the program, if this is a line of CSV.
fn versions(line: &[u8]) -> Option<(&str, &str)> {
    let mut fields = line.splitn(3, |byte| *byte == b',');
    let version = |field: &'_ [u8]| {
        let known = [&b"1.9"[..], b"2."].iter().any(|start| field.starts_with(start));
        known && field.len() <= 8 && field.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'.')
    };
    let (format, program) = (fields.next()?, fields.next()?);
    fields.next()?;
    let text = |field| std::str::from_utf8(field).ok();
    (version(format) && version(program)).then(|| Some((text(format)?, text(program)?))).flatten()
}

/// A line of CSV while the reader splits it.
struct Fields {
    fields: csv::StringRecord,
    /// The columns of the first rate of a large file and of many files.
    large: usize,
    small: usize,
    line: u32,
    draft: Draft,
}

/// Splits a line into its columns, or returns the problem with it.
fn fields(line: &Line) -> Result<Fields, String> {
    let text = line.bytes.trim_ascii_start();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
    let mut fields = csv::StringRecord::new();
    if !reader.read_record(&mut fields).map_err(|error| error.to_string())? {
        return Err("no columns".to_owned());
    }
    // Since format 1.98, two columns state how seeks were made.
    let large = if &fields[0] < "1.98" { 7 } else { 9 };
    let mut small = large + 2 * LARGE.len() + BETWEEN;
    let mut expected = small + 2 * SMALL.len() + LARGE.len() + SMALL.len();
    if fields.len() + 1 == expected && fields.get(5) == Some("") {
        // Without a large file (-s 0) 1.9x leaves out one of the empty columns in its place.
        (small, expected) = (small - 1, expected - 1);
    }
    if fields.len() > expected {
        let found = fields.len();
        return Err(format!(
            "{found} columns instead of {expected}, so no value can be assigned to an operation; check for decimal \
             commas"
        ));
    }
    let mut draft = Draft::new(TOOL.name);
    if fields.len() < expected {
        draft.remark(
            line.number,
            format_args!("{} columns instead of {expected}; fsb reads those that are present", fields.len()),
        );
    }
    if !line.ended && (fields.len() < expected || !line.bytes.ends_with(b"s")) {
        fields.truncate(fields.len() - 1); // it may be cut
    }
    Ok(Fields { fields, large, small, line: line.number, draft })
}

impl Fields {
    fn read(mut self) -> Result<Draft, ReadError> {
        self.draft.run.version = self.fields.get(1).map(str::to_owned);
        let size = self.fields.get(5).and_then(bytes);
        let latencies = self.small + 2 * SMALL.len();
        if self.fields.get(5).is_some_and(|size| !size.is_empty()) {
            self.tests(&LARGE, self.large, latencies, size)?;
        }
        self.tests(&SMALL, self.small, latencies + LARGE.len(), None)?;
        Ok(self.draft)
    }

    /// Takes tests that start in a column (rate and CPU), with the longest times in others.
    fn tests(
        &mut self,
        tests: &[(&str, MetricKind)],
        rates: usize,
        latencies: usize,
        file_size: Option<u64>,
    ) -> Result<(), ReadError> {
        let place = Position { file_size, record_size: None, line: self.line };
        for (at, (operation, metric)) in tests.iter().enumerate() {
            let name = Name { workload: None, operation };
            let (unit, factor) = if metric.unit == Unit::BytesPerSecond { ("K/sec", 1024.0) } else { ("/sec", 1.0) };
            if let Some(value) = self.number(rates + 2 * at) {
                self.draft.add(name, metric, unit, place, value.and_then(|value| rate(value * factor)))?;
            }
            if let Some(value) = self.number(rates + 2 * at + 1) {
                self.draft.add(name, &CPU_UTILIZATION, "%", place, value.and_then(|value| time(value / 100.0)))?;
            }
            if let Some((seconds, unit)) = self.time(latencies + at) {
                self.draft.add(name, &LATENCY_MAX, unit, place, time(seconds))?;
            }
        }
        Ok(())
    }

    /// Returns the number of a column. Pluses mean that the test was too fast. Returns `None` if the column is empty,
    /// because the test did not run.
    fn number(&mut self, column: usize) -> Option<Result<f64, GapReason>> {
        let text = self.fields.get(column).filter(|text| !text.is_empty())?;
        if text.bytes().all(|byte| byte == b'+') {
            return Some(Err(GapReason::TooFast));
        }
        let shaped = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
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
        let found = units
            .into_iter()
            .find_map(|(unit, a_second)| Some((whole(text.strip_suffix(unit)?.as_bytes())? as f64 / a_second, unit)));
        if found.is_none() {
            self.odd(column);
        }
        found
    }

    fn odd(&mut self, column: usize) {
        let text: String = self.fields[column].chars().take(40).collect();
        self.draft.remark(self.line, format_args!("column {}: '{text}' is not a number; left out", column + 1));
    }
}

/// Parses the bytes of the large file, such as `600M`.
fn bytes(text: &str) -> Option<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let (number, shift) = units.into_iter().find_map(|(unit, shift)| {
        Some((whole(text.strip_suffix([unit, unit.to_ascii_lowercase()])?.as_bytes())?, shift))
    })?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

//! sysbench 1.x: the report of its file test, `sysbench fileio run`.

use std::collections::BTreeMap;
use std::io::BufRead;

use fsb_model::metric::{
    Better, LATENCY_MAX, LATENCY_MEAN, LATENCY_P50, LATENCY_P90, LATENCY_P99, MetricKind,
    OPERATION_RATE, Role, THROUGHPUT, Unit,
};
use fsb_model::set::{GapReason, Run};

use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::message::{self, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, fixed, holds, size, whole};
use crate::tool::{ReadError, Tool};

/// Reads reports of the file test.
pub(crate) const TOOL: Tool = Tool {
    name: "sysbench",
    title: "sysbench",
    about: "reports of 'sysbench fileio run' of 1.0 and 1.1, one or several in a file",
    looks_for: "a line that starts with 'sysbench 1.'",
    values: "operations/s and MiB/s; ms (lower is better)",
    repetition: "a report",
    recognise,
    read,
};

/// A test of sysbench.
struct Mode {
    /// The text in the report.
    text: &'static str,
    /// The name in `--file-test-mode`.
    name: &'static str,
    /// The operation that the test consists of; `None` if it both reads and writes.
    only: Option<&'static str>,
}

const fn mode(text: &'static str, name: &'static str, only: Option<&'static str>) -> Mode {
    Mode { text, name, only }
}

#[rustfmt::skip] // a table reads as one
static MODES: [Mode; 6] = [
    mode("sequential write (creation)", "seqwr", Some("write")),
    mode("sequential rewrite", "seqrewr", Some("write")),
    mode("sequential read", "seqrd", Some("read")),
    mode("random read", "rndrd", Some("read")),
    mode("random write", "rndwr", Some("write")),
    mode("random r/w", "rndrw", None),
];

/// The messages of sysbench 1.0 and 1.1. It ends the test at most errors, but not at those of
/// threads that run already.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Start("FATAL: "), Severity::Failure),
    (Pattern::Start("ALERT: "), Severity::Failure),
    (Pattern::Start("WARNING: "), Severity::Warning),
    (Pattern::Start("Number of unfinished transactions on forced shutdown"), Severity::Warning),
];

/// Lines of the header that are not part of the name, with the names of their settings.
static SETTINGS: [(&str, &str); 3] = [
    ("Warmup time: ", "warmup time"),
    ("Number of IO requests: ", "requests"),
    ("Calling fsync() at the end of test, ", "fsync() at the end"),
];

/// Lines of the header that are part of the name, with the form that they have there: the text
/// before the value and the text after it.
static NAMED: [(&str, &str, &str); 3] = [
    ("Target transaction rate: ", "at most ", ""),
    ("Validation checks: on.", "with validation", ""),
    (
        "Merging requests up to ",
        "merged up to ",
        " for sequential IO.",
    ),
];

/// The labels of 1.0, with operation and metric.
static RATES: [(&str, &str, MetricKind); 5] = [
    ("reads/s", "read", OPERATION_RATE),
    ("writes/s", "write", OPERATION_RATE),
    ("fsyncs/s", "fsync", OPERATION_RATE),
    ("read, MiB/s", "read", THROUGHPUT),
    ("written, MiB/s", "write", THROUGHPUT),
];

/// The labels of 1.1.
static OPERATIONS: [&str; 3] = ["read", "write", "fsync"];

/// Labels of latencies. The percentile is the one of `--percentile`, 95 unless another is given.
static LATENCIES: [(&str, MetricKind); 6] = [
    ("avg", LATENCY_MEAN),
    ("max", LATENCY_MAX),
    ("50th percentile", LATENCY_P50),
    ("90th percentile", LATENCY_P90),
    ("95th percentile", LATENCY_P95),
    ("99th percentile", LATENCY_P99),
];

const LATENCY_P95: MetricKind = MetricKind {
    name: "latency_p95",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Latency,
    about: "Time within which 95 of 100 operations finished.",
};

/// The operation of latencies, which sysbench prints for reads, writes and fsyncs together: its
/// events.
const EVENT: &str = "event";

/// The line of the default `--file-fsync-freq=100`.
const USUAL_SYNC: &str = "Periodic FSYNC enabled, calling fsync() each 100 requests.";

/// The default of `--file-rw-ratio`, as printed.
const USUAL_RATIO: &str = "1.50";

/// The resolution of a latency in seconds: two digits of a millisecond.
const RESOLUTION: f64 = 1e-5;

const MEBIBYTE: f64 = 1_048_576.0;

fn recognise(head: &[u8]) -> bool {
    head.strip_prefix("\u{feff}".as_bytes())
        .unwrap_or(head)
        .starts_with(b"sysbench 1.")
        || holds(head, b"\nsysbench 1.")
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut report = Report::new(None);
    while let Some(line) = lines.next()? {
        let text = line.text();
        let rest = text
            .strip_prefix("sysbench ")
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if let Some(rest) = rest {
            let version = rest.split_whitespace().next().map(str::to_owned);
            runs.push(std::mem::replace(&mut report, Report::new(version)).finish()?)?;
        } else {
            report.take(&line, &text)?;
        }
    }
    runs.push(report.finish()?)?;
    runs.finish(|| {
        "it holds no result of its file test; run sysbench fileio with the command 'run'".to_owned()
    })
}

/// One report while it is read.
struct Report {
    draft: Draft,
    threads: u64,
    files: u64,
    file_size: Option<u64>,
    record_size: Option<u64>,
    /// `synchronous`, `asynchronous`, `slow mmaped` or `fast mmaped`.
    backend: String,
    /// Settings that differ from the defaults of sysbench: flags of open, times of fsync, the share
    /// of reads.
    unusual: Vec<String>,
    syncs_periodically: bool,
    /// Whether an operation can be larger than the block.
    merges: bool,
    /// Set by the last line of the settings: results follow.
    workload: Option<String>,
    mode: Option<&'static Mode>,
    /// The rates of reads and writes as printed, with their lines, by operation and metric.
    printed: BTreeMap<(&'static str, &'static str), (f64, u32)>,
    /// Whether the last line of the latencies was read.
    complete: bool,
    last_line: u32,
}

impl Report {
    fn new(version: Option<String>) -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version = version;
        draft.run.clock_resolution = Some(RESOLUTION);
        Report {
            draft,
            threads: 1,
            files: 1,
            file_size: None,
            record_size: None,
            backend: String::new(),
            unusual: Vec::new(),
            syncs_periodically: false,
            merges: false,
            workload: None,
            mode: None,
            printed: BTreeMap::new(),
            complete: false,
            last_line: 0,
        }
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        self.last_line = line.number;
        if let Some(message) = message::find(MESSAGES, line) {
            message.report(None, &mut self.draft);
            return Ok(());
        }
        if self.workload.is_none() {
            self.setting(text);
            if self.workload.is_some() {
                self.draft.begin(line.number);
            }
            return Ok(());
        }
        let Some((label, value)) = text
            .split_once(':')
            .map(|(label, value)| (label, value.trim()))
        else {
            return Ok(());
        };
        if let Some((_, operation, metric)) = RATES.iter().find(|(known, ..)| *known == label) {
            let found_unit = label.rsplit(", ").next().unwrap_or(label);
            return self.rate(line, operation, metric, value, found_unit);
        }
        if let Some(operation) = OPERATIONS
            .iter()
            .find(|known| **known == label)
            .filter(|_| value.starts_with("IOPS="))
        {
            return self.rates(line, operation, value);
        }
        if let Some((_, metric)) = LATENCIES.iter().find(|(known, _)| *known == label) {
            let found = self
                .number(line, value)
                .map_or(Err(GapReason::Unreadable), |number| time(number / 1000.0));
            // Tests that only read have no other events.
            let reads = self
                .mode
                .and_then(|mode| mode.only)
                .filter(|only| *only == "read");
            return self.add(line, reads.unwrap_or(EVENT), metric, "ms", found);
        }
        self.complete |= label == "sum" && fixed(value, 2..=2).is_some();
        Ok(())
    }

    fn setting(&mut self, text: &str) {
        if let Some(threads) = text.strip_prefix("Number of threads: ") {
            self.threads = whole(threads.as_bytes()).unwrap_or(self.threads);
        } else if let Some(found) = text.strip_prefix("Block size ") {
            self.record_size = size(found);
        } else if let Some(backend) = text
            .strip_prefix("Using ")
            .and_then(|text| text.strip_suffix(" I/O mode"))
        {
            self.backend = backend.to_owned();
        } else if let Some(mode) = text
            .strip_prefix("Doing ")
            .and_then(|text| text.strip_suffix(" test"))
        {
            self.mode = MODES.iter().find(|known| known.text == mode);
            self.workload = Some(self.name());
        } else if let Some((files, each)) = text
            .strip_suffix(" each")
            .and_then(|text| text.split_once(" files, "))
        {
            self.files = whole(files.as_bytes()).unwrap_or(self.files);
            self.file_size = size(each);
        } else if let Some((start, name)) =
            SETTINGS.iter().find(|(start, _)| text.starts_with(start))
        {
            self.draft
                .setting(None, name, text[start.len()..].trim_end_matches('.'));
        } else {
            self.unusual(text);
        }
    }

    /// Takes a line of the header about a setting that is part of the name if it differs from the
    /// default.
    fn unusual(&mut self, text: &str) {
        if let Some((start, before, after)) =
            NAMED.iter().find(|(start, ..)| text.starts_with(start))
        {
            self.merges |= start.starts_with("Merging");
            self.unusual.push(format!(
                "{before}{}",
                text[start.len()..].trim_end_matches(after)
            ));
        } else if let Some(flags) = text
            .strip_prefix("Extra file open flags: ")
            .filter(|flags| *flags != "(none)")
        {
            self.unusual.push(flags.to_owned());
        } else if text.starts_with("Periodic FSYNC enabled") {
            self.syncs_periodically = true;
            if text != USUAL_SYNC {
                let sync = text
                    .trim_start_matches("Periodic FSYNC enabled, calling ")
                    .trim_end_matches('.');
                self.unusual.push(sync.to_owned());
            }
        } else if text.starts_with("Calling fsync() after each write") {
            self.unusual.push("fsync() after each write".to_owned());
        } else if let Some(ratio) = text
            .strip_prefix("Read/Write ratio for combined random IO test: ")
            .filter(|ratio| *ratio != USUAL_RATIO)
        {
            self.unusual.push(format!("{ratio} reads per write"));
        }
    }

    /// Returns the name of the workload. sysbench prints no command line, so that the settings are
    /// part of it.
    fn name(&self) -> String {
        let Report {
            threads,
            files,
            backend,
            ..
        } = self;
        let mode = self.mode.map_or("mixed", |mode| mode.name);
        let mut name = format!("{mode}, {threads} threads, {files} files, {backend}");
        if !self.syncs_periodically {
            name += ", no periodic fsync()";
        }
        self.unusual
            .iter()
            .for_each(|setting| name += &format!(", {setting}"));
        name
    }

    fn finish(mut self) -> Result<Draft, ReadError> {
        if self.draft.has_values() && !self.complete {
            self.draft.remark(
                None,
                ends_early(TOOL.name, "the line 'sum:' of the latencies"),
            );
        }
        self.missing_rates()?;
        self.check_mode();
        for operation in ["read", "write"] {
            self.check_bytes(operation);
        }
        Ok(self.draft)
    }

    /// Adds gaps for rates of the test that the report does not have. Version 1.0 prints them
    /// before the latencies.
    fn missing_rates(&mut self) -> Result<(), ReadError> {
        let Some(mode) = self.mode.filter(|_| self.draft.has_values()) else {
            return Ok(());
        };
        let operations: &[&str] = mode
            .only
            .as_ref()
            .map_or(&["read", "write"], std::slice::from_ref);
        for operation in operations {
            let is_known = self.draft.run.series.iter().any(|series| {
                series.operation == *operation && series.metric == OPERATION_RATE.name
            });
            if !is_known {
                let place = Position {
                    file_size: self.file_size,
                    record_size: self.record_size,
                    line: self.last_line,
                };
                let name = Name {
                    workload: self.workload.as_deref(),
                    operation,
                };
                self.draft
                    .add(name, &OPERATION_RATE, "IOPS", place, Err(GapReason::Failed))?;
            }
        }
        Ok(())
    }

    /// Adds a remark if the counters contradict the test: reads in a test that writes, or no
    /// operation of the test.
    fn check_mode(&mut self) {
        let Some((mode, only)) = self.mode.and_then(|mode| Some((mode.name, mode.only?))) else {
            return;
        };
        for ((operation, metric), (value, line)) in &self.printed {
            if *metric != OPERATION_RATE.name || (*value > 0.0) == (*operation == only) {
                continue;
            }
            let verb = if only == "read" { "reads" } else { "writes" };
            let text =
                format!("{value} {operation}s/s contradict the test {mode}, which only {verb}");
            self.draft.remark(*line, text);
        }
    }

    /// Adds a remark if the operations times the block are not the bytes.
    fn check_bytes(&mut self, operation: &'static str) {
        let [operations, bytes] =
            [OPERATION_RATE, THROUGHPUT].map(|metric| self.printed.get(&(operation, metric.name)));
        let found = operations
            .zip(bytes)
            .zip(self.record_size)
            .filter(|_| !self.merges);
        let Some(((&(operations, _), &(mebibytes, line)), block)) = found else {
            return;
        };
        let expected = operations * block as f64 / MEBIBYTE;
        if (expected - mebibytes).abs() > 0.02 * expected + 0.01 {
            let text = format!(
                "{operations} {operation}s/s of {block} bytes are {expected:.2} MiB/s, but sysbench prints {mebibytes} MiB/s"
            );
            self.draft.remark(line, text);
        }
    }

    /// Reads `IOPS=6820.29 106.57 MiB/s (111.74 MB/s)` of 1.1; fsyncs have no bytes.
    fn rates(&mut self, line: &Line, operation: &'static str, text: &str) -> Result<(), ReadError> {
        let mut words = text.split_whitespace();
        let operations = words
            .next()
            .and_then(|word| word.strip_prefix("IOPS="))
            .unwrap_or_default();
        self.rate(line, operation, &OPERATION_RATE, operations, "IOPS")?;
        match (words.next(), words.next()) {
            (Some(bytes), Some("MiB/s")) => self.rate(line, operation, &THROUGHPUT, bytes, "MiB/s"),
            _ => Ok(()),
        }
    }

    fn rate(
        &mut self,
        line: &Line,
        operation: &'static str,
        metric: &MetricKind,
        text: &str,
        unit: &str,
    ) -> Result<(), ReadError> {
        let Some(number) = self.number(line, text) else {
            return self.add(line, operation, metric, unit, Err(GapReason::Unreadable));
        };
        if operation != "fsync" {
            self.printed
                .entry((operation, metric.name))
                .or_insert((number, line.number));
        }
        // Each test prints all three operations. Those that are not part of it are zero.
        let is_part = self.mode.is_some_and(|mode| mode.only == Some(operation));
        if number == 0.0 && !is_part {
            return Ok(());
        }
        let factor = if metric.unit == Unit::BytesPerSecond {
            MEBIBYTE
        } else {
            1.0
        };
        self.add(line, operation, metric, unit, rate(number * factor))
    }

    fn number(&mut self, line: &Line, text: &str) -> Option<f64> {
        let Some(number) = fixed(text, 2..=2) else {
            let text = format!("no number with two digits, left out: '{}'", line.excerpt());
            self.draft.remark(line.number, text);
            return None;
        };
        if number.comma {
            self.draft
                .remark_once(line.number, "numbers have a decimal comma; read as such");
        }
        Some(number.value)
    }

    fn add(
        &mut self,
        line: &Line,
        operation: &str,
        metric: &MetricKind,
        unit: &str,
        value: Result<f64, GapReason>,
    ) -> Result<(), ReadError> {
        let place = Position {
            file_size: self.file_size,
            record_size: self.record_size,
            line: line.number,
        };
        self.draft.add(
            Name {
                workload: self.workload.as_deref(),
                operation,
            },
            metric,
            unit,
            place,
            value,
        )
    }
}

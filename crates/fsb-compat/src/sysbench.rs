//! sysbench 1.x: the report of its file test, `sysbench fileio run`.

use std::io::BufRead;

use fsb_model::metric::{
    Better, LATENCY_MAX, LATENCY_MEAN, LATENCY_P50, LATENCY_P90, LATENCY_P99, MetricKind, OPERATION_RATE, Role,
    THROUGHPUT, Unit,
};
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate, time};
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

/// The text of a test in the report, and its name in `--file-test-mode`.
#[rustfmt::skip] // a table reads as one
static MODES: [(&str, &str); 6] = [
    ("sequential write (creation)", "seqwr"),
    ("sequential rewrite", "seqrewr"),
    ("sequential read", "seqrd"),
    ("random read", "rndrd"),
    ("random write", "rndwr"),
    ("random r/w", "rndrw"),
];

/// The labels of 1.0, with operation and metric.
static RATES: [(&str, &str, MetricKind); 5] = [
    ("reads/s", "read", OPERATION_RATE),
    ("writes/s", "write", OPERATION_RATE),
    ("fsyncs/s", "fsync", OPERATION_RATE),
    ("read, MiB/s", "read", THROUGHPUT),
    ("written, MiB/s", "write", THROUGHPUT),
];

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

/// The operation of latencies, which sysbench prints for reads, writes and fsyncs together: its events.
const EVENT: &str = "event";

/// The line of the default `--file-fsync-freq=100`.
const USUAL_SYNC: &str = "Periodic FSYNC enabled, calling fsync() each 100 requests.";

/// The default of `--file-rw-ratio`, as printed.
const USUAL_RATIO: &str = "1.50";

/// The resolution of a latency in seconds: two digits of a millisecond.
const RESOLUTION: f64 = 1e-5;

const MEBIBYTE: f64 = 1_048_576.0;

fn recognise(head: &[u8]) -> bool {
    head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head).starts_with(b"sysbench 1.")
        || holds(head, b"\nsysbench 1.")
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut report = Report::new(None);
    while let Some(line) = lines.next()? {
        let text = line.text();
        let rest = text.strip_prefix("sysbench ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if let Some(rest) = rest {
            let version = rest.split_whitespace().next().map(str::to_owned);
            runs.push(std::mem::replace(&mut report, Report::new(version)).draft)?;
        } else {
            report.take(&line, &text)?;
        }
    }
    runs.push(report.draft)?;
    runs.finish(|| "it holds no result of its file test; run sysbench fileio with the command 'run'".to_owned())
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
    /// Settings that differ from the defaults of sysbench: flags of open, times of fsync, the share of reads.
    unusual: Vec<String>,
    syncs_periodically: bool,
    /// Set by the last line of the settings: results follow.
    workload: Option<String>,
}

impl Report {
    fn new(version: Option<String>) -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version = version;
        draft.run.clock_resolution = Some(RESOLUTION);
        let (file_size, record_size, backend, workload) = (None, None, String::new(), None);
        let (unusual, syncs_periodically) = (Vec::new(), false);
        Report { draft, threads: 1, files: 1, file_size, record_size, backend, unusual, syncs_periodically, workload }
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        if self.workload.is_none() {
            self.setting(text);
            return Ok(());
        }
        let Some((label, value)) = text.split_once(':').map(|(label, value)| (label, value.trim())) else {
            return Ok(());
        };
        if let Some((_, operation, metric)) = RATES.iter().find(|(known, ..)| *known == label) {
            let found_unit = label.rsplit(", ").next().unwrap_or(label);
            return self.rate(line, operation, metric, value, found_unit);
        }
        if ["read", "write", "fsync"].contains(&label) && value.starts_with("IOPS=") {
            return self.rates(line, label, value);
        }
        if let Some((_, metric)) = LATENCIES.iter().find(|(known, _)| *known == label) {
            let Some(number) = fixed(value, 2..=2) else { return self.odd(line) };
            return self.add(line, EVENT, metric, "ms", time(number.value / 1000.0));
        }
        Ok(())
    }

    fn setting(&mut self, text: &str) {
        let known = |found: &str| MODES.iter().find(|(known, _)| *known == found).map_or("mixed", |(_, name)| name);
        if let Some(threads) = text.strip_prefix("Number of threads: ") {
            self.threads = whole(threads.as_bytes()).unwrap_or(self.threads);
        } else if let Some(found) = text.strip_prefix("Block size ") {
            self.record_size = size(found);
        } else if let Some(backend) = text.strip_prefix("Using ").and_then(|text| text.strip_suffix(" I/O mode")) {
            self.backend = backend.to_owned();
        } else if let Some(flags) = text.strip_prefix("Extra file open flags: ").filter(|flags| *flags != "(none)") {
            self.unusual.push(flags.to_owned());
        } else if text.starts_with("Periodic FSYNC enabled") {
            self.syncs_periodically = true;
            if text != USUAL_SYNC {
                self.unusual
                    .push(text.trim_start_matches("Periodic FSYNC enabled, calling ").trim_end_matches('.').to_owned());
            }
        } else if text.starts_with("Calling fsync() after each write") {
            self.unusual.push("fsync() after each write".to_owned());
        } else if let Some(ratio) = text.strip_prefix("Read/Write ratio for combined random IO test: ") {
            if ratio != USUAL_RATIO {
                self.unusual.push(format!("{ratio} reads per write"));
            }
        } else if let Some(mode) = text.strip_prefix("Doing ").and_then(|text| text.strip_suffix(" test")) {
            let Report { threads, files, backend, .. } = self;
            // sysbench prints no command line, so that the settings are part of the name.
            let mut name = format!("{}, {threads} threads, {files} files, {backend}", known(mode));
            if !self.syncs_periodically {
                name += ", no periodic fsync()";
            }
            self.unusual.iter().for_each(|setting| name += &format!(", {setting}"));
            self.workload = Some(name);
        } else if let Some((files, each)) = text.strip_suffix(" each").and_then(|text| text.split_once(" files, ")) {
            self.files = whole(files.as_bytes()).unwrap_or(self.files);
            self.file_size = size(each);
        }
    }

    /// Reads `IOPS=6820.29 106.57 MiB/s (111.74 MB/s)` of 1.1; fsyncs have no bytes.
    fn rates(&mut self, line: &Line, operation: &str, text: &str) -> Result<(), ReadError> {
        let mut words = text.split_whitespace();
        let operations = words.next().and_then(|word| word.strip_prefix("IOPS=")).unwrap_or_default();
        self.rate(line, operation, &OPERATION_RATE, operations, "IOPS")?;
        match (words.next(), words.next()) {
            (Some(bytes), Some("MiB/s")) => self.rate(line, operation, &THROUGHPUT, bytes, "MiB/s"),
            _ => Ok(()),
        }
    }

    fn rate(
        &mut self,
        line: &Line,
        operation: &str,
        metric: &MetricKind,
        text: &str,
        unit: &str,
    ) -> Result<(), ReadError> {
        let Some(number) = fixed(text, 2..=2) else { return self.odd(line) };
        let factor = if metric.unit == Unit::BytesPerSecond { MEBIBYTE } else { 1.0 };
        // Each test prints all three operations. Those that are not part of it are zero.
        if number.value > 0.0 { self.add(line, operation, metric, unit, rate(number.value * factor)) } else { Ok(()) }
    }

    fn add(
        &mut self,
        line: &Line,
        operation: &str,
        metric: &MetricKind,
        unit: &str,
        value: Result<f64, fsb_model::set::GapReason>,
    ) -> Result<(), ReadError> {
        let place = Position { file_size: self.file_size, record_size: self.record_size, line: line.number };
        self.draft.add(Name { workload: self.workload.as_deref(), operation }, metric, unit, place, value)
    }

    fn odd(&mut self, line: &Line) -> Result<(), ReadError> {
        self.draft.remark(line.number, format_args!("no number with two digits, left out: '{}'", line.excerpt()));
        Ok(())
    }
}

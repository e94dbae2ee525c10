//! dbench and tbench 3.x and 4.0: the throughput, and the table of operations with their times.

use std::io::BufRead;

use fsb_model::metric::{LATENCY_MAX, LATENCY_MEAN, MetricKind, THROUGHPUT};
use fsb_model::set::{GapReason, Run};

use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::message::{self, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, fixed, holds, whole};
use crate::tool::{ReadError, Tool};

/// Reads reports of dbench and of tbench, which prints the name of dbench.
pub(crate) const TOOL: Tool = Tool {
    name: "dbench",
    title: "dbench",
    about: "reports of dbench and tbench 3.x and 4.0: throughput, and mean times of operations",
    looks_for: "the banner 'dbench version 4.00'",
    values: "MB/s of 10⁶ bytes; ms per operation (lower is better)",
    repetition: "a report",
    recognise,
    read,
};

/// The operation of the throughput: the whole load file.
const LOAD: &str = "load";

/// The resolution of a time in seconds: three digits of a millisecond.
const RESOLUTION: f64 = 1e-6;

/// The messages of dbench and tbench 3.x and 4.0. A client of 4.0 ends after most errors, one of
/// 3.x continues.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    // [3] open … failed for handle 16385 (…)
    (Pattern::Part(" failed for handle "), Severity::Failure),
    (Pattern::Part(" failed on handle "), Severity::Failure),
    // [3] read 0 bytes, expected 4096
    (Pattern::Part(" bytes, expected "), Severity::Failure),
    (Pattern::Part(") ERROR: "), Severity::Failure),
    (Pattern::Start("Child failed with status "), Severity::Failure),
    (Pattern::Start("failed to "), Severity::Warning),
];

fn recognise(head: &[u8]) -> bool {
    holds(head, b"dbench version ")
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut report = Report::new(None);
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(rest) = text.strip_prefix("dbench version ") {
            let version = rest.split(' ').next().map(str::to_owned);
            std::mem::replace(&mut report, Report::new(version)).finish(&mut runs)?;
        } else {
            report.take(&line, &text)?;
        }
    }
    report.finish(&mut runs)?;
    runs.finish(|| "it holds no line 'Throughput …': dbench was stopped before its end".to_owned())
}

/// A row of the table of operations, until the last line gives the name of the work.
struct Row {
    operation: String,
    mean: f64,
    longest: f64,
    line: u32,
}

/// One report while it is read.
struct Report {
    draft: Draft,
    load: Option<String>,
    rows: Vec<Row>,
    in_table: bool,
    /// Whether the table of all clients has ended: tables of single clients follow.
    has_table: bool,
    is_complete: bool,
}

impl Report {
    fn new(version: Option<String>) -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version = version;
        draft.run.clock_resolution = Some(RESOLUTION);
        Report {
            draft,
            load: None,
            rows: Vec::new(),
            in_table: false,
            has_table: false,
            is_complete: false,
        }
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        if let Some(rest) = text.strip_prefix("Throughput ") {
            return self.throughput(line, rest);
        }
        if let Some(rest) = text.strip_prefix("Running for ") {
            self.draft.begin(line.number);
            self.settings(rest);
        } else if text.starts_with("Operation ") && text.ends_with("MaxLat") {
            (self.in_table, self.has_table) = (!self.has_table, true);
        } else if text.is_empty() {
            self.in_table = false;
        } else if self.in_table && !text.starts_with("---") {
            self.row(line, text);
        } else if is_numbered_failure(text) {
            self.draft.fail(line.number, None, line.message());
        } else if let Some(message) = message::find(MESSAGES, line) {
            message.report(None, &mut self.draft);
        }
        Ok(())
    }

    /// Reads `2 seconds with load '/usr/share/dbench/client.txt' and minimum warmup 0 secs`.
    fn settings(&mut self, text: &str) {
        if let Some((seconds, _)) = text.split_once(" seconds") {
            self.draft.setting(None, "timelimit", seconds);
        }
        let load = text
            .split('\'')
            .nth(1)
            .map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
        self.load = load.filter(|name| !name.is_empty());
        if let Some((_, warmup)) = text.split_once("minimum warmup ") {
            self.draft
                .setting(None, "warmup", warmup.trim_end_matches(" secs"));
        }
    }

    /// Reads `WriteX          1177     0.053    12.153`.
    fn row(&mut self, line: &Line, text: &str) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let row = match fields[..] {
            [operation, count, mean, longest] if line.ended => {
                let numbers = (
                    whole(count.as_bytes()),
                    fixed(mean, 3..=3),
                    fixed(longest, 3..=3),
                );
                match numbers {
                    (Some(_), Some(mean), Some(longest)) => Some(Row {
                        operation: operation.to_owned(),
                        mean: mean.value,
                        longest: longest.value,
                        line: line.number,
                    }),
                    _ => None,
                }
            }
            _ => None,
        };
        match row {
            Some(row) => self.rows.push(row),
            None => self.draft.remark(
                line.number,
                format_args!("no row of the table, left out: '{}'", line.excerpt()),
            ),
        }
    }

    /// Reads `228.377 MB/sec (sync dirs)  2 clients  2 procs  max_latency=40.074 ms`; 3.x ends with
    /// the processes.
    fn throughput(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        let (rate_text, rest) = text.split_once(" MB/sec").unwrap_or((text, ""));
        let (before, longest) = rest
            .split_once("max_latency=")
            .map_or((rest, None), |(before, rest)| (before, Some(rest)));
        let words: Vec<&str> = before.split_whitespace().collect();
        let count = |unit: &str| {
            words
                .iter()
                .position(|word| *word == unit)
                .and_then(|at| words.get(at.checked_sub(1)?))
        };
        let clients = count("clients")
            .or(count("procs"))
            .and_then(|count| whole(count.as_bytes()));
        let is_whole = text.ends_with(" ms") || text.ends_with(" procs");
        let (Some(number), Some(clients), true) = (general(rate_text), clients, is_whole) else {
            self.draft.remark(
                line.number,
                format_args!("no throughput, left out: '{}'", line.excerpt()),
            );
            let workload = clients
                .map(|clients| self.workload(clients, before))
                .unwrap_or_default();
            return self.add(
                &workload,
                LOAD,
                &THROUGHPUT,
                "MB/sec",
                line.number,
                Err(GapReason::Unreadable),
            );
        };
        self.is_complete = true;
        let workload = self.workload(clients, before);
        // dbench divides bytes by 10⁶.
        self.add(
            &workload,
            LOAD,
            &THROUGHPUT,
            "MB/sec",
            line.number,
            rate(number * 1e6),
        )?;
        if let Some(longest) = longest.and_then(|text| fixed(text.trim_end_matches(" ms"), 3..=3)) {
            self.add(
                &workload,
                LOAD,
                &LATENCY_MAX,
                "ms",
                line.number,
                time(longest.value / 1e3),
            )?;
        }
        for row in std::mem::take(&mut self.rows) {
            self.add(
                &workload,
                &row.operation,
                &LATENCY_MEAN,
                "ms",
                row.line,
                time(row.mean / 1e3),
            )?;
            self.add(
                &workload,
                &row.operation,
                &LATENCY_MAX,
                "ms",
                row.line,
                time(row.longest / 1e3),
            )?;
        }
        Ok(())
    }

    /// Returns the clients, the flags in the line of the throughput, and a load file other than the
    /// usual one.
    fn workload(&self, clients: u64, line: &str) -> String {
        let mut workload = format!("{clients} client{}", if clients == 1 { "" } else { "s" });
        for flag in ["sync open", "sync dirs"] {
            if line.contains(flag) {
                workload += &format!(", {flag}");
            }
        }
        if let Some(load) = self.load.as_ref().filter(|load| *load != "client.txt") {
            workload += &format!(", {load}");
        }
        workload
    }

    fn add(
        &mut self,
        workload: &str,
        operation: &str,
        metric: &MetricKind,
        unit: &str,
        line: u32,
        value: Result<f64, GapReason>,
    ) -> Result<(), ReadError> {
        let name = Name {
            workload: Some(workload),
            operation,
        };
        self.draft.add(
            name,
            metric,
            unit,
            Position {
                line,
                ..Position::default()
            },
            value,
        )
    }

    fn finish(mut self, runs: &mut Runs) -> Result<(), ReadError> {
        if !self.is_complete && self.load.is_some() {
            self.draft
                .remark(None, ends_early(TOOL.name, "the line 'Throughput …'"));
        }
        runs.push(self.draft)
    }
}

/// Returns whether a client reports that its operation failed: `[3] unlink … failed (…) - expected
/// …`.
fn is_numbered_failure(text: &str) -> bool {
    text.starts_with('[') && text.contains(" failed ")
}

/// Parses a number of C's `%g`: `228.377`, `1270`, `1.23457e+06`.
fn general(text: &str) -> Option<f64> {
    let shaped = text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".e+-".contains(&byte));
    shaped.then(|| text.parse().ok()).flatten()
}

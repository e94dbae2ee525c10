//! pgbench of PostgreSQL 9.x to 18: its final report with the statistics of scripts and statements,
//! its progress lines, and its logs.

mod log;

use std::collections::HashMap;
use std::io::BufRead;

use fsb_model::metric::{Better, LATENCY_MEAN, MetricKind, OPERATION_RATE, Role, Unit};
use fsb_model::set::{GapReason, Run};

use self::log::{MOST_FAILED, NAME, TRANSACTION};
use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::message::{self, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, fixed, holds, shortened, whole};
use crate::tool::{ReadError, Tool};

/// Reads reports and logs of pgbench.
pub(crate) const TOOL: Tool = Tool {
    name: NAME,
    title: "pgbench",
    about: "final reports of 9.x to 18 (-r, several scripts), -P lines alone, and --log files",
    looks_for: "the lines 'transaction type: …' or 'progress: … tps', or the columns of a log",
    values: "transactions/s without connecting; ms, in logs µs (lower is better)",
    repetition: "a report, or the log of an execution",
    recognise,
    read,
};

/// The start of an execution's output, since 14.
const BANNER: &str = "pgbench (";

/// The first line on stderr of an execution without `-n`.
const VACUUM: &str = "starting vacuum...";

/// The first line of a report.
const TRANSACTION_TYPE: &str = "transaction type: ";

/// The number of characters of a statement in its name.
const LONGEST_STATEMENT: usize = 60;

/// The rate of 9.x to 13 that includes the time of connecting.
const RATE_WITH_CONNECTIONS: MetricKind = MetricKind {
    name: "operation_rate_with_connections",
    unit: Unit::OperationsPerSecond,
    better: Better::Higher,
    role: Role::Cost,
    about: "Transactions per second, with the time of the first connections.",
};

const LATENCY_DEVIATION: MetricKind = MetricKind {
    name: "latency_stddev",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Cost,
    about: "Standard deviation of the times of single operations.",
};

const CONNECTION_TIME: MetricKind = MetricKind {
    name: "connection_time",
    about: "Time of connecting to the server: of all clients at the start, or the mean of a connection.",
    ..LATENCY_DEVIATION
};

const SCHEDULE_LAG: MetricKind = MetricKind {
    name: "schedule_lag_mean",
    about: "Mean time from the scheduled to the real start of a transaction.",
    ..LATENCY_DEVIATION
};

/// The times of a report, without their `average = ` and unit.
static TIMES: [(&str, MetricKind); 4] = [
    ("latency average", LATENCY_MEAN),
    ("latency stddev", LATENCY_DEVIATION),
    ("initial connection time", CONNECTION_TIME),
    ("average connection time", CONNECTION_TIME),
];

/// The settings of a report that change the work but do not name it.
static SETTINGS: [&str; 6] = [
    "number of threads",
    "number of transactions per client",
    "duration",
    "maximum number of tries",
    "partition method",
    "partitions",
];

/// Messages about a client or the run that ended before its time. Until 11 they have no prefix.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Start("pgbench: error: "), Severity::Failure),
    (Pattern::Start("pgbench: fatal: "), Severity::Failure),
    (Pattern::Start("pgbench: warning: "), Severity::Warning),
    (Pattern::Start("Run was aborted"), Severity::Failure),
    (Pattern::Start("pgbench: Run was aborted"), Severity::Failure),
    (Pattern::Start("connection to server at "), Severity::Failure),
    (Pattern::Start("connection to database "), Severity::Failure),
    // Client 1 aborted in command 0: until 11 without a prefix.
    (Pattern::Part(" aborted in "), Severity::Failure),
];

/// Characters of the name of a script.
const LONGEST_SCRIPT: usize = 100;

/// Scripts that a setting names.
const MOST_SCRIPTS: usize = 20;

fn recognise(head: &[u8]) -> bool {
    let report = holds(head, b"transaction type: ") && holds(head, b"scaling factor: ");
    let start = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let banner = [&b"pgbench ("[..], b"pgbench: error: ", b"pgbench: fatal: "]
        .iter()
        .any(|text| start.starts_with(text));
    report
        || banner
        || log::recognise(head)
        || head
            .split(|byte| *byte == b'\n')
            .take(100)
            .any(|line| line.starts_with(b"progress: ") && holds(line, b" tps, lat "))
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(NAME);
    let mut report = Report::new(None);
    let mut is_first = true;
    while let Some(line) = lines.next()? {
        if std::mem::take(&mut is_first) && log::is_line(line.bytes) {
            let first = line.bytes.to_vec();
            return log::read(&first, &mut lines, runs);
        }
        let text = line.text();
        if report.ends_before(&text) {
            let version = report.draft.run.version.clone();
            std::mem::replace(&mut report, Report::new(version)).finish(&mut runs)?;
        }
        report.take(&line, &text)?;
    }
    report.finish(&mut runs)?;
    runs.finish(|| "it holds no final report and no progress lines: the run did not end".to_owned())
}

/// One report while it is read.
struct Report {
    draft: Draft,
    /// `TPC-B (sort of)`, or the name of a script.
    script: Option<String>,
    scale: Option<String>,
    clients: Option<String>,
    mode: Option<String>,
    reconnects: bool,
    /// The script whose statistics follow, if the report has several.
    section: Option<String>,
    scripts: Vec<String>,
    more_scripts: usize,
    in_statements: bool,
    /// The number of occurrences of a statement, by script.
    statements: HashMap<(Option<String>, String), usize>,
    has_rate: bool,
    has_banner: bool,
    has_vacuum: bool,
    /// The last line of the report so far.
    last_line: u32,
    /// Seconds and transactions of the progress lines, and the line of the last one.
    progress: Progress,
}

/// The sum of the progress lines.
#[derive(Default)]
struct Progress {
    end: f64,
    seconds: f64,
    transactions: f64,
    line: u32,
    count: usize,
}

impl Report {
    fn new(version: Option<String>) -> Self {
        let mut draft = Draft::new(NAME);
        draft.run.version = version;
        draft.run.clock_resolution = Some(1e-6);
        Report {
            draft,
            script: None,
            scale: None,
            clients: None,
            mode: None,
            reconnects: false,
            section: None,
            scripts: Vec::new(),
            more_scripts: 0,
            in_statements: false,
            statements: HashMap::new(),
            has_rate: false,
            has_banner: false,
            has_vacuum: false,
            last_line: 0,
            progress: Progress::default(),
        }
    }

    /// Returns whether this line starts another report. Versions before 14 do not print a banner.
    /// In a file of both outputs, lines of stderr can precede the banner and the report of their
    /// execution.
    fn ends_before(&self, text: &str) -> bool {
        let has_report = self.has_rate || self.script.is_some();
        if text.starts_with(BANNER) {
            return self.has_banner || has_report;
        }
        if text.starts_with(VACUUM) {
            return self.has_vacuum || has_report || !self.draft.run.failures.is_empty();
        }
        match text.strip_prefix("progress: ") {
            Some(found) => has_report || self.progress.falls(found),
            None => text.starts_with(TRANSACTION_TYPE) && has_report,
        }
    }

    /// Takes a line that an execution prints when it starts. Returns whether it is one.
    fn start(&mut self, line: &Line, text: &str) -> bool {
        if let Some(version) = text.strip_prefix(BANNER) {
            self.has_banner = true;
            let version = version
                .split([' ', ')'])
                .next()
                .filter(|version| !version.is_empty());
            self.draft.run.version = version.map(str::to_owned);
        } else if text.starts_with(VACUUM) {
            self.has_vacuum = true;
        } else if let Some(found) = text.strip_prefix(TRANSACTION_TYPE) {
            self.script = Some(script_name(found));
        } else if let Some(found) = text.strip_prefix("progress: ") {
            self.progress.take(line, found);
        } else {
            return false;
        }
        // pgbench -i, which prepares the tables, prints none of these.
        self.draft.begin(line.number);
        true
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        self.last_line = line.number;
        let is_indented = line.bytes.starts_with(b" ") || line.bytes.starts_with(b"\t");
        if self.in_statements && is_indented {
            return self.statement(line, text);
        }
        if self.start(line, text) {
            return Ok(());
        }
        if let Some(message) = message::find(MESSAGES, line) {
            message.report(None, &mut self.draft);
        } else if let Some(found) = text.strip_prefix("SQL script ") {
            let name = found.split_once(": ").map_or(found, |(_, name)| name);
            (self.section, self.in_statements) = (Some(script_name(name)), false);
        } else if text.contains("statement latencies in milliseconds") {
            self.in_statements = true;
        } else {
            return self.fact(line, text.trim_start_matches("- "));
        }
        Ok(())
    }

    /// Reads a line of the report such as `scaling factor: 1` or `latency average = 3.877 ms`.
    fn fact(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        if let Some(found) = text.strip_prefix("tps = ") {
            return self.rate(line, found);
        }
        if let Some((label, value)) = text.split_once(" = ").or_else(|| text.split_once(": ")) {
            if let Some((_, metric)) = TIMES.iter().find(|(known, _)| *known == label) {
                return self.time(line, metric, value);
            }
            if label == "rate limit schedule lag" {
                let mean = value
                    .strip_prefix("avg ")
                    .and_then(|value| value.split_once(' '))
                    .map(|(mean, _)| mean);
                return self.time(
                    line,
                    &SCHEDULE_LAG,
                    &format!("{} ms", mean.unwrap_or_default()),
                );
            }
            self.label(line, label, value);
        }
        if let Some((_, rest)) = text
            .split_once(" transactions (")
            .filter(|_| self.section.is_some())
        {
            let found = rest
                .split_once("tps = ")
                .and_then(|(_, rest)| rest.strip_suffix(')'))
                .unwrap_or_default();
            return self.number(line, &OPERATION_RATE, "tps", found, 1.0);
        }
        Ok(())
    }

    fn label(&mut self, line: &Line, label: &str, value: &str) {
        let place = match label {
            "scaling factor" => &mut self.scale,
            "number of clients" => &mut self.clients,
            "query mode" => &mut self.mode,
            "weight" => {
                let weight = value.split(' ').next().unwrap_or_default();
                match self.scripts.len() {
                    MOST_SCRIPTS => self.more_scripts += 1,
                    _ => self.scripts.push(format!(
                        "{}@{weight}",
                        self.section.as_deref().unwrap_or_default()
                    )),
                }
                return;
            }
            "number of failed transactions" | "number of transactions skipped"
                if self.section.is_none() =>
            {
                return self.share(line, label, value);
            }
            _ if label.starts_with("number of transactions above the ")
                && self.section.is_none() =>
            {
                return self.share(line, label, value);
            }
            _ => {
                if SETTINGS.contains(&label) {
                    self.draft.setting(None, label, value);
                }
                return;
            }
        };
        *place = Some(value.to_owned());
    }

    /// Remarks on transactions that failed, were skipped or took too long: `953 (58.395%)`,
    /// `125/164 (76.220%)`. If more than `MOST_FAILED` failed, the run did other work than its
    /// script and is not judged.
    fn share(&mut self, line: &Line, label: &str, value: &str) {
        let count = value
            .split([' ', '/'])
            .next()
            .and_then(|count| whole(count.as_bytes()));
        if label.starts_with("number of transactions above the ") {
            let limit = label
                .trim_start_matches("number of transactions above the ")
                .trim_end_matches(" latency limit");
            self.draft.setting(None, "latency limit", limit);
        }
        let percent = value
            .split_once('(')
            .and_then(|(_, share)| share.split_once('%')?.0.parse::<f64>().ok());
        if label == "number of failed transactions"
            && percent.is_some_and(|share| share > MOST_FAILED)
        {
            let text = format!("failed transactions: {value}, more than {MOST_FAILED} %");
            self.draft.fail(line.number, None, text);
        } else if count.is_some_and(|count| count > 0) {
            let note = match label {
                "number of failed transactions" => {
                    "; tps counts the others, the mean latency counts all"
                }
                "number of transactions skipped" => "; tps counts the others",
                _ => "",
            };
            self.draft.remark(
                line.number,
                format_args!("{}: {value}{note}", label.trim_start_matches("number of ")),
            );
        }
    }

    /// Reads `257.932422 (including reconnection times)`.
    fn rate(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        let Some((number, kind)) = text.split_once(" (").filter(|_| text.ends_with(')')) else {
            self.odd(line);
            return Ok(());
        };
        self.has_rate = true;
        let metric = match kind.trim_end_matches(')') {
            "including connections establishing" => RATE_WITH_CONNECTIONS,
            "including reconnection times" => {
                self.reconnects = true;
                OPERATION_RATE
            }
            "excluding connections establishing" | "without initial connection time" => {
                OPERATION_RATE
            }
            _ => {
                self.odd(line);
                return Ok(());
            }
        };
        self.number(line, &metric, "tps", number, 1.0)
    }

    /// Reads `3.877 ms`, in 15 and later with ` (including failures)`.
    fn time(&mut self, line: &Line, metric: &MetricKind, text: &str) -> Result<(), ReadError> {
        let number = text
            .split_once(" ms")
            .map(|(number, _)| number)
            .unwrap_or_default();
        self.number(line, metric, "ms", number, 1e-3)
    }

    fn number(
        &mut self,
        line: &Line,
        metric: &MetricKind,
        unit: &str,
        text: &str,
        factor: f64,
    ) -> Result<(), ReadError> {
        let value = match fixed(text, 3..=6).map(|number| number.value * factor) {
            Some(value) if metric.unit == Unit::Seconds => time(value),
            Some(value) => rate(value),
            None => {
                self.odd(line);
                Err(GapReason::Unreadable)
            }
        };
        let workload = self.workload();
        let name = Name {
            workload: Some(&workload),
            operation: TRANSACTION,
        };
        self.draft.add(
            name,
            metric,
            unit,
            Position {
                line: line.number,
                ..Position::default()
            },
            value,
        )
    }

    /// Reads a line of `-r`: the mean time of a statement, since 15 its failures, and its text.
    /// Commands of pgbench itself, such as `\set`, do not reach the server and are left out.
    fn statement(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        let Some((number, rest)) = text.split_once(char::is_whitespace) else {
            return Ok(());
        };
        let rest = rest.trim_start();
        let statement = match rest.split_once(char::is_whitespace) {
            Some((failures, statement)) if whole(failures.as_bytes()).is_some() => {
                statement.trim_start()
            }
            _ => rest,
        };
        if !line.ended || statement.is_empty() || statement.starts_with('\\') {
            return Ok(());
        }
        let Some(number) = fixed(number, 3..=6) else {
            self.odd(line);
            return Ok(());
        };
        let short: String = statement.chars().take(LONGEST_STATEMENT).collect();
        let short = if short.len() < statement.len() {
            format!("{short}…")
        } else {
            short
        };
        let count = self
            .statements
            .entry((self.section.clone(), short.clone()))
            .or_default();
        *count += 1;
        let operation = if *count > 1 {
            format!("{short} #{count}")
        } else {
            short
        };
        let workload = self.workload();
        let name = Name {
            workload: Some(&workload),
            operation: &operation,
        };
        let place = Position {
            line: line.number,
            ..Position::default()
        };
        self.draft
            .add(name, &LATENCY_MEAN, "ms", place, time(number.value / 1e3))
    }

    /// Returns the script, the scale and the clients, which make the work.
    fn workload(&self) -> String {
        let script = self.section.as_ref().or(self.script.as_ref());
        let Some(script) = script else {
            return "settings unknown".to_owned();
        };
        let mut name = script.clone();
        if let Some(scale) = &self.scale {
            name += &format!(", scale {scale}");
        }
        if let Some(clients) = &self.clients {
            name += &format!(
                ", {clients} client{}",
                if clients == "1" { "" } else { "s" }
            );
        }
        if let Some(mode) = self.mode.as_ref().filter(|mode| *mode != "simple") {
            name += &format!(", {mode}");
        }
        name
    }

    fn odd(&mut self, line: &Line) {
        self.draft.remark(
            line.number,
            format_args!("no number of the report, left out: '{}'", line.excerpt()),
        );
    }

    /// Ends the report: without a final one, the progress lines give the rate.
    fn finish(mut self, runs: &mut Runs) -> Result<(), ReadError> {
        if !self.scripts.is_empty() {
            if self.more_scripts > 0 {
                self.scripts.push(format!("and {} more", self.more_scripts));
            }
            self.draft.setting(None, "scripts", self.scripts.join(", "));
        }
        if self.reconnects {
            self.draft
                .setting(None, "connections", "one for each transaction (-C)");
        }
        if !self.has_rate && self.progress.seconds > 0.0 {
            let text = format!(
                "no final report: pgbench was stopped, or the file holds its stderr alone; the rate is that of its {} \
                 progress lines",
                self.progress.count
            );
            self.draft.remark(self.progress.line, text);
            let workload = self.workload();
            let name = Name {
                workload: Some(&workload),
                operation: TRANSACTION,
            };
            let place = Position {
                line: self.progress.line,
                ..Position::default()
            };
            self.draft.add(
                name,
                &OPERATION_RATE,
                "tps",
                place,
                rate(self.progress.mean()),
            )?;
        } else if !self.has_rate && self.draft.has_values() {
            self.draft
                .remark(None, ends_early(NAME, "the line 'tps = …'"));
            let workload = self.workload();
            let name = Name {
                workload: Some(&workload),
                operation: TRANSACTION,
            };
            let place = Position {
                line: self.last_line,
                ..Position::default()
            };
            self.draft
                .add(name, &OPERATION_RATE, "tps", place, Err(GapReason::Failed))?;
        }
        runs.push(self.draft)
    }
}

impl Progress {
    /// Reads `5.0 s, 2400.0 tps, lat 0.829 ms stddev 0.556`.
    fn take(&mut self, line: &Line, text: &str) {
        let Some((seconds, rate)) = Progress::parse(text) else {
            return;
        };
        // With --progress-timestamp the first line has no start.
        let is_timestamp = self.count == 0 && seconds > 1e9;
        let length = if is_timestamp {
            0.0
        } else {
            seconds - self.end
        };
        (self.end, self.line, self.count) = (seconds, line.number, self.count + 1);
        if length > 0.0 {
            self.seconds += length;
            self.transactions += rate * length;
        }
    }

    /// Returns the seconds since the start and the rate of a line.
    fn parse(text: &str) -> Option<(f64, f64)> {
        let mut fields = text.split(", ");
        let mut number =
            |unit: &str, places| Some(fixed(fields.next()?.strip_suffix(unit)?, places)?.value);
        Some((number(" s", 1..=3)?, number(" tps", 1..=1)?))
    }

    /// Returns whether the time of a line is before that of the last one, so that another execution
    /// printed it.
    fn falls(&self, text: &str) -> bool {
        self.count > 0 && Progress::parse(text).is_some_and(|(seconds, _)| seconds < self.end)
    }

    fn mean(&self) -> f64 {
        self.transactions / self.seconds
    }
}

/// Returns the name of a script without its path, or that of a built-in one.
fn script_name(text: &str) -> String {
    let builtin = text
        .strip_prefix("<builtin: ")
        .and_then(|text| text.strip_suffix('>'));
    shortened(
        builtin.unwrap_or_else(|| text.rsplit('/').next().unwrap_or(text)),
        LONGEST_SCRIPT,
    )
}

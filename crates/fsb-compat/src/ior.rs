//! IOR 3.x and 4.x: the table of its text output, which has a line for each iteration.

use std::collections::BTreeMap;
use std::io::BufRead;

use fsb_model::metric::{MetricKind, OPERATION_RATE, THROUGHPUT};
use fsb_model::set::{GapReason, Run};

use crate::draft::{Draft, MOST_REPETITIONS, MOST_RUNS, Name, Position, Runs, rate, too_much};
use crate::message::{self, Found, Messages, Pattern, Severity, ends_early};
use crate::options;
use crate::text::{Line, Lines, holds, size, split_unit, whole};
use crate::tool::{ReadError, Tool};

/// Reads IOR's text output.
pub(crate) const TOOL: Tool = Tool {
    name: "ior",
    title: "IOR",
    about: "text output of 3.0 to 4.x: each iteration of each test",
    looks_for: "the banner 'IOR-3.0: MPI Coordinated Test of Parallel I/O'",
    values: "MiB/s and IOPS",
    repetition: "an iteration (-i)",
    recognise,
    read,
};

/// The text of the banner after the version.
const BANNER: &str = ": MPI Coordinated Test of Parallel I/O";

/// The columns that are read. The column of latencies is not: it holds the mean of the fastest
/// task.
static COLUMNS: [(&str, MetricKind, f64, &str); 2] = [
    ("bw(MiB/s)", THROUGHPUT, 1_048_576.0, "MiB/s"),
    ("IOPS", OPERATION_RATE, 1.0, "IOPS"),
];

/// The messages of IOR 3.0 to 4.1. It ends at errors. Sizes that differ from the expected ones are
/// usual with a deadline (`-D`), and the bandwidth is then that of the bytes moved.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Start("WARNING: inconsistent file size"), Severity::Failure),
    (Pattern::Start("WARNING: incorrect data on"), Severity::Failure),
    (Pattern::Start("WARNING: Incorrect data on"), Severity::Failure),
    (Pattern::Start("WARNING: overflow in errors counted"), Severity::Failure),
    (Pattern::Start("WARNING: write("), Severity::Failure),
    (Pattern::Start("WARNING: read("), Severity::Failure),
    (Pattern::Start("WARNING: fsync("), Severity::Failure),
    (Pattern::Start("WARNING: too many retries"), Severity::Failure),
    (Pattern::Start("WARNING: "), Severity::Warning),
    (Pattern::Start("ERROR: "), Severity::Failure),
    (Pattern::Start("dryRun"), Severity::Failure),
    (Pattern::Part(": FAILED in "), Severity::Failure),
    (Pattern::Part("*** DEBUG MODE ***"), Severity::Warning),
];

/// Options that change what is printed, or where the files are, but not the work, and those whose
/// effect IOR prints.
static IRRELEVANT: [&str; 25] = [
    "-o", "-O", "-f", "-i", "-k", "-K", "-v", "-V", "-q", "-d", "-J", "-w", "-r", "-a", "-b", "-t",
    "-s", "-F", "-c", "-z", "-N", "-C", "-Q", "-Z", "-D",
];

/// Settings that IOR prints for each test and that are not part of the name.
static SETTINGS: [&str; 12] = [
    "type",
    "segments",
    "ordering inter file",
    "task offset",
    "nodes",
    "clients per node",
    "memoryPerTask",
    "memoryPerNode",
    "dataAccess",
    "GPUDirect",
    "stonewallingTime",
    "stoneWallingWearOut",
];

fn recognise(head: &[u8]) -> bool {
    holds(head, BANNER.as_bytes())
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut execution = Execution::default();
    while let Some(line) = lines.next()? {
        let text = line.text();
        match text
            .strip_suffix(BANNER)
            .and_then(|text| text.strip_prefix("IOR-"))
        {
            Some(version) => {
                let next = Execution {
                    version: Some(version.to_owned()),
                    ..Execution::default()
                };
                std::mem::replace(&mut execution, next).finish(&mut runs)?;
            }
            None => execution.take(&line, &text)?,
        }
    }
    execution.finish(&mut runs)?;
    runs.finish(|| {
        "it holds no line of an iteration; IOR prints them unless it has -O summaryFormat"
            .to_owned()
    })
}

/// One execution of IOR: one or several tests, each with iterations.
#[derive(Default)]
struct Execution {
    version: Option<String>,
    command: Option<String>,
    test: Test,
    /// The headings of the table.
    columns: Vec<String>,
    /// By number of the iteration. The first iterations of all tests are one run, then the second
    /// ones, and so on.
    iterations: BTreeMap<u64, Draft>,
    /// Runs of rows whose iteration is not known, because the row is damaged.
    damaged: Vec<Draft>,
    /// The line of the first heading of a table.
    heading: Option<u32>,
    rows: usize,
    /// Messages since the last row: they precede the row of their iteration.
    messages: Vec<Found>,
    /// The iteration of the last row of the test.
    last: Option<u64>,
    /// Whether the summary of all tests was reached.
    complete: bool,
}

/// Messages that are kept until the row of their iteration.
const MOST_MESSAGES: usize = 1000;

/// The settings of a test.
#[derive(Default)]
struct Test {
    api: String,
    /// `single-shared-file` or `file-per-process`.
    access: String,
    random: bool,
    tasks: u64,
    segments: Option<u64>,
    block: Option<u64>,
    transfer: Option<u64>,
    /// Settings that are not part of the name.
    others: Vec<(String, String)>,
}

impl Execution {
    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        if text.starts_with("access ") && text.ends_with(" iter") {
            self.columns = text.split_whitespace().map(str::to_owned).collect();
            self.heading.get_or_insert(line.number);
            return Ok(());
        }
        if let Some(message) = message::find(MESSAGES, line) {
            self.messages.push(message);
            self.messages.truncate(MOST_MESSAGES);
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if !self.columns.is_empty() && ["write", "read"].contains(words.first().unwrap_or(&"")) {
            return self.row(line, &words);
        }
        // Since 3.2 a colon separates a setting from its value; 3.0 prints an equals sign.
        let Some((name, value)) = text.split_once(['=', ':']) else {
            return Ok(());
        };
        self.fact(name.trim(), value.trim())
    }

    fn fact(&mut self, name: &str, value: &str) -> Result<(), ReadError> {
        match name {
            "Command line" | "Command line used" => self.command = Some(value.to_owned()),
            "api" => {
                self.end_test()?;
                self.test = Test {
                    api: value.to_owned(),
                    ..Test::default()
                };
            }
            "access" => self.test.access = value.to_owned(),
            "ordering in a file" => self.test.random = value.starts_with("random"),
            "tasks" | "clients" => {
                self.test.tasks = whole(split_unit(value).0.as_bytes()).unwrap_or(0)
            }
            "xfersize" => self.test.transfer = size(value),
            "blocksize" => self.test.block = size(value),
            // The summary repeats the iterations in a table with other columns.
            "Summary of all tests" => {
                self.columns.clear();
                self.complete = true;
            }
            _ => {}
        }
        if name == "segments" {
            self.test.segments = whole(value.as_bytes());
        }
        if SETTINGS.contains(&name) {
            self.test.others.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    /// Ends a test. Messages after its last row concern the iteration that did not get a row.
    fn end_test(&mut self) -> Result<(), ReadError> {
        let iteration = self.last.take().unwrap_or(0);
        self.report(iteration)
    }

    /// Adds the messages to an iteration of the test.
    fn report(&mut self, iteration: u64) -> Result<(), ReadError> {
        let messages = std::mem::take(&mut self.messages);
        if messages.is_empty() {
            return Ok(());
        }
        let workload = (!self.test.api.is_empty()).then(|| self.test.workload());
        let draft = self.draft(iteration)?;
        messages
            .iter()
            .for_each(|message| message.report(workload.as_deref(), draft));
        Ok(())
    }

    fn row(&mut self, line: &Line, words: &[&str]) -> Result<(), ReadError> {
        let iteration = words.last().and_then(|word| whole(word.as_bytes()));
        let (Some(iteration), true) = (iteration, words.len() == self.columns.len() && line.ended)
        else {
            return self.damaged(line, words[0]);
        };
        let (workload, operation) = (self.test.workload(), self.test.operation(words[0]));
        let name = Name {
            workload: Some(&workload),
            operation: &operation,
        };
        let place = Position {
            file_size: self.test.file_size(),
            record_size: self.test.transfer,
            line: line.number,
        };
        self.rows += 1;
        if self.rows > MOST_REPETITIONS {
            return Err(too_much(TOOL.name, MOST_REPETITIONS, "lines of iterations"));
        }
        self.report(iteration)?;
        self.last = Some(iteration);
        let columns = std::mem::take(&mut self.columns);
        let (transfer, others) = (self.test.transfer, std::mem::take(&mut self.test.others));
        let draft = self.draft(iteration)?;
        others
            .iter()
            .for_each(|(name, value)| draft.setting(Some(&workload), name, value));
        check_bytes(line, words, &columns, transfer, draft);
        for (heading, metric, factor, unit) in &COLUMNS {
            let Some(at) = columns.iter().position(|column| column == heading) else {
                continue;
            };
            match number(words[at]) {
                Some(value) => draft.add(name, metric, unit, place, rate(value * factor))?,
                None => {
                    draft.remark(
                        line.number,
                        format_args!("{heading} is not a number: '{}'", line.excerpt()),
                    );
                    draft.add(name, metric, unit, place, Err(GapReason::Unreadable))?;
                }
            }
        }
        (self.columns, self.test.others) = (columns, others);
        Ok(())
    }

    /// Keeps a damaged row as gaps of a run of its own, because the number of the iteration is in
    /// its last column.
    fn damaged(&mut self, line: &Line, access: &str) -> Result<(), ReadError> {
        if self.damaged.len() == MOST_RUNS {
            return Err(too_much(
                TOOL.name,
                MOST_RUNS,
                "damaged lines of iterations",
            ));
        }
        let mut draft = Draft::new(TOOL.name);
        draft.remark(
            line.number,
            format_args!("no line of an iteration, left out: '{}'", line.excerpt()),
        );
        let (workload, operation) = (self.test.workload(), self.test.operation(access));
        let name = Name {
            workload: Some(&workload),
            operation: &operation,
        };
        let place = Position {
            file_size: self.test.file_size(),
            record_size: self.test.transfer,
            line: line.number,
        };
        for (heading, metric, _, unit) in &COLUMNS {
            if self.columns.iter().any(|column| column == heading) {
                draft.add(name, metric, unit, place, Err(GapReason::Unreadable))?;
            }
        }
        self.damaged.push(draft);
        Ok(())
    }

    fn draft(&mut self, iteration: u64) -> Result<&mut Draft, ReadError> {
        if self.iterations.len() == MOST_RUNS && !self.iterations.contains_key(&iteration) {
            return Err(too_much(TOOL.name, MOST_RUNS, "iterations"));
        }
        Ok(self
            .iterations
            .entry(iteration)
            .or_insert_with(|| Draft::new(TOOL.name)))
    }

    fn finish(mut self, runs: &mut Runs) -> Result<(), ReadError> {
        self.end_test()?;
        let options = options::split(self.command.as_deref().unwrap_or_default());
        let mut cut = (self.rows > 0 && !self.complete)
            .then(|| ends_early(TOOL.name, "the line 'Summary of all tests'"));
        if let Some(line) = self
            .heading
            .filter(|_| self.rows == 0 && self.damaged.is_empty())
        {
            self.draft(0)?.begin(line);
        }
        for mut draft in self.iterations.into_values().chain(self.damaged) {
            draft.run.version.clone_from(&self.version);
            draft.run.command.clone_from(&self.command);
            for (name, value) in options
                .iter()
                .filter(|(name, _)| !IRRELEVANT.contains(&name.as_str()))
            {
                draft.setting(None, name, value);
            }
            if let Some(text) = cut.take() {
                draft.remark(None, text);
            }
            runs.push(draft)?;
        }
        Ok(())
    }
}

/// Adds a remark if the operations times the transfer are fewer bytes than printed. They can be
/// more, because IOR divides bytes also by the time of opening and closing.
fn check_bytes(
    line: &Line,
    words: &[&str],
    columns: &[String],
    transfer: Option<u64>,
    draft: &mut Draft,
) {
    let [bytes, operations] = ["bw(MiB/s)", "IOPS"].map(|heading| {
        let at = columns.iter().position(|column| column == heading)?;
        number(words[at])
    });
    let Some(((bytes, operations), transfer)) = bytes.zip(operations).zip(transfer) else {
        return;
    };
    let least = operations * transfer as f64 / 1_048_576.0;
    if bytes > 1.02 * least + 0.01 {
        let text = format!(
            "{operations} IOPS of {transfer} bytes are {least:.2} MiB/s, but IOR prints {bytes} MiB/s"
        );
        draft.remark(line.number, text);
    }
}

impl Test {
    fn workload(&self) -> String {
        format!("{}, {}, {} tasks", self.api, self.access, self.tasks)
    }

    fn operation(&self, access: &str) -> String {
        if self.random {
            format!("random_{access}")
        } else {
            access.to_owned()
        }
    }

    /// Returns the bytes of one file: a block of each segment and of each task that shares the
    /// file.
    fn file_size(&self) -> Option<u64> {
        let shares = if self.access == "single-shared-file" {
            self.tasks
        } else {
            1
        };
        self.block?
            .checked_mul(self.segments.unwrap_or(1))?
            .checked_mul(shares)
            .filter(|bytes| *bytes > 0)
    }
}

/// Parses a number of the table, which has as many digits as fit: `199.29`, `18287`.
fn number(text: &str) -> Option<f64> {
    let shaped = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    shaped.then(|| text.parse().ok()).flatten()
}

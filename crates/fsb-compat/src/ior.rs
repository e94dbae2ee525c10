//! IOR 3.x and 4.x: the table of its text output, which has a line for each iteration.

use std::collections::BTreeMap;
use std::io::BufRead;

use fsb_model::metric::{MetricKind, OPERATION_RATE, THROUGHPUT};
use fsb_model::set::Run;

use crate::draft::{Draft, MOST_REPETITIONS, MOST_RUNS, Name, Position, Runs, rate, too_much};
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

/// The columns that are read. The column of latencies is not: it holds the mean of the fastest task.
static COLUMNS: [(&str, MetricKind, f64, &str); 2] =
    [("bw(MiB/s)", THROUGHPUT, 1_048_576.0, "MiB/s"), ("IOPS", OPERATION_RATE, 1.0, "IOPS")];

fn recognise(head: &[u8]) -> bool {
    holds(head, BANNER.as_bytes())
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut execution = Execution::default();
    while let Some(line) = lines.next()? {
        let text = line.text();
        match text.strip_suffix(BANNER).and_then(|text| text.strip_prefix("IOR-")) {
            Some(version) => {
                let next = Execution { version: Some(version.to_owned()), ..Execution::default() };
                std::mem::replace(&mut execution, next).finish(&mut runs)?;
            }
            None => execution.take(&line, &text)?,
        }
    }
    execution.finish(&mut runs)?;
    runs.finish(|| "it holds no line of an iteration; IOR prints them unless it has -O summaryFormat".to_owned())
}

/// One execution of IOR: one or several tests, each with iterations.
#[derive(Default)]
struct Execution {
    version: Option<String>,
    command: Option<String>,
    test: Test,
    /// The headings of the table.
    columns: Vec<String>,
    /// By number of the iteration. The first iterations of all tests are one run, then the second ones, and so on.
    iterations: BTreeMap<u64, Draft>,
    rows: usize,
}

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
}

impl Execution {
    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        if text.starts_with("access ") && text.ends_with(" iter") {
            self.columns = text.split_whitespace().map(str::to_owned).collect();
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if !self.columns.is_empty() && ["write", "read"].contains(words.first().unwrap_or(&"")) {
            return self.row(line, &words);
        }
        // Since 3.2 a colon separates a setting from its value; 3.0 prints an equals sign.
        let Some((name, value)) = text.split_once(" = ").or_else(|| text.split_once(':')) else { return Ok(()) };
        let value = value.trim();
        match name.trim() {
            "Command line" | "Command line used" => self.command = Some(value.to_owned()),
            "api" => self.test = Test { api: value.to_owned(), ..Test::default() },
            "access" => self.test.access = value.to_owned(),
            "ordering in a file" => self.test.random = value.starts_with("random"),
            "segments" => self.test.segments = whole(value.as_bytes()),
            "tasks" | "clients" => self.test.tasks = whole(split_unit(value).0.as_bytes()).unwrap_or(0),
            "xfersize" => self.test.transfer = size(value),
            "blocksize" => self.test.block = size(value),
            // The summary repeats the iterations in a table with other columns.
            "Summary of all tests" => self.columns.clear(),
            _ => {}
        }
        Ok(())
    }

    fn row(&mut self, line: &Line, words: &[&str]) -> Result<(), ReadError> {
        let iteration = words.last().and_then(|word| whole(word.as_bytes()));
        let (Some(iteration), true) = (iteration, words.len() == self.columns.len() && line.ended) else {
            let text = format!("no line of an iteration, left out: '{}'", line.excerpt());
            self.draft(0)?.remark(line.number, text);
            return Ok(());
        };
        let (workload, operation) = (self.test.workload(), self.test.operation(words[0]));
        let name = Name { workload: Some(&workload), operation: &operation };
        let place = Position { file_size: self.test.file_size(), record_size: self.test.transfer, line: line.number };
        self.rows += 1;
        if self.rows > MOST_REPETITIONS {
            return Err(too_much(TOOL.name, MOST_REPETITIONS, "lines of iterations"));
        }
        let columns = std::mem::take(&mut self.columns);
        let draft = self.draft(iteration)?;
        for (heading, metric, factor, unit) in &COLUMNS {
            let Some(at) = columns.iter().position(|column| column == heading) else { continue };
            match number(words[at]) {
                Some(value) => draft.add(name, metric, unit, place, rate(value * factor))?,
                None => draft.remark(line.number, format_args!("{heading} is not a number: '{}'", line.excerpt())),
            }
        }
        self.columns = columns;
        Ok(())
    }

    fn draft(&mut self, iteration: u64) -> Result<&mut Draft, ReadError> {
        if self.iterations.len() == MOST_RUNS && !self.iterations.contains_key(&iteration) {
            return Err(too_much(TOOL.name, MOST_RUNS, "iterations"));
        }
        Ok(self.iterations.entry(iteration).or_insert_with(|| Draft::new(TOOL.name)))
    }

    fn finish(self, runs: &mut Runs) -> Result<(), ReadError> {
        for mut draft in self.iterations.into_values() {
            draft.run.version.clone_from(&self.version);
            draft.run.command.clone_from(&self.command);
            runs.push(draft)?;
        }
        Ok(())
    }
}

impl Test {
    fn workload(&self) -> String {
        format!("{}, {}, {} tasks", self.api, self.access, self.tasks)
    }

    fn operation(&self, access: &str) -> String {
        if self.random { format!("random_{access}") } else { access.to_owned() }
    }

    /// Returns the bytes of one file: a block of each segment and of each task that shares the file.
    fn file_size(&self) -> Option<u64> {
        let shares = if self.access == "single-shared-file" { self.tasks } else { 1 };
        self.block?.checked_mul(self.segments.unwrap_or(1))?.checked_mul(shares).filter(|bytes| *bytes > 0)
    }
}

/// Parses a number of the table, which has as many digits as fit: `199.29`, `18287`.
fn number(text: &str) -> Option<f64> {
    let shaped = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    shaped.then(|| text.parse().ok()).flatten()
}

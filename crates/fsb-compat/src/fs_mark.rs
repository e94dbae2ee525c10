//! fs_mark 3.x: the table of files per second, with the times of system calls (`-v`) or without.

use std::io::BufRead;

use fsb_model::metric::{Better, MetricKind, OPERATION_RATE, Role, Unit};
use fsb_model::set::{GapReason, Run};

use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::message::{self, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, fixed, holds, whole};
use crate::tool::{ReadError, Tool};

/// Reads the tables of fs_mark, from its output or its log (`-l`).
pub(crate) const TOOL: Tool = Tool {
    name: "fs_mark",
    title: "fs_mark",
    about: "tables of 3.x, from the output or fs_log.txt: a row per count of files, calls with -v",
    looks_for: "the heading 'FSUse%        Count         Size    Files/sec'",
    values: "files/s, the sum over threads; µs per system call (lower is better)",
    repetition: "an execution: each count of files is a workload",
    recognise,
    read,
};

/// The operation: fs_mark creates, writes, syncs and closes files.
const OPERATION: &str = "create";

/// The columns of the table without system calls.
const COLUMNS: usize = 5;

/// The columns with system calls: three for each.
const VERBOSE_COLUMNS: usize = 5 + 3 * CALLS.len();

const fn call(name: &'static str, about: &'static str) -> MetricKind {
    MetricKind {
        name,
        unit: Unit::Seconds,
        better: Better::Lower,
        role: Role::Cost,
        about,
    }
}

/// The system calls in the order of the columns: mean and maximum. With several threads the mean is
/// that of their means.
#[rustfmt::skip] // a table reads as one
static CALLS: [(&str, MetricKind, MetricKind); 6] = [
    ("CREAT", call("creat_time_mean", "Mean time of creat."), call("creat_time_max", "Longest time of creat.")),
    ("WRITE", call("write_time_mean", "Mean time of write."), call("write_time_max", "Longest time of write.")),
    ("FSYNC", call("fsync_time_mean", "Mean time of fsync."), call("fsync_time_max", "Longest time of fsync.")),
    ("SYNC", call("sync_time_mean", "Mean time of sync."), call("sync_time_max", "Longest time of sync.")),
    ("CLOSE", call("close_time_mean", "Mean time of close."), call("close_time_max", "Longest time of close.")),
    ("UNLINK", call("unlink_time_mean", "Mean time of unlink."), call("unlink_time_max", "Longest time of unlink.")),
];

/// The messages of fs_mark 3.x.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Start("Error in "), Severity::Failure),
    (Pattern::Start("fs_mark: "), Severity::Failure),
    (Pattern::Start("Insufficient free space"), Severity::Failure),
    (Pattern::Start("fopen failed"), Severity::Failure),
];

/// The resolution of a time in seconds: a microsecond.
const RESOLUTION: f64 = 1e-6;

/// Loops without a row that are kept as gaps.
const MOST_MISSING: usize = 1000;

fn recognise(head: &[u8]) -> bool {
    holds(head, b"FSUse%") && holds(head, b"Files/sec") && holds(head, b"App Overhead")
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut execution = Execution::new();
    while let Some(line) = lines.next()? {
        let text = line.text();
        // The first line of the head is the command line: '#  ./fs_mark  -d  DIR  …'.
        let command = text
            .strip_prefix('#')
            .map(str::trim_start)
            .filter(|text| is_command(text));
        if let Some(command) = command {
            std::mem::replace(&mut execution, Execution::new()).finish(&mut runs)?;
            execution.draft.run.command =
                Some(command.split_whitespace().collect::<Vec<_>>().join(" "));
        } else {
            execution.take(&line, &text)?;
        }
    }
    execution.finish(&mut runs)?;
    runs.finish(|| {
        "its table has no row: fs_mark was stopped before its first loop ended".to_owned()
    })
}

fn is_command(text: &str) -> bool {
    text.split_whitespace()
        .next()
        .is_some_and(|word| word.ends_with("fs_mark"))
}

/// One execution while it is read.
struct Execution {
    draft: Draft,
    threads: Option<u64>,
    /// `INBAND FSYNC`.
    sync: Option<String>,
    directories: Option<String>,
    write_size: Option<u64>,
    /// The number of columns under the heading.
    columns: usize,
    rows: u64,
    /// The files of a loop and the size of a file.
    each: Option<(u64, u64)>,
    last_line: u32,
}

impl Execution {
    fn new() -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.clock_resolution = Some(RESOLUTION);
        Execution {
            draft,
            threads: None,
            sync: None,
            directories: None,
            write_size: None,
            columns: 0,
            rows: 0,
            each: None,
            last_line: 0,
        }
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        self.last_line = line.number;
        if let Some(comment) = text.strip_prefix('#') {
            self.head(comment.trim());
        } else if text.starts_with("FSUse%") {
            self.heading(line, text);
        } else if self.columns > 0 && text.starts_with(|c: char| c.is_ascii_digit()) {
            return self.row(line, text);
        } else if let Some(message) = message::find(MESSAGES, line) {
            message.report(None, &mut self.draft);
        }
        Ok(())
    }

    /// Reads a line of the head, such as `Version 3.3, 2 thread(s) starting at …`.
    fn head(&mut self, text: &str) {
        if let Some((version, rest)) = text
            .strip_prefix("Version ")
            .and_then(|text| text.split_once(", "))
        {
            self.draft.run.version = Some(version.to_owned());
            self.threads = rest
                .split(' ')
                .next()
                .and_then(|count| whole(count.as_bytes()));
        } else if let Some(method) = text.strip_prefix("Sync method: ") {
            self.sync = Some(
                method
                    .split_once(": ")
                    .map_or(method, |(name, _)| name)
                    .to_owned(),
            );
        } else if let Some(directories) = text.strip_prefix("Directories:") {
            let directories = directories.trim().trim_end_matches('.');
            self.directories =
                Some(directories.to_owned()).filter(|text| text != "no subdirectories used");
        } else if let Some((_, rest)) = text.split_once("written with an IO size of ") {
            self.write_size = rest
                .split(' ')
                .next()
                .and_then(|size| whole(size.as_bytes()));
        }
    }

    fn heading(&mut self, line: &Line, text: &str) {
        self.draft.begin(line.number);
        let head = ["FSUse%", "Count", "Size", "Files/sec", "App", "Overhead"];
        let calls = CALLS.iter().flat_map(|(name, ..)| [*name, "(Min/Avg/Max)"]);
        let words: Vec<&str> = text.split_whitespace().collect();
        self.columns = if words == head {
            COLUMNS
        } else if words.iter().copied().eq(head.into_iter().chain(calls)) {
            VERBOSE_COLUMNS
        } else {
            self.draft
                .remark(line.number, "unknown columns; the table is left out");
            0
        };
    }

    fn row(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        self.rows += 1;
        let [_, count, size, files, _, calls @ ..] = &fields[..] else {
            return self.odd(line);
        };
        let numbers = (
            whole(count.as_bytes()),
            whole(size.as_bytes()),
            fixed(files, 1..=1),
        );
        let (Some(count), Some(size), Some(files)) = numbers else {
            return self.odd(line);
        };
        // The end of a line may be cut, which does not matter in a column that is not read.
        if fields.len() != self.columns || !line.ended && self.columns == VERBOSE_COLUMNS {
            return self.odd(line);
        }
        self.each.get_or_insert((count / self.rows, size));
        let workload = self.workload(count);
        let name = Name {
            workload: Some(&workload),
            operation: OPERATION,
        };
        let place = Position {
            file_size: Some(size),
            record_size: self.write_size,
            line: line.number,
        };
        self.draft
            .add(name, &OPERATION_RATE, "Files/sec", place, rate(files.value))?;
        for ((_, mean, longest), times) in CALLS.iter().zip(calls.chunks_exact(3)) {
            let number = |text: &str| whole(text.as_bytes()).map(|micros| micros as f64 / 1e6);
            // A call that was not made has zeros in all three columns.
            if let Some(most) = number(times[2]).filter(|most| *most > 0.0) {
                self.draft.add(
                    name,
                    mean,
                    "us",
                    place,
                    time(number(times[1]).unwrap_or(0.0)),
                )?;
                self.draft.add(name, longest, "us", place, time(most))?;
            }
        }
        Ok(())
    }

    /// Takes a damaged row: a gap of its loop.
    fn odd(&mut self, line: &Line) -> Result<(), ReadError> {
        self.draft.remark(
            line.number,
            format_args!("no row of the table, left out: '{}'", line.excerpt()),
        );
        if self.each.is_none() {
            self.draft.fail(
                line.number,
                None,
                "its first row is damaged, so the files of a loop are not known",
            );
        }
        self.gap(self.rows, line.number, GapReason::Unreadable)
    }

    /// Adds the rate of a loop as a gap, if an earlier row shows the number of its files.
    fn gap(&mut self, row: u64, line: u32, why: GapReason) -> Result<(), ReadError> {
        let Some((files, size)) = self.each else {
            return Ok(());
        };
        let workload = self.workload(files.saturating_mul(row));
        let name = Name {
            workload: Some(&workload),
            operation: OPERATION,
        };
        let place = Position {
            file_size: Some(size),
            record_size: self.write_size,
            line,
        };
        self.draft
            .add(name, &OPERATION_RATE, "Files/sec", place, Err(why))
    }

    /// Returns the work up to a row. fs_mark keeps the files of earlier loops (`-L`), so the count
    /// is part of it.
    fn workload(&self, count: u64) -> String {
        let mut name = self.sync.clone().unwrap_or_default().to_lowercase();
        let threads = self.threads.unwrap_or(1);
        name += &format!(", {threads} thread{}", if threads == 1 { "" } else { "s" });
        if let Some(directories) = &self.directories {
            name += &format!(", {directories}");
        }
        format!("{name}, to {count} files")
    }

    fn finish(mut self, runs: &mut Runs) -> Result<(), ReadError> {
        let words: Vec<&str> = self
            .draft
            .run
            .command
            .iter()
            .flat_map(|command| command.split(' '))
            .collect();
        let loops = words
            .iter()
            .position(|word| *word == "-L")
            .and_then(|at| words.get(at + 1));
        if let Some(loops) = loops
            .and_then(|loops| whole(loops.as_bytes()))
            .filter(|loops| *loops > self.rows)
        {
            let missing = format!("a row of {} of {loops} loops", loops - self.rows);
            self.draft.remark(None, ends_early(TOOL.name, missing));
            for row in (self.rows + 1..=loops).take(MOST_MISSING) {
                self.gap(row, self.last_line, GapReason::Failed)?;
            }
        }
        runs.push(self.draft)
    }
}

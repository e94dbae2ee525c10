//! filebench 1.5: its workload language, the text that it prints, and its results.

pub mod personality;
pub mod print;
pub mod wml;

use std::io::BufRead;

use fsb_model::metric::{LATENCY_MEAN, MetricKind, OPERATION_RATE, THROUGHPUT};
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::message::{self, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, fixed, holds, whole};
use crate::tool::{ReadError, Tool};

/// Reads filebench's summaries.
pub(crate) const TOOL: Tool = Tool {
    name: "filebench",
    title: "filebench",
    about: "summaries of 1.5 and their breakdown by operation",
    looks_for: "the banner 'Filebench Version' or a line 'IO Summary'",
    values: "ops/s, MB/s of 1024² bytes; ms per operation (lower is better)",
    repetition: "a report",
    recognise,
    read,
};

fn recognise(head: &[u8]) -> bool {
    holds(head, b"Filebench Version") || holds(head, b": IO Summary: ")
}

/// The messages of filebench 1.4 and 1.5. It prints ` around line N` after errors of its main
/// process, and ends the run at failed operations. 1.5 then prints no results, but earlier versions
/// do.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Part("Could not disable ASLR"), Severity::Harmless),
    (Pattern::Part("Read ahead was NOT disabled"), Severity::Warning),
    (Pattern::Part("Attempted but failed to Re-use file"), Severity::Warning),
    (Pattern::Part("Attempting to create fileset more than once"), Severity::Warning),
    (Pattern::Part("WARNING! Run stopped early"), Severity::Failure),
    (Pattern::Part("NO VALID RESULTS"), Severity::Failure),
    (Pattern::Part("Unexpected Process termination"), Severity::Failure),
    (Pattern::Part("Failed to "), Severity::Failure),
    (Pattern::Part("failed"), Severity::Failure),
    (Pattern::Part("Could not "), Severity::Failure),
    (Pattern::Part("Out of "), Severity::Failure),
    (Pattern::Part("could not "), Severity::Failure),
    (Pattern::Part("unexpected return value"), Severity::Failure),
    (Pattern::Part(" around line "), Severity::Failure),
    (Pattern::Part("Aborting..."), Severity::Failure),
];

/// The resolution of a time in seconds: three digits of a millisecond.
const RESOLUTION: f64 = 1e-6;

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut summary = Summary::new(None);
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(version) = text.strip_prefix("Filebench Version ") {
            let next = Summary::new(Some(version.trim().to_owned()));
            runs.push(std::mem::replace(&mut summary, next).finish())?;
        } else {
            summary.take(&line, &text)?;
        }
    }
    runs.push(summary.finish())?;
    runs.finish(|| {
        "it holds no summary: the run did not end, or its last lines are missing".to_owned()
    })
}

/// One run while it is read.
struct Summary {
    /// The name of the personality: `varmail`.
    workload: Option<String>,
    draft: Draft,
    /// Whether the breakdown is being read: its lines have no time in front.
    breakdown: bool,
    /// The seconds of `Run took 60 seconds...`.
    seconds: Option<f64>,
    /// Whether the results began, and whether the total followed.
    begun: bool,
    complete: bool,
}

impl Summary {
    fn new(version: Option<String>) -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version = version;
        draft.run.clock_resolution = Some(RESOLUTION);
        Summary {
            workload: None,
            draft,
            breakdown: false,
            seconds: None,
            begun: false,
            complete: false,
        }
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        let (_, message) = text.split_once(": ").unwrap_or(("", text));
        if message == "Running..." {
            self.draft.begin(line.number);
        } else if message.ends_with("personality successfully loaded") {
            let name = message
                .split(" Version ")
                .next()
                .and_then(|name| name.split_whitespace().next());
            self.workload = name.map(str::to_lowercase);
        } else if message.starts_with("Per-Operation Breakdown") {
            (self.breakdown, self.begun) = (true, true);
        } else if let Some(numbers) = message.strip_prefix("IO Summary: ") {
            (self.breakdown, self.begun) = (false, true);
            self.complete |= line.ended;
            self.total(line, numbers)?;
        } else if let Some(found) = message::find(MESSAGES, line).filter(|_| is_message(text)) {
            found.report(None, &mut self.draft);
        } else if self.breakdown && !text.is_empty() {
            self.operation(line, text)?;
        } else {
            self.fact(message);
        }
        Ok(())
    }

    /// Takes a line about the work: `bigfileset populated: 1000 files, …`, `Starting 1 filereader
    /// instances`.
    fn fact(&mut self, message: &str) {
        if let Some((fileset, found)) = message.split_once(" populated: ") {
            let files = found.split(',').next().unwrap_or(found);
            self.draft.setting(None, fileset, files);
        } else if let Some((count, process)) = message
            .strip_prefix("Starting ")
            .and_then(|text| text.strip_suffix(" instances"))
            .and_then(|text| text.split_once(' '))
        {
            self.draft
                .setting(None, &format!("instances of {process}"), count);
        } else if let Some(seconds) = message.strip_prefix("Run took ") {
            self.seconds = seconds
                .split(' ')
                .next()
                .and_then(|text| Some(whole(text.as_bytes())? as f64));
        }
    }

    fn finish(mut self) -> Draft {
        if self.begun && !self.complete {
            self.draft
                .remark(None, ends_early(TOOL.name, "the line 'IO Summary'"));
        }
        self.draft
    }

    /// Adds a remark if the operations divided by the time are not the rate.
    fn check(&mut self, line: &Line, count: &str, rates: &str) {
        let numbers = [count, rates].map(|text| number(text).map(|(value, _)| value));
        let ([Some(count), Some(rate)], Some(seconds)) =
            (numbers, self.seconds.filter(|seconds| *seconds > 0.0))
        else {
            return;
        };
        // The seconds are whole, and threads start and stop one after another.
        let (least, most) = (
            count / (seconds + 2.0),
            count / f64::max(seconds - 2.0, 0.5),
        );
        if rate + 1.0 < 0.9 * least || rate - 1.0 > 1.1 * most {
            let text = format!(
                "{count} ops in {seconds} s are not {rate} ops/s: '{}'",
                line.excerpt()
            );
            self.draft.remark(line.number, text);
        }
    }

    /// Reads `347339 ops 69457.673 ops/s 10685/10688 rd/wr 259.8mb/s 0.228ms/op`.
    fn total(&mut self, line: &Line, numbers: &str) -> Result<(), ReadError> {
        let words: Vec<&str> = numbers.split_whitespace().collect();
        let rates = words
            .windows(2)
            .find(|pair| pair[1] == "ops/s")
            .map(|pair| pair[0]);
        let both = words
            .windows(2)
            .find(|pair| pair[1] == "rd/wr")
            .and_then(|pair| pair[0].split_once('/'));
        let moved = words.iter().find_map(|word| word.strip_suffix("mb/s"));
        let mean = words.iter().find_map(|word| word.strip_suffix("ms/op"));
        let [Some(rates), Some(moved), Some(mean)] = [rates, moved, mean] else {
            return self.odd(line);
        };
        self.check(line, words[0], rates);
        self.add(line, "total", &OPERATION_RATE, "ops/s", rates, 1.0)?;
        self.add(line, "total", &THROUGHPUT, "mb/s", moved, MEGABYTE)?;
        self.add(line, "total", &LATENCY_MEAN, "ms/op", mean, SECOND)?;
        if let Some((reads, writes)) = both {
            self.add(line, "read", &OPERATION_RATE, "rd/wr", reads, 1.0)?;
            self.add(line, "write", &OPERATION_RATE, "rd/wr", writes, 1.0)?;
        }
        Ok(())
    }

    /// Reads `readfile4  26711ops  5341ops/s  87.8mb/s  0.043ms/op [0.001ms - 5.322ms]`.
    fn operation(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default().to_owned();
        let (mut rates, mut moved, mut mean) = (None, None, None);
        for word in words.take(4) {
            rates = rates.or(word.strip_suffix("ops/s"));
            moved = moved.or(word.strip_suffix("mb/s"));
            mean = mean.or(word.strip_suffix("ms/op"));
        }
        let [Some(rates), Some(moved), Some(mean)] = [rates, moved, mean] else {
            return self.odd(line);
        };
        if let Some(count) = text
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.strip_suffix("ops"))
        {
            self.check(line, count, rates);
        }
        self.add(line, &name, &OPERATION_RATE, "ops/s", rates, 1.0)?;
        // Opening and deleting move no bytes, so a zero here is not a missing value.
        if fixed(moved, DIGITS).is_none_or(|number| number.value > 0.0) {
            self.add(line, &name, &THROUGHPUT, "mb/s", moved, MEGABYTE)?;
        }
        self.add(line, &name, &LATENCY_MEAN, "ms/op", mean, SECOND)
    }

    fn odd(&mut self, line: &Line) -> Result<(), ReadError> {
        self.draft.remark(
            line.number,
            format_args!("no line of the summary, left out: '{}'", line.excerpt()),
        );
        Ok(())
    }

    fn add(
        &mut self,
        line: &Line,
        operation: &str,
        metric: &MetricKind,
        unit: &str,
        text: &str,
        factor: f64,
    ) -> Result<(), ReadError> {
        let Some((value, comma)) = number(text) else {
            return self.odd(line);
        };
        if comma {
            self.draft
                .remark_once(line.number, "numbers have a decimal comma; read as such");
        }
        let value = if metric.name == LATENCY_MEAN.name {
            time(value / factor)
        } else {
            rate(value * factor)
        };
        let place = Position {
            line: line.number,
            ..Position::default()
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

/// Returns a number and whether it has a decimal comma.
fn number(text: &str) -> Option<(f64, bool)> {
    let integer = whole(text.as_bytes()).map(|number| (number as f64, false));
    integer.or_else(|| fixed(text, DIGITS).map(|number| (number.value, number.comma)))
}

/// Returns whether a line is a message, not a row of the breakdown: a message begins with the time,
/// and an operation can have any name. Fatal errors have no time.
fn is_message(text: &str) -> bool {
    let stamp = text.split_once(": ").map_or("", |(stamp, _)| stamp.trim());
    fixed(stamp, DIGITS).is_some() || whole(stamp.as_bytes()).is_some() || !text.contains("ops/s")
}

/// filebench's megabyte in bytes.
const MEGABYTE: f64 = 1024.0 * 1024.0;

/// Milliseconds in a second.
const SECOND: f64 = 1000.0;

/// Digits after the point, by version and column.
const DIGITS: std::ops::RangeInclusive<usize> = 1..=3;

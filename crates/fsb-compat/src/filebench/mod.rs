//! filebench 1.5: its workload language, the text that it prints, and its results.

pub mod personality;
pub mod print;
pub mod wml;

use std::io::BufRead;

use fsb_model::metric::{LATENCY_MEAN, MetricKind, OPERATION_RATE, THROUGHPUT};
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate, time};
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

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut summary = Summary::new(None);
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(version) = text.strip_prefix("Filebench Version ") {
            let next = Summary::new(Some(version.trim().to_owned()));
            runs.push(std::mem::replace(&mut summary, next).draft)?;
        } else {
            summary.take(&line, &text)?;
        }
    }
    runs.push(summary.draft)?;
    runs.finish(|| "it holds no summary: the run did not end, or its last lines are missing".to_owned())
}

/// One run while it is read.
struct Summary {
    /// The name of the personality: `varmail`.
    workload: Option<String>,
    draft: Draft,
    /// Whether the breakdown is being read: its lines have no time in front.
    breakdown: bool,
}

impl Summary {
    fn new(version: Option<String>) -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version = version;
        Summary { workload: None, draft, breakdown: false }
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        let (_, message) = text.split_once(": ").unwrap_or(("", text));
        if message.ends_with("personality successfully loaded") {
            let name = message.split(" Version ").next().and_then(|name| name.split_whitespace().next());
            self.workload = name.map(str::to_lowercase);
        } else if message.starts_with("Per-Operation Breakdown") {
            self.breakdown = true;
        } else if let Some(numbers) = message.strip_prefix("IO Summary: ") {
            self.breakdown = false;
            self.total(line, numbers)?;
        } else if self.breakdown && !text.is_empty() {
            self.operation(line, text)?;
        }
        Ok(())
    }

    /// Reads `347339 ops 69457.673 ops/s 10685/10688 rd/wr 259.8mb/s 0.228ms/op`.
    fn total(&mut self, line: &Line, numbers: &str) -> Result<(), ReadError> {
        let words: Vec<&str> = numbers.split_whitespace().collect();
        let rates = words.windows(2).find(|pair| pair[1] == "ops/s").map(|pair| pair[0]);
        let both = words.windows(2).find(|pair| pair[1] == "rd/wr").and_then(|pair| pair[0].split_once('/'));
        let moved = words.iter().find_map(|word| word.strip_suffix("mb/s"));
        let mean = words.iter().find_map(|word| word.strip_suffix("ms/op"));
        let [Some(rates), Some(moved), Some(mean)] = [rates, moved, mean] else { return self.odd(line) };
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
        let [Some(rates), Some(moved), Some(mean)] = [rates, moved, mean] else { return self.odd(line) };
        self.add(line, &name, &OPERATION_RATE, "ops/s", rates, 1.0)?;
        // Opening and deleting move no bytes, so a zero here is not a missing value.
        if fixed(moved, DIGITS).is_none_or(|number| number.value > 0.0) {
            self.add(line, &name, &THROUGHPUT, "mb/s", moved, MEGABYTE)?;
        }
        self.add(line, &name, &LATENCY_MEAN, "ms/op", mean, SECOND)
    }

    fn odd(&mut self, line: &Line) -> Result<(), ReadError> {
        self.draft.remark(line.number, format_args!("no line of the summary, left out: '{}'", line.excerpt()));
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
        let number = whole(text.as_bytes()).map(|number| (number as f64, false));
        let Some((value, comma)) = number.or_else(|| fixed(text, DIGITS).map(|number| (number.value, number.comma)))
        else {
            return self.odd(line);
        };
        if comma {
            self.draft.remark_once(line.number, "numbers have a decimal comma; read as such");
        }
        let value = if metric.name == LATENCY_MEAN.name { time(value / factor) } else { rate(value * factor) };
        let place = Position { line: line.number, ..Position::default() };
        self.draft.add(Name { workload: self.workload.as_deref(), operation }, metric, unit, place, value)
    }
}

/// filebench's megabyte in bytes.
const MEGABYTE: f64 = 1024.0 * 1024.0;

/// Milliseconds in a second.
const SECOND: f64 = 1000.0;

/// Digits after the point, by version and column.
const DIGITS: std::ops::RangeInclusive<usize> = 1..=3;

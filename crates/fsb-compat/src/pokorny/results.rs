//! Results of `fsb micro` and of the 2023 tool: samples, and reports of a run.
//!
//! A file is one run, because one process made its cycles: they are samples within the run.

use std::collections::HashSet;
use std::io::BufRead;

use fsb_model::metric::ITERATION_TIME;
use fsb_model::set::{Run, Samples, UNKNOWN_WORK};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::draft::{Draft, MOST_REPETITIONS, MOST_RUNS, Name, Position, Runs, time, too_much};
use crate::json::{Source, number};
use crate::text::{Lines, holds, whole_text};
use crate::tool::{ReadError, Tool};

/// Reads samples and reports of `fsb micro`.
pub(crate) const TOOL: Tool = Tool {
    name: "micro",
    title: "fsb micro",
    about: "CSV of --exportOutput, also of Pokorný's fsb (2023), and --report FILE.json or .csv",
    looks_for: "the heading '#,value,unit', or a report of fsb with iteration times",
    values: "µs per iteration (lower is better)",
    repetition: "a file: one process made its cycles",
    recognise,
    read,
};

/// The heading of samples.
const SAMPLES: &str = "#,value,unit";
/// The start of the heading of trials.
const TRIALS: &str = "target,workload,operation,";
/// The schema of a report.
const REPORT: &str = "\"fsbench/report/";
const UNIT: &str = "µs";

const UNNAMED: &str =
    "samples name no benchmark: they are compared with the only case of each other set";
const MEANS: &str = "a report holds the mean of each block; --exportOutput writes the cycles";
const OTHER_RUN: &str = "not of fsb micro; name the directory of its run";

fn recognise(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    first.trim_ascii_end() == SAMPLES.as_bytes()
        || head.starts_with(TRIALS.as_bytes())
        || (head.trim_ascii_start().starts_with(b"{") && holds(head, REPORT.as_bytes()))
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let text = whole_text(input, TOOL.name)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim_start().starts_with('{') {
        report(text)
    } else if text.starts_with(TRIALS) {
        // The parser counts lines differently if they end as on Windows.
        trials(&text.replace("\r\n", "\n"))
    } else {
        samples(text)
    }
}

/// The runs of a file: one per block and target.
struct Blocks {
    drafts: Vec<Draft>,
}

impl Blocks {
    /// Returns the draft of a block of a target.
    fn of(&mut self, target: Option<&str>, block: u32) -> Result<&mut Draft, ReadError> {
        let place = self.drafts.iter().rposition(|draft| {
            draft.run.block == Some(block) && draft.run.system.as_deref() == target
        });
        let place = place.unwrap_or(self.drafts.len());
        if place == MOST_RUNS {
            return Err(too_much(TOOL.name, MOST_RUNS, "blocks"));
        }
        if place == self.drafts.len() {
            let mut draft = Draft::new(TOOL.name);
            (draft.run.block, draft.run.system) = (Some(block), target.map(str::to_owned));
            self.drafts.push(draft);
        }
        Ok(&mut self.drafts[place])
    }

    fn finish(mut self, remark: &str, why: &str) -> Result<Vec<Run>, ReadError> {
        if let Some(first) = self.drafts.first_mut() {
            first.remark(None, remark);
        }
        let mut runs = Runs::new(TOOL.name);
        for draft in self.drafts {
            runs.push(draft)?;
        }
        runs.finish(|| why.to_owned())
    }
}

/// Reads samples: a number, a value and its unit a line. Their arithmetic mean is the value of the
/// run, as in the tool and in its reports.
fn samples(text: &str) -> Result<Vec<Run>, ReadError> {
    let mut draft = Draft::new(TOOL.name);
    let mut bytes = text.as_bytes();
    let mut lines = Lines::new(&mut bytes);
    let (mut values, mut first) = (Vec::new(), 0);
    while let Some(line) = lines.next()? {
        let row = line.text();
        if row.is_empty() || row == SAMPLES {
            continue;
        }
        match sample(&row) {
            Some(seconds) => {
                first = if first == 0 { line.number } else { first };
                values.push(seconds);
            }
            None => {
                let text = format_args!("no sample, left out: '{}'", line.excerpt());
                draft.remark(line.number, text);
            }
        }
        if values.len() > MOST_REPETITIONS {
            return Err(too_much(TOOL.name, MOST_REPETITIONS, "samples"));
        }
    }
    let name = Name {
        workload: None,
        operation: UNKNOWN_WORK,
    };
    add_samples(&mut draft, name, first, values)?;
    draft.remark(None, UNNAMED);
    let mut runs = Runs::new(TOOL.name);
    runs.push(draft)?;
    runs.finish(|| "it has no line with a number, a time and its unit".to_owned())
}

/// Adds the samples of an operation in seconds, the first of which is in `line`, and their mean as
/// its value.
pub(super) fn add_samples(
    draft: &mut Draft,
    name: Name<'_>,
    line: u32,
    values: Vec<f64>,
) -> Result<(), ReadError> {
    if values.is_empty() {
        return Ok(());
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let place = Position {
        line,
        ..Position::default()
    };
    draft.add(name, &ITERATION_TIME, UNIT, place, time(mean))?;
    draft.run.samples.push(Samples {
        workload: name.workload.map(str::to_owned),
        operation: name.operation.to_owned(),
        metric: ITERATION_TIME.name.to_owned(),
        values,
    });
    Ok(())
}

/// Returns the seconds of a sample: `12,380.598,µs`.
fn sample(row: &str) -> Option<f64> {
    let mut fields = row.split(',').map(str::trim);
    let (number, value, unit) = (fields.next()?, fields.next()?, fields.next()?);
    number.parse::<u64>().ok()?;
    let scale = match unit {
        "ns" => 1e-9,
        // The micro sign, the Greek letter, and ASCII.
        "µs" | "μs" | "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    let value: f64 = value.parse().ok()?;
    (fields.next().is_none() && value.is_finite() && value > 0.0).then_some(value * scale)
}

#[derive(Deserialize)]
struct Document<'a> {
    targets: Vec<Target>,
    #[serde(borrow)]
    cases: Vec<Case<'a>>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Case<'a> {
    workload: String,
    operation: String,
    metric: String,
    #[serde(borrow)]
    cells: Vec<Cell<'a>>,
}

#[derive(Deserialize)]
struct Cell<'a> {
    #[serde(borrow)]
    trials: Vec<Trial<'a>>,
}

#[derive(Deserialize)]
struct Trial<'a> {
    block: u32,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// Reads the JSON of a report.
fn report(text: &str) -> Result<Vec<Run>, ReadError> {
    let source = Source::new(text);
    let document: Document = serde_json::from_str(text).map_err(|error| {
        let why = format!(
            "its JSON is cut or damaged in line {}: {error}",
            error.line()
        );
        ReadError::refused(TOOL.name, why)
    })?;
    let mut blocks = Blocks { drafts: Vec::new() };
    let several = document.targets.len() > 1;
    for case in &document.cases {
        if case.metric != ITERATION_TIME.name {
            return Err(ReadError::refused(TOOL.name, OTHER_RUN));
        }
        for (target, cell) in document.targets.iter().zip(&case.cells) {
            let target = several.then_some(target.name.as_str());
            let name = Name {
                workload: Some(&case.workload),
                operation: &case.operation,
            };
            for trial in &cell.trials {
                let Some(seconds) = number(trial.value) else {
                    continue;
                };
                let line = source.line_of(trial.value);
                let place = Position {
                    line,
                    ..Position::default()
                };
                let draft = blocks.of(target, trial.block)?;
                draft.add(name, &ITERATION_TIME, "s", place, time(seconds))?;
            }
        }
    }
    blocks.finish(MEANS, "no trial in it has a value")
}

#[derive(Deserialize)]
struct TrialRow<'a> {
    target: &'a str,
    workload: &'a str,
    operation: &'a str,
    block: u32,
    metric: &'a str,
    value: Option<f64>,
    unit: &'a str,
    outcome: &'a str,
}

fn line_of(position: Option<&csv::Position>) -> Option<u32> {
    position.and_then(|position| u32::try_from(position.line()).ok())
}

fn is_value(row: &TrialRow<'_>) -> bool {
    row.metric == ITERATION_TIME.name && row.unit == "seconds"
}

/// Reads the CSV of trials.
fn trials(text: &str) -> Result<Vec<Run>, ReadError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().cloned().unwrap_or_default();
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    for record in reader.records() {
        match record {
            Ok(record) => rows.push((line_of(record.position()), record)),
            Err(error) => bad.push((line_of(error.position()), error.to_string())),
        }
    }
    let mut blocks = Blocks { drafts: Vec::new() };
    let mut targets: Vec<&str> = Vec::new();
    let mut read = Vec::new();
    for (line, record) in &rows {
        match record.deserialize::<TrialRow>(Some(&heads)) {
            Ok(row) => {
                if !targets.contains(&row.target) {
                    targets.push(row.target);
                }
                read.push((*line, row));
            }
            Err(error) => bad.push((*line, error.to_string())),
        }
    }
    let micro = read.iter().filter(|(_, row)| is_value(row));
    let micro: HashSet<&str> = micro.map(|(_, row)| row.workload).collect();
    if read.iter().any(|(_, row)| !micro.contains(row.workload)) {
        return Err(ReadError::refused(TOOL.name, OTHER_RUN));
    }
    for (line, row) in &read {
        let Some(seconds) = row.value.filter(|_| is_value(row) && row.outcome == "ok") else {
            continue;
        };
        let target = (targets.len() > 1).then_some(row.target);
        let name = Name {
            workload: Some(row.workload),
            operation: row.operation,
        };
        let place = Position {
            line: line.unwrap_or_default(),
            ..Position::default()
        };
        let draft = blocks.of(target, row.block)?;
        draft.add(name, &ITERATION_TIME, "s", place, time(seconds))?;
    }
    if let Some(first) = blocks.drafts.first_mut() {
        for (line, why) in bad {
            first.remark(line, format_args!("no trial, left out: {why}"));
        }
    }
    blocks.finish(MEANS, "no trial in it has a value")
}

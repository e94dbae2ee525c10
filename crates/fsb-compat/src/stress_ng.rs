//! stress-ng 0.12 and later: the YAML of `--yaml` with `--metrics`.

use std::io::BufRead;

use fsb_model::metric::{CPU_PER_OPERATION, LATENCY_MEAN, OPERATION_RATE, THROUGHPUT, Unit};
use fsb_model::set::{GapReason, Run};

use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::message::{self, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, holds};
use crate::tool::{ReadError, Tool};

/// Reads the YAML of stress-ng.
pub(crate) const TOOL: Tool = Tool {
    name: "stress-ng",
    title: "stress-ng",
    about: "YAML of --yaml with --metrics of 0.x: bogo operations per second of each stressor",
    looks_for: "the key 'stress-ng-version:'",
    values: "bogo ops/s of all instances; others are the mean of an instance",
    repetition: "a YAML document",
    recognise,
    read,
};

/// The operation of a stressor.
const BOGO: &str = "bogo operation";

/// The messages of stress-ng, which can be in a file with its YAML.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Start("stress-ng: fail: "), Severity::Failure),
    (Pattern::Start("stress-ng: error: "), Severity::Failure),
    (Pattern::Start("stress-ng: warn: "), Severity::Warning),
    (Pattern::Start("stress-ng: "), Severity::Harmless),
];

const MEBIBYTE: f64 = 1_048_576.0;

fn recognise(head: &[u8]) -> bool {
    holds(head, b"stress-ng-version:")
        || holds(head, b"stress-ng: info: ")
        || holds(head, b"stress-ng: metrc: ")
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut document = Document::new();
    while let Some(line) = lines.next()? {
        let text = line.text();
        if document.is_next(&line, &text) {
            std::mem::replace(&mut document, Document::new()).finish(&mut runs)?;
        }
        document.take(&line, &text)?;
    }
    document.finish(&mut runs)?;
    runs.finish(|| {
        "it holds no metrics in YAML; run stress-ng with --metrics and --yaml FILE".to_owned()
    })
}

/// The numbers of a stressor.
#[derive(Default)]
struct Stressor {
    name: String,
    values: Vec<(String, f64, u32)>,
    /// The `instance` keys of later versions.
    instances: u64,
}

/// One execution while it is read.
struct Document {
    draft: Draft,
    /// The key without indentation: `metrics`.
    section: String,
    has_version: bool,
    stressor: Option<Stressor>,
    is_complete: bool,
}

impl Document {
    fn new() -> Self {
        let draft = Draft::new(TOOL.name);
        Document {
            draft,
            section: String::new(),
            has_version: false,
            stressor: None,
            is_complete: false,
        }
    }

    fn is_next(&self, line: &Line, text: &str) -> bool {
        self.has_version && (text == "---" || line.bytes.starts_with(b"system-info:"))
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        if let Some(message) = message::find(MESSAGES, line) {
            message.report(None, &mut self.draft);
            return Ok(());
        }
        self.is_complete |= text == "...";
        if self.is_complete || text.is_empty() && line.ended {
            // An empty line ends the numbers of a stressor.
            return self.end_stressor();
        }
        let depth = line.bytes.len() - line.bytes.trim_ascii_start().len();
        let Some((key, value)) = text
            .split_once(':')
            .map(|(key, value)| (key, value.trim().trim_matches('\'')))
        else {
            return Ok(());
        };
        match (depth, key) {
            (0, section) => {
                self.end_stressor()?;
                section.clone_into(&mut self.section);
            }
            (_, "stress-ng-version") => {
                self.has_version = true;
                self.draft.begin(line.number);
                self.draft.run.version = Some(value.to_owned());
            }
            (_, "- stressor") if self.section == "metrics" => {
                self.end_stressor()?;
                self.stressor = Some(Stressor {
                    name: value.to_owned(),
                    ..Stressor::default()
                });
            }
            (_, "- instance") => self
                .stressor
                .iter_mut()
                .for_each(|stressor| stressor.instances += 1),
            (6, key) => self.value(line, key, value),
            _ => {}
        }
        Ok(())
    }

    /// Keeps a number of the stressor. Later versions indent those of its instances deeper.
    fn value(&mut self, line: &Line, key: &str, value: &str) {
        let Some(stressor) = &mut self.stressor else {
            return;
        };
        match value.parse::<f64>() {
            // Infinite numbers are gaps.
            Ok(number) if line.ended => stressor.values.push((key.to_owned(), number, line.number)),
            _ if value.is_empty() => {}
            _ => self.draft.remark(
                line.number,
                format_args!("no number, left out: '{}'", line.excerpt()),
            ),
        }
    }

    fn end_stressor(&mut self) -> Result<(), ReadError> {
        let Some(stressor) = self.stressor.take() else {
            return Ok(());
        };
        let workload = stressor.workload();
        let name = Name {
            workload: Some(&workload),
            operation: BOGO,
        };
        for (key, number, line) in &stressor.values {
            let place = Position {
                line: *line,
                ..Position::default()
            };
            match key.as_str() {
                "bogo-ops-per-second-real-time" => {
                    self.draft.add(
                        name,
                        &OPERATION_RATE,
                        "bogo ops/s",
                        place,
                        printed_rate(*number),
                    )?;
                }
                // A run has a fixed length, so that processor time alone says nothing about the
                // work.
                "bogo-ops-per-second-usr-sys-time" if *number > 0.0 => {
                    self.draft.add(
                        name,
                        &CPU_PER_OPERATION,
                        "bogo ops/s of CPU",
                        place,
                        time(1.0 / number),
                    )?;
                }
                key => self.special(&workload, key, *number, place)?,
            }
        }
        Ok(())
    }

    /// Adds a number that only this stressor has. In the YAML it is the arithmetic mean over the
    /// instances, in the text of stress-ng their geometric mean; neither is the rate of all
    /// instances.
    fn special(
        &mut self,
        workload: &str,
        key: &str,
        number: f64,
        place: Position,
    ) -> Result<(), ReadError> {
        let (metric, unit, factor, rest) = if let Some(rest) = key.strip_prefix("mbsec-") {
            (THROUGHPUT, "MB/sec", MEBIBYTE, rest)
        } else if let Some(rest) = key.strip_prefix("nanosecs-per-") {
            (LATENCY_MEAN, "ns", 1e-9, rest)
        } else if let Some(rest) = key.strip_prefix("microsecs-per-") {
            (LATENCY_MEAN, "us", 1e-6, rest)
        } else {
            return Ok(());
        };
        let operation = format!("{}, mean of an instance", rest.replace('-', " "));
        let value = match metric.unit {
            Unit::Seconds if number.is_finite() => time(number * factor),
            _ => printed_rate(number * factor),
        };
        self.draft.add(
            Name {
                workload: Some(workload),
                operation: &operation,
            },
            &metric,
            unit,
            place,
            value,
        )
    }

    fn finish(mut self, runs: &mut Runs) -> Result<(), ReadError> {
        if self.has_version && !self.is_complete {
            // The number of instances, which is part of the name, can be missing.
            let cut = self
                .stressor
                .take()
                .map(|one| format!("; the numbers of {} are left out", one.name));
            let text = ends_early(TOOL.name, "the line '...'") + &cut.unwrap_or_default();
            self.draft.remark(None, text);
        }
        runs.push(self.draft)
    }
}

fn printed_rate(number: f64) -> Result<f64, GapReason> {
    if number.is_finite() {
        rate(number)
    } else {
        Err(GapReason::Unreadable)
    }
}

impl Stressor {
    /// Returns the name with the number of instances, which share the work: `hdd, 2 instances`.
    /// Earlier versions print it only as a part of the processor time.
    fn workload(&self) -> String {
        let find = |key: &str| {
            self.values
                .iter()
                .find(|(known, ..)| known == key)
                .map(|(_, number, _)| *number)
        };
        let busy = find("user-time")
            .zip(find("system-time"))
            .map(|(user, system)| user + system);
        let share = find("cpu-usage-per-instance")
            .zip(find("wall-clock-time"))
            .map(|(share, wall)| share / 100.0 * wall);
        let computed = busy
            .zip(share)
            .filter(|(_, share)| *share > 0.0)
            .map(|(busy, share)| busy / share);
        let whole = computed.filter(|count| *count >= 0.5 && (count - count.round()).abs() < 0.05);
        let count = if self.instances > 0 {
            Some(self.instances)
        } else {
            whole.map(|count| count.round() as u64)
        };
        match count {
            Some(1) => format!("{}, 1 instance", self.name),
            Some(count) => format!("{}, {count} instances", self.name),
            None => self.name.clone(),
        }
    }
}

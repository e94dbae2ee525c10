//! IO500 (the C program, since SC20): the lines of its phases, on the terminal or in
//! `result_summary.txt`.

use std::io::BufRead;

use fsb_model::metric::{MetricKind, OPERATION_RATE, THROUGHPUT};
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::message::{self, Found, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, fixed, holds};
use crate::tool::{ReadError, Tool};

/// Reads the results of the phases of IO500.
pub(crate) const TOOL: Tool = Tool {
    name: "io500",
    title: "IO500",
    about: "output or result_summary.txt of the C program: the rate of each phase that counts for the score",
    looks_for: "a line such as '[RESULT] ior-easy-write 1.5 GiB/s : time 300.0 seconds'",
    values: "GiB/s and kIOPS of each phase",
    repetition: "a file",
    recognise: |head| {
        holds(head, b"[RESULT")
            && (holds(head, b" GiB/s : time ") || holds(head, b" kIOPS : time "))
    },
    read,
};

/// The units of rates, with the factors to base units.
static UNITS: [(&str, MetricKind, f64); 2] = [
    ("GiB/s", THROUGHPUT, 1_073_741_824.0),
    ("kIOPS", OPERATION_RATE, 1e3),
];

/// The messages of IO500 until ISC26. `ERROR INVALID` marks a phase as invalid: it is a failure
/// where the work failed, and a warning where the phase was only too short for the list.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Part("occured during"), Severity::Failure),
    (Pattern::Part("returned with an error"), Severity::Failure),
    (Pattern::Part("Exit code "), Severity::Failure),
    (Pattern::Part("didn't find anything"), Severity::Failure),
    (Pattern::Part("score shouldn't be 0.0"), Severity::Failure),
    (Pattern::Part("DRY RUN MODE ACTIVATED"), Severity::Failure),
    (Pattern::Start("ERROR INVALID"), Severity::Warning),
    (Pattern::Start("; ERROR INVALID"), Severity::Warning),
    (Pattern::Start("FATAL "), Severity::Failure),
    (Pattern::Start("ERROR "), Severity::Failure),
    (Pattern::Start("WARNING "), Severity::Warning),
];

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut list = List::new(None);
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(version) = text.strip_prefix("IO500 version ") {
            let version = version.split(' ').next().unwrap_or_default().to_owned();
            runs.push(std::mem::replace(&mut list, List::new(Some(version))).finish())?;
            list.draft.begin(line.number);
        } else if let Some((label, rest)) =
            text.strip_prefix('[').and_then(|text| text.split_once(']'))
        {
            list.take(&line, label.trim(), rest)?;
        } else if let Some(message) = message::find(MESSAGES, &line) {
            list.messages.push(message);
            list.messages.truncate(MOST_MESSAGES);
        }
    }
    runs.push(list.finish())?;
    runs.finish(|| "it holds no result of a phase".to_owned())
}

/// Messages that are kept until the result of their phase.
const MOST_MESSAGES: usize = 1000;

/// The lines of one execution while they are read.
struct List {
    draft: Draft,
    /// Messages since the last result: they precede that of their phase.
    messages: Vec<Found>,
    /// The phases that do not count for the score but have a rate.
    unscored: Vec<String>,
    has_results: bool,
    has_score: bool,
}

/// A line of a phase.
struct Phase<'a> {
    name: &'a str,
    value: f64,
    unit: &'static (&'static str, MetricKind, f64),
    is_invalid: bool,
}

impl List {
    fn new(version: Option<String>) -> List {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version = version;
        let (messages, unscored) = (Vec::new(), Vec::new());
        List {
            draft,
            messages,
            unscored,
            has_results: false,
            has_score: false,
        }
    }

    /// Takes a line that begins with a label in brackets.
    fn take(&mut self, line: &Line, label: &str, rest: &str) -> Result<(), ReadError> {
        let invalid = |text: &str| text.to_ascii_lowercase().contains("invalid");
        if label.starts_with("SCORE") {
            self.has_score = true;
            if invalid(label) || invalid(rest) {
                self.draft
                    .remark_once(line.number, "IO500 marks the whole run as invalid");
            }
            return Ok(());
        }
        if !label.is_empty() && !label.starts_with("RESULT") {
            return Ok(()); // a heading of result.txt
        }
        let phase = Phase::parse(rest).filter(|_| line.ended);
        match phase {
            Some(phase) if label.is_empty() => {
                if phase.value > 0.0 {
                    self.unscored.push(phase.name.to_owned());
                }
            }
            Some(phase) => self.result(
                line,
                Phase {
                    is_invalid: phase.is_invalid || invalid(label),
                    ..phase
                },
            )?,
            None if label.is_empty() && !rest.contains(" : time ") => {}
            None => self.draft.remark(
                line.number,
                format_args!("no result of a phase, left out: '{}'", line.excerpt()),
            ),
        }
        Ok(())
    }

    fn result(&mut self, line: &Line, phase: Phase) -> Result<(), ReadError> {
        self.has_results = true;
        let (unit, metric, factor) = phase.unit;
        let operation = phase.name.replace('-', "_");
        let name = Name {
            workload: None,
            operation: &operation,
        };
        for message in self.messages.drain(..) {
            match message.severity {
                Severity::Failure => {
                    let text = format!("{}: {}", phase.name, message.text);
                    self.draft.fail_operation(message.line, name, text);
                }
                _ => message.report(None, &mut self.draft),
            }
        }
        if phase.is_invalid {
            let text = format!(
                "{}: IO500 marks the phase as invalid; its value is kept",
                phase.name
            );
            self.draft.remark(line.number, text);
        }
        let place = Position {
            line: line.number,
            ..Position::default()
        };
        self.draft
            .add(name, metric, unit, place, rate(phase.value * factor))
    }

    fn finish(mut self) -> Draft {
        // They follow the last result: the work did not go on.
        self.messages
            .drain(..)
            .for_each(|message| message.report(None, &mut self.draft));
        if !self.unscored.is_empty() {
            let (count, names) = (self.unscored.len(), self.unscored.join(", "));
            let phases = if count == 1 { "phase" } else { "phases" };
            self.draft.remark(
                None,
                format_args!("left out: {count} unscored {phases} ({names})"),
            );
        }
        if self.has_results && !self.has_score {
            self.draft
                .remark(None, ends_early(TOOL.name, "the line '[SCORE ]'"));
        }
        self.draft
    }
}

impl<'a> Phase<'a> {
    /// Reads `ior-easy-write 0.598912 GiB/s : time 0.127 seconds`, perhaps with the mark of an
    /// invalid phase.
    fn parse(text: &'a str) -> Option<Phase<'a>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [name, value, unit, ":", "time", _, "seconds", ref mark @ ..] = words[..] else {
            return None;
        };
        if !matches!(mark, [] | ["[INVALID]"]) {
            return None;
        }
        let unit = UNITS.iter().find(|(known, ..)| *known == unit)?;
        Some(Phase {
            name,
            value: fixed(value, 6..=6)?.value,
            unit,
            is_invalid: !mark.is_empty(),
        })
    }
}

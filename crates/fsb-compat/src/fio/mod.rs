//! fio: its results (JSON and json+, one document or several, with or without text around them),
//! and its job files.

mod document;
mod export;
pub mod job;
mod latency;
mod lenient;
mod log;
mod log_group;
mod log_line;
mod log_name;
mod measured;
mod messages;
mod names;
mod options;
pub mod print;
mod processes;
mod sections;
mod snapshot;
mod source;
mod tables;
mod terse;

use std::io::BufRead;

use fsb_model::set::{Remark, Run};

use crate::draft::{Draft, Runs};
use crate::text::{LineIndex, holds, whole_text};
use crate::tool::{ReadError, Tool};
use document::{Document, FIRST_KEY, Job, Parsed, parse, reason, starts};
use messages::Messages;
use names::{NAME, is_version, workload_names};
use source::Source;

pub use export::export;
pub(crate) use latency::TOTAL_LATENCY_MEAN;
pub(crate) use log::{LOG, read_named as read_log};
pub use log_group::executions;
pub(crate) use log_group::join as join_logs;

/// Reads fio's JSON.
pub(crate) const TOOL: Tool = Tool {
    name: NAME,
    title: "fio",
    about: "JSON and json+ of 2.x and 3.x, terse reports (versions 3 to 5): per job and direction",
    looks_for: "JSON with \"fio version\", from --output-format=json or json+; or a line '3;fio-…'",
    values: "B/s (before 3.0 and in terse reports KiB/s), IOPS; ns or µs (lower is better)",
    repetition: "an execution: the last report of --status-interval",
    recognise,
    read,
};

fn recognise(head: &[u8]) -> bool {
    holds(head, FIRST_KEY.as_bytes()) || is_text(head) || is_terse(head)
}

/// Returns whether this is the normal report of fio: `fio-3.33` on one line, and lines of jobs.
fn is_text(head: &[u8]) -> bool {
    let version = head
        .split(|byte| *byte == b'\n')
        .any(|line| is_version(line.trim_ascii()));
    version && (holds(head, b": (groupid=") || holds(head, b": (g="))
}

/// Returns whether a text has a line of a terse report.
fn is_terse(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').any(terse::is_line)
}

// Converts fio's documents to runs.

/// The maximum number of documents in a text.
const MOST_DOCUMENTS: usize = 1000;

/// Reads the executions in an input.
fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let text = whole_text(input, NAME)?;
    let starts = starts(&text);
    if starts.is_empty() && is_terse(text.as_bytes()) {
        return terse::read(&text);
    }
    if starts.is_empty() {
        return Err(ReadError::refused(NAME, no_document(text.as_bytes())));
    }
    if starts.len() > MOST_DOCUMENTS {
        return Err(ReadError::refused(
            NAME,
            format!("it holds more than {MOST_DOCUMENTS} reports"),
        ));
    }
    let repaired = lenient::repair(&text, &starts);
    let source = Source {
        original: &text,
        repaired: &repaired.text,
        lines: LineIndex::new(&text),
    };
    let mut reports = Reports::new(&source);
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    for (start, end) in starts.iter().copied().zip(ends) {
        reports.push(Report {
            start,
            parsed: parse(&source.repaired[start..end]),
        })?;
    }
    reports.finish(repaired.comma)
}

/// A document and its offset in the text.
struct Report<'t> {
    start: usize,
    parsed: Parsed<'t>,
}

impl Report<'_> {
    fn end(&self) -> usize {
        self.start + self.parsed.end
    }

    /// Returns the line at which the document is damaged, and the reason.
    fn damage(&self, lines: &LineIndex) -> Option<(u32, String)> {
        let error = self.parsed.error.as_ref()?;
        Some((
            lines
                .line(self.start)
                .saturating_add(error.line() as u32)
                .saturating_sub(1),
            reason(error),
        ))
    }
}

/// The runs of a text while its documents are read.
struct Reports<'t> {
    source: &'t Source<'t>,
    runs: Runs,
    /// The last document, which may be a snapshot of the run that the next one reports.
    last: Option<Report<'t>>,
    /// The offset from which messages belong to the next run.
    before: usize,
    /// Whether the document before the last one was a snapshot of the same run.
    continues: bool,
    is_damaged: bool,
}

impl<'t> Reports<'t> {
    fn new(source: &'t Source<'t>) -> Self {
        Reports {
            source,
            runs: Runs::new(NAME),
            last: None,
            before: 0,
            continues: false,
            is_damaged: false,
        }
    }

    fn push(&mut self, report: Report<'t>) -> Result<(), ReadError> {
        if let Some(last) = self.last.take() {
            self.continues = last.parsed.error.is_none()
                && snapshot::is_snapshot(
                    &last.parsed.document,
                    &report.parsed.document,
                    self.continues,
                );
            if !self.continues {
                self.keep(&last, last.end())?;
            }
        }
        self.last = Some(report);
        Ok(())
    }

    /// Keeps the run of a document with the messages up to an offset.
    fn keep(&mut self, report: &Report<'t>, end: usize) -> Result<(), ReadError> {
        let document = &report.parsed.document;
        let Source {
            original, lines, ..
        } = self.source;
        let mut draft = Draft::new(NAME);
        draft.begin(lines.line(report.start));
        let mut messages = Messages::default();
        for (job, error) in document
            .jobs
            .iter()
            .filter_map(|job| Some((job, job.error()?.0)))
        {
            messages.errors.insert(error);
            messages.hosts.extend(job.host.as_deref());
        }
        // Messages between the snapshots of a run are inside this text as well.
        messages.keep(
            &original[self.before..report.start],
            self.before,
            lines,
            &mut draft,
        );
        messages.keep(
            &original[report.end()..end],
            report.end(),
            lines,
            &mut draft,
        );
        if let Some((line, reason)) = report.damage(lines) {
            let kept = match (document.jobs.is_empty(), self.before > 0) {
                (false, _) => "the jobs before it are read",
                (true, false) => "no job before it is complete",
                (true, true) => {
                    "no job of this report is complete; the one before it may be of an earlier moment"
                }
            };
            draft.remark(
                line,
                format_args!("the JSON is cut or damaged here: {reason}; {kept}"),
            );
            self.is_damaged = true;
        }
        self.before = end;
        self.runs.push(run(document, self.source, draft)?)
    }

    /// Returns the runs. `comma` is the offset of a number with a decimal comma.
    fn finish(mut self, comma: Option<usize>) -> Result<Vec<Run>, ReadError> {
        if let Some(last) = self.last.take() {
            self.keep(&last, self.source.original.len())?;
        }
        if let (Some(comma), Some(first)) = (comma, self.runs.first_mut()) {
            let text =
                "numbers have the decimal comma of a locale; it is read as a point".to_owned();
            first.warnings.push(Remark {
                line: Some(self.source.lines.line(comma)),
                text,
            });
        }
        let why = if self.is_damaged {
            "no job of its JSON is complete"
        } else {
            "no job in it did any I/O"
        };
        self.runs.finish(|| why.to_owned())
    }
}

fn no_document(bytes: &[u8]) -> String {
    let form = if is_text(bytes) {
        "in the normal format"
    } else {
        "without the start of its JSON"
    };
    format!("{form}; run fio with --output-format=json (or json+) and --output=FILE")
}

fn run(document: &Document, source: &Source, mut draft: Draft) -> Result<Draft, ReadError> {
    let version = document
        .version
        .strip_prefix("fio-")
        .unwrap_or(&document.version);
    draft.run.version = (!version.is_empty()).then(|| version.to_owned());
    let workloads = workload_names(document.jobs.iter().map(|job| (&*job.name, job.group)));
    failures(document, &workloads, source, &mut draft);
    for one in measured::all(document, &workloads, source, &mut draft) {
        one.keep(&mut draft)?;
    }
    Ok(draft)
}

/// Records the jobs that ended with an error, or survived one. The processes of a job share its
/// name, so that the values of all of them are lost.
fn failures(document: &Document, workloads: &[String], source: &Source, draft: &mut Draft) {
    let mut is_known = false;
    for (job, workload) in document.jobs.iter().zip(workloads) {
        if let Some(raw) = job.unknown_error() {
            let text = format!(
                "job '{workload}': its error is not a number: '{}'",
                source.printed(raw)
            );
            draft.fail(source.line(raw), Some(workload), text);
        }
        let Some((error, raw)) = job.error() else {
            continue;
        };
        is_known = true;
        let host = job
            .host
            .as_ref()
            .map(|host| format!(", host {host}"))
            .unwrap_or_default();
        let text = format!(
            "job '{workload}' failed: {}{host}",
            messages::error_text(error)
        );
        draft.fail(source.line(raw), Some(workload), text);
    }
    if let Some((error, raw)) = document
        .sum
        .as_ref()
        .and_then(Job::error)
        .filter(|_| !is_known)
    {
        draft.fail(
            source.line(raw),
            None,
            format_args!("the clients failed: {}", messages::error_text(error)),
        );
    }
}

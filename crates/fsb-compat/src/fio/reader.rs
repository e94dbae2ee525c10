//! From fio's documents to runs.

use std::io::{BufRead, Read};

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT};
use fsb_model::set::{Histogram, Run};

use super::document::{self, Document};
use super::job::{Measured, measured};
use super::recognise::{is_terse, is_text};
use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::error::ReadError;

/// The name of the tool in lists and messages.
pub(super) const NAME: &str = "fio";

/// The largest text that is read. The json+ of a hundred jobs is a tenth of it.
const MOST_BYTES: u64 = 64 << 20;

/// The most documents in a text.
const MOST_DOCUMENTS: usize = 1000;

/// The executions in an input, each with at least one value.
pub(super) fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        let why = format!("it is larger than {} MiB, the most that fsb reads of a report", MOST_BYTES >> 20);
        return Err(ReadError::refused(NAME, why));
    }
    let text = String::from_utf8_lossy(&bytes);
    let starts = document::starts(&text);
    if starts.is_empty() {
        return Err(ReadError::refused(NAME, no_document(&bytes)));
    }
    if starts.len() > MOST_DOCUMENTS {
        return Err(ReadError::refused(NAME, format!("it holds more than {MOST_DOCUMENTS} reports")));
    }
    let lines = LineIndex::of(&text);
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let mut documents =
        starts.iter().copied().zip(ends).map(|(start, end)| (start, document::document(&text[start..end])));
    let (mut runs, mut damage, mut before) = (Runs::new(NAME), None, 0);
    let mut next = documents.next();
    while let Some((start, (document, error))) = next {
        next = documents.next();
        if error.is_none() && next.as_ref().is_some_and(|(_, (next, _))| is_snapshot(&document, next)) {
            continue;
        }
        let mut draft = Draft::new(NAME);
        complaints(&text[before..start], before, &lines, &mut draft);
        before = start;
        if let Some(error) = error {
            let line = lines.line(start).saturating_add(error.line() as u32).saturating_sub(1);
            draft.remark(line, format_args!("the JSON is cut or damaged here; the jobs before it are read ({error})"));
            damage = Some(line);
        }
        runs.push(run(&document, &text, &lines, draft)?)?;
    }
    runs.finish(|| match damage {
        Some(line) => format!("its JSON is cut or damaged in line {line}, before any job is complete"),
        None => "no job in it did any I/O".to_owned(),
    })
}

fn no_document(bytes: &[u8]) -> String {
    let form = if is_terse(bytes) {
        "in the terse format"
    } else if is_text(bytes) {
        "in the normal format"
    } else {
        "without the start of its JSON"
    };
    format!("{form}; run fio with --output-format=json (or json+) and --output=FILE")
}

/// Whether a report was printed while the run of the next one was going on (`--status-interval`): then it is part of
/// that run, not another one.
fn is_snapshot(document: &Document, next: &Document) -> bool {
    let elapsed = next.all().filter_map(|job| job.elapsed).max();
    match (document.timestamp_ms, next.timestamp_ms, elapsed) {
        (Some(printed), Some(end), Some(seconds)) => {
            // Seconds are rounded up, so this is the last moment at which it can have begun.
            end.saturating_sub(seconds.saturating_sub(1).saturating_mul(1000)) <= printed
        }
        _ => false,
    }
}

/// What fio said before its JSON that casts a doubt on it.
fn complaints(before: &str, offset: usize, lines: &LineIndex, draft: &mut Draft) {
    let mut at = offset;
    for line in before.split_inclusive('\n') {
        if line.starts_with("fio:") {
            draft.remark(lines.line(at), line.trim().chars().take(200).collect::<String>());
        }
        at += line.len();
    }
}

fn run(document: &Document, text: &str, lines: &LineIndex, mut draft: Draft) -> Result<Draft, ReadError> {
    let version = document.version.strip_prefix("fio-").unwrap_or(&document.version);
    draft.run.version = (!version.is_empty()).then(|| version.to_owned());
    for job in document.all().filter(|job| job.error != 0) {
        draft.remark(None, format_args!("job '{}' ended with error {}", job.jobname, job.error));
    }
    let all = measured(document, text, |offset, why| draft.remark(lines.line(offset), why));
    for one in all {
        keep(one, lines, &mut draft)?;
    }
    Ok(draft)
}

fn keep(one: Measured, lines: &LineIndex, draft: &mut Draft) -> Result<(), ReadError> {
    let name = Name { workload: Some(&one.workload), operation: one.operation };
    let place = |offset| Position { file_size: one.file_size, record_size: one.record_size, line: lines.line(offset) };
    if one.processes > 1 {
        let text =
            format!("job '{}', {}: the rates of {} processes are added", one.workload, one.operation, one.processes);
        draft.remark(None, text);
    }
    if let Some((found, unit)) = one.bandwidth {
        draft.add(name, &THROUGHPUT, unit, place(found.offset), rate(found.value))?;
    }
    if let Some(found) = one.iops {
        draft.add(name, &OPERATION_RATE, "IOPS", place(found.offset), rate(found.value))?;
    }
    if one.latency.count == 0 {
        return Ok(());
    }
    for (metric, found) in one.latency.values() {
        draft.add(name, metric, one.latency.found_unit, place(found.offset), time(found.value))?;
    }
    if !one.latency.bins.is_empty() {
        let bins = one.latency.bins.into_iter().collect();
        draft.run.histograms.push(Histogram {
            workload: Some(one.workload),
            operation: one.operation.to_owned(),
            bins,
        });
    }
    Ok(())
}

/// Where the lines of a text start.
struct LineIndex(Vec<usize>);

impl LineIndex {
    fn of(text: &str) -> LineIndex {
        LineIndex(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// The line of an offset, from 1.
    fn line(&self, offset: usize) -> u32 {
        (self.0.partition_point(|end| *end < offset) + 1).min(u32::MAX as usize) as u32
    }
}

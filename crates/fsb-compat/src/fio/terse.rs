//! fio's terse reports (`--output-format=terse` or `--minimal`), versions 3 to 5: a line per job.
//!
//! A line names its job and group, but neither options nor processes. Two lines with one job and
//! group are two processes if they report the same use of disks, and two executions or two moments
//! of one execution otherwise. Lines without requests of disks, as on tmpfs, are refused.

use std::collections::{BTreeSet, HashMap};

use fsb_model::set::Run;

use super::latency::{Latency, PERCENTILES, is_percent};
use super::measured::{Measured, OPTIONS_UNKNOWN};
use super::messages::{Messages, error_text};
use super::names::{NAME, is_version, workload_names};
use super::processes::{Process, Processes};
use super::source::Found;
use crate::draft::{Draft, Runs};
use crate::text::LineIndex;
use crate::tool::ReadError;

/// Fields before the first direction: terse version, fio version, job, group, error.
const BEFORE: usize = 5;

/// Fields of a direction, and those that version 5 adds to it.
const DIRECTION: usize = 41;
const ADDED: usize = 6;

/// Fields from the CPU to the last bin of latencies, between directions and disks.
const BETWEEN: usize = 34;

/// Fields of a disk: its name, and numbers up to the percentage of its use.
const DISK: usize = 9;

/// Executions that read from the page cache may report the same few requests of a disk, so that
/// they tell nothing.
const FEWEST_REQUESTS: u64 = 16;

/// The growth of a runtime in milliseconds that tells a report during an execution from a
/// repetition.
const LONGER: f64 = 500.0;

static WAYS: [&str; 3] = ["read", "write", "trim"];

/// Returns whether a line is a terse report: `3;fio-3.33;…`. Version 2 has no version of fio in it.
pub(super) fn is_line(line: &[u8]) -> bool {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let mut fields = line.split(|byte| *byte == b';');
    let version = fields
        .next()
        .is_some_and(|field| matches!(field, b"3" | b"4" | b"5"));
    version && fields.next().is_some_and(is_version)
}

/// A line of a job.
#[derive(Debug)]
struct Line<'t> {
    number: u32,
    version: &'t str,
    job: &'t str,
    group: i64,
    error: i64,
    ways: Vec<Fields<'t>>,
    /// The use of disks, as text. The same for all jobs of an execution, empty if there are none.
    disks: &'t str,
}

/// The fields of a direction.
#[derive(Debug, Clone, Copy)]
struct Fields<'t> {
    all: &'t str,
    number: u32,
}

impl<'t> Fields<'t> {
    fn text(&self, at: usize) -> &'t str {
        self.all.split(';').nth(at).unwrap_or_default()
    }

    fn value(&self, at: usize) -> Option<f64> {
        self.text(at)
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
    }

    /// Returns a number. Adds a remark if it is none.
    fn number(&self, at: usize, draft: &mut Draft) -> Option<Found> {
        let value = self.value(at);
        if value.is_none() {
            draft.remark(
                self.number,
                format_args!("'{}' is not a number; left out", self.text(at)),
            );
        }
        Some(Found {
            value: value?,
            line: self.number,
        })
    }

    /// Returns the time at which `percent` of all operations were complete: `99.000000%=3948`, in
    /// microseconds.
    fn grew(&self, later: &Fields) -> bool {
        // Sizes, runtimes and longest times grow; the shortest time falls.
        let pairs = [
            (self.value(0), later.value(0)),
            (self.value(3), later.value(3)),
            (self.value(9), later.value(9)),
            (later.value(8), self.value(8)),
        ];
        self.value(3) == Some(0.0)
            || pairs
                .iter()
                .all(|(less, more)| less.zip(*more).is_some_and(|(less, more)| less <= more))
    }

    fn ran_longer(&self, later: &Fields) -> bool {
        let [size, time] = [0, 3].map(|at| Some(later.value(at)? - self.value(at)?));
        time.is_some_and(|time| time >= LONGER) && size.is_some_and(|size| size > 0.0)
    }

    fn percentile(&self, percent: f64) -> Option<Found> {
        let (_, time) = (12..32)
            .filter_map(|at| self.text(at).split_once("%="))
            .find(|(found, _)| is_percent(found, percent))?;
        Some(Found {
            value: time.parse::<f64>().ok()? / 1e6,
            line: self.number,
        })
    }

    fn measured(&self, draft: &mut Draft) -> Measured {
        let iops = self.number(2, draft);
        // Operations are not printed.
        let seconds = self.value(3).unwrap_or_default() / 1e3;
        let latency = Latency {
            count: iops.map_or(0.0, |iops| iops.value * seconds) as u64,
            mean: self.number(10, draft).map(|found| found.divided_by(1e6)),
            total: self.number(34, draft).map(|found| found.divided_by(1e6)),
            percentiles: PERCENTILES
                .each_ref()
                .map(|(percent, _)| self.percentile(*percent)),
            found_unit: "us",
            ..Latency::default()
        };
        let kilobytes = self
            .number(1, draft)
            .map(|found| (found.divided_by(1.0 / 1024.0), "KiB/s"));
        Measured {
            workload: String::new(),
            operation: "",
            file_size: None,
            record_size: None,
            bandwidth: kilobytes,
            iops,
            latency,
            processes: 1,
        }
    }
}

impl<'t> Line<'t> {
    fn parse(text: &'t str, number: u32) -> Option<Line<'t>> {
        if !is_line(text.as_bytes()) {
            return None;
        }
        let fields: Vec<&str> = text.split(';').collect();
        let (columns, ways) = match fields[0] {
            "3" => (DIRECTION, 2),
            "4" => (DIRECTION, 3),
            _ => (DIRECTION + ADDED, 3),
        };
        let end = BEFORE + columns * ways;
        let rest = fields.get(end + BETWEEN..)?;
        // The errors that a job survived follow the disks, and its description follows them.
        let disks = rest
            .chunks(DISK)
            .take_while(|fields| fields.len() == DISK && fields[DISK - 1].ends_with('%'))
            .count()
            * DISK;
        let [first, survived] =
            [disks, disks + 1].map(|at| rest.get(at).and_then(|field| field.parse::<i64>().ok()));
        let survived = first.and(survived).unwrap_or_default();
        let start = length(&fields[..end + BETWEEN]);
        let end = start + length(&rest[..disks]);
        Some(Line {
            number,
            version: fields[1].strip_prefix("fio-")?,
            job: fields[2],
            group: fields[3].parse().ok()?,
            error: fields[4]
                .parse()
                .ok()
                .filter(|error| *error != 0)
                .unwrap_or(survived),
            ways: (0..ways)
                .map(|way| Fields {
                    all: &text[length(&fields[..BEFORE + columns * way])..],
                    number,
                })
                .collect(),
            disks: if requests(&rest[..disks]) < FEWEST_REQUESTS {
                ""
            } else {
                &text[start..end - 1]
            },
        })
    }

    /// Returns whether a line reports a later moment of the same execution (`--status-interval`).
    fn is_continued_by(&self, later: &Line, continues: bool) -> bool {
        let mut pairs = self.ways.iter().zip(&later.ways);
        // An error stays until the end of an execution.
        let is_repeated = self.error == 0 || self.error == later.error;
        is_repeated
            && pairs.clone().all(|(one, other)| one.grew(other))
            && (continues || pairs.any(|(one, other)| one.ran_longer(other)))
    }
}

/// The lines of one execution while they are read.
struct Execution<'t> {
    lines: Vec<Line<'t>>,
    /// The positions of lines by job, group and use of disks.
    places: HashMap<(&'t str, i64), HashMap<&'t str, BTreeSet<usize>>>,
    /// Whether a line was of a moment before the end.
    continues: bool,
    messages: Messages<'t>,
    draft: Draft,
}

impl<'t> Execution<'t> {
    fn new() -> Self {
        let (lines, places, messages) = (Vec::new(), HashMap::new(), Messages::default());
        Execution {
            lines,
            places,
            continues: false,
            messages,
            draft: Draft::new(NAME),
        }
    }

    /// Returns the position of the last line of the same job that is not of another process: the
    /// disks of an execution are the same in all its lines.
    fn find_other(&self, line: &Line) -> Option<usize> {
        let of_job = self.places.get(&(line.job, line.group))?;
        let others = of_job
            .iter()
            .filter(|(disks, _)| disks.is_empty() || **disks != line.disks);
        others
            .filter_map(|(_, places)| places.last().copied())
            .max()
    }

    fn push(&mut self, line: Line<'t>) {
        self.keep_place(&line, self.lines.len());
        self.lines.push(line);
    }

    /// Replaces a line by one of a later moment.
    fn replace(&mut self, at: usize, line: Line<'t>) {
        let old = &self.lines[at];
        let of_job = self.places.entry((old.job, old.group)).or_default();
        if let Some(places) = of_job.get_mut(old.disks) {
            places.remove(&at);
        }
        of_job.retain(|_, places| !places.is_empty());
        self.keep_place(&line, at);
        self.lines[at] = line;
        self.continues = true;
    }

    fn keep_place(&mut self, line: &Line<'t>, at: usize) {
        self.places
            .entry((line.job, line.group))
            .or_default()
            .entry(line.disks)
            .or_default()
            .insert(at);
        self.messages
            .errors
            .extend(Some(line.error).filter(|error| *error != 0));
    }
}

/// Reads the executions in a text of terse reports.
pub(super) fn read(text: &str) -> Result<Vec<Run>, ReadError> {
    let index = LineIndex::new(text);
    let mut runs = Runs::new(NAME);
    let (mut execution, mut at) = (Execution::new(), 0);
    for whole in text.split_inclusive('\n') {
        let (offset, number) = (at, index.line(at));
        at += whole.len();
        let text = whole.trim_matches(['\u{feff}', '\r', '\n']);
        let Some(line) = Line::parse(text, number) else {
            if is_line(text.as_bytes()) {
                execution
                    .draft
                    .remark(number, "the line of a terse report is cut; left out");
            }
            execution
                .messages
                .keep(whole, offset, &index, &mut execution.draft);
            continue;
        };
        let Some(known) = execution.find_other(&line) else {
            execution.push(line);
            continue;
        };
        let other = &execution.lines[known];
        if other.is_continued_by(&line, execution.continues) {
            execution.replace(known, line);
        } else if other.disks.is_empty() && line.disks.is_empty() {
            return Err(ReadError::refused(NAME, ambiguous(other, &line)));
        } else {
            runs.push(run(std::mem::replace(&mut execution, Execution::new()))?)?;
            execution.push(line);
        }
    }
    runs.push(run(execution)?)?;
    runs.finish(|| "no job in its terse report did any I/O".to_owned())
}

/// Returns the length of fields with a separator after each.
fn length(fields: &[&str]) -> usize {
    fields.iter().map(|field| field.len() + 1).sum()
}

/// Returns the reads and writes of all disks.
fn requests(disks: &[&str]) -> u64 {
    let fields = disks.chunks_exact(DISK).flat_map(|disk| &disk[1..3]);
    fields
        .map(|field| field.parse::<u64>().unwrap_or_default())
        .fold(0, u64::saturating_add)
}

fn ambiguous(one: &Line, other: &Line) -> String {
    format!(
        "lines {} and {} are of job '{}' and tell nothing of disks: they are two processes or two executions, which the terse \
         format does not say; use --output-format=json, or one file for each execution and --group_reporting",
        one.number, other.number, one.job
    )
}

fn run(execution: Execution) -> Result<Draft, ReadError> {
    let Execution {
        lines, mut draft, ..
    } = execution;
    draft.run.version = lines.first().map(|line| line.version.to_owned());
    let workloads = workload_names(lines.iter().map(|line| (line.job, line.group)));
    let mut found: Vec<Measured> = Vec::new();
    let mut index: HashMap<(String, &str), usize> = HashMap::new();
    let mut processes = Processes::default();
    for (line, workload) in lines.iter().zip(&workloads) {
        if line.error != 0 {
            let text = format!("job '{workload}' failed: {}", error_text(line.error));
            draft.fail(line.number, Some(workload), text);
        }
        let worked: Vec<_> = line
            .ways
            .iter()
            .zip(WAYS)
            .filter(|(fields, _)| !(fields.value(0) == Some(0.0) && fields.value(3) == Some(0.0)))
            .collect();
        let operations = worked
            .iter()
            .map(|(_, operation)| (*operation, true))
            .collect();
        let (line, has_error) = (line.number, line.error != 0);
        processes.add(
            workload,
            Process {
                line,
                host: "",
                requested: None,
                operations,
                has_error,
            },
        );
        for (fields, operation) in worked {
            draft.remark_once(None, OPTIONS_UNKNOWN);
            let one = Measured {
                workload: workload.clone(),
                operation,
                ..fields.measured(&mut draft)
            };
            match index.get(&(workload.clone(), operation)) {
                Some(at) => found[*at].merge(one),
                None => {
                    index.insert((workload.clone(), operation), found.len());
                    found.push(one);
                }
            }
        }
    }
    processes.keep(&mut draft);
    for one in found {
        one.keep(&mut draft)?;
    }
    Ok(draft)
}

//! fio's logs (`--write_bw_log`, `--write_lat_log`, …): one line per interval (`--log_avg_msec`) or
//! per operation.
//!
//! The lines of a log are one execution, so they become one value for each direction: the mean over
//! time of intervals, or the mean over operations. A log contains neither the name of its job nor
//! its settings, and only the name of the file says what it measures.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use fsb_model::metric::{Better, LATENCY_MEAN, MetricKind, OPERATION_RATE, Role, THROUGHPUT, Unit};
use fsb_model::set::{Histogram, Run, Timeline};

use super::latency::{Latency, TOTAL_LATENCY_MEAN};
use super::log_line::{Layout, Row, bin_of, bin_time};
use super::log_name::{LogKind, LogName};
use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::text::Lines;
use crate::tool::{ReadError, Tool};

/// The name of the tool in lists and messages.
const NAME: &str = "fio-log";

/// Reads fio's logs.
pub(crate) const LOG: Tool = Tool {
    name: NAME,
    title: "fio's logs",
    about: "logs of 3.x: bandwidth, IOPS, latency, histograms; by interval, or latency by operation",
    looks_for: "lines 'time, value, direction, block size, …' in a file *_bw.N.log, *_clat.N.log, …",
    values: "KiB/s and IOPS; ns (lower is better)",
    repetition: "the logs of an execution, its intervals are parts of it",
    recognise: |head| {
        head.split(|byte| *byte == b'\n')
            .next()
            .and_then(Layout::from_line)
            .is_some()
    },
    read: |input| read(None, input),
};

/// Reads a log with the name of its file.
pub(crate) fn read_named(path: &Path, input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    read(LogName::parse(path).as_ref(), input)
}

const fn latency(name: &'static str, about: &'static str) -> MetricKind {
    MetricKind {
        name,
        unit: Unit::Seconds,
        better: Better::Lower,
        role: Role::Latency,
        about,
    }
}

const COMPLETION_OVER_TIME: MetricKind = latency(
    "latency_over_time",
    "Mean over time of the mean latency of each interval (fio's clat log).",
);
const TOTAL_OVER_TIME: MetricKind = latency(
    "total_latency_over_time",
    "Mean over time of the mean total latency of each interval (fio's lat log).",
);
const SUBMISSION_OVER_TIME: MetricKind = latency(
    "submission_latency_over_time",
    "Mean over time of the mean submission of each interval (fio's slat log).",
);
const SUBMISSION_MEAN: MetricKind = latency(
    "submission_latency_mean",
    "Mean time of one submission (fio's slat log).",
);

impl LogKind {
    /// Returns the metric of intervals, the size of its unit, and the unit as fio has it.
    fn of_intervals(self) -> (&'static MetricKind, f64, &'static str) {
        match self {
            LogKind::Bandwidth => (&THROUGHPUT, 1024.0, "KiB/s"),
            LogKind::Rate => (&OPERATION_RATE, 1.0, "IOPS"),
            LogKind::Completion | LogKind::Counts => (&COMPLETION_OVER_TIME, 1e-9, "ns"),
            LogKind::Total => (&TOTAL_OVER_TIME, 1e-9, "ns"),
            LogKind::Submission => (&SUBMISSION_OVER_TIME, 1e-9, "ns"),
        }
    }

    /// Returns the metric of single operations; `None` for a rate, which one operation does not
    /// have.
    fn of_operations(self) -> Option<&'static MetricKind> {
        match self {
            LogKind::Bandwidth | LogKind::Rate => None,
            LogKind::Completion | LogKind::Counts => Some(&LATENCY_MEAN),
            LogKind::Total => Some(&TOTAL_LATENCY_MEAN),
            LogKind::Submission => Some(&SUBMISSION_MEAN),
        }
    }
}

fn read(name: Option<&LogName>, input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut draft = Draft::new(NAME);
    let mut log = Log::default();
    while let Some(line) = lines.next()? {
        let layout = match log.layout {
            Some(layout) => layout,
            None => *log.layout.insert(
                Layout::from_line(line.bytes).ok_or_else(|| ReadError::refused(NAME, NO_LINE))?,
            ),
        };
        match layout
            .row(line.bytes)
            .filter(|_| line.ended && !line.too_long)
        {
            Some(row) => log.add(&row, layout, line.number, &mut draft),
            None => draft.remark(
                line.number,
                format_args!("no line of a log, left out: '{}'", line.excerpt()),
            ),
        }
    }
    let Some(layout) = log.layout else {
        return Err(ReadError::refused(NAME, NO_LINE));
    };
    let kind = match (name, layout) {
        (_, Layout::Counts { bins }) if bin_time(0, bins).is_none() => {
            return Err(ReadError::refused(
                NAME,
                format!("{bins} bins in a line are not those of fio 3.x"),
            ));
        }
        (_, Layout::Counts { .. }) => LogKind::Counts,
        (Some(name), _) => name.kind,
        (None, _) => return Err(ReadError::refused(NAME, NO_NAME)),
    };
    if !layout.has_nanoseconds(log.has_offset)
        && !matches!(kind, LogKind::Bandwidth | LogKind::Rate)
    {
        return Err(ReadError::refused(NAME, OLD));
    }
    log.keep(kind, name.and_then(|name| name.job), &mut draft)?;
    let mut runs = Runs::new(NAME);
    runs.push(draft)?;
    runs.finish(|| "it holds no value".to_owned())
}

const NO_LINE: &str =
    "its first line does not have the form 'time, value, direction, block size, …'";
const NO_NAME: &str = "only its name says what it measures; give the file the name that fio chose, such as w_bw.1.log";
const OLD: &str = "it has no column of the priority, so an old fio wrote it: times are microseconds before 3.0 and \
                   nanoseconds since, which a log does not say; use fio's JSON";

/// The number of intervals that a timeline keeps at least, if a log has as many.
const MOST_INTERVALS: usize = 500;

/// The directions of a log, in fio's numbers.
static WAYS: [&str; 3] = ["read", "write", "trim"];

/// The lines of a log. fio appends the log of a job to that of the job before it if it writes one
/// file for all.
#[derive(Default)]
struct Log {
    layout: Option<Layout>,
    parts: Vec<[Samples; 3]>,
    /// The time of the last line.
    now: u64,
    has_offset: bool,
}

/// The lines of one direction of a job.
#[derive(Default)]
struct Samples {
    line: Option<u32>,
    /// The intervals, of which neighbours are merged if there are many.
    intervals: Vec<Interval>,
    /// The first interval, until its length is known.
    first: Option<(u64, u64)>,
    previous: Option<u64>,
    operations: u64,
    sum: f64,
    /// The bytes of each operation, if all have the same.
    record_size: Option<u64>,
    has_sizes: bool,
    /// The number of operations by nanoseconds.
    bins: BTreeMap<u64, u64>,
}

/// An interval: its end and length in milliseconds, and its mean times its length.
#[derive(Debug, Clone, Copy)]
struct Interval {
    end: u64,
    length: f64,
    integral: f64,
}

impl Interval {
    fn merge(pair: &[Interval]) -> Interval {
        Interval {
            end: pair.last().map_or(0, |last| last.end),
            length: pair.iter().map(|one| one.length).sum(),
            integral: pair.iter().map(|one| one.integral).sum(),
        }
    }
}

impl Log {
    fn add(&mut self, row: &Row, layout: Layout, line: u32, draft: &mut Draft) {
        if self.parts.is_empty() || row.time.saturating_mul(2) < self.now {
            self.parts.push(Default::default());
            self.now = 0;
        }
        self.now = self.now.max(row.time);
        self.has_offset |= row.has_offset;
        let Some(samples) = self.parts.last_mut().and_then(|part| part.get_mut(row.way)) else {
            return;
        };
        samples.line.get_or_insert(line);
        match layout {
            Layout::Counts { bins } => samples.add_counts(row, bins),
            Layout::Values { .. } if row.block == 0 => {
                if !samples.add_interval(row.time, row.value) {
                    draft.remark(
                        line,
                        "an interval that ends before the one before it; left out",
                    );
                }
            }
            Layout::Values { .. } => samples.add_operation(row),
        }
    }

    fn keep(self, kind: LogKind, job: Option<u32>, draft: &mut Draft) -> Result<(), ReadError> {
        let several = self.parts.len() > 1;
        for (index, part) in self.parts.into_iter().enumerate() {
            let workload = match job {
                Some(job) if several => Some(format!("job {job}, log {}", index + 1)),
                Some(job) => Some(format!("job {job}")),
                None => several.then(|| format!("log {}", index + 1)),
            };
            if index == 1 {
                let line = part.iter().filter_map(|samples| samples.line).min();
                draft.remark(line, "the times begin again: the file holds the logs of several jobs, one after another");
            }
            for (samples, operation) in part.into_iter().zip(WAYS) {
                samples.keep(
                    kind,
                    Name {
                        workload: workload.as_deref(),
                        operation,
                    },
                    draft,
                )?;
            }
        }
        Ok(())
    }
}

impl Samples {
    /// Adds the mean of an interval. Returns whether it follows the one before it.
    fn add_interval(&mut self, end: u64, value: u64) -> bool {
        match self.previous {
            Some(previous) if end < previous => return false,
            Some(previous) => {
                if let Some((first, value)) = self.first.take() {
                    self.push(first, (end - previous).min(first), value);
                }
                self.push(end, end - previous, value);
            }
            // Its length is known from the next one: times may begin at any moment
            // (`--log_unix_epoch`).
            None => self.first = Some((end, value)),
        }
        self.previous = Some(end);
        true
    }

    fn push(&mut self, end: u64, milliseconds: u64, value: u64) {
        let length = milliseconds as f64;
        self.intervals.push(Interval {
            end,
            length,
            integral: value as f64 * length,
        });
        if self.intervals.len() == 2 * MOST_INTERVALS {
            self.intervals = self.intervals.chunks(2).map(Interval::merge).collect();
        }
    }

    fn add_operation(&mut self, row: &Row) {
        self.operations += 1;
        self.sum += row.value as f64;
        self.add_size(row.block);
        *self.bins.entry(bin_of(row.value)).or_default() += 1;
    }

    fn add_counts(&mut self, row: &Row, bins: usize) {
        self.add_size(row.block);
        for (index, count) in &row.counts {
            if let Some(time) = bin_time(*index, bins) {
                let sum = self.bins.entry(time).or_default();
                *sum = sum.saturating_add(*count);
                self.operations = self.operations.saturating_add(*count);
            }
        }
    }

    fn add_size(&mut self, block: u64) {
        self.record_size = if self.has_sizes {
            self.record_size.filter(|size| *size == block)
        } else {
            Some(block)
        };
        self.has_sizes = true;
    }

    /// Returns the mean over the time of all intervals; `None` if there are none.
    fn mean_over_time(&self) -> Option<f64> {
        // A single interval has no length that is known, and needs none.
        let only = self.first.map(|(_, value)| value as f64);
        let all = Interval::merge(&self.intervals);
        only.or_else(|| (all.length > 0.0).then(|| all.integral / all.length))
    }

    /// Returns the values of intervals in units of `unit`, with their ends in seconds from the
    /// start of the first.
    fn timeline(&self, name: Name, metric: &MetricKind, unit: f64) -> Option<Timeline> {
        let first = self.intervals.first()?;
        let start = first.end as f64 - first.length;
        let measured = self
            .intervals
            .iter()
            .filter(|interval| interval.length > 0.0);
        let points = measured.map(|one| {
            let seconds = (one.end as f64 - start) / 1e3;
            (seconds, one.integral / one.length * unit)
        });
        Some(Timeline {
            workload: name.workload.map(str::to_owned),
            operation: name.operation.to_owned(),
            metric: metric.name.to_owned(),
            points: points.collect(),
        })
    }

    fn keep(self, kind: LogKind, name: Name, draft: &mut Draft) -> Result<(), ReadError> {
        let Some(line) = self.line else { return Ok(()) };
        let place = Position {
            record_size: self.record_size.filter(|size| *size > 0),
            line,
            file_size: None,
        };
        if let Some(mean) = self.mean_over_time() {
            let (metric, unit, found) = kind.of_intervals();
            let value = if metric.unit == Unit::Seconds {
                time(mean * unit)
            } else {
                rate(mean * unit)
            };
            draft.add(name, metric, found, place, value)?;
            draft
                .run
                .timelines
                .extend(self.timeline(name, metric, unit));
        }
        if self.operations == 0 {
            return Ok(());
        }
        let Some(metric) = kind.of_operations() else {
            let text = "each line is one operation, which has no rate; log intervals with --log_avg_msec=500";
            draft.remark_once(line, text);
            return Ok(());
        };
        if kind != LogKind::Counts {
            draft.add(
                name,
                metric,
                "ns",
                place,
                time(self.sum / self.operations as f64 / 1e9),
            )?;
        }
        if matches!(kind, LogKind::Completion | LogKind::Counts) {
            for (metric, found) in Latency::from_bins(&self.bins, self.operations, line).values() {
                draft.add(name, metric, "ns", place, time(found.value))?;
            }
            let (workload, operation) =
                (name.workload.map(str::to_owned), name.operation.to_owned());
            draft.run.histograms.push(Histogram {
                workload,
                operation,
                bins: self.bins.into_iter().collect(),
            });
        }
        Ok(())
    }
}

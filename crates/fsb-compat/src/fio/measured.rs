//! The directions of jobs: rates and times, added over the processes of a job.

use std::collections::HashMap;

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT};
use fsb_model::set::Histogram;

use super::document::{Document, Fields, Job, options as parse_options};
use super::latency::Latency;
use super::options::{Merged, Way};
use super::processes::{Process, Processes};
use super::source::{Found, Source};
use crate::draft::{Draft, Name, Position, rate, time};
use crate::tool::ReadError;

/// The largest relative difference between bandwidth and operations times block size.
const ROUNDING: f64 = 0.02;

/// One direction of a job: the sum over its processes.
#[derive(Debug)]
pub(super) struct Measured {
    /// The job's name, with a number if a later group repeats it.
    pub workload: String,
    pub operation: &'static str,
    pub file_size: Option<u64>,
    pub record_size: Option<u64>,
    /// Bytes a second, and the unit as printed.
    pub bandwidth: Option<(Found, &'static str)>,
    pub iops: Option<Found>,
    pub latency: Latency,
    /// The number of jobs with the same name: `numjobs` without `group_reporting`.
    pub processes: usize,
}

/// The key that processes with the same work share: workload, operation and sizes.
type Key = (String, &'static str, Option<u64>, Option<u64>);

/// Returns the directions in which jobs worked or were requested to work, and records the settings
/// of the jobs.
pub(super) fn all(
    document: &Document,
    workloads: &[String],
    source: &Source,
    draft: &mut Draft,
) -> Vec<Measured> {
    let mut found: Vec<Measured> = Vec::new();
    let mut index: HashMap<Key, usize> = HashMap::new();
    let global = parse_options(document.global);
    let version = draft.run.version.clone().unwrap_or_default();
    let mut processes = Processes::default();
    for (job, workload) in document.jobs.iter().zip(workloads) {
        let options = job.fields.get("job options");
        let own = parse_options(options);
        let options = Merged {
            job: &own,
            global: &global,
            are_known: options.or(document.global).is_some(),
        };
        for (name, value) in options.settings(&version) {
            draft.setting(Some(workload), &name, value);
        }
        let directions = directions(job, workload, &options, source, draft);
        processes.add(workload, process(job, &options, &directions, source));
        if !options.are_known && !directions.is_empty() {
            draft.remark_once(None, OPTIONS_UNKNOWN);
        }
        for Direction {
            way,
            fields: direction,
            ..
        } in directions
        {
            let one = Measured {
                workload: workload.clone(),
                ..one(way, &direction, &options, source, draft)
            };
            let key = (
                workload.clone(),
                one.operation,
                one.file_size,
                one.record_size,
            );
            match index.get(&key) {
                Some(at) => found[*at].merge(one),
                None => {
                    index.insert(key, found.len());
                    found.push(one);
                }
            }
        }
    }
    processes.keep(draft);
    found
}

/// A direction in which a job worked, or was requested to work.
struct Direction<'a> {
    way: Way,
    fields: Fields<'a>,
    operations: u64,
}

fn process<'j>(
    job: &'j Job,
    options: &Merged,
    directions: &[Direction],
    source: &Source,
) -> Process<'j> {
    Process {
        line: job.fields.get("jobname").map_or(1, |raw| source.line(raw)),
        host: job.host.as_deref().unwrap_or_default(),
        requested: options.processes(),
        operations: directions
            .iter()
            .map(|direction| {
                let has_rate = direction.operations > 0 && !is_zero(&direction.fields);
                (options.operation(direction.way), has_rate)
            })
            .collect(),
        has_error: job.error().is_some() || job.unknown_error().is_some(),
    }
}

/// Returns whether a direction has rates, and all of them are zero: fio measured no time.
fn is_zero(direction: &Fields) -> bool {
    let mut rates = ["bw_bytes", "bw", "iops"]
        .into_iter()
        .filter_map(|key| direction.get(key))
        .peekable();
    rates.peek().is_some() && rates.all(|raw| raw.get().parse() == Ok(0.0))
}

/// The remark about a report without the options of its jobs.
pub(super) const OPTIONS_UNKNOWN: &str = "the report does not have the options of its jobs: access pattern, sizes and \
                                          settings are unknown, so runs of other work may be compared; the JSON of fio \
                                          since 2.16 has them";

/// Returns the directions of a job in which it worked, or was requested to work.
fn directions<'a>(
    job: &Job<'a>,
    workload: &str,
    options: &Merged,
    source: &Source,
    draft: &mut Draft,
) -> Vec<Direction<'a>> {
    let ways = [
        (Way::Read, "read"),
        (Way::Write, "write"),
        (Way::Trim, "trim"),
        (Way::Mixed, "mixed"),
        (Way::Sync, "sync"),
    ];
    let is_unified = job.fields.get("mixed").is_some();
    let mut kept = Vec::new();
    for (way, key) in ways {
        let Some(fields) = job.fields.object(key) else {
            continue;
        };
        let operations = operations(&fields, source, draft);
        if operations == 0 && (is_unified || !options.asks_for(way)) {
            continue;
        }
        if let Some((raw, why)) = fields
            .get("total_ios")
            .zip(options.contradiction(way))
            .filter(|_| operations > 0)
        {
            let text = format!("job '{workload}': {operations} operations of {key}, but {why}");
            draft.remark(source.line(raw), text);
        }
        kept.push(Direction {
            way,
            fields,
            operations,
        });
    }
    kept
}

/// Returns the number of operations. A count that is not a number is at least one if there is a
/// rate.
fn operations(direction: &Fields, source: &Source, draft: &mut Draft) -> u64 {
    let Some(raw) = direction.get("total_ios") else {
        return 0;
    };
    if let (None, Some(count)) = (direction.other("total_ios"), direction.count("total_ios")) {
        return count;
    }
    draft.remark(
        source.line(raw),
        format_args!("total_ios: '{}' is not a count", source.printed(raw)),
    );
    let has_rate = ["bw_bytes", "bw", "iops"].into_iter().any(|key| {
        let rate = direction
            .get(key)
            .and_then(|raw| raw.get().parse::<f64>().ok());
        rate.is_some_and(|rate| rate > 0.0)
    });
    u64::from(has_rate)
}

fn one(
    way: Way,
    direction: &Fields,
    options: &Merged,
    source: &Source,
    draft: &mut Draft,
) -> Measured {
    let bytes = source
        .number(direction, "bw_bytes", draft)
        .map(|found| (found, "B/s"));
    let bandwidth = bytes.or_else(|| {
        let mut found = source.number(direction, "bw", draft)?;
        found.value *= 1024.0;
        Some((found, "KiB/s"))
    });
    let operations = direction.count("total_ios").unwrap_or_default();
    Measured {
        workload: String::new(),
        operation: options.operation(way),
        file_size: options.file_size(),
        record_size: options.record_size(way),
        bandwidth,
        iops: source.number(direction, "iops", draft),
        latency: Latency::from_direction(direction, operations, source, draft),
        processes: 1,
    }
}

impl Measured {
    /// Adds a process that did the same work at the same time: rates add up.
    pub fn merge(&mut self, other: Measured) {
        self.bandwidth = self
            .bandwidth
            .zip(other.bandwidth)
            .map(|(mut mine, theirs)| {
                mine.0.value += theirs.0.value;
                mine
            });
        self.iops = self.iops.zip(other.iops).map(|(mut mine, theirs)| {
            mine.value += theirs.value;
            mine
        });
        self.latency.merge(other.latency);
        self.processes += other.processes;
    }

    /// Adds the values to a run.
    ///
    /// # Errors
    /// As [`Draft::add`].
    pub fn keep(self, draft: &mut Draft) -> Result<(), ReadError> {
        let name = Name {
            workload: Some(&self.workload),
            operation: self.operation,
        };
        let Measured {
            file_size,
            record_size,
            processes,
            ..
        } = self;
        let place = |line| Position {
            file_size,
            record_size,
            line,
        };
        let is_failed = draft
            .run
            .failures
            .iter()
            .any(|failure| failure.workload.as_ref() == Some(&self.workload));
        if processes > 1 && !is_failed {
            let work = format!("job '{}', {}", self.workload, self.operation);
            draft.remark(
                None,
                format_args!("{work}: the rates of {processes} processes are added"),
            );
        }
        if let Some((line, why)) = self.disagreement() {
            draft.remark(line, why);
        }
        if let Some((found, unit)) = self.bandwidth {
            draft.add(
                name,
                &THROUGHPUT,
                unit,
                place(found.line),
                rate(found.value),
            )?;
        }
        if let Some(found) = self.iops {
            draft.add(
                name,
                &OPERATION_RATE,
                "IOPS",
                place(found.line),
                rate(found.value),
            )?;
        }
        if self.latency.count > 0 {
            for (metric, found) in self.latency.values() {
                draft.add(
                    name,
                    metric,
                    self.latency.found_unit,
                    place(found.line),
                    time(found.value),
                )?;
            }
        }
        if !self.latency.bins.is_empty() {
            let bins = self.latency.bins.into_iter().collect();
            let (workload, operation) = (Some(self.workload), self.operation.to_owned());
            draft.run.histograms.push(Histogram {
                workload,
                operation,
                bins,
            });
        }
        Ok(())
    }

    /// Returns the line and text of a bandwidth that is not operations times block size.
    fn disagreement(&self) -> Option<(u32, String)> {
        let ((bandwidth, unit), iops, block) = (self.bandwidth?, self.iops?, self.record_size?);
        let expected = iops.value * block as f64;
        let (low, high) = (bandwidth.value.min(expected), bandwidth.value.max(expected));
        let step = if unit == "B/s" { 1.0 } else { 1024.0 };
        // Old versions round operations a second to whole numbers. Any version may miss or count
        // one operation more.
        let rounded = if iops.value.fract() == 0.0 { 1.0 } else { 0.01 };
        let one_operation = iops.value / self.latency.count.max(1) as f64;
        let rounding = self.processes as f64 * (step + block as f64 * (rounded + one_operation));
        // The last block of each file is shorter if its size is not a multiple of the block.
        let is_whole = self
            .file_size
            .is_some_and(|size| size.is_multiple_of(block));
        let is_shorter = bandwidth.value < expected && !is_whole && high < 2.0 * low;
        if low == 0.0 || is_shorter || high - low <= ROUNDING * high + rounding {
            return None;
        }
        let work = format!("job '{}', {}", self.workload, self.operation);
        let (iops, printed) = (iops.value, bandwidth.value);
        let rates = format!(
            "{iops:.0} operations a second of {block} bytes are {expected:.0} B/s, and not {printed:.0} B/s"
        );
        Some((bandwidth.line, format!("{work}: {rates} as printed")))
    }
}

//! The results of `fsb fio` in fio's forms: JSON as `--output-format=json` writes it, and a short
//! text.
//!
//! Fields that fsb does not measure are absent.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::job::{LatencyKind, ResultDirection};

/// The result of a process, or of all processes of a group that shares one.
#[derive(Debug, Clone, PartialEq)]
pub struct JobResult {
    pub name: String,
    pub description: Option<String>,
    pub group: u32,
    /// The number of processes.
    pub processes: u32,
    pub options: BTreeMap<String, String>,
    /// The results of each direction, or one for both.
    pub directions: Vec<DirectionResult>,
    /// The times of syncs between operations; absent if there were none.
    pub syncs: Option<Times>,
    /// Seconds from the first start to the last stop.
    pub seconds: f64,
    /// CPU seconds in user mode.
    pub user: f64,
    /// CPU seconds in the kernel.
    pub system: f64,
    pub latency: LatencyKind,
}

/// The work in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionResult {
    pub direction: ResultDirection,
    pub operations: u64,
    pub bytes: u64,
    /// The times of single operations; absent if there were none.
    pub times: Option<Times>,
}

/// Times of single operations in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    pub least: u64,
    pub most: u64,
    pub mean: f64,
    pub deviation: f64,
    pub count: u64,
    /// The percentiles: percent and nanoseconds, ascending.
    pub percentiles: Vec<(f64, u64)>,
}

/// The time of a report and the program that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The program with its version, such as `fsb-0.1.0`.
    pub program: String,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The time as text.
    pub time: String,
    /// Seconds since the start of the program, rounded up.
    pub elapsed: u64,
}

#[derive(Serialize)]
struct Document<'r> {
    #[serde(rename = "fio version")]
    version: &'r str,
    timestamp: i64,
    timestamp_ms: i64,
    time: &'r str,
    jobs: Vec<JobEntry<'r>>,
}

#[derive(Serialize)]
struct JobEntry<'r> {
    jobname: &'r str,
    groupid: u32,
    error: u32,
    elapsed: u64,
    #[serde(rename = "job options")]
    options: &'r BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    desc: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<DirectionEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write: Option<DirectionEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trim: Option<DirectionEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mixed: Option<DirectionEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync: Option<SyncEntry>,
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
}

#[derive(Serialize)]
struct DirectionEntry {
    io_bytes: u64,
    io_kbytes: u64,
    bw_bytes: u64,
    bw: u64,
    iops: f64,
    runtime: u64,
    total_ios: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    clat_ns: Option<TimesEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lat_ns: Option<TimesEntry>,
}

#[derive(Serialize)]
struct SyncEntry {
    total_ios: u64,
    lat_ns: TimesEntry,
}

#[derive(Serialize)]
struct TimesEntry {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    #[serde(rename = "N")]
    count: u64,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    percentile: Vec<(String, u64)>,
}

/// Writes the percentiles as fio does: an object, ascending.
fn as_map<S: Serializer>(percentiles: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(percentiles.iter().map(|(percent, time)| (percent, time)))
}

impl From<&Times> for TimesEntry {
    fn from(times: &Times) -> TimesEntry {
        TimesEntry {
            min: times.least,
            max: times.most,
            mean: times.mean,
            stddev: times.deviation,
            count: times.count,
            percentile: times
                .percentiles
                .iter()
                .map(|(percent, time)| (format!("{percent:.6}"), *time))
                .collect(),
        }
    }
}

impl JobResult {
    fn per_second(&self, amount: u64) -> f64 {
        if self.seconds > 0.0 {
            amount as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// Returns the run time in milliseconds.
    fn milliseconds(&self) -> u64 {
        (self.seconds * 1e3).round() as u64
    }

    fn entry(&self, elapsed: u64) -> JobEntry<'_> {
        let (mut read, mut write, mut trim, mut mixed) = (None, None, None, None);
        for result in &self.directions {
            let bandwidth = self.per_second(result.bytes);
            let times = result.times.as_ref().map(TimesEntry::from);
            let (clat_ns, lat_ns) = match self.latency {
                LatencyKind::Completion => (times, None),
                LatencyKind::Total => (None, times),
                LatencyKind::NotComparable => (None, None),
            };
            let entry = DirectionEntry {
                io_bytes: result.bytes,
                io_kbytes: result.bytes >> 10,
                bw_bytes: bandwidth as u64,
                bw: (bandwidth / 1024.0) as u64,
                iops: self.per_second(result.operations),
                runtime: self.milliseconds(),
                total_ios: result.operations,
                clat_ns,
                lat_ns,
            };
            match result.direction {
                ResultDirection::Read => read = Some(entry),
                ResultDirection::Write => write = Some(entry),
                ResultDirection::Trim => trim = Some(entry),
                ResultDirection::Mixed => mixed = Some(entry),
            }
        }
        let sync = self.syncs.as_ref().map(|times| SyncEntry {
            total_ios: times.count,
            lat_ns: times.into(),
        });
        let [usr_cpu, sys_cpu] = [self.user, self.system].map(|seconds| match self.seconds > 0.0 {
            true => seconds / f64::from(self.processes) / self.seconds * 100.0,
            false => 0.0,
        });
        JobEntry {
            jobname: &self.name,
            groupid: self.group,
            error: 0,
            elapsed,
            options: &self.options,
            desc: self.description.as_deref(),
            read,
            write,
            trim,
            mixed,
            sync,
            job_runtime: self.milliseconds(),
            usr_cpu,
            sys_cpu,
        }
    }
}

/// Returns the results as fio's JSON.
pub fn json(origin: &Origin, results: &[JobResult]) -> serde_json::Result<String> {
    let document = Document {
        version: &origin.program,
        timestamp: origin.timestamp_ms / 1000,
        timestamp_ms: origin.timestamp_ms,
        time: &origin.time,
        jobs: results
            .iter()
            .map(|result| result.entry(origin.elapsed))
            .collect(),
    };
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

/// Returns the results as a short text.
pub fn summary(origin: &Origin, results: &[JobResult]) -> String {
    let mut text = format!("{}, with fio's job files\n", origin.program);
    for result in results {
        let JobResult {
            name,
            group,
            processes,
            ..
        } = result;
        text += &format!("{name}: (groupid={group}, jobs={processes})\n");
        if let Some(description) = &result.description {
            text += &format!("  Description  : [{description}]\n");
        }
        let kind = match result.latency {
            LatencyKind::Completion => Some("clat"),
            LatencyKind::Total => Some("lat"),
            LatencyKind::NotComparable => None,
        };
        for one in &result.directions {
            let mib = f64::from(1 << 20);
            text += &format!(
                "  {}: IOPS={:.0}, BW={:.1}MiB/s ({:.1}MiB/{}msec)\n",
                one.direction.name(),
                result.per_second(one.operations),
                result.per_second(one.bytes) / mib,
                one.bytes as f64 / mib,
                result.milliseconds(),
            );
            if let (Some(kind), Some(times)) = (kind, &one.times) {
                text += &times_lines(kind, times);
            }
        }
        if let Some(syncs) = &result.syncs {
            text += &format!(
                "  fsync/fdatasync: {} calls\n{}",
                syncs.count,
                times_lines("sync", syncs)
            );
        }
    }
    text
}

/// Returns the lines of times in microseconds.
fn times_lines(kind: &str, times: &Times) -> String {
    let mut text = format!(
        "    {kind} (usec): min={:.1}, max={:.1}, avg={:.1}, stdev={:.1}\n",
        times.least as f64 / 1e3,
        times.most as f64 / 1e3,
        times.mean / 1e3,
        times.deviation / 1e3
    );
    let shown = times
        .percentiles
        .iter()
        .filter(|(percent, _)| [50.0, 99.0, 99.9].contains(percent));
    let shown: Vec<String> = shown
        .map(|(percent, time)| format!("{percent}th=[{:.1}]", *time as f64 / 1e3))
        .collect();
    if !shown.is_empty() {
        text += &format!("    {kind} percentiles (usec): {}\n", shown.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(direction: ResultDirection, latency: LatencyKind) -> JobResult {
        let times = Times {
            least: 1000,
            most: 9000,
            mean: 2000.5,
            deviation: 10.0,
            count: 2048,
            percentiles: vec![(50.0, 2000), (90.0, 3000)],
        };
        JobResult {
            name: "job".into(),
            description: None,
            group: 0,
            processes: 2,
            options: [("rw", "randread"), ("bs", "4k"), ("size", "8m")]
                .map(|(a, b)| (a.into(), b.into()))
                .into(),
            directions: vec![DirectionResult {
                direction,
                operations: 2048,
                bytes: 8 << 20,
                times: Some(times),
            }],
            syncs: None,
            seconds: 0.5,
            user: 0.1,
            system: 0.4,
            latency,
        }
    }

    fn origin() -> Origin {
        Origin {
            program: "fsb-0.1.0".into(),
            timestamp_ms: 1_700_000_000_123,
            time: "now".into(),
            elapsed: 1,
        }
    }

    #[test]
    fn the_reader_of_fios_json_reads_it_back() {
        let text = json(
            &origin(),
            &[result(ResultDirection::Read, LatencyKind::Completion)],
        )
        .unwrap();
        assert!((super::super::TOOL.recognise)(text.as_bytes()));
        let runs = (super::super::TOOL.read)(&mut text.as_bytes()).unwrap();
        assert_eq!(runs[0].version.as_deref(), Some("fsb-0.1.0"));
        assert_eq!(runs[0].warnings, []);
        let found: Vec<_> = runs[0]
            .series
            .iter()
            .map(|series| (series.operation.as_str(), series.metric.as_str()))
            .collect();
        let names = [
            "throughput",
            "operation_rate",
            "latency_mean",
            "latency_p50",
            "latency_p90",
        ];
        assert_eq!(found, names.map(|name| ("random_read", name)), "{text}");
    }

    #[test]
    fn fields_that_were_not_measured_are_absent() {
        let entry = |latency| {
            let text = json(&origin(), &[result(ResultDirection::Write, latency)]).unwrap();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            value["jobs"][0].clone()
        };
        let job = entry(LatencyKind::NotComparable);
        assert!(
            job.get("read").is_none() && job["write"].get("clat_ns").is_none(),
            "{job}"
        );
        assert_eq!(job["write"]["iops"], 4096.0);
        assert_eq!(job["write"]["bw_bytes"], 16 << 20);
        assert_eq!(
            (&job["usr_cpu"], &job["sys_cpu"]),
            (&10.0.into(), &40.0.into())
        );
        let job = entry(LatencyKind::Total);
        assert!(job["write"].get("clat_ns").is_none(), "{job}");
        assert_eq!(job["write"]["lat_ns"]["percentile"]["90.000000"], 3000);
    }

    #[test]
    fn directions_and_syncs_have_entries_of_their_own() {
        let mut both = result(ResultDirection::Read, LatencyKind::Completion);
        let write = DirectionResult {
            direction: ResultDirection::Write,
            operations: 512,
            ..both.directions[0].clone()
        };
        both.syncs = Some(Times {
            count: 3,
            ..write.times.clone().unwrap()
        });
        both.directions.push(write);
        let text = json(&origin(), std::slice::from_ref(&both)).unwrap();
        let job = serde_json::from_str::<serde_json::Value>(&text).unwrap()["jobs"][0].clone();
        assert_eq!(
            (&job["read"]["total_ios"], &job["write"]["total_ios"]),
            (&2048.into(), &512.into()),
            "{job}"
        );
        assert_eq!(
            (&job["sync"]["total_ios"], &job["sync"]["lat_ns"]["N"]),
            (&3.into(), &3.into()),
            "{job}"
        );
        let text = summary(&origin(), &[both]);
        assert!(
            text.contains("  write: IOPS=1024")
                && text.contains("  fsync/fdatasync: 3 calls\n    sync (usec)")
        );
    }

    #[test]
    fn both_forms_show_the_description() {
        let described = JobResult {
            description: Some("direct=1 has no effect".into()),
            ..result(ResultDirection::Read, LatencyKind::Completion)
        };
        assert!(
            summary(&origin(), std::slice::from_ref(&described))
                .contains("\n  Description  : [direct=1 has no")
        );
        let text = json(&origin(), &[described]).unwrap();
        let job = serde_json::from_str::<serde_json::Value>(&text).unwrap()["jobs"][0].clone();
        assert_eq!(
            (&job["desc"], &job["error"]),
            (&"direct=1 has no effect".into(), &0.into())
        );
        assert_eq!(
            (super::super::TOOL.read)(&mut text.as_bytes()).unwrap()[0].warnings,
            []
        );
    }

    #[test]
    fn the_summary_has_a_paragraph_for_each_result() {
        let text = summary(
            &origin(),
            &[result(ResultDirection::Mixed, LatencyKind::Total)],
        );
        assert!(
            text.contains(
                "\n  mixed: IOPS=4096, BW=16.0MiB/s (8.0MiB/500msec)\n    lat (usec): min=1.0"
            ),
            "{text}"
        );
        assert!(
            text.contains("lat percentiles (usec): 50th=[2.0]\n"),
            "{text}"
        );
    }
}

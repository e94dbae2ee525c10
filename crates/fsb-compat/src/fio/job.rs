//! The jobs of a document, and what their processes measured together.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::document::{Direction, Document, Job, Options, table};
use super::latency::{Found, Latency};
use super::options::{Merged, Way};

/// What one direction of a job did, all its processes together.
#[derive(Debug)]
pub(super) struct Measured {
    /// The job's name; with a number where a later group has it again.
    pub workload: String,
    pub operation: &'static str,
    pub file_size: Option<u64>,
    pub record_size: Option<u64>,
    /// Bytes a second, and the unit as printed.
    pub bandwidth: Option<(Found, &'static str)>,
    pub iops: Option<Found>,
    pub latency: Latency,
    /// How many jobs of one name are in it: `numjobs` without `group_reporting`.
    pub processes: usize,
}

/// What two processes have in common that did the same: workload, operation and sizes.
type Key = (String, &'static str, Option<u64>, Option<u64>);

/// The directions in which jobs did something, or were to. `complain` hears of what is no number.
pub(super) fn measured(document: &Document, text: &str, mut complain: impl FnMut(usize, String)) -> Vec<Measured> {
    let mut found: Vec<Measured> = Vec::new();
    let mut index: HashMap<Key, usize> = HashMap::new();
    let mut groups: HashMap<&str, Vec<i64>> = HashMap::new();
    let global = table(document.global);
    for job in document.all() {
        let known = groups.entry(&job.jobname).or_default();
        let round = known.iter().position(|group| *group == job.groupid).unwrap_or_else(|| {
            known.push(job.groupid);
            known.len() - 1
        });
        let workload = if round == 0 { job.jobname.clone() } else { format!("{} #{}", job.jobname, round + 1) };
        for one in directions(job, &global, &workload, text, &mut complain) {
            let key = (workload.clone(), one.operation, one.file_size, one.record_size);
            match index.get(&key) {
                Some(at) => found[*at].merge(one),
                None => {
                    index.insert(key, found.len());
                    found.push(one);
                }
            }
        }
    }
    found
}

fn directions(
    job: &Job,
    global: &Options,
    workload: &str,
    text: &str,
    complain: &mut impl FnMut(usize, String),
) -> Vec<Measured> {
    let own = table(job.options);
    let options = Merged { job: &own, global };
    let ways = [
        (Way::Read, &job.read),
        (Way::Write, &job.write),
        (Way::Trim, &job.trim),
        (Way::Mixed, &job.mixed),
        (Way::Sync, &job.sync),
    ];
    let ran = |(way, direction): (Way, &'_ Option<Direction>)| {
        direction.as_ref().is_some_and(|direction| direction.total_ios > 0)
            || (options.asks_for(way) && job.mixed.is_none())
    };
    let ways = ways.into_iter().filter(|(way, direction)| ran((*way, direction)));
    ways.filter_map(|(way, direction)| {
        let direction = direction.as_ref()?;
        Some(Measured {
            workload: workload.to_owned(),
            operation: options.operation(way),
            file_size: options.file_size(),
            record_size: options.record_size(way),
            ..one(direction, text, complain)
        })
    })
    .collect()
}

fn one(direction: &Direction, text: &str, complain: &mut impl FnMut(usize, String)) -> Measured {
    let offset = |raw: &RawValue| raw.get().as_ptr() as usize - text.as_ptr() as usize;
    for raw in [direction.bw_bytes, direction.bw, direction.iops].into_iter().flatten() {
        if raw.get().parse::<f64>().is_err() {
            complain(
                offset(raw),
                format!("'{}' is not a number; left out", raw.get().chars().take(40).collect::<String>()),
            );
        }
    }
    let number = |raw: &RawValue| {
        let value = raw.get().parse::<f64>().ok()?;
        Some(Found { value, offset: offset(raw) })
    };
    let bytes = direction.bw_bytes.and_then(number).map(|found| (found, "B/s"));
    let kilobytes = direction.bw.and_then(number);
    let kilobytes = kilobytes.map(|found| (Found { value: found.value * 1024.0, ..found }, "KiB/s"));
    Measured {
        workload: String::new(),
        operation: "",
        file_size: None,
        record_size: None,
        bandwidth: bytes.or(kilobytes),
        iops: direction.iops.and_then(number),
        latency: Latency::of(direction, number),
        processes: 1,
    }
}

impl Measured {
    /// Adds a process that did the same at the same time: rates add up.
    fn merge(&mut self, other: Measured) {
        let add = |a: Found, b: Found| Found { value: a.value + b.value, ..a };
        self.bandwidth = match (self.bandwidth, other.bandwidth) {
            (Some((mine, unit)), Some((theirs, _))) => Some((add(mine, theirs), unit)),
            _ => None,
        };
        self.iops = self.iops.zip(other.iops).map(|(mine, theirs)| add(mine, theirs));
        self.latency.merge(other.latency);
        self.processes += other.processes;
    }
}

//! The causes of a difference, from data that every run records: CPU time, flushes and bytes per
//! operation.
//!
//! The time of an operation is the sum of its CPU time and its waits. The waits are estimated from
//! the flushes and bytes of an operation. The cost of each was measured by the probe of the raw
//! device in the same block, with one request at a time. The rest is reported as not explained. It
//! is negative if the device was faster than in the probe, for example with several requests at
//! once.

use std::collections::BTreeMap;

use fsb_model::host::DeviceRates;
use fsb_model::{Outcome, RunRecord, metric};
use fsb_stats::{FEWEST_JUDGED, Interval, LEVEL, t_interval};
use serde::Serialize;

use super::trial_value::{CompactTrial, last_attempts};

/// Bytes of a flushed write of the probe, and of its random read.
const PROBED: f64 = 4096.0;

/// The operation of a flow.
const FLOW: &str = "operation";

/// A cause of a difference in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// CPU time of the worker, user and system.
    Cpu,
    /// Cache flushes of the device.
    Flushes,
    /// Bytes that the device read and wrote.
    Bytes,
    /// The part that the other causes do not explain.
    NotExplained,
}

impl CauseKind {
    fn name(self) -> &'static str {
        match self {
            CauseKind::Cpu => "CPU",
            CauseKind::Flushes => "flushes",
            CauseKind::Bytes => "data transfer",
            CauseKind::NotExplained => "not explained",
        }
    }
}

/// The share of a cause in a difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The cause.
    pub kind: CauseKind,
    /// Seconds per operation, as a mean over the blocks; negative if the candidate needs less.
    pub seconds: f64,
    /// The interval of `seconds`. The intervals of all causes of a difference hold together with 95
    /// % confidence (Bonferroni).
    pub interval: Interval,
}

/// A significant difference of a target from the baseline, with its causes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The label of the workload.
    pub workload: String,
    /// The target.
    pub candidate: String,
    /// The target that it is compared with.
    pub baseline: String,
    /// Seconds per operation, as a mean over the blocks; negative if the candidate needs less.
    pub seconds: f64,
    /// The causes: the largest first, and the rest last.
    pub causes: Vec<Cause>,
}

/// The seconds of an operation: in all, and by cause except the rest.
type Costs = (f64, [f64; CAUSES.len()]);
const CAUSES: [CauseKind; 3] = [CauseKind::Cpu, CauseKind::Flushes, CauseKind::Bytes];

/// Explains differences from the baseline in rates of operations, if the device was probed. Each
/// explanation has the label of its workload and the index of its target in the plan.
pub(crate) fn explanations(
    record: &RunRecord,
    differences: &[(&str, usize)],
    trials: &[CompactTrial],
) -> Vec<Explanation> {
    let mut by_cell: BTreeMap<(&str, &str), Vec<&CompactTrial>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.counts()) {
        by_cell
            .entry((&trial.what.workload, &trial.what.target))
            .or_default()
            .push(trial);
    }
    let names: Vec<&str> = record
        .plan
        .targets
        .iter()
        .map(|target| target.name.as_str())
        .collect();
    let explained = |(workload, place): &(&str, usize)| -> Option<Explanation> {
        let of = |target: &str| {
            let trials = last_attempts(by_cell.get(&(*workload, target))?);
            Some(
                trials
                    .iter()
                    .filter_map(|trial| Some((trial.block, costs(record, trial)?)))
                    .collect::<BTreeMap<u32, Costs>>(),
            )
        };
        let (baseline, candidate) = (of(names[0])?, of(names[*place])?);
        let pairs = candidate
            .iter()
            .filter_map(|(block, own)| Some((own, baseline.get(block)?)));
        let differences: Vec<[f64; CAUSES.len() + 1]> =
            pairs.map(|(own, other)| difference(own, other)).collect();
        explanation([workload, names[*place], names[0]], &differences)
    };
    differences.iter().filter_map(explained).collect()
}

/// Returns the time of an operation, and the parts of it that CPU, flushes and bytes account for.
/// Returns `None` if the trial is invalid or lacks a count, if its number of workers is unknown, or
/// if the device was not probed in its block.
fn costs(record: &RunRecord, trial: &CompactTrial) -> Option<Costs> {
    let rates = record
        .devices_probed
        .get(&trial.block)?
        .get(&trial.what.target)?;
    let workers = workers(trial).filter(|_| trial.outcome == Outcome::Ok)?;
    let seconds = workers / trial.metric(metric::OPERATION_RATE.name)?;
    let count = |kind: &metric::MetricKind| trial.metric(kind.name);
    let [of_flush, of_byte] = prices(trial, rates)?;
    let causes = [
        count(&metric::CPU_PER_OPERATION)?,
        count(&metric::DEVICE_FLUSHES_PER_OPERATION)? * of_flush,
        count(&metric::DEVICE_BYTES_PER_OPERATION)? * of_byte,
    ];
    Some((seconds, causes))
}

/// Returns the number of threads in all processes. Returns `None` for flows, whose threads do
/// different work.
fn workers(trial: &CompactTrial) -> Option<f64> {
    let count = |name: &str| {
        trial
            .what
            .params
            .get(name)
            .and_then(serde_json::Value::as_u64)
    };
    let known = trial.what.operation != FLOW
        && (count("threads").is_some() || count("processes").is_some());
    let factor = |name: &str| count(name).unwrap_or(1).max(1) as f64;
    known.then(|| factor("threads") * factor("processes"))
}

/// Returns the seconds of a flush and of a byte on the raw device. Returns `None` if the probe
/// lacks a rate.
fn prices(trial: &CompactTrial, rates: &DeviceRates) -> Option<[f64; 2]> {
    let is_random = trial
        .what
        .params
        .get("access")
        .is_some_and(|access| access == "random");
    let of_byte = match (trial.what.writes(), is_random) {
        (true, _) => 1.0 / rates.write,
        (false, true) => 1.0 / (rates.random_reads * PROBED),
        (false, false) => 1.0 / rates.read,
    };
    let of_flush = (1.0 / rates.flushed_writes - PROBED / rates.write).max(0.0);
    (of_flush.is_finite() && of_byte.is_finite()).then_some([of_flush, of_byte])
}

/// Returns the difference by cause, and the rest.
fn difference(
    (seconds, causes): &Costs,
    (others_seconds, others): &Costs,
) -> [f64; CAUSES.len() + 1] {
    let mut by_cause = [0.0; CAUSES.len() + 1];
    for ((difference, own), other) in by_cause.iter_mut().zip(causes).zip(others) {
        *difference = own - other;
    }
    by_cause[CAUSES.len()] = seconds - others_seconds - by_cause.iter().sum::<f64>();
    by_cause
}

fn explanation(
    [workload, candidate, baseline]: [&str; 3],
    blocks: &[[f64; CAUSES.len() + 1]],
) -> Option<Explanation> {
    if blocks.len() < FEWEST_JUDGED {
        return None;
    }
    let level = 1.0 - (1.0 - LEVEL) / (CAUSES.len() + 1) as f64;
    let kinds = CAUSES
        .into_iter()
        .chain([CauseKind::NotExplained])
        .enumerate();
    let mut causes: Vec<Cause> = kinds
        .map(|(place, kind)| {
            let values: Vec<f64> = blocks.iter().map(|block| block[place]).collect();
            let seconds = values.iter().sum::<f64>() / values.len() as f64;
            Some(Cause {
                kind,
                seconds,
                interval: t_interval(&values, level).ok()??,
            })
        })
        .collect::<Option<_>>()?;
    let seconds = causes.iter().map(|cause| cause.seconds).sum();
    causes[..CAUSES.len()].sort_by(|a, b| b.seconds.abs().total_cmp(&a.seconds.abs()));
    let [workload, candidate, baseline] = [workload, candidate, baseline].map(str::to_owned);
    Some(Explanation {
        workload,
        candidate,
        baseline,
        seconds,
        causes,
    })
}

/// Returns the unit for times of the size of `seconds`, and a function that formats times in it
/// with their signs.
pub(crate) fn signed_times(seconds: f64) -> (&'static str, impl Fn(f64) -> String) {
    let (scale, unit) = match seconds.abs() {
        seconds if seconds >= 1.0 => (1.0, "s"),
        seconds if seconds >= 1e-3 => (1e3, "ms"),
        seconds if seconds >= 1e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    let number = move |seconds: f64| {
        let value = seconds * scale;
        match value.abs() {
            size if size < 0.05 => "0.0".to_owned(),
            size if size < 9.95 => format!("{value:+.1}"),
            _ => format!("{value:+.0}"),
        }
    };
    (unit, number)
}

/// Returns text such as `78 µs less`.
pub(crate) fn size_of_difference(seconds: f64) -> String {
    let (unit, number) = signed_times(seconds);
    let more = if seconds < 0.0 { "less" } else { "more" };
    format!(
        "{} {unit} {more}",
        number(seconds.abs()).trim_start_matches('+')
    )
}

impl Explanation {
    /// Returns a sentence such as `append 4K, durable each: xfs needs 78 µs less per operation than
    /// ext4: flushes -61 [-70 -52], CPU -9 [-11 -7], not explained -8 [-16 -1] µs.` Leaves out
    /// causes whose interval contains 0.
    pub fn line(&self) -> String {
        let (unit, number) = signed_times(self.seconds);
        let causes: Vec<String> = self
            .causes
            .iter()
            .filter(|cause| cause.kind == CauseKind::NotExplained || !cause.interval.contains(0.0))
            .map(|cause| {
                let Cause {
                    kind,
                    seconds,
                    interval,
                } = cause;
                format!(
                    "{} {} [{} {}]",
                    kind.name(),
                    number(*seconds),
                    number(interval.lo),
                    number(interval.hi)
                )
            })
            .collect();
        let Explanation {
            workload,
            candidate,
            baseline,
            ..
        } = self;
        let size = size_of_difference(self.seconds);
        format!(
            "{workload}: {candidate} needs {size} per operation than {baseline}: {} {unit}.",
            causes.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::{
        CPU_PER_OPERATION, DEVICE_BYTES_PER_OPERATION, DEVICE_FLUSHES_PER_OPERATION, OPERATION_RATE,
    };

    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    /// Returns the explanations of a run whose first workload needs this time, CPU time and these
    /// flushes per operation on xfs. ext4 needs 200 µs, 20 µs of CPU time and two flushes.
    fn explained(seconds: f64, cpu: f64, flushes: f64) -> Vec<Explanation> {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 6);
        let rates = DeviceRates {
            read: 1e9,
            write: 1e9,
            random_reads: 1e5,
            flushed_writes: 1.0 / (60e-6 + 4096e-9),
        };
        let probed = || ["ext4", "xfs"].map(|name| (name.to_owned(), rates)).into();
        record.devices_probed = (1..=6).map(|block| (block, probed())).collect();
        trials.retain(|trial| trial.workload == record.cells[0].label);
        for trial in &mut trials {
            let noise = 1.0 + 0.002 * f64::from(trial.block % 3);
            let (seconds, cpu, flushes) = if trial.target == "xfs" {
                (seconds, cpu, flushes)
            } else {
                (200e-6, 20e-6, 2.0)
            };
            trial.params.extend([
                ("durability".to_owned(), "each".into()),
                ("threads".to_owned(), 1.into()),
            ]);
            trial.metrics = vec![
                OPERATION_RATE.metric(1.0 / (seconds * noise)),
                CPU_PER_OPERATION.metric(cpu * noise),
                DEVICE_FLUSHES_PER_OPERATION.metric(flushes),
                DEVICE_BYTES_PER_OPERATION.metric(8192.0),
            ];
        }
        Summary::of_run(&record, &trials).numbers.explanations
    }

    #[test]
    fn planted_causes_are_found_with_the_rest() {
        let found = explained(120e-6, 11e-6, 1.0);
        assert_eq!(found.len(), 1);
        let seconds: Vec<(CauseKind, i64)> = found[0]
            .causes
            .iter()
            .map(|cause| (cause.kind, (cause.seconds * 1e7).round() as i64))
            .collect();
        let expected = [
            (CauseKind::Flushes, -600),
            (CauseKind::Cpu, -90),
            (CauseKind::Bytes, 0),
            (CauseKind::NotExplained, -112),
        ];
        assert_eq!(seconds[..3], expected[..3], "{found:?}");
        assert_eq!(seconds[3].0, CauseKind::NotExplained);
        assert!(
            (found[0]
                .causes
                .iter()
                .map(|cause| cause.seconds)
                .sum::<f64>()
                - found[0].seconds)
                .abs()
                < 1e-12
        );
        let line = found[0].line();
        assert!(
            line.contains(
                ": xfs needs 80 µs less per operation than ext4: flushes -60 [-60 -60], CPU -9.0 ["
            ),
            "{line}"
        );
        assert!(
            line.contains(", not explained ")
                && line.ends_with(" µs.")
                && !line.contains("data transfer"),
            "{line}"
        );
    }

    #[test]
    fn equal_targets_have_nothing_to_explain() {
        assert!(explained(200e-6, 20e-6, 2.0).is_empty());
    }
}

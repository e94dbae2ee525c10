//! Conditions in which runs of fsb differ: possible causes of a change other than the intended one.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::host::{DeviceManifest, DeviceRates};
use fsb_model::run::{Placement, TargetRecord};
use fsb_model::{RunRecord, Unit};
use fsb_stats::compare::{Condition, ConditionDifference, ConditionValue, Observed};
use fsb_stats::{LEVEL, t_interval};

/// Probes of the raw device that differ by less than this are equal, however narrow their intervals are: the blocks of
/// one run are not independent.
const PROBES_DIFFER: f64 = 0.1;

/// A run and its side of the comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct SidedRun<'r> {
    pub(super) side: usize,
    pub(super) path: &'r str,
    pub(super) record: &'r RunRecord,
}

/// Lists the conditions that are not the same in all runs.
pub(super) fn differences(runs: &[SidedRun<'_>]) -> Vec<ConditionDifference> {
    let mut found: Vec<ConditionDifference> = RUN_CONDITIONS
        .iter()
        .filter_map(|(condition, observe)| {
            let observed = runs.iter().filter_map(|run| Some((run.path, observe(run.record)?)));
            difference(*condition, None, observed)
        })
        .collect();
    found.extend(probes(runs));
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.record.targets.keys()).collect();
    for name in names {
        found.extend(TARGET_CONDITIONS.iter().filter_map(|(condition, observe)| {
            let observed = runs.iter().filter_map(|run| Some((run.path, observe(run.record.targets.get(name)?)?)));
            difference(*condition, Some(name), observed)
        }));
    }
    found.sort_by_key(|difference| difference.condition);
    found
}

type OfRun = fn(&RunRecord) -> Option<Observed>;
type OfTarget = fn(&TargetRecord) -> Option<Observed>;

/// Conditions, each with a function that returns `None` if a run does not record it; an unknown value is not a
/// difference.
const RUN_CONDITIONS: [(Condition, OfRun); 6] = [
    (Condition::Disk, |record| {
        let mut models = BTreeSet::new();
        record.media.values().for_each(|medium| collect_models(&medium.device, &mut models));
        texts(models)
    }),
    (Condition::Medium, |record| texts(record.media.keys().cloned().collect())),
    (Condition::Kernel, |record| texts(record.segments.iter().map(|segment| segment.kernel.clone()).collect())),
    (Condition::FsbVersion, |record| {
        texts(record.segments.iter().map(|segment| segment.fsb_version.clone()).collect())
    }),
    (Condition::Targets, |record| Some(Observed::Count(record.plan.targets.len() as u64))),
    (Condition::SliceSize, |record| match record.placement {
        Some(Placement::SideBySide { part_bytes, .. }) if part_bytes > 0 => Some(Observed::Bytes(part_bytes)),
        _ => None,
    }),
];

const TARGET_CONDITIONS: [(Condition, OfTarget); 6] = [
    (Condition::BlockSize, |target| {
        target.geometry.as_ref().and_then(|found| found.block_size).or(target.block_size).map(Observed::Bytes)
    }),
    (Condition::InodeSize, |target| target.geometry.as_ref()?.inode_size.map(Observed::Bytes)),
    (Condition::BytesPerInode, |target| target.geometry.as_ref()?.bytes_per_inode.map(Observed::Bytes)),
    (Condition::Profiles, |target| {
        let profiles = &target.geometry.as_ref()?.profiles;
        texts(profiles.iter().map(|(kind, profile)| format!("{kind} {profile}")).collect())
    }),
    (Condition::Features, |target| texts(target.features.iter().cloned().collect())),
    (Condition::Risks, |target| {
        // Records of earlier versions have neither geometry nor risks.
        target.geometry.as_ref()?;
        Some(Observed::Texts(
            target.risks.iter().map(|risk| risk.cause.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
        ))
    }),
];

fn texts(texts: BTreeSet<String>) -> Option<Observed> {
    (!texts.is_empty()).then(|| Observed::Texts(texts.into_iter().collect()))
}

fn collect_models(device: &DeviceManifest, models: &mut BTreeSet<String>) {
    models.extend(device.model.clone());
    device.beneath.iter().for_each(|beneath| collect_models(beneath, models));
}

/// Groups the observed values; returns `None` if all are equal.
fn difference<'p>(
    condition: Condition,
    target: Option<&String>,
    observed: impl Iterator<Item = (&'p str, Observed)>,
) -> Option<ConditionDifference> {
    let mut values: Vec<ConditionValue> = Vec::new();
    for (path, value) in observed {
        match values.iter_mut().find(|known| known.value == value) {
            Some(known) => known.runs.push(path.to_owned()),
            None => values.push(ConditionValue { runs: vec![path.to_owned()], value }),
        }
    }
    (values.len() > 1).then(|| ConditionDifference { condition, target: target.cloned(), observed: values })
}

type Rate = fn(&DeviceRates) -> f64;

const PROBES: [(Condition, Unit, Rate); 4] = [
    (Condition::DeviceRead, Unit::BytesPerSecond, |rates| rates.read),
    (Condition::DeviceWrite, Unit::BytesPerSecond, |rates| rates.write),
    (Condition::DeviceRandomRead, Unit::OperationsPerSecond, |rates| rates.random_reads),
    (Condition::DeviceFlushedWrite, Unit::OperationsPerSecond, |rates| rates.flushed_writes),
];

/// Returns the rates of the raw devices for each side of the comparison, if the intervals of two sides do not overlap.
fn probes(runs: &[SidedRun<'_>]) -> Vec<ConditionDifference> {
    let of_kind = |(condition, unit, rate): &(Condition, Unit, Rate)| {
        let mut sides: BTreeMap<usize, (Vec<String>, Vec<f64>)> = BTreeMap::new();
        for run in runs {
            let (paths, logs) = sides.entry(run.side).or_default();
            paths.push(run.path.to_owned());
            logs.extend(
                run.record
                    .devices_probed
                    .range(1..)
                    .map(|(_, block)| block)
                    .filter_map(|targets| mean_log(targets.values().map(rate))),
            );
        }
        let value = |(runs, logs): (Vec<String>, Vec<f64>)| {
            let interval = t_interval(&logs, LEVEL).ok()??;
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            let ci95 = [interval.lo.exp(), interval.hi.exp()];
            Some(ConditionValue { runs, value: Observed::Rate { mean: mean.exp(), ci95, unit: *unit } })
        };
        let observed: Vec<ConditionValue> = sides.into_values().filter_map(value).collect();
        let differs = observed.iter().any(|one| observed.iter().any(|other| lies_below(&one.value, &other.value)));
        differs.then_some(ConditionDifference { condition: *condition, target: None, observed })
    };
    PROBES.iter().filter_map(of_kind).collect()
}

/// Returns the mean logarithm of one block's probes; `None` for a block without any.
fn mean_log(rates: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = rates.filter(|rate| rate.is_finite() && *rate > 0.0).map(f64::ln).collect();
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}

fn lies_below(one: &Observed, other: &Observed) -> bool {
    match (one, other) {
        (Observed::Rate { mean: low, ci95: [_, hi], .. }, Observed::Rate { mean: high, ci95: [lo, _], .. }) => {
            hi < lo && high / low > 1.0 + PROBES_DIFFER
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Geometry;
    use fsb_model::run::{Risk, SCHEMA};
    use serde_json::json;

    use super::*;

    fn record() -> RunRecord {
        let segment =
            json!({"boot_id": "b", "kernel": "6.12", "fsb_version": "1.0.0", "started": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({
            "schema": SCHEMA, "name": "ext4", "cells": [], "segments": [segment],
            "placement": {"side_by_side": {"parts": 2, "part_bytes": 1 << 30}},
            "plan": {"name": "quick", "targets": [], "workloads": [], "repetition": {"blocks": {"blocks": 5}},
                     "seed": 1, "size": "2G", "dir": ".", "theta": 0.03},
        }))
        .unwrap()
    }

    fn differing(change: impl FnOnce(&mut RunRecord)) -> Vec<(Condition, Option<String>)> {
        let (mut one, mut other) = (record(), record());
        let probed = |read: f64| {
            let rates = DeviceRates { read, write: 1e8, random_reads: 1e4, flushed_writes: 1e3 };
            BTreeMap::from([("ext4".to_owned(), rates)])
        };
        for record in [&mut one, &mut other] {
            record.devices_probed = (1..=5).map(|block| (block, probed(1e9 + 1e6 * f64::from(block)))).collect();
            record.targets.insert(
                "ext4".to_owned(),
                TargetRecord {
                    geometry: Some(Geometry { block_size: Some(4096), ..Geometry::default() }),
                    ..TargetRecord::default()
                },
            );
        }
        change(&mut other);
        let runs = [SidedRun { side: 0, path: "one", record: &one }, SidedRun { side: 1, path: "two", record: &other }];
        differences(&runs).into_iter().map(|difference| (difference.condition, difference.target)).collect()
    }

    #[test]
    fn equal_runs_differ_in_nothing() {
        assert_eq!(differing(|_| ()), []);
    }

    #[test]
    fn each_condition_that_differs_is_named() {
        let ext4 = Some("ext4".to_owned());
        let geometry = |record: &mut RunRecord| {
            let target = record.targets.get_mut("ext4").unwrap();
            target.geometry.as_mut().unwrap().block_size = Some(1024);
            target.features = vec!["bigalloc".to_owned()];
        };
        assert_eq!(differing(geometry), [(Condition::BlockSize, ext4)], "features of one side are unknown");
        assert_eq!(differing(|record| record.segments[0].kernel = "7.0".to_owned()), [(Condition::Kernel, None)]);
        let slices = |record: &mut RunRecord| {
            record.placement = Some(Placement::SideBySide { parts: 4, part_bytes: 1 << 29 });
        };
        assert_eq!(differing(slices), [(Condition::SliceSize, None)]);
        let risk = Risk { cause: "barrier=0".to_owned(), loss: "synced data".to_owned() };
        let risky = |record: &mut RunRecord| record.targets.get_mut("ext4").unwrap().risks.push(risk);
        assert_eq!(differing(risky), [(Condition::Risks, Some("ext4".to_owned()))]);
    }

    #[test]
    fn probes_differ_where_their_intervals_do_not_meet_by_more_than_a_tenth() {
        let scaled = |factor: f64| {
            differing(|record| {
                record
                    .devices_probed
                    .values_mut()
                    .flat_map(BTreeMap::values_mut)
                    .for_each(|rates| rates.read *= factor);
            })
        };
        assert_eq!(scaled(1.05), []);
        assert_eq!(scaled(1.5), [(Condition::DeviceRead, None)]);
    }
}

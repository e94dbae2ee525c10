//! Conditions in which runs of fsb differ: possible causes of a change other than the intended one.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::host::{DeviceManifest, DeviceRates};
use fsb_model::run::{ControlRecord, Placement, TargetRecord};
use fsb_model::units::show_bytes;
use fsb_model::{RunRecord, Unit};
use fsb_stats::compare::{Condition, ConditionDifference, ConditionValue, Observed};
use fsb_stats::{LEVEL, t_interval};

use super::Source;
use super::own::OwnRun;

/// Probes of the raw device that differ by less than this are equal, however narrow their intervals
/// are: the blocks of one run are not independent.
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
            let observed = runs
                .iter()
                .filter_map(|run| Some((run.path, observe(run.record)?)));
            difference(*condition, None, observed)
        })
        .collect();
    found.extend(probes(runs));
    let names: BTreeSet<&String> = runs
        .iter()
        .flat_map(|run| run.record.targets.keys())
        .collect();
    for name in names {
        found.extend(TARGET_CONDITIONS.iter().filter_map(|(condition, observe)| {
            let observed = runs
                .iter()
                .filter_map(|run| Some((run.path, observe(run.record.targets.get(name)?)?)));
            difference(*condition, Some(name), observed)
        }));
    }
    found.sort_by_key(|difference| difference.condition);
    found
}

type OfRun = fn(&RunRecord) -> Option<Observed>;
type OfTarget = fn(&TargetRecord) -> Option<Observed>;

/// Conditions, each with a function that returns `None` if a run does not record it; an unknown
/// value is not a difference.
const RUN_CONDITIONS: [(Condition, OfRun); 6] = [
    (Condition::Disk, |record| {
        let mut models = BTreeSet::new();
        record
            .media
            .values()
            .for_each(|medium| collect_models(&medium.device, &mut models));
        texts(models)
    }),
    (Condition::Medium, |record| {
        texts(record.media.keys().cloned().collect())
    }),
    (Condition::Kernel, |record| {
        texts(
            record
                .segments
                .iter()
                .map(|segment| segment.kernel.clone())
                .collect(),
        )
    }),
    (Condition::FsbVersion, |record| {
        texts(
            record
                .segments
                .iter()
                .map(|segment| segment.fsb_version.clone())
                .collect(),
        )
    }),
    (Condition::Targets, |record| {
        Some(Observed::Count(record.plan.targets.len() as u64))
    }),
    (Condition::SliceSize, |record| match record.placement {
        Some(Placement::SideBySide { slice_bytes, .. }) if slice_bytes > 0 => {
            Some(Observed::Bytes(slice_bytes))
        }
        _ => None,
    }),
];

const TARGET_CONDITIONS: [(Condition, OfTarget); 6] = [
    (Condition::BlockSize, |target| {
        target
            .geometry
            .as_ref()
            .and_then(|found| found.block_size)
            .or(target.block_size)
            .map(Observed::Bytes)
    }),
    (Condition::InodeSize, |target| {
        target.geometry.as_ref()?.inode_size.map(Observed::Bytes)
    }),
    (Condition::BytesPerInode, |target| {
        target
            .geometry
            .as_ref()?
            .bytes_per_inode
            .map(Observed::Bytes)
    }),
    (Condition::Profiles, |target| {
        let profiles = &target.geometry.as_ref()?.profiles;
        texts(
            profiles
                .iter()
                .map(|(kind, profile)| format!("{kind} {profile}"))
                .collect(),
        )
    }),
    (Condition::Features, |target| {
        texts(target.features.iter().cloned().collect())
    }),
    (Condition::Risks, |target| {
        // A target that was not made has neither a geometry nor risks.
        target.geometry.as_ref()?;
        Some(Observed::Texts(
            target
                .risks
                .iter()
                .map(|risk| risk.cause.clone())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        ))
    }),
];

fn texts(texts: BTreeSet<String>) -> Option<Observed> {
    (!texts.is_empty()).then(|| Observed::Texts(texts.into_iter().collect()))
}

fn collect_models(device: &DeviceManifest, models: &mut BTreeSet<String>) {
    models.extend(device.model.clone());
    device
        .beneath
        .iter()
        .for_each(|beneath| collect_models(beneath, models));
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
            None => values.push(ConditionValue {
                runs: vec![path.to_owned()],
                value,
            }),
        }
    }
    (values.len() > 1).then(|| ConditionDifference {
        condition,
        target: target.cloned(),
        observed: values,
    })
}

type Rate = fn(&DeviceRates) -> f64;

const PROBES: [(Condition, Unit, Rate); 4] = [
    (Condition::DeviceRead, Unit::BytesPerSecond, |rates| {
        rates.read
    }),
    (Condition::DeviceWrite, Unit::BytesPerSecond, |rates| {
        rates.write
    }),
    (
        Condition::DeviceRandomRead,
        Unit::OperationsPerSecond,
        |rates| rates.random_reads,
    ),
    (
        Condition::DeviceFlushedWrite,
        Unit::OperationsPerSecond,
        |rates| rates.flushed_writes,
    ),
];

/// Returns the rates of the raw devices for each side of the comparison, if the intervals of two
/// sides do not overlap.
fn probes(runs: &[SidedRun<'_>]) -> Vec<ConditionDifference> {
    let mut differences = Vec::new();
    for (condition, unit, rate) in PROBES {
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
        let observed = sides.into_values().filter_map(|(runs, logs)| {
            let interval = t_interval(&logs, LEVEL).ok()??;
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            let ci95 = [interval.lo.exp(), interval.hi.exp()];
            Some(ConditionValue {
                runs,
                value: Observed::Rate {
                    mean: mean.exp(),
                    ci95,
                    unit,
                },
            })
        });
        let observed: Vec<ConditionValue> = observed.collect();
        let differs = observed.iter().any(|one| {
            observed
                .iter()
                .any(|other| lies_below(&one.value, &other.value))
        });

        differences.extend(differs.then_some(ConditionDifference {
            condition,
            target: None,
            observed,
        }));
    }
    differences
}

/// Returns the mean logarithm of one block's probes; `None` for a block without any.
fn mean_log(rates: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = rates
        .filter(|rate| rate.is_finite() && *rate > 0.0)
        .map(f64::ln)
        .collect();
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}

fn lies_below(one: &Observed, other: &Observed) -> bool {
    match (one, other) {
        (
            Observed::Rate {
                mean: low,
                ci95: [_, hi],
                ..
            },
            Observed::Rate {
                mean: high,
                ci95: [lo, _],
                ..
            },
        ) => hi < lo && high / low > 1.0 + PROBES_DIFFER,
        _ => false,
    }
}

// Runs in different conditions: another memory-limit mechanism, another limit, another scale.

/// Warnings of a comparison of runs, and the reason why nothing may be judged, if there is one.
#[derive(Debug, Default)]
pub(super) struct Regimes {
    /// Warnings about limits, scales or controls that differ.
    pub(super) warnings: Vec<String>,
    /// The reason: memory limits that do not compare, or runs that are not judged.
    pub(super) apart: Option<Apart>,
}

/// The reason why nothing may be judged.
#[derive(Debug, Clone)]
pub struct Apart {
    /// The reason as a warning.
    pub why: String,
    /// A short reason, if not even ratios and p-values are printed.
    pub unjudged: Option<String>,
}

/// Looks at all runs that take part, beside which there may be results of `others`.
pub(super) fn regimes_of<'r>(runs: impl Iterator<Item = &'r OwnRun>, others: bool) -> Regimes {
    let mut controls = Controls::default();
    let (mut mechanisms, mut limits, mut scales) =
        (Kinds::default(), Kinds::default(), Kinds::default());
    let mut unjudged = Unjudged {
        native: others,
        ..Unjudged::default()
    };
    for run in runs {
        let path = run.stored.path.display().to_string();
        unjudged.note(&run.stored.record, &path);
        controls.note(&run.stored.record.controls, &path);
        scales.note(format!("{}", run.stored.record.plan.scale), &path);
        for limit in &run.cells.limits {
            limits.note(
                limit.map_or_else(|| "none".to_owned(), |bytes| show_bytes(bytes as f64)),
                &path,
            );
        }
        for mechanism in &run.cells.mechanisms {
            mechanisms.note(mechanism.clone(), &path);
        }
    }
    let apart = unjudged.why().or_else(|| {
        let kinds = mechanisms.differ()?;
        let why =
            format!("nothing is judged: memory was limited by different means, which charge differently ({kinds})");
        Some(Apart { why, unjudged: None })
    });
    let limits = limits
        .differ()
        .map(|kinds| format!("the sets had different memory limits ({kinds})"));
    let scales = scales.differ().map(|kinds| {
        format!("the sets were measured at different scales ({kinds}): other files, another image, the same records")
    });
    Regimes {
        warnings: limits
            .into_iter()
            .chain(scales)
            .chain(controls.differ())
            .collect(),
        apart,
    }
}

/// The recorded controls of each run.
#[derive(Debug, Default)]
struct Controls<'r> {
    runs: Vec<(String, &'r BTreeMap<String, ControlRecord>)>,
}

impl<'r> Controls<'r> {
    fn note(&mut self, controls: &'r BTreeMap<String, ControlRecord>, path: &str) {
        self.runs.push((path.to_owned(), controls));
    }

    /// Returns a line for each control that was not the same in all runs.
    fn differ(&self) -> impl Iterator<Item = String> {
        /// Controls that affect the honesty of a run, not the measured quantity, and that differ
        /// from run to run.
        const OF_NO_INTEREST: [&str; 2] = ["guest-memory", "page-cache"];
        let names: BTreeSet<&String> = self
            .runs
            .iter()
            .flat_map(|(_, controls)| controls.keys())
            .collect();
        let asked = names
            .into_iter()
            .filter(|name| !OF_NO_INTEREST.contains(&name.as_str()));
        asked.filter_map(|name| {
            let mut kinds = Kinds::default();
            // A run that did not know the control left the condition alone, like one that kept it.
            let is_set = self
                .runs
                .iter()
                .filter_map(|(_, controls)| controls.get(name))
                .any(|control| control.requested != "keep");
            for (path, controls) in &self.runs {
                match controls.get(name) {
                    Some(control) => kinds.note(control.observed.clone(), path),
                    None if is_set => kinds.note("not recorded".to_owned(), path),
                    None => {}
                }
            }
            kinds
                .differ()
                .map(|kinds| format!("the sets were measured with another {name} ({kinds})"))
        })
    }
}

/// Runs that report numbers but judge nothing, and whether there are other runs.
#[derive(Debug, Default)]
struct Unjudged {
    native: bool,
    emulated: Vec<String>,
    media: Vec<String>,
}

impl Unjudged {
    fn note(&mut self, record: &RunRecord, path: &str) {
        if record.emulated {
            self.emulated.push(path.to_owned());
            return;
        }
        self.native = true;
        let targets = record.plan.targets.iter();
        let why: BTreeSet<String> = targets
            .filter_map(|target| record.unjudged_target(target))
            .collect();
        self.media
            .extend(why.into_iter().map(|why| format!("{path}: {why}")));
    }

    fn why(&self) -> Option<Apart> {
        let emulated = self.emulated.join(", ");
        if !self.emulated.is_empty() && self.native {
            let why = format!(
                "nothing is judged: {emulated} was made on emulated processors and others were not: emulation inflates \
                 what code costs against what the device costs, so the two are never compared"
            );
            return Some(Apart {
                why,
                unjudged: Some("emulated and native runs are never compared".to_owned()),
            });
        }
        if !self.emulated.is_empty() {
            let why = format!("nothing is judged: emulated: functional runs ({emulated})");
            return Some(Apart {
                why,
                unjudged: Some("emulated: a functional run".to_owned()),
            });
        }
        let why = format!("nothing is judged: {}", self.media.join("; "));
        (!self.media.is_empty()).then_some(Apart {
            why,
            unjudged: None,
        })
    }
}

/// Values, each with the run that has it.
#[derive(Debug, Default)]
struct Kinds(BTreeSet<(String, String)>);

impl Kinds {
    fn note(&mut self, kind: String, path: &str) {
        self.0.insert((kind, path.to_owned()));
    }

    /// Lists the values and their runs if there is more than one value.
    fn differ(&self) -> Option<String> {
        let kinds: BTreeSet<&String> = self.0.iter().map(|(kind, _)| kind).collect();
        let all = self.0.iter().map(|(kind, path)| format!("{path}: {kind}"));
        (kinds.len() > 1).then(|| all.collect::<Vec<_>>().join("; "))
    }
}

// Checks that runs of fsb did the same work under one label: units of the same size, files of the
// same size.

/// Compares runs by their units if all of them record the units. A run in rounds measures units,
/// and a unit's own file does not depend on the size of a slice. If one of the runs does not record
/// the units of a workload, all runs are compared by the whole workload. Returns warnings about
/// workloads that ran in rounds in some runs and in sequential trials in others.
pub(super) fn take_units(sources: &mut [Source]) -> Vec<String> {
    let mut by_label: BTreeMap<String, [Vec<String>; 2]> = BTreeMap::new();
    let mut unknown: BTreeSet<String> = BTreeSet::new();
    for run in sources.iter().flat_map(|source| &source.runs) {
        for cell in &run.cells.list {
            if !run.cells.has_unit(&cell.workload) {
                unknown.insert(cell.workload.clone());
            }
            let in_rounds = run.stored.record.rounds.contains_key(&cell.workload);
            let paths =
                &mut by_label.entry(cell.workload.clone()).or_default()[usize::from(in_rounds)];
            let path = run.stored.path.display().to_string();
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    for run in sources.iter_mut().flat_map(|source| &mut source.runs) {
        unknown
            .iter()
            .for_each(|label| run.cells.forget_unit(label));
    }
    let mut alike: BTreeMap<[Vec<String>; 2], Vec<String>> = BTreeMap::new();
    for (label, ways) in by_label
        .into_iter()
        .filter(|(_, [visits, rounds])| !visits.is_empty() && !rounds.is_empty())
    {
        alike.entry(ways).or_default().push(label);
    }
    let mut warnings = Vec::new();
    for ([visits, rounds], labels) in alike {
        warnings.push(format!(
            "measured in short samples in {} and in sequential trials in {}, which is not the same quantity: {}",
            rounds.join(" and "),
            visits.join(" and "),
            labels.join("; ")
        ));
    }
    warnings
}

/// Sizes of a file and of a record in bytes.
type Size = (Option<u64>, Option<u64>);

/// Returns the labels of workloads whose arguments have no size in common, with the sizes. They did
/// different amounts of work and are not compared.
pub(super) fn of_other_sizes(sources: &[Source]) -> Vec<String> {
    let mut seen: BTreeMap<&str, Vec<(String, BTreeSet<Size>)>> = BTreeMap::new();
    for source in sources {
        let mut own: BTreeMap<&str, BTreeSet<Size>> = BTreeMap::new();
        for cell in source.runs.iter().flat_map(|run| &run.cells.list) {
            own.entry(&cell.workload)
                .or_default()
                .insert((cell.file_size, cell.record_size));
        }
        for (label, sizes) in own {
            seen.entry(label)
                .or_default()
                .push((source.argument.text.display().to_string(), sizes));
        }
    }
    // Workloads with the same difference share a message.
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (label, sizes) in seen {
        let mut all = sizes.iter().map(|(_, sizes)| sizes);
        let first = all.next().cloned().unwrap_or_default();
        if all.fold(first, |common, sizes| &common & sizes).is_empty() {
            alike.entry(sizes_in_words(&sizes)).or_default().push(label);
        }
    }
    let mut warnings = Vec::new();
    for (sizes, labels) in alike {
        warnings.push(format!(
            "not compared because file sizes differ: {} ({sizes}; sizes follow from --size and from the number of \
             targets side by side)",
            labels.join("; "),
        ));
    }
    warnings
}

/// Returns text such as `82 MiB in old=a, 124 MiB in new=b`, with the sizes of records if they
/// differ, too.
fn sizes_in_words(sizes: &[(String, BTreeSet<Size>)]) -> String {
    let all = sizes.iter().flat_map(|(_, sizes)| sizes);
    let records: BTreeSet<Option<u64>> = all.map(|(_, record)| *record).collect();
    let mut parts = Vec::new();
    for (argument, sizes) in sizes {
        let shown = sizes.iter().map(|(file, record)| {
            let [file, record] = [file, record]
                .map(|size| size.map_or("any".to_owned(), |size| show_bytes(size as f64)));
            match records.len() {
                1 => file,
                _ => format!("{file} by {record}"),
            }
        });
        parts.push(format!(
            "{} in {argument}",
            shown.collect::<Vec<_>>().join(" and ")
        ));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use fsb_model::Geometry;
    use fsb_model::run::{Risk, SCHEMA};
    use serde_json::json;

    use super::*;

    fn record() -> RunRecord {
        let segment = json!({"boot_id": "b", "kernel": "6.12", "fsb_version": "1.0.0", "started": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({
            "schema": SCHEMA, "name": "ext4", "cells": [], "segments": [segment],
            "placement": {"side_by_side": {"slices": 2, "slice_bytes": 1 << 30}},
            "plan": {"name": "quick", "targets": [], "workloads": [], "repetition": {"blocks": {"blocks": 5}},
                     "seed": 1, "size": "2G", "dir": ".", "theta": 0.03},
        }))
        .unwrap()
    }

    fn differing(change: impl FnOnce(&mut RunRecord)) -> Vec<(Condition, Option<String>)> {
        let (mut one, mut other) = (record(), record());
        let probed = |read: f64| {
            let rates = DeviceRates {
                read,
                write: 1e8,
                random_reads: 1e4,
                flushed_writes: 1e3,
            };
            BTreeMap::from([("ext4".to_owned(), rates)])
        };
        for record in [&mut one, &mut other] {
            record.devices_probed = (1..=5)
                .map(|block| (block, probed(1e9 + 1e6 * f64::from(block))))
                .collect();
            record.targets.insert(
                "ext4".to_owned(),
                TargetRecord {
                    geometry: Some(Geometry {
                        block_size: Some(4096),
                        ..Geometry::default()
                    }),
                    ..TargetRecord::default()
                },
            );
        }
        change(&mut other);
        let runs = [
            SidedRun {
                side: 0,
                path: "one",
                record: &one,
            },
            SidedRun {
                side: 1,
                path: "two",
                record: &other,
            },
        ];
        differences(&runs)
            .into_iter()
            .map(|difference| (difference.condition, difference.target))
            .collect()
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
        assert_eq!(
            differing(geometry),
            [(Condition::BlockSize, ext4)],
            "features of one side are unknown"
        );
        assert_eq!(
            differing(|record| record.segments[0].kernel = "7.0".to_owned()),
            [(Condition::Kernel, None)]
        );
        let slices = |record: &mut RunRecord| {
            record.placement = Some(Placement::SideBySide {
                slices: 4,
                slice_bytes: 1 << 29,
            });
        };
        assert_eq!(differing(slices), [(Condition::SliceSize, None)]);
        let risk = Risk {
            cause: "barrier=0".to_owned(),
            loss: "synced data".to_owned(),
        };
        let risky =
            |record: &mut RunRecord| record.targets.get_mut("ext4").unwrap().risks.push(risk);
        assert_eq!(
            differing(risky),
            [(Condition::Risks, Some("ext4".to_owned()))]
        );
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

//! The part of a host's run that the answer of a fleet uses, and the properties of the host.

use std::collections::BTreeMap;

use fsb_model::host::DeviceManifest;
use fsb_model::run::TargetRecord;
use fsb_model::{Better, RunRecord, Target, TargetKind};
use fsb_stats::{Effect, Interval, Verdict};
use serde_json::{Value, json};

use crate::summary::{Summary, Workload, bottom_device, disk_kind};

/// Properties of a host by name: `kernel` is `6.12`.
pub type Properties = BTreeMap<String, String>;

/// The result of one host, without its trials.
#[derive(Debug, Clone)]
pub struct HostResult {
    /// The name of the host.
    pub(super) name: String,
    /// The time at which the run began, RFC 3339 in UTC.
    pub(super) started: String,
    /// The version of fsb that made the run.
    pub(super) fsb_version: String,
    /// Whether the run is complete.
    pub(super) is_complete: bool,
    /// The smallest ratio that matters to the verdicts of the run.
    pub(super) theta: f64,
    /// The properties that do not depend on the target.
    pub(super) properties: Properties,
    /// The targets, in the order of the plan.
    pub(super) targets: Vec<HostTarget>,
    /// The ratios of all cases and targets to the baseline.
    pub(super) cells: Vec<HostCell>,
}

/// The definition of a target on one host.
#[derive(Debug, Clone)]
pub(super) struct HostTarget {
    pub(super) name: String,
    /// The definition without medium and directory, which differ between hosts.
    pub(super) definition: String,
    /// Properties of the file system that was made.
    pub(super) properties: Properties,
}

/// One target at one case on one host.
#[derive(Debug, Clone)]
pub(super) struct HostCell {
    pub(super) workload: String,
    /// The workload with all parameters, and the metric.
    pub(super) definition: BTreeMap<String, Value>,
    pub(super) metric: String,
    pub(super) better: Better,
    pub(super) target: String,
    /// The comparison with the baseline, or the reason why there is none.
    pub(super) found: Result<HostEffect, String>,
}

/// The ratio of a target to the baseline on one host.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostEffect {
    pub(super) effect: Effect,
    pub(super) interval: Interval,
    pub(super) verdict: Verdict,
}

impl HostResult {
    /// Extracts the result of a host from its run. `baseline` is the name of the target that the
    /// others are compared with.
    ///
    /// # Errors
    ///
    /// Returns the reason as a phrase if the run has no comparison with that target.
    pub fn new(
        name: String,
        record: &RunRecord,
        summary: &Summary,
        baseline: &str,
    ) -> Result<HostResult, String> {
        if record.plan.race.is_some() {
            return Err(
                "the run is of fsb choose, which does not measure all its targets alike".to_owned(),
            );
        }
        if let Some(why) = &summary.unjudged {
            return Err(format!("the run is not judged: {why}"));
        }
        let names: Vec<&str> = record
            .plan
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        let Some(place) = names.iter().position(|name| *name == baseline) else {
            return Err(format!(
                "it has no target {baseline}, the baseline; its targets: {}",
                names.join(", ")
            ));
        };
        let segment = record.segments.last();
        let cells = summary.cases.iter().flat_map(|case| {
            let targets = (0..names.len()).filter(move |target| *target != place);
            targets.map(move |target| cell(record, summary, case, place, target))
        });
        Ok(HostResult {
            name,
            started: record
                .segments
                .first()
                .map(|segment| segment.started.clone())
                .unwrap_or_default(),
            fsb_version: segment
                .map(|segment| segment.fsb_version.clone())
                .unwrap_or_default(),
            is_complete: record.stop_reason.is_some(),
            theta: record.plan.theta,
            properties: properties(record),
            targets: record
                .plan
                .targets
                .iter()
                .map(|target| of_target(record, target))
                .collect(),
            cells: cells.collect(),
        })
    }

    /// Returns the name of the host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time at which the run began, RFC 3339 in UTC.
    pub fn started(&self) -> &str {
        &self.started
    }
}

fn cell(
    record: &RunRecord,
    summary: &Summary,
    case: &Workload,
    baseline: usize,
    target: usize,
) -> HostCell {
    let comparison = case.ranking.comparison(baseline, target);
    let found = comparison.and_then(|found| {
        let (effect, interval) = (found.effect?, found.interval?);
        (found.verdict != Verdict::NotJudged).then_some(HostEffect {
            effect,
            interval,
            verdict: found.verdict,
        })
    });
    let absent = |place: usize| {
        let cell = &case.cells[place];
        let name = &summary.targets[place].name;
        cell.absence()
            .map(|absence| format!("{name}: {absence}: {}", cell.reason().unwrap_or_default()))
    };
    let cell = record.cells.iter().find(|cell| cell.label == case.workload);
    let mut definition: BTreeMap<String, Value> = BTreeMap::new();
    if let Some(cell) = cell {
        definition.insert("workload".to_owned(), cell.workload.name.as_str().into());
        definition.extend(
            cell.workload
                .params
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        definition.extend(
            record
                .units
                .get(&cell.label)
                .into_iter()
                .flatten()
                .map(|(key, unit)| (key.clone(), unit.clone())),
        );
    }
    definition.insert("metric".to_owned(), case.metric.as_str().into());
    HostCell {
        workload: case.workload.clone(),
        definition,
        metric: case.metric.clone(),
        better: case.better,
        target: record.plan.targets[target].name.clone(),
        found: found.ok_or_else(|| {
            let withheld = case.withheld.as_ref().map(|withheld| withheld.to_text());
            let reason = absent(target).or_else(|| absent(baseline)).or(withheld);
            reason.unwrap_or_else(|| "too few blocks for an interval".to_owned())
        }),
    }
}

fn of_target(record: &RunRecord, target: &Target) -> HostTarget {
    let definition = match &target.kind {
        TargetKind::FileSystem(spec) => {
            json!([
                spec.fs,
                spec.options,
                spec.mkfs,
                spec.tune,
                spec.journal.is_some(),
                target.controls
            ])
        }
        TargetKind::Directory(_) => json!(["directory", target.controls]),
    };
    let mut properties = Properties::new();
    if let Some(TargetRecord {
        mkfs_version,
        features,
        mount_options,
        driver,
        ..
    }) = record.targets.get(&target.name)
    {
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                properties.insert(format!("{name} of {}", target.name), value);
            }
        };
        add("mkfs", mkfs_version.clone());
        add("features", Some(features.join(",")));
        add("mount options", Some(mount_options.join(",")));
        add("driver", driver.clone());
    }
    HostTarget {
        name: target.name.clone(),
        definition: definition.to_string(),
        properties,
    }
}

/// Returns the properties of the host and its disk that may explain a difference between hosts.
fn properties(record: &RunRecord) -> Properties {
    let host = &record.host;
    let mut found = Properties::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            found.insert(name.to_owned(), value);
        }
    };
    let segment = record.segments.last();
    add(
        "kernel",
        segment.map(|segment| release_series(&segment.kernel)),
    );
    add("fsb", segment.map(|segment| segment.fsb_version.clone()));
    add("distribution", host.distribution.clone());
    add("architecture", Some(host.architecture.clone()));
    add("processor", host.cpu.clone());
    add(
        "number of processors",
        (host.cpus > 0).then(|| host.cpus.to_string()),
    );
    add(
        "memory",
        (host.memory_bytes > 0)
            .then(|| format!("{:.0} GiB", host.memory_bytes as f64 / f64::from(1 << 30))),
    );
    // A record without the name of a processor does not describe the host.
    let is_described = !host.architecture.is_empty();
    add(
        "hypervisor",
        is_described.then(|| host.hypervisor.clone().unwrap_or_else(|| "none".to_owned())),
    );
    add(
        "container",
        is_described.then(|| host.container.clone().unwrap_or_else(|| "none".to_owned())),
    );
    add("governor", host.governor.clone());
    add(
        "turbo",
        host.turbo
            .map(|on| if on { "on" } else { "off" }.to_owned()),
    );
    if let Some(device) = device(record) {
        let bottom = bottom_device(device);
        add(
            "disk",
            disk_kind(record, device).map(|kind| kind.to_text().to_owned()),
        );
        add("model of the disk", bottom.model.clone());
        add("write cache", bottom.queue.get("write_cache").cloned());
        let scheduler = bottom
            .queue
            .get("scheduler")
            .map(|text| chosen(text).to_owned());
        add("I/O scheduler", scheduler);
        // The text is `ext4 on /dev/vda`. Only the file system can explain a difference.
        add(
            "file system of the image",
            device
                .backing
                .as_ref()
                .and_then(|text| Some(text.split_once(' ')?.0.to_owned())),
        );
    }
    found
}

/// Returns the first device that holds targets.
fn device(record: &RunRecord) -> Option<&DeviceManifest> {
    let of_directories = record
        .targets
        .values()
        .filter_map(|target| target.device.as_ref());
    record
        .media
        .values()
        .map(|medium| &medium.device)
        .chain(of_directories)
        .find(|device| !device.name.is_empty())
}

/// Returns the scheduler in brackets: `none` of `[none] mq-deadline`.
fn chosen(text: &str) -> &str {
    let inner = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(chosen, _)| chosen)
}

/// Returns the first two numbers of a release: `6.12` of `6.12.3-amd64`.
fn release_series(release: &str) -> String {
    let numbers: Vec<&str> = release.splitn(3, '.').take(2).collect();
    numbers
        .iter()
        .map(|text| {
            &text[..text
                .find(|letter: char| !letter.is_ascii_digit())
                .unwrap_or(text.len())]
        })
        .collect::<Vec<_>>()
        .join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn texts_of_the_kernel_are_reduced_to_what_hosts_share() {
        assert_eq!(
            (release_series("6.12.3-amd64"), release_series("6.1-rc2")),
            ("6.12".to_owned(), "6.1".to_owned())
        );
        assert_eq!(
            (chosen("[none] mq-deadline"), chosen("none")),
            ("none", "none")
        );
    }

    #[test]
    fn a_run_without_the_baseline_has_no_result() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let result = HostResult::new("a".to_owned(), &record, &summary, "btrfs");
        assert!(result.unwrap_err().contains("no target btrfs"));
        let result = HostResult::new("a".to_owned(), &record, &summary, "xfs").unwrap();
        assert!(result.cells.iter().all(|cell| cell.target == "ext4"));
        let cell = &result.cells[0];
        let other = HostResult::new("a".to_owned(), &record, &summary, "ext4").unwrap();
        let (one, inverse) = (
            cell.found.as_ref().unwrap(),
            other.cells[0].found.as_ref().unwrap(),
        );
        assert_eq!(one.effect, inverse.effect.inverse());
        assert!((one.interval.lo * inverse.interval.hi - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_cell_without_a_value_has_the_reason() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let result = HostResult::new("a".to_owned(), &record, &summary, "ext4").unwrap();
        let reasons: Vec<&String> = result
            .cells
            .iter()
            .filter_map(|cell| cell.found.as_ref().err())
            .collect();
        assert!(
            reasons
                .iter()
                .any(|reason| *reason == "tmpfs: not applicable: tmpfs is never cold"),
            "{reasons:?}"
        );
    }
}

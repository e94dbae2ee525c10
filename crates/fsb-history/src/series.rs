//! From runs to series, and from series to changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsb_model::geometry::LARGE_DISK;
use fsb_model::host::{DeviceManifest, HostManifest};
use fsb_model::metric::{self, Role};
use fsb_model::run::{Placement, TargetRecord};
use fsb_model::set::{GapReason, Run};
use fsb_model::trial::Phase;
use fsb_model::units::show_bytes;
use fsb_model::{Better, Outcome, RunRecord, Target};
use fsb_report::incomplete_text;
use fsb_stats::{AnalysisError, Interval, RunVariation, Verdict, change_points, ratio_of_means};
use fsb_store::journal::{CompactTrial, MetricKind, TrialCell, last_attempts};
use serde::{Deserialize, Serialize};

use crate::data::{
    Conditions, Entry, EntryPoint, IndexedRun, IndexedSeries, Labels, SeriesKey, StoredPoint,
    digest,
};

/// The schema of the document.
pub const SCHEMA: &str = "fsbench/history/1";

/// The maximum length of parameters in bytes. A digest replaces longer ones, such as the shape of a
/// recorded tree.
const LONGEST_PARAMETERS: usize = 4096;

fn parameters(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    if text.len() <= LONGEST_PARAMETERS {
        text
    } else {
        format!("\"sha256 {}\"", digest(value))
    }
}

/// Returns the entry of a complete run of fsb, with one value for each case and target: the mean
/// over the blocks of the logarithm of the metric by which targets are compared.
///
/// # Errors
///
/// Returns the reason why a run is left out: it did not finish, so that a resume would change it,
/// or its journal lacks blocks.
pub fn entry_of_run(
    record: &RunRecord,
    trials: &[CompactTrial],
    source: &Path,
    labels: Labels,
) -> Result<Entry, String> {
    let (Some(_), Some(first)) = (&record.stop_reason, record.segments.first()) else {
        return Err(format!("the run did not finish; {}", record.completion()));
    };
    let measured = trials.iter().filter(|trial| trial.phase == Phase::Measured);
    if let Some(why) = incomplete_text(record, measured.map(|trial| trial.block)) {
        return Err(why);
    }
    // Two short runs may begin in one second, and their first trials in one millisecond, but not
    // with equal values.
    let trial = trials.first().map(|trial| {
        let values: Vec<f64> = trial.metrics().map(|metric| metric.value).collect();
        (trial.started, values, trial.timed_ns.to_vec())
    });
    let identity = (
        &first.boot_id,
        &first.started,
        record.plan.seed,
        &record.name,
        trial,
    );
    let run = IndexedRun {
        id: digest(&identity),
        source: source.to_owned(),
        name: String::new(),
        tool: OWN_TOOL.to_owned(),
        at: first.started.clone(),
        labels,
    };
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    if record.emulated {
        left_out.push("its processors were emulated".to_owned());
        return Ok(Entry {
            run,
            points,
            left_out,
        });
    }
    for target in &record.plan.targets {
        if let Some(why) = record.unjudged_target(target) {
            left_out.push(format!("{}: {why}", target.name));
            continue;
        }
        let mut found: BTreeMap<SeriesKey, Vec<f64>> = BTreeMap::new();
        let mut failed: BTreeSet<&str> = BTreeSet::new();
        let counted =
            (trials.iter()).filter(|trial| trial.counts() && trial.what.target == target.name);
        for trial in last_attempts(counted) {
            match trial
                .primary()
                .filter(|metric| metric.value.is_finite() && metric.value > 0.0)
            {
                Some(metric) => {
                    found
                        .entry(key_of_trial(record, target, &trial.what, metric.kind))
                        .or_default()
                        .push(metric.value.ln());
                }
                None if trial.outcome == Outcome::NotApplicable => {}
                None => {
                    failed.insert(&trial.what.workload);
                }
            }
        }
        failed.retain(|case| !found.keys().any(|key| key.case == *case));
        left_out.extend(
            failed
                .into_iter()
                .map(|case| format!("{}: {case}", target.name)),
        );
        points.extend(found.into_iter().filter_map(|(key, logs)| {
            let (log_mean, squared_error) = mean_of(&logs)?;
            let conditions = conditions_of(record, target, &key.case);
            Some(EntryPoint {
                key,
                conditions,
                log_mean,
                squared_error,
                blocks: logs.len() as u32,
            })
        }));
    }
    Ok(Entry {
        run,
        points,
        left_out,
    })
}

const OWN_TOOL: &str = "fsb";

fn key_of_trial(
    record: &RunRecord,
    target: &Target,
    cell: &TrialCell,
    metric: &MetricKind,
) -> SeriesKey {
    // In rounds, a trial measures units of the work.
    let mut work = cell.params.clone();
    work.extend(
        record
            .units
            .get(&cell.workload)
            .cloned()
            .unwrap_or_default(),
    );
    SeriesKey {
        tool: OWN_TOOL.to_owned(),
        case: cell.workload.clone(),
        operation: cell.operation.clone(),
        target: target.to_string(),
        metric: metric.name.clone(),
        unit: metric.unit.name().to_owned(),
        higher_is_better: metric.better == Better::Higher,
        machine: machine(&record.host),
        parameters: parameters(&work),
    }
}

/// Returns the mean and its squared standard error, which is `None` for a single value.
fn mean_of(logs: &[f64]) -> Option<(f64, Option<f64>)> {
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    match logs.len() {
        0 => None,
        1 => Some((mean, None)),
        _ => Some((
            mean,
            Some(logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0) / n),
        )),
    }
}

/// Describes the machine by properties that do not change during its life.
fn machine(host: &HostManifest) -> String {
    let cpu = host
        .cpu
        .clone()
        .unwrap_or_else(|| host.architecture.clone());
    let hypervisor = match host.hypervisor.as_deref() {
        None => String::new(),
        Some("yes") => ", virtual machine".to_owned(),
        Some(name) => format!(", virtual machine ({name})"),
    };
    format!(
        "{cpu}, {} processors, {}{hypervisor}",
        host.cpus,
        show_bytes(nominal(host.memory_bytes) as f64)
    )
}

/// Rounds the memory that the kernel reports up to a sixteenth of the next power of two. Kernels
/// reserve different amounts of the same memory, all of them less than that.
fn nominal(memory: u64) -> u64 {
    let step = (memory.max(1).checked_next_power_of_two().unwrap_or(1 << 63) / 16).max(1);
    memory.div_ceil(step).saturating_mul(step)
}

/// Returns the conditions of a case on a target that may change from run to run. The case itself is
/// not one of them.
fn conditions_of(record: &RunRecord, target: &Target, case: &str) -> Conditions {
    let mut conditions = Conditions::new();
    let mut add = |name: &str, text: String| {
        if !text.is_empty() {
            conditions.insert(name.to_owned(), text);
        }
    };
    let made = record.targets.get(&target.name);
    let segment = record.segments.last();
    let kernel = made.and_then(|made| made.kernel.clone());
    let kernel = kernel.or(segment.map(|segment| segment.kernel.clone()));
    add("kernel", kernel.unwrap_or_default());
    add(
        "fsb",
        segment
            .map(|segment| segment.fsb_version.clone())
            .unwrap_or_default(),
    );
    add(
        "distribution",
        record.host.distribution.clone().unwrap_or_default(),
    );
    add("governor", record.host.governor.clone().unwrap_or_default());
    add(
        "turbo",
        record
            .host
            .turbo
            .map_or_else(String::new, |on| if on { "on" } else { "off" }.to_owned()),
    );
    add("suite", record.plan.name.clone());
    add("size", show_bytes(record.plan.size.0 as f64));
    if record.plan.like_disk.0 != LARGE_DISK {
        add("large disk", show_bytes(record.plan.like_disk.0 as f64));
    }
    add("targets", record.plan.targets.len().to_string());
    add(
        "method",
        if record.rounds.contains_key(case) {
            "rounds"
        } else {
            "sequential trials"
        }
        .to_owned(),
    );
    add(
        "placement",
        match &record.placement {
            Some(Placement::SideBySide {
                slices,
                slice_bytes,
            }) => {
                format!(
                    "side by side, {slices} slices of {}",
                    show_bytes(*slice_bytes as f64)
                )
            }
            Some(Placement::InTurn { .. }) => "in turn".to_owned(),
            None => String::new(),
        },
    );
    if let Some(vm) = &record.vm {
        add(
            "virtual machine",
            format!("{}, {}", vm.accelerator, show_bytes(vm.memory_bytes as f64)),
        );
    }
    if let Some(medium) = target
        .file_system()
        .and_then(|spec| record.media.get(&spec.medium.to_string()))
    {
        add("medium", medium.summary.clone());
        add("disk", disks(&medium.device).join(", "));
    }
    for (name, requested) in target.controls_over(&record.plan.controls) {
        add(&format!("control {name}"), requested);
    }
    if let Some(made) = made {
        conditions.extend(conditions_of_target(made));
    }
    conditions
}

fn conditions_of_target(made: &TargetRecord) -> impl Iterator<Item = (String, String)> {
    let geometry = made
        .geometry
        .as_ref()
        .and_then(|geometry| serde_json::to_string(geometry).ok());
    let disk = made.device.as_ref().map(|device| disks(device).join(", "));
    let found = [
        ("mkfs", made.mkfs_version.clone().unwrap_or_default()),
        ("features", made.features.join(",")),
        ("geometry", geometry.unwrap_or_default()),
        ("mount options", made.mount_options.join(",")),
        ("driver", made.driver.clone().unwrap_or_default()),
        ("disk", disk.unwrap_or_default()),
    ];
    found
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_owned(), text))
}

/// Returns the model and the serial number of each disk.
fn disks(device: &DeviceManifest) -> Vec<String> {
    let own = device.model.iter().chain(&device.serial).cloned();
    own.chain(device.beneath.iter().flat_map(disks)).collect()
}

/// Returns the entry of one execution of another tool. `name` is the name that the user gave its
/// system.
pub fn entry_of_results(run: &Run, name: &str, at: &str, labels: Labels) -> Entry {
    let mut points: BTreeMap<SeriesKey, EntryPoint> = BTreeMap::new();
    let mut left_out: Vec<String> = run.failures.iter().map(ToString::to_string).collect();
    for series in run.series.iter().filter(|series| {
        metric::REGISTRY
            .iter()
            .all(|known| known.name != series.metric || known.role == Role::Rate)
    }) {
        let logs: Vec<f64> = series.points.iter().map(|point| point.value.ln()).collect();
        let sizes: Vec<_> = series
            .points
            .iter()
            .map(|point| (point.file_size, point.record_size))
            .collect();
        let key = SeriesKey {
            tool: run.tool.clone(),
            case: series.workload.clone().unwrap_or_default(),
            operation: series.operation.clone(),
            target: run.system.clone().unwrap_or_else(|| name.to_owned()),
            metric: series.metric.clone(),
            unit: series.unit.name().to_owned(),
            higher_is_better: series.better == Better::Higher,
            machine: String::new(),
            parameters: parameters(&sizes),
        };
        let Some((log_mean, _)) = mean_of(&logs) else {
            // The failure is listed already.
            let why = series.gaps.first().map(|gap| gap.why);
            if why != Some(GapReason::Failed) {
                left_out.push(format!(
                    "{}: {}",
                    key.name(),
                    why.map_or("no value", GapReason::words)
                ));
            }
            continue;
        };
        let version = run
            .version
            .iter()
            .map(|version| (run.tool.clone(), version.clone()));
        let settings = run
            .settings
            .iter()
            .filter(|setting| setting.workload.is_none() || setting.workload == series.workload);
        let conditions = version
            .chain(settings.map(|setting| (setting.name.clone(), setting.value.clone())))
            .collect();
        // Values at several sizes are not repetitions, so a run of another tool has no standard
        // error.
        points.entry(key.clone()).or_insert(EntryPoint {
            key,
            conditions,
            log_mean,
            squared_error: None,
            blocks: 1,
        });
    }
    let content: Vec<_> = points
        .values()
        .map(|point| (&point.key, point.log_mean.to_bits()))
        .collect();
    let run = IndexedRun {
        id: digest(&(&run.tool, &run.version, &run.command, content)),
        source: PathBuf::from(&run.path),
        name: name.to_owned(),
        tool: run.tool.clone(),
        at: at.to_owned(),
        labels,
    };
    Entry {
        run,
        points: points.into_values().collect(),
        left_out,
    }
}

// The document: series with their changes.

/// Series with their values, levels and changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    /// The name and version of the schema: [`SCHEMA`].
    pub schema: String,
    /// The smallest ratio that matters, less one.
    pub theta: f64,
    /// Conditions that do not separate environments. A change with one of them is reported as a
    /// change of the series.
    pub across: Vec<String>,
    /// The series, by name.
    pub series: Vec<SeriesHistory>,
    /// The series without a change, if `series` contains only the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<UnchangedSeries>,
}

/// A series without a change, without its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnchangedSeries {
    /// The identity.
    pub id: String,
    /// The case and the target.
    pub name: String,
    /// The number of runs since the last change of the environment.
    pub runs: usize,
    /// As in the level of these runs: the change that the search would find.
    pub detectable: Option<f64>,
}

/// A series with its changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesHistory {
    /// The identity.
    pub id: String,
    /// The definition.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The values, in the order of time.
    pub points: Vec<HistoryPoint>,
    /// The environments of the runs, in the order of their first run. The search for changes never
    /// compares runs of different environments.
    pub environments: Vec<EnvironmentHistory>,
    /// The variation of runs around their levels; absent if there are too few runs.
    pub variation: Option<RunVariation>,
    /// The standard deviation that the blocks within a run explain, on average; absent if no run
    /// has two blocks.
    pub within_sd: Option<f64>,
}

/// The value of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryPoint {
    /// The run.
    pub run: String,
    /// The time at which it began: RFC 3339 in UTC.
    pub at: String,
    /// The run directory, or the file of another tool.
    pub source: PathBuf,
    /// Labels from the user.
    pub labels: Labels,
    /// The index of its environment.
    pub environment: usize,
    /// The geometric mean over the blocks of the run.
    pub value: f64,
    /// The number of blocks.
    pub blocks: u32,
}

/// The runs of a series in one environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentHistory {
    /// The conditions, without the ones in [`Document::across`].
    pub conditions: Conditions,
    /// The differences from the environment of the run before its first run; absent for the first
    /// environment.
    pub since: Option<EnvironmentChange>,
    /// The runs between changes.
    pub levels: Vec<LevelSpan>,
    /// The changes, in the order of time.
    pub changes: Vec<Change>,
}

/// The change to another environment, which is not a change of the software under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentChange {
    /// The conditions that differ.
    pub differences: Vec<Difference>,
    /// The first level of this environment divided by the level before it; absent if there are too
    /// few runs.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    pub interval: Option<Interval>,
}

/// A condition or a label that differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The name.
    pub name: String,
    /// The text in the earlier run; absent if it was not recorded.
    pub before: Option<String>,
    /// The text in the later run; absent if it was not recorded.
    pub after: Option<String>,
}

/// Runs of one environment between two changes. Indices refer to the points of the series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelSpan {
    /// The first run.
    pub first: usize,
    /// The last run.
    pub last: usize,
    /// The number of runs of this environment.
    pub runs: usize,
    /// The geometric mean of the values.
    pub mean: f64,
    /// The 95 % interval of the mean, from the variation between runs; absent if there are too few
    /// runs.
    #[serde(default)]
    pub interval: Option<Interval>,
    /// The change, as a ratio less one, that the search would find in four series of five if it
    /// happened half-way through these runs. Absent if these runs cannot tell whether anything
    /// changed: no change up to a factor of two would be found.
    #[serde(default)]
    pub detectable: Option<f64>,
}

/// A change. Indices refer to the points of the series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The last run before the change.
    pub last_before: usize,
    /// The first run after the change.
    pub first_after: usize,
    /// The earliest run that may be the first one after the change, with 95 % confidence.
    pub earliest: usize,
    /// The latest run that may be the first one after the change, with 95 % confidence.
    pub latest: usize,
    /// The number of runs after the change that the search needed to find it.
    pub found_after: usize,
    /// The level after the change divided by the level before it.
    pub ratio: f64,
    /// The 95 % interval of the ratio.
    pub interval: Interval,
    /// The probability that a series of a hundred runs without a change shows a change as clear as
    /// this one.
    pub p_value: f64,
    /// The verdict on the ratio.
    pub verdict: Verdict,
    /// The labels, and the conditions in [`Document::across`], that differ between the two runs.
    pub differences: Vec<Difference>,
}

/// Analyses a series. `environments` has the conditions by identity, and `runs` the runs by
/// identity. Conditions in `across` do not separate environments.
///
/// # Errors
///
/// Returns an error if a value is not finite.
pub fn analyse(
    series: IndexedSeries,
    points: &[StoredPoint],
    environments: &BTreeMap<String, Conditions>,
    runs: &BTreeMap<String, IndexedRun>,
    across: &[String],
    theta: f64,
) -> Result<SeriesHistory, AnalysisError> {
    // The conditions of each environment without the ones in `across`, its points, and the
    // environment of each point.
    let mut kept: Vec<Conditions> = Vec::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut place_of: Vec<usize> = Vec::with_capacity(points.len());
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        let place = *known.entry(&point.environment).or_insert_with(|| {
            let mut conditions = environments
                .get(&point.environment)
                .cloned()
                .unwrap_or_default();
            conditions.retain(|name, _| !across.contains(name));
            kept.iter()
                .position(|known| *known == conditions)
                .unwrap_or_else(|| {
                    kept.push(conditions);
                    members.push(Vec::new());
                    kept.len() - 1
                })
        });
        members[place].push(index);
        place_of.push(place);
    }

    let mut histories: Vec<EnvironmentHistory> = Vec::new();
    let mut variations = Vec::new();
    for (conditions, members) in kept.iter().zip(&members) {
        let values: Vec<f64> = members
            .iter()
            .map(|index| points[*index].log_mean.exp())
            .collect();
        let found = change_points(&values, series.key.better(), theta)?;
        variations.extend(found.variation);
        let levels = found.levels.iter().map(|level| LevelSpan {
            first: members[level.first],
            last: members[level.first + level.runs - 1],
            runs: level.runs,
            mean: level.mean,
            interval: None,
            detectable: None,
        });
        let changes = found.changes.iter().map(|change| {
            let (last_before, first_after) = (members[change.first - 1], members[change.first]);
            let [before, after] = [last_before, first_after].map(|index| {
                let StoredPoint {
                    environment, run, ..
                } = &points[index];
                let mut about = environments.get(environment).cloned().unwrap_or_default();
                about.retain(|name, _| across.contains(name));
                about.extend(
                    runs.get(run)
                        .map(|run| run.labels.clone())
                        .unwrap_or_default(),
                );
                about
            });
            Change {
                last_before,
                first_after,
                earliest: members[change.earliest],
                latest: members[change.latest],
                found_after: change.found_after,
                ratio: change.ratio,
                interval: change.interval,
                p_value: change.p_value,
                verdict: change.verdict,
                differences: differences(&before, &after),
            }
        });
        histories.push(EnvironmentHistory {
            conditions: conditions.clone(),
            since: None,
            levels: levels.collect(),
            changes: changes.collect(),
        });
    }
    for place in 1..histories.len() {
        let first = members[place][0];
        let before = place_of[first - 1];
        let last = histories[before]
            .levels
            .iter()
            .rfind(|level| level.first < first);
        let ratio = last.and_then(|last| {
            let [before, after] =
                [(before, last), (place, &histories[place].levels[0])].map(|(place, level)| {
                    let members = members[place].iter();
                    let inside = members.filter(|index| (level.first..=level.last).contains(index));
                    inside
                        .map(|index| points[*index].log_mean)
                        .collect::<Vec<f64>>()
                });
            ratio_of_means(&before, &after)
        });
        histories[place].since = Some(EnvironmentChange {
            differences: differences(&kept[before], &kept[place]),
            ratio: ratio.map(|(ratio, _)| ratio),
            interval: ratio.map(|(_, interval)| interval),
        });
    }
    let variation = RunVariation::pooled(variations);
    for level in histories
        .iter_mut()
        .flat_map(|environment| &mut environment.levels)
    {
        level.interval =
            variation.map(|variation| variation.interval_of_level(level.mean, level.runs));
        level.detectable = variation.and_then(|variation| variation.detectable(level.runs, theta));
    }
    let errors: Vec<f64> = points
        .iter()
        .filter_map(|point| point.squared_error)
        .collect();
    let within =
        (!errors.is_empty()).then(|| (errors.iter().sum::<f64>() / errors.len() as f64).sqrt());
    let mut shown = Vec::with_capacity(points.len());
    for (point, environment) in points.iter().zip(place_of) {
        let run = runs.get(&point.run);
        shown.push(HistoryPoint {
            run: point.run.clone(),
            at: point.at.clone(),
            source: run.map(|run| run.source.clone()).unwrap_or_default(),
            labels: run.map(|run| run.labels.clone()).unwrap_or_default(),
            environment,
            value: point.log_mean.exp(),
            blocks: point.blocks,
        });
    }
    Ok(SeriesHistory {
        id: series.id,
        key: series.key,
        points: shown,
        environments: histories,
        variation,
        within_sd: within,
    })
}

impl Document {
    /// Reduces series without a change to the change that the search would find in them.
    pub fn without_values_of_unchanged(self) -> Document {
        let (changed, others): (Vec<_>, Vec<_>) =
            self.series.into_iter().partition(SeriesHistory::is_changed);
        let unchanged = others.iter().filter_map(|series| {
            let level = series.newest_level()?;
            Some(UnchangedSeries {
                id: series.id.clone(),
                name: series.key.name(),
                runs: level.runs,
                detectable: level.detectable,
            })
        });
        Document {
            unchanged: unchanged.collect(),
            series: changed,
            ..self
        }
    }
}

impl SeriesHistory {
    /// Returns whether the search found a change.
    pub fn is_changed(&self) -> bool {
        self.environments
            .iter()
            .any(|environment| !environment.changes.is_empty())
    }

    /// Returns the runs since the last change in the environment of the newest run. Returns `None`
    /// for a series without runs.
    pub fn newest_level(&self) -> Option<&LevelSpan> {
        self.environments
            .get(self.points.last()?.environment)?
            .levels
            .last()
    }
}

/// Returns the entries of two maps that differ.
pub fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        let (before, after) = (before.get(name).cloned(), after.get(name).cloned());
        if before != after {
            differences.push(Difference {
                name: name.clone(),
                before,
                after,
            });
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_the_nominal_one_whatever_the_kernel_reserves() {
        let gib = |memory: f64| (memory * f64::from(1 << 30)) as u64;
        for (reported, nominal_gib) in [
            (15.6, 16.0),
            (15.3, 16.0),
            (7.74, 8.0),
            (8.0, 8.0),
            (62.7, 64.0),
            (23.5, 24.0),
        ] {
            assert_eq!(nominal(gib(reported)), gib(nominal_gib), "{reported}");
        }
        assert_eq!((nominal(0), nominal(5)), (0, 5));
        assert!(nominal(u64::MAX) >= u64::MAX / 2);
    }

    #[test]
    fn differences_have_both_sides() {
        let map = |entries: &[(&str, &str)]| -> Labels {
            entries
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect()
        };
        let found = differences(
            &map(&[("a", "1"), ("b", "2")]),
            &map(&[("b", "3"), ("c", "4")]),
        );
        let sides: Vec<_> = found
            .iter()
            .map(|one| (&*one.name, one.before.as_deref(), one.after.as_deref()))
            .collect();
        assert_eq!(
            sides,
            [
                ("a", Some("1"), None),
                ("b", Some("2"), Some("3")),
                ("c", None, Some("4"))
            ]
        );
        assert!(differences(&map(&[("a", "1")]), &map(&[("a", "1")])).is_empty());
    }

    fn key() -> SeriesKey {
        SeriesKey {
            tool: "fsb".to_owned(),
            case: "read".to_owned(),
            operation: "read".to_owned(),
            target: "xfs".to_owned(),
            metric: "throughput".to_owned(),
            unit: "bytes_per_second".to_owned(),
            higher_is_better: true,
            machine: String::new(),
            parameters: String::new(),
        }
    }

    #[test]
    fn environments_that_take_turns_are_analysed_apart() {
        let key = key();
        let kernel = |name: &str| Conditions::from([("kernel".to_owned(), name.to_owned())]);
        let environments = BTreeMap::from([
            ("old".to_owned(), kernel("6.1")),
            ("new".to_owned(), kernel("6.2")),
        ]);
        // The kernels take turns; the new one is slower by a half, and after 40 runs both are
        // slower by a fifth.
        let point = |index: usize| StoredPoint {
            run: format!("{index:02}"),
            at: format!("2026-01-01T00:{index:02}:00Z"),
            environment: if index.is_multiple_of(2) {
                "old"
            } else {
                "new"
            }
            .to_owned(),
            log_mean: 5.0 + 0.01 * (index * 7 % 5) as f64
                - 0.7 * (index % 2) as f64
                - if index < 40 { 0.0 } else { 0.22 },
            squared_error: Some(1e-4),
            blocks: 5,
        };
        let points: Vec<StoredPoint> = (0..60).map(point).collect();
        let series = IndexedSeries { id: key.id(), key };
        let runs = BTreeMap::new();
        let found = analyse(series.clone(), &points, &environments, &runs, &[], 0.03).unwrap();
        let firsts: Vec<Vec<usize>> = found
            .environments
            .iter()
            .map(|environment| {
                environment
                    .changes
                    .iter()
                    .map(|change| change.first_after)
                    .collect()
            })
            .collect();
        assert_eq!(firsts, [[40], [41]]);
        let since = found.environments[1].since.as_ref().unwrap();
        assert_eq!(
            since.differences,
            differences(&kernel("6.1"), &kernel("6.2"))
        );
        assert!((found.within_sd.unwrap() - 0.01).abs() < 1e-12);
        assert_eq!(found.variation.unwrap().degrees, 56.0);
        let across = analyse(
            series,
            &points,
            &environments,
            &runs,
            &["kernel".to_owned()],
            0.03,
        )
        .unwrap();
        assert_eq!(across.environments.len(), 1);
        // The newest run is the last one of the other kernel.
        let newest = found.newest_level().unwrap();
        assert_eq!(
            (newest.last, newest.runs, found.is_changed()),
            (59, 10, true)
        );
        assert!(
            (0.03..0.2).contains(&newest.detectable.unwrap()),
            "{newest:?}"
        );
    }

    #[test]
    fn a_level_of_few_runs_cannot_tell_whether_anything_changed() {
        let found = |logs: &[f64]| {
            let point = |(index, log): (usize, &f64)| StoredPoint {
                run: index.to_string(),
                at: format!("2026-01-01T00:{index:02}:00Z"),
                environment: "one".to_owned(),
                log_mean: *log,
                squared_error: None,
                blocks: 1,
            };
            let points: Vec<StoredPoint> = logs.iter().enumerate().map(point).collect();
            let series = IndexedSeries {
                id: "id".to_owned(),
                key: key(),
            };
            let found = analyse(
                series,
                &points,
                &BTreeMap::new(),
                &BTreeMap::new(),
                &[],
                0.03,
            )
            .unwrap();
            assert!(!found.is_changed());
            found
                .newest_level()
                .map(|level| (level.runs, level.detectable))
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[5.0]), Some((1, None)));
        assert_eq!(found(&[5.0, 5.01, 5.02, 5.0]), Some((4, None)));
        // Seven of ten runs are slower by 15 to 40 %.
        let noisy = [5.0, 4.8, 4.98, 4.6, 4.5, 5.01, 4.7, 4.55, 4.75, 4.84];
        assert_eq!(found(&noisy), Some((10, None)));
        let steady: Vec<f64> = noisy.iter().map(|log| 5.0 + (log - 5.0) / 20.0).collect();
        let (runs, detectable) = found(&steady).unwrap();
        assert!(
            runs == 10 && (0.05..0.2).contains(&detectable.unwrap()),
            "{detectable:?}"
        );
    }
}

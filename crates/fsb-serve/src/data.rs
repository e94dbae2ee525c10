//! The answers, which pages show and `/api` returns as JSON.

use std::collections::{BTreeMap, BTreeSet};

use fsb_history::series::Difference;
use fsb_history::text::{change_text, differences_text, environment_text, summary_text};
use fsb_history::{Conditions, IndexedRun, RunEntry, RunsCompared, SeriesHistory, SeriesKey};
use fsb_stats::{Interval, Verdict};
use serde::Serialize;

use crate::problem::Problem;
use crate::query::Query;
use crate::site::{Site, Snapshot};

/// The maximum number of changes, and of runs, in the overview.
const RECENT: usize = 50;
/// The maximum number of entries of a page of a list.
const PAGE: usize = 200;
/// The text for a kernel that the run did not record.
const NO_KERNEL: &str = "kernel not recorded";

/// The newest changes and runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// The smallest ratio that matters, less one.
    pub theta: f64,
    /// The number of series.
    pub series: usize,
    /// The number of series with changes.
    pub changed: usize,
    /// The number of series without a change whose runs cannot tell: no change up to a factor of
    /// two would be found.
    pub cannot_tell: usize,
    /// The number of runs.
    pub runs: usize,
    /// The number of series with changes, and the changes that would be found in the others, in
    /// words.
    pub summary: String,
    /// The newest changes and changes of environment, the newest first.
    pub changes: Vec<RecentChange>,
    /// The number of older changes.
    pub older: usize,
    /// The newest runs, the newest first.
    pub newest: Vec<RunEntry>,
}

/// A change of a series, or of the environment of several series.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecentChange {
    /// The time of the first run after the change: RFC 3339 in UTC.
    pub at: String,
    /// The first run after the change.
    pub run: String,
    /// The series with the change. A change of speed has one series; a change of the environment
    /// may have several.
    pub series: Vec<SeriesName>,
    /// The verdict on the ratio; absent for a change of the environment, which is not judged.
    pub verdict: Option<Verdict>,
    /// The level after the change divided by the level before it; absent for a change of the
    /// environment.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio; absent for a change of the environment.
    pub interval: Option<Interval>,
    /// The change in words.
    pub text: String,
}

/// The identity and the name of a series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesName {
    /// The identity.
    pub id: String,
    /// The case and the target.
    pub name: String,
}

/// A page of the list of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunList {
    /// The number of runs that match.
    pub total: usize,
    /// The number of this page, from 1 on.
    pub page: usize,
    /// The number of pages.
    pub pages: usize,
    /// The runs of this page, the newest first.
    pub runs: Vec<RunEntry>,
}

/// A run with its values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunValues {
    /// The run.
    #[serde(flatten)]
    pub run: RunEntry,
    /// Whether its directory or file still exists.
    pub exists: bool,
    /// The values, by the name of the series.
    pub values: Vec<RunValue>,
}

/// The value of a run in a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunValue {
    /// The identity of the series.
    pub id: String,
    /// The definition.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The geometric mean over the blocks.
    pub value: f64,
    /// The number of blocks.
    pub blocks: u32,
    /// The previous run in the series; absent for the first run.
    pub previous: Option<String>,
    /// The value of the previous run; absent for the first run.
    pub previous_value: Option<f64>,
}

/// A series in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesEntry {
    /// The identity.
    pub id: String,
    /// The definition.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The number of runs.
    pub runs: usize,
    /// The number of changes.
    pub changes: usize,
    /// The change, as a ratio less one, that would be found half-way through the runs since the
    /// last change of level or environment; absent if these runs cannot tell.
    pub detectable: Option<f64>,
    /// The last run.
    pub last_run: String,
    /// The time at which the last run began: RFC 3339 in UTC.
    pub last_at: String,
    /// The value of the last run.
    pub last_value: f64,
}

/// A page of the list of series.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesList {
    /// The number of series that match.
    pub total: usize,
    /// The number of this page, from 1 on.
    pub page: usize,
    /// The number of pages.
    pub pages: usize,
    /// The series of this page, by name.
    pub series: Vec<SeriesEntry>,
}

/// The last value of each case on each target with each kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Matrix {
    /// One matrix for each machine.
    pub machines: Vec<MachineMatrix>,
}

/// The matrix of one machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineMatrix {
    /// The machine; empty for results of other tools.
    pub machine: String,
    /// The kernels, the one of the newest run first.
    pub kernels: Vec<String>,
    /// The targets, by name.
    pub targets: Vec<String>,
    /// The cases, by name.
    pub rows: Vec<MatrixRow>,
}

/// A case of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixRow {
    /// The case, or the operation of another tool.
    pub case: String,
    /// For each target the values by kernel, in the order of the kernels. If several series share a
    /// case and a target, the series with the latest run counts.
    pub cells: Vec<Vec<MatrixValue>>,
}

/// The value of the last run of a case on a target with one kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatrixValue {
    /// The kernel.
    pub kernel: String,
    /// The identity of the series.
    pub series: String,
    /// The run.
    pub run: String,
    /// The time at which it began: RFC 3339 in UTC.
    pub at: String,
    /// The geometric mean over the blocks of the run.
    pub value: f64,
    /// The unit, by name.
    pub unit: String,
    /// The metric.
    pub metric: String,
}

/// Returns the newest changes and runs.
pub(crate) fn overview(snapshot: &Snapshot) -> Overview {
    let document = &snapshot.document;
    let changed = document
        .series
        .iter()
        .filter(|series| series.is_changed())
        .count();
    let unchanged = document.series.iter().filter(|series| !series.is_changed());
    let silent = unchanged.filter(|series| {
        series
            .newest_level()
            .is_none_or(|level| level.detectable.is_none())
    });
    let mut newest: Vec<&IndexedRun> = snapshot.runs.values().collect();
    newest.sort_by(|one, other| (&other.at, &other.id).cmp(&(&one.at, &one.id)));
    let mut changes = changes(&document.series);
    let older = changes.len().saturating_sub(RECENT);
    changes.truncate(RECENT);
    Overview {
        theta: document.theta,
        series: document.series.len(),
        changed,
        runs: snapshot.runs.len(),
        cannot_tell: silent.count(),
        summary: summary_text(document),
        changes,
        older,
        newest: newest
            .into_iter()
            .take(RECENT)
            .map(RunEntry::from)
            .collect(),
    }
}

/// Returns all changes, the newest first. Series that changed to another environment with the same
/// run share an entry.
fn changes(all: &[SeriesHistory]) -> Vec<RecentChange> {
    let mut found = Vec::new();
    let mut environments: BTreeMap<(&str, &str, String), Vec<SeriesName>> = BTreeMap::new();
    for series in all {
        let name = || SeriesName {
            id: series.id.clone(),
            name: series.key.name(),
        };
        for environment in &series.environments {
            found.extend(environment.changes.iter().map(|change| {
                let first = &series.points[change.first_after];
                RecentChange {
                    at: first.at.clone(),
                    run: first.run.clone(),
                    series: vec![name()],
                    verdict: Some(change.verdict),
                    ratio: Some(change.ratio),
                    interval: Some(change.interval),
                    text: change_text(series, change),
                }
            }));
            if let (Some(since), Some(level)) = (&environment.since, environment.levels.first()) {
                let first = &series.points[level.first];
                let text = differences_text(&since.differences);
                environments
                    .entry((&first.at, &first.run, text))
                    .or_default()
                    .push(name());
            }
        }
    }
    found.extend(
        environments
            .into_iter()
            .map(|((at, run, text), mut series)| {
                series.sort();
                let text = format!("other environment: {text}");
                let (verdict, ratio, interval) = (None, None, None);
                RecentChange {
                    at: at.to_owned(),
                    run: run.to_owned(),
                    series,
                    verdict,
                    ratio,
                    interval,
                    text,
                }
            }),
    );
    found.sort_by(|one, other| {
        other
            .at
            .cmp(&one.at)
            .then_with(|| (&one.series, &one.text).cmp(&(&other.series, &other.text)))
    });
    found
}

/// Returns the number of pages, and the entries of one page.
fn paged<T>(all: Vec<T>, page: usize, whole: bool) -> (usize, Vec<T>) {
    if whole {
        return (1, all);
    }
    let pages = all.len().div_ceil(PAGE).max(1);
    (
        pages,
        all.into_iter()
            .skip((page - 1).saturating_mul(PAGE))
            .take(PAGE)
            .collect(),
    )
}

/// Returns the series whose name, machine, metric, tool or identity contains the words of the
/// query. `whole` returns all of them on one page.
pub(crate) fn series_list(site: &Site, query: &Query, whole: bool) -> Result<SeriesList, Problem> {
    let (snapshot, page) = (site.snapshot()?, query.page()?);
    let mut all = Vec::new();
    for series in &snapshot.document.series {
        let key = &series.key;
        let name = key.name();
        let words = [
            &name,
            &key.operation,
            &key.machine,
            &key.metric,
            &key.tool,
            &series.id,
        ];
        let Some(last) = series.points.last() else {
            continue;
        };
        if !query.matches(&words.map(String::as_str).join(" ")) {
            continue;
        }
        all.push(SeriesEntry {
            id: series.id.clone(),
            key: series.key.clone(),
            runs: series.points.len(),
            changes: series
                .environments
                .iter()
                .map(|found| found.changes.len())
                .sum(),
            detectable: series.newest_level().and_then(|level| level.detectable),
            last_run: last.run.clone(),
            last_at: last.at.clone(),
            last_value: last.value,
        });
    }
    let total = all.len();
    let (pages, series) = paged(all, page, whole);
    Ok(SeriesList {
        total,
        page,
        pages,
        series,
    })
}

/// Returns the runs whose time, tool, source, labels or identity contain the words of the query,
/// the newest first.
pub(crate) fn run_list(site: &Site, query: &Query, whole: bool) -> Result<RunList, Problem> {
    let (snapshot, page) = (site.snapshot()?, query.page()?);
    let mut all: Vec<RunEntry> = snapshot.runs.values().map(RunEntry::from).collect();
    all.retain(|run| {
        let labels = run
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let labels = labels.collect::<Vec<_>>().join(" ");
        query.matches(&[&*run.id, &run.at, &run.tool, &run.source, &labels].join(" "))
    });
    all.sort_by(|one, other| (&other.at, &other.id).cmp(&(&one.at, &one.id)));
    let total = all.len();
    let (pages, runs) = paged(all, page, whole);
    Ok(RunList {
        total,
        page,
        pages,
        runs,
    })
}

/// Returns a run with its values, each with the value of the previous run of its series.
pub(crate) fn run_values(site: &Site, id: &str) -> Result<RunValues, Problem> {
    let snapshot = site.snapshot()?;
    let run = snapshot.run(id)?;
    let values = snapshot.document.series.iter().filter_map(|series| {
        let place = series.points.iter().position(|point| point.run == id)?;
        let (point, previous) = (
            &series.points[place],
            place.checked_sub(1).map(|before| &series.points[before]),
        );
        Some(RunValue {
            id: series.id.clone(),
            key: series.key.clone(),
            value: point.value,
            blocks: point.blocks,
            previous: previous.map(|point| point.run.clone()),
            previous_value: previous.map(|point| point.value),
        })
    });
    Ok(RunValues {
        run: run.into(),
        exists: run.source.exists(),
        values: values.collect(),
    })
}

/// Compares the runs that the parameters `a` and `b` name.
pub(crate) fn comparison(site: &Site, query: &Query) -> Result<RunsCompared, Problem> {
    let theta = query.rules()?.theta;
    let index = site.index()?;
    let [before, after] = ["a", "b"].map(|name| {
        let id = query.last(name);

        if id.is_empty() {
            Err(Problem::Invalid(format!("{name}: name a run")))
        } else {
            index
                .runs
                .get(id)
                .ok_or_else(|| Problem::NotFound(format!("The history has no run {id}.")))
        }
    });
    Ok(index.compare(before?, after?, theta)?)
}

/// The values of a matrix by machine, by case and target, and by kernel.
type Placed = BTreeMap<String, BTreeMap<(String, String), BTreeMap<String, MatrixValue>>>;

/// Returns the last values of all cases on all targets, by kernel. A `kernel` that is not empty
/// leaves the others out.
pub(crate) fn matrix(site: &Site, kernel: &str) -> Result<Matrix, Problem> {
    let snapshot = site.snapshot()?;
    let mut placed = Placed::new();
    for series in &snapshot.document.series {
        let key = &series.key;
        let case = if key.case.is_empty() {
            &key.operation
        } else {
            &key.case
        };
        let cells = placed.entry(key.machine.clone()).or_default();
        let cell = cells.entry((case.clone(), key.target.clone())).or_default();
        for point in &series.points {
            let found = kernel_of(&series.environments[point.environment].conditions);
            if !kernel.is_empty() && kernel != found {
                continue;
            }
            let value = MatrixValue {
                kernel: found.to_owned(),
                series: series.id.clone(),
                run: point.run.clone(),
                at: point.at.clone(),
                value: point.value,
                unit: key.unit.clone(),
                metric: key.metric.clone(),
            };
            let held = cell
                .entry(found.to_owned())
                .or_insert_with(|| value.clone());
            if held.at < value.at {
                *held = value;
            }
        }
    }
    Ok(Matrix {
        machines: placed
            .into_iter()
            .filter_map(|(machine, cells)| machine_matrix(machine, cells))
            .collect(),
    })
}

fn kernel_of(conditions: &Conditions) -> &str {
    conditions.get("kernel").map_or(NO_KERNEL, String::as_str)
}

/// Returns the matrix of a machine, or `None` if it has no value.
fn machine_matrix(
    machine: String,
    mut cells: BTreeMap<(String, String), BTreeMap<String, MatrixValue>>,
) -> Option<MachineMatrix> {
    let mut newest: BTreeMap<&str, &str> = BTreeMap::new();
    for value in cells.values().flat_map(BTreeMap::values) {
        let at = newest.entry(&value.kernel).or_default();
        *at = (*at).max(&value.at);
    }
    let mut kernels: Vec<(&str, &str)> = newest.into_iter().collect();
    kernels.sort_by(|one, other| (other.1, other.0).cmp(&(one.1, one.0)));
    let kernels: Vec<String> = kernels
        .into_iter()
        .map(|(kernel, _)| kernel.to_owned())
        .collect();
    cells.retain(|_, values| !values.is_empty());
    let targets: BTreeSet<String> = cells.keys().map(|(_, target)| target.clone()).collect();
    let cases: BTreeSet<String> = cells.keys().map(|(case, _)| case.clone()).collect();
    let mut rows = Vec::new();
    for case in cases {
        let mut row = MatrixRow {
            case,
            cells: Vec::new(),
        };
        for target in &targets {
            let values = cells.remove(&(row.case.clone(), target.clone()));
            let mut values = values.unwrap_or_default();
            row.cells.push(
                kernels
                    .iter()
                    .filter_map(|kernel| values.remove(kernel))
                    .collect(),
            );
        }
        rows.push(row);
    }
    (!rows.is_empty()).then(|| MachineMatrix {
        machine,
        kernels,
        targets: targets.into_iter().collect(),
        rows,
    })
}

/// Returns the differences between the conditions of two neighbouring points as text; empty if
/// there are none.
pub(crate) fn environment_between(series: &SeriesHistory, place: usize) -> String {
    let Some(before) = place.checked_sub(1) else {
        return String::new();
    };
    let (before, after) = (&series.points[before], &series.points[place]);
    if before.environment == after.environment {
        return String::new();
    }
    let differences: Vec<Difference> = fsb_history::series::differences(
        &series.environments[before.environment].conditions,
        &series.environments[after.environment].conditions,
    );
    // The first run of an environment has the change of the level with it.
    let environment = &series.environments[after.environment];
    let is_first = environment
        .levels
        .first()
        .is_some_and(|level| level.first == place);
    match environment.since.as_ref().filter(|_| is_first) {
        Some(since) => environment_text(since),
        None => format!("other environment: {}", differences_text(&differences)),
    }
}

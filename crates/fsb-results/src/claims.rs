//! Published statements about IOzone's operations beside those of a run, chosen by the operations
//! of the run and the state of the cache that it asks for.

use std::collections::{BTreeMap, BTreeSet};

use fsb_compat::benas::{self, Claim, FileSystem, Regime};
use fsb_compat::horvath::{self, FirstClaim, FirstValue};
use fsb_model::metric::THROUGHPUT;
use fsb_model::set::{Run, Series, Set};
use fsb_model::{CacheState, Cell, RunRecord, Target};
use fsb_report::mark;
use fsb_report::summary::{
    ClaimValues, OrderOutcome, OrderSubject, PublishedClaim, PublishedClaims, PublishedOrder,
};
use fsb_stats::compare::{CompareRequest, TVerdict, compare};
use fsb_store::journal::CompactTrial;

use crate::matrices::of_matrices;
use crate::published;

/// The sizes of the files of Horváth's first comparison.
const FIRST_FILES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;
const MEBIBYTE: f64 = 1_048_576.0;

/// The state in which a run measured its operations, as the works name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Remounted before each operation, page cache used (Beňas 2011, in cache).
    Remounted,
    /// Everything in memory (Horváth 2006, first comparison).
    InMemory,
    /// `O_DIRECT` (Beňas 2011).
    Direct,
}

/// Returns the published statements about the operations and targets of the run, or `None` if there
/// are none. Statements about operations that the run measured in another state are withheld, with
/// the reason. The second comparison of Horváth 2006 has a table of its own: its reads are cold,
/// too, but memory does not hold its file, so no claim of Beňas is about it.
pub fn claims_beside(record: &RunRecord, trials: &[CompactTrial]) -> Option<PublishedClaims> {
    if !record.cells.iter().any(is_matrix) {
        return None;
    }
    let state = state(&record.cells);
    if state != Some(State::InMemory) && published::horvath(record).is_some() {
        return None;
    }
    let measured = Measured::from_run(record, trials);
    let (mut rows, (title, note), first) = match state {
        Some(State::InMemory) => (measured.rates(), horvath::FIRST_TITLE, true),
        Some(State::Direct) => (measured.differences(Regime::Direct), benas::TITLE, false),
        Some(State::Remounted) | None => {
            (measured.differences(Regime::InCache), benas::TITLE, false)
        }
    };
    let others = in_other_states(&record.cells, state);
    let withheld = rows
        .iter()
        .any(|claim| claim.is_about(&others))
        .then(|| describe_withheld(&others, state));
    rows.retain(|claim| !claim.is_about(&others));
    // Statements with nothing beside them would hide the reason.
    if withheld.is_some() && state.is_none() {
        rows.clear();
    }
    if rows.is_empty() && withheld.is_none() {
        return None;
    }
    let mut pairs = match state {
        Some(State::InMemory) => measured.pairs_of_rates(),
        _ => Vec::new(),
    };
    pairs.retain(|claim| !claim.is_about(&others));
    let compared = rows.iter().chain(&pairs);
    let order = (!rows.is_empty()).then(|| order(compared, record.unjudged().as_deref()));
    Some(PublishedClaims {
        title: title.to_owned(),
        note: note.to_owned(),
        first,
        rows: rows.into_iter().map(|claim| claim.shown).collect(),
        withheld,
        order,
    })
}

/// A claim with the operation that it is about, and the sign of the change that it states: from the
/// first file system to the second. Without a sign it states no difference.
struct Directed {
    operation: String,
    /// 1 if the second is faster, -1 if the first is.
    sign: Option<f64>,
    /// The first file system, and the second.
    pair: [String; 2],
    shown: PublishedClaim,
}

impl Directed {
    /// Returns whether the claim is about one of these operations.
    fn is_about(&self, operations: &BTreeMap<&str, String>) -> bool {
        operations.contains_key(self.operation.as_str())
    }
}

/// Compares the directions of the differences with the published ones. A difference counts if the
/// t-test was made, and has a direction if it is significant.
fn order<'c>(claims: impl Iterator<Item = &'c Directed>, unjudged: Option<&str>) -> PublishedOrder {
    let mut outcomes = Vec::new();
    for claim in claims.filter(|_| unjudged.is_none()) {
        let Some((sign, here)) = claim.sign.zip(claim.shown.here) else {
            continue;
        };
        let change = here.median_change.or(here.mean_change);
        let Some((different, change)) = here.different.zip(change) else {
            continue;
        };
        outcomes.push(match different {
            false => OrderOutcome::Undecided,
            true if change * sign > 0.0 => OrderOutcome::Same,
            true => {
                let [first, second] = &claim.pair;
                let (faster, here) = match sign > 0.0 {
                    true => (second, first),
                    false => (first, second),
                };
                OrderOutcome::Other(format!(
                    "{}: published {faster} faster, here {here}",
                    claim.shown.test
                ))
            }
        });
    }
    let unjudged = unjudged.unwrap_or("the run has too few values of these sizes for the t-test");
    PublishedOrder::from_outcomes(OrderSubject::Differences, outcomes, unjudged)
}

/// Returns the state in which the run measured most of IOzone's operations, if a work has it.
fn state(cells: &[Cell]) -> Option<State> {
    let mut counts: Vec<(State, BTreeSet<&str>)> = Vec::new();
    for cell in cells {
        let Some(state) = state_of_cell(cell) else {
            continue;
        };
        let name = cell.workload.name.as_str();
        match counts.iter_mut().find(|(known, _)| *known == state) {
            Some((_, names)) => drop(names.insert(name)),
            None => counts.push((state, BTreeSet::from([name]))),
        }
    }
    let most = counts.iter().map(|(_, names)| names.len()).max()?;
    let found = counts.iter().find(|(_, names)| names.len() == most)?;
    Some(found.0)
}

/// Returns the operations that the run measured in a matrix in another state, with its description.
fn in_other_states(cells: &[Cell], state: Option<State>) -> BTreeMap<&str, String> {
    let mut others = BTreeMap::new();
    for cell in cells.iter().filter(|cell| is_matrix(cell)) {
        if state.is_none() || state_of_cell(cell) != state {
            let mut words = Vec::new();
            for key in ["backend", "cache", "durability"] {
                if let Some(value) = cell
                    .workload
                    .params
                    .get(key)
                    .and_then(|value| value.as_str())
                {
                    words.push(format!("{key}={value}"));
                }
            }
            others.insert(cell.workload.name.as_str(), words.join(","));
        }
    }
    others
}

/// Returns the sentence about the operations whose claims are not shown.
fn describe_withheld(others: &BTreeMap<&str, String>, state: Option<State>) -> String {
    let mut by_words: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (operation, words) in others {
        by_words.entry(words).or_default().push(operation);
    }
    let mut parts = Vec::new();
    for (words, operations) in by_words {
        parts.push(format!("{} (here {words})", operations.join(", ")));
    }
    let published = match state {
        Some(State::InMemory) => "all data was in memory",
        Some(State::Direct) => "O_DIRECT was used",
        Some(State::Remounted) | None => {
            "the file system was remounted before each operation and nothing was flushed"
        }
    };
    format!(
        "Published statements about these operations are not shown, because {published} there: {}.",
        parts.join("; ")
    )
}

/// Returns whether a cell is part of a matrix of one of IOzone's operations.
fn is_matrix(cell: &Cell) -> bool {
    cell.workload.params.get("matrix") == Some(&true.into())
        && fsb_compat::iozone::COLUMNS.contains(&&*cell.workload.name)
}

fn state_of_cell(cell: &Cell) -> Option<State> {
    let params = &cell.workload.params;
    let [backend, cache, durability] = ["backend", "cache", "durability"].map(|key| {
        params
            .get(key)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
    });
    if !is_matrix(cell) || !["", "none"].contains(&durability) {
        return None;
    }
    // What is written first has no earlier state.
    let remounted = match cell.workload.name.as_str() {
        "write" | "fwrite" => CacheState::Any,
        _ => CacheState::Cold,
    };
    match (backend, cache) {
        ("direct", _) => Some(State::Direct),
        (_, cache) if cache == CacheState::Warm.name() => Some(State::InMemory),
        (_, cache) if cache == remounted.name() => Some(State::Remounted),
        _ => None,
    }
}

/// The rates of a run, by target.
struct Measured<'r> {
    targets: &'r [Target],
    sets: BTreeMap<&'r str, Set>,
    theta: f64,
}

impl<'r> Measured<'r> {
    fn from_run(record: &'r RunRecord, trials: &[CompactTrial]) -> Measured<'r> {
        let mut sets: BTreeMap<String, Set> = of_matrices(record, trials)
            .into_iter()
            .map(|set| (set.name.clone(), set))
            .collect();
        let by_target = record.plan.targets.iter().filter_map(|target| {
            let risks = record
                .targets
                .get(&target.name)
                .map_or(&[][..], |found| &found.risks);
            let set = sets.remove(&mark::name(&target.name, risks))?;
            Some((target.name.as_str(), set))
        });
        Measured {
            targets: &record.plan.targets,
            sets: by_target.collect(),
            theta: record.plan.theta,
        }
    }

    /// Returns the name of the target that is this file system with this parameter and no other
    /// one.
    fn target(&self, wanted: &FileSystem) -> Option<&'r str> {
        let target = self.targets.iter().find(|target| {
            target.file_system().is_some_and(|spec| {
                let mkfs = (!spec.mkfs.is_empty()).then(|| spec.mkfs.join(" "));
                spec.fs == wanted.name && spec.options.iter().chain(&mkfs).eq(&wanted.parameter)
            })
        })?;
        Some(&target.name)
    }

    /// Returns the rates of one operation and these sizes, or `None` if the target has none.
    fn part(
        &self,
        target: &str,
        operation: &str,
        contains: &dyn Fn(Option<u64>, Option<u64>) -> bool,
    ) -> Option<Set> {
        let set = self.sets.get(target)?;
        // Records have another spelling of the names of workloads.
        let operation = operation.replace('-', "_");
        let mut runs = Vec::new();
        for run in &set.runs {
            let mut part = Run {
                tool: run.tool.clone(),
                block: run.block,
                slice: run.slice,
                ..Run::default()
            };
            for series in &run.series {
                let mut points = series.points.clone();
                points.retain(|point| contains(point.file_size, point.record_size));
                if series.operation == operation
                    && series.metric == THROUGHPUT.name
                    && !points.is_empty()
                {
                    part.series.push(Series {
                        points,
                        gaps: Vec::new(),
                        ..empty(series)
                    });
                }
            }
            if !part.series.is_empty() {
                runs.push(part);
            }
        }
        let (name, pairing) = (set.name.clone(), set.pairing.clone());
        (!runs.is_empty()).then(|| Set {
            name,
            pairing,
            analyses: set.analyses.clone(),
            runs,
        })
    }

    /// Returns the claims of Beňas about pairs of targets of the run.
    fn differences(&self, regime: Regime) -> Vec<Directed> {
        let mut rows = Vec::new();
        for claim in benas::published() {
            if let [Some(first), Some(second)] = claim
                .pair
                .each_ref()
                .map(|file_system| self.target(file_system))
                && claim.regime == regime
            {
                let pair = claim.pair.each_ref().map(FileSystem::label);
                let shown = PublishedClaim {
                    group: pair.join(" and "),
                    test: claim.test(),
                    published: claim.printed(),
                    here: self.difference([first, second], &claim),
                };
                rows.push(Directed {
                    sign: Some(if claim.faster == 1 { 1.0 } else { -1.0 }),
                    operation: claim.operation,
                    pair,
                    shown,
                });
            }
        }
        rows
    }

    fn difference(&self, pair: [&str; 2], claim: &Claim) -> Option<ClaimValues> {
        let [first, second] = pair.map(|target| {
            self.part(target, &claim.operation, &|file, record| {
                claim.files.contain(file) && claim.records.contain(record)
            })
        });
        self.compared([first?, second?])
    }

    /// Returns the medians, the slope and the t-test of the second set against the first.
    fn compared(&self, sets: [Set; 2]) -> Option<ClaimValues> {
        let document = compare(&sets, &CompareRequest::new(0, self.theta)).ok()?;
        let against = document
            .operations
            .first()?
            .classic
            .against
            .get(&sets[1].name)?
            .as_ref()?;
        Some(ClaimValues {
            median_change: Some(against.median_change),
            slope_change: against.slope.map(|slope| slope - 1.0),
            different: against.t_verdict.map(|verdict| verdict == TVerdict::Diff),
            ..ClaimValues::default()
        })
    }

    /// Returns the claims of Horváth's first comparison, or none for a run with fewer than two of
    /// his file systems: only their order can be compared.
    fn rates(&self) -> Vec<Directed> {
        let names: BTreeSet<&str> = horvath::FIRST
            .iter()
            .map(|claim| claim.file_system)
            .collect();
        if names
            .iter()
            .filter(|name| self.target(&FileSystem::plain(name)).is_some())
            .count()
            < 2
        {
            return Vec::new();
        }
        horvath::FIRST
            .iter()
            .filter_map(|claim| self.first(claim))
            .collect()
    }

    /// Returns a claim of Horváth's first comparison if the run has its file systems.
    fn first(&self, claim: &FirstClaim) -> Option<Directed> {
        let target = self.target(&FileSystem::plain(claim.file_system))?;
        let mut directed = (None, [String::new(), String::new()]);
        let (group, test, published, here) = match claim.value {
            FirstValue::Rate(megabytes) => {
                let test = format!("{}, {}", claim.operation, claim.file_system);
                let here = self.mean(target, claim.operation);
                let [published, here] = [Some(megabytes * MEBIBYTE), here].map(|rate| {
                    rate.map(|rate| ClaimValues {
                        rate: Some(rate),
                        ..ClaimValues::default()
                    })
                });
                ("Rates", test, published, here)
            }
            FirstValue::FasterThan(other, percent) => {
                let than = self.target(&FileSystem::plain(other))?;
                let means = self
                    .mean(than, claim.operation)
                    .zip(self.mean(target, claim.operation));
                let test = format!("{}, {} against {other}", claim.operation, claim.file_system);
                directed = (Some(1.0), [other, claim.file_system].map(str::to_owned));
                let published = Some(ClaimValues {
                    mean_change: Some(percent / 100.0),
                    ..ClaimValues::default()
                });
                let here = means.map(|(than_mean, mean)| ClaimValues {
                    mean_change: Some(mean / than_mean - 1.0),
                    different: self.are_different([than, target], claim.operation),
                    ..ClaimValues::default()
                });
                ("Differences", test, published, here)
            }
        };
        Some(Directed {
            operation: claim.operation.to_owned(),
            sign: directed.0,
            pair: directed.1,
            shown: PublishedClaim {
                group: group.to_owned(),
                test,
                published: published.unwrap_or_default().to_string(),
                here,
            },
        })
    }

    /// Returns the differences between the rates of the first comparison. Equal rates are no
    /// difference.
    fn pairs_of_rates(&self) -> Vec<Directed> {
        let mut pairs = Vec::new();
        for (place, one) in horvath::FIRST.iter().enumerate() {
            for other in &horvath::FIRST[place + 1..] {
                let (FirstValue::Rate(first), FirstValue::Rate(second)) = (one.value, other.value)
                else {
                    continue;
                };
                if one.operation == other.operation && first != second {
                    pairs.extend(self.pair_of_rates(one, other, second > first));
                }
            }
        }
        pairs
    }

    fn pair_of_rates(
        &self,
        one: &FirstClaim,
        other: &FirstClaim,
        is_second_faster: bool,
    ) -> Option<Directed> {
        let names = [one.file_system, other.file_system];
        let [first, second] = names.map(|name| self.target(&FileSystem::plain(name)));
        let targets = [first?, second?];
        let [first, second] = targets.map(|target| self.mean(target, one.operation));
        let here = ClaimValues {
            mean_change: Some(second? / first? - 1.0),
            different: self.are_different(targets, one.operation),
            ..ClaimValues::default()
        };
        Some(Directed {
            operation: one.operation.to_owned(),
            sign: Some(if is_second_faster { 1.0 } else { -1.0 }),
            pair: names.map(str::to_owned),
            shown: PublishedClaim {
                group: String::new(),
                test: format!("{}, {} and {}", one.operation, names[0], names[1]),
                published: String::new(),
                here: Some(here),
            },
        })
    }

    /// Returns whether the t-test calls two targets different at an operation of the first
    /// comparison. Returns `None` if there are too few values.
    fn are_different(&self, targets: [&str; 2], operation: &str) -> Option<bool> {
        let [first, second] = targets.map(|target| self.of_first(target, operation));
        self.compared([first?, second?])?.different
    }

    /// Returns the values of an operation in the record size of the first comparison.
    fn of_first(&self, target: &str, operation: &str) -> Option<Set> {
        self.part(target, operation, &|file, record| {
            record == Some(horvath::FIRST_RECORD)
                && file.is_some_and(|file| FIRST_FILES.contains(&file))
        })
    }

    /// Returns the mean of the cells of an operation in the record size of the first comparison.
    fn mean(&self, target: &str, operation: &str) -> Option<f64> {
        let set = self.of_first(target, operation)?;
        let mut cells: BTreeMap<Option<u64>, Vec<f64>> = BTreeMap::new();
        for point in set
            .runs
            .iter()
            .flat_map(|run| &run.series)
            .flat_map(|series| &series.points)
        {
            cells.entry(point.file_size).or_default().push(point.value);
        }
        let means = cells
            .values()
            .map(|values| values.iter().sum::<f64>() / values.len() as f64);
        Some(means.sum::<f64>() / cells.len() as f64)
    }
}

/// Returns the series without its values.
fn empty(series: &Series) -> Series {
    Series {
        workload: series.workload.clone(),
        operation: series.operation.clone(),
        metric: series.metric.clone(),
        unit: series.unit,
        better: series.better,
        found_unit: series.found_unit.clone(),
        points: Vec::new(),
        gaps: Vec::new(),
    }
}

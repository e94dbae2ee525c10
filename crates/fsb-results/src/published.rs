//! Chooses the published results to show beside a run, by the workloads of the run, not by the name
//! of its plan.

use std::collections::{BTreeMap, BTreeSet};

use fsb_compat::benas::{self, Claim, FileSystem, Regime};
use fsb_compat::horvath::{self, FirstClaim, FirstValue};
use fsb_compat::pokorny::{self, RateTable};
use fsb_compat::{fedorchuk, postmark};
use fsb_model::metric::{self, THROUGHPUT};
use fsb_model::set::{Run, Series, Set};
use fsb_model::units::show_bytes;
use fsb_model::{CacheState, Cell, RunRecord, Target, Unit};
use fsb_report::mark;
use fsb_report::summary::{
    ClaimValues, PublishedClaim, PublishedClaims, PublishedLayout, PublishedRate, PublishedSum,
    PublishedTable, PublishedValue,
};
use fsb_runner::suite;
use fsb_stats::compare::{CompareRequest, TVerdict, compare};
use fsb_store::journal::CompactTrial;
use fsb_testbed::control::memory_limit::{MEMORY_LIMIT, limit_of};

use crate::matrices::of_matrices;

/// Returns the published table whose workloads are those of the run, if there is one.
pub fn beside(record: &RunRecord) -> Option<PublishedTable> {
    let tables = [
        ("micro-", micro()),
        ("postmark", dordevic()),
        ("postmark", benas()),
        ("filetree", trees()),
    ];
    for (workload, table) in tables {
        let fits = record.cells.iter().all(|cell| {
            cell.workload.name.starts_with(workload)
                && table.rows.iter().any(|row| row.workload == cell.label)
        });
        if fits && !record.cells.is_empty() {
            return Some(table);
        }
    }
    horvath(record)
}

/// Returns IOzone's operations of 2006. Their labels hold the file size, which depends on memory,
/// so the suite is known by its workloads, its record size, and the states of cache and device that
/// it asks for. The plan also asks for reads that are repeated out of cache.
fn horvath(record: &RunRecord) -> Option<PublishedTable> {
    let cells = &record.cells;
    let known = suite::find("horvath-2006").ok()?.workloads;
    let cell = |workload: &str| {
        let asked = known.iter().find(|known| known.name == workload)?;
        cells.iter().find(|cell| {
            cell.workload.name == workload
                && cell.label.contains(" 128K, ")
                && ["cache", "durability"].iter().all(|key| {
                    let asked = asked.params.get(*key);
                    let asked = asked.filter(|asked| **asked != CacheState::Any.name());
                    asked.is_none_or(|asked| cell.workload.params.get(*key) == Some(asked))
                })
        })
    };
    if cells.len() != known.len() || known.iter().any(|workload| cell(&workload.name).is_none()) {
        return None;
    }
    let from_memory = cell("reread").is_some_and(|cell| is_held(cell, memory(record)));
    let mut rows = Vec::new();
    for rate in horvath::published() {
        let row = match from_memory && rate.workload == "reread" {
            true => format!("{}, from memory", rate.operation),
            false => rate.operation,
        };
        let Some(cell) = cell(rate.workload) else {
            continue;
        };
        rows.push(PublishedValue {
            row,
            workload: cell.label.clone(),
            metric: None,
            unit: Unit::BytesPerSecond,
            target: rate.file_system,
            value: rate.value,
            rate: None,
        });
    }
    let (title, note) = horvath::TITLE;
    let reread = match from_memory {
        true => format!(
            "The {} of memory hold the file here, so reread measures memory, and his measured the disk: do not compare \
             that row.",
            show_bytes(memory(record) as f64)
        ),
        false => {
            "Memory does not hold the file, so reread reads the device, as his did.".to_owned()
        }
    };
    Some(PublishedTable {
        title: title.to_owned(),
        note: format!("{note} {reread}"),
        first: true,
        layout: PublishedLayout::Tests,
        rows,
        sums: Vec::new(),
    })
}

/// Returns the bytes of memory that the run could use: the limit, that of the virtual machine, or
/// that of the machine.
fn memory(record: &RunRecord) -> u64 {
    let whole = record
        .vm
        .as_ref()
        .map_or(record.host.memory_bytes, |vm| vm.memory_bytes);
    let limit = record
        .plan
        .controls
        .get(MEMORY_LIMIT)
        .and_then(|value| limit_of(value));
    limit.map_or(whole, |limit| limit.min(whole))
}

/// Returns whether memory holds the file of a cell. A trial out of cache is checked, so it is not
/// valid then.
fn is_held(cell: &Cell, memory: u64) -> bool {
    let params = &cell.workload.params;
    let is_out = params
        .get("cache")
        .is_some_and(|cache| *cache == CacheState::Out.name());
    let file = params.get("file_size").and_then(serde_json::Value::as_u64);
    !is_out && file.is_some_and(|file| file < memory)
}

/// Returns the results of the 2023 suite.
fn micro() -> PublishedTable {
    /// The bytes that an iteration reads or writes.
    const MOVED: f64 = (8 << 20) as f64;
    let values = pokorny::appendix_c().into_iter().map(|mean| {
        let (group, unit, amount) = match mean.test.table {
            RateTable::Created => ("Table 6.1", Unit::OperationsPerSecond, 1000.0),
            RateTable::Read => ("Table 6.2", Unit::BytesPerSecond, MOVED),
            RateTable::Written => ("Table 6.3", Unit::BytesPerSecond, MOVED),
        };
        PublishedValue {
            row: mean.test.label.to_owned(),
            workload: mean.test.label.to_owned(),
            metric: None,
            unit,
            target: mean.file_system.to_owned(),
            value: amount / mean.seconds,
            rate: Some(PublishedRate {
                group: group.to_owned(),
                amount,
                printed: mean.printed,
            }),
        }
    });
    PublishedTable {
        title: pokorny::TITLE.to_owned(),
        note: pokorny::NOTE.to_owned(),
        first: true,
        layout: PublishedLayout::Rates,
        rows: values.collect(),
        sums: Vec::new(),
    }
}

fn dordevic() -> PublishedTable {
    of_postmark(postmark::DORDEVIC, postmark::dordevic())
}

fn benas() -> PublishedTable {
    of_postmark(postmark::BENAS, postmark::benas())
}

fn of_postmark((title, note): (&str, &str), rates: Vec<postmark::PublishedRate>) -> PublishedTable {
    let mut rows = Vec::new();
    for rate in rates {
        let Some(kind) = metric::find(rate.metric) else {
            continue;
        };
        rows.push(PublishedValue {
            row: format!("{}{}", rate.test, rate.operation),
            workload: rate.workload.to_owned(),
            metric: Some(kind.name.to_owned()),
            unit: kind.unit,
            target: rate.file_system,
            value: rate.value,
            rate: None,
        });
    }
    PublishedTable {
        title: title.to_owned(),
        note: note.to_owned(),
        first: true,
        layout: PublishedLayout::Tests,
        rows,
        sums: Vec::new(),
    }
}

/// Returns the results of 2008 for copying and deleting, whose rows are configurations.
fn trees() -> PublishedTable {
    let values = fedorchuk::published()
        .into_iter()
        .map(|time| PublishedValue {
            row: time.workload.clone(),
            workload: time.workload,
            metric: None,
            unit: Unit::Seconds,
            target: time.configuration,
            value: time.seconds,
            rate: None,
        });
    let (title, note) = fedorchuk::TITLE;
    PublishedTable {
        title: title.to_owned(),
        note: note.to_owned(),
        first: true,
        layout: PublishedLayout::Configurations,
        rows: values.collect(),
        sums: vec![PublishedSum {
            row: fedorchuk::SUM.to_owned(),
            after: fedorchuk::ALL.to_owned(),
            parts: fedorchuk::PARTS.map(str::to_owned).into(),
        }],
    }
}

// Published statements about IOzone's operations beside those of a run, chosen by the operations of
// the run and the state of the cache that it asks for.

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
/// are none.
pub fn claims_beside(record: &RunRecord, trials: &[CompactTrial]) -> Option<PublishedClaims> {
    let state = state(&record.cells)?;
    let measured = Measured::from_run(record, trials);
    let (rows, (title, note), first): (Vec<PublishedClaim>, _, _) = match state {
        State::InMemory => (measured.rates(), horvath::FIRST_TITLE, true),
        State::Remounted => (measured.differences(Regime::InCache), benas::TITLE, false),
        State::Direct => (measured.differences(Regime::Direct), benas::TITLE, false),
    };
    let (title, note) = (title.to_owned(), note.to_owned());
    (!rows.is_empty()).then_some(PublishedClaims {
        title,
        note,
        first,
        rows,
    })
}

/// Returns the state of a run whose cells are all matrices of IOzone's operations in one state.
fn state(cells: &[Cell]) -> Option<State> {
    let first = state_of_cell(cells.first()?)?;
    cells
        .iter()
        .all(|cell| state_of_cell(cell) == Some(first))
        .then_some(first)
}

fn state_of_cell(cell: &Cell) -> Option<State> {
    let params = &cell.workload.params;
    let [backend, cache, durability] = ["backend", "cache", "durability"].map(|key| {
        params
            .get(key)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
    });
    let is_matrix = params.get("matrix").and_then(serde_json::Value::as_bool) == Some(true);
    if !is_matrix
        || !fsb_compat::iozone::COLUMNS.contains(&&*cell.workload.name)
        || !["", "none"].contains(&durability)
    {
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
    fn differences(&self, regime: Regime) -> Vec<PublishedClaim> {
        let mut rows = Vec::new();
        for claim in benas::published() {
            if let [Some(first), Some(second)] = claim
                .pair
                .each_ref()
                .map(|file_system| self.target(file_system))
                && claim.regime == regime
            {
                rows.push(PublishedClaim {
                    group: format!("{} and {}", claim.pair[0].label(), claim.pair[1].label()),
                    test: claim.test(),
                    published: claim.printed(),
                    here: self.difference([first, second], &claim),
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
        let sets = [first?, second?];
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
    fn rates(&self) -> Vec<PublishedClaim> {
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
    fn first(&self, claim: &FirstClaim) -> Option<PublishedClaim> {
        let target = self.target(&FileSystem::plain(claim.file_system))?;
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
                let here = means.map(|(than, mean)| mean / than - 1.0);
                let [published, here] = [Some(percent / 100.0), here].map(|change| {
                    let mean_change = Some(change?);
                    Some(ClaimValues {
                        mean_change,
                        ..ClaimValues::default()
                    })
                });
                ("Differences", test, published, here)
            }
        };
        Some(PublishedClaim {
            group: group.to_owned(),
            test,
            published: published.unwrap_or_default().to_string(),
            here,
        })
    }

    /// Returns the mean of the cells of an operation in the record size of the first comparison.
    fn mean(&self, target: &str, operation: &str) -> Option<f64> {
        let set = self.part(target, operation, &|file, record| {
            record == Some(horvath::FIRST_RECORD)
                && file.is_some_and(|file| FIRST_FILES.contains(&file))
        })?;
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

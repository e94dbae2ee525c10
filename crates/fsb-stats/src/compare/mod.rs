//! Sets against each other: the classic statistics, the estimates that judge, the grid and its
//! findings.
//!
//! [`compare`] makes a [`Document`] of any number of sets. Values are sorted into one table an
//! operation (`table`), over the cells that all sets with this operation have. Each region of a
//! table (all of it, one file size, one record size, a rectangle) is described by the statistics of
//! 2011 (`classic`). It is judged on one number a run (`region`), and its cells get colours.
//! Findings are rectangles that survive the search of them all (`search`, `findings`).

pub use collected::{Collected, is_named_by_command};
pub use document::*;
pub use region::{CompareRequest, OURS};

mod absent;
mod classic;
mod collected;
mod document;
mod findings;
mod region;
mod search;

use std::collections::{BTreeMap, BTreeSet};

use classic::classic;
use collected::{Column, FEW_TICKS, Key, NAMED, Size, Table, primary, tables, work};
use fsb_model::metric;
use fsb_model::set::{GapReason, Point, Set};
use fsb_model::units;
use rayon::prelude::*;
use region::{
    CellComparisons, Complete, ENOUGH, FALSE_DISCOVERIES, Frame, against, compare_cells, counted,
    detailed,
};

use crate::comparison::RunMeans;
use crate::description::chi_squared_quantile;
use crate::page::{confirm, hold_over_page};
use crate::prior::effective_cases;
use crate::sample::{AnalysisError, Sample};
use crate::terms::{Between, BetweenSource};
use crate::{FEWEST_JUDGED, FEWEST_RUNS_JUDGED, in_parallel};

/// The tool whose operations are pooled as [`ALL`].
const POOLED: &str = "iozone";
/// The operations, which matrices of FSBench have, too.
const POOLED_OPERATIONS: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random_read",
    "random_write",
    "backward_read",
    "record_rewrite",
    "stride_read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
];

/// Compares sets. Values must be finite and above zero, and `request.baseline` must be an index
/// into `sets`.
///
/// Operations are compared if at least two sets have cells in common. With a single set, all
/// operations are described.
pub fn compare(sets: &[Set], request: &CompareRequest) -> Result<Document, AnalysisError> {
    let sets = sets
        .iter()
        .map(Collected::from_set)
        .collect::<Result<Vec<_>, _>>()?;
    compare_collected(sets, request, Single::Every)
}

/// Like [`compare`], for sets that were read run by run. The document lists single values
/// ([`Cell::values`]) only for the operations that `single` asks for.
pub fn compare_collected(
    mut sets: Vec<Collected>,
    request: &CompareRequest,
    single: Single<'_>,
) -> Result<Document, AnalysisError> {
    let baseline = sets
        .get(request.baseline)
        .ok_or(AnalysisError::Empty)?
        .name
        .clone();
    let commands = different_commands(&sets);
    sets.iter_mut().for_each(absent::mark);
    let every = tables(&mut sets, request.baseline);
    let sets = &*sets;
    let coverage = coverage(sets, &every);
    let mut warnings = warnings(sets, &every, request);
    warnings.extend(commands);
    let fewest = sets.len().min(2);
    let missing = collected::missing(&every, request.baseline);
    let shared = collected::shared(every, fewest, is_one_tool(sets));
    let urgent = urgent(sets, &shared, &mut warnings);
    let frame = Frame::new(sets, request, &shared)?;
    let Analysed {
        operations,
        findings,
        starved,
    } = analyse(&frame, shared, request, single)?;
    warnings.extend(starved);
    warnings.extend(unit_hints(&operations, sets));
    Ok(Document {
        schema: SCHEMA,
        baseline,
        unjudged: None,
        settings: Settings {
            theta: request.theta,
            q: FALSE_DISCOVERIES,
            between_runs: request.between_runs,
            between_sessions: request.between_sessions,
        },
        sets: sets.iter().map(summary).collect(),
        coverage,
        operations,
        findings,
        urgent: urgent.len(),
        warnings: [urgent, warnings].concat(),
        missing: frame
            .names
            .iter()
            .map(|name| (*name).to_owned())
            .zip(missing)
            .collect(),
        conditions: Vec::new(),
        by_target: TargetByTarget::default(),
        withheld: false,
    })
}

/// The operations of a comparison, judged together, with their findings.
struct Analysed {
    operations: Vec<Operation>,
    findings: Vec<Finding>,
    /// The warning about sets for which no finding is possible.
    starved: Option<String>,
}

fn analyse(
    frame: &Frame,
    shared: Vec<Table>,
    request: &CompareRequest,
    single: Single<'_>,
) -> Result<Analysed, AnalysisError> {
    let described = in_parallel(|| {
        shared
            .par_iter()
            .map(|table| describe(frame, table, single))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let (mut operations, seen): (Vec<Operation>, Vec<AllCellComparisons>) =
        described.into_iter().unzip();
    for operation in &mut operations {
        bar(frame, operation);
    }
    hold(&mut operations, &frame.names, frame.baseline);
    let rankings: Vec<&crate::Ranking> = operations
        .iter()
        .map(|operation| &operation.ranking)
        .collect();
    let candidates: Vec<usize> = frame.candidates().collect();
    let (findings, starved) =
        findings::findings(frame, &shared, &rankings, &candidates, candidates.len());
    if request.pooled
        && let Some((pool, comparisons)) = pool(frame, shared, &seen)
    {
        let mut pooled = operation(frame, &pool, &comparisons)?;
        bar(frame, &mut pooled);
        operations.push(pooled);
        hold(&mut operations, &frame.names, frame.baseline);
    }
    for operation in &mut operations {
        operation.ranking.forget_values();
    }
    Ok(Analysed {
        operations,
        findings,
        starved,
    })
}

/// Returns the failures, and the gaps that withhold verdicts. Other gaps go to the warnings.
fn urgent(sets: &[Collected], shared: &[Table], warnings: &mut Vec<String>) -> Vec<String> {
    let mut urgent = failures(sets);
    for (place, set) in sets.iter().enumerate() {
        let is_lost = shared.iter().any(|table| {
            table.primary
                && table.lost[place]
                    .is_some_and(|why| !matches!(why, GapReason::TooFast | GapReason::BelowClock))
        });
        if set.dead_runs > 0 || is_lost {
            &mut urgent
        } else {
            &mut *warnings
        }
        .extend(gaps(set));
    }
    urgent
}

/// Returns the findings between any two sets, the widest first, and the warnings. It searches the
/// same rectangles as [`compare`] with each set as the baseline in turn, every pair once. The error
/// probability of all pairs together is that of one comparison.
pub fn all_pairs(sets: &[Set], theta: f64) -> Result<(Vec<Finding>, Vec<String>), AnalysisError> {
    let pairs = sets.len() * sets.len().saturating_sub(1) / 2;
    let (mut all, mut warnings) = (Vec::new(), Vec::new());
    for baseline in 0..sets.len().saturating_sub(1) {
        let mut sets = sets
            .iter()
            .map(Collected::from_set)
            .collect::<Result<Vec<_>, _>>()?;
        sets.iter_mut().for_each(absent::mark);

        let tables = tables(&mut sets, baseline);
        let shared = collected::shared(tables, 2, is_one_tool(&sets));
        let candidates: Vec<usize> = (baseline + 1..sets.len()).collect();
        let frame = Frame::new(&sets, &CompareRequest::new(baseline, theta), &shared)?;
        let rankings = shared
            .iter()
            .map(|table| frame.rank(table, &(0..table.cells.len()).collect::<Vec<_>>()))
            .collect::<Result<Vec<_>, _>>()?;

        let (found, starved) = findings::findings(
            &frame,
            &shared,
            &rankings.iter().collect::<Vec<_>>(),
            &candidates,
            pairs,
        );
        all.extend(found);
        warnings.extend(starved);
    }
    all.sort_by_key(|finding| std::cmp::Reverse(finding.cells));
    Ok((all, warnings))
}

/// Every candidate's cells.
type AllCellComparisons = Vec<(usize, CellComparisons)>;

/// Describes a table with its cells.
fn describe(
    frame: &Frame,
    table: &Table,
    single: Single<'_>,
) -> Result<(Operation, AllCellComparisons), AnalysisError> {
    let comparisons = compare_all_cells(frame, table)?;
    let mut operation = Operation {
        cells: detailed(frame, table, &comparisons, single.asks_for(table)),
        latencies: quantiles(frame, &table.key),
        timelines: timelines(frame, &table.key),
        ..operation(frame, table, &comparisons)?
    };
    // Only judged operations are judged again, with those of the other tables.
    if !operation.primary {
        operation.ranking.forget_values();
    }
    Ok((operation, comparisons))
}

fn compare_all_cells(frame: &Frame, table: &Table) -> Result<AllCellComparisons, AnalysisError> {
    frame
        .candidates()
        .map(|candidate| Ok((candidate, compare_cells(frame, table, candidate)?)))
        .collect()
}

/// Pools all operations of IOzone's sets in one table, with the existing colours of their cells.
/// The same operations of FSBench's sets are pooled if each has a grid of sizes: those of a file
/// size alone were chosen for another reason.
fn pool(
    frame: &Frame,
    tables: Vec<Table>,
    comparisons: &[AllCellComparisons],
) -> Option<(Table, AllCellComparisons)> {
    let mut tools = frame.sets.iter().flat_map(|set| &set.tools.texts);
    let foreign = tools
        .clone()
        .any(|tool| ![POOLED, OURS].contains(&tool.as_str()));
    let own = tools.any(|tool| tool == OURS);
    let mut parts = Vec::new();
    for (place, table) in tables.iter().enumerate() {
        let is_part = match own {
            false => table.key.workload.is_none(),
            true => {
                let is_known = POOLED_OPERATIONS.contains(&table.key.operation.as_str());
                is_known && table.primary && table.is_grid() && table.cells.len() > 1
            }
        };
        if is_part && table.present() == frame.sets.len() {
            parts.push(place);
        }
    }
    if foreign
        || parts.len() < 1 + usize::from(own)
        || !parts.iter().all(|place| {
            let (key, first) = (&tables[*place].key, &tables[parts[0]].key);
            (&key.metric, key.unit) == (&first.metric, first.unit)
        })
    {
        return None;
    }

    let comparisons = frame
        .candidates()
        .enumerate()
        .map(|(at, candidate)| {
            let cells = parts.iter().flat_map(|place| &comparisons[*place][at].1);
            (candidate, cells.copied().collect())
        })
        .collect();
    let parts = tables
        .into_iter()
        .enumerate()
        .filter(|(place, _)| parts.contains(place))
        .map(|(_, table)| table);
    Some((Table::pool(parts.collect(), ALL)?, comparisons))
}

/// Summarises a table, without its single cells.
fn operation(
    frame: &Frame,
    table: &Table,
    comparisons: &AllCellComparisons,
) -> Result<Operation, AnalysisError> {
    let every: Vec<usize> = (0..table.cells.len()).collect();
    let samples = frame.samples(table, &every);
    let values = samples.iter().map(value).collect::<Result<_, _>>()?;
    let ranking = frame.rank_samples(table, &every, samples)?;
    let is_grid = table.is_grid();

    let mut operation = Operation {
        workload: table.key.workload.clone(),
        operation: table.key.operation.clone(),
        metric: table.key.metric.clone(),
        unit: table.key.unit,
        better: table.better,
        classic: classic(table, &every, &frame.names, frame.baseline),
        estimate: frame.estimates(values, &ranking),
        grid: is_grid.then(|| grid(frame, &ranking, comparisons, &every)),
        by_file_size: slices(frame, table, comparisons, |size| size.file)?,
        by_record_size: slices(frame, table, comparisons, |size| size.record)?,
        cells: Vec::new(),
        letters: frame.by_set(|set| ranking.letters[set].clone()),
        latencies: BySet::new(),
        timelines: BySet::new(),
        samples: samples_by_set(frame, table),
        gaps: frame
            .names
            .iter()
            .zip(&table.lost)
            .filter_map(|(name, why)| Some(((*name).to_owned(), (*why)?)))
            .collect(),
        ranking,
        // The pool of all is judged, too.
        primary: table.primary || table.key.operation == ALL,
    };
    document::withhold_tests(&mut operation, |name| {
        let set = frame.names.iter().position(|known| *known == name);
        table
            .unjudged(frame.baseline)
            .or(table.unjudged(set.unwrap_or_default()))
            .is_some()
    });
    Ok(operation)
}

/// Returns the geometric mean of a set's runs, each with the same weight; `None` without a value.
fn value(sample: &Sample) -> Result<Option<f64>, AnalysisError> {
    if sample.values.is_empty() {
        return Ok(None);
    }
    let mean = RunMeans::of_sample(sample)?.moments().0;
    Ok(Some(crate::verdict::exp(mean)))
}

fn bar(frame: &Frame, operation: &mut Operation) {
    let (mut risky, mut unproven) = (Vec::new(), Vec::new());
    for (place, set) in frame.sets.iter().enumerate() {
        let workload = operation.workload.as_ref();
        if set.barred {
            risky.push(place);
        }
        if workload.is_some_and(|workload| set.unproven.contains(workload)) {
            unproven.push(place);
        }
    }
    operation.ranking.bar(&risky, &unproven);
}

fn slices(
    frame: &Frame,
    table: &Table,
    comparisons: &AllCellComparisons,
    bytes: fn(&Size) -> Option<u64>,
) -> Result<Vec<Slice>, AnalysisError> {
    let mut sizes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (column, size) in table.cells.iter().enumerate() {
        if let Some(bytes) = bytes(size)
            && table.is_grid()
        {
            sizes.entry(bytes).or_default().push(column);
        }
    }
    sizes
        .into_iter()
        .map(|(bytes, columns)| slice(frame, table, comparisons, bytes, &columns))
        .collect()
}

fn slice(
    frame: &Frame,
    table: &Table,
    comparisons: &AllCellComparisons,
    bytes: u64,
    columns: &[usize],
) -> Result<Slice, AnalysisError> {
    let ranking = frame.rank(table, columns)?;
    Ok(Slice {
        bytes,
        classic: classic(table, columns, &frame.names, frame.baseline),
        grid: grid(frame, &ranking, comparisons, columns),
    })
}

fn grid(
    frame: &Frame,
    ranking: &crate::Ranking,
    comparisons: &AllCellComparisons,
    columns: &[usize],
) -> Grid {
    let against = comparisons.iter().map(|(candidate, comparisons)| {
        (
            frame.names[*candidate].to_owned(),
            counted(frame, ranking, *candidate, comparisons, columns),
        )
    });
    Grid {
        against: against.collect(),
    }
}

fn coverage(sets: &[Collected], tables: &[Table]) -> Coverage {
    let common = tables
        .iter()
        .filter(|table| table.present() == sets.len())
        .map(|table| table.cells.len())
        .sum();
    Coverage {
        common,
        only: sets
            .iter()
            .enumerate()
            .map(|(place, set)| {
                (
                    set.name.clone(),
                    tables.iter().map(|table| table.coverage[place].1).sum(),
                )
            })
            .collect(),
    }
}

fn summary(set: &Collected) -> SetSummary {
    SetSummary {
        name: set.name.clone(),
        tool: set.tools.texts.join(", "),
        version: (!set.versions.texts.is_empty()).then(|| set.versions.texts.join(", ")),
        files: set.files.texts.clone(),
        runs: set.run_count(),
        blocks: set.block_count(),
        commands: set.commands.texts.clone(),
        pairing: set.pairing.clone(),
    }
}

impl Document {
    /// Holds the verdicts of several comparisons to one page: a gate over all of them fails for at
    /// most one page of equals in twenty.
    pub fn hold_together(documents: &mut [Document]) {
        let operations = documents
            .iter_mut()
            .flat_map(|document| &mut document.operations);
        // Each document was moderated by itself: a run may be in several.
        confirm(
            operations
                .filter(|operation| operation.primary)
                .map(|operation| &mut operation.ranking)
                .collect(),
        );
        for document in documents {
            let names: Vec<&str> = document.sets.iter().map(|set| set.name.as_str()).collect();
            let baseline = names
                .iter()
                .position(|name| *name == document.baseline)
                .unwrap_or_default();
            document
                .operations
                .iter_mut()
                .for_each(|operation| conclude(operation, &names, baseline));
            // A finding on an operation with one cell repeats the result of the operation.
            let operations = &document.operations;
            document.findings.retain(|found| {
                operations
                    .iter()
                    .find(|operation| {
                        operation.cells.len() == 1
                            && (&operation.workload, &operation.operation, &operation.metric)
                                == (&found.workload, &found.operation, &found.metric)
                    })
                    .and_then(|operation| operation.estimate.against.get(&found.candidate)?.clone())
                    .is_none_or(|level| level.verdict.differs())
            });
        }
    }
}

/// Adjusts the judged operations to each other. Letters, estimates and grids follow their rankings.
///
/// The operations of a comparison are one page: verdicts must hold for all of them together.
fn hold(operations: &mut [Operation], names: &[&str], baseline: usize) {
    let judged = operations.iter_mut().filter(|operation| operation.primary);
    hold_over_page(judged.map(|operation| &mut operation.ranking));
    operations
        .iter_mut()
        .for_each(|operation| conclude(operation, names, baseline));
}

fn conclude(operation: &mut Operation, names: &[&str], baseline: usize) {
    let Operation {
        ranking,
        estimate,
        letters,
        grid,
        ..
    } = operation;
    estimate.against = against(names, baseline, ranking);
    *letters = names
        .iter()
        .map(|name| (*name).to_owned())
        .zip(ranking.letters.iter().cloned())
        .collect();
    for (name, against) in grid.iter_mut().flat_map(|grid| &mut grid.against) {
        if let Some((against, level)) = against
            .as_mut()
            .zip(estimate.against.get(name).and_then(Option::as_ref))
        {
            against.verdict = level.verdict;
        }
    }
}

/// The quantiles that are shown.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];
/// A quantile is shown where at least this number of values lies beyond it.
const FEWEST_BEYOND: f64 = 100.0;

/// Returns the values within the runs, by set; sets without them are left out.
fn samples_by_set(frame: &Frame, table: &Table) -> BySet<Vec<f64>> {
    let mut by_set = BySet::new();
    for (name, samples) in frame.names.iter().zip(&table.samples) {
        if !samples.is_empty() {
            by_set.insert((*name).to_owned(), samples.clone());
        }
    }
    by_set
}

/// Returns the values over time of each run, by set.
fn timelines(frame: &Frame, key: &Key) -> BySet<Vec<Vec<(f64, f64)>>> {
    frame.by_set(|set| {
        // A workload's name may have been dropped to compare different tools.
        frame.sets[set]
            .timelines
            .iter()
            .filter(|timeline| key.workload.is_none() || timeline.workload == key.workload)
            .filter(|timeline| {
                (&timeline.operation, &timeline.metric) == (&key.operation, &key.metric)
            })
            .map(|timeline| timeline.points.clone())
            .collect()
    })
}

/// By set, of all its runs together; empty where a set has no histogram of the operation.
///
/// Histograms of a set are merged, never averaged.
fn quantiles(frame: &Frame, key: &Key) -> BySet<Vec<LatencyQuantile>> {
    frame.by_set(|set| {
        let mut merged: BTreeMap<u64, u64> = BTreeMap::new();
        // A workload's name may have been dropped to compare different tools.
        for ((workload, operation), bins) in &frame.sets[set].latencies {
            if *operation != key.operation || (key.workload.is_some() && *workload != key.workload)
            {
                continue;
            }
            for (nanoseconds, count) in bins {
                let sum = merged.entry(*nanoseconds).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        of_bins(&merged)
    })
}

fn of_bins(bins: &BTreeMap<u64, u64>) -> Vec<LatencyQuantile> {
    let total = bins
        .values()
        .fold(0u64, |sum, count| sum.saturating_add(*count));
    let mut quantiles = Vec::new();
    for q in QUANTILES {
        let rank = (q * total as f64).ceil() as u64;
        let mut seen = 0u64;
        let bin = bins.iter().find(|(_, count)| {
            seen = seen.saturating_add(**count);
            seen >= rank
        });
        if let Some((nanoseconds, _)) = bin
            && (1.0 - q) * total as f64 >= FEWEST_BEYOND - 1e-6
        {
            quantiles.push(LatencyQuantile {
                q,
                seconds: *nanoseconds as f64 * 1e-9,
            });
        }
    }
    quantiles
}

/// The variation between runs of one plan, between which nothing changed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Variation {
    /// Of one value of one target.
    pub values: Option<Between>,
    /// Of the ratio of a target to the first one.
    pub ratios: Option<Between>,
    /// Whether each of the runs was made in a session of its own: their variation is that of
    /// sessions, too.
    pub of_sessions: bool,
}

/// Estimates the variation between runs by moments, pooled over cases and targets. Each set holds
/// the runs of one target. The result is the variance of the runs' means minus the part that the
/// blocks of a run explain.
pub fn variation(mut sets: Vec<Collected>) -> Result<Variation, AnalysisError> {
    let mut tables = tables(&mut sets, 0);
    tables.retain(|table| !table.cells.is_empty());
    let is_primary = primary(&tables);
    tables
        .iter_mut()
        .zip(is_primary)
        .for_each(|(table, primary)| table.primary = primary);
    let frame = Frame::new(&sets, &CompareRequest::new(0, 0.0), &[])?;
    let (mut values, mut ratios) = (Vec::new(), Vec::new());
    for table in tables.iter().filter(|table| table.primary) {
        let samples = frame.samples(table, &(0..table.cells.len()).collect::<Vec<_>>());
        for (set, sample) in samples.iter().enumerate() {
            values.push(RunMeans::of_sample(sample)?);
            if set > 0 && sample.is_paired_with(&samples[0]) {
                ratios.push(RunMeans::of_pairs(&samples[0], sample)?);
            }
        }
    }
    let sessions: BTreeSet<&String> = sets.iter().flat_map(|set| &set.sessions).collect();
    let runs = sets.iter().map(Collected::run_count).max().unwrap_or(0);
    Ok(Variation {
        values: between(&values),
        ratios: between(&ratios),
        of_sessions: sessions.len() >= runs,
    })
}

/// Returns the upper bound of the variation, at 80 %, because the estimate from a few runs may be
/// far too small by chance. `None` of fewer runs than can be judged, and if even the bound is not
/// above what the blocks explain.
fn between(cases: &[RunMeans]) -> Option<Between> {
    const TAIL: f64 = 0.2;
    let cases: Vec<&RunMeans> = cases
        .iter()
        .filter(|case| case.runs() >= FEWEST_RUNS_JUDGED)
        .collect();
    let runs = cases.iter().map(|case| case.runs()).min()?;
    let all: f64 = cases.iter().map(|case| case.degrees()).sum();
    let (mut total, mut within) = (0.0, 0.0);
    for case in &cases {
        total += case.degrees() * case.moments().1;
        within += case.degrees() * case.within();
    }
    let (total, within) = (total / all, within / all);
    let residuals: Vec<BTreeMap<(usize, u32), f64>> =
        cases.iter().map(|case| case.residuals(0)).collect();
    let degrees = all / cases.len() as f64 * effective_cases(&residuals);
    let bound = total * degrees / chi_squared_quantile(TAIL, degrees) - within;
    let source = BetweenSource::EarlierRuns { runs, degrees };
    (bound > 0.0).then(|| Between {
        sd: bound.sqrt(),
        source,
    })
}

impl Collected {
    /// This set over another one of the same runs, block by block: what ratios of two targets are
    /// compared with.
    pub fn over(&self, other: &Collected, name: String) -> Result<Collected, AnalysisError> {
        use fsb_model::Unit;
        use fsb_model::set::{Run, Series};

        let by_block: BTreeMap<Option<u32>, u32> = other
            .runs
            .iter()
            .zip(0..)
            .map(|(facts, place)| (facts.block, place))
            .collect();
        let mut ratio = Collected::new(name.clone(), Some(name));
        ratio.expect_runs(self.runs.len());
        // The series of all runs are the same.
        let mut parts: Vec<(&Column, &Column)> = Vec::new();
        let mut run = Run {
            tool: OURS.to_owned(),
            sessions: self.sessions.iter().cloned().collect(),
            ..Run::default()
        };
        for column in &self.columns {
            let Some(beneath) = other.column(&column.key) else {
                continue;
            };
            parts.push((column, beneath));
            run.series.push(Series {
                workload: column.key.workload.clone(),
                operation: column.key.operation.clone(),
                metric: column.key.metric.clone(),
                unit: Unit::Count,
                better: column.better,
                found_unit: String::new(),
                points: Vec::new(),
                gaps: Vec::new(),
            });
        }
        for (facts, number) in self.runs.iter().zip(0..) {
            let Some(partner) = by_block.get(&facts.block) else {
                continue;
            };
            for ((column, beneath), series) in parts.iter().zip(&mut run.series) {
                series.points.clear();
                ratios(column, number, beneath, *partner, &mut series.points);
            }
            run.path.clone_from(&self.files.texts[facts.file as usize]);
            run.block = facts.block;
            ratio.push(&run)?;
        }
        Ok(ratio)
    }
}

/// Adds the values of a run over those of another one at the same sizes.
fn ratios(above: &Column, run: u32, below: &Column, partner: u32, points: &mut Vec<Point>) {
    let mut values: BTreeMap<Size, f64> = BTreeMap::new();
    for row in below.rows_of(partner) {
        for (size, value) in below.points(row) {
            values.insert(below.sizes[size as usize], value);
        }
    }
    for row in above.rows_of(run) {
        for (size, value) in above.points(row) {
            let size = above.sizes[size as usize];
            let Some(below) = values.get(&size) else {
                continue;
            };
            let value = value / below;
            if value.is_finite() && value > 0.0 {
                points.push(Point {
                    file_size: size.file,
                    record_size: size.record,
                    value,
                    line: 0,
                });
            }
        }
    }
}

// Warnings that a reader must know before believing a comparison.

/// Returns all warnings. Those about whole sets come first.
fn warnings(sets: &[Collected], tables: &[Table], request: &CompareRequest) -> Vec<String> {
    let mut warnings = few_runs(sets, request);
    warnings.extend(tools(sets));
    warnings.extend(commands(sets));
    warnings.extend(settings(sets));
    warnings.extend(uncommon(sets, tables));
    for (place, set) in sets.iter().enumerate() {
        warnings.extend(incomplete(set, place, tables));
        warnings.extend(copies(set));
        warnings.extend(quantised(set));
        warnings.extend(remarks(set));
    }
    warnings
}

/// Warns of sets with too few blocks (for a single run) or too few runs to be judged.
fn few_runs(sets: &[Collected], request: &CompareRequest) -> Vec<String> {
    let are_one_run = sets
        .iter()
        .all(|set| set.pairing.is_some() && set.pairing == sets[0].pairing && set.run_count() == 1);
    let mut by_number: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let (what, least) = match are_one_run {
        true => ("block", FEWEST_JUDGED),
        // With a given variation between runs, single runs are judged.
        false => (
            "run",
            if request.between_runs.is_some() {
                1
            } else {
                FEWEST_RUNS_JUDGED
            },
        ),
    };
    for set in sets {
        let n = set
            .block_count()
            .filter(|_| are_one_run)
            .unwrap_or_else(|| set.run_count());
        // A set without any run has a failure that says so.
        if n < least && set.run_count() > 0 {
            by_number.entry(n).or_default().push(&set.name);
        }
    }
    by_number
        .into_iter()
        .map(|(n, names)| {
            let plural = if n == 1 { "" } else { "s" };
            format!(
                "{}: {n} {what}{plural}: described, not judged (at least {least} are needed)",
                names.join(", ")
            )
        })
        .collect()
}

/// Warns of runs that agree in every value. Such a run is a copy, because real runs never agree.
fn copies(set: &Collected) -> Option<String> {
    let (earlier, later) = set.copies.first?;
    let (earlier, later, pairs) = (set.named(earlier), set.named(later), set.copies.pairs);
    let more = if pairs > 1 {
        format!(" and {} more", pairs - 1)
    } else {
        String::new()
    };
    Some(format!(
        "{}: {later}{more} has the same values as {earlier}: a copied run counts twice, so intervals are too narrow",
        set.name
    ))
}

fn tools(sets: &[Collected]) -> Option<String> {
    fn tool_and_version(set: &Collected) -> Option<(&str, Option<&str>)> {
        Some((set.tool()?, set.first_version.as_deref()))
    }
    let first = sets.first().and_then(tool_and_version)?;
    let mut all = Vec::new();
    for set in sets {
        if let Some((tool, version)) = tool_and_version(set) {
            let version = version.unwrap_or("of unknown version");
            all.push(format!("{}: {tool} {version}", set.name));
        }
    }
    match sets
        .iter()
        .filter_map(tool_and_version)
        .find(|other| *other != first)?
    {
        (tool, _) if tool != first.0 => Some(format!(
            "different tools measure different things under one name ({}): read the ratios with care",
            all.join("; ")
        )),
        // FSBench versions are a condition of the runs.
        _ if first.0 == OURS => None,
        _ => Some(format!(
            "different versions of {} ({})",
            first.0,
            all.join("; ")
        )),
    }
}

/// Warns of sets whose tool was called with different options. Readers that find settings in the
/// options have another warning, see [`settings`].
fn commands(sets: &[Collected]) -> Option<String> {
    let others = sets.iter().filter(|set| set.settings.is_empty());
    let all: Vec<(&Collected, String)> = others
        .filter_map(|set| {
            let command = set.commands.texts.first()?;
            Some((set, options(set.tool().unwrap_or_default(), command)))
        })
        .collect();
    let same_tool = all
        .windows(2)
        .all(|pair| pair[0].0.tool() == pair[1].0.tool());
    if !same_tool || all.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return None;
    }
    let named = all
        .iter()
        .take(NAMED)
        .map(|(set, options)| format!("{}: {options}", set.name));
    let more = if all.len() > NAMED { "; …" } else { "" };
    Some(format!(
        "the sets were made with different options ({}{more})",
        named.collect::<Vec<_>>().join("; ")
    ))
}

/// Warns of sets of different commands, which are compared because each has only one.
fn different_commands(sets: &[Collected]) -> Option<String> {
    let commands: Vec<(&str, &str)> = sets
        .iter()
        .map(|set| Some((set.name.as_str(), set.only_command()?)))
        .collect::<Option<_>>()?;
    let differs = commands.windows(2).any(|pair| pair[0].1 != pair[1].1);
    let named: Vec<String> = commands
        .iter()
        .map(|(set, command)| format!("{set}: {command}"))
        .collect();
    differs.then(|| {
        format!(
            "each set has one command, and they differ: {}",
            some(&named, NAMED)
        )
    })
}

/// Options of a tool that take the name of a file or directory, which differs without any effect.
fn options_of_files(tool: &str) -> &'static [&'static str] {
    match tool {
        "iozone" => &["-f", "-F", "-b", "-U"],
        "ior" => &["-o"],
        "mdtest" => &["-d"],
        _ => &[],
    }
}

/// Returns a command line without the program and file names. `fsb iozone` counts as `iozone`,
/// because it takes the same options.
fn options(tool: &str, command: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut skip = false;
    let mut words = command.split_whitespace().peekable();
    let program = words.next().and_then(|word| word.rsplit('/').next());
    if program == Some("fsb") {
        words.next_if_eq(&"iozone");
    }
    for word in words {
        let is_path = word.starts_with('/') || word.starts_with("./");
        match word {
            _ if std::mem::take(&mut skip) => {}
            _ if options_of_files(tool).contains(&word) => skip = true,
            _ if is_path => {}
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

/// Warns of operations that only some sets have, and of cells that only some sets have.
fn uncommon(sets: &[Collected], tables: &[Table]) -> Vec<String> {
    if sets.len() < 2 {
        return Vec::new();
    }
    let mut by_owners: Vec<(String, Vec<(&Key, usize)>)> = Vec::new();
    // The warnings leave out a cell without a value in any set, such as one of zeros. They also
    // leave out a percentile that is missing because of too few operations.
    for table in tables
        .iter()
        .filter(|table| table.present() > 0 && table.ran() < sets.len())
    {
        if metric::is_latency(&table.key.metric)
            && tables.iter().any(|other| {
                !metric::is_latency(&other.key.metric) && is_same_work(&other.key, &table.key)
            })
        {
            continue;
        }
        let owners = sets
            .iter()
            .zip(&table.sets)
            .filter(|(_, matrix)| matrix.is_some());
        let owners = owners
            .map(|(set, _)| set.name.as_str())
            .collect::<Vec<_>>()
            .join(" and ");
        let place = by_owners
            .iter()
            .position(|(other, _)| *other == owners)
            .unwrap_or(by_owners.len());
        if place == by_owners.len() {
            by_owners.push((owners, Vec::new()));
        }
        let of_key = &mut by_owners[place].1;
        match of_key
            .iter_mut()
            .find(|(other, _)| is_same_work(other, &table.key))
        {
            Some((_, metrics)) => *metrics += 1,
            None => of_key.push((&table.key, 1)),
        }
    }
    // An operation with many metrics is listed once.
    let mut warnings = Vec::new();
    for (owners, keys) in by_owners {
        let names = keys.iter().map(|(key, metrics)| match metrics {
            1 => label(key),
            n => format!("{} ({n} metrics)", key.work()),
        });
        let names: Vec<String> = names.collect();
        warnings.push(format!("only {owners} measured {}", some(&names, 8)));
    }
    let mut lost = Vec::new();
    for (place, set) in sets.iter().enumerate() {
        let shared = tables
            .iter()
            .filter(|table| table.present() > 1 && table.sets[place].is_some());
        let cells: usize = shared
            .map(|table| table.coverage[place].0 - table.cells.len())
            .sum();
        if cells > 0 {
            lost.push(format!("{cells} of {}", set.name));
        }
    }
    if !lost.is_empty() {
        warnings.push(format!(
            "cells that are missing from a set are left out: {}",
            lost.join(", ")
        ));
    }
    warnings
}

/// Warns of runs that lack cells which other runs of their set have.
fn incomplete(set: &Collected, place: usize, tables: &[Table]) -> Vec<String> {
    let shared: Vec<&Table> = tables.iter().filter(|table| table.present() > 1).collect();
    let mut short = Vec::new();
    for number in 0..set.runs.len() {
        let (mut lacking, mut all, mut left_out) = (0, 0, 0);
        for table in &shared {
            let Some(matrix) = &table.sets[place] else {
                continue;
            };
            let Ok(row) = matrix.runs.binary_search(&number) else {
                continue;
            };
            let cells = table.cells.len();
            let has = (0..cells).filter(|cell| matrix.has(row, *cell)).count();
            (lacking, all) = (lacking + cells - has, all + cells);
            left_out += usize::from((has as f64) < ENOUGH * cells as f64);
        }
        if lacking > 0 {
            let out = if left_out > 0 {
                format!(", left out of {left_out} estimates")
            } else {
                String::new()
            };
            short.push(format!(
                "{} lacks {lacking} of {all} common cells{out}",
                set.named(number)
            ));
        }
    }
    let (mut used, mut cells) = (0, 0);
    for table in shared {
        let every: Vec<usize> = (0..table.cells.len()).collect();
        used += Complete::from_table(table, &every).columns.len();
        cells += table.cells.len();
    }
    let because = format!("estimates rest on the {used} of {cells} cells that every other run has");
    (!short.is_empty())
        .then(|| format!("{}: {}: {because}", set.name, some(&short, NAMED)))
        .into_iter()
        .collect()
}

/// Returns the name of an operation with its metric.
fn label(key: &Key) -> String {
    format!("{} ({})", key.work(), key.metric)
}

fn is_same_work(one: &Key, other: &Key) -> bool {
    (&one.workload, &one.operation) == (&other.workload, &other.operation)
}

/// Warns of values that lasted only a few ticks of the tool's clock.
fn quantised(set: &Collected) -> Option<String> {
    let ticks = &set.ticks;
    (ticks.few > 0).then(|| {
        format!(
            "{}: {} of {} values lasted fewer than {FEW_TICKS} ticks of the clock ({}): quantised by more than 1 %",
            set.name,
            ticks.few,
            ticks.all,
            units::show_seconds(ticks.resolution)
        )
    })
}

fn gaps(set: &Collected) -> impl Iterator<Item = String> {
    set.gap_texts()
        .into_iter()
        .map(|text| format!("{}: {text}", set.name))
}

/// Returns the readers' warnings: equal texts once, with the files that they concern.
fn remarks(set: &Collected) -> Vec<String> {
    let more = set.remarks.more();
    let rest = (more > 0).then(|| format!("{}: {more} more remarks on its files", set.name));
    set.remarks.texts().chain(rest).collect()
}

/// Returns the failures that the tools report, and the number of runs without any value.
fn failures(sets: &[Collected]) -> Vec<String> {
    let mut failures = Vec::new();
    for set in sets {
        failures.extend(
            set.failures
                .texts()
                .map(|text| format!("{}: {text}", set.name)),
        );
        let more = set.failures.more();
        failures.extend((more > 0).then(|| format!("{}: {more} more failures", set.name)));
        if set.dead_runs > 0 {
            let (dead, all) = (set.dead_runs, set.dead_runs + set.run_count());
            let has = if dead == 1 { "has" } else { "have" };
            failures.push(format!("{}: {dead} of {all} runs {has} no value", set.name));
        }
    }
    failures
}

fn is_one_tool(sets: &[Collected]) -> bool {
    sets.windows(2).all(|pair| pair[0].tool() == pair[1].tool())
}

/// Warns of settings that differ between the runs of a set, or between sets of one tool.
fn settings(sets: &[Collected]) -> Option<String> {
    let same_tool = is_one_tool(sets);
    let names: BTreeSet<&(Option<String>, String)> =
        sets.iter().flat_map(|set| set.settings.keys()).collect();
    // Equal differences of several workloads are listed once.
    let mut differences: Vec<(String, usize)> = Vec::new();
    for name in names {
        // The names of a workload are neighbours.
        let values: Vec<(&str, String)> = sets
            .iter()
            .filter(|set| {
                let mut from = set.settings.range((name.0.clone(), String::new())..);
                from.next()
                    .is_some_and(|((workload, _), _)| *workload == name.0)
            })
            .map(|set| (set.name.as_str(), shown_values(set.settings.get(name))))
            .collect();
        let differs = same_tool && values.windows(2).any(|pair| pair[0].1 != pair[1].1);
        let varies = sets.iter().any(|set| {
            set.settings
                .get(name)
                .is_some_and(|values| values.len() > 1)
        });
        if !differs && !varies {
            continue;
        }
        let values: Vec<String> = values
            .iter()
            .map(|(set, value)| format!("{set}: {value}"))
            .collect();
        let text = format!("{} ({})", name.1, some(&values, NAMED));
        match differences.iter_mut().find(|(known, _)| *known == text) {
            Some((_, workloads)) => *workloads += 1,
            None => differences.push((text, 1)),
        }
    }
    let differences: Vec<String> = differences
        .iter()
        .map(|(text, workloads)| match workloads {
            1 => text.clone(),
            n => format!("{text} in {n} workloads"),
        })
        .collect();
    let all = some(&differences, 8);
    (!differences.is_empty()).then(|| format!("the sets were made with different settings: {all}"))
}

fn shown_values(values: Option<&BTreeSet<String>>) -> String {
    values.map_or_else(
        || "not set".to_owned(),
        |values| values.iter().cloned().collect::<Vec<_>>().join(" and "),
    )
}

/// Ratios between units that are mistaken for each other: decimal and binary prefixes, bits and
/// bytes.
const UNIT_RATIOS: [f64; 5] = [8.0, 1000.0, 1024.0, 1e6, 1048576.0];
/// The relative distance from such a ratio at which a hint is given.
const NEAR: f64 = 0.05;

/// Warns of ratios that look like a difference of units. Values of FSBench itself have one unit.
fn unit_hints(operations: &[Operation], sets: &[Collected]) -> Vec<String> {
    let own = sets.iter().filter(|set| set.tool() == Some(OURS));
    let own: BTreeSet<&str> = own.map(|set| set.name.as_str()).collect();
    let mut hints: Vec<(f64, &str, Vec<String>)> = Vec::new();
    for operation in operations.iter().filter(|operation| operation.primary) {
        let levels = operation
            .estimate
            .against
            .iter()
            .filter_map(|(set, level)| Some((set, level.as_ref()?)));
        for (set, level) in levels.filter(|(set, _)| !own.contains(set.as_str())) {
            let ratio = level.ratio.max(1.0 / level.ratio);
            let near = UNIT_RATIOS
                .map(|unit| ((ratio / unit).ln().abs(), unit))
                .into_iter()
                .filter(|(distance, _)| *distance < NEAR.ln_1p())
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, unit)) = near else { continue };
            let name = work(operation.workload.as_deref(), &operation.operation);
            let name = format!("{ratio:.0} at {name}");
            match hints
                .iter_mut()
                .find(|(known, other, _)| (*known, *other) == (unit, set.as_str()))
            {
                Some((.., names)) => names.push(name),
                None => hints.push((unit, set.as_str(), vec![name])),
            }
        }
    }
    hints
        .iter()
        .map(|(unit, set, names)| {
            format!(
                "{set}: the ratio of {} is near {unit}: one side may be in another unit",
                some(names, NAMED)
            )
        })
        .collect()
}

/// Returns the first items and the number of further ones.
fn some(items: &[String], most: usize) -> String {
    match items.len() {
        n if n <= most => items.join(", "),
        n => format!("{} and {} more", items[..most].join(", "), n - most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks_and_only_where_enough_lies_beyond() {
        let bins: BTreeMap<u64, u64> = (1..=1000)
            .map(|nanoseconds| (nanoseconds * 1000, 1))
            .collect();
        let found = of_bins(&bins);
        assert_eq!(
            found.iter().map(|quantile| quantile.q).collect::<Vec<_>>(),
            [0.5, 0.9]
        );
        assert!(
            (found[0].seconds - 500e-6).abs() < 1e-12 && (found[1].seconds - 900e-6).abs() < 1e-12
        );
        assert!(of_bins(&BTreeMap::new()).is_empty());
    }

    #[test]
    fn names_of_files_are_no_options() {
        assert_eq!(
            options(
                "iozone",
                "/usr/bin/iozone -a -n 4k -f /mnt/test/f -b out.xls"
            ),
            "-a -n 4k"
        );
        assert_eq!(options("iozone", "iozone -U /mnt -e"), "-e");
    }

    #[test]
    fn each_tool_has_its_own_names_of_files() {
        assert_eq!(
            options("ior", "ior -a POSIX -b 50g -F -o /mnt/f -t 1m"),
            "-a POSIX -b 50g -F -t 1m"
        );
        assert_eq!(
            options("mdtest", "/opt/mdtest -n 100 -F -d /mnt/a"),
            "-n 100 -F"
        );
    }

    #[test]
    fn our_iozone_and_the_other_one_are_called_alike() {
        let all = [
            "iozone -a -g 64m",
            "/opt/bin/iozone -a -g 64m",
            "fsb iozone -a -g 64m",
            "./fsb iozone -a -g 64m",
        ];
        assert!(
            all.iter()
                .all(|command| options("iozone", command) == "-a -g 64m"),
            "{all:?}"
        );
        assert_eq!(options("iozone", "fsb -a"), "-a");
    }

    #[test]
    fn long_lists_are_cut() {
        let items: Vec<String> = (0..5).map(|i| i.to_string()).collect();
        assert_eq!(some(&items, 3), "0, 1, 2 and 2 more");
        assert_eq!(some(&items[..2], 3), "0, 1");
    }
}

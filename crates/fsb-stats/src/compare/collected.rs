//! Accumulates a result set while its files are read. Values go straight into one table per
//! operation, and only metadata that the report prints is kept per run.
//!
//! A comparison of thousands of files needs the memory of their numbers: eight bytes per value. The
//! list of a run's cells is kept once for all runs that have the same cells in the same order, and
//! names are kept once per set.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use fsb_model::metric::{self, Role};
use fsb_model::set::{
    Failure, GapReason, Histogram, Point, Run, Samples, Series, Set, Setting, Timeline,
    UNKNOWN_WORK,
};
use fsb_model::stop::Analyses;
use fsb_model::{Better, Unit};

use crate::sample::{AnalysisError, logarithm};
use crate::terms::Unjudged;

/// A shorter time than this number of ticks is known to no better than 1 %.
pub(super) const FEW_TICKS: f64 = 100.0;
/// Times of fewer ticks are not judged: half a tick on each side is 3 % of them, which is the usual
/// smallest difference that matters.
const FEWEST_TICKS: f64 = 33.0;
/// Runs with fewer values than this may agree by chance.
const FEW_VALUES: usize = 10;

/// Timelines kept of a set. A page with more lines is not legible.
const MOST_TIMELINES: usize = 500;
/// The number of items that a warning names before it only counts the others.
pub(super) const NAMED: usize = 3;

/// A set whose runs are read one by one and dropped.
#[derive(Debug, Default, Clone)]
pub struct Collected {
    /// The name in tables, unique in a comparison.
    pub name: String,
    /// As in [`Set::pairing`].
    pub pairing: Option<String>,
    /// As in [`Set::analyses`].
    pub analyses: Analyses,
    /// Whether it may lose synced data that other sets keep.
    pub has_risks: bool,
    /// Whether it may not win against sets that may.
    pub barred: bool,
    /// The workloads whose values are not known to be what their names say: they may not win
    /// against values that are.
    pub unproven: BTreeSet<String>,
    /// The sessions of all runs. Runs without sessions add none.
    pub(super) sessions: BTreeSet<String>,
    untold_sessions: bool,
    pub(super) runs: Vec<Facts>,
    /// The number of runs that it will have, as far as they were announced.
    expected: usize,
    /// Like [`Run::within`], by workload and index of the run.
    pub(super) within: HashMap<String, HashMap<u32, f64>>,
    /// In the order of the first occurrence of each operation.
    pub(super) columns: Vec<Column>,
    places: HashMap<Key, usize>,
    pub(super) tools: Distinct,
    pub(super) versions: Distinct,
    pub(super) commands: Distinct,
    /// Paths of files, each once.
    pub(super) files: Distinct,
    /// The tool version of the first run, if known.
    pub(super) first_version: Option<String>,
    pub(super) copies: Copies,
    pub(super) ticks: Ticks,
    /// The places without a value.
    pub(super) gaps: Gaps,
    pub(super) remarks: Remarks,
    pub(super) failures: Remarks,
    /// Workloads and operations that failed in a run. `None` means all workloads of a run, or all
    /// operations.
    failed: BTreeSet<(Option<String>, Option<String>)>,
    /// Runs without any value.
    pub(super) dead_runs: usize,
    /// By workload and name, the values of a setting.
    pub(super) settings: BTreeMap<(Option<String>, String), BTreeSet<String>>,
    /// Values over time, in the order of the runs.
    pub(super) timelines: Vec<Timeline>,
    /// The values within the runs, and the number of these runs.
    samples: Vec<(Samples, usize)>,
    /// Nanoseconds with their counts, by workload and operation.
    pub(super) latencies: BTreeMap<(Option<String>, String), BTreeMap<u64, u64>>,
}

/// The places where a set has no value, by reason.
#[derive(Debug, Default, Clone)]
pub(super) struct Gaps([GapPlaces; GapReason::ALL.len()]);

/// The places where a set has no value, for one reason.
#[derive(Debug, Default, Clone)]
struct GapPlaces {
    count: usize,
    /// The first place: its subject with file and line.
    first: Option<String>,
}

impl Gaps {
    /// Adds places. `first` returns the first of them.
    pub fn note(&mut self, why: GapReason, count: usize, first: impl FnOnce() -> String) {
        let Some(at) = GapReason::ALL.iter().position(|known| *known == why) else {
            return;
        };
        self.0[at].count += count;
        self.0[at].first.get_or_insert_with(first);
    }

    /// Returns the first place for each reason. Failures have texts of their own.
    fn texts(&self) -> Vec<String> {
        let gaps = GapReason::ALL
            .iter()
            .zip(&self.0)
            .filter(|(why, _)| **why != GapReason::Failed);
        gaps.filter_map(|(why, places)| places.describe(*why))
            .collect()
    }
}

impl GapPlaces {
    fn describe(&self, why: GapReason) -> Option<String> {
        let first = self.first.as_ref()?;
        let (plural, more) = match self.count {
            1 => ("", String::new()),
            count => ("s", format!(" and {} more", count - 1)),
        };
        Some(format!(
            "{} place{plural} without a value, {}: {first}{more}",
            self.count,
            why.words()
        ))
    }
}

/// The metadata that is kept of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub block: Option<u32>,
    pub slice: Option<u32>,
    /// The run that the block belongs to, or the run itself.
    pub run: u32,
    /// The index among the set's files.
    pub file: u32,
}

/// Distinct texts in the order of their first occurrence.
#[derive(Debug, Default, Clone)]
pub(super) struct Distinct {
    pub texts: Vec<String>,
    places: HashMap<u64, Vec<u32>>,
}

impl Distinct {
    fn add(&mut self, text: &str) -> u32 {
        let places = self.places.entry(hash(text)).or_default();
        if let Some(place) = places
            .iter()
            .find(|place| self.texts[**place as usize] == text)
        {
            return *place;
        }
        let place = self.texts.len() as u32;
        places.push(place);
        self.texts.push(text.to_owned());
        place
    }
}

/// Runs that agree in every value.
#[derive(Debug, Default, Clone)]
pub(super) struct Copies {
    last: HashMap<u64, u32>,
    pub pairs: usize,
    /// The indices of the first pair of runs.
    pub first: Option<(usize, usize)>,
}

/// The number of values that lasted only a few ticks of a clock.
#[derive(Debug, Default, Clone)]
pub(super) struct Ticks {
    pub few: usize,
    pub all: usize,
    pub resolution: f64,
}

/// The warnings of the readers.
#[derive(Debug, Default, Clone)]
pub(super) struct Remarks {
    /// The first texts, each with its first places and the number of all its places.
    told: Vec<(String, Vec<String>, usize)>,
    untold: HashSet<u64>,
}

impl Remarks {
    /// The maximum number of texts that are kept.
    const TOLD: usize = 2 * NAMED;

    fn add(&mut self, text: &str, place: impl FnOnce() -> String) {
        let known = self.told.iter_mut().find(|(known, ..)| known == text);
        if let Some((_, places, count)) = known {
            *count += 1;
            if places.len() < NAMED {
                places.push(place());
            }
        } else if self.told.len() < Remarks::TOLD {
            self.told.push((text.to_owned(), vec![place()], 1));
        } else {
            self.untold.insert(hash(text));
        }
    }

    /// Returns each text behind its first places.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.told.iter().map(|(text, places, all)| {
            let more = if *all > places.len() {
                format!(" and {} more", all - places.len())
            } else {
                String::new()
            };
            format!("{}: {text}", places.join(", ") + &more)
        })
    }

    /// Returns the number of further texts.
    pub fn more(&self) -> usize {
        self.untold.len()
    }
}

/// The values of one operation.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub key: Key,
    pub better: Better,
    pub sizes: Vec<Size>,
    places: HashMap<Size, u32>,
    /// Indices into the sizes, once for all rows that have the same ones.
    pub shapes: Vec<Vec<u32>>,
    shape_places: HashMap<Vec<u32>, u32>,
    /// In the order of the runs. A run that has an operation twice has two rows.
    pub rows: Vec<RunRow>,
    pub values: Vec<f64>,
    /// The reason why a run of another tool has no value at all, if there is such a run.
    pub lost: Option<GapReason>,
    /// The sum of the logarithms of times in ticks of the tool's clock, and their number.
    ticks: (f64, u32),
}

/// The values of a run, as many as its shape has entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunRow {
    pub run: u32,
    pub shape: u32,
    start: u64,
}

impl Column {
    fn new(key: Key, better: Better) -> Column {
        Column {
            key,
            better,
            sizes: Vec::new(),
            places: HashMap::new(),
            shapes: Vec::new(),
            shape_places: HashMap::new(),
            rows: Vec::new(),
            values: Vec::new(),
            lost: None,
            ticks: (0.0, 0),
        }
    }

    /// Returns whether its times are a few ticks of the tool's clock.
    fn is_quantised(&self) -> bool {
        let (sum, count) = self.ticks;
        count > 0 && sum / f64::from(count) < FEWEST_TICKS.ln()
    }

    /// Returns pairs of an index into the sizes and a value.
    pub fn points(&self, row: &RunRow) -> impl Iterator<Item = (u32, f64)> + '_ {
        let shape = &self.shapes[row.shape as usize];
        shape
            .iter()
            .copied()
            .zip(self.values[row.start as usize..].iter().copied())
    }

    /// Returns the rows of a run.
    pub fn rows_of(&self, run: u32) -> impl Iterator<Item = &RunRow> {
        let first = self.rows.partition_point(|row| row.run < run);
        self.rows[first..]
            .iter()
            .take_while(move |row| row.run == run)
    }

    fn add(&mut self, run: u32, series: &Series) -> Result<(), AnalysisError> {
        if series.points.is_empty() {
            return Ok(());
        }

        // Usually the previous run has the same cells.
        let last = self.rows.last().map(|row| row.shape).filter(|shape| {
            let places = self.shapes[*shape as usize].iter();
            let sizes = places.map(|place| self.sizes[*place as usize]);
            sizes.eq(series.points.iter().map(Size::from))
        });
        let shape = last.unwrap_or_else(|| {
            let places = series.points.iter().map(|point| {
                *self
                    .places
                    .entry(Size::from(point))
                    .or_insert_with_key(|size| {
                        self.sizes.push(*size);
                        self.sizes.len() as u32 - 1
                    })
            });
            let shape: Vec<u32> = places.collect();
            *self.shape_places.entry(shape).or_insert_with_key(|shape| {
                self.shapes.push(shape.clone());
                self.shapes.len() as u32 - 1
            })
        });
        self.rows.push(RunRow {
            run,
            shape,
            start: self.values.len() as u64,
        });
        for point in &series.points {
            logarithm(point.value)?;
            self.values.push(point.value);
        }
        Ok(())
    }
}

impl Collected {
    /// Creates a set without runs. The name may be set later.
    pub fn new(name: impl Into<String>, pairing: Option<String>) -> Collected {
        Collected {
            name: name.into(),
            pairing,
            ..Collected::default()
        }
    }

    /// Returns the set for one that is completely in memory.
    pub fn from_set(set: &Set) -> Result<Collected, AnalysisError> {
        let mut collected = Collected::new(set.name.clone(), set.pairing.clone());
        collected.analyses.clone_from(&set.analyses);
        set.runs.iter().try_for_each(|run| collected.push(run))?;
        Ok(collected)
    }

    /// Returns the values of an operation, or `None` if the set has none.
    pub(super) fn column(&self, key: &Key) -> Option<&Column> {
        // Columns that were renamed have another place.
        let place = self.places.get(key).copied();
        let known = place.and_then(|place| self.columns.get(place));
        known
            .filter(|column| column.key == *key)
            .or_else(|| self.columns.iter().find(|column| column.key == *key))
    }

    /// Announces further runs. Each operation then takes no more memory than its values need.
    pub fn expect_runs(&mut self, more: usize) {
        self.expected = self.runs.len() + more;
        self.runs.reserve_exact(more);
        for column in &mut self.columns {
            column.rows.reserve_exact(more);
            column.values.reserve_exact(more);
        }
    }

    /// Adds the next run. Its values must be finite and above zero.
    pub fn push(&mut self, run: &Run) -> Result<(), AnalysisError> {
        let number = self.runs.len() as u32;
        if self.runs.is_empty() {
            self.first_version.clone_from(&run.version);
        }
        self.tools.add(&run.tool);
        for (text, distinct) in [
            (&run.version, &mut self.versions),
            (&run.command, &mut self.commands),
        ] {
            if let Some(text) = text {
                distinct.add(text);
            }
        }
        let file = self.files.add(&run.path);
        self.note_problems(run);
        let is_foreign = run.block.is_none();
        if is_foreign && run.is_dead() {
            self.dead_runs += 1;
        } else {
            let of_run = if is_foreign { number } else { file };
            self.runs.push(Facts {
                block: run.block,
                slice: run.slice,
                run: of_run,
                file,
            });
        }
        for (workload, within) in &run.within {
            self.within
                .entry(workload.clone())
                .or_default()
                .insert(number, *within);
        }
        self.untold_sessions |= run.sessions.is_empty();
        self.sessions.extend(run.sessions.iter().cloned());
        for (number_of_series, series) in run.series.iter().enumerate() {
            // Usually the runs before had the same series.
            let usual = self.columns.get(number_of_series);
            let place = match usual.filter(|column| column.key.is_of(series)) {
                Some(_) => number_of_series,
                None => *self
                    .places
                    .entry(Key::from_series(series))
                    .or_insert_with_key(|key| {
                        let mut column = Column::new(key.clone(), series.better);
                        let left = self.expected.saturating_sub(number as usize);
                        column.rows.reserve_exact(left);
                        column.values.reserve_exact(left);
                        self.columns.push(column);
                        self.columns.len() - 1
                    }),
            };
            let column = &mut self.columns[place];
            column.add(number, series)?;
            if is_foreign && series.points.is_empty() {
                column.lost = column.lost.or(series.gaps.first().map(|gap| gap.why));
            }
            if let Some(tick) = run
                .clock_resolution
                .filter(|_| series.unit == Unit::Seconds)
            {
                column.ticks.0 += series
                    .points
                    .iter()
                    .map(|point| (point.value / tick).ln())
                    .sum::<f64>();
                column.ticks.1 += series.points.len() as u32;
            }
        }
        self.look_for_copies(number, run);
        self.count_ticks(run);
        run.histograms
            .iter()
            .for_each(|histogram| self.push_latencies(histogram));
        for samples in &run.samples {
            self.push_samples(samples);
        }
        let room = MOST_TIMELINES.saturating_sub(self.timelines.len());
        self.timelines
            .extend(run.timelines.iter().take(room).cloned());
        Ok(())
    }

    /// Adds the remarks, failures, gaps and settings of a run.
    fn note_problems(&mut self, run: &Run) {
        let place = |line: Option<u32>| {
            line.map_or_else(|| run.path.clone(), |line| format!("{}:{line}", run.path))
        };
        for remark in &run.warnings {
            self.remarks.add(&remark.text, || place(remark.line));
        }
        for Failure {
            line,
            workload,
            operation,
            text,
        } in &run.failures
        {
            self.failures.add(text, || place(*line));
            self.failed.insert((workload.clone(), operation.clone()));
        }
        for series in &run.series {
            for gap in &series.gaps {
                self.gaps.note(gap.why, 1, || {
                    let work = Key::from_series(series).work();
                    format!("{work} at {}", place(Some(gap.line)))
                });
            }
        }
        for Setting {
            workload,
            name,
            value,
        } in &run.settings
        {
            let values = self
                .settings
                .entry((workload.clone(), name.clone()))
                .or_default();
            if values.len() <= NAMED {
                values.insert(value.clone());
            }
        }
    }

    /// Returns whether a run of the set failed at an operation of a workload.
    fn has_failed(&self, key: &Key) -> bool {
        self.failed.iter().any(|(workload, operation)| {
            (workload.is_none() || *workload == key.workload)
                && operation
                    .as_ref()
                    .is_none_or(|operation| *operation == key.operation)
        })
    }

    /// Returns the failures that its files report, each with its first places.
    pub fn failure_texts(&self) -> Vec<String> {
        self.failures.texts().collect()
    }

    /// Returns the first place without a value for each reason: `2 places without a value, not run:
    /// w: read at a.json:7`.
    pub fn gap_texts(&self) -> Vec<String> {
        self.gaps.texts()
    }

    /// Returns the remarks of the readers, each with its first places.
    pub fn remark_texts(&self) -> Vec<String> {
        self.remarks.texts().collect()
    }

    /// Adds latencies to those of the set, independent of the run.
    pub fn push_latencies(&mut self, histogram: &Histogram) {
        let bins = self
            .latencies
            .entry((histogram.workload.clone(), histogram.operation.clone()))
            .or_default();
        for (nanoseconds, count) in &histogram.bins {
            let sum = bins.entry(*nanoseconds).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    fn push_samples(&mut self, samples: &Samples) {
        for (known, runs) in &mut self.samples {
            if (&known.workload, &known.operation, &known.metric)
                == (&samples.workload, &samples.operation, &samples.metric)
            {
                known.values.extend(&samples.values);
                *runs += 1;
                return;
            }
        }
        self.samples.push((samples.clone(), 1));
    }

    /// Returns the values within the runs of an operation, if all of its runs have them.
    fn samples_of(&self, key: &Key, runs: usize) -> Vec<f64> {
        for (known, of_runs) in &self.samples {
            // A workload's name may have been dropped to compare different tools.
            let is_workload = key.workload.is_none() || known.workload == key.workload;
            let is_rest = (&known.operation, &known.metric) == (&key.operation, &key.metric);
            if *of_runs == runs && is_workload && is_rest {
                return known.values.clone();
            }
        }
        Vec::new()
    }

    /// Returns whether no run was added, not even a failed one.
    pub fn is_empty(&self) -> bool {
        self.files.texts.is_empty()
    }

    /// Counts the runs. All blocks of one run directory are one run.
    pub fn run_count(&self) -> usize {
        self.runs
            .iter()
            .map(|facts| facts.run)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Counts the blocks. Returns `None` for another tool's results.
    pub fn block_count(&self) -> Option<usize> {
        let is_own = !self.runs.is_empty() && self.runs.iter().all(|facts| facts.block.is_some());
        is_own.then_some(self.runs.len())
    }

    /// Returns the number of sessions of the runs, and whether `other` was measured in the same
    /// sessions. Returns `None` if a run does not report its session.
    pub(super) fn sessions_beside(&self, other: &Collected) -> Option<(usize, bool)> {
        let told = !self.untold_sessions && !other.untold_sessions && !self.sessions.is_empty();
        told.then(|| {
            (
                self.sessions.len().min(self.run_count()),
                self.sessions == other.sessions,
            )
        })
    }

    /// Returns the command that the set consists of, if its tool names workloads by their commands
    /// and there is one.
    pub(super) fn only_command(&self) -> Option<&str> {
        self.tool().filter(|tool| is_named_by_command(tool))?;
        let mut names = self
            .columns
            .iter()
            .map(|column| column.key.workload.as_deref());
        let first = names.next()??;
        names.all(|name| name == Some(first)).then_some(first)
    }

    /// Returns the tool of the first run.
    pub fn tool(&self) -> Option<&str> {
        self.tools.texts.first().map(String::as_str)
    }

    /// Returns workload, operation and metric of everything that has values, in the order of the
    /// first occurrence.
    pub fn measured(&self) -> impl Iterator<Item = (Option<&str>, &str, &str)> {
        let columns = self.columns.iter().filter(|column| !column.rows.is_empty());
        columns.map(|column| {
            (
                column.key.workload.as_deref(),
                &*column.key.operation,
                &*column.key.metric,
            )
        })
    }

    /// Returns the name of a run in warnings.
    pub(super) fn named(&self, run: usize) -> String {
        match self.runs[run].block {
            Some(block) => format!("block {block}"),
            None => self.files.texts[self.runs[run].file as usize].clone(),
        }
    }

    fn look_for_copies(&mut self, number: u32, run: &Run) {
        if run
            .series
            .iter()
            .map(|series| series.points.len())
            .sum::<usize>()
            < FEW_VALUES
        {
            return;
        }
        if let Some(earlier) = self.copies.last.insert(fingerprint(run), number) {
            self.copies.pairs += 1;
            self.copies
                .first
                .get_or_insert((earlier as usize, number as usize));
        }
    }

    fn count_ticks(&mut self, run: &Run) {
        let Some(tick) = run.clock_resolution else {
            return;
        };
        self.ticks.resolution = self.ticks.resolution.max(tick);
        for seconds in durations(run) {
            self.ticks.all += 1;
            self.ticks.few += usize::from(seconds < FEW_TICKS * tick);
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns a hash that is equal for equal values.
fn fingerprint(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    for series in &run.series {
        if series.points.is_empty() && series.gaps.is_empty() {
            continue;
        }
        (&series.workload, &series.operation, &series.metric).hash(&mut hasher);
        series.points.iter().for_each(|point| {
            (point.file_size, point.record_size, point.value.to_bits()).hash(&mut hasher)
        });
    }
    hasher.finish()
}

/// Returns the duration of each value, as far as the values contain it.
fn durations(run: &Run) -> impl Iterator<Item = f64> + '_ {
    run.series.iter().flat_map(|series| {
        series.points.iter().filter_map(|point| match series.unit {
            Unit::BytesPerSecond => Some(point.file_size? as f64 / point.value),
            Unit::OperationsPerSecond => {
                Some(point.file_size? as f64 / point.record_size? as f64 / point.value)
            }
            // A mean that was printed in whole ticks is as inexact as a single time.
            Unit::Seconds => Some(point.value),
            Unit::Bytes | Unit::Count => None,
        })
    })
}

/// File size and record size in bytes, where the tool has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Size {
    pub file: Option<u64>,
    pub record: Option<u64>,
}

impl From<&Point> for Size {
    fn from(point: &Point) -> Size {
        Size {
            file: point.file_size,
            record: point.record_size,
        }
    }
}

fn role(table: &Table) -> Option<Role> {
    metric::find(&table.key.metric).map(|kind| kind.role)
}

/// The subject of a table. Values with equal keys are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub workload: Option<String>,
    pub operation: String,
    pub metric: String,
    pub unit: Unit,
}

/// Workload and operation, independent of the metric.
pub(super) type Subject = (Option<String>, String);

/// Returns the name of an operation of a workload.
pub(super) fn work(workload: Option<&str>, operation: &str) -> String {
    workload.map_or_else(
        || operation.to_owned(),
        |workload| format!("{workload}: {operation}"),
    )
}

impl Key {
    /// Returns the name of the work, without the metric.
    pub fn work(&self) -> String {
        work(self.workload.as_deref(), &self.operation)
    }

    /// Returns whether the metric is the longest time of a single operation. It depends on one
    /// operation alone, so it is never judged.
    pub fn is_maximum(&self) -> bool {
        self.metric == metric::LATENCY_MAX.name
    }

    pub fn subject(&self) -> Subject {
        (self.workload.clone(), self.operation.clone())
    }

    fn is_of(&self, series: &Series) -> bool {
        self.unit == series.unit
            && self.metric == series.metric
            && self.workload == series.workload
            && self.operation == series.operation
    }

    pub fn from_series(series: &Series) -> Key {
        Key {
            workload: series.workload.clone(),
            operation: series.operation.clone(),
            metric: series.metric.clone(),
            unit: series.unit,
        }
    }
}

// Values of sets as matrices, runs × cells: one table an operation, workload and metric.

/// The values of one operation over the cells that all sets with this operation have.
#[derive(Debug)]
pub(super) struct Table {
    pub key: Key,
    pub better: Better,
    /// Whether the operation is judged by this metric.
    pub primary: bool,
    /// By file size, then record size.
    pub cells: Vec<Size>,
    /// By set. `None` if it lacks the operation.
    pub sets: Vec<Option<Matrix>>,
    /// Cells by set, common or not: the number of its cells, and the number of cells that no other
    /// set has.
    pub coverage: Vec<(usize, usize)>,
    /// By set: the values within its runs, if the table has one cell and all runs have them.
    pub samples: Vec<Vec<f64>>,
    /// By set: the reason why a run of it has no value, so that nothing of it is judged.
    pub lost: Vec<Option<GapReason>>,
    /// By set: whether its times are a few ticks of the tool's clock.
    quantised: Vec<bool>,
}

/// The values of one set, missing ones as NaN.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    /// The indices of the runs that have values, in order.
    pub runs: Vec<usize>,
    /// Runs × cells, row by row. Their logarithms would take the same memory again and are cheap to
    /// compute.
    pub values: Vec<f64>,
}

impl Matrix {
    fn value(&self, run: usize, cell: usize) -> f64 {
        self.values[run * (self.values.len() / self.runs.len()) + cell]
    }

    /// Returns whether a run has a value.
    pub fn has(&self, run: usize, cell: usize) -> bool {
        !self.value(run, cell).is_nan()
    }

    /// Returns the logarithm of a run's value, or NaN if it has none.
    pub fn log(&self, run: usize, cell: usize) -> f64 {
        libm::log(self.value(run, cell))
    }

    /// Returns the values of one cell with the indices of their runs in the set.
    pub fn column(&self, cell: usize, cells: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let values = self.values.iter().skip(cell).step_by(cells);
        self.runs
            .iter()
            .copied()
            .zip(values.copied())
            .filter(|(_, value)| !value.is_nan())
    }
}

impl Table {
    /// Returns whether both sizes are known, so that cells form a grid.
    pub(crate) fn is_grid(&self) -> bool {
        !self.cells.is_empty()
            && self
                .cells
                .iter()
                .all(|size| size.file.is_some() && size.record.is_some())
    }

    /// Returns the number of sets that have the operation.
    pub fn present(&self) -> usize {
        self.sets.iter().flatten().count()
    }

    /// Returns the number of sets that ran the operation, with or without a value.
    pub fn ran(&self) -> usize {
        self.sets
            .iter()
            .zip(&self.lost)
            .filter(|(matrix, lost)| matrix.is_some() || lost.is_some())
            .count()
    }

    /// Returns why a set is not judged.
    pub fn unjudged(&self, set: usize) -> Option<Unjudged> {
        match self.lost[set] {
            Some(GapReason::Failed) => Some(Unjudged::Failed),
            Some(_) => Some(Unjudged::NoValue),
            None if self.key.is_maximum() => Some(Unjudged::Maximum),
            None => self.quantised[set].then_some(Unjudged::Resolution),
        }
    }

    /// Joins several tables: every cell of every table, for the sets that have all of them. Each
    /// set's values are dropped as soon as they are copied.
    pub fn pool(mut tables: Vec<Table>, operation: &str) -> Option<Table> {
        let first = tables.first()?;
        let key = Key {
            workload: None,
            operation: operation.to_owned(),
            ..first.key.clone()
        };
        let (better, sets) = (first.better, first.sets.len());
        let lost = (0..sets)
            .map(|set| tables.iter().find_map(|table| table.lost[set]))
            .collect();
        let quantised = (0..sets)
            .map(|set| tables.iter().any(|table| table.quantised[set]))
            .collect();
        let cells: Vec<Size> = tables
            .iter()
            .flat_map(|table| table.cells.iter().copied())
            .collect();
        // Set by set, so that at most one of them is in memory twice.
        let pooled: Vec<Option<Matrix>> = (0..sets)
            .map(|set| {
                let parts: Vec<Matrix> = tables
                    .iter_mut()
                    .map(|table| table.sets[set].take())
                    .collect::<Option<_>>()?;
                let mut runs: Vec<usize> = parts
                    .iter()
                    .flat_map(|part| part.runs.iter().copied())
                    .collect();
                runs.sort_unstable();
                runs.dedup();
                let (mut values, mut offset) = (vec![f64::NAN; runs.len() * cells.len()], 0);
                for part in parts {
                    let width = part.values.len() / part.runs.len();
                    for (row, run) in part.runs.iter().enumerate() {
                        let Ok(place) = runs.binary_search(run) else {
                            continue;
                        };
                        let to = &mut values[place * cells.len() + offset..][..width];
                        to.copy_from_slice(&part.values[row * width..][..width]);
                    }
                    offset += width;
                }
                Some(Matrix { runs, values })
            })
            .collect();
        Some(Table {
            key,
            better,
            primary: false,
            cells,
            samples: Vec::new(),
            sets: pooled,
            coverage: Vec::new(),
            lost,
            quantised,
        })
    }
}

/// Returns the subjects that several sets have, but at no common size. If fewer sets report a
/// latency, it does not replace the metric that they are judged by.
pub(super) fn sized_otherwise(tables: &[Table]) -> HashSet<Subject> {
    let judged = tables
        .iter()
        .zip(primary(tables))
        .filter(|(_, is_primary)| *is_primary);
    judged
        .filter(|(table, _)| table.present() > 1 && table.cells.is_empty())
        .map(|(table, _)| table.key.subject())
        .collect()
}

/// Returns which tables operations are judged by, one metric per operation. The primary metric of
/// an FSBench workload comes first, also if a user named it. Otherwise it is the first rate, or
/// else the first known metric but a maximum. The other metrics measure the same work again, and
/// the maximum of a thousand latencies is unsuitable for a verdict.
pub(super) fn primary(tables: &[Table]) -> Vec<bool> {
    let mut chosen: HashMap<_, usize> = HashMap::new();
    for (place, table) in tables.iter().enumerate() {
        let own = role(table);
        if table.key.is_maximum() || (own.is_none() && table.key.workload.is_none()) {
            continue;
        }
        let first = *chosen.entry(table.key.subject()).or_insert(place);
        if role(&tables[first]).is_some_and(|first| first != Role::Rate) && own == Some(Role::Rate)
        {
            chosen.insert(table.key.subject(), place);
        }
    }
    (0..tables.len())
        .map(|place| chosen.get(&tables[place].key.subject()) == Some(&place))
        .collect()
}

/// Returns the tables that at least `fewest` sets have in common, with those that say why a set has
/// no value: a metric that operations are judged by and that a set could not measure. No other
/// metric takes its place, unless the sets are of different tools.
pub(super) fn shared(mut every: Vec<Table>, fewest: usize, is_one_tool: bool) -> Vec<Table> {
    let sized_otherwise = sized_otherwise(&every);
    let leads = primary(&every);
    if is_one_tool {
        mark_absent(&mut every, &leads);
    }

    let unmeasured: Vec<bool> = every
        .iter()
        .zip(&leads)
        .map(|(table, leads)| {
            let is_zero = table
                .lost
                .iter()
                .flatten()
                .all(|why| *why == GapReason::Zero);
            *leads
                && table.present() < fewest
                && table.ran() >= fewest
                && !(table.present() == 0 && is_zero)
        })
        .collect();
    let without: HashSet<Subject> = every
        .iter()
        .zip(&unmeasured)
        .filter(|(_, is)| **is)
        .map(|(table, _)| table.key.subject())
        .collect();
    let mut shared: Vec<Table> = Vec::new();
    for (mut table, is_unmeasured) in every.into_iter().zip(unmeasured) {
        let subject = table.key.subject();
        let is_shared = table.present() >= fewest
            && !table.cells.is_empty()
            && !sized_otherwise.contains(&subject);
        table.primary = is_unmeasured;
        if is_unmeasured || is_shared {
            shared.push(table);
        }
    }
    for (place, is_primary) in primary(&shared).into_iter().enumerate() {
        let table = &mut shared[place];
        table.primary |= is_primary && !without.contains(&table.key.subject());
    }
    shared
}

/// Marks the sets that lack the metric which an operation is judged by, and have others of the same
/// operation.
fn mark_absent(every: &mut [Table], leads: &[bool]) {
    let mut owners: HashMap<Subject, Vec<bool>> = HashMap::new();
    for table in every.iter() {
        let owners = owners
            .entry(table.key.subject())
            .or_insert_with(|| vec![false; table.sets.len()]);
        table
            .sets
            .iter()
            .zip(owners)
            .for_each(|(matrix, owns)| *owns |= matrix.is_some());
    }
    for (table, _) in every
        .iter_mut()
        .zip(leads)
        .filter(|(table, leads)| **leads && table.present() > 0)
    {
        let owners = &owners[&table.key.subject()];
        for set in (0..owners.len()).filter(|set| owners[*set]) {
            if table.sets[set].is_none() {
                table.lost[set] = table.lost[set].or(Some(GapReason::Absent));
            }
        }
    }
}

/// Returns the subjects that the baseline has and another set has not, by set.
pub(super) fn missing(every: &[Table], baseline: usize) -> Vec<Vec<Subject>> {
    let sets = every.first().map_or(0, |table| table.sets.len());
    let mut known: Vec<HashSet<Subject>> = vec![HashSet::new(); sets];
    for table in every {
        for set in (0..sets).filter(|set| table.sets[*set].is_some() || table.lost[*set].is_some())
        {
            known[set].insert(table.key.subject());
        }
    }
    let mut subjects: Vec<Subject> = Vec::new();
    for table in every.iter().filter(|table| table.sets[baseline].is_some()) {
        let subject = table.key.subject();
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    known
        .iter()
        .map(|known| {
            let lacking = subjects.iter().filter(|subject| !known.contains(*subject));
            lacking.cloned().collect()
        })
        .collect()
}

/// Returns the values of all sets as tables, in the order of the first occurrence of operations,
/// the baseline's first. It takes the values out of the sets, so that they are in memory once.
pub(super) fn tables(sets: &mut [Collected], baseline: usize) -> Vec<Table> {
    name_unknown_work(sets);
    let anonymous: HashSet<String> = shared_names(sets).into_iter().map(str::to_owned).collect();
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut parts: Vec<(Key, Vec<Option<Column>>)> = Vec::new();
    let order = std::iter::once(baseline).chain((0..sets.len()).filter(|set| *set != baseline));
    let all = sets.len();
    for set in order {
        for mut column in std::mem::take(&mut sets[set].columns) {
            if sets[set].has_failed(&column.key) {
                column.lost = Some(GapReason::Failed);
            }
            let named = !anonymous.contains(&column.key.operation);
            let key = Key {
                workload: column.key.workload.clone().filter(|_| named),
                ..column.key.clone()
            };
            let place = *places.entry(key).or_insert_with_key(|key| {
                parts.push((
                    key.clone(),
                    std::iter::repeat_with(|| None).take(all).collect(),
                ));
                parts.len() - 1
            });
            parts[place].1[set] = Some(column);
        }
    }
    let mut tables: Vec<Table> = parts
        .into_iter()
        .map(|(key, columns)| table(key, columns))
        .collect();
    for table in &mut tables {
        if table.cells.len() != 1 {
            continue;
        }
        for (set, matrix) in sets.iter().zip(&table.sets) {
            let runs = matrix.as_ref().map_or(0, |matrix| matrix.runs.len());
            table.samples.push(set.samples_of(&table.key, runs));
        }
    }
    tables
}

/// Gives work that a file does not name the name of the only work of the other sets. If they have
/// several, or different ones, it stays unknown.
fn name_unknown_work(sets: &mut [Collected]) {
    let unknown = (None, UNKNOWN_WORK.to_owned());
    let mut known: Option<Subject> = None;
    for set in sets.iter() {
        let mut subjects: Vec<Subject> = Vec::new();
        for column in &set.columns {
            let subject = column.key.subject();
            if subject != unknown && !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        let is_other = subjects
            .iter()
            .any(|own| known.as_ref().is_some_and(|name| name != own));
        if subjects.len() > 1 || is_other {
            return;
        }
        known = subjects.pop().or(known);
    }
    let Some((workload, operation)) = known else {
        return;
    };
    for set in sets {
        for column in &mut set.columns {
            if column.key.subject() == unknown {
                column.key.workload.clone_from(&workload);
                column.key.operation.clone_from(&operation);
            }
        }
        for (samples, _) in &mut set.samples {
            if (&samples.workload, &samples.operation) == (&unknown.0, &unknown.1) {
                samples.workload.clone_from(&workload);
                samples.operation.clone_from(&operation);
            }
        }
    }
}

/// Returns whether a tool names a workload by its command, which contains the path of the file
/// system.
pub fn is_named_by_command(tool: &str) -> bool {
    tool == "hyperfine"
}

/// Returns operations that sets name differently although each has only one of them: sets of
/// different tools (fio has its job, IOzone no name), and sets of a command. There the name
/// distinguishes nothing and would only prevent the comparison.
fn shared_names(sets: &[Collected]) -> HashSet<&str> {
    let mut names: HashMap<&str, Vec<HashSet<Option<&str>>>> = HashMap::new();
    for (place, set) in sets.iter().enumerate() {
        for key in set.columns.iter().map(|column| &column.key) {
            let by_set = names
                .entry(&key.operation)
                .or_insert_with(|| vec![HashSet::new(); sets.len()]);
            by_set[place].insert(key.workload.as_deref());
        }
    }
    names.retain(|_, by_set| {
        let owners = sets
            .iter()
            .zip(&*by_set)
            .filter(|(_, names)| !names.is_empty());
        let tools: HashSet<_> = owners.map(|(set, _)| set.tool()).collect();
        let by_command = tools
            .iter()
            .all(|tool| tool.is_some_and(is_named_by_command));
        (tools.len() > 1 || by_command) && by_set.iter().all(|names| names.len() <= 1)
    });
    names.into_keys().collect()
}

/// Builds the table of one operation from the columns of the sets. A set without the operation has
/// no matrix.
fn table(key: Key, columns: Vec<Option<Column>>) -> Table {
    let mut cells: Vec<Size> = columns
        .iter()
        .flatten()
        .flat_map(|column| column.sizes.iter().copied())
        .collect();
    cells.sort_unstable();
    cells.dedup();
    let has: Vec<Vec<bool>> = columns
        .iter()
        .map(|column| {
            let mut has = vec![false; cells.len()];
            column
                .iter()
                .flat_map(|column| &column.sizes)
                .for_each(|size| has[cells.binary_search(size).unwrap_or_default()] = true);
            has
        })
        .collect();
    let owners: Vec<usize> = (0..cells.len())
        .map(|cell| has.iter().filter(|has| has[cell]).count())
        .collect();
    let present = columns
        .iter()
        .flatten()
        .filter(|column| !column.rows.is_empty())
        .count();
    let coverage = has.iter().map(|has| {
        let own = owners.iter().zip(has).filter(|(_, has)| **has);
        (
            own.clone().count(),
            own.filter(|(owners, _)| **owners == 1).count(),
        )
    });
    let coverage = coverage.collect();
    let common: Vec<Size> = (0..cells.len())
        .filter(|cell| owners[*cell] == present)
        .map(|cell| cells[cell])
        .collect();
    // All sets have the same operation, so the first one knows the better direction.
    let better = columns
        .iter()
        .flatten()
        .map(|column| column.better)
        .next()
        .unwrap_or(Better::Higher);
    let lost = columns
        .iter()
        .map(|column| column.as_ref().and_then(|column| column.lost))
        .collect();
    let quantised = columns
        .iter()
        .map(|column| column.as_ref().is_some_and(Column::is_quantised))
        .collect();
    let sets = columns
        .into_iter()
        .map(|column| column.and_then(|column| matrix(column, &common)))
        .collect();
    Table {
        coverage,
        cells: common,
        samples: Vec::new(),
        sets,
        key,
        better,
        primary: false,
        lost,
        quantised,
    }
}

/// Returns the rows of a set over the common cells. If a run has a cell twice, the first value
/// counts.
fn matrix(column: Column, common: &[Size]) -> Option<Matrix> {
    if column.rows.is_empty() {
        return None;
    }
    let places: Vec<Option<usize>> = column
        .sizes
        .iter()
        .map(|size| common.binary_search(size).ok())
        .collect();
    let mut runs: Vec<usize> = column.rows.iter().map(|row| row.run as usize).collect();
    runs.dedup();
    // Usually all runs have all cells in order. Then the values are already in place.
    let in_order =
        column.sizes == common && column.shapes.len() == 1 && runs.len() == column.rows.len();
    if in_order && column.shapes[0].iter().copied().eq(0..common.len() as u32) {
        return Some(Matrix {
            runs,
            values: column.values,
        });
    }
    let mut values = vec![f64::NAN; runs.len() * common.len()];
    for rows in column
        .rows
        .chunk_by(|one, other| one.run == other.run)
        .zip(values.chunks_mut(common.len().max(1)))
    {
        let (rows, values) = rows;
        for (cell, value) in rows.iter().flat_map(|row| column.points(row)) {
            let Some(place) = places[cell as usize] else {
                continue;
            };
            if values[place].is_nan() {
                values[place] = value;
            }
        }
    }
    Some(Matrix { runs, values })
}

//! Accumulates a result set while its files are read. Values go straight into one table per operation, and only
//! metadata that the report prints is kept per run.
//!
//! A comparison of thousands of files needs the memory of their numbers: eight bytes per value. The list of a run's
//! cells is kept once for all runs that have the same cells in the same order, and names are kept once per set.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use fsb_model::set::{GapReason, Histogram, Run, Series, Set};
use fsb_model::stop::Analyses;
use fsb_model::{Better, Unit};

use crate::sample::{AnalysisError, logarithm};

/// A shorter time than this number of ticks is known to no better than 1 %.
pub(super) const FEW_TICKS: f64 = 100.0;
/// Runs with fewer values than this may agree by chance.
const FEW_VALUES: usize = 10;
/// The number of items that a warning names before it only counts the others.
pub(super) const NAMED: usize = 3;

/// A set whose runs are read one by one and dropped.
#[derive(Debug, Default)]
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
    /// The sessions of all runs. Runs without sessions add none.
    pub(super) sessions: BTreeSet<String>,
    untold_sessions: bool,
    pub(super) runs: Vec<Facts>,
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
    /// By reason, in the order of [`GAPS`].
    pub(super) gaps: [usize; GAPS.len()],
    pub(super) remarks: Remarks,
    /// Nanoseconds with their counts, by workload and operation.
    pub(super) latencies: BTreeMap<(Option<String>, String), BTreeMap<u64, u64>>,
}

/// Reasons in the order in which they are reported.
pub(super) const GAPS: [GapReason; 3] = [GapReason::BelowClock, GapReason::TooFast, GapReason::Zero];

/// The metadata that is kept of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub block: Option<u32>,
    pub slice: Option<u32>,
    /// The run that the block belongs to, or the run itself.
    pub run: u32,
    /// Its index among the set's files.
    pub file: u32,
}

/// Distinct texts in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    pub texts: Vec<String>,
    places: HashMap<u64, Vec<u32>>,
}

impl Distinct {
    fn add(&mut self, text: &str) -> u32 {
        let places = self.places.entry(hash(text)).or_default();
        if let Some(place) = places.iter().find(|place| self.texts[**place as usize] == text) {
            return *place;
        }
        let place = self.texts.len() as u32;
        places.push(place);
        self.texts.push(text.to_owned());
        place
    }
}

/// Runs that agree in every value.
#[derive(Debug, Default)]
pub(super) struct Copies {
    last: HashMap<u64, u32>,
    pub pairs: usize,
    /// The indices of the first pair of runs.
    pub first: Option<(usize, usize)>,
}

/// The number of values that lasted only a few ticks of a clock.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    pub few: usize,
    pub all: usize,
    pub resolution: f64,
}

/// The warnings of the readers.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// The first texts, each with its first places and the number of all its places.
    pub told: Vec<(String, Vec<String>, usize)>,
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

    /// Returns the number of further texts.
    pub fn more(&self) -> usize {
        self.untold.len()
    }
}

/// The values of one operation.
#[derive(Debug)]
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
        }
    }

    /// Returns pairs of an index into the sizes and a value.
    pub fn points(&self, row: &RunRow) -> impl Iterator<Item = (u32, f64)> + '_ {
        let shape = &self.shapes[row.shape as usize];
        shape.iter().copied().zip(self.values[row.start as usize..].iter().copied())
    }

    fn add(&mut self, run: u32, series: &Series) -> Result<(), AnalysisError> {
        if series.points.is_empty() {
            return Ok(());
        }
        let size = |point: &fsb_model::set::Point| Size { file: point.file_size, record: point.record_size };
        let is_same = |shape: &Vec<u32>| {
            let sizes = shape.iter().map(|place| self.sizes[*place as usize]);
            shape.len() == series.points.len() && sizes.eq(series.points.iter().map(size))
        };
        // Usually the previous run has the same cells.
        let last = self.rows.last().map(|row| row.shape).filter(|shape| is_same(&self.shapes[*shape as usize]));
        let shape = last.unwrap_or_else(|| {
            let places = series.points.iter().map(|point| {
                *self.places.entry(size(point)).or_insert_with_key(|size| {
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
        self.rows.push(RunRow { run, shape, start: self.values.len() as u64 });
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
        Collected { name: name.into(), pairing, ..Collected::default() }
    }

    /// Returns the set for one that is completely in memory.
    pub fn from_set(set: &Set) -> Result<Collected, AnalysisError> {
        let mut collected = Collected::new(set.name.clone(), set.pairing.clone());
        collected.analyses.clone_from(&set.analyses);
        set.runs.iter().try_for_each(|run| collected.push(run))?;
        Ok(collected)
    }

    /// Adds the next run. Its values must be finite and above zero.
    pub fn push(&mut self, run: &Run) -> Result<(), AnalysisError> {
        let number = self.runs.len() as u32;
        if self.runs.is_empty() {
            self.first_version.clone_from(&run.version);
        }
        self.tools.add(&run.tool);
        for (text, distinct) in [(&run.version, &mut self.versions), (&run.command, &mut self.commands)] {
            if let Some(text) = text {
                distinct.add(text);
            }
        }
        let file = self.files.add(&run.path);
        let of_run = if run.block.is_some() { file } else { number };
        self.runs.push(Facts { block: run.block, slice: run.slice, run: of_run, file });
        for (workload, within) in &run.within {
            self.within.entry(workload.clone()).or_default().insert(number, *within);
        }
        self.untold_sessions |= run.sessions.is_empty();
        self.sessions.extend(run.sessions.iter().cloned());
        for series in &run.series {
            let key = Key::from_series(series);
            let place = *self.places.entry(key).or_insert_with_key(|key| {
                self.columns.push(Column::new(key.clone(), series.better));
                self.columns.len() - 1
            });
            self.columns[place].add(number, series)?;
            for gap in &series.gaps {
                GAPS.iter().zip(&mut self.gaps).for_each(|(why, count)| *count += usize::from(gap.why == *why));
            }
        }
        self.look_for_copies(number, run);
        self.count_ticks(run);
        for remark in &run.warnings {
            let path = &run.path;
            self.remarks
                .add(&remark.text, || remark.line.map_or_else(|| path.clone(), |line| format!("{path}:{line}")));
        }
        run.histograms.iter().for_each(|histogram| self.push_latencies(histogram));
        Ok(())
    }

    /// Adds latencies to those of the set, independent of the run.
    pub fn push_latencies(&mut self, histogram: &Histogram) {
        let bins = self.latencies.entry((histogram.workload.clone(), histogram.operation.clone())).or_default();
        for (nanoseconds, count) in &histogram.bins {
            let sum = bins.entry(*nanoseconds).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// Returns whether no run was added.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Counts the runs. All blocks of one run directory are one run.
    pub fn run_count(&self) -> usize {
        self.runs.iter().map(|facts| facts.run).collect::<BTreeSet<_>>().len()
    }

    /// Counts the blocks. Returns `None` for another tool's results.
    pub fn block_count(&self) -> Option<usize> {
        self.runs.iter().all(|facts| facts.block.is_some()).then_some(self.runs.len())
    }

    /// Returns the number of sessions of the runs, and whether `other` was measured in the same sessions. Returns
    /// `None` if a run does not report its session.
    pub(super) fn sessions_beside(&self, other: &Collected) -> Option<(usize, bool)> {
        let told = !self.untold_sessions && !other.untold_sessions && !self.sessions.is_empty();
        told.then(|| (self.sessions.len().min(self.run_count()), self.sessions == other.sessions))
    }

    /// Returns the tool of the first run.
    pub fn tool(&self) -> Option<&str> {
        self.tools.texts.first().map(String::as_str)
    }

    /// Returns workload, operation and metric of everything that has values, in the order of the first occurrence.
    pub fn measured(&self) -> impl Iterator<Item = (Option<&str>, &str, &str)> {
        let columns = self.columns.iter().filter(|column| !column.rows.is_empty());
        columns.map(|column| (column.key.workload.as_deref(), &*column.key.operation, &*column.key.metric))
    }

    /// Returns the name of a run in warnings.
    pub(super) fn named(&self, run: usize) -> String {
        match self.runs[run].block {
            Some(block) => format!("block {block}"),
            None => self.files.texts[self.runs[run].file as usize].clone(),
        }
    }

    fn look_for_copies(&mut self, number: u32, run: &Run) {
        if run.series.iter().map(|series| series.points.len()).sum::<usize>() < FEW_VALUES {
            return;
        }
        if let Some(earlier) = self.copies.last.insert(fingerprint(run), number) {
            self.copies.pairs += 1;
            self.copies.first.get_or_insert((earlier as usize, number as usize));
        }
    }

    fn count_ticks(&mut self, run: &Run) {
        let Some(tick) = run.clock_resolution else { return };
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
        (&series.workload, &series.operation, &series.metric).hash(&mut hasher);
        series
            .points
            .iter()
            .for_each(|point| (point.file_size, point.record_size, point.value.to_bits()).hash(&mut hasher));
    }
    hasher.finish()
}

/// Returns the duration of each value, as far as the values contain it.
fn durations(run: &Run) -> impl Iterator<Item = f64> + '_ {
    run.series.iter().flat_map(|series| {
        series.points.iter().filter_map(|point| match series.unit {
            Unit::BytesPerSecond => Some(point.file_size? as f64 / point.value),
            Unit::OperationsPerSecond => Some(point.file_size? as f64 / point.record_size? as f64 / point.value),
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

impl Key {
    pub fn subject(&self) -> Subject {
        (self.workload.clone(), self.operation.clone())
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

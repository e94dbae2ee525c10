//! The result of a comparison of sets: the document of `fsb compare --format json`, and the cells
//! behind it.
//!
//! Sizes are bytes, values are in base units, ratios are candidate over baseline. A value that does
//! not apply or is undefined is null. Fields marked `skip` are for charts and tables of single
//! values. The JSON document contains only their summaries.

use fsb_model::set::GapReason;
use fsb_model::{Better, Unit};
use indexmap::IndexMap;
use serde::Serialize;

use crate::ranking::Ranking;
use crate::sample::Method;
use crate::terms::{Between, Power, Unjudged};
use crate::verdict::Verdict;

/// The name and version of the schema of a comparison.
pub const SCHEMA: &str = "fsbench/comparison/1";

/// The pseudo-operation that pools all operations of IOzone, also those of FSBench's matrices.
pub const ALL: &str = "ALL";

/// By name of a set, in the order of the sets.
pub type BySet<T> = IndexMap<String, T>;

/// The output of `fsb compare --format json`: a comparison of any number of sets. Sizes are bytes,
/// values are in base units, and ratios are candidate over baseline. A value that does not apply or
/// is undefined is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    /// The name and version of the schema.
    pub schema: &'static str,
    /// The name of the set that the others are compared with.
    pub baseline: String,
    /// The reason why there are values but no ratio, p-value, verdict or finding; absent where
    /// there are: `emulated: a functional run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// The settings of the comparison.
    pub settings: Settings,
    /// The sets, in the order given.
    pub sets: Vec<SetSummary>,
    /// The cells that the sets have in common.
    pub coverage: Coverage,
    /// One entry for each operation, workload and metric that at least two sets have. If the sets
    /// have IOzone's operations over sizes, the last one is `ALL`, the pool of all operations.
    pub operations: Vec<Operation>,
    /// Findings that the data support, the widest first.
    pub findings: Vec<Finding>,
    /// Warnings to the reader, the urgent ones first.
    pub warnings: Vec<String>,
    /// The number of urgent warnings: failed runs, and the reason why verdicts were removed.
    pub urgent: usize,
    /// Workloads and operations that the baseline has and a set has not, by set.
    #[serde(skip)]
    pub missing: BySet<Vec<(Option<String>, String)>>,
    /// Conditions in which the runs differ, so that a change may come from them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionDifference>,
    /// Comparisons of the same targets of different runs; absent unless a run has several.
    #[serde(skip_serializing_if = "TargetByTarget::is_empty")]
    pub by_target: TargetByTarget,
    /// Whether all verdicts were removed. The first warning then gives the reason.
    #[serde(skip)]
    pub withheld: bool,
}

/// Comparisons of the targets of different runs. The table of all sets compares each of them with
/// one target of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetByTarget {
    /// Each target compared with the same target of the baseline.
    pub changes: Vec<Document>,
    /// The ratio of each target to the first one, compared with the same ratio of the baseline:
    /// the difference in differences.
    pub ratios: Vec<Document>,
}

impl TargetByTarget {
    /// Returns whether no target is compared with itself.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.ratios.is_empty()
    }

    /// Returns the documents of all comparisons.
    pub fn documents_mut(&mut self) -> impl Iterator<Item = &mut Document> {
        self.changes.iter_mut().chain(&mut self.ratios)
    }
}

/// A condition that was not the same for all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionDifference {
    pub condition: Condition,
    /// The target that it concerns; absent where it concerns the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Each value with the runs that have it.
    pub observed: Vec<ConditionValue>,
}

/// A value of a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionValue {
    /// The run directories, as given.
    pub runs: Vec<String>,
    pub value: Observed,
}

/// An observed value of a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Observed {
    Bytes(u64),
    /// A number of things.
    Count(u64),
    /// Several names.
    Texts(Vec<String>),
    /// A rate with its 95 % interval, over blocks.
    Rate {
        /// The geometric mean.
        mean: f64,
        /// The interval.
        ci95: [f64; 2],
        unit: Unit,
    },
}

/// A condition of a run that its results depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The model of the disk beneath the medium.
    Disk,
    /// The medium, as the run describes it.
    Medium,
    /// Sequential reads of the raw device.
    DeviceRead,
    /// Sequential writes to the raw device.
    DeviceWrite,
    /// Random reads of the raw device.
    DeviceRandomRead,
    /// Flushed writes to the raw device.
    DeviceFlushedWrite,
    /// The kernel release.
    Kernel,
    FsbVersion,
    /// The number of targets side by side.
    Targets,
    /// Bytes of a slice of the medium.
    SliceSize,
    /// Bytes of a file-system block.
    BlockSize,
    /// Bytes of an inode.
    InodeSize,
    /// Bytes of the device for each inode.
    BytesPerInode,
    /// Profiles of data and metadata.
    Profiles,
    /// Features of the file system.
    Features,
    /// Risks of the target.
    Risks,
}

/// The settings of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The false discovery rate of the heat map's colours.
    pub q: f64,
    /// The variation between runs that was added where a side has too few runs to show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_runs: Option<Between>,
    /// The variation between sessions that was added where two sides share none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_sessions: Option<Between>,
}

/// A set as it was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetSummary {
    pub name: String,
    /// The tool that made it; several are joined by `, `.
    pub tool: String,
    /// The tool's version; several are joined by `, `.
    pub version: Option<String>,
    /// The files it was read from, as given.
    pub files: Vec<String>,
    /// The number of runs: run directories of ours, or executions of another tool.
    pub runs: usize,
    /// The number of their blocks; absent for another tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
    /// The command lines that made them, each once.
    #[serde(skip)]
    pub commands: Vec<String>,
    /// Sets with the same pairing are compared block by block.
    #[serde(skip)]
    pub pairing: Option<String>,
}

/// Cells (workload × operation × metric × file size × record size) that the sets have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coverage {
    /// The number of cells that every set has.
    pub common: usize,
    /// The number of cells that only this set has.
    pub only: BySet<usize>,
}

/// One operation in one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Operation {
    /// The workload of fsb or the job of fio; null for tools without such names.
    pub workload: Option<String>,
    /// The operation on a file; `ALL` for the pool of all.
    pub operation: String,
    pub metric: String,
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    /// The statistics of Beňas 2011 over the pooled values of common cells.
    pub classic: Classic,
    /// The whole operation, judged on runs.
    pub estimate: Estimates,
    /// The whole operation with its cells counted; absent without a grid of sizes.
    pub grid: Option<Grid>,
    /// One entry a file size.
    pub by_file_size: Vec<Slice>,
    /// One entry a record size.
    pub by_record_size: Vec<Slice>,
    /// The cells that all sets with this operation have, by file size, then record size (of
    /// [`ALL`]: none).
    #[serde(skip)]
    pub cells: Vec<Cell>,
    /// Letters by set, `a` for the best, from the same intervals as `estimate`; absent where
    /// nothing was judged.
    #[serde(skip)]
    pub letters: BySet<Option<String>>,
    /// Whether this operation is judged by this metric. Findings and gates use no other metric,
    /// because the metrics of an operation are not independent.
    #[serde(skip)]
    pub primary: bool,
    /// Every pair of sets (indices into [`Document::sets`]) and the outcome, from the same
    /// intervals as `estimate`.
    #[serde(skip)]
    pub ranking: Ranking,
    /// Quantiles of the merged latencies of all runs, by set. Only those with enough values beyond
    /// them.
    #[serde(skip)]
    pub latencies: BySet<Vec<LatencyQuantile>>,
    /// The values of each run over time, by set: seconds and value. Empty for sets without them.
    #[serde(skip)]
    pub timelines: BySet<Vec<Vec<(f64, f64)>>>,
    /// The values within the runs whose means are the values of the runs, by set; only of sets
    /// whose files hold them.
    #[serde(skip_serializing_if = "BySet::is_empty")]
    pub samples: BySet<Vec<f64>>,
    /// The reason why a run of a set has no value, by set.
    #[serde(skip_serializing_if = "BySet::is_empty")]
    pub gaps: BySet<GapReason>,
}

/// A quantile of merged latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencyQuantile {
    /// 0.99 for the 99th percentile.
    pub q: f64,
    pub seconds: f64,
}

/// The statistics of Beňas 2011 over pooled values of common cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Classic {
    /// By set; null where it has no values.
    pub sets: BySet<Option<Pooled>>,
    /// By set other than the baseline; null where one of the two has no values.
    pub against: BySet<Option<PooledAgainst>>,
}

/// All values of all common cells of a set, taken together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pooled {
    /// The number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; absent for one value.
    pub sd: Option<f64>,
    /// 90 % t-interval of the mean; absent for one value.
    pub ci90: Option<[f64; 2]>,
    /// Geometric mean of the same n values. `estimate.values` has the mean that ratios are of.
    pub geometric_mean: f64,
    pub median: f64,
    /// First quartile, linear interpolation.
    pub q1: f64,
    /// Third quartile.
    pub q3: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// A set against the baseline, pooled.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PooledAgainst {
    /// Ratio of the medians minus one.
    pub median_change: f64,
    /// Two-sided p of the t-test with pooled variance; absent where there are too few values.
    pub t_p: Option<f64>,
    /// The result of the t-test at p ≤ 0.1.
    pub t_verdict: Option<TVerdict>,
    /// Slope of the regression through the origin of the cells' means, by total least squares.
    pub slope: Option<f64>,
    /// The standard error; absent for one cell.
    pub slope_se: Option<f64>,
    /// Its 90 % interval.
    pub slope_ci90: Option<[f64; 2]>,
}

/// The result of a t-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum TVerdict {
    /// p ≤ 0.1.
    Diff,
    /// p > 0.1.
    Same,
}

/// A region, judged on runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimates {
    /// By set: the geometric mean that the ratios are of, over the cells that every run of all
    /// sets has. Runs have equal weights, however many blocks they have. Null where runs share no
    /// cells.
    pub values: BySet<Option<f64>>,
    /// By set other than the baseline; null where they have no cells in common.
    pub against: BySet<Option<RunLevel>>,
}

/// Candidate over baseline, from one mean of logarithms a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunLevel {
    pub ratio: f64,
    /// The interval: 95 %, of all pairs together with more than two sets; absent below two runs a
    /// side.
    pub ci95: Option<[f64; 2]>,
    /// Blocks or runs in common, or runs on the smaller side, as `method` says.
    pub n: usize,
    /// The method of the comparison.
    pub method: Method,
    /// The verdict from the interval.
    pub verdict: Verdict,
    /// The reason why runs are not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<Unjudged>,
    /// The changes that this many runs can show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
}

/// A region of the grid with its cells counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grid {
    /// By set other than the baseline.
    pub against: BySet<Option<GridAgainst>>,
}

/// A region of the grid: the ratio of the runs, and how its cells compare.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GridAgainst {
    /// The ratio as in `estimate`; null if no cell is in every run.
    pub ratio: Option<f64>,
    /// The 95 % interval as in `estimate`.
    pub ci95: Option<[f64; 2]>,
    /// Cells that both sets have.
    pub cells: usize,
    /// Cells where the candidate is better.
    pub faster: usize,
    /// Cells where it is worse.
    pub slower: usize,
    /// Cells whose interval lies within the smallest ratio that matters.
    pub same: usize,
    /// The other cells.
    pub uncertain: usize,
    /// The verdict from the interval of the runs; the cells do not affect it.
    pub verdict: Verdict,
}

/// One file size, or one record size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// The size.
    pub bytes: u64,
    /// The statistics of 2011 of this size alone.
    pub classic: Classic,
    /// The runs over this size alone, and its cells.
    pub grid: Grid,
}

/// One file size × record size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Bytes of the file, where the tool has them.
    pub file_size: Option<u64>,
    /// Bytes of one call, where the tool has them.
    pub record_size: Option<u64>,
    /// The arithmetic mean of each set's runs, as in the classic regression.
    pub means: BySet<f64>,
    /// The values of each set's runs, in their order. A run without this cell has none. Filled only
    /// where [`Single`] asks for it.
    pub values: BySet<Vec<CellValue>>,
    /// The statistics of 2011 of this cell alone; absent where the values are not listed.
    pub classic: Option<Classic>,
    /// By set other than the baseline.
    pub against: BySet<CellAgainst>,
}

/// The operations whose single values the document lists. All single values take twice the memory
/// of everything else.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "a function has none")]
pub enum Single<'a> {
    None,
    /// Operations with a single cell. The report draws every run of such a cell.
    Lone,
    /// Operations for which this function of workload and operation returns true.
    Of(&'a (dyn Fn(Option<&str>, &str) -> bool + Sync)),
    Every,
}

/// One value of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CellValue {
    /// The index of the run in the set, from 0.
    pub run: usize,
    /// In the operation's unit.
    pub value: f64,
}

/// A cell compared with the baseline: a colour of the heat map, no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CellAgainst {
    /// Ratio of geometric means.
    pub ratio: f64,
    /// 95 % interval; absent below two runs a side.
    pub ci95: Option<[f64; 2]>,
    pub colour: Colour,
}

/// The colour of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Better, at the false discovery rate of the settings.
    Faster,
    /// Worse.
    Slower,
    /// Within the smallest ratio that matters.
    Same,
    /// Not significantly different.
    Uncertain,
}

/// A sentence that the data support.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The finding as a sentence.
    pub text: String,
    /// The workload as in `operations`.
    pub workload: Option<String>,
    /// The operation on a file.
    pub operation: String,
    pub metric: String,
    /// The baseline of the comparison.
    pub baseline: String,
    /// The set that is faster or slower.
    pub candidate: String,
    /// Candidate over baseline, from the runs.
    pub ratio: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// The smallest and the largest file size, where there are such.
    pub file_size: Option<[u64; 2]>,
    /// The smallest and the largest record size.
    pub record_size: Option<[u64; 2]>,
    /// Cells of the rectangle.
    pub cells: usize,
    /// Cells that point the same way.
    pub agreeing: usize,
    /// The share of exchanges of the runs' labels that turn up a rectangle like this anywhere.
    #[serde(rename = "p_search")]
    pub p: f64,
    /// Whether the candidate is better.
    #[serde(skip)]
    pub faster: bool,
}

impl Document {
    /// Returns whether an operation has values of two sets, or of the only set.
    pub fn has_common_values(&self) -> bool {
        self.operations.iter().any(|operation| {
            operation.classic.sets.values().flatten().count() >= self.sets.len().min(2)
        })
    }

    /// Removes all verdicts: verdicts, intervals, letters, colours and findings. Measured values
    /// stay, and so do the statistics of 2011, which only describe. `why` becomes the first
    /// warning.
    pub fn withhold(&mut self, why: String) {
        self.operations.iter_mut().for_each(of_operation);
        self.findings.clear();
        self.withheld = true;
        self.warnings.insert(0, why);
        self.urgent += 1;
    }

    /// Like [`Document::withhold`], for one workload. If the workload exists, `why` is added to the
    /// warnings.
    pub fn withhold_at(&mut self, workload: &str, why: String) {
        let meant = Some(workload.to_owned());
        if !self
            .operations
            .iter()
            .any(|operation| operation.workload == meant)
        {
            return;
        }
        // The pool contains the values of the workload.
        for operation in self.operations.iter_mut().filter(|operation| {
            operation.workload == meant
                || (operation.operation == ALL && operation.workload.is_none())
        }) {
            of_operation(operation);
            for level in operation.estimate.against.values_mut().flatten() {
                level.unjudged = level.unjudged.or(Some(Unjudged::Withheld));
            }
        }
        self.findings.retain(|found| found.workload != meant);
        self.warnings.push(why);
    }

    /// Removes all verdicts like [`Document::withhold`], and also everything that compares one
    /// value with another: ratios, changes, p-values, slopes. Measured values stay. `unjudged` is
    /// the short reason, and `why` becomes the first warning.
    pub fn unjudge(&mut self, unjudged: String, why: String) {
        self.withhold(why);
        self.unjudged = Some(unjudged);
        for operation in &mut self.operations {
            operation
                .estimate
                .against
                .values_mut()
                .for_each(|against| *against = None);
            operation
                .classic
                .against
                .values_mut()
                .for_each(|against| *against = None);
            operation.ranking.pairs.clear();
            operation
                .grid
                .iter_mut()
                .flat_map(|grid| grid.against.values_mut())
                .for_each(|against| *against = None);
            for slice in operation
                .by_file_size
                .iter_mut()
                .chain(&mut operation.by_record_size)
            {
                slice
                    .classic
                    .against
                    .values_mut()
                    .for_each(|against| *against = None);
                slice
                    .grid
                    .against
                    .values_mut()
                    .for_each(|against| *against = None);
            }
            operation
                .cells
                .iter_mut()
                .for_each(|cell| cell.against.clear());
        }
    }
}

fn of_operation(operation: &mut Operation) {
    for estimate in operation.estimate.against.values_mut().flatten() {
        (estimate.verdict, estimate.ci95) = (Verdict::NotJudged, None);
    }
    operation.ranking.withhold();
    operation
        .letters
        .values_mut()
        .for_each(|letter| *letter = None);
    withhold_tests(operation, |_| true);
    operation.grid.iter_mut().for_each(of_grid);
    operation
        .by_file_size
        .iter_mut()
        .chain(&mut operation.by_record_size)
        .for_each(|slice| of_grid(&mut slice.grid));
    for comparison in operation
        .cells
        .iter_mut()
        .flat_map(|cell| cell.against.values_mut())
    {
        (comparison.colour, comparison.ci95) = (Colour::Uncertain, None);
    }
}

/// Removes the results of the t-tests of 2011 for some sets.
pub(super) fn withhold_tests(operation: &mut Operation, is_meant: impl Fn(&str) -> bool) {
    let slices = operation
        .by_file_size
        .iter_mut()
        .chain(&mut operation.by_record_size);
    let of_slices = slices.map(|slice| &mut slice.classic);
    for classic in of_slices.chain([&mut operation.classic]) {
        let meant = classic
            .against
            .iter_mut()
            .filter(|(name, _)| is_meant(name));
        meant
            .filter_map(|(_, against)| against.as_mut())
            .for_each(|against| against.t_verdict = None);
    }
}

fn of_grid(grid: &mut Grid) {
    for against in grid.against.values_mut().flatten() {
        (against.verdict, against.ci95) = (Verdict::NotJudged, None);
        (
            against.uncertain,
            against.faster,
            against.slower,
            against.same,
        ) = (against.cells, 0, 0, 0);
    }
}

//! Sets: trials that belong together, of fsb or imported from another tool.
//!
//! A [`Set`] holds [`Run`]s: one execution of a foreign tool, or one block of a run of fsb. A run
//! holds [`Series`], one per column of a foreign table. Every value of a series records its line in
//! the file.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::metric::{Better, Unit};
use crate::stop::Analyses;

/// Trials that belong together: five runs of one tool on one file system, or one target of one run
/// of fsb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Set {
    /// The name in tables, unique in a comparison.
    pub name: String,
    /// Sets with the same pairing are compared block by block, because they took turns in one run
    /// of fsb.
    pub pairing: Option<String>,
    /// The interim analyses of its run.
    #[serde(default)]
    pub analyses: Analyses,
    /// The runs, in the order of the files or of the blocks.
    pub runs: Vec<Run>,
}

/// One execution of a tool, or one block of a run of fsb. Blocks with the same path are of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The tool in lower case: `iozone`, `fio`, `bonnie++`, `postmark`, `filebench`, `fsb`, ….
    pub tool: String,
    /// The system that was measured, if the tool's file names it: one file can hold the results of
    /// several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The version as printed, without decoration: `3.471`.
    pub version: Option<String>,
    /// The command line that made it, if the tool records it.
    pub command: Option<String>,
    /// The file that it was read from, as given.
    pub path: String,
    /// The block, for runs of fsb.
    pub block: Option<u32>,
    /// The slice of the medium that the target had in that block, if targets exchange slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<u32>,
    /// The sessions (boot and UTC day) in which it was made; empty if unknown. Runs of one session
    /// share the state of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    /// The resolution of the tool's clock in seconds, if the tool reports it. Shorter times are
    /// quantised.
    pub clock_resolution: Option<f64>,
    /// The values.
    pub series: Vec<Series>,
    /// By workload, the squared standard error of the logarithm of its rate, from the samples of
    /// the block; a workload with one sample is missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub within: BTreeMap<String, f64>,
    /// Latencies as counts per duration.
    pub histograms: Vec<Histogram>,
    /// Values over time, as a tool logs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
    /// The values within the run whose arithmetic means are values of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Samples>,
    /// Problems of the file that do not make it useless.
    pub warnings: Vec<Remark>,
    /// Failures that the tool reported. The work that they concern has gaps instead of values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Settings that the tool printed and that are not part of a name: a difference between sets is
    /// reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
}

/// A failure that a tool reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The line, from 1, if one reports it.
    pub line: Option<u32>,
    /// The workload that failed, as in [`Series`]. `None` if the run failed as a whole.
    pub workload: Option<String>,
    /// The operation that failed, as in [`Series`]. `None` if every operation of the workload
    /// failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The failure with its cause: `job 'w' failed: no space left on device (28)`.
    pub text: String,
}

/// A setting of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The workload that has it, as in [`Series`]. `None` if the whole run has it.
    pub workload: Option<String>,
    /// The name in the words of the tool: `iodepth`.
    pub name: String,
    /// The value in the words of the tool.
    pub value: String,
}

/// The values of one operation in one metric: a column of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name that distinguishes it from the same operation elsewhere: fio's job, fsb's cell.
    /// Absent if the tool has no such name.
    pub workload: Option<String>,
    /// The operation on a file: `write`, `random_read`, `create`.
    pub operation: String,
    /// The metric: one of [`crate::metric::REGISTRY`] if one fits.
    pub metric: String,
    /// The unit that values are stored in.
    pub unit: Unit,
    /// The direction in which the metric improves.
    pub better: Better,
    /// The unit that values were found in, as the tool writes it: `kB/s`.
    pub found_unit: String,
    /// The values.
    pub points: Vec<Point>,
    /// Places where the tool printed no value.
    pub gaps: Vec<Gap>,
}

/// One value and its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes of the file; absent where the tool has no such parameter.
    pub file_size: Option<u64>,
    /// Bytes of one call; absent where the tool has no such parameter.
    pub record_size: Option<u64>,
    /// The value in the series' unit: finite and above zero.
    pub value: f64,
    /// The line of the file, from 1.
    pub line: u32,
}

/// A place without a value, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Bytes of the file.
    pub file_size: Option<u64>,
    /// Bytes of one call.
    pub record_size: Option<u64>,
    /// The line of the file, from 1.
    pub line: u32,
    /// The reason.
    pub why: GapReason,
}

/// The reason why a tool printed no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The measurement took less than one tick of the tool's clock (IOzone's 0 microseconds).
    BelowClock,
    /// The tool itself calls it too fast to measure (`+++++` of bonnie++).
    TooFast,
    /// The tool printed zero for a rate: it was not run.
    Zero,
    /// The tool ran it and reported a failure.
    Failed,
    /// The tool printed no possible measurement, such as a negative rate.
    Unreadable,
    /// The file has nothing of it, and others of its set have.
    Absent,
}

/// The operation of a file that does not name its work. Such a series has no workload.
pub const UNKNOWN_WORK: &str = "iteration";

/// Latencies of one operation, merged and never averaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// As in [`Series`].
    pub workload: Option<String>,
    /// As in [`Series`].
    pub operation: String,
    /// Nanoseconds and how often, ascending, without zeros.
    pub bins: Vec<(u64, u64)>,
}

/// The values of one operation in one metric over the time of a run. They are parts of one run and
/// no repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// As in [`Series`].
    pub workload: Option<String>,
    /// As in [`Series`].
    pub operation: String,
    /// As in [`Series`].
    pub metric: String,
    /// The end of each interval in seconds from the start of the first one, ascending, and its
    /// value.
    pub points: Vec<(f64, f64)>,
}

/// The values within a run whose arithmetic mean is its only value of an operation in a metric.
/// They are parts of one run and no repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// As in [`Series`].
    pub workload: Option<String>,
    /// As in [`Series`].
    pub operation: String,
    /// As in [`Series`].
    pub metric: String,
    /// In the unit of the series, in order.
    pub values: Vec<f64>,
}

/// A remark about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The line, from 1, if the remark is about one.
    pub line: Option<u32>,
    /// The finding, and how the import treated it.
    pub text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        at_line(self.line, &self.text, f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        at_line(self.line, &self.text, f)
    }
}

fn at_line(line: Option<u32>, text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match line {
        Some(line) => write!(f, "line {line}: {text}"),
        None => f.write_str(text),
    }
}

impl Failure {
    /// Returns whether an operation of a workload failed.
    pub fn concerns(&self, workload: Option<&str>, operation: &str) -> bool {
        self.workload
            .as_deref()
            .is_none_or(|failed| workload == Some(failed))
            && self
                .operation
                .as_deref()
                .is_none_or(|failed| operation == failed)
    }
}

impl Run {
    /// Joins the blocks of executions: the runs of one path and system that are blocks become one
    /// run with the values of all of them. Other runs stay as they are.
    pub fn join_blocks(runs: Vec<Run>) -> Vec<Run> {
        let mut joined: Vec<Run> = Vec::new();
        for run in runs {
            let is_same = |known: &&mut Run| {
                known.block.is_some() && known.path == run.path && known.system == run.system
            };
            match joined.iter_mut().find(is_same) {
                Some(known) if run.block.is_some() => known.append(run),
                _ => joined.push(run),
            }
        }
        joined
    }

    /// Adds the values, gaps, failures and remarks of another block.
    fn append(&mut self, block: Run) {
        for series in block.series {
            let known = self.series.iter_mut().find(|known| {
                (&known.workload, &known.operation, &known.metric)
                    == (&series.workload, &series.operation, &series.metric)
            });
            match known {
                Some(known) => {
                    known.points.extend(series.points);
                    known.gaps.extend(series.gaps);
                }
                None => self.series.push(series),
            }
        }
        self.failures.extend(block.failures);
        self.warnings.extend(block.warnings);
    }

    /// Returns whether it has no value, because nothing ran or everything failed.
    pub fn is_dead(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }
}

impl Series {
    /// Replaces every value by a gap with the reason [`GapReason::Failed`].
    pub fn fail(&mut self) {
        for gap in &mut self.gaps {
            gap.why = GapReason::Failed;
        }
        self.gaps.extend(self.points.drain(..).map(|point| Gap {
            file_size: point.file_size,
            record_size: point.record_size,
            line: point.line,
            why: GapReason::Failed,
        }));
    }
}

impl GapReason {
    /// Every reason, the most severe first.
    pub const ALL: [GapReason; 6] = [
        GapReason::Failed,
        GapReason::Unreadable,
        GapReason::Absent,
        GapReason::Zero,
        GapReason::TooFast,
        GapReason::BelowClock,
    ];

    /// Returns the reason in words.
    pub fn words(self) -> &'static str {
        match self {
            GapReason::BelowClock => "below the clock's resolution",
            GapReason::TooFast => "too fast to measure",
            GapReason::Zero => "not run",
            GapReason::Failed => "ran and failed",
            GapReason::Unreadable => "not a possible value",
            GapReason::Absent => "absent",
        }
    }
}

//! Runs while a reader fills them. Their size is bounded, so that no file exhausts the memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{Display, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

use fsb_model::metric::{Better, MetricKind, Role, Unit};
use fsb_model::set::{Failure, Gap, GapReason, Point, Remark, Run, Series, Setting};

use crate::tool::ReadError;

/// Remarks kept of one run; more are counted.
const MOST_REMARKS: usize = 40;

/// Failures kept of one run.
const MOST_FAILURES: usize = 100;

/// Settings kept of one run.
const MOST_SETTINGS: usize = 2_000;

/// Remarks about runs without a value that an error names.
const MOST_CAUSES: usize = 3;

/// Values and gaps kept of one file. The largest matrix of IOzone has some 5,000.
const MOST_VALUES: usize = 2_000_000;

/// Values kept of one file whose repetitions are runs: each value takes a series of its own.
pub(crate) const MOST_REPETITIONS: usize = 200_000;

/// The failure of an execution that started and printed no value.
const NO_RESULT: &str = "it has no result: the execution ended before";

/// Series kept of one run: columns, or jobs and directions.
const MOST_SERIES: usize = 20_000;

/// Runs kept of one file.
pub(crate) const MOST_RUNS: usize = 10_000;

/// Processor time divided by elapsed time: a cost that IOzone and bonnie++ print as a percentage,
/// stored as a fraction.
pub(crate) const CPU_UTILIZATION: MetricKind = MetricKind {
    name: "cpu_utilization",
    unit: Unit::Count,
    better: Better::Lower,
    role: Role::Cost,
    about: "CPU time divided by elapsed time, as the tool prints it.",
};

/// A run while a reader fills it.
pub(crate) struct Draft {
    pub run: Run,
    tool: &'static str,
    /// The number of each series, by workload, operation and metric.
    index: HashMap<String, usize>,
    key: String,
    values: usize,
    unsaid: usize,
    /// The line at which the execution was seen to start.
    begun: Option<u32>,
    /// The line of the value of a series at a file size and a record size.
    places: HashMap<(usize, Option<u64>, Option<u64>), u32>,
}

/// The runs of a file.
pub(crate) struct Runs {
    tool: &'static str,
    runs: Vec<Run>,
    values: usize,
    /// Remarks about runs without a value.
    causes: Vec<Remark>,
}

/// The name of a series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name<'a> {
    pub workload: Option<&'a str>,
    pub operation: &'a str,
}

/// The position of a value: its sizes and its line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    pub file_size: Option<u64>,
    pub record_size: Option<u64>,
    pub line: u32,
}

impl Draft {
    pub fn new(tool: &'static str) -> Self {
        let run = Run {
            tool: tool.to_owned(),
            ..Run::default()
        };
        let (index, places) = (HashMap::new(), HashMap::new());
        Draft {
            run,
            tool,
            index,
            key: String::new(),
            values: 0,
            unsaid: 0,
            begun: None,
            places,
        }
    }

    /// Records that an execution started to measure at a line. Without a value, such an execution
    /// is a failed run.
    pub fn begin(&mut self, line: u32) {
        self.begun.get_or_insert(line);
    }

    /// Adds a remark about a line or about the whole file. Beyond `MOST_REMARKS`, remarks are only
    /// counted.
    pub fn remark(&mut self, line: impl Into<Option<u32>>, text: impl Display) {
        if self.run.warnings.len() < MOST_REMARKS {
            self.run.warnings.push(Remark {
                line: line.into(),
                text: text.to_string(),
            });
        } else {
            self.unsaid += 1;
        }
    }

    /// Adds a remark unless the run already has one with the same text.
    pub(crate) fn remark_once(&mut self, line: impl Into<Option<u32>>, text: &str) {
        if self.run.warnings.iter().all(|remark| remark.text != text) {
            self.remark(line, text);
        }
    }

    /// Records that the run failed, or one workload of it. [`Draft::finish`] replaces the values of
    /// the failed work by gaps, so that nothing is judged by them.
    pub fn fail(
        &mut self,
        line: impl Into<Option<u32>>,
        workload: Option<&str>,
        text: impl Display,
    ) {
        let workload = workload.map(|workload| shortened(workload).into_owned());
        self.keep_failure(Failure {
            line: line.into(),
            workload,
            operation: None,
            text: text.to_string(),
        });
    }

    /// Records that one operation failed, as [`Draft::fail`] does.
    pub fn fail_operation(&mut self, line: impl Into<Option<u32>>, name: Name, text: impl Display) {
        let workload = name
            .workload
            .map(|workload| shortened(workload).into_owned());
        let operation = Some(name.operation.to_owned());
        self.keep_failure(Failure {
            line: line.into(),
            workload,
            operation,
            text: text.to_string(),
        });
    }

    fn keep_failure(&mut self, mut failure: Failure) {
        failure.text = shortened(&failure.text).into_owned();
        let failures = &mut self.run.failures;
        let is_same = |known: &Failure| {
            Failure {
                line: failure.line,
                ..known.clone()
            } == failure
        };
        if failures.iter().any(is_same) {
            return;
        }
        if failures.len() < MOST_FAILURES {
            failures.push(failure);
        } else if failures
            .last()
            .is_some_and(|last| last.workload.is_some() || last.operation.is_some())
        {
            // The rest is not kept, so that nothing of the run may be judged.
            let text = "more failures are not shown".to_owned();
            failures.push(Failure {
                line: failure.line,
                workload: None,
                operation: None,
                text,
            });
        }
    }

    /// Records a setting of the run, or of one workload of it, that is not part of a name. Keeps
    /// the first value.
    pub fn setting(&mut self, workload: Option<&str>, name: &str, value: impl Display) {
        let settings = &mut self.run.settings;
        if settings.len() >= MOST_SETTINGS {
            return;
        }
        let workload = workload.map(shortened);
        if !settings
            .iter()
            .any(|known| known.workload.as_deref() == workload.as_deref() && known.name == name)
        {
            let value = shortened(&value.to_string()).into_owned();
            settings.push(Setting {
                workload: workload.map(Cow::into_owned),
                name: name.to_owned(),
                value,
            });
        }
    }

    /// Returns the index of the series of an operation and metric. Creates the series if it does
    /// not exist.
    ///
    /// # Errors
    /// Fails if a run holds more series than any tool prints.
    pub fn series(
        &mut self,
        name: Name,
        metric: &MetricKind,
        found_unit: &str,
    ) -> Result<usize, ReadError> {
        let short = name.workload.map(shortened);
        let name = Name {
            workload: short.as_deref(),
            ..name
        };
        self.key.clear();
        let workload = name.workload.unwrap_or("\u{1}");
        let _ = write!(self.key, "{workload}\0{}\0{}", name.operation, metric.name); // a String takes anything
        if let Some(at) = self.index.get(&self.key) {
            return Ok(*at);
        }
        if self.run.series.len() == MOST_SERIES {
            return Err(too_much(self.tool, MOST_SERIES, "operations"));
        }
        self.run.series.push(Series {
            workload: name.workload.map(str::to_owned),
            operation: name.operation.to_owned(),
            metric: metric.name.to_owned(),
            unit: metric.unit,
            better: metric.better,
            found_unit: found_unit.to_owned(),
            points: Vec::new(),
            gaps: Vec::new(),
        });
        self.index
            .insert(self.key.clone(), self.run.series.len() - 1);
        Ok(self.run.series.len() - 1)
    }

    /// Adds a value to a series, or a gap if the value is missing. Leaves out a value that no
    /// machine can have measured, and adds a remark about it.
    ///
    /// # Errors
    /// Fails if a run holds more values than any tool prints.
    pub fn put(
        &mut self,
        series: usize,
        place: Position,
        value: Result<f64, GapReason>,
    ) -> Result<(), ReadError> {
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(too_much(self.tool, MOST_VALUES, "values"));
        }
        let Position {
            file_size,
            record_size,
            line,
        } = place;
        match value {
            Ok(value) if believable(self.run.series[series].unit, value) => {
                self.places
                    .entry((series, file_size, record_size))
                    .or_insert(line);
                self.run.series[series].points.push(Point {
                    file_size,
                    record_size,
                    value,
                    line,
                });
            }
            Ok(value) => {
                let Series {
                    operation, unit, ..
                } = &self.run.series[series];
                let text = format!(
                    "{operation}: {value:e} {} is not a possible measurement; left out",
                    unit.name()
                );
                self.remark(line, text);
                let why = GapReason::Unreadable;
                self.run.series[series].gaps.push(Gap {
                    file_size,
                    record_size,
                    line,
                    why,
                });
            }
            Err(why) => self.run.series[series].gaps.push(Gap {
                file_size,
                record_size,
                line,
                why,
            }),
        }
        Ok(())
    }

    /// Returns whether [`Draft::put`] was called: for a value, even one that was left out, or for a
    /// gap.
    pub fn has_values(&self) -> bool {
        self.values > 0
    }

    /// Combines [`Draft::series`] and [`Draft::put`], for tools that print few values. Keeps the
    /// first value at a position.
    ///
    /// # Errors
    /// As those two.
    pub fn add(
        &mut self,
        name: Name,
        metric: &MetricKind,
        found_unit: &str,
        place: Position,
        value: Result<f64, GapReason>,
    ) -> Result<(), ReadError> {
        let series = self.series(name, metric, found_unit)?;
        if let Some(line) = self
            .places
            .get(&(series, place.file_size, place.record_size))
            .copied()
        {
            let Name { operation, .. } = name;
            self.remark(
                place.line,
                format_args!("{operation}: second value after line {line}; the first is kept"),
            );
            return Ok(());
        }
        self.put(series, place, value)
    }

    /// Returns the run, or the remarks if it has neither values nor failures and did not begin.
    pub fn finish(mut self) -> Result<Run, Vec<Remark>> {
        let Run {
            series,
            histograms,
            timelines,
            failures,
            ..
        } = &mut self.run;
        let names = histograms.iter_mut().map(|found| &mut found.workload);
        for name in names
            .chain(timelines.iter_mut().map(|found| &mut found.workload))
            .flatten()
        {
            *name = shortened(name).into_owned();
        }
        for failure in failures {
            series
                .iter_mut()
                .filter(|series| failure.concerns(series.workload.as_deref(), &series.operation))
                .for_each(Series::fail);
            histograms
                .retain(|found| !failure.concerns(found.workload.as_deref(), &found.operation));
            timelines
                .retain(|found| !failure.concerns(found.workload.as_deref(), &found.operation));
        }
        self.run
            .series
            .retain(|series| !(series.points.is_empty() && series.gaps.is_empty()));
        if self.unsaid > 0 {
            let text = format!("{} more remarks are not shown", self.unsaid);
            self.run.warnings.push(Remark { line: None, text });
        }
        let Run {
            series,
            histograms,
            failures,
            ..
        } = &mut self.run;
        if let (Some(line), true) = (
            self.begun,
            series.is_empty() && histograms.is_empty() && failures.is_empty(),
        ) {
            let text = NO_RESULT.to_owned();
            failures.push(Failure {
                line: Some(line),
                workload: None,
                operation: None,
                text,
            });
        }
        match series.is_empty() && histograms.is_empty() && failures.is_empty() {
            true => Err(self.run.warnings),
            false => Ok(self.run),
        }
    }
}

impl Runs {
    pub fn new(tool: &'static str) -> Self {
        Runs {
            tool,
            runs: Vec::new(),
            values: 0,
            causes: Vec::new(),
        }
    }

    /// Keeps a run, if it holds anything.
    ///
    /// # Errors
    /// Fails if a file holds more than any tool prints.
    pub fn push(&mut self, draft: Draft) -> Result<(), ReadError> {
        self.values += draft.values;
        match draft.finish() {
            Ok(run) => self.runs.push(run),
            Err(remarks) => {
                let room = MOST_CAUSES.saturating_sub(self.causes.len());
                self.causes.extend(remarks.into_iter().take(room));
            }
        }
        if self.runs.len() > MOST_RUNS {
            return Err(too_much(self.tool, MOST_RUNS, "runs"));
        }
        if self.values > MOST_VALUES {
            return Err(too_much(self.tool, MOST_VALUES, "values"));
        }
        Ok(())
    }

    /// Returns the first run, for remarks about the whole file.
    pub fn first_mut(&mut self) -> Option<&mut Run> {
        self.runs.first_mut()
    }

    /// Returns the runs, in the order of the file. Remarks about executions without a value go to
    /// the first one.
    ///
    /// # Errors
    /// Fails if there are none, or none with a result. `why` says what is missing, and remarks say
    /// what the file reports.
    pub fn finish(mut self, why: impl FnOnce() -> String) -> Result<Vec<Run>, ReadError> {
        if self.runs.iter().all(has_no_result) {
            let remarks = self.runs.drain(..).flat_map(|run| run.warnings);
            let room = MOST_CAUSES.saturating_sub(self.causes.len());
            self.causes.extend(remarks.take(room));
        }
        if let Some(first) = self.runs.first_mut() {
            first.warnings.append(&mut self.causes);
            return Ok(self.runs);
        }
        let causes = self
            .causes
            .iter()
            .map(Remark::to_string)
            .fold(String::new(), |all, cause| all + "; " + &cause);
        Err(ReadError::refused(self.tool, why() + &causes))
    }
}

/// Returns whether an execution ended before a result, and printed no reason.
fn has_no_result(run: &Run) -> bool {
    matches!(&run.failures[..], [only] if only.text == NO_RESULT)
}

/// Characters of a workload's name that are kept. Commands and job names are shorter.
const LONGEST_NAME: usize = 300;

/// Returns the name of a workload, cut if it is longer than any real one. A hash keeps names with
/// the same start apart.
fn shortened(name: &str) -> Cow<'_, str> {
    if name.len() <= LONGEST_NAME {
        return name.into();
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let start: String = name.chars().take(LONGEST_NAME / 4).collect();
    format!("{start}… ({:016x})", hasher.finish()).into()
}

pub(crate) fn too_much(tool: &'static str, most: usize, what: &str) -> ReadError {
    let why = format!(
        "it holds more than {most} {what}, the most that fsb reads of a file; split the file"
    );
    ReadError::refused(tool, why)
}

/// Returns a rate, or a gap if the tool printed zero.
pub(crate) fn rate(value: f64) -> Result<f64, GapReason> {
    if value == 0.0 {
        Err(GapReason::Zero)
    } else {
        Ok(value)
    }
}

/// Returns a time, or a gap if the tool printed zero because the time was below its clock
/// resolution.
pub(crate) fn time(value: f64) -> Result<f64, GapReason> {
    if value == 0.0 {
        Err(GapReason::BelowClock)
    } else {
        Ok(value)
    }
}

/// Returns whether a machine can have measured the value. Wrapped counters and numbers run together
/// are larger by orders of magnitude.
fn believable(unit: Unit, value: f64) -> bool {
    let most = match unit {
        Unit::BytesPerSecond => 1e15,
        Unit::OperationsPerSecond => 1e12,
        Unit::Seconds => 1e8,
        Unit::Bytes | Unit::Count => 1e18,
    };
    value > 0.0 && value < most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_that_began_without_a_value_is_a_failed_run() {
        let mut runs = Runs::new("tool");
        for (line, is_good) in [(1, true), (7, false), (9, true)] {
            let mut draft = Draft::new("tool");
            draft.begin(line);
            draft.begin(line + 1);
            if is_good {
                let (name, place) = (
                    Name {
                        workload: None,
                        operation: "read",
                    },
                    Position::default(),
                );
                draft
                    .add(
                        name,
                        &fsb_model::metric::OPERATION_RATE,
                        "ops/s",
                        place,
                        Ok(5.0),
                    )
                    .unwrap();
            }
            runs.push(draft).unwrap();
        }
        runs.push(Draft::new("tool")).unwrap();
        let runs = runs.finish(String::new).unwrap();
        let failures: Vec<_> = runs
            .iter()
            .map(|run| run.failures.first().map(ToString::to_string))
            .collect();
        assert_eq!(failures, [None, Some(format!("line 7: {NO_RESULT}")), None]);
    }

    #[test]
    fn a_file_without_any_result_is_refused_with_its_remarks() {
        let mut draft = Draft::new("tool");
        draft.begin(3);
        draft.remark(4, "a cause");
        let mut runs = Runs::new("tool");
        runs.push(draft).unwrap();
        let error = runs.finish(|| "it has no table".to_owned()).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("it has no table; line 4: a cause"),
            "{error}"
        );
    }
}

//! Every statistic in long form, one number per line, for R, pandas and a spreadsheet.
//!
//! `scope` names the subject of a statistic: the whole operation, one file size, one record size,
//! one cell of the grid, or one run in one cell. `baseline` is filled in if a number compares.
//! Verdicts are lines too, with a word as their value. A missing value has no line. If nothing is
//! judged, the last column `unjudged` contains the reason.

use std::io::Write;

use fsb_stats::compare::{Classic, Estimates, Grid, Operation};

use super::trials::{UNJUDGED, text};
use crate::operation::{Selection, colour_word, method_name, t_word};

/// Returns the whole table.
pub(in crate::format) fn statistics(selection: Selection<'_>) -> String {
    let mut lines = LongTable::new(
        &selection.document.baseline,
        selection.document.unjudged.as_deref(),
    );
    let mut last = None;
    for operation in selection.operations() {
        whole(&mut lines, operation);
        // Latencies belong to the operation, so they are written once and not for each of its
        // metrics.
        let what = (&operation.workload, &operation.operation);
        if last.replace(what) != Some(what) {
            latencies(&mut lines, operation);
        }
        sizes(&mut lines, operation);
        cells(&mut lines, operation);
    }
    lines.finish()
}

fn whole(lines: &mut LongTable<'_>, operation: &Operation) {
    let line = Record::new(operation, Scope::Operation);
    classic(lines, line, &operation.classic);
    estimates(lines, line, &operation.estimate);
    if let Some(found) = &operation.grid {
        grid(lines, line, found);
    }
    for (set, letters) in &operation.letters {
        lines.word(&line.about(set), "letters", letters.as_deref());
    }
}

fn latencies(lines: &mut LongTable<'_>, operation: &Operation) {
    let line = Record::new(operation, Scope::Operation);
    for (set, quantiles) in &operation.latencies {
        for quantile in quantiles {
            // Latencies are in seconds, independent of the operation's unit.
            let line = Record {
                unit: "seconds",
                ..line.about(set)
            };
            lines.number(&line, &format!("latency_q{}", quantile.q), quantile.seconds);
        }
    }
}

fn sizes(lines: &mut LongTable<'_>, operation: &Operation) {
    for slice in &operation.by_file_size {
        let line = Record {
            file_size: Some(slice.bytes),
            ..Record::new(operation, Scope::FileSize)
        };
        classic(lines, line, &slice.classic);
        grid(lines, line, &slice.grid);
    }
    for slice in &operation.by_record_size {
        let line = Record {
            record_size: Some(slice.bytes),
            ..Record::new(operation, Scope::RecordSize)
        };
        classic(lines, line, &slice.classic);
        grid(lines, line, &slice.grid);
    }
}

fn classic<'a>(lines: &mut LongTable<'_>, line: Record<'a>, classic: &'a Classic) {
    for (set, pooled) in &classic.sets {
        let Some(pooled) = pooled else { continue };
        let line = &line.about(set);
        lines.count(line, "n", pooled.n);
        lines.number(line, "mean", pooled.mean);
        lines.optional(line, "sd", pooled.sd);
        lines.interval(line, ["ci90_lo", "ci90_hi"], pooled.ci90);
        lines.number(line, "geometric_mean", pooled.geometric_mean);
        lines.number(line, "median", pooled.median);
        lines.number(line, "q1", pooled.q1);
        lines.number(line, "q3", pooled.q3);
        lines.number(line, "min", pooled.min);
        lines.number(line, "max", pooled.max);
    }
    for (set, against) in &classic.against {
        let Some(against) = against else { continue };
        let line = &line.against(set);
        lines.number(line, "median_change", against.median_change);
        lines.optional(line, "t_p", against.t_p);
        lines.word(line, "t_verdict", against.t_verdict.map(t_word));
        lines.optional(line, "slope", against.slope);
        lines.optional(line, "slope_se", against.slope_se);
        lines.interval(line, ["slope_ci90_lo", "slope_ci90_hi"], against.slope_ci90);
    }
}

fn estimates<'a>(lines: &mut LongTable<'_>, line: Record<'a>, estimates: &'a Estimates) {
    for (set, estimate) in &estimates.against {
        let Some(estimate) = estimate else { continue };
        let line = &line.against(set);
        lines.number(line, "estimate_ratio", estimate.ratio);
        lines.interval(
            line,
            ["estimate_ci95_lo", "estimate_ci95_hi"],
            estimate.ci95,
        );
        lines.count(line, "estimate_n", estimate.n);
        lines.word(line, "estimate_method", Some(method_name(estimate.method)));
        lines.word(line, "estimate_verdict", Some(estimate.verdict.name()));
    }
}

fn grid<'a>(lines: &mut LongTable<'_>, line: Record<'a>, grid: &'a Grid) {
    for (set, found) in &grid.against {
        let Some(found) = found else { continue };
        let line = &line.against(set);
        lines.optional(line, "grid_ratio", found.ratio);
        lines.interval(line, ["grid_ci95_lo", "grid_ci95_hi"], found.ci95);
        lines.count(line, "grid_cells", found.cells);
        lines.count(line, "grid_faster", found.faster);
        lines.count(line, "grid_slower", found.slower);
        lines.count(line, "grid_same", found.same);
        lines.count(line, "grid_uncertain", found.uncertain);
        lines.word(line, "grid_verdict", Some(found.verdict.name()));
    }
}

fn cells(lines: &mut LongTable<'_>, operation: &Operation) {
    for cell in &operation.cells {
        let at = |scope| Record {
            file_size: cell.file_size,
            record_size: cell.record_size,
            ..Record::new(operation, scope)
        };
        let line = at(Scope::Cell);
        for (set, against) in &cell.against {
            let line = &line.against(set);
            lines.number(line, "cell_ratio", against.ratio);
            lines.interval(line, ["cell_ci95_lo", "cell_ci95_hi"], against.ci95);
            lines.word(line, "cell_colour", Some(colour_word(against.colour)));
        }
        if let Some(found) = &cell.classic {
            classic(lines, line, found);
        }
        let line = at(Scope::Run);
        for (set, values) in &cell.values {
            for value in values {
                let line = Record {
                    run: Some(value.run + 1),
                    ..line.about(set)
                };
                lines.number(&line, "value", value.value);
            }
        }
    }
}

/// The columns.
const COLUMNS: [&str; 12] = [
    "workload",
    "operation",
    "metric",
    "unit",
    "set",
    "baseline",
    "scope",
    "file_size",
    "record_size",
    "run",
    "statistic",
    "value",
];

/// The subject of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Operation,
    FileSize,
    RecordSize,
    Cell,
    Run,
}

/// A line without its statistic.
#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    unit: &'static str,
    file_size: Option<u64>,
    record_size: Option<u64>,
    /// From 1.
    run: Option<usize>,
    operation: &'a Operation,
    scope: Scope,
    set: &'a str,
    /// Whether the statistic compares the set with the baseline.
    compares: bool,
}

/// A table under construction.
struct LongTable<'a> {
    writer: ::csv::Writer<Vec<u8>>,
    baseline: &'a str,
    /// The reason why nothing is judged, which fills the last column. `None` if results are judged.
    unjudged: Option<&'a str>,
    /// Reused for every number.
    buffer: [Vec<u8>; 4],
}

impl Scope {
    fn name(self) -> &'static str {
        match self {
            Scope::Operation => "operation",
            Scope::FileSize => "file_size",
            Scope::RecordSize => "record_size",
            Scope::Cell => "cell",
            Scope::Run => "run",
        }
    }
}

impl<'a> Record<'a> {
    fn new(operation: &'a Operation, scope: Scope) -> Record<'a> {
        let unit = operation.unit.name();
        Record {
            unit,
            file_size: None,
            record_size: None,
            run: None,
            operation,
            scope,
            set: "",
            compares: false,
        }
    }

    /// Returns the line about one set.
    fn about(self, set: &'a str) -> Record<'a> {
        Record {
            set,
            compares: false,
            ..self
        }
    }

    /// Returns the line about one set compared with the baseline.
    fn against(self, set: &'a str) -> Record<'a> {
        Record {
            set,
            compares: true,
            ..self
        }
    }
}

impl<'a> LongTable<'a> {
    fn new(baseline: &'a str, unjudged: Option<&'a str>) -> LongTable<'a> {
        let mut writer = ::csv::WriterBuilder::new().from_writer(Vec::new());
        let head = COLUMNS.into_iter().chain(unjudged.map(|_| UNJUDGED));
        writer
            .write_record(head)
            .expect("a vector takes every record");
        LongTable {
            writer,
            baseline,
            unjudged,
            buffer: Default::default(),
        }
    }

    fn finish(self) -> String {
        let bytes = self
            .writer
            .into_inner()
            .expect("a vector never fails to flush");
        String::from_utf8(bytes).expect("only text was written")
    }

    fn count(&mut self, line: &Record<'_>, statistic: &str, value: usize) {
        self.write(line, statistic, |buffer| write!(buffer, "{value}"));
    }

    /// Writes a number in full precision, as the shortest text that reads back as the same number.
    fn number(&mut self, line: &Record<'_>, statistic: &str, value: f64) {
        if value.is_finite() {
            self.write(line, statistic, |buffer| write!(buffer, "{value:?}"));
        }
    }

    fn optional(&mut self, line: &Record<'_>, statistic: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.number(line, statistic, value);
        }
    }

    fn interval(&mut self, line: &Record<'_>, statistics: [&str; 2], interval: Option<[f64; 2]>) {
        if let Some([lo, hi]) = interval {
            self.number(line, statistics[0], lo);
            self.number(line, statistics[1], hi);
        }
    }

    fn word(&mut self, line: &Record<'_>, statistic: &str, word: Option<&str>) {
        if let Some(word) = word {
            self.write(line, statistic, |buffer| {
                buffer.write_all(text(word).as_bytes())
            });
        }
    }

    fn write(
        &mut self,
        line: &Record<'_>,
        statistic: &str,
        value: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
    ) {
        let [file_size, record_size, run, shown] = &mut self.buffer;
        let numbers = [
            (file_size, line.file_size),
            (record_size, line.record_size),
            (run, line.run.map(|n| n as u64)),
        ];
        for (buffer, number) in numbers {
            buffer.clear();
            if let Some(number) = number {
                write!(buffer, "{number}").expect("a vector takes every byte");
            }
        }
        shown.clear();
        value(shown).expect("a vector takes every byte");
        let [file_size, record_size, run, shown] = &self.buffer;
        let operation = line.operation;
        let names = [
            operation.workload.as_deref().unwrap_or_default(),
            &operation.operation,
            &operation.metric,
            line.set,
            if line.compares { self.baseline } else { "" },
        ];
        let [workload, name, metric, set, baseline] = &names.map(text);
        let fields: [&[u8]; 12] = [
            workload.as_bytes(),
            name.as_bytes(),
            metric.as_bytes(),
            line.unit.as_bytes(),
            set.as_bytes(),
            baseline.as_bytes(),
            line.scope.name().as_bytes(),
            file_size,
            record_size,
            run,
            statistic.as_bytes(),
            shown,
        ];
        let unjudged = self.unjudged.map(text);
        let fields = fields
            .into_iter()
            .chain(unjudged.as_deref().map(str::as_bytes));
        self.writer
            .write_record(fields)
            .expect("all records have the same number of fields");
    }
}

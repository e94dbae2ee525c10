//! The lines of the long form.

use std::io::Write as _;

use fsb_stats::compare::Operation;

use crate::format::csv::cell::{UNJUDGED, text};

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
pub(super) enum Scope {
    Operation,
    FileSize,
    RecordSize,
    Cell,
    Run,
}

/// A line without its statistic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) unit: &'static str,
    pub(super) file_size: Option<u64>,
    pub(super) record_size: Option<u64>,
    /// From 1.
    pub(super) run: Option<usize>,
    pub(super) operation: &'a Operation,
    pub(super) scope: Scope,
    pub(super) set: &'a str,
    /// Whether the statistic compares the set with the baseline.
    pub(super) compares: bool,
}

/// A table under construction.
pub(super) struct LongTable<'a> {
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
    pub(super) fn of(operation: &'a Operation, scope: Scope) -> Record<'a> {
        let unit = operation.unit.name();
        Record { unit, file_size: None, record_size: None, run: None, operation, scope, set: "", compares: false }
    }

    /// Returns the line about one set.
    pub(super) fn about(self, set: &'a str) -> Record<'a> {
        Record { set, compares: false, ..self }
    }

    /// Returns the line about one set compared with the baseline.
    pub(super) fn against(self, set: &'a str) -> Record<'a> {
        Record { set, compares: true, ..self }
    }
}

impl<'a> LongTable<'a> {
    pub(super) fn new(baseline: &'a str, unjudged: Option<&'a str>) -> LongTable<'a> {
        let mut writer = ::csv::WriterBuilder::new().from_writer(Vec::new());
        let head = COLUMNS.into_iter().chain(unjudged.map(|_| UNJUDGED));
        writer.write_record(head).expect("a vector takes every record");
        LongTable { writer, baseline, unjudged, buffer: Default::default() }
    }

    pub(super) fn finish(self) -> String {
        let bytes = self.writer.into_inner().expect("a vector never fails to flush");
        String::from_utf8(bytes).expect("only text was written")
    }

    pub(super) fn count(&mut self, line: &Record<'_>, statistic: &str, value: usize) {
        self.write(line, statistic, |buffer| write!(buffer, "{value}"));
    }

    /// Writes a number in full precision, as the shortest text that reads back as the same number.
    pub(super) fn number(&mut self, line: &Record<'_>, statistic: &str, value: f64) {
        if value.is_finite() {
            self.write(line, statistic, |buffer| write!(buffer, "{value:?}"));
        }
    }

    pub(super) fn optional(&mut self, line: &Record<'_>, statistic: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.number(line, statistic, value);
        }
    }

    pub(super) fn interval(&mut self, line: &Record<'_>, statistics: [&str; 2], interval: Option<[f64; 2]>) {
        if let Some([lo, hi]) = interval {
            self.number(line, statistics[0], lo);
            self.number(line, statistics[1], hi);
        }
    }

    pub(super) fn word(&mut self, line: &Record<'_>, statistic: &str, word: Option<&str>) {
        if let Some(word) = word {
            self.write(line, statistic, |buffer| buffer.write_all(text(word).as_bytes()));
        }
    }

    fn write(&mut self, line: &Record<'_>, statistic: &str, value: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) {
        let [file_size, record_size, run, shown] = &mut self.buffer;
        let numbers = [(file_size, line.file_size), (record_size, line.record_size), (run, line.run.map(|n| n as u64))];
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
        let fields = fields.into_iter().chain(unjudged.as_deref().map(str::as_bytes));
        self.writer.write_record(fields).expect("all records have the same number of fields");
    }
}

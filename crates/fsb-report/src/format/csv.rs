//! Tables in long form, for R, pandas and a spreadsheet: of a run every trial, of a comparison
//! every statistic.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use std::str::FromStr;

use fsb_model::metric::{self, Role};
use fsb_model::{Bytes, Outcome};
use fsb_stats::compare::{Classic, Document, Estimates, Grid, Operation};
use serde_json::Value;

use super::member::Format;
use crate::compare::Selection;
use crate::compare::operation::{colour_word, method_name, t_word};
use crate::mark;
use crate::report::Report;
use crate::run::{MetricKind, ReportTrial, Summary};

pub(super) const FORMAT: Format = Format {
    name: "csv",
    extension: "csv",
    about: "every trial in long form: rates and latencies, one line each (trials.csv)",
    binary: false,
    write,
};

/// Returns the values of an operation, one line each: the set, the run with its file, the sizes and
/// the value.
///
/// The sets list the file of each run only if each run has one file.
pub fn values(document: &Document, operation: &Operation) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = [
        "set",
        "run",
        "path",
        "file_size",
        "record_size",
        "value",
        "unit",
    ];
    writer
        .write_record(head)
        .expect("a vector takes every record");
    let size = |size: Option<u64>| size.map(|size| size.to_string()).unwrap_or_default();
    for set in &document.sets {
        let path = |run: usize| {
            set.files
                .get(run)
                .filter(|_| set.files.len() == set.runs)
                .map(String::as_str)
        };
        for cell in &operation.cells {
            for value in cell.values.get(&set.name).into_iter().flatten() {
                let record = [
                    text(&set.name).into_owned(),
                    (value.run + 1).to_string(),
                    path(value.run).map(text).unwrap_or_default().into_owned(),
                    size(cell.file_size),
                    size(cell.record_size),
                    value.value.to_string(),
                    operation.unit.name().to_owned(),
                ];
                writer
                    .write_record(record)
                    .expect("a vector takes every record");
            }
        }
    }
    String::from_utf8_lossy(&writer.into_inner().expect("a vector never fails to flush"))
        .into_owned()
}

/// Writes the whole table.
fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    match report {
        Report::Run { summary, trials } => write_trials(trials, summary, output),
        Report::Comparison {
            document, detail, ..
        } => output.write_all(
            statistics(Selection {
                document,
                detail: *detail,
            })
            .as_bytes(),
        ),
    }
}

// Every statistic in long form, one number per line, for R, pandas and a spreadsheet.
//
// `scope` names the subject of a statistic: the whole operation, one file size, one record size,
// one cell of the grid, or one run in one cell. `baseline` is filled in if a number compares.
// Verdicts are lines too, with a word as their value. A missing value has no line. If nothing is
// judged, the last column `unjudged` contains the reason.

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

// `trials.csv`: one line a trial and metric, for R, pandas and a spreadsheet.
//
// Measured trials only; rates and latencies, not costs. A trial without a value has one line, of
// the metric that its workload is compared by, with an empty value and the reason as its outcome.
// Columns are read by name; new ones come only at the end.

/// Makes a text harmless in its cell.
type Escape = fn(&str) -> Cow<'_, str>;

/// The columns.
pub(in crate::format) const TRIAL_COLUMNS: [&str; 18] = [
    "target",
    "workload",
    "operation",
    "file_size",
    "record_size",
    "threads",
    "block",
    "order",
    "metric",
    "value",
    "unit",
    "outcome",
    "kernel",
    "cache",
    "backend",
    "durability",
    "slice",
    "unsafe",
];

/// Writes trials.csv. If nothing of the run is judged, each line has one more column with the
/// reason.
fn write_trials(
    trials: &[ReportTrial],
    summary: &Summary,
    output: &mut dyn Write,
) -> io::Result<()> {
    let unjudged = summary.unjudged.as_deref();
    let mut writer = ::csv::WriterBuilder::new().from_writer(output);
    let with = |record: &[String], last: &str| match unjudged {
        Some(_) => [record, &[last.to_owned()]].concat(),
        None => record.to_vec(),
    };
    let unjudged = unjudged.map(text);
    let unjudged = unjudged.as_deref();
    writer.write_record(with(&TRIAL_COLUMNS.map(str::to_owned), UNJUDGED))?;
    for record in trial_records(trials, summary, text) {
        writer.write_record(with(&record, unjudged.unwrap_or_default()))?;
    }
    writer.flush()
}

/// Returns the lines, their texts escaped by `escape`.
pub(in crate::format) fn trial_records<'a>(
    trials: &'a [ReportTrial],
    summary: &'a Summary,
    escape: Escape,
) -> impl Iterator<Item = [String; 18]> + 'a {
    let counted = || trials.iter().filter(|trial| trial.counts());
    let mut kinds: HashMap<&str, &MetricKind> = HashMap::new();
    for trial in counted() {
        if let Some(metric) = trial.primary() {
            kinds.entry(&trial.what.workload).or_insert(metric.kind);
        }
    }
    counted().flat_map(move |trial| {
        let lines = lines(trial, &kinds).into_iter();
        lines.map(move |(metric, value)| record(trial, metric, value, summary, escape))
    })
}

/// Returns the metrics of a trial for this file, with their values. A trial without values has the
/// metrics that it would have measured.
fn lines<'a>(
    trial: &'a ReportTrial,
    kinds: &HashMap<&str, &'a MetricKind>,
) -> Vec<(Option<&'a MetricKind>, Option<f64>)> {
    if trial.outcome != Outcome::Ok {
        return vec![(kinds.get(&*trial.what.workload).copied(), None)];
    }
    trial
        .metrics()
        .enumerate()
        .filter(|(place, metric)| {
            *place == 0
                || metric::find(&metric.kind.name).is_some_and(|kind| kind.role != Role::Cost)
        })
        .map(|(_, metric)| (Some(metric.kind), Some(metric.value)))
        .collect()
}

fn record(
    trial: &ReportTrial,
    metric: Option<&MetricKind>,
    value: Option<f64>,
    summary: &Summary,
    text: Escape,
) -> [String; 18] {
    let target = summary
        .targets
        .iter()
        .find(|target| target.name == trial.what.target);
    let param = |key: &str| match trial.what.params.get(key) {
        Some(Value::String(found)) => text(found).into_owned(),
        Some(Value::Null) | None => String::new(),
        Some(number @ Value::Number(_)) => number.to_string(),
        Some(other) => text(&other.to_string()).into_owned(),
    };
    let size = |key: &str| {
        let text = param(key);
        Bytes::from_str(&text).map_or(text, |bytes| bytes.0.to_string())
    };
    [
        text(&trial.what.target).into_owned(),
        text(&trial.what.workload).into_owned(),
        text(&trial.what.operation).into_owned(),
        size("file_size"),
        size("block_size"),
        param("threads"),
        trial.block.to_string(),
        trial.order.to_string(),
        metric
            .map(|metric| text(&metric.name).into_owned())
            .unwrap_or_default(),
        value
            .filter(|value| value.is_finite())
            .map(|value| value.to_string())
            .unwrap_or_default(),
        metric
            .map(|metric| metric.unit.name().to_owned())
            .unwrap_or_default(),
        text(&trial.reason()).into_owned(),
        text(&trial.what.kernel).into_owned(),
        param("cache"),
        param("backend"),
        param("durability"),
        trial
            .slice
            .map(|slice| slice.to_string())
            .unwrap_or_default(),
        target
            .map(|target| text(&mark::causes(&target.risks)).into_owned())
            .unwrap_or_default(),
    ]
}

/// The column with the reason why nothing is judged, in tables of such runs and comparisons.
const UNJUDGED: &str = "unjudged";

/// Returns a text as a cell of a table that a spreadsheet may open. A text that would begin a
/// formula there gets an apostrophe in front, which spreadsheets take as the sign of text. Numbers
/// are written without this function.
pub(in crate::format) fn text(text: &str) -> Cow<'_, str> {
    const FORMULAS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];
    // A text that begins with apostrophes before a formula gets one more, so that it differs from a
    // quoted one.
    let begins = text.trim_start_matches('\'').starts_with(FORMULAS);
    if begins {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use fsb_model::run::Risk;
    use fsb_model::{RunRecord, Trial};
    use fsb_stats::compare::Document;

    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone, workloads};

    /// LongTable by column.
    fn parsed(document: &Document, detail: Option<&str>) -> Vec<HashMap<String, String>> {
        let text = statistics(Selection { document, detail });
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        reader
            .deserialize()
            .map(|line| line.expect("the table is CSV"))
            .collect()
    }

    /// Returns the only value of a line that has all of these.
    fn value<'a>(lines: &'a [HashMap<String, String>], wanted: &[(&str, &str)]) -> &'a str {
        let fits = |line: &&HashMap<String, String>| {
            wanted.iter().all(|(column, text)| line[*column] == *text)
        };
        let found: Vec<_> = lines.iter().filter(fits).collect();
        assert_eq!(found.len(), 1, "{wanted:?}");
        &found[0]["value"]
    }

    #[test]
    fn every_number_reads_back_to_the_last_digit() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 18));
        let lines = parsed(&document, None);
        let operation = &document.operations[0];
        let pooled = operation.classic.sets["ext4"].as_ref().unwrap();
        let against = operation.classic.against["ext4"].as_ref().unwrap();
        let judged = operation.estimate.against["ext4"].as_ref().unwrap();
        let slice = &operation.by_record_size[1];
        let whole = |statistic: &str| {
            value(
                &lines,
                &[
                    ("operation", "write"),
                    ("scope", "operation"),
                    ("set", "ext4"),
                    ("statistic", statistic),
                ],
            )
        };
        for (statistic, expected) in [
            ("mean", pooled.mean),
            ("ci90_hi", pooled.ci90.unwrap()[1]),
            ("q3", pooled.q3),
            ("median_change", against.median_change),
            ("slope_se", against.slope_se.unwrap()),
            ("estimate_ratio", judged.ratio),
            ("estimate_ci95_lo", judged.ci95.unwrap()[0]),
        ] {
            assert_eq!(whole(statistic).parse(), Ok(expected), "{statistic}");
        }
        assert_eq!(
            (whole("estimate_verdict"), whole("estimate_method")),
            (judged.verdict.name(), "welch")
        );
        assert_eq!(whole("n"), pooled.n.to_string());
        let bytes = slice.bytes.to_string();
        let of_size = [
            ("operation", "write"),
            ("scope", "record_size"),
            ("record_size", &bytes),
            ("set", "xfs"),
            ("statistic", "sd"),
        ];
        assert_eq!(
            value(&lines, &of_size).parse().ok(),
            slice.classic.sets["xfs"].as_ref().unwrap().sd
        );
    }

    #[test]
    fn every_value_of_every_run_is_there_once() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 18));
        let lines = parsed(&document, None);
        let runs: Vec<_> = lines.iter().filter(|line| line["scope"] == "run").collect();
        let values = document
            .operations
            .iter()
            .flat_map(|operation| &operation.cells)
            .flat_map(|cell| cell.values.values());
        assert_eq!(runs.len(), values.map(Vec::len).sum::<usize>());
        let cell = &document.operations[1].cells[3];
        let (file, record) = (
            cell.file_size.unwrap().to_string(),
            cell.record_size.unwrap().to_string(),
        );
        let at = [
            ("scope", "run"),
            ("operation", "rewrite"),
            ("file_size", &file),
            ("record_size", &record),
        ];
        let third = [at.as_slice(), &[("set", "ext4"), ("run", "3")]].concat();
        assert_eq!(
            value(&lines, &third).parse(),
            Ok(cell.values["ext4"][2].value)
        );
        assert!(
            lines
                .iter()
                .all(|line| line["unit"] == "bytes_per_second" && line["metric"] == "throughput")
        );
        assert!(lines.iter().all(|line| (line["baseline"] == "xfs")
            == (line["set"] == "ext4" && compares(&line["statistic"]))));
    }

    fn compares(statistic: &str) -> bool {
        [
            "median_change",
            "t_",
            "slope",
            "estimate_",
            "grid_",
            "cell_",
        ]
        .iter()
        .any(|start| statistic.starts_with(start))
    }

    #[test]
    fn rows_without_a_value_are_omitted() {
        let lines = parsed(&compared(&iozone(&["xfs", "ext4"], 1, 1, 1 << 16)), None);
        assert!(
            lines
                .iter()
                .all(|line| !line["value"].is_empty() && line["statistic"] != "estimate_ci95_lo")
        );
        assert!(lines.iter().any(|line| line["value"] == "not_judged"));
    }

    #[test]
    fn latencies_stand_once_an_operation_and_detail_narrows() {
        let document = compared(&workloads(&["ext4", "xfs"], 6));
        let lines = parsed(&document, None);
        let of = |label: &str| {
            let quantiles = lines
                .iter()
                .filter(|line| line["statistic"] == "latency_q0.99" && line["workload"] == label);
            quantiles
                .map(|line| line["unit"].as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("read 1M, cold"), ["seconds", "seconds"]);
        let narrowed = parsed(&document, Some("read 1M, cold"));
        assert!(
            !narrowed.is_empty()
                && narrowed
                    .iter()
                    .all(|line| line["workload"] == "read 1M, cold")
        );
    }

    #[test]
    fn odd_names_survive() {
        let odd = "a \"b\", c\n<d>";
        let lines = parsed(&compared(&iozone(&["xfs", odd], 2, 1, 1 << 16)), None);
        assert!(lines.iter().any(|line| line["set"] == odd));
    }

    fn table(record: &RunRecord, trials: &[Trial]) -> String {
        let mut text = Vec::new();
        write_trials(
            &ReportTrial::all(trials),
            &Summary::of_run(record, trials),
            &mut text,
        )
        .unwrap();
        String::from_utf8(text).unwrap()
    }

    fn rows(
        record: &RunRecord,
        trials: &[Trial],
    ) -> Vec<std::collections::BTreeMap<String, String>> {
        let text = table(record, trials);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        assert_eq!(
            reader.headers().unwrap().iter().collect::<Vec<_>>(),
            TRIAL_COLUMNS
        );
        reader.deserialize().map(Result::unwrap).collect()
    }

    #[test]
    fn every_rate_and_latency_of_measured_trials_is_there_to_the_last_digit() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 5);
        let rows = rows(&record, &trials);
        for trial in &trials {
            let own: Vec<_> = rows
                .iter()
                .filter(|row| row["order"] == trial.order.to_string())
                .map(|row| {
                    (
                        row["metric"].as_str(),
                        row["value"].parse::<f64>().unwrap(),
                        row["outcome"].as_str(),
                    )
                })
                .collect();
            let expected: Vec<_> = trial.metrics[..4]
                .iter()
                .map(|m| (m.name.as_str(), m.value, "ok"))
                .collect();
            assert_eq!(own, expected, "costs are left out");
        }
        assert_eq!(rows[0]["kernel"], "6.18.44");
        assert_eq!(
            (
                rows[0]["file_size"].as_str(),
                rows[0]["record_size"].as_str()
            ),
            ("268435456", "1048576")
        );
        assert_eq!(
            (rows[0]["durability"].as_str(), rows[0]["cache"].as_str()),
            ("end", "any")
        );
    }

    #[test]
    fn a_trial_without_a_value_has_one_line_with_its_reason() {
        let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 5);
        let rows = rows(&record, &trials);
        let lost: Vec<_> = rows.iter().filter(|row| row["outcome"] != "ok").collect();
        let [lost] = lost.as_slice() else {
            panic!("{lost:?}")
        };
        assert_eq!(
            lost["outcome"],
            "failed: write to /target/f0000: No space left on device (ENOSPC)"
        );
        assert_eq!(
            (lost["metric"].as_str(), lost["value"].as_str()),
            ("throughput", "")
        );
        assert_eq!(lost["unit"], "bytes_per_second");
    }

    #[test]
    fn warm_up_and_superseded_trials_are_left_out() {
        let (record, mut trials) = sample::run(&["ext4"], 2);
        trials.truncate(2);
        trials[0].superseded = true;
        trials[1].phase = fsb_model::Phase::Warmup;
        assert_eq!(table(&record, &trials).lines().count(), 1);
    }

    #[test]
    fn odd_names_and_texts_survive() {
        let (record, mut trials) = sample::run(&["ext4"], 1);
        trials.truncate(1);
        trials[0].target = "a,\"b\"\nc".to_owned();
        trials[0].params.insert("file_size".to_owned(), "4K".into());
        trials[0].params.remove("threads");
        let rows = rows(&record, &trials);
        assert_eq!(rows[0]["target"], "a,\"b\"\nc");
        assert_eq!(
            (rows[0]["file_size"].as_str(), rows[0]["threads"].as_str()),
            ("4096", "")
        );
    }

    #[test]
    fn each_line_of_an_unjudged_run_says_so() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 1);
        record.emulated = true;
        let text = table(&record, &trials);
        let mut lines = text.lines();
        assert!(
            lines
                .next()
                .unwrap()
                .ends_with(",durability,slice,unsafe,unjudged")
        );
        assert!(
            lines.clone().count() > 8
                && lines.all(|line| line.ends_with(",emulated: a functional run"))
        );
    }

    #[test]
    fn lines_of_unsafe_targets_name_the_cause() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 2);
        let risk = |cause: &str| Risk {
            cause: cause.to_owned(),
            loss: "a power failure may lose synced data".to_owned(),
        };
        record.targets.get_mut("xfs").unwrap().risks = vec![risk("nobarrier"), risk("write cache")];
        for row in rows(&record, &trials) {
            assert_eq!(
                row["unsafe"],
                if row["target"] == "xfs" {
                    "nobarrier, write cache"
                } else {
                    ""
                }
            );
        }
    }
}

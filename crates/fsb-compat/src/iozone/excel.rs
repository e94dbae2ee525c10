//! The reports of `-R`, one per operation: matrices of file sizes and record sizes. They repeat the table above them,
//! so each value is taken once. Values that the table lost are taken from the reports.

use std::collections::HashMap;

use fsb_model::set::{GapReason, Series};

use super::banner::Mode;
use super::layout::words;
use super::names::operation;
use crate::draft::{CPU_UTILIZATION, Draft, Name, Position};
use crate::error::ReadError;
use crate::lines::Line;
use crate::number::whole;

/// Values and their lines, by series and sizes in bytes.
type Known = HashMap<(usize, u64, u64), (f64, u32)>;

/// The kind of numbers in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The results, which the table holds too.
    Results,
    /// `-+u`: CPU time in percent of elapsed time.
    Cpu,
}

/// Returns the operation and content of a report, from its title in quotes. Returns `None` if the line is not a title.
pub(super) fn title(text: &[u8]) -> Option<(&'static str, Content)> {
    let text = std::str::from_utf8(text).ok()?.strip_prefix('"')?.strip_suffix('"')?;
    if let Some((name, _)) = text.split_once(" CPU utilization report") {
        return Some((operation(name)?, Content::Cpu));
    }
    Some((operation(text.strip_suffix(" report")?)?, Content::Results))
}

/// The reports of a run.
#[derive(Default)]
pub(super) struct Reports {
    /// The values read so far; created when the first report starts.
    known: Option<Known>,
    /// The report that is being read.
    current: Option<Report>,
}

struct Report {
    series: usize,
    content: Content,
    /// Bytes of the record size of each column.
    records: Vec<u64>,
}

impl Reports {
    pub fn start(
        &mut self,
        (operation, content): (&'static str, Content),
        draft: &mut Draft,
        mode: &Mode,
    ) -> Result<(), ReadError> {
        self.known.get_or_insert_with(|| known(&draft.run.series));
        let (metric, unit) = match content {
            Content::Cpu => (&CPU_UTILIZATION, "%"),
            Content::Results => (mode.quantity.metric(), mode.found_unit.as_deref().unwrap_or("kB/s")),
        };
        let series = draft.series(Name { workload: None, operation }, metric, unit)?;
        self.current = Some(Report { series, content, records: Vec::new() });
        Ok(())
    }

    /// Takes a line that starts with a quote. Returns whether it belongs to a report.
    pub fn take(&mut self, line: &Line, draft: &mut Draft, mode: &Mode) -> Result<bool, ReadError> {
        let (Some(report), Some(known)) = (&mut self.current, &mut self.known) else { return Ok(false) };
        let Some(row) = parse(line) else {
            draft.remark(line.number, format_args!("no row of a report, left out: '{}'", line.excerpt()));
            return Ok(true);
        };
        match row {
            SheetRow::Records(records) => report.records = records,
            SheetRow::Values(file, values) => report.keep(file, &values, line, known, draft, mode)?,
        }
        Ok(true)
    }

    /// Ends a report: an empty line follows it.
    pub fn end(&mut self) {
        self.current = None;
    }
}

impl Report {
    fn keep(
        &self,
        file: u64,
        values: &[f64],
        line: &Line,
        known: &mut Known,
        draft: &mut Draft,
        mode: &Mode,
    ) -> Result<(), ReadError> {
        if values.len() > self.records.len() {
            let text = format!("{} values under {} record sizes; left out", values.len(), self.records.len());
            draft.remark(line.number, text);
            return Ok(());
        }
        let table = known.keys().next().is_some();
        for (record, printed) in self.records.iter().zip(values) {
            let value = match self.content {
                // Zeros "should be ignored", says the title: shorter than the tick that CPU time is counted in.
                Content::Cpu if *printed == 0.0 => Err(GapReason::BelowClock),
                Content::Cpu => Ok(printed / 100.0),
                Content::Results => mode.quantity.value(*printed),
            };
            let found = known.get(&(self.series, file, *record)).copied();
            match (found, value) {
                (Some((first, at)), Ok(value)) if first != value && self.content == Content::Results => {
                    draft.remark(
                        line.number,
                        format_args!("{printed} is another value than in line {at}, which is kept"),
                    );
                }
                (Some(_), _) => {}
                // Record sizes that automatic mode omits for large files are zeros here and have no rows in the table.
                (None, Err(_)) if table && self.content == Content::Results => {}
                (None, value) => {
                    let place = Position { file_size: Some(file), record_size: Some(*record), line: line.number };
                    draft.put(self.series, place, value)?;
                    known.insert((self.series, file, *record), (value.unwrap_or(0.0), line.number));
                }
            }
        }
        Ok(())
    }
}

enum SheetRow {
    Records(Vec<u64>),
    Values(u64, Vec<f64>),
}

/// Parses a line. Sizes in quotes are a heading; a size in quotes with numbers after it is a row.
fn parse(line: &Line) -> Option<SheetRow> {
    let quoted = |bytes: &[u8]| {
        let kilobytes = whole(bytes.strip_prefix(b"\"")?.strip_suffix(b"\"")?)?;
        kilobytes.checked_mul(1024).filter(|bytes| *bytes > 0)
    };
    let mut found: Vec<&[u8]> = words(line.bytes).map(|word| word.bytes).collect();
    if line.too_long {
        return None;
    }
    if found.iter().all(|word| quoted(word).is_some()) && (found.len() > 1 || line.bytes.starts_with(b" ")) {
        return found.iter().map(|word| quoted(word)).collect::<Option<_>>().map(SheetRow::Records);
    }
    // IOzone prints a blank after each value: without it, the file may end within the number.
    if !line.ended && found.len() > 1 && !line.bytes.ends_with(b" ") {
        found.pop();
    }
    let number = |bytes: &&[u8]| std::str::from_utf8(bytes).ok()?.parse().ok().filter(|value: &f64| *value >= 0.0);
    let (file, values) = found.split_first()?;
    Some(SheetRow::Values(quoted(file)?, values.iter().map(number).collect::<Option<_>>()?))
}

fn known(series: &[Series]) -> Known {
    let mut known = Known::new();
    for (at, series) in series.iter().enumerate() {
        let points = series.points.iter().map(|point| (point.file_size, point.record_size, point.value, point.line));
        let gaps = series.gaps.iter().map(|gap| (gap.file_size, gap.record_size, 0.0, gap.line));
        for (file, record, value, line) in points.chain(gaps) {
            known.insert((at, file.unwrap_or(0), record.unwrap_or(0)), (value, line));
        }
    }
    known
}

//! One operation size by size: cell by cell, with every value.

use fsb_analysis::compare::{Cell, CellValue, Operation, Slice};
use fsb_analysis::{describe, t_interval};
use fsb_model::units::Bytes;

use super::View;

/// The level of the classic intervals.
const CLASSIC_LEVEL: f64 = 0.9;

/// One size held, the other one varies.
#[derive(Debug)]
pub struct Fixed<'a> {
    /// Unique on a page: `0-record-65536`.
    pub id: String,
    /// `write, records of 64K`.
    pub title: String,
    /// What the lines differ in: `file size`.
    pub varies: &'static str,
    /// The operation.
    pub operation: &'a Operation,
    /// One line a size that occurs.
    pub lines: Vec<Line<'a>>,
}

/// One cell of the grid.
#[derive(Debug)]
pub struct Line<'a> {
    /// The size that varies.
    pub bytes: u64,
    /// By set, the baseline first.
    pub sets: Vec<Option<Single<'a>>>,
}

/// The values of one set in one cell, described.
#[derive(Debug)]
pub struct Single<'a> {
    /// The values, in the order of the runs.
    pub values: &'a [CellValue],
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; absent for one value.
    pub sd: Option<f64>,
    /// 90 % t-interval of the mean; absent for one value.
    pub ci90: Option<[f64; 2]>,
}

impl<'a> View<'a> {
    /// Each record size of a row, over file sizes.
    pub fn by_record_size(&self, row: usize) -> Vec<Fixed<'a>> {
        let operation = self.rows[row].operation;
        let record = |cell: &Cell| cell.record_size;
        let fixed = |slice: &Slice| {
            let lines =
                self.lines(operation, |cell| (record(cell) == Some(slice.bytes)).then_some(cell.file_size).flatten());
            let title = format!("{}, records of {}", self.rows[row].label, Bytes(slice.bytes));
            Fixed { id: format!("{row}-record-{}", slice.bytes), title, varies: "file size", operation, lines }
        };
        operation.by_record_size.iter().map(fixed).collect()
    }

    /// Each file size of a row, over record sizes.
    pub fn by_file_size(&self, row: usize) -> Vec<Fixed<'a>> {
        let operation = self.rows[row].operation;
        let file = |cell: &Cell| cell.file_size;
        let fixed = |slice: &Slice| {
            let lines =
                self.lines(operation, |cell| (file(cell) == Some(slice.bytes)).then_some(cell.record_size).flatten());
            let title = format!("{}, files of {}", self.rows[row].label, Bytes(slice.bytes));
            Fixed { id: format!("{row}-file-{}", slice.bytes), title, varies: "record size", operation, lines }
        };
        operation.by_file_size.iter().map(fixed).collect()
    }

    /// The cells that `varying` gives a size for, in the order of that size.
    fn lines(&self, operation: &'a Operation, varying: impl Fn(&Cell) -> Option<u64>) -> Vec<Line<'a>> {
        let line = |cell: &'a Cell| Some(Line { bytes: varying(cell)?, sets: self.singles(cell) });
        let mut lines: Vec<Line<'a>> = operation.cells.iter().filter_map(line).collect();
        lines.sort_by_key(|line| line.bytes);
        lines
    }

    fn singles(&self, cell: &'a Cell) -> Vec<Option<Single<'a>>> {
        self.sets.iter().map(|set| cell.values.get(&set.name).and_then(|values| Single::of(values))).collect()
    }
}

impl<'a> Single<'a> {
    fn of(values: &'a [CellValue]) -> Option<Single<'a>> {
        let plain: Vec<f64> = values.iter().map(|value| value.value).collect();
        let found = describe(&plain).ok()?;
        let interval = t_interval(&plain, CLASSIC_LEVEL).ok()?;
        Some(Single {
            values,
            mean: found.mean,
            sd: (found.n > 1).then_some(found.sd),
            ci90: interval.map(|interval| [interval.lo, interval.hi]),
        })
    }
}

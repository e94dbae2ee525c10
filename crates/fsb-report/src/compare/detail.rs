//! One operation size by size: cell by cell, with every value.

use fsb_analysis::compare::{Cell, CellValue, Operation, Slice};
use fsb_analysis::{describe, t_interval};
use fsb_model::units::Bytes;

use crate::view::Row;

/// The level of the classic intervals.
const CLASSIC_LEVEL: f64 = 0.9;

/// One size held, the other one varies.
#[derive(Debug)]
pub(crate) struct Fixed<'a> {
    /// Unique on a page: `0-record-65536`.
    pub(crate) id: String,
    /// `write, records of 64K`.
    pub(crate) title: String,
    /// What the lines differ in: `file size`.
    pub(crate) varies: &'static str,
    /// The operation.
    pub(crate) operation: &'a Operation,
    /// One line a size that occurs.
    pub(crate) lines: Vec<SizeLine<'a>>,
}

/// One cell of the grid.
#[derive(Debug)]
pub(crate) struct SizeLine<'a> {
    /// The size that varies.
    pub(crate) bytes: u64,
    /// By set, the baseline first.
    pub(crate) sets: Vec<Option<Single<'a>>>,
}

/// The values of one set in one cell, described.
#[derive(Debug)]
pub(crate) struct Single<'a> {
    /// The values, in the order of the runs.
    pub(crate) values: &'a [CellValue],
    /// Arithmetic mean.
    pub(crate) mean: f64,
    /// Sample standard deviation; absent for one value.
    pub(crate) sd: Option<f64>,
    /// 90 % t-interval of the mean; absent for one value.
    pub(crate) ci90: Option<[f64; 2]>,
}

/// Each record size of the row at `place`, over file sizes; for a comparison of these sets.
pub(crate) fn by_record_size<'a>(row: &Row<'a>, place: usize, names: &[String]) -> Vec<Fixed<'a>> {
    let Some(operation) = row.operation().map(|found| found.operation) else { return Vec::new() };
    let fixed = |slice: &Slice| Fixed {
        id: format!("{place}-record-{}", slice.bytes),
        title: format!("{}, records of {}", row.label, Bytes(slice.bytes)),
        varies: "file size",
        operation,
        lines: lines(operation, names, |cell| {
            (cell.record_size == Some(slice.bytes)).then_some(cell.file_size).flatten()
        }),
    };
    operation.by_record_size.iter().map(fixed).collect()
}

/// Each file size of the row, over record sizes.
pub(crate) fn by_file_size<'a>(row: &Row<'a>, place: usize, names: &[String]) -> Vec<Fixed<'a>> {
    let Some(operation) = row.operation().map(|found| found.operation) else { return Vec::new() };
    let fixed = |slice: &Slice| Fixed {
        id: format!("{place}-file-{}", slice.bytes),
        title: format!("{}, files of {}", row.label, Bytes(slice.bytes)),
        varies: "record size",
        operation,
        lines: lines(operation, names, |cell| {
            (cell.file_size == Some(slice.bytes)).then_some(cell.record_size).flatten()
        }),
    };
    operation.by_file_size.iter().map(fixed).collect()
}

/// The cells that `varying` gives a size for, in the order of that size.
fn lines<'a>(operation: &'a Operation, names: &[String], varying: impl Fn(&Cell) -> Option<u64>) -> Vec<SizeLine<'a>> {
    let singles =
        |cell: &'a Cell| names.iter().map(|name| cell.values.get(name).and_then(|values| Single::of(values))).collect();
    let line = |cell: &'a Cell| Some(SizeLine { bytes: varying(cell)?, sets: singles(cell) });
    let mut lines: Vec<SizeLine<'a>> = operation.cells.iter().filter_map(line).collect();
    lines.sort_by_key(|line| line.bytes);
    lines
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

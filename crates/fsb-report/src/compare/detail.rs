//! One operation size by size: cell by cell, with every value.

use fsb_model::units::Bytes;
use fsb_stats::compare::{Cell, CellValue, Classic, Operation};
use fsb_stats::{describe, t_interval};

use crate::operation::UnitScale;
use crate::view::{CellView, Detail, DetailLine, Row, View};

/// The level of the classic intervals.
const CLASSIC_LEVEL: f64 = 0.9;

/// The cells of an operation with one size fixed while the other one varies.
#[derive(Debug)]
pub(crate) struct Fixed<'a> {
    /// Unique on a page: `0-record-65536`.
    pub(crate) id: String,
    /// `write, records of 64K`.
    pub(crate) title: String,
    /// The size that varies: `file size`.
    pub(crate) varies: &'static str,
    /// The operation.
    pub(crate) operation: &'a Operation,
    /// One line per size that occurs.
    pub(crate) lines: Vec<SizeLine<'a>>,
}

/// One cell of the grid.
#[derive(Debug)]
pub(crate) struct SizeLine<'a> {
    /// The size that varies.
    pub(crate) bytes: u64,
    /// The statistics of 2011, if the document has them.
    pub(crate) classic: Option<&'a Classic>,
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
    /// 90 % t-interval of the mean; absent for one value.
    pub(crate) ci90: Option<[f64; 2]>,
}

/// Returns the lines over file sizes for each record size of the row at `place`, with a value of
/// each set in `names`.
pub(crate) fn by_record_size<'a>(row: &Row<'a>, place: usize, names: &[String]) -> Vec<Fixed<'a>> {
    fixed(row, place, names, ["record", "file"], |cell| {
        (cell.record_size, cell.file_size)
    })
}

/// Returns the lines over record sizes for each file size of the row.
pub(crate) fn by_file_size<'a>(row: &Row<'a>, place: usize, names: &[String]) -> Vec<Fixed<'a>> {
    fixed(row, place, names, ["file", "record"], |cell| {
        (cell.file_size, cell.record_size)
    })
}

/// `sizes` returns the size of a cell that is fixed, and the one that varies.
fn fixed<'a>(
    row: &Row<'a>,
    place: usize,
    names: &[String],
    [what, varies]: [&'static str; 2],
    sizes: fn(&Cell) -> (Option<u64>, Option<u64>),
) -> Vec<Fixed<'a>> {
    let Some(operation) = row.operation().map(|found| found.operation) else {
        return Vec::new();
    };
    let (slices, varies) = match varies {
        "file" => (&operation.by_record_size, "file size"),
        _ => (&operation.by_file_size, "record size"),
    };
    let mut all = Vec::new();
    for slice in slices {
        all.push(Fixed {
            id: format!("{place}-{what}-{}", slice.bytes),
            title: format!("{}, {what}s of {}", row.label, Bytes(slice.bytes)),
            varies,
            operation,
            lines: lines(operation, names, |cell| match sizes(cell) {
                (Some(size), varying) if size == slice.bytes => varying,
                _ => None,
            }),
        });
    }
    all
}

/// Returns the cells that `varying` gives a size for, in the order of that size.
fn lines<'a>(
    operation: &'a Operation,
    names: &[String],
    varying: impl Fn(&Cell) -> Option<u64>,
) -> Vec<SizeLine<'a>> {
    let mut lines = Vec::new();
    for cell in &operation.cells {
        if let Some(bytes) = varying(cell) {
            let values = names.iter().map(|name| cell.values.get(name));
            lines.push(SizeLine {
                bytes,
                classic: cell.classic.as_ref(),
                sets: values.map(|values| Single::from_values(values?)).collect(),
            });
        }
    }
    lines.sort_by_key(|line| line.bytes);
    lines
}

impl<'a> Single<'a> {
    fn from_values(values: &'a [CellValue]) -> Option<Single<'a>> {
        let plain: Vec<f64> = values.iter().map(|value| value.value).collect();
        let found = describe(&plain).ok()?;
        let interval = t_interval(&plain, CLASSIC_LEVEL).ok()?;
        Some(Single {
            values,
            mean: found.mean,
            ci90: interval.map(|interval| [interval.lo, interval.hi]),
        })
    }
}

/// Returns one table per file size, with a line per record size and set and a column per value.
pub(super) fn value_details<'v>(
    view: &'v View<'_>,
    row: &'v Row<'_>,
    operation: &'v Operation,
) -> impl Iterator<Item = Detail> + 'v {
    let (names, word) = (&view.names, view.words.value);
    let scale = UnitScale::fit([operation]);
    let mut files: Vec<Option<u64>> = operation.cells.iter().map(|cell| cell.file_size).collect();
    files.sort_unstable();
    files.dedup();
    files.into_iter().map(move |file| {
        let of_file = file
            .map(|bytes| format!(", files of {}", Bytes(bytes)))
            .unwrap_or_default();
        Detail {
            title: format!("{}{of_file}, every {word} in {}:", row.label, scale.name),
            varies: "record size",
            heads: Some(
                (1..=runs(operation))
                    .map(|place| format!("{word} {place}"))
                    .collect(),
            ),
            lines: value_lines(operation, file, names, scale),
        }
    })
}

fn runs(operation: &Operation) -> usize {
    let values = operation
        .cells
        .iter()
        .flat_map(|cell| cell.values.values())
        .flatten();
    values.map(|value| value.run + 1).max().unwrap_or(0)
}

/// Returns the value of each run in order, and `None` for a run without one.
pub(super) fn by_run(
    values: &[CellValue],
    runs: usize,
) -> impl Iterator<Item = Option<&CellValue>> {
    let mut values = values.iter().peekable();
    (0..runs).map(move |run| values.next_if(|value| value.run == run))
}

fn value_lines(
    operation: &Operation,
    file: Option<u64>,
    names: &[String],
    scale: UnitScale,
) -> Vec<DetailLine> {
    let runs = runs(operation);
    let mut cells: Vec<_> = operation
        .cells
        .iter()
        .filter(|cell| cell.file_size == file)
        .collect();
    cells.sort_by_key(|cell| cell.record_size);
    let of_cell = cells.into_iter().flat_map(|cell| {
        let head = cell
            .record_size
            .map(|bytes| Bytes(bytes).to_string())
            .unwrap_or_default();
        names.iter().enumerate().filter_map(move |(set, name)| {
            let values = cell.values.get(name).filter(|values| !values.is_empty())?;
            let cells = by_run(values, runs)
                .map(|value| {
                    let value = value.map(|value| scale.show(value.value));
                    CellView {
                        value,
                        absence: "–",
                        ..CellView::default()
                    }
                })
                .collect();
            Some(DetailLine {
                head: head.clone(),
                column: Some(set),
                cells,
            })
        })
    });
    of_cell.collect()
}

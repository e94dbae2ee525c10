//! Every value of every run, cell by cell.

use fsb_analysis::compare::{CellValue, Operation};
use fsb_model::units::Bytes;

use super::numbers::Scale;
use crate::view::{CellView, Detail, DetailLine, Row};

/// A table a file size, with a line a record size and set and a column a run.
pub(super) fn details<'v>(
    row: &'v Row<'_>,
    operation: &'v Operation,
    names: &'v [String],
) -> impl Iterator<Item = Detail> + 'v {
    let scale = Scale::of([operation]);
    let mut files: Vec<Option<u64>> = operation.cells.iter().map(|cell| cell.file_size).collect();
    files.sort_unstable();
    files.dedup();
    let table = move |file: Option<u64>| {
        let of_file = file.map(|bytes| format!(", files of {}", Bytes(bytes))).unwrap_or_default();
        Detail {
            title: format!("{}{of_file}, every run in {}:", row.label, scale.name),
            varies: "record size",
            heads: Some((1..=runs(operation)).map(|run| format!("run {run}")).collect()),
            lines: lines(operation, file, names, scale),
        }
    };
    files.into_iter().map(table)
}

fn runs(operation: &Operation) -> usize {
    let values = operation.cells.iter().flat_map(|cell| cell.values.values()).flatten();
    values.map(|value| value.run + 1).max().unwrap_or(0)
}

/// The value of each run, in their order; nothing where a run has none.
pub(super) fn by_run(values: &[CellValue], runs: usize) -> impl Iterator<Item = Option<&CellValue>> {
    let mut values = values.iter().peekable();
    (0..runs).map(move |run| values.next_if(|value| value.run == run))
}

fn lines(operation: &Operation, file: Option<u64>, names: &[String], scale: Scale) -> Vec<DetailLine> {
    let runs = runs(operation);
    let shown = |value: Option<&CellValue>| {
        let value = value.map(|value| scale.show(value.value));
        CellView { value, absence: "–", ..CellView::default() }
    };
    let mut cells: Vec<_> = operation.cells.iter().filter(|cell| cell.file_size == file).collect();
    cells.sort_by_key(|cell| cell.record_size);
    let of_cell = cells.into_iter().flat_map(|cell| {
        let head = cell.record_size.map(|bytes| Bytes(bytes).to_string()).unwrap_or_default();
        names.iter().enumerate().filter_map(move |(set, name)| {
            let values = cell.values.get(name).filter(|values| !values.is_empty())?;
            let cells = by_run(values, runs).map(shown).collect();
            Some(DetailLine { head: head.clone(), column: Some(set), cells })
        })
    });
    of_cell.collect()
}

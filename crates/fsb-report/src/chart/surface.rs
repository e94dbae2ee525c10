//! The surface that users of IOzone expect: file size × record size × rate, one panel for all
//! operations and sets.

use fsb_stats::compare::{Cell, Operation};
use serde_json::{Value, json};

use super::look::{Chart, ChartKind, Draw, short, size_text};
use crate::escape::script_safe;
use crate::operation::UnitScale;
use crate::view::View;

pub(super) const KIND: ChartKind = ChartKind {
    name: "surface",
    draw: Draw::Panel(draw),
};

/// The page holds the heights only; `surface.js` draws the operation and the set that are chosen.
fn draw(view: &View<'_>, name: &str) -> Option<Chart> {
    let rows = view
        .rows
        .iter()
        .filter_map(|row| Some((row.label.as_str(), row.operation()?.operation)));
    let rows = rows.filter(|(_, operation)| {
        operation.by_file_size.len() >= 2
            && operation.by_record_size.len() >= 2
            && !operation.cells.is_empty()
    });
    let operations: Vec<Value> = rows
        .map(|(label, operation)| heights(view, label, operation))
        .collect();
    (!operations.is_empty()).then(|| Chart {
        id: name.to_owned(),
        height: 520,
        label: "Surface of the rate by file size and record size, for one operation and one set".to_owned(),
        caption:
            "Means of the cells. Turn it with the mouse. It shows the shape of a cache, but hides what lies behind: \
                  to compare sets, use the heat maps."
                .to_owned(),
        key: Vec::new(),
        json: script_safe(&json!({ "sets": view.names, "operations": operations })),
..Chart::default()
})
}

fn heights(view: &View<'_>, label: &str, operation: &Operation) -> Value {
    let scale = UnitScale::fit([operation]);
    let files: Vec<u64> = operation
        .by_file_size
        .iter()
        .map(|slice| slice.bytes)
        .collect();
    let records: Vec<u64> = operation
        .by_record_size
        .iter()
        .map(|slice| slice.bytes)
        .collect();
    let of_set = |name: &str| {
        let mut rows = vec![vec![Value::Null; files.len()]; records.len()];
        for cell in &operation.cells {
            if let Some((file, record, mean)) = place(cell, name, &files, &records) {
                rows[record][file] = short(mean / scale.divisor);
            }
        }
        rows
    };
    let texts = |sizes: &[u64]| {
        sizes
            .iter()
            .map(|size| size_text(*size))
            .collect::<Vec<_>>()
    };
    json!({
        "name": label, "unit": scale.name, "files": texts(&files), "records": texts(&records),
        "z": view.names.iter().map(|name| of_set(name)).collect::<Vec<_>>(),
    })
}

fn place(cell: &Cell, set: &str, files: &[u64], records: &[u64]) -> Option<(usize, usize, f64)> {
    let file = files.binary_search(&cell.file_size?).ok()?;
    let record = records.binary_search(&cell.record_size?).ok()?;
    Some((file, record, *cell.means.get(set)?))
}

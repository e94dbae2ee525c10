//! The table of automatic mode: a row for each file size and record size, a column for each operation.

use std::collections::HashMap;

use super::banner::Mode;
use super::layout::{Layout, Word, words};
use crate::draft::{Draft, Name, Position};
use crate::error::ReadError;
use crate::lines::Line;
use crate::number::whole;

/// A table while it is read.
pub(super) struct Table {
    layout: Layout,
    /// The series of each column.
    series: Vec<Option<usize>>,
    /// The line of each file size and record size, in kilobytes.
    seen: HashMap<(u64, u64), u32>,
}

impl Table {
    /// Returns the table that a heading starts.
    pub(crate) fn of_heading(line: &Line, draft: &mut Draft, mode: &Mode) -> Result<Option<Table>, ReadError> {
        let Some(layout) = Layout::of_heading(line.bytes) else { return Ok(None) };
        let unit = mode.found_unit.as_deref().unwrap_or_else(|| {
            draft.remark(line.number, "no line names the unit of the numbers; read as kilobytes (1024 bytes) a second");
            "kB/s"
        });
        let unit = unit.to_owned();
        let mut series = Vec::new();
        for operation in &layout.operations {
            series.push(match operation {
                Some(operation) => {
                    let name = Name { workload: None, operation };
                    Some(draft.series(name, mode.quantity.metric(), &unit)?)
                }
                None => None,
            });
        }
        if layout.operations.iter().any(Option::is_none) {
            draft.remark(line.number, "a heading names no known operation; its column is left out");
        }
        Ok(Some(Table { layout, series, seen: HashMap::new() }))
    }

    /// Takes a row, or adds a remark if the line is not one.
    pub fn row(&mut self, line: &Line, draft: &mut Draft, mode: &Mode) -> Result<(), ReadError> {
        match self.parse(line) {
            Ok(row) => self.keep(row, line, draft, mode),
            Err(why) => {
                draft.remark(line.number, format_args!("no row of the table, left out: {why}"));
                Ok(())
            }
        }
    }

    fn parse(&self, line: &Line) -> Result<GridRow, String> {
        let mut row: [Word; 32] = [Word { end: 0, bytes: b"" }; 32];
        let mut count = 0;
        for word in words(line.bytes) {
            *row.get_mut(count).ok_or_else(|| format!("'{}'", line.excerpt()))? = word;
            count += 1;
        }
        let bad = row[..count].iter().find(|word| !word.bytes.iter().all(u8::is_ascii_digit));
        if line.too_long || bad.is_some() || count < 2 {
            return Err(format!("'{}'", line.excerpt()));
        }
        let cells = self.layout.place(row[0].end, &row[1..count], line.ended)?;
        let cut = !line.ended && cells.iter().flatten().count() < count - 1;
        let (file, record) = (whole(row[0].bytes).unwrap_or(0), cells[0].unwrap_or(0));
        if file == 0 || record > file || file > u64::MAX >> 10 {
            return Err(format!("file size {file} kB with record size {record} kB"));
        }
        Ok(GridRow { file, record, cells, cut })
    }

    fn keep(&mut self, row: GridRow, line: &Line, draft: &mut Draft, mode: &Mode) -> Result<(), ReadError> {
        let GridRow { file, record, cells, cut } = row;
        if let Some(first) = self.seen.get(&(file, record)) {
            let text =
                format!("file size {file} kB with record size {record} kB is in line {first} too; the first is kept");
            draft.remark(line.number, text);
            return Ok(());
        }
        if cut {
            draft.remark(line.number, "the file ends within this line; its last number is left out");
        }
        if cells[1..].iter().any(Option::is_some) {
            self.seen.insert((file, record), line.number);
        }
        // A record size of 0 means records from a telemetry file.
        let record_size = Some(record << 10).filter(|bytes| *bytes > 0);
        let place = Position { file_size: Some(file << 10), record_size, line: line.number };
        for (series, value) in self.series.iter().zip(&cells[1..]) {
            if let (Some(series), Some(value)) = (series, value) {
                draft.put(*series, place, mode.quantity.value(*value as f64))?;
            }
        }
        Ok(())
    }
}

/// A row: sizes in kilobytes and numbers by column.
struct GridRow {
    file: u64,
    record: u64,
    cells: super::layout::Cells,
    /// Whether a last number was left out for want of a line end.
    cut: bool,
}

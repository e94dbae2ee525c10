//! A sheet with one header line, which stays in view, and a filter for each column.

use fsb_model::Unit;
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use crate::summary_line::Value;
use crate::visible;

/// A cell of a sheet.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Empty,
    Text(String),
    /// A number and its number format.
    Number(f64, &'static str),
    Flag(bool),
}

/// The format of numbers of any size.
const GENERAL: &str = "General";
/// The widest column, in characters.
const WIDEST: usize = 60;
/// The longest text of a cell.
const LONGEST: usize = 32_000;

impl Cell {
    /// A value of the summary table.
    pub(super) fn of_value(value: Value<'_>, unit: Unit) -> Cell {
        match value {
            Value::Empty => Cell::Empty,
            Value::Text(text) => Cell::of_text(text.to_owned(), false),
            Value::Count(count) => Cell::of_count(count),
            Value::Quantity(number) => Cell::Number(number, quantity_format(unit)),
            Value::Ratio(ratio) => Cell::Number(ratio, "0.0000"),
            Value::Percent(percent) => Cell::Number(percent, "+0.0;-0.0;0.0"),
            Value::Share(share) => Cell::Number(share, "0.0##"),
            Value::Flag(flag) => Cell::Flag(flag),
        }
    }

    pub(super) fn of_count(count: usize) -> Cell {
        Cell::Number(count as f64, "0")
    }

    /// A field of a table of text; a number if it is one and its column holds numbers.
    pub(super) fn of_text(text: String, is_number: bool) -> Cell {
        match text.parse::<f64>() {
            _ if text.is_empty() => Cell::Empty,
            Ok(number) if is_number && number.is_finite() => Cell::Number(number, GENERAL),
            _ => Cell::Text(harmless(&text).chars().take(LONGEST).collect()),
        }
    }
}

/// The text without characters that hide, or that XML has no place for.
pub(super) fn harmless(text: &str) -> String {
    visible::lines(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

fn quantity_format(unit: Unit) -> &'static str {
    match unit {
        Unit::BytesPerSecond | Unit::Bytes => "#,##0",
        Unit::OperationsPerSecond | Unit::Count => "#,##0.0",
        Unit::Seconds => "0.000E+00",
    }
}

/// A sheet that is filled line by line.
pub(super) struct Sheet<'b> {
    sheet: &'b mut Worksheet,
    /// By column, the most characters of a cell.
    widths: Vec<usize>,
    /// The next line.
    next: u32,
}

impl<'b> Sheet<'b> {
    pub(super) fn new<'n>(
        book: &'b mut Workbook,
        name: &str,
        columns: impl IntoIterator<Item = &'n str>,
    ) -> Result<Sheet<'b>, XlsxError> {
        let bold = Format::new().set_bold();
        let sheet = book.add_worksheet().set_name(name)?;
        let mut widths = Vec::new();
        for (place, column) in columns.into_iter().enumerate() {
            sheet.write_string_with_format(0, place as u16, column, &bold)?;
            // The arrow of the filter takes the width of two characters.
            widths.push(column.chars().count() + 2);
        }
        sheet.set_freeze_panes(1, 0)?;
        Ok(Sheet { sheet, widths, next: 1 })
    }

    pub(super) fn line(&mut self, cells: impl IntoIterator<Item = Cell>) -> Result<(), XlsxError> {
        for (place, cell) in cells.into_iter().enumerate() {
            let column = place as u16;
            let width = match &cell {
                Cell::Empty => continue,
                Cell::Text(text) => {
                    self.sheet.write_string(self.next, column, text)?;
                    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
                }
                Cell::Number(number, format) => {
                    let format = Format::new().set_num_format(*format);
                    self.sheet.write_number_with_format(self.next, column, *number, &format)?;
                    12
                }
                Cell::Flag(flag) => {
                    self.sheet.write_boolean(self.next, column, *flag)?;
                    5
                }
            };
            if let Some(widest) = self.widths.get_mut(place) {
                *widest = (*widest).max(width);
            }
        }
        self.next += 1;
        Ok(())
    }

    /// Sets the widths of columns and the filter.
    pub(super) fn finish(self) -> Result<(), XlsxError> {
        for (place, width) in self.widths.iter().enumerate() {
            self.sheet.set_column_width(place as u16, (*width).min(WIDEST) as f64 + 1.0)?;
        }
        if let Some(last) = self.widths.len().checked_sub(1) {
            self.sheet.autofilter(0, 0, self.next - 1, last as u16)?;
        }
        Ok(())
    }
}

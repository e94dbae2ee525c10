//! A spreadsheet, as an .xlsx file or in the format that IOzone writes.
//!
//! IOzone's format is that of Excel 2 (BIFF2): records of a type, a length and content,
//! little-endian, without styles. The OpenOffice documentation of the Excel file format describes
//! it.

use std::path::Path;

use rust_xlsxwriter::{Format, Workbook, XlsxError};

/// The records that a sheet of Excel 2 consists of.
const BOF: u16 = 0x0009;
const NUMBER: u16 = 0x0003;
const LABEL: u16 = 0x0004;
const EOF: u16 = 0x000A;
/// The content of BOF: the version, and the type of the file, a worksheet.
const WORKSHEET: [u8; 4] = [2, 0, 0x10, 0];
/// The style of a cell: none.
const PLAIN: [u8; 3] = [0; 3];
/// The rows of a sheet of Excel 2.
const ROWS: u32 = 16_384;

/// A spreadsheet that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SheetError {
    /// More rows or columns than an .xlsx file has.
    #[error("the spreadsheet cannot be made: {0}")]
    Xlsx(#[from] XlsxError),
    /// More rows than the older format has.
    #[error(
        "the spreadsheet cannot be made: IOzone's format has {ROWS} rows, too few for all sizes; a name that ends in .xlsx \
         has room"
    )]
    Rows,
}

/// Cells with their values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sheet {
    cells: Vec<(u32, u16, Value)>,
}

/// The value of a cell. A text is never a formula, whatever it begins with.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Title(String),
    Number(f64),
}

impl Sheet {
    /// Adds a text.
    pub(super) fn text(&mut self, row: u32, column: u16, text: &str) {
        self.cells.push((row, column, Value::Text(text.to_owned())));
    }

    /// Adds the title of a report, in the first column.
    pub(super) fn title(&mut self, row: u32, text: &str) {
        self.cells.push((row, 0, Value::Title(text.to_owned())));
    }

    /// Adds a number.
    pub(super) fn number(&mut self, row: u32, column: u16, number: f64) {
        self.cells.push((row, column, Value::Number(number)));
    }

    /// Returns the content of a file of this name: an .xlsx file if the name ends so, else IOzone's
    /// format.
    ///
    /// # Errors
    /// Fails if the format has too few rows.
    pub fn content(&self, name: &Path) -> Result<Vec<u8>, SheetError> {
        match name
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("xlsx"))
        {
            true => Ok(self.xlsx()?),
            false => self.biff(),
        }
    }

    fn xlsx(&self) -> Result<Vec<u8>, XlsxError> {
        let mut workbook = Workbook::new();
        let bold = Format::new().set_bold();
        let sheet = workbook.add_worksheet().set_name("iozone")?;
        for (row, column, value) in &self.cells {
            match value {
                Value::Text(text) => sheet.write_string(*row, *column, text)?,
                Value::Title(text) => sheet.write_string_with_format(*row, *column, text, &bold)?,
                Value::Number(number) => sheet.write_number(*row, *column, *number)?,
            };
        }
        workbook.save_to_buffer()
    }

    fn biff(&self) -> Result<Vec<u8>, SheetError> {
        if self.cells.iter().any(|(row, ..)| *row >= ROWS) {
            return Err(SheetError::Rows);
        }
        let mut file = Vec::new();
        let mut record = |kind: u16, parts: &[&[u8]]| {
            let content = parts.concat();
            file.extend(kind.to_le_bytes());
            file.extend((content.len() as u16).to_le_bytes());
            file.extend(content);
        };
        record(BOF, &[&WORKSHEET]);
        for (row, column, value) in &self.cells {
            let (row, column) = ((*row as u16).to_le_bytes(), column.to_le_bytes());
            match value {
                Value::Text(text) | Value::Title(text) => {
                    let text = label(text);
                    record(LABEL, &[&row, &column, &PLAIN, &[text.len() as u8], &text]);
                }
                Value::Number(number) => {
                    record(NUMBER, &[&row, &column, &PLAIN, &number.to_le_bytes()])
                }
            }
        }
        record(EOF, &[]);
        Ok(file)
    }
}

/// Returns a text as a label of Excel 2, which has at most 255 bytes and names no encoding: only
/// ASCII is safe.
fn label(text: &str) -> Vec<u8> {
    text.chars()
        .take(255)
        .map(|letter| {
            if letter.is_ascii() {
                letter as u8
            } else {
                b'?'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::default();
        sheet.text(0, 0, "=HYPERLINK(\"http://e.org\")");
        sheet.title(3, "Writer Report");
        sheet.number(4, 1, 16_384.5);
        sheet
    }

    #[test]
    fn a_command_that_looks_like_a_formula_stays_a_text() {
        let file = sheet().content(Path::new("a.XLSX")).unwrap();
        let mut parts = zip::ZipArchive::new(std::io::Cursor::new(file)).unwrap();
        let mut part = |name: &str| {
            let mut text = String::new();
            parts
                .by_name(name)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            text
        };
        let sheet = part("xl/worksheets/sheet1.xml");
        assert!(
            sheet.contains("<c r=\"A1\" t=\"s\">") && !sheet.contains("<f>"),
            "{sheet}"
        );
        assert!(part("xl/sharedStrings.xml").contains("<t>=HYPERLINK("));
    }

    #[test]
    fn every_other_name_gets_records_of_excel_2() {
        for name in ["a.wks", "a.xls", "a"] {
            let file = sheet().content(Path::new(name)).unwrap();
            let label = [
                &[4, 0, 21, 0, 3, 0, 0, 0, 0, 0, 0, 13][..],
                b"Writer Report",
            ]
            .concat();
            let number = [
                &[3, 0, 15, 0, 4, 0, 1, 0, 0, 0, 0][..],
                &16_384.5_f64.to_le_bytes(),
            ]
            .concat();
            assert!(
                file.starts_with(&[9, 0, 4, 0, 2, 0, 0x10, 0, 4, 0]),
                "{name}: {file:?}"
            );
            assert!(
                file.ends_with(&[&label[..], &number, &[10, 0, 0, 0]].concat()),
                "{name}: {file:?}"
            );
        }
    }

    #[test]
    fn texts_fit_a_label_and_rows_the_format() {
        let mut sheet = Sheet::default();
        sheet.text(0, 0, &"é".repeat(300));
        let file = sheet.content(Path::new("a.wks")).unwrap();
        assert_eq!(file.iter().filter(|byte| **byte == b'?').count(), 255);
        sheet.number(ROWS, 0, 1.0);
        assert!(matches!(
            sheet.content(Path::new("a.wks")),
            Err(SheetError::Rows)
        ));
        assert!(sheet.content(Path::new("a.xlsx")).is_ok());
    }
}

//! Spreadsheets of `-b` as the text that `-R` prints, so that one reader understands both.
//!
//! Read are the records of Excel 2 (BIFF2) that IOzone and [`Sheet`](super::Sheet) write, and the
//! first sheet of an .xlsx file. The parts of an .xlsx file are unpacked up to a limit, because a
//! small file can hold gigabytes of zeros.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{Cursor, Read};

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;

use super::parse::OPTIONS;
use crate::text::{holds, whole};

/// The start of a sheet of Excel 2: the record BOF with four bytes.
const BIFF: &[u8] = b"\x09\x00\x04\x00";
/// The start of a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";
/// The largest part of an .xlsx file that is unpacked.
const LARGEST_PART: u64 = 16 << 20;
/// Rows and columns that are read; more than any report of IOzone has.
const MOST_ROWS: u32 = 100_000;
const MOST_COLUMNS: u16 = 1_000;
/// The largest text of reports that is written; a report of IOzone has some kilobytes.
const LARGEST_TEXT: usize = 16 << 20;
/// The largest label of Excel 2. IOzone cuts a longer command there.
const LARGEST_LABEL: usize = 255;

/// The lines of a text whose file size or unit is uncertain, which the reader reports.
pub(super) const SIZE_IS_CUT: &str =
    "the spreadsheet has only the first 255 bytes of the command: the file size is unknown";
pub(super) const UNIT_IS_CUT: &str = "the spreadsheet has only the first 255 bytes of the command: \
                                      the unit is kBytes/sec unless -N or -O follows";

/// Cells by row and column, from 0.
type Cells = BTreeMap<u32, BTreeMap<u16, Value>>;

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Number(f64),
}

/// Returns whether a file with this start is a spreadsheet that [`text_of`] reads.
pub(super) fn is_sheet(head: &[u8]) -> bool {
    head.starts_with(BIFF) || (head.starts_with(ZIP) && holds(head, b"xl/"))
}

/// Returns the reports of a spreadsheet as IOzone prints them. Row `n` of a table becomes line `n`.
///
/// # Errors
/// Says why it has no reports of IOzone.
pub(super) fn text_of(file: &[u8]) -> Result<String, String> {
    let cells = match file.starts_with(ZIP) {
        true => xlsx(file)?,
        false => biff(file),
    };
    let command = match cells.get(&0).and_then(|row| row.get(&0)) {
        Some(Value::Text(command)) if command.contains("iozone") => command,
        _ => return Err("its first cell is not a command line of IOzone".to_owned()),
    };
    let is_throughput = cells.values().any(|row| {
        matches!(row.get(&0), Some(Value::Text(text)) if text.starts_with("Throughput report"))
    });
    let is_biff = !file.starts_with(ZIP);
    match is_throughput {
        true => Ok(throughput(command, &cells, is_biff)),
        false => reports(command, &cells, is_biff),
    }
}

/// Returns the reports of a table, a line for each row.
///
/// # Errors
/// Fails if a row is longer than its heading, or the text exceeds [`LARGEST_TEXT`].
fn reports(command: &str, cells: &Cells, is_biff: bool) -> Result<String, String> {
    let mut text = format!("Command line used: {command}\n");
    let unit = if has_switch(command, "-N") {
        "microseconds per operation"
    } else if has_switch(command, "-O") {
        "operations per second"
    } else {
        if is_biff && command.len() >= LARGEST_LABEL {
            let _ = writeln!(text, "{UNIT_IS_CUT}");
        }
        "kBytes/sec"
    };
    let _ = writeln!(text, "Output is in {unit}"); // a String takes anything
    let last = cells.keys().next_back().copied().unwrap_or(0);
    // The last column with a record size. A row that is longer has no heading for its values.
    let mut heading = 0;
    for row in 2..=last {
        let Some(row) = cells.get(&row) else {
            text.push('\n');
            continue;
        };
        match row.get(&0) {
            Some(Value::Text(title)) => match title.strip_suffix(" Report") {
                Some(name) => _ = writeln!(text, "\"{name} report\""),
                None => _ = writeln!(text, "\"{}\"", title.replace(['"', '\n'], " ")),
            },
            Some(Value::Number(file)) => {
                let _ = write!(text, "\"{file}\" ");
                let end = row.keys().next_back().copied().unwrap_or(0);
                if end > heading {
                    return Err(format!(
                        "a row has values in column {}, but its heading ends at column {}",
                        end + 1,
                        heading + 1
                    ));
                }
                for column in 1..=end {
                    let _ = write!(text, " {} ", number(row, column).unwrap_or(0.0));
                }
                text.push('\n');
            }
            None => {
                heading = row.keys().next_back().copied().unwrap_or(0);
                for value in row.values() {
                    if let Value::Number(record) = value {
                        let _ = write!(text, "  \"{record}\"");
                    }
                }
                text.push('\n');
            }
        }
        if text.len() > LARGEST_TEXT {
            return Err("its reports are larger than any of IOzone".to_owned());
        }
    }
    Ok(text)
}

/// Returns whether a command has this switch, also in a cluster such as `-RO`.
fn has_switch(command: &str, switch: &str) -> bool {
    options(command).iter().any(|(name, _)| name == switch)
}

/// Returns the options of a command with their values, in order. A value follows its option
/// (`-fOut`) or is the next word.
fn options(command: &str) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        let Some(mut letters) = word.strip_prefix('-') else {
            continue;
        };
        while let Some(letter) = letters.chars().next() {
            let length = match letter {
                '+' => 1 + letters[1..].chars().next().map_or(0, char::len_utf8),
                _ => letter.len_utf8(),
            };
            let (name, rest) = letters.split_at(length);
            let name = format!("-{name}");
            let takes_value = OPTIONS
                .iter()
                .any(|known| known.name == name && !known.value.is_empty());
            letters = rest;
            let mut value = "";
            if takes_value {
                value = match rest {
                    "" => words.next().unwrap_or_default(),
                    attached => attached,
                };
                letters = "";
            }
            found.push((name, value));
        }
    }
    found
}

/// Returns the report of throughput mode as its lines of children, for each number of processes.
/// The command of a sheet of Excel 2 may be cut.
fn throughput(command: &str, cells: &Cells, is_biff: bool) -> String {
    let mut text = format!("Command line used: {command}\n");
    let (mut unit, mut record, mut name) = ("kB/sec", "0", "processes");
    let mut counts: Option<&BTreeMap<u16, Value>> = None;
    let mut rates: Vec<(&str, &BTreeMap<u16, Value>)> = Vec::new();
    for row in cells.values().skip(1) {
        match (row.get(&0), counts) {
            (None, _) => counts = Some(row),
            (Some(Value::Text(title)), Some(_)) => rates.push((title, row)),
            (Some(Value::Text(title)), None) => {
                if title.ends_with("threads") {
                    name = "threads";
                }
                if title.contains("ops/sec") {
                    unit = "ops/sec";
                }
                if let Some(size) = title.strip_prefix("Record size = ") {
                    record = size.split_whitespace().next().unwrap_or(record);
                }
            }
            (Some(Value::Number(_)), _) => {}
        }
    }
    let file = file_size(command, is_biff);
    if file.is_none() {
        let _ = writeln!(text, "{SIZE_IS_CUT}");
    }
    let counts = counts.into_iter().flat_map(BTreeMap::iter);
    for (column, count) in counts {
        let Value::Number(count) = count else {
            continue;
        };
        let _ = writeln!(text, "Throughput test with {count} {name}");
        if let Some(file) = file {
            let _ = writeln!(
                text,
                "Each process writes a {file} kByte file in {record} kByte records"
            );
        }
        for (title, row) in &rates {
            if let Some(rate) = number(row, *column) {
                let _ = writeln!(
                    text,
                    "Children see throughput for {count} {title} = {rate:.2} {unit}"
                );
            }
        }
    }
    text
}

/// Returns the kilobytes of `-s`, by default 512 as in IOzone. The spreadsheet has no other sign of
/// the size. Returns `None` if the command is cut before `-s`, or may be cut within its value.
fn file_size(command: &str, is_biff: bool) -> Option<u64> {
    let is_cut = is_biff && command.len() >= LARGEST_LABEL;
    let options = options(command);
    let typed = options.iter().rev().find(|(name, _)| name == "-s");
    let size = match typed {
        Some((_, size)) if !(is_cut && command.ends_with(size)) => size,
        _ if is_cut => return None,
        _ => "512",
    };
    let digits = size.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &size[digits.len()..] {
        "m" | "M" => 1 << 10,
        "g" | "G" => 1 << 20,
        _ => 1,
    };
    Some(whole(digits.as_bytes()).unwrap_or(0).saturating_mul(unit))
}

fn number(row: &BTreeMap<u16, Value>, column: u16) -> Option<f64> {
    match row.get(&column)? {
        Value::Number(number) => Some(*number),
        Value::Text(_) => None,
    }
}

fn put(cells: &mut Cells, row: u32, column: u16, value: Value) {
    if row < MOST_ROWS && column < MOST_COLUMNS {
        cells.entry(row).or_default().insert(column, value);
    }
}

/// Reads records of Excel 2, up to the first one that is cut.
fn biff(file: &[u8]) -> Cells {
    const INTEGER: u16 = 0x0002;
    const NUMBER: u16 = 0x0003;
    const LABEL: u16 = 0x0004;
    let mut cells = Cells::new();
    let mut rest = file;
    while let Some((head, after)) = rest.split_first_chunk::<4>() {
        let [kind, length] =
            [&head[..2], &head[2..]].map(|two| u16::from_le_bytes([two[0], two[1]]));
        let Some((content, after)) = after.split_at_checked(usize::from(length)) else {
            break;
        };
        rest = after;
        // Row, column, three bytes of style, and the value.
        let Some((place, value)) = content.split_first_chunk::<7>() else {
            continue;
        };
        let row = u16::from_le_bytes([place[0], place[1]]);
        let column = u16::from_le_bytes([place[2], place[3]]);
        let value = match (kind, value) {
            (INTEGER, [low, high, ..]) => {
                Some(Value::Number(u16::from_le_bytes([*low, *high]).into()))
            }
            (NUMBER, value) => {
                let bytes = value.first_chunk::<8>();
                bytes.map(|bytes| Value::Number(f64::from_le_bytes(*bytes)))
            }
            (LABEL, [length, text @ ..]) => {
                let text = &text[..text.len().min(usize::from(*length))];
                Some(Value::Text(String::from_utf8_lossy(text).into_owned()))
            }
            _ => None,
        };
        if let Some(value) = value {
            put(&mut cells, row.into(), column, value);
        }
    }
    cells
}

/// Reads the first sheet of an .xlsx file.
fn xlsx(file: &[u8]) -> Result<Cells, String> {
    let mut parts =
        ZipArchive::new(Cursor::new(file)).map_err(|error| format!("it is damaged: {error}"))?;
    let sheet = part(&mut parts, "xl/worksheets/sheet1.xml")?;
    // Other programs write texts into the cells.
    let shared = part(&mut parts, "xl/sharedStrings.xml");
    let shared = shared.map_or_else(|_| Vec::new(), |text| texts(&text));
    Ok(cells(&sheet, &shared))
}

/// Unpacks a part of an .xlsx file.
fn part(parts: &mut ZipArchive<Cursor<&[u8]>>, name: &str) -> Result<String, String> {
    let mut text = String::new();
    let part = parts
        .by_name(name)
        .map_err(|error| format!("{name}: {error}"))?;
    let read = part.take(LARGEST_PART).read_to_string(&mut text);
    match read.map_err(|error| format!("{name} is damaged: {error}"))? as u64 {
        LARGEST_PART => Err(format!("{name} is larger than any report of IOzone")),
        _ => Ok(text),
    }
}

/// Returns the shared texts, in order.
fn texts(xml: &str) -> Vec<String> {
    let mut texts = Vec::new();
    walk(xml, |event| match event {
        Found::Start("si", _) => texts.push(String::new()),
        Found::Text("t", text) => {
            if let Some(last) = texts.last_mut() {
                last.push_str(text);
            }
        }
        _ => {}
    });
    texts
}

fn cells(xml: &str, shared: &[String]) -> Cells {
    let mut cells = Cells::new();
    let (mut place, mut kind) = (None, String::new());
    walk(xml, |event| match event {
        Found::Start("c", start) => {
            place = attribute(start, "r").and_then(|name| cell_place(&name));
            kind = attribute(start, "t").unwrap_or_default();
        }
        Found::Text("v" | "t", text) => {
            let value = match kind.as_str() {
                "s" => {
                    let index: Option<usize> = text.trim().parse().ok();
                    index
                        .and_then(|index| shared.get(index))
                        .cloned()
                        .map(Value::Text)
                }
                "inlineStr" | "str" => Some(Value::Text(text.to_owned())),
                _ => text.trim().parse().ok().map(Value::Number),
            };
            if let Some(((row, column), value)) = place.zip(value) {
                put(&mut cells, row, column, value);
            }
        }
        _ => {}
    });
    cells
}

/// Returns row and column of a name such as `B12`.
fn cell_place(name: &str) -> Option<(u32, u16)> {
    let digits = name.find(|letter: char| letter.is_ascii_digit())?;
    let mut column: u16 = 0;
    for letter in name[..digits].bytes() {
        let place = u16::from(letter.checked_sub(b'A').filter(|place| *place < 26)?);
        column = column.checked_mul(26)?.checked_add(place + 1)?;
    }
    let row: u32 = name[digits..].parse().ok()?;
    Some((row.checked_sub(1)?, column.checked_sub(1)?))
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = start.try_get_attribute(name).ok()??;
    Some(found.value.into_owned())
}

/// A part of a document.
enum Found<'f> {
    Start(&'f str, &'f BytesStart<'f>),
    /// The whole text of an element without others in it, with its name.
    Text(&'f str, &'f str),
}

/// Calls `visit` for each element of a document, up to its end or its damage.
fn walk(xml: &str, mut visit: impl FnMut(Found<'_>)) {
    let mut reader = Reader::from_str(xml);
    let mut text = String::new();
    loop {
        match reader.read_event() {
            Ok(Event::Start(start) | Event::Empty(start)) => {
                text.clear();
                visit(Found::Start(start.local_name().as_ref(), &start));
            }
            Ok(Event::Text(part)) => text += &part.xml10_content(),
            Ok(Event::GeneralRef(name)) => match name.resolve_char_ref() {
                Ok(Some(character)) => text.push(character),
                Ok(None) => text += resolve_predefined_entity(&name).unwrap_or("\u{fffd}"),
                Err(_) => return,
            },
            Ok(Event::End(end)) => {
                visit(Found::Text(end.local_name().as_ref(), &text));
                text.clear();
            }
            Ok(Event::Eof) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_values_are_no_switches() {
        assert!(!has_switch("iozone -a -fOut -RbNew.wks", "-O"));
        assert!(!has_switch("iozone -a -fOut -RbNew.wks", "-N"));
        assert!(!has_switch("iozone -a -f -O", "-O"));
        assert!(has_switch("iozone -RO -f out", "-O"));
        assert_eq!(file_size("iozone -t 2 -Rs 4m -F a b", true), Some(4096));
    }

    #[test]
    fn the_size_of_a_cut_command_is_unknown() {
        let long = format!("iozone -t 2 -i 0 -F {}", "x".repeat(300));
        assert_eq!(file_size(&long[..255], true), None);
        assert_eq!(file_size(&long[..255], false), Some(512));
        let sized = format!("iozone -s 8 -t 2 -F {}", "x".repeat(300));
        assert_eq!(file_size(&sized[..255], true), Some(8));
    }

    #[test]
    fn a_row_longer_than_its_heading_is_refused() {
        let mut cells = Cells::new();
        put(&mut cells, 2, 0, Value::Text("Writer Report".to_owned()));
        put(&mut cells, 3, 1, Value::Number(4.0));
        put(&mut cells, 4, 0, Value::Number(64.0));
        put(&mut cells, 4, 1, Value::Number(100.0));
        assert!(reports("iozone -a", &cells, true).is_ok());
        put(&mut cells, 4, 999, Value::Number(1.0));
        let error = reports("iozone -a", &cells, true).unwrap_err();
        assert!(error.contains("column 1000"), "{error}");
    }
}

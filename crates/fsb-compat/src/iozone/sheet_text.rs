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
    Ok(match is_throughput {
        true => throughput(command, &cells),
        false => reports(command, &cells),
    })
}

/// Returns the reports of a table, a line for each row.
fn reports(command: &str, cells: &Cells) -> String {
    let mut text = format!("Command line used: {command}\n");
    let unit = if has_switch(command, 'N') {
        "microseconds per operation"
    } else if has_switch(command, 'O') {
        "operations per second"
    } else {
        "kBytes/sec"
    };
    let _ = writeln!(text, "Output is in {unit}"); // a String takes anything
    let last = cells.keys().next_back().copied().unwrap_or(0);
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
                for column in 1..=end {
                    let _ = write!(text, " {} ", number(row, column).unwrap_or(0.0));
                }
                text.push('\n');
            }
            None => {
                for value in row.values() {
                    if let Value::Number(record) = value {
                        let _ = write!(text, "  \"{record}\"");
                    }
                }
                text.push('\n');
            }
        }
    }
    text
}

/// Returns whether a command has this switch, also in a cluster such as `-RO`.
fn has_switch(command: &str, switch: char) -> bool {
    command.split_whitespace().any(|word| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        letters.contains(switch) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}

/// Returns the report of throughput mode as its lines of children, for each number of processes.
fn throughput(command: &str, cells: &Cells) -> String {
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
    let counts = counts.into_iter().flat_map(BTreeMap::iter);
    for (column, count) in counts {
        let Value::Number(count) = count else {
            continue;
        };
        let file = file_size(command);
        let _ = writeln!(text, "Throughput test with {count} {name}");
        let _ = writeln!(
            text,
            "Each process writes a {file} kByte file in {record} kByte records"
        );
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
/// the size.
fn file_size(command: &str) -> u64 {
    let mut words = command.split_whitespace();
    let typed = words.find_map(|word| word.strip_prefix("-s"));
    let size = match typed {
        Some("") => words.next().unwrap_or_default(),
        Some(size) => size,
        None => "512",
    };
    let digits = size.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &size[digits.len()..] {
        "m" | "M" => 1 << 10,
        "g" | "G" => 1 << 20,
        _ => 1,
    };
    whole(digits.as_bytes()).unwrap_or(0).saturating_mul(unit)
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

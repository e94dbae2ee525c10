//! Lines and numbers as tools print them. The length of lines is bounded.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::ops::RangeInclusive;

use crate::tool::ReadError;

/// The longest line that is looked at. The longest that a known tool prints (a command line) is far
/// below.
const LONGEST: u64 = 64 * 1024;

/// The largest text that is read as a whole. The json+ of a hundred jobs of fio is a tenth of it.
const MOST_BYTES: u64 = 64 << 20;

/// Lines from an input, in a buffer that is used again.
pub(crate) struct Lines<'a> {
    input: &'a mut dyn BufRead,
    buffer: Vec<u8>,
    number: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// From 1.
    pub number: u32,
    /// The bytes without the line end (`\n` or `\r\n`).
    pub bytes: &'a [u8],
    /// Whether it ended with a line end: if not, the input may have been cut within it.
    pub ended: bool,
    /// Whether it was longer than can be looked at; the rest was skipped.
    pub too_long: bool,
}

impl<'a> Lines<'a> {
    pub fn new(input: &'a mut dyn BufRead) -> Self {
        Lines {
            input,
            buffer: Vec::new(),
            number: 0,
        }
    }

    /// Returns the next line, or `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        if (&mut *self.input)
            .take(LONGEST)
            .read_until(b'\n', &mut self.buffer)?
            == 0
        {
            return Ok(None);
        }
        let too_long = self.buffer.len() as u64 == LONGEST && !self.buffer.ends_with(b"\n");
        if too_long {
            self.input.skip_until(b'\n')?;
        }
        self.number = self.number.saturating_add(1);
        let (bytes, ended) = match self.buffer.strip_suffix(b"\n") {
            Some(bytes) => (bytes.strip_suffix(b"\r").unwrap_or(bytes), true),
            None => (&self.buffer[..], false),
        };
        let bytes = if self.number == 1 {
            bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
        } else {
            bytes
        };
        Ok(Some(Line {
            number: self.number,
            bytes,
            ended,
            too_long,
        }))
    }
}

impl Line<'_> {
    /// Returns the text without blanks at either end. Bytes that are not UTF-8 become replacement
    /// characters.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes.trim_ascii())
    }

    /// Returns the start of it, for a message.
    pub(crate) fn excerpt(&self) -> Excerpt<'_> {
        Excerpt(self.bytes.trim_ascii(), EXCERPT)
    }

    /// Returns it as a message of the tool, which ends with the cause.
    pub(crate) fn message(&self) -> Excerpt<'_> {
        Excerpt(self.bytes.trim_ascii(), MESSAGE)
    }
}

/// Returns the start of a text for a message: of limited length, without control characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let printable = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    let mut short: String = text.chars().take(most).map(printable).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    short
}

/// The start of a line, made presentable only when it is printed.
pub(crate) struct Excerpt<'a>(&'a [u8], usize);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At most four bytes a character.
        let Excerpt(bytes, most) = self;
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * most)]);
        for c in text.chars().take(*most) {
            fmt::Write::write_char(
                f,
                if c.is_control() {
                    char::REPLACEMENT_CHARACTER
                } else {
                    c
                },
            )?;
        }
        if text.chars().nth(*most).is_some() {
            f.write_str("…")
        } else {
            Ok(())
        }
    }
}

/// Characters of an excerpt.
const EXCERPT: usize = 40;

/// Characters of a message of a tool.
const MESSAGE: usize = 200;

/// The offsets of the line ends in a text.
pub(crate) struct LineIndex(Vec<usize>);

impl LineIndex {
    pub fn new(text: &str) -> LineIndex {
        LineIndex(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at)
                .collect(),
        )
    }

    /// Returns the line of an offset, from 1.
    pub fn line(&self, offset: usize) -> u32 {
        (self.0.partition_point(|end| *end < offset) + 1).min(u32::MAX as usize) as u32
    }
}

/// Reads a whole text. Bytes that are no UTF-8 become replacement characters.
///
/// # Errors
/// Fails if the text is larger than `MOST_BYTES`.
pub(crate) fn whole_text(input: &mut dyn BufRead, tool: &'static str) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        let why = format!(
            "it is larger than {} MiB, the most that fsb reads of a report",
            MOST_BYTES >> 20
        );
        return Err(ReadError::refused(tool, why));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns whether a text holds another.
pub(crate) fn holds(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

/// Parses a whole number: digits only, at most 2⁶⁴−1.
pub(crate) fn whole(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A number with a fraction, and whether a comma precedes the fraction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decimal {
    pub value: f64,
    /// Whether it was written with the decimal comma of a locale.
    pub comma: bool,
}

/// Parses a number that its tool always prints with a fixed number of digits after the point. That
/// makes a comma there certain: a separator of thousands would leave the number without its
/// fraction.
pub(crate) fn fixed(text: &str, places: RangeInclusive<usize>) -> Option<Decimal> {
    let at = text.find(['.', ','])?;
    let (before, after) = (&text[..at], &text[at + 1..]);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(before) || !digits(after) || !places.contains(&after.len()) {
        return None;
    }
    let comma = text.as_bytes()[at] == b',';
    let value = if comma {
        text.replace(',', ".").parse()
    } else {
        text.parse()
    }
    .ok()?;
    Some(Decimal { value, comma })
}

/// Splits a text into its leading number and the rest.
pub(crate) fn split_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Parses a size with a binary unit: `262144 bytes`, `16MiB`, `1.50 GiB`. Returns `None` for a size
/// below one byte.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text);
    let shifts = [
        ("bytes", 0),
        ("B", 0),
        ("KiB", 10),
        ("MiB", 20),
        ("GiB", 30),
        ("TiB", 40),
    ];
    let (_, shift) = shifts.into_iter().find(|(known, _)| *known == unit)?;
    let bytes = number.parse::<f64>().ok()? * (1u64 << shift) as f64;
    (bytes >= 1.0 && bytes < 2f64.powi(63)).then_some(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_of_both_kinds_are_taken_off_and_counted() {
        let mut input: &[u8] = b"\xef\xbb\xbfone\r\ntwo\n\nlast";
        let mut lines = Lines::new(&mut input);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push((line.number, line.text().into_owned(), line.ended));
        }
        let expected = [
            (1, "one", true),
            (2, "two", true),
            (3, "", true),
            (4, "last", false),
        ];
        assert_eq!(
            seen,
            expected.map(|(number, text, ended)| (number, text.to_owned(), ended))
        );
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_the_longest() {
        let text = [vec![b'x'; 3 << 20], b"\nnext\n".to_vec()].concat();
        let mut input = &text[..];
        let mut lines = Lines::new(&mut input);
        let line = lines.next().unwrap().unwrap();
        assert!(line.too_long && line.bytes.len() as u64 == LONGEST);
        assert_eq!(lines.next().unwrap().unwrap().bytes, b"next");
        assert!(lines.buffer.capacity() as u64 <= 2 * LONGEST);
    }

    #[test]
    fn whole_numbers_are_digits_that_fit() {
        assert_eq!(whole(b"64000000"), Some(64_000_000));
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        for text in ["", "-1", "1.5", "18446744073709551616", "1e3"] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_comma_is_read_only_where_it_can_be_nothing_else() {
        assert_eq!(
            fixed("4263913.00", 2..=2),
            Some(Decimal {
                value: 4_263_913.0,
                comma: false
            })
        );
        assert_eq!(
            fixed("157,24", 2..=2),
            Some(Decimal {
                value: 157.24,
                comma: true
            })
        );
        for text in ["157,245", "1,234.56", "157", ".50", "1.5e3", "nan", "-1.00"] {
            assert_eq!(fixed(text, 2..=2), None, "{text}");
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("262144 bytes"), Some(262_144));
        assert_eq!(size("16MiB"), Some(16 << 20));
        assert_eq!(size("1.50 GiB"), Some(3 << 29));
        for text in ["", "16", "16MB", "MiB", "0B", "99999999999 TiB", "1.2.3MiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}

//! Repairs of text that fio prints in place of JSON numbers: `-nan`, `inf`, decimal commas.
//!
//! A repair keeps the length of the text, so that an offset in the repaired text is the same offset
//! in the original.

use std::borrow::Cow;

/// Digits that fio prints after the decimal point.
const DECIMALS: usize = 6;

/// The text of documents with each repair.
pub(super) struct Repaired<'a> {
    pub text: Cow<'a, str>,
    /// The offset of the first number with a decimal comma.
    pub comma: Option<usize>,
}

/// Repairs the values in the documents that start at the offsets. A value that is not JSON becomes
/// a string, and a decimal comma becomes a point.
pub(super) fn repair<'a>(text: &'a str, starts: &[usize]) -> Repaired<'a> {
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let mut edits = Vec::new();
    for (start, end) in starts.iter().copied().zip(ends) {
        find_edits(&text.as_bytes()[..end], start, &mut edits);
    }
    if edits.is_empty() {
        return Repaired {
            text: Cow::Borrowed(text),
            comma: None,
        };
    }
    let comma = edits
        .iter()
        .find(|edit| edit.point.is_some())
        .map(|edit| edit.start);
    let mut bytes = text.as_bytes().to_vec();
    for edit in edits {
        match edit.point {
            Some(point) => bytes[point] = b'.',
            None => {
                bytes[edit.start..edit.end].fill(b'?');
                bytes[edit.start] = b'"';
                bytes[edit.end - 1] = b'"';
            }
        }
    }
    // An edit replaces whole characters by ASCII, so the text stays UTF-8.
    String::from_utf8(bytes).map_or(
        Repaired {
            text: Cow::Borrowed(text),
            comma: None,
        },
        |repaired| Repaired {
            text: Cow::Owned(repaired),
            comma,
        },
    )
}

/// A value to replace: by a string, or by the same number with a point.
struct Edit {
    start: usize,
    end: usize,
    /// The offset of a decimal comma.
    point: Option<usize>,
}

/// Finds the values of the object at an offset that are not JSON.
fn find_edits(text: &[u8], start: usize, edits: &mut Vec<Edit>) {
    let (mut at, mut after_colon, mut depth) = (start, false, 0usize);
    while at < text.len() {
        match text[at] {
            b'{' | b'[' => (at, depth) = (at + 1, depth + 1),
            b'}' | b']' if depth <= 1 => return,
            b'}' | b']' => (at, depth) = (at + 1, depth - 1),
            b'"' => at = end_of_string(text, at),
            b':' => {
                (at, after_colon) = (at + 1, true);
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            byte if !delimits(byte) => {
                let end = end_of_value(text, at, after_colon);
                edits.extend(edit(text, at, end));
                at = end;
            }
            _ => at += 1,
        }
        after_colon = false;
    }
}

fn end_of_string(text: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

fn delimits(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}' | b'[' | b']' | b'"' | b':' | b',')
}

/// Returns the end of a value without quotes. After a key, a comma before a digit is a part of it,
/// because no key begins with a digit.
fn end_of_value(text: &[u8], start: usize, follows_key: bool) -> usize {
    (start..text.len())
        .find(|at| {
            let is_digit = text.get(at + 1).is_some_and(u8::is_ascii_digit);
            delimits(text[*at]) && !(follows_key && text[*at] == b',' && is_digit)
        })
        .unwrap_or(text.len())
}

/// Returns the edit that makes a value JSON; `None` if it is JSON, or too short for a string.
fn edit(text: &[u8], start: usize, end: usize) -> Option<Edit> {
    let value = &text[start..end];
    if end - start < 2 || matches!(value, b"true" | b"false" | b"null") {
        return None;
    }
    if serde_json::from_slice::<f64>(value).is_ok() {
        return None;
    }
    let comma = value.iter().position(|byte| *byte == b',');
    let decimal = comma.filter(|comma| {
        let (whole, places) = (&value[..*comma], &value[comma + 1..]);
        let digits = whole.strip_prefix(b"-").unwrap_or(whole);
        let mut all = digits.iter().chain(places);
        !digits.is_empty() && places.len() == DECIMALS && all.all(u8::is_ascii_digit)
    });
    Some(Edit {
        start,
        end,
        point: decimal.map(|comma| start + comma),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(text: &str) -> String {
        let fixed = repair(text, &[0]).text.into_owned();
        assert_eq!(fixed.len(), text.len());
        fixed
    }

    #[test]
    fn values_that_are_not_json_become_strings_of_the_same_length() {
        for (text, expected) in [
            (r#"{"a": -nan, "b": nan}"#, r#"{"a": "??", "b": "?"}"#),
            (r#"{"a" : -inf}"#, r#"{"a" : "??"}"#),
            (r#"{"a":-1.#IND,"b":.5}"#, r#"{"a":"?????","b":""}"#),
            (r#"{"a":50,000,000}"#, r#"{"a":"????????"}"#),
            (r#"{"a":12,500}"#, r#"{"a":"????"}"#),
            (
                r#"{"a":0x10, "b": [1,nan,200000]}"#,
                r#"{"a":"??", "b": [1,"?",200000]}"#,
            ),
        ] {
            assert_eq!(repaired(text), expected);
        }
    }

    #[test]
    fn valid_text_is_not_copied() {
        for text in [
            r#"{"a": [1,2], "b:nan": "x: nan, \" inf", "c": -1.5e3, "d": null, "e": true}"#,
            "{\"a\"",
            "{\"a\":",
        ] {
            assert!(
                matches!(repair(text, &[0]).text, Cow::Borrowed(_)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_comma_before_six_digits_is_a_decimal_comma() {
        let fixed = repair(r#"{"a": 1, "b": 12,500000, "c": 2}"#, &[0]);
        assert_eq!(
            (&*fixed.text, fixed.comma),
            (r#"{"a": 1, "b": 12.500000, "c": 2}"#, Some(14))
        );
    }

    #[test]
    fn text_around_documents_is_kept() {
        let text = "note: nan\n{\"a\": nan}\nnote: inf\n";
        assert_eq!(
            repair(text, &[10]).text,
            "note: nan\n{\"a\": \"?\"}\nnote: inf\n"
        );
    }
}

//! The checksum of a line of the journal: CRC-32 of the line without the field, which is the last
//! one.
//!
//! A flipped bit or an edited digit leaves valid JSON with another value. The checksum finds it.

use std::io;

use serde::Serialize;

/// The name of the field, for readers that keep unknown fields.
pub(crate) const FIELD: &str = "crc32";
/// The text before the hexadecimal digits.
const BEFORE: &[u8] = b",\"crc32\":\"";
/// The text after them, at the end of the line.
const AFTER: &[u8] = b"\"}";
/// The number of hexadecimal digits.
const DIGITS: usize = 8;

/// Returns an object as a line of the journal, with its checksum and the line end.
///
/// # Errors
///
/// Returns an error if the value is not an object with fields, or holds a number that JSON cannot
/// hold.
pub fn journal_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    let crc = crc32fast::hash(&line);
    match line.pop() {
        Some(b'}') if line.len() > 1 => {}
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a line of the journal is an object",
            ));
        }
    }
    line.extend_from_slice(BEFORE);
    line.extend_from_slice(format!("{crc:0DIGITS$x}").as_bytes());
    line.extend_from_slice(AFTER);
    line.push(b'\n');
    Ok(line)
}

/// The checksum of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checksum {
    Absent,
    Right,
    Wrong,
}

impl Checksum {
    /// Verifies the checksum of a line without its end.
    pub(crate) fn of_line(line: &[u8]) -> Checksum {
        let Some((content, digits)) = line
            .strip_suffix(AFTER)
            .and_then(|rest| rest.split_at_checked(rest.len().checked_sub(DIGITS)?))
        else {
            return Checksum::Absent;
        };
        let Some(content) = content.strip_suffix(BEFORE) else {
            return Checksum::Absent;
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(content);
        hasher.update(b"}");
        match format!("{:0DIGITS$x}", hasher.finalize()).as_bytes() == digits {
            true => Checksum::Right,
            false => Checksum::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_json_with_the_checksum_of_the_rest() {
        let line = journal_line(&json!({"block": 1, "value": 2.5})).unwrap();
        let text = String::from_utf8(line.clone()).unwrap();
        // Computed by Python's zlib.crc32.
        assert_eq!(text, "{\"block\":1,\"value\":2.5,\"crc32\":\"06fa11e9\"}\n");
        assert_eq!(Checksum::of_line(line.trim_ascii_end()), Checksum::Right);
        assert_eq!(Checksum::of_line(b"{\"block\":1}"), Checksum::Absent);
        assert_eq!(Checksum::of_line(b"\"}"), Checksum::Absent);
        assert!(journal_line(&json!([1])).is_err() && journal_line(&json!({})).is_err());
    }

    proptest! {
        #[test]
        fn every_changed_byte_is_found(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let line = journal_line(&json!({"block": 1, "value": 1234567.25, "error": null})).unwrap();
            let line = line.trim_ascii_end();
            let mut changed = line.to_vec();
            *at.get_mut(&mut changed) = byte;
            prop_assert_eq!(Checksum::of_line(&changed) == Checksum::Right, changed == line);
        }
    }
}

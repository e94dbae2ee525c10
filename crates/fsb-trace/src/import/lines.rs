//! The lines of another tool's log.

use std::io::{BufRead, Read};

use crate::TraceError;

/// The longest line that is read; strace shortens texts, but lists of many pieces are long.
const LONGEST: u64 = 1 << 20;

/// Calls `each` with every line and its number; bytes that are no text become replacement characters.
pub(super) fn each(
    from: &mut dyn BufRead,
    mut each: impl FnMut(u64, &str) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let (mut bytes, mut line) = (Vec::new(), 0);
    loop {
        bytes.clear();
        line += 1;
        (&mut *from).take(LONGEST).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() as u64 == LONGEST && bytes.last() != Some(&b'\n') {
            return Err(TraceError::Line { line, message: "it is longer than any line of a trace".to_owned() });
        }
        each(line, String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']))?;
    }
}

/// Nanoseconds up to which times of a log are accepted: 146 years, so that the sum of two is a time of a trace.
pub(super) const LATEST: u64 = i64::MAX as u64 / 2;

/// Parses seconds as nanoseconds. Returns `None` if the text is not a number or is later than [`LATEST`].
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
    whole.checked_mul(1_000_000_000)?.checked_add(fraction).filter(|time| *time <= LATEST)
}

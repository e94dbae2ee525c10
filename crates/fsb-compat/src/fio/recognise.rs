//! Forms of fio's output, recognised by their first bytes.

use crate::lines::holds;

/// Returns whether this is the report for people: `fio-3.33` on a line of its own, and lines of jobs.
pub(super) fn is_text(head: &[u8]) -> bool {
    let version = head.split(|byte| *byte == b'\n').any(|line| is_version(line.trim_ascii()));
    version && (holds(head, b": (groupid=") || holds(head, b": (g="))
}

/// Returns whether this is the terse report: `3;fio-3.33;…`.
pub(super) fn is_terse(head: &[u8]) -> bool {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    first.split(|byte| *byte == b';').nth(1).is_some_and(is_version)
}

pub(super) fn is_version(text: &[u8]) -> bool {
    text.strip_prefix(b"fio-").is_some_and(|version| version.first().is_some_and(u8::is_ascii_digit))
}

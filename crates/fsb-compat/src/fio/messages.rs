//! fio's messages around its reports: before them, between them and after them.

use std::borrow::Cow;

use fsb_model::errno;

use crate::draft::Draft;
use crate::text::LineIndex;

/// Characters of a message that a remark keeps.
const LONGEST: usize = 200;

/// Adds a remark for each message in `text`, which starts at `offset` of the file. A message with an error number ends
/// the run, unless a job of the report has that error.
pub(super) fn keep(text: &str, offset: usize, lines: &LineIndex, known: &[i64], draft: &mut Draft) {
    let mut at = offset;
    for line in text.split_inclusive('\n') {
        let message = line.trim_start_matches('\u{feff}').trim();
        if is_message(message) {
            let number = lines.line(at);
            draft.remark(number, message.chars().take(LONGEST).collect::<String>());
            if let Some(error) = error_number(message).filter(|error| !known.contains(error)) {
                draft.fail(number, None, format_args!("fio reports: {}", error_text(error)));
            }
        }
        at += line.len();
    }
}

/// Returns whether a line is a message that casts doubt on the results: of fio, of one of its servers (`<host> …`), or
/// about data that does not verify.
fn is_message(line: &str) -> bool {
    // A server sends its normal report, too.
    let is_trouble = |text: &str| ["error", "fail", "fio:", "verify"].iter().any(|word| text.contains(word));
    let of_server = || {
        let found = line.strip_prefix('<').and_then(|line| line.split_once("> "));
        found.is_some_and(|(host, text)| !host.contains(' ') && is_trouble(text))
    };
    line.starts_with("fio:")
        || line.starts_with("verify:")
        || line.starts_with("error:")
        || line.starts_with("client <")
        || line.contains(": verify failed at file")
        || error_number(line).is_some()
        || of_server()
}

/// Returns the error number of `err=28/file:io_u.c`, or of `err=28 (file:…)` in the normal report.
fn error_number(line: &str) -> Option<i64> {
    let (before, after) = line.split_once("err=")?;
    if before.ends_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let after = after.trim_start();
    let digits = after.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(after.len());
    after[..digits].parse().ok().filter(|number| *number != 0)
}

/// Returns an error number in words: `no space left on device (28)`.
pub(super) fn error_text(number: i64) -> String {
    // fio ends a job with EILSEQ if the data read is not the data written.
    const VERIFY: i64 = 84;
    let number = number.saturating_abs();
    let words: Cow<str> = match i32::try_from(number) {
        Ok(_) if number == VERIFY => "the data read is not the data written".into(),
        Ok(number) => errno::describe(number).into(),
        Err(_) => "unknown error".into(),
    };
    let words = words.split(" (").next().unwrap_or_default();
    let mut chars = words.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase()).into_iter();
    format!("{} ({number})", first.chain(chars).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_fio_and_of_its_servers_are_told_from_other_lines() {
        for message in [
            "fio: terminating on signal 2",
            "<node-a> error: failed to setup shm segment",
            "client <node-a>: exited with error 1",
            "<10.0.0.7> fio: pid=11, err=5/file:io_u.c:1876, func=io_u error, error=Input/output error",
            "verify: bad header rand_seed 1, wanted 2 at file /x offset 0, length 4096",
            "crc32c: verify failed at file /x offset 0, length 4096",
            "w: (groupid=0, jobs=1): err=28 (file:io_u.c:1876, func=io_u error, error=No space left on device): pid=1",
        ] {
            assert!(is_message(message), "{message}");
        }
        for other in [
            "+ fio w.fio",
            "w: (groupid=0, jobs=1): err= 0: pid=1034",
            "<node-a> w: (g=0): rw=write, bs=(R) 4096B-4096B",
            "stderr=28",
            "<a b> error",
        ] {
            assert!(!is_message(other), "{other}");
        }
    }

    #[test]
    fn error_numbers_have_words() {
        assert_eq!(error_number("fio: pid=11, err=28/file:io_u.c:1876, func=io_u error"), Some(28));
        assert_eq!(error_number("w: (groupid=0, jobs=1): err= 0: pid=3"), None);
        assert_eq!(error_text(28), "no space left on device (28)");
        assert_eq!(error_text(-5), error_text(5));
        assert_eq!(error_text(84), "the data read is not the data written (84)");
        assert_eq!(error_text(i64::MAX), format!("unknown error ({})", i64::MAX));
    }
}

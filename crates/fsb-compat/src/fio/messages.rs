//! fio's messages around its reports: before them, between them and after them.

use std::borrow::Cow;
use std::collections::HashSet;

use fsb_model::errno;

use crate::draft::Draft;
use crate::text::LineIndex;

/// Characters of a message that a remark keeps.
const LONGEST: usize = 200;

/// The messages around the reports of a run, and what the reports say of its errors.
#[derive(Default)]
pub(super) struct Messages<'t> {
    /// The errors of jobs, so that a message does not repeat them.
    pub errors: HashSet<i64>,
    /// The hosts with a job that has an error.
    pub hosts: HashSet<&'t str>,
    /// Whether fio ended its processes because it received a signal.
    is_terminated: bool,
}

impl Messages<'_> {
    /// Adds a remark for each message in `text`, which starts at `offset` of the file. A message
    /// about an error or the end of a process or host is a failure of the run, unless a job of the
    /// report has that error.
    pub fn keep(&mut self, text: &str, offset: usize, lines: &LineIndex, draft: &mut Draft) {
        let mut at = offset;
        for line in text.split_inclusive('\n') {
            let message = line.trim_start_matches('\u{feff}').trim();
            if is_message(message) {
                let number = lines.line(at);
                let excerpt: String = message.chars().take(LONGEST).collect();
                self.is_terminated |=
                    without_host(message).starts_with("fio: terminating on signal");
                if let Some(error) =
                    error_number(message).filter(|error| !self.errors.contains(error))
                {
                    draft.fail(
                        number,
                        None,
                        format_args!("fio reports: {}", error_text(error)),
                    );
                } else if self.is_loss(message) {
                    draft.fail(number, None, format_args!("fio reports: {excerpt}"));
                }
                draft.remark(number, excerpt);
            }
            at += line.len();
        }
    }

    /// Returns whether a message says that a process or a host ended before its report (fio 3.33 to
    /// 3.41). A `timeout on SEND_ETA` alone does not count: fio goes on, and prints that the client
    /// timed out after several of them.
    fn is_loss(&self, message: &str) -> bool {
        if let Some((host, _)) = message
            .strip_prefix("client <")
            .and_then(|rest| rest.split_once(">: exited with error "))
        {
            return !self.hosts.contains(host);
        }
        let message = without_host(message);
        if message.starts_with("client: host=") {
            return message.ends_with(" disconnected");
        }
        let is_of = |start: &str, part: &str| {
            message
                .strip_prefix(start)
                .is_some_and(|rest| rest.contains(part))
        };
        is_of("fio: pid=", ", got signal=") && !self.is_terminated
            || is_of("fio: pid=", " disappeared ")
            || is_of("fio: job '", " forceful exit of this job")
            || is_of("fio: client ", ", timeout on cmd ")
            || is_of("fio: client ", " timed out")
    }
}

/// Returns whether a line is a message that casts doubt on the results: of fio, of one of its
/// servers (`<host> …`), or about data that does not verify.
fn is_message(line: &str) -> bool {
    let text = without_host(line);
    ["fio:", "verify:", "error:", "client <", "client: host="]
        .iter()
        .any(|start| line.starts_with(start))
        || line.contains(": verify failed at file")
        || error_number(line).is_some()
                // A server sends its normal report, too.
        || text.len() < line.len()
            && ["error", "fail", "fio:", "verify"].iter().any(|word| text.contains(word))
}

/// Returns a message without the host that a client prints before the messages of its server.
fn without_host(line: &str) -> &str {
    let found = line
        .strip_prefix('<')
        .and_then(|line| line.split_once("> "));
    found
        .filter(|(host, _)| !host.contains(' '))
        .map_or(line, |(_, text)| text)
}

/// Returns the error number of `fio: pid=11, err=28/file:io_u.c`, or of `w: (groupid=0, jobs=1):
/// err=28 (file:…)` in the normal report. Other text may have `err=` as well.
fn error_number(line: &str) -> Option<i64> {
    let text = without_host(line);
    let (_, after) = match text.strip_prefix("fio: pid=") {
        Some(text) => text.split_once(", err=")?,
        None => text.split_once("(groupid=")?.1.split_once("): err=")?,
    };
    let after = after.trim_start();
    let digits = after
        .find(|c: char| !(c.is_ascii_digit() || c == '-'))
        .unwrap_or(after.len());
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
            "+ rc=0 err=1",
            "script: (err=5) fio: pid=3, err=5/x",
            "<a b> error",
        ] {
            assert!(!is_message(other), "{other}");
        }
    }

    #[test]
    fn error_numbers_have_words() {
        assert_eq!(
            error_number("fio: pid=11, err=28/file:io_u.c:1876, func=io_u error"),
            Some(28)
        );
        assert_eq!(error_number("w: (groupid=0, jobs=1): err= 0: pid=3"), None);
        assert_eq!(error_text(28), "no space left on device (28)");
        assert_eq!(error_text(-5), error_text(5));
        assert_eq!(error_text(84), "the data read is not the data written (84)");
        assert_eq!(
            error_text(i64::MAX),
            format!("unknown error ({})", i64::MAX)
        );
    }
}

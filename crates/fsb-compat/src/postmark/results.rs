//! Results of PostMark 1.5x: its report for people, and published ones.

use std::io::BufRead;

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT};
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::message::{self, Found, Messages, Pattern, Severity, ends_early};
use crate::text::{Decimal, Line, Lines, fixed, holds, whole};
use crate::tool::{ReadError, Tool};

/// Reads PostMark's reports.
pub(crate) const TOOL: Tool = Tool {
    name: "postmark",
    title: "PostMark",
    about: "reports of 1.5x and of 'fsb postmark' ('set report verbose', the default)",
    looks_for: "the banner 'PostMark v1.5' or the line 'seconds of transactions'",
    values: "bytes/s in binary units, files/s and transactions/s",
    repetition: "a report",
    recognise,
    read,
};

/// The phrase of a line before its parenthesis, and the operation of the rate in the parenthesis. A
/// phrase that occurs twice belongs to created files, then to deleted files.
#[rustfmt::skip] // a table reads as one
static RATES: [(&str, &str); 9] = [
    ("seconds of transactions", "transaction"),
    ("created", "create"),
    ("Creation alone", "create_alone"),
    ("read", "read"),
    ("appended", "append"),
    ("deleted", "delete"),
    ("Deletion alone", "delete_alone"),
    ("Mixed with transactions", "create_mixed"),
    ("Mixed with transactions", "delete_mixed"),
];

/// Digits of a second that `fsb postmark` prints.
const FRACTION: usize = 6;

fn recognise(head: &[u8]) -> bool {
    holds(head, b"PostMark v1.5") || holds(head, b" seconds of transactions (")
}

/// The messages of PostMark 1.5x: errors of a run, and of commands that it ignores.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Part("Error: cannot open '"), Severity::Failure),
    (Pattern::Part("Error: Cannot delete '"), Severity::Failure),
    (Pattern::Part("Error: failed to allocate source file"), Severity::Failure),
    (Pattern::Part("Error: Failed to allocate table"), Severity::Failure),
    (Pattern::Part("Error: cannot build weighted index"), Severity::Failure),
    (Pattern::Part("Error: "), Severity::Warning),
];

/// Lines of the command `show`, with the names of their settings.
#[rustfmt::skip] // a table reads as one
static SETTINGS: [(&str, &str); 8] = [
    ("The base number of files is ", "number"),
    ("Transactions: ", "transactions"),
    ("Files range between ", "size"),
    ("Files are ", "size"),
    ("Block sizes are: ", "block sizes"),
    ("Biases are: ", "biases"),
    ("Using Unix buffered file I/O", "buffering"),
    ("Not using Unix buffered file I/O", "buffering"),
];

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut report = Report::new(None);
    let mut version = None;
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(found) = text.strip_prefix("PostMark v") {
            version = found.split_whitespace().next().map(str::to_owned);
        }
        // One execution of PostMark can run several times, each with a report of its own.
        let works =
            text.starts_with("Creating files") || text.starts_with("Creating subdirectories");
        if (text == "Time:" || works) && report.is_awaited {
            report.is_awaited = works;
            report.report_messages();
        } else if text == "Time:" || works || text.starts_with("PostMark v") {
            let mut next = Report::new(version.clone());
            if !text.starts_with("PostMark v") {
                next.begin(&mut report);
            }
            if works {
                next.draft.begin(line.number);
                next.is_awaited = true;
            }
            runs.push(std::mem::replace(&mut report, next).finish())?;
        } else {
            report.take(&line, &text)?;
        }
    }
    runs.push(report.finish())?;
    runs.finish(|| {
        "it holds no verbose report; run PostMark with 'set report verbose', its default".to_owned()
    })
}

/// One report while it is read.
struct Report {
    draft: Draft,
    /// Whether the lines about deleted files were reached.
    deleting: bool,
    /// The seconds of the whole run and of its transactions, as printed.
    seconds: Option<f64>,
    transaction_seconds: Option<f64>,
    /// Messages and settings since the last report. They precede the report of their run.
    messages: Vec<Found>,
    settings: Vec<(&'static str, String)>,
    complete: bool,
    /// Whether the run started and its report did not.
    is_awaited: bool,
}

/// Messages that are kept until their report.
const MOST_MESSAGES: usize = 1000;

impl Report {
    fn new(version: Option<String>) -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version = version;
        draft.run.clock_resolution = Some(1.0);
        let (seconds, transaction_seconds, messages, settings) =
            (None, None, Vec::new(), Vec::new());
        let (deleting, complete, is_awaited) = (false, false, false);
        Report {
            draft,
            deleting,
            seconds,
            transaction_seconds,
            messages,
            settings,
            complete,
            is_awaited,
        }
    }

    /// Takes the messages and settings that precede this report, which follow the last one.
    fn begin(&mut self, last: &mut Report) {
        last.messages
            .drain(..)
            .for_each(|message| message.report(None, &mut self.draft));
        self.settings.clone_from(&last.settings);
        self.settings
            .iter()
            .for_each(|(name, value)| self.draft.setting(None, name, value));
    }

    /// Reports the messages that were printed between the start of the run and its report.
    fn report_messages(&mut self) {
        self.messages
            .drain(..)
            .for_each(|message| message.report(None, &mut self.draft));
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        if let Some(message) = message::find(MESSAGES, line) {
            self.messages.push(message);
            self.messages.truncate(MOST_MESSAGES);
            return Ok(());
        }
        if let Some((start, name)) = SETTINGS.iter().find(|(start, _)| text.starts_with(start)) {
            let value = if text.len() == start.len() {
                (!start.starts_with("Not")).to_string()
            } else {
                text[start.len()..].to_owned()
            };
            self.settings.retain(|(known, _)| known != name);
            self.settings.push((name, value));
        }
        if let Some(seconds) = text.strip_suffix(" seconds total") {
            self.seconds = number(seconds)
                .or_else(|| fixed(seconds, FRACTION..=FRACTION).map(|number| number.value));
        }
        let Some((left, right)) = text.split_once(" (") else {
            return Ok(());
        };
        let Some(rate) = right.strip_suffix(" per second)") else {
            if right.contains("per second") || !line.ended {
                self.draft.remark(
                    line.number,
                    format_args!("no line of the report, left out: '{}'", line.excerpt()),
                );
            }
            return Ok(());
        };
        let known = match rate.split_once(' ') {
            Some((number, unit)) => self.bytes(line, left, number, unit)?,
            None => self.rate(line, left, rate)?,
        };
        if !known {
            self.draft.remark(
                line.number,
                format_args!("no line of the report, left out: '{}'", line.excerpt()),
            );
        }
        Ok(())
    }

    fn finish(mut self) -> Draft {
        if self.draft.has_values() && !self.complete {
            self.draft
                .remark(None, ends_early(TOOL.name, "the line about bytes written"));
        }
        // No report follows these messages: the run did not end.
        self.report_messages();
        self.draft
    }

    /// Adds a remark if an amount divided by the time is not the rate. PostMark rounds rates to
    /// whole numbers.
    fn check(
        &mut self,
        line: &Line,
        (amount, unit): (Option<f64>, &str),
        seconds: Option<f64>,
        rate: f64,
    ) {
        let Some((amount, seconds)) = amount.zip(seconds) else {
            return;
        };
        // Where seconds have no fraction, zero seconds count as one.
        let least = if self.draft.run.clock_resolution == Some(1.0) {
            1.0
        } else {
            1e-6
        };
        let expected = amount / f64::max(seconds, least);
        if (expected - rate).abs() > 1.0 + 0.02 * expected {
            let text = format!(
                "{amount:.0} {unit} in {seconds} s are {expected:.0}/s, but PostMark prints {rate:.0}/s"
            );
            self.draft.remark(line.number, text);
        }
    }

    /// Reads `29935 created (29935 per second)`, `Creation alone: 5000 files (5000 per second)`.
    fn rate(&mut self, line: &Line, left: &str, found: &str) -> Result<bool, ReadError> {
        let what = match left.split_once(':') {
            Some((what, _)) => what,
            None => left.split_once(' ').map_or(left, |(_, what)| what),
        };
        // The lines about created files come first, also where a line was moved.
        self.deleting = what == "deleted" || (self.deleting && what != "created");
        let later = what.starts_with("Mixed") && self.deleting;
        let operation = RATES
            .iter()
            .filter(|(known, _)| *known == what)
            .nth(usize::from(later))
            .map(|(_, name)| *name);
        let (Some(operation), Some(number)) = (operation, number(found)) else {
            return Ok(false);
        };
        match operation {
            "transaction" => self.look_at_seconds(line, left),
            "create" | "delete" => self.check(line, (count(left), "files"), self.seconds, number),
            "read" | "append" => self.check(
                line,
                (count(left), "files"),
                self.transaction_seconds,
                number,
            ),
            _ => {}
        }
        let name = Name {
            workload: None,
            operation,
        };
        self.draft.add(
            name,
            &OPERATION_RATE,
            "per second",
            place(line),
            rate(number),
        )?;
        Ok(true)
    }

    /// Reads `157.24 megabytes read (157.24 megabytes per second)`.
    fn bytes(
        &mut self,
        line: &Line,
        left: &str,
        number: &str,
        unit: &str,
    ) -> Result<bool, ReadError> {
        let Some(factor) = factor(unit) else {
            return Ok(false);
        };
        let operation = match left.rsplit(' ').next() {
            Some("read") => "read",
            Some("written") => "write",
            _ => return Ok(false),
        };
        let Some(number) = fixed(number, 2..=2) else {
            return Ok(false);
        };
        if number.comma {
            self.draft
                .remark_once(line.number, "numbers have a decimal comma; read as such");
        }
        self.complete |= operation == "write";
        let mut words = left.split(' ');
        let amount = words
            .next()
            .and_then(|amount| fixed(amount, 2..=2))
            .zip(words.next().and_then(self::factor));
        // The rate has two digits, so that kilobytes are exact enough for the check.
        let amount = amount.map(|(amount, factor)| amount.value * factor / 1024.0);
        self.check(
            line,
            (amount, "kilobytes"),
            self.seconds,
            number.value * factor / 1024.0,
        );
        let name = Name {
            workload: None,
            operation,
        };
        self.draft.add(
            name,
            &THROUGHPUT,
            &format!("{unit} per second"),
            place(line),
            rate(number.value * factor),
        )?;
        Ok(true)
    }

    /// Adds a remark on the precision of the rates. PostMark subtracts times in whole seconds, and
    /// uses one second if the difference is zero. Seconds with a fraction come from `fsb postmark`.
    fn look_at_seconds(&mut self, line: &Line, left: &str) {
        let seconds = left.split(' ').next().unwrap_or_default();
        if let Some(fraction) = fixed(seconds, FRACTION..=FRACTION) {
            self.draft.run.clock_resolution = Some(1e-9);
            self.transaction_seconds = Some(fraction.value);
            return;
        }
        self.transaction_seconds = number(seconds);
        let seconds = whole(seconds.as_bytes()).unwrap_or(0);
        let text = if seconds <= 1 {
            "PostMark rounds times to whole seconds, and this run took one or less: its rates are unreliable".to_owned()
        } else {
            let percent = 100.0 / seconds as f64;
            format!(
                "PostMark rounds times to whole seconds: after {seconds} s each rate may be off by {percent:.0} %"
            )
        };
        self.draft.remark(line.number, text);
    }
}

/// Parses a rate: a whole number, or a small one of `fsb postmark` with its fraction.
fn number(text: &str) -> Option<f64> {
    whole(text.as_bytes())
        .map(|number| number as f64)
        .or_else(|| fixed(text, 2..=2).map(|Decimal { value, .. }| value))
}

/// Returns the number of files that begins a line.
fn count(left: &str) -> Option<f64> {
    number(left.split(' ').next()?)
}

/// Returns the bytes of a unit.
fn factor(unit: &str) -> Option<f64> {
    let known = [
        ("bytes", 0),
        ("kilobytes", 10),
        ("megabytes", 20),
        ("gigabytes", 30),
    ];
    known
        .into_iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, shift)| f64::from(1u32 << shift))
}

fn place(line: &Line) -> Position {
    Position {
        line: line.number,
        ..Position::default()
    }
}

// Published results of PostMark.

/// The table of Đorđević et al.: its title, and the facts that a reader must know.
pub const DORDEVIC: (&str, &str) = (
    "Beside the published results (Đorđević et al., tables 3 to 8)",
    "Bytes read and written, per second of a whole run of PostMark's: creation, transactions, deletion. The published \
     values were measured on one disk of its time, on a file system of 1 GB, with less memory than the traffic; only the \
     order of the file systems can be compared, not the rates.",
);

/// The results of Beňas 2011, section 5.4: as above.
pub const BENAS: (&str, &str) = (
    "Beside the published results (Beňas 2011, section 5.4)",
    "Bytes read and written and files created, per second of a whole run of PostMark's; files deleted, per second of the \
     deletion after the transactions. The published values are medians of five runs on a partition of 20 GiB of a disk of \
     its time; only the order of the file systems can be compared, not the rates.",
);

#[derive(Debug, Clone, PartialEq)]
pub struct PublishedRate {
    /// `test 1: `, where there are several.
    pub test: &'static str,
    /// read, write, create, delete.
    pub operation: String,
    /// The label of the suite's workload.
    pub workload: &'static str,
    /// The name of our metric for it.
    pub metric: &'static str,
    /// The name of the file system as printed: ext3-writeback, reiserfs.
    pub file_system: String,
    /// Bytes or files a second.
    pub value: f64,
}

/// Test by test: how its rows begin, and the suite's label.
const TESTS: [(&str, &str); 3] = [
    ("test 1: ", "test 1: files of 1,000 to 100,000 bytes"),
    ("test 2: ", "test 2: files of 1 to 1,000 bytes"),
    ("test 3: ", "test 3: files of 1,000 to 300,000 bytes"),
];
/// The label of the other suite's workload.
const POOL: &str = "PostMark, files of 8 to 16 KiB";

/// Returns the read and written bytes of the three tests, in the order of the tables.
pub fn dordevic() -> Vec<PublishedRate> {
    rates(include_str!("dordevic.csv"), |row| {
        let test = row("test")?.parse::<usize>().ok()?.checked_sub(1)?;
        TESTS.get(test).copied()
    })
}

/// Returns the read and written bytes, and the created and deleted files.
pub fn benas() -> Vec<PublishedRate> {
    rates(include_str!("benas.csv"), |_| Some(("", POOL)))
}

/// Columns that are not file systems.
const OTHERS: [&str; 7] = [
    "test",
    "size_low_bytes",
    "size_high_bytes",
    "files",
    "transactions",
    "metric",
    "unit",
];

/// Returns the rates of one of our tables. `test` returns the beginning of a row's name and the
/// workload.
fn rates(
    table: &str,
    test: impl Fn(&dyn Fn(&str) -> Option<String>) -> Option<(&'static str, &'static str)>,
) -> Vec<PublishedRate> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let head = reader.headers().cloned().unwrap_or_default();
    let mut rates = Vec::new();
    for record in reader.records().flatten() {
        let column = |name: &str| {
            head.iter()
                .position(|known| known == name)
                .and_then(|at| record.get(at))
        };
        let found = test(&|name| column(name).map(str::to_owned));
        let (Some((test, workload)), Some(operation), Some(unit)) =
            (found, column("metric"), column("unit"))
        else {
            continue;
        };
        let Some((metric, factor)) = metric_of(operation).zip(factor_of(unit)) else {
            continue;
        };
        for (file_system, value) in head
            .iter()
            .zip(&record)
            .filter(|(name, _)| !OTHERS.contains(name))
        {
            let Ok(value) = value.parse::<f64>() else {
                continue;
            };
            let (operation, file_system) = (operation.to_owned(), file_system.to_owned());
            rates.push(PublishedRate {
                test,
                operation,
                workload,
                metric,
                file_system,
                value: value * factor,
            });
        }
    }
    rates
}

/// Returns our metric for an operation. Deletion is the one after the transactions, because only
/// that is as much faster than creation as was published.
fn metric_of(operation: &str) -> Option<&'static str> {
    let known = [
        ("read", "read_rate"),
        ("write", "write_rate"),
        ("create", "create_rate"),
        ("delete", "delete_alone_rate"),
    ];
    known
        .into_iter()
        .find(|(name, _)| *name == operation)
        .map(|(_, metric)| metric)
}

/// Returns the factor from a unit to bytes or files per second. PostMark's megabytes are of 1024
/// kilobytes since its version 1.5.
fn factor_of(unit: &str) -> Option<f64> {
    match unit {
        "KB/s" => Some(1024.0),
        "MB/s" | "MiB/s" => Some(1_048_576.0),
        "files/s" => Some(1.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_number_is_there_in_base_units() {
        let dordevic = dordevic();
        assert_eq!(dordevic.len(), 6 * 5);
        let of = |rates: &[PublishedRate], row: &str, file_system: &str| {
            let named = |rate: &&PublishedRate| format!("{}{}", rate.test, rate.operation) == row;
            rates
                .iter()
                .filter(named)
                .find(|rate| rate.file_system == file_system)
                .map(|rate| rate.value)
                .unwrap()
        };
        assert_eq!(of(&dordevic, "test 1: read", "ext2"), 4.67 * 1_048_576.0);
        assert_eq!(
            of(&dordevic, "test 2: write", "ext3-journal"),
            143.3 * 1024.0
        );
        assert_eq!(
            of(&dordevic, "test 3: write", "reiserfs"),
            10.64 * 1_048_576.0
        );
        let benas = benas();
        assert_eq!(benas.len(), 4 * 4);
        assert_eq!(of(&benas, "delete", "ext4"), 9347.57);
    }
}

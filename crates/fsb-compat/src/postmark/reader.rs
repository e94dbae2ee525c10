//! PostMark 1.5x: its report for people.

use std::io::BufRead;

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT};
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::error::ReadError;
use crate::lines::{Line, Lines, holds};
use crate::number::{Decimal, fixed, whole};
use crate::tool::Tool;

/// Reads PostMark's reports.
pub(crate) const TOOL: Tool = Tool {
    name: "postmark",
    about: "reports of 1.5x and of 'fsb postmark' ('set report verbose', the default)",
    looks_for: "the banner 'PostMark v1.5' or the line 'seconds of transactions'",
    recognise,
    read,
};

/// The phrase of a line before its parenthesis, and the operation of the rate in the parenthesis. A phrase that occurs
/// twice belongs to created files, then to deleted files.
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
        if text == "Time:" || text.starts_with("PostMark v") {
            runs.push(std::mem::replace(&mut report, Report::new(version.clone())).draft)?;
        } else {
            report.take(&line, &text)?;
        }
    }
    runs.push(report.draft)?;
    runs.finish(|| "it holds no verbose report; run PostMark with 'set report verbose', its default".to_owned())
}

/// One report while it is read.
struct Report {
    draft: Draft,
    /// Whether the lines about deleted files were reached.
    deleting: bool,
}

impl Report {
    fn new(version: Option<String>) -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version = version;
        draft.run.clock_resolution = Some(1.0);
        Report { draft, deleting: false }
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        let Some((left, right)) = text.split_once(" (") else { return Ok(()) };
        let Some(rate) = right.strip_suffix(" per second)") else {
            if right.contains("per second") || !line.ended {
                self.draft.remark(line.number, format_args!("no line of the report, left out: '{}'", line.excerpt()));
            }
            return Ok(());
        };
        let known = match rate.split_once(' ') {
            Some((number, unit)) => self.bytes(line, left, number, unit)?,
            None => self.rate(line, left, rate)?,
        };
        if !known {
            self.draft.remark(line.number, format_args!("no line of the report, left out: '{}'", line.excerpt()));
        }
        Ok(())
    }

    /// Reads `29935 created (29935 per second)`, `Creation alone: 5000 files (5000 per second)`.
    fn rate(&mut self, line: &Line, left: &str, found: &str) -> Result<bool, ReadError> {
        let what = match left.split_once(':') {
            Some((what, _)) => what,
            None => left.split_once(' ').map_or(left, |(_, what)| what),
        };
        self.deleting |= what == "deleted";
        let later = what.starts_with("Mixed") && self.deleting;
        let operation = RATES.iter().filter(|(known, _)| *known == what).nth(usize::from(later)).map(|(_, name)| *name);
        let (Some(operation), Some(number)) = (operation, number(found)) else { return Ok(false) };
        if operation == "transaction" {
            self.look_at_seconds(line, left);
        }
        let name = Name { workload: None, operation };
        self.draft.add(name, &OPERATION_RATE, "per second", place(line), rate(number))?;
        Ok(true)
    }

    /// Reads `157.24 megabytes read (157.24 megabytes per second)`.
    fn bytes(&mut self, line: &Line, left: &str, number: &str, unit: &str) -> Result<bool, ReadError> {
        let factor = match unit {
            "bytes" => 1.0,
            "kilobytes" => 1024.0,
            "megabytes" => 1024.0 * 1024.0,
            "gigabytes" => 1024.0 * 1024.0 * 1024.0,
            _ => return Ok(false),
        };
        let operation = match left.rsplit(' ').next() {
            Some("read") => "read",
            Some("written") => "write",
            _ => return Ok(false),
        };
        let Some(number) = fixed(number, 2..=2) else { return Ok(false) };
        if number.comma {
            self.draft.remark_once(line.number, "numbers have a decimal comma; read as such");
        }
        let name = Name { workload: None, operation };
        self.draft.add(name, &THROUGHPUT, &format!("{unit} per second"), place(line), rate(number.value * factor))?;
        Ok(true)
    }

    /// Adds a remark on the precision of the rates. PostMark subtracts times in whole seconds, and uses one second if
    /// the difference is zero. Seconds with a fraction come from `fsb postmark`.
    fn look_at_seconds(&mut self, line: &Line, left: &str) {
        let seconds = left.split(' ').next().unwrap_or_default();
        if fixed(seconds, FRACTION..=FRACTION).is_some() {
            self.draft.run.clock_resolution = Some(1e-9);
            return;
        }
        let seconds = whole(seconds.as_bytes()).unwrap_or(0);
        let text = if seconds <= 1 {
            "PostMark rounds times to whole seconds, and this run took one or less: its rates are unreliable".to_owned()
        } else {
            let percent = 100.0 / seconds as f64;
            format!("PostMark rounds times to whole seconds: after {seconds} s each rate may be off by {percent:.0} %")
        };
        self.draft.remark(line.number, text);
    }
}

/// Parses a rate: a whole number, or a small one of `fsb postmark` with its fraction.
fn number(text: &str) -> Option<f64> {
    whole(text.as_bytes()).map(|number| number as f64).or_else(|| fixed(text, 2..=2).map(|Decimal { value, .. }| value))
}

fn place(line: &Line) -> Position {
    Position { line: line.number, ..Position::default() }
}

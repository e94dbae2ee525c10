//! ioping 0.6 to 1.3: its statistics as text, as raw lines (`-B`), and as JSON (`-J`).

mod statistics;

use std::io::BufRead;

use fsb_model::metric::LATENCY_MEAN;
use fsb_model::set::{GapReason, Run};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::statistics::Statistics;
use crate::draft::{Draft, Name, Position, Runs};
use crate::json::{Elements, Source};
use crate::message::{self, Messages, Pattern, Severity, ends_early};
use crate::text::{Line, Lines, holds, whole_text};
use crate::tool::{ReadError, Tool};

/// Reads the statistics of ioping.
pub(crate) const TOOL: Tool = Tool {
    name: "ioping",
    title: "ioping",
    about: "statistics of 0.6 to 1.3 as text, raw (-B) and JSON (-J): times of single requests",
    looks_for: "the line '--- … ioping statistics ---', JSON with \"io\", or ten numbers of -B",
    values: "ns, µs or ms per request (lower is better); no IOPS: they are 1/mean",
    repetition: "an execution, without its requests for warming up",
    recognise,
    read,
};

/// The messages of ioping, each with the call that failed.
static MESSAGES: &Messages = &[(Pattern::Start("ioping: "), Severity::Failure)];

/// The end of the line before the statistics.
const STATISTICS: &str = " ioping statistics ---";

/// The text after the target in the line of the first request of an execution.
const FIRST_REQUEST: &str = ": request=1 time=";

fn recognise(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    let is_text = holds(head, STATISTICS.as_bytes()) || holds(first, FIRST_REQUEST.as_bytes());
    is_text || is_json(head) || Statistics::from_raw(&String::from_utf8_lossy(first), 1).is_some()
}

fn is_json(head: &[u8]) -> bool {
    head.starts_with(b"[")
        && ["\"localtime\"", "\"target\"", "\"fstype\""]
            .iter()
            .all(|key| holds(head, key.as_bytes()))
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut start = input.fill_buf()?;
    start = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start);
    if start.starts_with(b"[") {
        read_json(input)
    } else {
        read_lines(input)
    }
}

/// Reads text and raw lines. An execution prints either.
fn read_lines(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut report = Report::new();
    let mut raw = Vec::new();
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(found) =
            Statistics::from_raw(&text, line.number).filter(|_| line.ended || is_new(&text))
        {
            raw.push(found);
        } else if report.is_next(&text) {
            std::mem::replace(&mut report, Report::new()).finish(&mut runs)?;
            report.take(&line, &text)?;
        } else {
            report.take(&line, &text)?;
        }
    }
    let has_text = report.has_text;
    report.finish(&mut runs)?;
    // Beside a text, raw lines are parts of its statistics (-p, -P).
    for (found, remark) in statistics::executions(if has_text { &[] } else { &raw }) {
        let mut draft = Draft::new(TOOL.name);
        remark
            .into_iter()
            .for_each(|text| draft.remark(found.line, text));
        found.add("request", &mut draft)?;
        runs.push(draft)?;
    }
    runs.finish(|| {
        "it holds no statistics: ioping prints them when it ends or is interrupted (SIGINT)"
            .to_owned()
    })
}

/// Returns whether a raw line has the fields of 1.0 and later. Without a line end, fewer can be the
/// rest of a cut line.
fn is_new(text: &str) -> bool {
    text.split(' ').count() == 10
}

/// The text of one execution while it is read.
struct Report {
    draft: Draft,
    /// `read`, `write` or `read and write`.
    operation: Option<&'static str>,
    /// Bytes of a request.
    size: Option<u64>,
    /// Whether only requests for warming up completed.
    is_empty: bool,
    has_text: bool,
    is_complete: bool,
}

impl Report {
    fn new() -> Self {
        let draft = Draft::new(TOOL.name);
        Report {
            draft,
            operation: None,
            size: None,
            is_empty: false,
            has_text: false,
            is_complete: false,
        }
    }

    /// Returns whether this line starts the text of another execution.
    fn is_next(&self, text: &str) -> bool {
        // An execution that was killed has requests and no statistics.
        (self.has_text && text.contains(FIRST_REQUEST))
            || (self.is_complete && text.ends_with(STATISTICS))
    }

    fn take(&mut self, line: &Line, text: &str) -> Result<(), ReadError> {
        if text.contains(": request=") || text.ends_with(STATISTICS) {
            self.has_text = true;
            self.draft.begin(line.number);
        }
        if text.contains(": request=") {
            self.request(line, text);
        } else if let Some((count, rest)) = text.split_once(" requests completed in ") {
            self.completed(count, rest);
        } else if let Some(times) = text.strip_prefix("min/avg/max/mdev = ") {
            self.is_complete = true;
            let found = Statistics::from_text(times, line.number);
            let Some(mut found) = found else {
                self.draft.remark(
                    line.number,
                    format_args!("no times, left out: '{}'", line.excerpt()),
                );
                return self.lost(line.number);
            };
            (found.size, found.valid) = (self.size, u64::from(!self.is_empty));
            return found.add(self.operation.unwrap_or("request"), &mut self.draft);
        } else if let Some(message) = message::find(MESSAGES, line) {
            message.report(None, &mut self.draft);
        }
        Ok(())
    }

    /// Adds the mean time as a gap.
    fn lost(&mut self, line: u32) -> Result<(), ReadError> {
        let name = Name {
            workload: None,
            operation: self.operation.unwrap_or("request"),
        };
        let place = Position {
            record_size: self.size,
            line,
            ..Position::default()
        };
        self.draft
            .add(name, &LATENCY_MEAN, "ns", place, Err(GapReason::Unreadable))
    }

    /// Reads `4 KiB <<< d (ext4 /dev/vda 252.0 GiB): request=2 time=373.4 us`; until 0.9 an arrow
    /// is a word.
    fn request(&mut self, line: &Line, text: &str) {
        let ways = [
            (" <<< ", "read"),
            (" >>> ", "write"),
            (" from ", "read"),
            (" to ", "write"),
        ];
        let found = ways
            .iter()
            .find_map(|(arrow, way)| text.split_once(arrow).map(|(size, _)| (size, *way)));
        if let Some((size, way)) = found {
            self.operation = match self.operation {
                Some(known) if known != way => Some("read and write"),
                _ => Some(way),
            };
            self.size = self.size.or(statistics::size(size));
        }
        let error = text
            .rsplit_once(" (")
            .map(|(_, note)| note.trim_end_matches(')'));
        if let Some(error) = error.filter(|note| note.starts_with('E')) {
            self.draft
                .fail(line.number, None, format_args!("a request failed: {error}"));
        }
    }

    /// Reads `604.8 us, 12 KiB read, 4.96 k iops, 19.4 MiB/s`. The rate is the inverse of the mean
    /// time, so it is left out.
    fn completed(&mut self, count: &str, rest: &str) {
        self.is_empty = count == "0";
        let amount = rest.split(", ").nth(1).unwrap_or_default();
        let way = [(" read", "read"), (" written", "write")]
            .into_iter()
            .find(|(end, _)| amount.ends_with(end));
        self.operation = way.map(|(_, way)| way).or(self.operation);
    }

    fn finish(mut self, runs: &mut Runs) -> Result<(), ReadError> {
        if self.has_text && !self.is_complete {
            self.draft
                .remark(None, ends_early(TOOL.name, "the line 'min/avg/max/mdev'"));
        }
        runs.push(self.draft)
    }
}

/// A member of the array: a request or statistics.
#[derive(Deserialize)]
struct Element<'a> {
    io: Option<Io>,
    #[serde(borrow)]
    stat: Option<&'a RawValue>,
    load: Option<Load>,
}

#[derive(Deserialize)]
struct Io {
    operation: String,
    size: u64,
    time: u64,
    ignored: bool,
}

/// The statistics of requests that completed, in nanoseconds.
#[derive(Deserialize)]
struct Stat {
    count: u64,
    time: u64,
    min: u64,
    max: u64,
    mdev: f64,
}

#[derive(Deserialize)]
struct Load {
    #[serde(default)]
    failed: u64,
}

/// Reads arrays, one for each execution.
fn read_json(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let text = whole_text(input, TOOL.name)?;
    let source = Source::new(&text);
    let mut runs = Runs::new(TOOL.name);
    let mut at = 0;
    while let Some(open) = text[at..].find('[') {
        let mut elements = Elements::new(&text, at + open + 1);
        let mut array = Array::new();
        for raw in elements.by_ref() {
            match serde_json::from_str::<Element>(raw.get()) {
                Ok(element) => {
                    array.draft.begin(source.line_of(raw));
                    array.take(element, &source);
                }
                Err(error) => array.draft.remark(
                    source.line_of(raw),
                    format_args!("no request or statistics ({error})"),
                ),
            }
        }
        at = elements.end();
        let damage = elements.damage.map(|(at, why)| (source.line(at), why));
        let is_cut = damage.is_some();
        array.finish(damage, &mut runs)?;
        if is_cut {
            break;
        }
    }
    runs.finish(|| {
        "its JSON holds no statistics: ioping writes them when it ends or is interrupted (SIGINT)"
            .to_owned()
    })
}

/// One execution while its array is read.
struct Array {
    draft: Draft,
    operation: Option<String>,
    size: Option<u64>,
    /// The number of requests that took each time, in nanoseconds.
    times: std::collections::BTreeMap<u64, u64>,
    statistics: Vec<Statistics>,
}

impl Array {
    fn new() -> Self {
        let (times, statistics) = (std::collections::BTreeMap::new(), Vec::new());
        Array {
            draft: Draft::new(TOOL.name),
            operation: None,
            size: None,
            times,
            statistics,
        }
    }

    fn take(&mut self, element: Element, source: &Source) {
        if let Some(io) = element.io {
            self.operation = match self.operation.take() {
                Some(known) if known != io.operation => Some("read and write".to_owned()),
                _ => Some(io.operation),
            };
            self.size = Some(io.size);
            if !io.ignored && io.time > 0 {
                *self.times.entry(io.time).or_default() += 1;
            }
        }
        let Some(raw) = element.stat else { return };
        let line = source.line_of(raw);
        if let Some(failed) = element
            .load
            .map(|load| load.failed)
            .filter(|failed| *failed > 0)
        {
            self.draft
                .fail(line, None, format_args!("{failed} requests failed"));
        }
        match serde_json::from_str::<Stat>(raw.get()) {
            Ok(stat) => self.statistics.push(Statistics::from_counts(
                [stat.count, stat.time, stat.min, stat.max],
                stat.mdev,
                line,
            )),
            Err(error) => self
                .draft
                .remark(line, format_args!("no statistics ({error})")),
        }
    }

    fn finish(mut self, damage: Option<(u32, String)>, runs: &mut Runs) -> Result<(), ReadError> {
        // The array of an execution ends with its statistics; those before it are of periods (-p,
        // -P).
        if let Some((line, why)) = damage {
            let text = format!(
                "the JSON is cut or damaged here ({why}): ioping was killed, or the file is cut"
            );
            self.draft.remark(line, text);
        } else if let Some(mut found) = self.statistics.pop() {
            found.size = self.size;
            let operation = self
                .operation
                .clone()
                .unwrap_or_else(|| "request".to_owned());
            found.add(&operation, &mut self.draft)?;
            statistics::add_percentiles(
                &operation,
                self.size,
                &self.times,
                found.line,
                &mut self.draft,
            )?;
        }
        runs.push(self.draft)
    }
}

//! Phoronix Test Suite: `composite.xml`, the results of one or several systems.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

use fsb_model::metric::{Better, MetricKind, OPERATION_RATE, Role, THROUGHPUT, Unit};
use fsb_model::set::{GapReason, Run};
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use crate::draft::{
    Draft, MOST_REPETITIONS, MOST_RUNS, Name, Position, Runs, rate, time, too_much,
};
use crate::text::{LineIndex, holds, whole_text};
use crate::tool::{ReadError, Tool};

/// Reads composite.xml.
pub(crate) const TOOL: Tool = Tool {
    name: "phoronix",
    title: "Phoronix Test Suite",
    about: "composite.xml of the Phoronix Test Suite: bar graphs, each repetition, one set per system",
    looks_for: "the element <PhoronixTestSuite>",
    values: "the unit and the direction that the test states",
    repetition: "a repetition, of each system",
    recognise,
    read,
};

fn recognise(head: &[u8]) -> bool {
    holds(head, b"<PhoronixTestSuite>")
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let text = whole_text(input, TOOL.name)?;
    let mut composite = Composite::default();
    let mut document = Document::new(&text);
    while let Some((entry, test)) = document.next_entry() {
        composite.take(&entry, test)?;
    }
    let damage = document
        .damage
        .map(|(line, why)| (line, format!("the XML is cut or damaged here ({why})")));
    if let (Some(draft), Some((line, text))) = (composite.drafts.first_mut(), &damage) {
        draft.remark(
            *line,
            format_args!("{text}; the results before it are read"),
        );
    }
    for text in differences(&document.systems) {
        composite
            .drafts
            .iter_mut()
            .take(1)
            .for_each(|draft| draft.remark(None, &text));
    }
    if let (0, Some(reason), None) = (composite.values, &composite.reason, &damage) {
        return Err(ReadError::refused(
            TOOL.name,
            format!("no test in it has a value: {reason}"),
        ));
    }
    let mut runs = Runs::new(TOOL.name);
    for mut draft in composite.drafts {
        draft.run.version.clone_from(&document.version);
        runs.push(draft)?;
    }
    runs.finish(|| match damage {
        Some((line, text)) => format!("in line {line} {text}, before any result is complete"),
        None => "it holds no result of a bar graph".to_owned(),
    })
}

/// The runs of a file: one for each system and repetition.
#[derive(Default)]
struct Composite {
    drafts: Vec<Draft>,
    /// The place of the draft of a system and a repetition.
    places: HashMap<(String, usize), usize>,
    values: usize,
    /// The reason why the first entry without a value has none.
    reason: Option<String>,
}

impl Composite {
    /// Adds the repetitions of a test on one system. The first repetitions of all tests are one
    /// run, then the second ones, and so on, as in other tools that repeat their tests.
    fn take(&mut self, entry: &Entry, test: &Test) -> Result<(), ReadError> {
        let draft = self.draft(&entry.system, 0)?;
        if !test.is_bar_graph() {
            draft.remark_once(
                entry.line,
                &format!("{}: no bar graph; left out", test.title),
            );
            return Ok(());
        }
        let scale = Scale::parse(&test.scale, &test.proportion);
        if entry.repetitions().all(str::is_empty) {
            return self.failed(entry, test, scale);
        }
        if let Some(error) = &entry.error {
            draft.remark(entry.line, format_args!("{}: {error}", test.title));
        }
        if entry.repetitions().any(str::is_empty) {
            draft.remark(
                entry.line,
                format_args!("{}: a repetition has no value; left out", test.title),
            );
        }
        let Some(Scale {
            metric,
            factor,
            in_name,
        }) = scale
        else {
            let text = format!(
                "{}: no direction for '{}'; left out",
                test.title, test.scale
            );
            draft.remark_once(entry.line, &text);
            return Ok(());
        };
        let (workload, operation) = test.name(in_name);
        let name = Name {
            workload: Some(&workload),
            operation: &operation,
        };
        let place = Position {
            line: entry.line,
            ..Position::default()
        };
        for (repetition, text) in entry.repetitions().enumerate() {
            let number = number(text);
            if number.is_none() && !text.is_empty() {
                let text: String = text.chars().take(40).collect();
                let draft = self.draft(&entry.system, 0)?;
                draft.remark(
                    entry.line,
                    format_args!("{operation}: '{text}' is not a number; left out"),
                );
            }
            self.values += 1;
            if self.values > MOST_REPETITIONS {
                return Err(too_much(TOOL.name, MOST_REPETITIONS, "values"));
            }
            let value = number.map_or(Err(GapReason::Unreadable), |number| {
                measured(number * factor, &metric)
            });
            self.draft(&entry.system, repetition)?.add(
                name,
                &metric,
                &test.found_unit(),
                place,
                value,
            )?;
        }
        Ok(())
    }

    /// Records that a test has no value on a system. The unit is part of the name, because other
    /// results of the test can have values.
    fn failed(
        &mut self,
        entry: &Entry,
        test: &Test,
        scale: Option<Scale>,
    ) -> Result<(), ReadError> {
        let reason = entry
            .error
            .as_deref()
            .unwrap_or("the file gives no value and no reason");
        self.reason.get_or_insert_with(|| reason.to_owned());
        let (workload, operation) = test.name(scale.as_ref().is_some_and(|scale| scale.in_name));
        let place = Position {
            line: entry.line,
            ..Position::default()
        };
        let draft = self.draft(&entry.system, 0)?;
        let text = format!("{operation}: {reason}");
        let Some(Scale { metric, .. }) = scale else {
            draft.fail_operation(
                entry.line,
                Name {
                    workload: Some(&workload),
                    operation: &operation,
                },
                text,
            );
            return Ok(());
        };
        let name = Name {
            workload: Some(&workload),
            operation: &format!("{operation} ({})", test.scale),
        };
        draft.fail_operation(entry.line, name, text);
        let name = Name {
            workload: Some(&workload),
            operation: &operation,
        };
        draft.add(
            name,
            &metric,
            &test.found_unit(),
            place,
            Err(GapReason::Failed),
        )
    }

    fn draft(&mut self, system: &str, repetition: usize) -> Result<&mut Draft, ReadError> {
        let next = self.drafts.len();
        let place = *self
            .places
            .entry((system.to_owned(), repetition))
            .or_insert(next);
        if place == MOST_RUNS {
            return Err(too_much(TOOL.name, MOST_RUNS, "runs"));
        }
        if place == next {
            let mut draft = Draft::new(TOOL.name);
            draft.run.system = (!system.is_empty()).then(|| system.to_owned());
            self.drafts.push(draft);
        }
        Ok(&mut self.drafts[place])
    }
}

/// Parses a number as PHP prints it: `1333.33`, `1.0E-5`.
fn number(text: &str) -> Option<f64> {
    let shaped = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    shaped.then(|| text.parse().ok()).flatten()
}

/// The property of a system that users compare systems for.
const FILE_SYSTEM: &str = "File-System";

/// The maximum number of properties that a warning names.
const NAMED: usize = 10;

/// Returns a warning for each system whose hardware or software differs from that of the first one.
/// File systems may differ.
fn differences(systems: &[System]) -> Vec<String> {
    let Some((first, others)) = systems.split_first() else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    for other in others {
        let names = first.properties.keys().chain(other.properties.keys());
        let mut differ: Vec<&str> = names
            .filter(|name| {
                *name != FILE_SYSTEM && first.properties.get(*name) != other.properties.get(*name)
            })
            .map(String::as_str)
            .collect();
        differ.sort_unstable();
        differ.dedup();
        if !differ.is_empty() {
            let more = if differ.len() > NAMED {
                format!(" and {} more", differ.len() - NAMED)
            } else {
                String::new()
            };
            let named = differ
                .iter()
                .take(NAMED)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            texts.push(format!(
                "'{}' and '{}' differ in: {named}{more}",
                first.name, other.name
            ));
        }
    }
    texts
}

// The elements of composite.xml, as far as they are read. An entry is complete when its end tag was
// read, so a file that is cut gives no cut number.

/// The deepest nesting that is read. Entries are six deep.
const DEEPEST: usize = 16;

/// The maximum number of systems that are kept. They are only needed for the warning about their
/// differences.
const MOST_SYSTEMS: usize = 1000;

/// The maximum number of properties of a system that are kept.
const MOST_PROPERTIES: usize = 200;

/// Characters of the name of a system or a test that are kept.
const LONGEST_NAME: usize = 200;

/// A composite.xml while it is read, from its start to its end.
struct Document<'a> {
    reader: Reader<&'a [u8]>,
    lines: LineIndex,
    path: Vec<String>,
    /// The text of the innermost element.
    text: String,
    test: Test,
    entry: Entry,
    system: System,
    /// The version of the Phoronix Test Suite.
    version: Option<String>,
    systems: Vec<System>,
    /// The line of the damage that ended the reading, and the reason.
    damage: Option<(u32, String)>,
}

/// A `Result` without its data: a test with one set of options and one unit.
#[derive(Default)]
struct Test {
    title: String,
    scale: String,
    proportion: String,
    profile: String,
    version: String,
    description: String,
    display: String,
}

/// An `Entry`: the repetitions of a test on one system.
#[derive(Default)]
struct Entry {
    system: String,
    /// The mean.
    value: String,
    /// The repetitions, separated by colons.
    raw: String,
    /// The error that the Phoronix Test Suite reports.
    error: Option<String>,
    /// The line of the numbers.
    line: u32,
}

/// A `System`: its name, and its hardware and software by name.
#[derive(Default)]
struct System {
    name: String,
    properties: BTreeMap<String, String>,
}

impl Test {
    /// Returns whether entries hold numbers of repetitions. Line graphs hold samples of a sensor,
    /// other displays hold no numbers.
    fn is_bar_graph(&self) -> bool {
        ["", "BAR_GRAPH"].contains(&&*self.display)
    }

    /// Returns the name of the workload and that of the operation. Like the Phoronix Test Suite, it
    /// compares tests whose profiles differ only in the last number of the version: `pts/fio-2.1.0`
    /// and `pts/fio-2.1.1`.
    fn name(&self, with_scale: bool) -> (String, String) {
        let profile = self
            .profile
            .rsplit_once('.')
            .map_or(&*self.profile, |(start, _)| start);
        let profile = if profile.is_empty() {
            &self.title
        } else {
            profile
        };
        let operation = if self.description.is_empty() {
            &self.title
        } else {
            &self.description
        };
        let operation = if with_scale && !self.scale.is_empty() {
            format!("{operation} ({})", self.scale)
        } else {
            operation.clone()
        };
        (
            format!("{profile} {}", self.version).trim_end().to_owned(),
            operation,
        )
    }

    /// Returns the unit as printed.
    fn found_unit(&self) -> String {
        if self.scale.is_empty() {
            "no unit".to_owned()
        } else {
            self.scale.clone()
        }
    }
}

impl Entry {
    /// Returns the repetitions, which can be empty, or the mean if the file holds no repetitions.
    fn repetitions(&self) -> impl Iterator<Item = &str> {
        let text = if self.raw.is_empty() {
            &self.value
        } else {
            &self.raw
        };
        text.split(':').map(str::trim)
    }
}

impl<'a> Document<'a> {
    fn new(text: &'a str) -> Self {
        Document {
            reader: Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)),
            lines: LineIndex::new(text),
            path: Vec::new(),
            text: String::new(),
            test: Test::default(),
            entry: Entry::default(),
            system: System::default(),
            version: None,
            systems: Vec::new(),
            damage: None,
        }
    }

    /// Returns the next entry and its test, or `None` at the end of the file or at its damage.
    fn next_entry(&mut self) -> Option<(Entry, &Test)> {
        loop {
            match self.reader.read_event() {
                Ok(Event::Start(_)) if self.path.len() == DEEPEST => {
                    return self.damaged("its elements are too deep");
                }
                Ok(Event::Start(start)) => {
                    self.path.push(start.name().as_ref().to_owned());
                    self.text.clear();
                }
                Ok(Event::Text(text)) => self.text += &text.xml10_content(),
                Ok(Event::CData(text)) => self.text += &text.xml10_content(),
                Ok(Event::GeneralRef(name)) => match name.resolve_char_ref() {
                    Ok(Some(character)) => self.text.push(character),
                    Ok(None) => self.text += resolve_predefined_entity(&name).unwrap_or("\u{fffd}"),
                    Err(error) => return self.damaged(&error.to_string()),
                },
                Ok(Event::End(_)) => {
                    let is_entry = self.end();
                    self.path.pop();
                    self.text.clear();
                    if is_entry {
                        return Some((std::mem::take(&mut self.entry), &self.test));
                    }
                }
                Ok(Event::Eof) if self.path.is_empty() => return None,
                Ok(Event::Eof) => return self.damaged("its end is missing"),
                Ok(_) => {}
                Err(error) => return self.damaged(&error.to_string()),
            }
        }
    }

    fn damaged<T>(&mut self, why: &str) -> Option<T> {
        self.damage = Some((self.line(), why.chars().take(LONGEST_NAME).collect()));
        None
    }

    fn line(&self) -> u32 {
        self.lines
            .line(usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX))
    }

    /// Takes the text of the element that ends. Returns whether it was an entry.
    fn end(&mut self) -> bool {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let ["PhoronixTestSuite", below @ ..] = &path[..] else {
            return false;
        };
        match below {
            ["Generated", "TestClient"] => self.version = version(&self.text),
            ["System", "Identifier"] => self.system.name = name(&self.text),
            ["System", "Hardware" | "Software"] => {
                self.system.properties.extend(properties(&self.text))
            }
            ["System"] if self.systems.len() < MOST_SYSTEMS => {
                self.systems.push(std::mem::take(&mut self.system))
            }
            ["Result", "Data", "Entry", field] => {
                match *field {
                    "Identifier" => self.entry.system = name(&self.text),
                    "Value" if self.entry.raw.is_empty() => {
                        (self.entry.value, self.entry.line) =
                            (self.text.trim().to_owned(), self.line());
                    }
                    "RawString" if !self.text.trim().is_empty() => {
                        (self.entry.raw, self.entry.line) =
                            (self.text.trim().to_owned(), self.line());
                    }
                    "JSON" => self.entry.error = error(&self.text),
                    _ => {}
                }
                return false;
            }
            ["Result", "Data", "Entry"] => {
                if self.entry.line == 0 {
                    self.entry.line = self.line();
                }
                return true;
            }
            ["Result", field] => {
                let field = match *field {
                    "Identifier" => &mut self.test.profile,
                    "Title" => &mut self.test.title,
                    "AppVersion" => &mut self.test.version,
                    "Description" => &mut self.test.description,
                    "Scale" => &mut self.test.scale,
                    "Proportion" => &mut self.test.proportion,
                    "DisplayFormat" => &mut self.test.display,
                    _ => return false,
                };
                *field = name(&self.text);
            }
            ["Result"] => self.test = Test::default(),
            _ => {}
        }
        false
    }
}

/// Returns `10.8.4` of `Phoronix Test Suite v10.8.4`.
fn version(text: &str) -> Option<String> {
    let (_, version) = text.trim().rsplit_once([' ', '/'])?;
    let version = version.strip_prefix('v').unwrap_or(version);
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| name(version))
}

/// Returns the error in the details of an entry, which are JSON.
fn error(details: &str) -> Option<String> {
    let details: serde_json::Value = serde_json::from_str(details.trim()).ok()?;
    details
        .get("error")?
        .as_str()
        .map(name)
        .filter(|error| !error.is_empty())
}

/// Returns a text for tables: of limited length, without control characters and spaces around it.
fn name(text: &str) -> String {
    let printable = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    text.trim()
        .chars()
        .take(LONGEST_NAME)
        .map(printable)
        .collect()
}

/// Splits `Processor: AMD EPYC (2 Cores), Memory: 24GB` into names and values. A comma also occurs
/// in a value.
fn properties(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in text.split(", ").take(MOST_PROPERTIES) {
        match (part.split_once(": "), found.last_mut()) {
            (Some((key, value)), _) => found.push((name(key), value.to_owned())),
            (None, Some((_, value))) => *value = format!("{value}, {part}"),
            (None, None) => {}
        }
    }
    found
}

/// The metric of a test, and the factor from its unit to the base unit.
struct Scale {
    metric: MetricKind,
    factor: f64,
    /// Whether the unit becomes part of the operation's name, because the metric does not imply it.
    in_name: bool,
}

/// The time of a test, or of one of its operations.
const TIME: MetricKind = MetricKind {
    name: "time",
    unit: Unit::Seconds,
    better: Better::Lower,
    role: Role::Rate,
    about: "The time that the test printed: of the whole test or of one operation.",
};

/// A number in a unit that fsb does not know.
const SCORE: MetricKind = MetricKind {
    name: "score",
    unit: Unit::Count,
    better: Better::Higher,
    role: Role::Rate,
    about: "The number that the test printed, in its own unit.",
};

/// The units of the published tests of disks, in the spelling of the tests. `Mb/s` is a rate of
/// bits and has no line.
#[rustfmt::skip] // a table reads as one
static SCALES: [(&[&str], MetricKind, f64); 14] = [
    (&["byte/s", "bytes/s", "B/s"], THROUGHPUT, 1.0),
    (&["KB/s", "kB/s"], THROUGHPUT, 1e3),
    (&["MB/s", "MB/sec"], THROUGHPUT, 1e6),
    (&["GB/s", "GB/sec"], THROUGHPUT, 1e9),
    (&["KiB/s"], THROUGHPUT, 1024.0),
    (&["MiB/s", "MiB/sec"], THROUGHPUT, 1_048_576.0),
    (&["GiB/s", "GiB/sec"], THROUGHPUT, 1_073_741_824.0),
    (&["IOPS", "Files/s", "Op/s", "Ops/sec", "ops/sec", "ops/s", "Operations Per Second"], OPERATION_RATE, 1.0),
    (&["TPS", "Transactions Per Second", "Requests Per Second", "Queries Per Second"], OPERATION_RATE, 1.0),
    (&["Seconds", "seconds", "sec", "s"], TIME, 1.0),
    (&["Milliseconds", "Milli-Seconds", "ms"], TIME, 1e-3),
    (&["Microseconds", "usecs", "usec", "us"], TIME, 1e-6),
    (&["Nanoseconds", "ns"], TIME, 1e-9),
    (&["Bytes", "bytes"], MetricKind { name: "size", unit: Unit::Bytes, ..SCORE }, 1.0),
];

impl Scale {
    /// Returns the metric of a unit and of the direction that the file states: `HIB` (higher is
    /// better) or `LIB`. Returns `None` if neither the file nor the unit gives a direction.
    fn parse(scale: &str, proportion: &str) -> Option<Scale> {
        let stated = match proportion {
            "HIB" => Some(Better::Higher),
            "LIB" => Some(Better::Lower),
            _ => None,
        };
        let known = SCALES
            .iter()
            .find(|(spellings, ..)| spellings.contains(&scale));
        Some(match known {
            Some((_, metric, factor)) => {
                let metric = MetricKind {
                    better: stated.unwrap_or(metric.better),
                    ..*metric
                };
                Scale {
                    metric,
                    factor: *factor,
                    in_name: false,
                }
            }
            None => Scale {
                metric: MetricKind {
                    better: stated?,
                    ..SCORE
                },
                factor: 1.0,
                in_name: true,
            },
        })
    }
}

/// Returns a value of a metric, or the reason why a zero is none.
fn measured(value: f64, metric: &MetricKind) -> Result<f64, GapReason> {
    if metric.unit == Unit::Seconds {
        time(value)
    } else {
        rate(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_of_the_file_has_precedence_over_that_of_the_unit() {
        let better = |scale: &str, proportion: &str| {
            Scale::parse(scale, proportion).map(|scale| scale.metric.better)
        };
        assert_eq!(better("Seconds", "LIB"), Some(Better::Lower));
        assert_eq!(better("Seconds", "HIB"), Some(Better::Higher));
        assert_eq!(better("IOPS", ""), Some(Better::Higher));
        assert_eq!(better("Frames Per Second", "HIB"), Some(Better::Higher));
        assert_eq!(better("Frames Per Second", ""), None);
    }

    #[test]
    fn every_spelling_is_listed_once() {
        let all: Vec<&str> = SCALES
            .iter()
            .flat_map(|(spellings, ..)| spellings.iter().copied())
            .collect();
        for (place, spelling) in all.iter().enumerate() {
            assert!(!all[..place].contains(spelling), "{spelling}");
        }
    }
}

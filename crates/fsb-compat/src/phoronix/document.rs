//! The elements of composite.xml, as far as they are read. An entry is complete when its end tag was read, so a file
//! that is cut gives no cut number.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use crate::lines::LineIndex;

/// The deepest nesting that is read. Entries are six deep.
const DEEPEST: usize = 16;

/// The most systems that are kept. They are only needed for the warning about their differences.
const MOST_SYSTEMS: usize = 1000;

/// The most properties of a system that are kept.
const MOST_PROPERTIES: usize = 200;

/// Characters of the name of a system or a test that are kept.
const LONGEST_NAME: usize = 200;

/// A composite.xml while it is read, from its start to its end.
pub(super) struct Document<'a> {
    reader: Reader<&'a [u8]>,
    lines: LineIndex,
    path: Vec<String>,
    /// The text of the innermost element.
    text: String,
    test: Test,
    entry: Entry,
    system: System,
    /// The version of the Phoronix Test Suite.
    pub version: Option<String>,
    pub systems: Vec<System>,
    /// The line of the damage that ended the reading, and the reason.
    pub damage: Option<(u32, String)>,
}

/// A `Result` without its data: a test with one set of options and one unit.
#[derive(Default)]
pub(super) struct Test {
    pub title: String,
    pub scale: String,
    pub proportion: String,
    profile: String,
    version: String,
    description: String,
    display: String,
}

/// An `Entry`: the repetitions of a test on one system.
#[derive(Default)]
pub(super) struct Entry {
    pub system: String,
    /// The mean.
    value: String,
    /// The repetitions, separated by colons.
    raw: String,
    /// The line of the numbers.
    pub line: u32,
}

/// A `System`: its name, and its hardware and software by name.
#[derive(Default)]
pub(super) struct System {
    pub name: String,
    pub properties: BTreeMap<String, String>,
}

impl Test {
    /// Returns whether entries hold numbers of repetitions. Line graphs hold samples of a sensor, other displays hold
    /// no numbers.
    pub fn is_bar_graph(&self) -> bool {
        ["", "BAR_GRAPH"].contains(&&*self.display)
    }

    /// Returns the name of the workload and that of the operation. Like the Phoronix Test Suite, it compares tests
    /// whose profiles differ only in the last number of the version: `pts/fio-2.1.0` and `pts/fio-2.1.1`.
    pub fn name(&self, with_scale: bool) -> (String, String) {
        let profile = self.profile.rsplit_once('.').map_or(&*self.profile, |(start, _)| start);
        let profile = if profile.is_empty() { &self.title } else { profile };
        let operation = if self.description.is_empty() { &self.title } else { &self.description };
        let operation = if with_scale && !self.scale.is_empty() {
            format!("{operation} ({})", self.scale)
        } else {
            operation.clone()
        };
        (format!("{profile} {}", self.version).trim_end().to_owned(), operation)
    }

    /// Returns the unit as printed.
    pub fn found_unit(&self) -> String {
        if self.scale.is_empty() { "no unit".to_owned() } else { self.scale.clone() }
    }
}

impl Entry {
    /// Returns the repetitions, or the mean if the file holds no repetitions.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        let text = if self.raw.is_empty() { &self.value } else { &self.raw };
        text.split(':').map(str::trim).filter(|text| !text.is_empty())
    }
}

impl<'a> Document<'a> {
    pub fn new(text: &'a str) -> Self {
        Document {
            reader: Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)),
            lines: LineIndex::of(text),
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
    pub fn next_entry(&mut self) -> Option<(Entry, &Test)> {
        loop {
            match self.reader.read_event() {
                Ok(Event::Start(_)) if self.path.len() == DEEPEST => return self.damaged("its elements are too deep"),
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
        self.lines.line(usize::try_from(self.reader.buffer_position()).unwrap_or(usize::MAX))
    }

    /// Takes the text of the element that ends. Returns whether it was an entry.
    fn end(&mut self) -> bool {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let ["PhoronixTestSuite", below @ ..] = &path[..] else { return false };
        match below {
            ["Generated", "TestClient"] => self.version = version(&self.text),
            ["System", "Identifier"] => self.system.name = name(&self.text),
            ["System", "Hardware" | "Software"] => self.system.properties.extend(properties(&self.text)),
            ["System"] if self.systems.len() < MOST_SYSTEMS => self.systems.push(std::mem::take(&mut self.system)),
            ["Result", "Data", "Entry", field] => {
                match *field {
                    "Identifier" => self.entry.system = name(&self.text),
                    "Value" if self.entry.raw.is_empty() => {
                        (self.entry.value, self.entry.line) = (self.text.trim().to_owned(), self.line());
                    }
                    "RawString" if !self.text.trim().is_empty() => {
                        (self.entry.raw, self.entry.line) = (self.text.trim().to_owned(), self.line());
                    }
                    _ => {}
                }
                return false;
            }
            ["Result", "Data", "Entry"] => return true,
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
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| name(version))
}

/// Returns a text for tables: of limited length, without control characters and spaces around it.
fn name(text: &str) -> String {
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.trim().chars().take(LONGEST_NAME).map(printable).collect()
}

/// Splits `Processor: AMD EPYC (2 Cores), Memory: 24GB` into names and values. A comma also occurs in a value.
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

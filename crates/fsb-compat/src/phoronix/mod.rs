//! Phoronix Test Suite: `composite.xml`, the results of one or several systems.

mod document;
mod scale;

use std::collections::HashMap;
use std::io::BufRead;

use fsb_model::set::Run;

use self::document::{Document, Entry, System, Test};
use self::scale::Scale;
use crate::draft::{Draft, MOST_REPETITIONS, MOST_RUNS, Name, Position, Runs, too_much};
use crate::error::ReadError;
use crate::lines::{holds, whole_text};
use crate::tool::Tool;

/// Reads composite.xml.
pub(crate) const TOOL: Tool = Tool {
    name: "phoronix",
    about: "composite.xml of the Phoronix Test Suite: bar graphs, each repetition, one set per system",
    looks_for: "the element <PhoronixTestSuite>",
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
    let damage = document.damage.map(|(line, why)| (line, format!("the XML is cut or damaged here ({why})")));
    if let (Some(draft), Some((line, text))) = (composite.drafts.first_mut(), &damage) {
        draft.remark(*line, format_args!("{text}; the results before it are read"));
    }
    for text in differences(&document.systems) {
        composite.drafts.iter_mut().take(1).for_each(|draft| draft.remark(None, &text));
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
}

impl Composite {
    /// Adds the repetitions of a test on one system. The first repetitions of all tests are one run, then the second
    /// ones, and so on, as in other tools that repeat their tests.
    fn take(&mut self, entry: &Entry, test: &Test) -> Result<(), ReadError> {
        let draft = self.draft(&entry.system, 0)?;
        if !test.is_bar_graph() {
            draft.remark_once(entry.line, &format!("{}: no bar graph; left out", test.title));
            return Ok(());
        }
        let Some(Scale { metric, factor, in_name }) = Scale::of(&test.scale, &test.proportion) else {
            let text = format!("{}: no direction for '{}'; left out", test.title, test.scale);
            draft.remark_once(entry.line, &text);
            return Ok(());
        };
        let (workload, operation) = test.name(in_name);
        let name = Name { workload: Some(&workload), operation: &operation };
        let place = Position { line: entry.line, ..Position::default() };
        for (repetition, text) in entry.values().enumerate() {
            let Some(value) = number(text) else {
                let text: String = text.chars().take(40).collect();
                let draft = self.draft(&entry.system, 0)?;
                draft.remark(entry.line, format_args!("{operation}: '{text}' is not a number; left out"));
                continue;
            };
            self.values += 1;
            if self.values > MOST_REPETITIONS {
                return Err(too_much(TOOL.name, MOST_REPETITIONS, "values"));
            }
            let value = scale::measured(value * factor, &metric);
            self.draft(&entry.system, repetition)?.add(name, &metric, &test.found_unit(), place, value)?;
        }
        Ok(())
    }

    fn draft(&mut self, system: &str, repetition: usize) -> Result<&mut Draft, ReadError> {
        let next = self.drafts.len();
        let place = *self.places.entry((system.to_owned(), repetition)).or_insert(next);
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
    let shaped = text.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    shaped.then(|| text.parse().ok()).flatten()
}

/// The property of a system that users compare systems for.
const FILE_SYSTEM: &str = "File-System";

/// The most properties that a warning names.
const NAMED: usize = 10;

/// Returns a warning for each system whose hardware or software differs from that of the first one. File systems may
/// differ.
fn differences(systems: &[System]) -> Vec<String> {
    let Some((first, others)) = systems.split_first() else { return Vec::new() };
    let mut texts = Vec::new();
    for other in others {
        let names = first.properties.keys().chain(other.properties.keys());
        let mut differ: Vec<&str> = names
            .filter(|name| *name != FILE_SYSTEM && first.properties.get(*name) != other.properties.get(*name))
            .map(String::as_str)
            .collect();
        differ.sort_unstable();
        differ.dedup();
        if !differ.is_empty() {
            let more = if differ.len() > NAMED { format!(" and {} more", differ.len() - NAMED) } else { String::new() };
            let named = differ.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            texts.push(format!("'{}' and '{}' differ in: {named}{more}", first.name, other.name));
        }
    }
    texts
}
